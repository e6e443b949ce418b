//! The start of an attempt, step by step: what must be known before it, and the Job that is it.

use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount},
};
use kube::{
    Resource, ResourceExt,
    api::{GetParams, PostParams},
};
use scavenger_planner::{
    action::{Answer, Failure},
    values::{Access, ByUse, Confinement, Key, Name, Supervisor},
};
use scavenger_program::objects::Objects;
use scavenger_schema::{names, scavenger_job::ScavengerJob};

use super::{
    Executor, Outcome,
    errors::{failure, refusal},
};
use crate::{manifest, observe::convert};

/// The Job that is wanted for an attempt.
pub(super) struct Wanted {
    pub(super) attempt: u32,
    pub(super) priority_class: u32,
    pub(super) confinement: Box<Confinement>,
    pub(super) supervisor: Option<Box<Supervisor>>,
    pub(super) by_use: Option<ByUse>,
}

/// Kind and name of what does not exist.
type Missing = Vec<(String, String)>;

/// Claims that have no volume yet, and how many will be able to mount that at a time.
type Claims = Vec<(Name, Access)>;

impl Executor {
    pub(super) async fn prepare(&self, key: &Key, uid: &str, version: u64) -> Outcome {
        let mut sj = self.get_since(key, uid, Some(version)).await?;
        if !sj.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER) {
            let mut finalizers = sj.finalizers().to_vec();
            finalizers.push(names::FINALIZER.to_owned());
            sj = self.patch_finalizers(&sj, key, finalizers).await?;
        }
        let (pods_left, folder_pod, (missing, claims)) = tokio::try_join!(
            self.pods_left_of_name(key),
            self.pod_in_folder(key, uid, sj.labels().get(names::LABEL_FOLDER)),
            self.look_up(key, &sj)
        )?;
        let sj_seen = Box::new(convert::sj(&sj));
        let answer = Answer::Prepared { sj: sj_seen, pods_left, folder_pod, missing, claims };
        self.kept.keep(sj);
        Ok(answer)
    }

    /// What the spec refers to and does not exist, and the claims that have no volume yet. Secrets are not looked up: the
    /// right to see whether one exists is the right to read it. The kubelet tells.
    async fn look_up(&self, key: &Key, sj: &ScavengerJob) -> Result<(Missing, Claims), Failure> {
        let (mut missing, mut claims) = (Vec::new(), Vec::new());
        for claim in &sj.spec.persistent_volume_claims {
            self.look_at_claim(key, &claim.claim_name, &mut missing, &mut claims).await?;
        }
        let of_variables = sj.spec.env.iter().filter_map(|variable| {
            let key = variable.value_from.as_ref()?.config_map_key_ref.as_ref()?;
            (key.optional != Some(true)).then_some(&key.name)
        });
        for map in sj.spec.config_maps.iter().map(|map| &map.name).chain(of_variables) {
            self.look::<ConfigMap>(key, map, &mut missing).await?;
        }
        self.look::<ServiceAccount>(key, manifest::service_account(&sj.spec), &mut missing).await?;
        Ok((missing, claims))
    }

    /// A claim is read as a whole: while it has no volume, it alone says how many will be able to mount that.
    async fn look_at_claim(
        &self,
        key: &Key,
        name: &str,
        missing: &mut Missing,
        claims: &mut Claims,
    ) -> Result<(), Failure> {
        let entry = ("PersistentVolumeClaim".to_owned(), name.to_owned());
        let access = match self.found.recent(&key.namespace, &entry) {
            _ if missing.contains(&entry) => return Ok(()),
            Some(access) => access,
            None => {
                let api = self.api::<PersistentVolumeClaim>(key);
                let at_hand = match api.get_with(name, &GetParams::any()).await.map_err(failure) {
                    Err(Failure::Gone) => api.get_opt(name).await.map_err(failure)?,
                    read => Some(read?),
                };
                let Some(claim) = at_hand else {
                    missing.push(entry);
                    return Ok(());
                };
                let access = convert::access_without_volume(&claim);
                self.found.note(&key.namespace, entry, access);
                access
            }
        };
        claims.extend(access.map(|access| (name.into(), access)));
        Ok(())
    }

    async fn look<K>(&self, key: &Key, name: &str, missing: &mut Missing) -> Result<(), Failure>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let entry = (K::kind(&K::DynamicType::default()).into_owned(), name.to_owned());
        if missing.contains(&entry) || self.found.recent(&key.namespace, &entry).is_some() {
            return Ok(());
        }
        // What the API server has at hand, or had a moment ago, may be old. If it goes that very moment, the pod will tell;
        // that it is missing must be true.
        let api = self.api::<K>(key);
        let at_hand = api.get_metadata_opt_with(name, &GetParams::any()).await.map_err(failure)?;
        if at_hand.is_none() && api.get_metadata_opt(name).await.map_err(failure)?.is_none() {
            missing.push(entry);
        } else {
            self.found.note(&key.namespace, entry, None);
        }
        Ok(())
    }

    pub(super) async fn create_job(&self, key: &Key, uid: &str, wanted: Wanted) -> Outcome {
        let Wanted { attempt, priority_class, confinement, supervisor, by_use } = wanted;
        // Its spec cannot have changed since Starting was written, whatever version this is.
        let sj = match self.kept.take(uid) {
            Some(sj) => sj,
            None => self.get(key, uid).await?,
        };
        if sj.spec.pod_count > 1 {
            self.create_service(key, &sj, uid).await?;
        }
        let supervision = supervisor.as_deref().map(|supervisor| (supervisor, &self.manifests));
        let wanted = manifest::job(&sj, attempt, priority_class, &confinement, supervision, by_use);
        let name = names::job(&key.name, attempt);
        let api = Objects::<BatchJob>::namespaced(self.once.clone(), &key.namespace);
        self.must_lead()?;
        let made = match api.create(&PostParams::default(), &wanted).await {
            Ok(made) => made,
            Err(kube::Error::Api(error)) if error.is_already_exists() => {
                let existing = api.get(&name).await.map_err(failure)?;
                // Made for another pool or by another version of the operator it is still the Job of this attempt.
                if !manifest::is_of_attempt(&existing, uid, attempt) {
                    // The Job of a ScavengerJob that was deleted and made again goes a moment after it.
                    if existing.owner_references().iter().any(|owner| owner.kind == "ScavengerJob") {
                        return Err(Failure::Transient(format!(
                            "Job {name:?} of an earlier ScavengerJob is still there"
                        )));
                    }
                    return Err(Failure::NameTaken(format!(
                        "Job {name:?} exists in namespace {:?} and is not this ScavengerJob's; delete or rename it",
                        &*key.namespace
                    )));
                }
                existing
            }
            Err(error) => return Err(refusal(error)),
        };
        // For the status Running.
        self.kept.keep(sj);
        convert::job(&made).map(|job| Answer::Job(job.into())).ok_or_else(|| {
            Failure::Transient(format!("Job {name:?} came back without the operator's labels"))
        })
    }

    pub(super) async fn create_service(
        &self,
        key: &Key,
        sj: &ScavengerJob,
        uid: &str,
    ) -> Result<(), Failure> {
        let wanted = manifest::service(sj);
        let name = wanted.name_any();
        let api = self.api::<Service>(key);
        // All attempts but the first find it; what the API server has at hand is enough to know.
        let at_hand = api.get_metadata_opt_with(&name, &GetParams::any()).await.map_err(failure)?;
        if at_hand.is_some_and(|service| service.owner_references().iter().any(|owner| owner.uid == uid)) {
            return Ok(());
        }
        match api.create(&PostParams::default(), &wanted).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(error)) if error.is_already_exists() => {
                let existing = api.get(&name).await.map_err(failure)?;
                if existing.owner_references().iter().any(|reference| reference.uid == uid) {
                    return Ok(());
                }
                // The Service of a ScavengerJob that was deleted and made again goes a moment after it.
                if existing.owner_references().iter().any(|reference| reference.kind == "ScavengerJob") {
                    return Err(Failure::Transient(format!(
                        "Service {name:?} of an earlier ScavengerJob is still there"
                    )));
                }
                Err(Failure::NameTaken(format!(
                    "Service {name:?} exists in namespace {:?} and is not this ScavengerJob's; delete or rename it",
                    &*key.namespace
                )))
            }
            Err(error) => Err(refusal(error)),
        }
    }
}
