//! What the checks look at.

use anyhow::Context;
use jiff::SignedDuration;
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
        core::v1::{
            LimitRange, Namespace, PersistentVolume, PersistentVolumeClaim, ResourceQuota, Secret,
            ServiceAccount,
        },
        networking::v1::NetworkPolicy,
        node::v1::RuntimeClass,
        scheduling::v1::PriorityClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, Resource,
    api::{ListParams, PostParams},
};
use scavenger_planner::values::{Accounting, ByUse, Supervisor};
use scavenger_program::objects::Objects;
use scavenger_schema::{
    names,
    scavenger_job::ScavengerJob,
    scavenger_pool::{ScavengerPool, ScavengerPoolSpec},
};
use serde::de::DeserializeOwned;

use super::rights::{self, Right};

/// What could be read, or what the user lacks the right to read.
pub(super) type Read<T> = Result<T, String>;

/// Everything that is looked at.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) now: Timestamp,
    /// Major and minor version of Kubernetes.
    pub(super) version: (String, String),
    /// The definitions that the operator needs, each with its name; none if it is not there.
    pub(super) definitions: Vec<(String, Read<Option<CustomResourceDefinition>>)>,
    pub(super) karpenter: bool,
    pub(super) pool: Read<Option<ScavengerPool>>,
    pub(super) policies: Read<Vec<ValidatingAdmissionPolicy>>,
    pub(super) bindings: Read<Vec<ValidatingAdmissionPolicyBinding>>,
    pub(super) priority_classes: Read<Vec<PriorityClass>>,
    pub(super) runtime_classes: Read<Vec<RuntimeClass>>,
    pub(super) operator_namespace: Read<Option<Namespace>>,
    pub(super) namespace: Read<Option<Namespace>>,
    pub(super) limit_ranges: Read<Vec<LimitRange>>,
    pub(super) quotas: Read<Vec<ResourceQuota>>,
    pub(super) service_accounts: Read<Vec<ServiceAccount>>,
    /// Names of the Secrets.
    pub(super) secrets: Read<Vec<String>>,
    pub(super) claims: Read<Vec<PersistentVolumeClaim>>,
    /// Those to which the claims are bound.
    pub(super) volumes: Read<Vec<PersistentVolume>>,
    pub(super) network_policies: Read<Vec<NetworkPolicy>>,
    /// Whether this user has each right.
    pub(super) rights: Vec<(Right, bool)>,
}

impl Seen {
    /// How pods are made whose capacity is counted by use, if the pool counts some nodes so.
    pub(super) fn by_use(&self) -> Option<ByUse> {
        let spec = &self.pool.as_ref().ok()?.as_ref()?.spec;
        let longest = SignedDuration::from_secs(spec.usage.max_termination_grace_period_seconds);
        let is_so = spec.accounting == Accounting::Usage && !spec.usage.dry_run;
        is_so.then_some(ByUse { grace_period: longest })
    }

    /// The supervisor of the pool, if it has one under which a ScavengerJob runs.
    pub(super) fn supervisor_of(&self, sj: &ScavengerJob) -> Option<Supervisor> {
        supervisor(&self.pool.as_ref().ok()?.as_ref()?.spec, sj)
    }
}

fn supervisor(pool: &ScavengerPoolSpec, sj: &ScavengerJob) -> Option<Supervisor> {
    let supervisor = scavenger_specs::supervisor(pool)?;
    let wish = sj.spec.supervisor.as_ref().and_then(|wish| wish.enabled);
    wish.unwrap_or(supervisor.by_default).then_some(supervisor)
}

pub(super) async fn everything(
    client: &Client,
    namespace: &str,
    operator_namespace: &str,
) -> anyhow::Result<Seen> {
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    let crds: Objects<CustomResourceDefinition> = Objects::all(client.clone());
    let mut definitions = Vec::new();
    for plural in ["scavengerjobs", "scavengerpools"] {
        let name = format!("{plural}.{}", names::GROUP);
        definitions.push((name.clone(), one(&crds, &name).await?));
    }
    let karpenter = one(&crds, "nodepools.karpenter.sh").await?;
    let mut had = Vec::new();
    for right in rights::OF_USER {
        had.push((right, may(client, namespace, right).await?));
    }
    let namespaces: Objects<Namespace> = Objects::all(client.clone());
    let claims = list(within(client, namespace)).await?;
    let volumes = volumes(client, &claims).await?;
    Ok(Seen {
        now: now(),
        version: (version.major, version.minor),
        definitions,
        karpenter: karpenter.is_ok_and(|found| found.is_some()),
        pool: match one(&Objects::all(client.clone()), names::DEFAULT_POOL).await {
            // Without the definition there is no pool.
            Err(error) if is_not_found(&error) => Ok(None),
            read => read?,
        },
        policies: list(Objects::all(client.clone())).await?,
        bindings: list(Objects::all(client.clone())).await?,
        priority_classes: list(Objects::all(client.clone())).await?,
        runtime_classes: list(Objects::all(client.clone())).await?,
        operator_namespace: one(&namespaces, operator_namespace).await?,
        namespace: one(&namespaces, namespace).await?,
        limit_ranges: list(within(client, namespace)).await?,
        quotas: list(within(client, namespace)).await?,
        service_accounts: list(within(client, namespace)).await?,
        secrets: secrets(client, namespace).await?,
        claims,
        volumes,
        network_policies: list(within(client, namespace)).await?,
        rights: had,
    })
}

fn within<K>(client: &Client, namespace: &str) -> Objects<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    Objects::namespaced(client.clone(), namespace)
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.is_not_found())
}

/// An object; none if it is not there.
async fn one<K>(api: &Objects<K>, name: &str) -> anyhow::Result<Read<Option<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    readable::<K, _>(api.get_opt(name).await)
}

/// All objects of a kind.
async fn list<K>(api: Objects<K>) -> anyhow::Result<Read<Vec<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    readable::<K, _>(api.list(&ListParams::default()).await.map(|list| list.items))
}

/// The volumes to which claims are bound, one request for each: a cluster can have many more.
async fn volumes(
    client: &Client,
    claims: &Read<Vec<PersistentVolumeClaim>>,
) -> anyhow::Result<Read<Vec<PersistentVolume>>> {
    let api: Objects<PersistentVolume> = Objects::all(client.clone());
    let mut volumes = Vec::new();
    for claim in claims.iter().flatten() {
        let Some(name) = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) else { continue };
        match one(&api, name).await? {
            Ok(volume) => volumes.extend(volume),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(volumes))
}

/// Names of the Secrets: their metadata is asked for, so that no content is sent.
async fn secrets(client: &Client, namespace: &str) -> anyhow::Result<Read<Vec<String>>> {
    let api: Objects<Secret> = within(client, namespace);
    let names = api.list_metadata(&ListParams::default()).await.map(|list| {
        list.items.into_iter().filter_map(|secret| secret.metadata.name).collect::<Vec<String>>()
    });
    readable::<Secret, _>(names)
}

/// What the user may not read is an answer; whatever else goes wrong is an error.
fn readable<K: Resource<DynamicType = ()>, T>(answer: kube::Result<T>) -> anyhow::Result<Read<T>> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Ok(Err(format!("this user may not read {}", K::plural(&()))))
        }
        Err(error) => Err(error).with_context(|| format!("{} could not be read", K::plural(&()))),
    }
}

/// Whether this user has a right in the namespace.
async fn may(client: &Client, namespace: &str, right: Right) -> anyhow::Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                group: Some(right.group.to_owned()),
                resource: Some(right.resource.to_owned()),
                subresource: (!right.subresource.is_empty()).then(|| right.subresource.to_owned()),
                verb: Some(right.verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer: SelfSubjectAccessReview = Objects::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .context("the API server could not be asked for the rights of this user")?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[expect(clippy::disallowed_methods, reason = "the edge: whether a status is fresh is a question of now")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
impl Seen {
    /// An empty namespace of a cluster in which nothing is installed.
    pub(super) fn nothing() -> Self {
        Self {
            now: Timestamp::UNIX_EPOCH,
            version: ("1".to_owned(), "36".to_owned()),
            definitions: Vec::new(),
            karpenter: false,
            pool: Ok(None),
            policies: Ok(Vec::new()),
            bindings: Ok(Vec::new()),
            priority_classes: Ok(Vec::new()),
            runtime_classes: Ok(Vec::new()),
            operator_namespace: Ok(None),
            namespace: Ok(Some(Namespace::default())),
            limit_ranges: Ok(Vec::new()),
            quotas: Ok(Vec::new()),
            service_accounts: Ok(Vec::new()),
            secrets: Ok(Vec::new()),
            claims: Ok(Vec::new()),
            volumes: Ok(Vec::new()),
            network_policies: Ok(Vec::new()),
            rights: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::trial::small, *};

    #[test]
    fn a_supervisor_counts_for_those_who_run_under_it() {
        let pool = |supervisor: Value| -> ScavengerPoolSpec {
            let pool: ScavengerPool = serde_json::from_value(json!({
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                "spec": { "supervisor": supervisor },
            }))
            .unwrap();
            pool.spec
        };
        let mut wishes = small();
        wishes.spec.supervisor = Some(serde_json::from_value(json!({ "enabled": true })).unwrap());
        let mut refuses = small();
        refuses.spec.supervisor = Some(serde_json::from_value(json!({ "enabled": false })).unwrap());
        for (default, expected) in [("On", [true, true, false]), ("Off", [false, true, false])] {
            let pool = pool(json!({ "image": "supervisor:1", "default": default }));
            let runs = [&small(), &wishes, &refuses].map(|sj| supervisor(&pool, sj).is_some());
            assert_eq!(runs, expected, "{default}");
        }
    }
}
