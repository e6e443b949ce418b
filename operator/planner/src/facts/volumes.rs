//! Volumes and folders: what ScavengerJobs share, and who waits for whom because of it.
//!
//! # Volumes
//!
//! Where PersistentVolumes let pods go: a claim that is bound brings the node affinity of its volume with it. An
//! ordinary pod with a claim that is not bound cannot be judged; a ScavengerJob with one may go anywhere, since the
//! volume will be bound where its pod is placed. While volumes cannot be listed, a claim whose volume is not known may be bound
//! all the same, so that ScavengerJob waits.
//!
//! A volume that one node at a time can mount (ReadWriteOnce) is attached where a pod that mounts it is. kube-scheduler
//! does not look at that, and a pod on another node never starts. So a ScavengerJob goes where its volume is attached; and
//! while another one that mounts it is starting, and so nobody knows yet where it will be attached, it waits. A volume that
//! one pod can mount (ReadWriteOncePod) is waited for. The pods of a gang that mount a volume of one node go to one node
//! together; it is the planner that chooses it, since kube-scheduler would choose for each pod alone. Of a claim whose volume
//! is made where its first pod goes, the start of that pod finds out what it asks for.
//!
//! # Folders
//!
//! Two ScavengerJobs that name the same folder never work at the same time.
//!
//! A folder is the value of a label on the ScavengerJob (`scavenger.dev/folder`), in its namespace. Whose pods are alive,
//! whose attempt is active, or who is promised capacity, uses it; all others wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::values::{Access, Key, Name, NodeTerm, Pod, ScavengerJob, Volume};

/// The volumes that are bound, and who asked for their claims.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// The claim that each volume is bound to.
    claims: BTreeMap<Name, Key>,
    /// The volume that each claim is bound to.
    bound: BTreeMap<Key, Bound>,
    /// What claims ask for that have no volume yet, if one node or one pod can mount it.
    fresh: BTreeMap<Key, Access>,
    /// The pods on nodes that mount each claim and have not ended.
    mounts: BTreeMap<Key, BTreeMap<Name, Mount>>,
    /// The claims that each of these pods mounts.
    mounting: BTreeMap<Key, Vec<Name>>,
    /// Claims of which a pod began or ceased to mount them since [`Self::take_moved`].
    moved: BTreeSet<Key>,
    /// ScavengerJobs that mount each claim and have not ended.
    scavenger_jobs: BTreeMap<Key, BTreeSet<Key>>,
    /// Ordinary pods that wait and mount claims, as they were seen.
    waiting: BTreeMap<Key, Pod>,
    /// True while volumes cannot be listed or watched, so that some may be missing here.
    may_be_missing: bool,
}

/// What is known of the volume that a claim is bound to.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    volume: Name,
    /// Its required node affinity; every node if there is no term.
    affinity: Vec<NodeTerm>,
    access: Access,
}

/// Why a ScavengerJob cannot start because of a claim that it mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimWait {
    /// Somebody else mounts its volume; the sentence says who.
    InUse(String),
    /// Its volume is not known, and volumes cannot be listed.
    Unknown(Name),
}

/// A pod on a node that mounts a claim.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    node: Name,
    /// UID of its ScavengerJob, if it belongs to one.
    owner: Option<Name>,
}

impl Volumes {
    /// Takes in which claims a pod mounts, and where.
    pub(super) fn note_pod(&mut self, pod: &Pod) {
        let node = pod.node.as_ref().filter(|_| !pod.phase.is_terminal());
        if self.mounting.get(&pod.key).is_some_and(|before| *before != pod.claims) {
            // Another pod had its name.
            self.unmount(&pod.key);
        }
        for claim in &pod.claims {
            let claim = Key::new(pod.key.namespace.clone(), claim.clone());
            let mount = node.map(|node| Mount {
                node: node.clone(),
                owner: pod.owner.as_ref().map(|(owner, _)| owner.clone()),
            });
            self.set_mount(claim, &pod.key.name, mount);
        }
        if node.is_some() && !pod.claims.is_empty() {
            self.mounting.insert(pod.key.clone(), pod.claims.clone());
        }
    }

    fn set_mount(&mut self, claim: Key, pod: &Name, mount: Option<Mount>) {
        let pods = self.mounts.entry(claim.clone()).or_default();
        let changed = match mount {
            Some(mount) if pods.get(pod) == Some(&mount) => false,
            Some(mount) => {
                pods.insert(pod.clone(), mount);
                true
            }
            None => pods.remove(pod).is_some(),
        };
        if pods.is_empty() {
            self.mounts.remove(&claim);
        }
        if changed && self.limit(&claim).is_some() {
            self.moved.insert(claim);
        }
    }

    /// A pod mounts nothing any more.
    fn unmount(&mut self, pod: &Key) {
        for claim in self.mounting.remove(pod).unwrap_or_default() {
            self.set_mount(Key::new(pod.namespace.clone(), claim), &pod.name, None);
        }
    }

    /// How many can mount the volume of a claim, or the one that it asks for; none if as many as like.
    pub(super) fn limit(&self, claim: &Key) -> Option<Access> {
        let access = match self.bound.get(claim) {
            Some(bound) => bound.access,
            None => *self.fresh.get(claim)?,
        };
        (access != Access::ManyNodes).then_some(access)
    }

    /// Claims whose volume may have been attached or detached since this was called last.
    pub(crate) fn take_moved(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.moved).into_iter().collect()
    }

    /// The claims of a ScavengerJob that only one node or pod can mount, and the pods of others that do.
    fn limited_claims<'a>(
        &'a self,
        sj: &'a ScavengerJob,
    ) -> impl Iterator<Item = (Key, Access, Vec<(&'a Name, &'a Mount)>)> {
        let claims = sj.spec.iter().flat_map(|spec| &spec.claims);
        claims.filter_map(|claim| {
            let claim = Key::new(sj.key.namespace.clone(), claim.clone());
            let access = self.limit(&claim)?;
            let pods = self.mounts.get(&claim).into_iter().flatten();
            let others = pods.filter(|(_, mount)| mount.owner.as_ref() != Some(&sj.uid));
            let others = others.collect();
            Some((claim, access, others))
        })
    }

    /// The nodes to which a volume of a ScavengerJob is attached, if it can be mounted nowhere else.
    fn attached(&self, sj: &ScavengerJob) -> Option<NodeTerm> {
        let on_one_node = self.limited_claims(sj).filter(|(_, access, _)| *access == Access::OneNode);
        let mut attached: Option<BTreeSet<Name>> = None;
        for (_, _, mounts) in on_one_node.filter(|(.., mounts)| !mounts.is_empty()) {
            let nodes: BTreeSet<Name> = mounts.into_iter().map(|(_, mount)| mount.node.clone()).collect();
            attached = Some(match attached {
                Some(attached) => attached.intersection(&nodes).cloned().collect(),
                None => nodes,
            });
        }
        attached.map(|nodes| NodeTerm::nodes(nodes.into_iter().collect()))
    }

    /// Why a ScavengerJob cannot start yet because of a claim that it mounts. `starting` are others that are starting.
    pub(crate) fn keeps_waiting<'a>(
        &self,
        sj: &ScavengerJob,
        starting: impl Iterator<Item = &'a ScavengerJob>,
    ) -> Option<ClaimWait> {
        let claims = sj.spec.as_ref().map(|spec| spec.claims.as_slice()).unwrap_or_default();
        let is_unknown =
            |claim: &&Name| !self.bound.contains_key(&Key::new(sj.key.namespace.clone(), (*claim).clone()));
        if self.may_be_missing
            && let Some(claim) = claims.iter().find(is_unknown)
        {
            return Some(ClaimWait::Unknown(claim.clone()));
        }
        let mut unattached: Vec<Key> = Vec::new();
        let pod_count = sj.spec.as_ref().map_or(1, |spec| spec.demand.pod_count);
        for (claim, access, mounts) in self.limited_claims(sj) {
            match (access, mounts.first()) {
                (Access::OnePod, _) if pod_count > 1 => {
                    let claim = &claim.name;
                    return Some(ClaimWait::InUse(format!(
                        "PersistentVolumeClaim {claim:?} can be mounted by one pod, and this ScavengerJob has {pod_count}; \
                         waits until its access mode is another, or its podCount 1"
                    )));
                }
                (Access::OnePod, Some((pod, _))) => {
                    let claim = &claim.name;
                    return Some(ClaimWait::InUse(format!(
                        "PersistentVolumeClaim {claim:?} can be mounted by one pod, and pod {pod} mounts it; waits until \
                         that pod has ended"
                    )));
                }
                (Access::OneNode, Some(_)) | (Access::ManyNodes, _) => {}
                (Access::OneNode | Access::OnePod, None) => unattached.push(claim),
            }
        }
        if unattached.is_empty() {
            return None;
        }
        for other in starting.filter(|other| other.key.namespace == sj.key.namespace) {
            let claims = other.spec.iter().flat_map(|spec| &spec.claims);
            for claim in claims {
                if unattached.iter().any(|unattached| unattached.name == *claim) {
                    let other = &other.key.name;
                    return Some(ClaimWait::InUse(format!(
                        "PersistentVolumeClaim {claim:?} can be mounted on one node; waits until ScavengerJob {other}, \
                         which mounts it too, has a node"
                    )));
                }
            }
        }
        None
    }

    /// The claims of a ScavengerJob that only one node or pod can mount, and that none does yet.
    pub(super) fn to_attach(&self, sj: &ScavengerJob) -> Vec<Key> {
        let free = self.limited_claims(sj).filter(|(_, access, mounts)| match access {
            Access::ManyNodes => false,
            Access::OneNode => mounts.is_empty(),
            Access::OnePod => true,
        });
        free.map(|(claim, ..)| claim).collect()
    }

    /// The claims of a ScavengerJob that are not bound to a volume that is known.
    pub(crate) fn unbound(&self, sj: &ScavengerJob) -> Vec<Name> {
        let claims = sj.spec.as_ref().map(|spec| spec.claims.as_slice()).unwrap_or_default();
        self.demands(&sj.key.namespace, claims).1
    }

    /// What the volumes of these claims demand of a node, and the claims that are not bound.
    fn demands(&self, namespace: &Name, claims: &[Name]) -> (Vec<Vec<NodeTerm>>, Vec<Name>) {
        let (mut terms, mut unbound) = (Vec::new(), Vec::new());
        for claim in claims {
            match self.bound.get(&Key::new(namespace.clone(), claim.clone())) {
                Some(Bound { affinity, .. }) if affinity.is_empty() => {}
                // Several claims of one node's volumes demand the same.
                Some(Bound { affinity, .. }) if terms.contains(affinity) => {}
                Some(Bound { affinity, .. }) => terms.push(affinity.clone()),
                None => unbound.push(claim.clone()),
            }
        }
        (terms, unbound)
    }

    /// Takes in what the volumes of its claims demand of a ScavengerJob's nodes.
    pub(crate) fn place_sj(&mut self, sj: &mut ScavengerJob) {
        let ended = sj.status.phase.is_finished();
        let Ok(spec) = &sj.spec else { return };
        if spec.claims.is_empty() {
            return;
        }
        let volumes = self.demands(&sj.key.namespace, &spec.claims).0;
        let attached = self.attached(sj);
        let is_of_one_node = |(_, access, _): (Key, Access, Vec<_>)| access == Access::OneNode;
        let one_node = spec.demand.pod_count > 1 && self.limited_claims(sj).any(is_of_one_node);
        let Ok(spec) = &mut sj.spec else { return };
        let placement = &mut Arc::make_mut(&mut spec.demand).placement;
        (placement.volumes, placement.attached, placement.one_node) = (volumes, attached, one_node);
        for claim in &spec.claims {
            let claim = Key::new(sj.key.namespace.clone(), claim.clone());
            if !ended {
                self.scavenger_jobs.entry(claim).or_default().insert(sj.key.clone());
            } else if let Some(scavenger_jobs) = self.scavenger_jobs.get_mut(&claim) {
                scavenger_jobs.remove(&sj.key);
            }
        }
    }

    /// Forgets a ScavengerJob in this version.
    pub(crate) fn forget_sj(&mut self, sj: &ScavengerJob) {
        for claim in sj.spec.iter().flat_map(|spec| &spec.claims) {
            let claim = Key::new(sj.key.namespace.clone(), claim.clone());
            if let Some(scavenger_jobs) = self.scavenger_jobs.get_mut(&claim) {
                scavenger_jobs.remove(&sj.key);
                if scavenger_jobs.is_empty() {
                    self.scavenger_jobs.remove(&claim);
                }
            }
        }
    }

    /// Takes in what the volumes of its claims demand of an ordinary pod's node.
    pub(super) fn place_pod(&mut self, pod: &mut Pod) {
        if pod.claims.is_empty() || pod.node.is_some() || pod.phase.is_terminal() {
            self.waiting.remove(&pod.key);
            return;
        }
        self.waiting.insert(pod.key.clone(), pod.clone());
        let (terms, unbound) = self.demands(&pod.key.namespace, &pod.claims);
        pod.placement.volumes = terms;
        let unbound =
            unbound.iter().map(|claim| format!("PersistentVolumeClaim {claim} is not bound").into());
        pod.unjudged.extend(unbound);
    }

    pub(crate) fn forget_pod(&mut self, pod: &Key) {
        self.waiting.remove(pod);
        self.unmount(pod);
    }

    /// Forgets a volume, and returns the claim that it was bound to. A claim of that name may be bound to another one
    /// by now.
    pub(crate) fn remove(&mut self, volume: &Name) -> Option<Key> {
        let claim = self.claims.remove(volume)?;
        if self.bound.get(&claim)?.volume != *volume {
            return None;
        }
        self.bound.remove(&claim);
        Some(claim)
    }

    /// Takes in a volume, and returns the claims of which something changed.
    pub(crate) fn set(&mut self, volume: Volume) -> Vec<Key> {
        let Volume { name, claim, affinity, access } = volume;
        let bound = Bound { volume: name.clone(), affinity, access };
        if claim.is_some()
            && self.claims.get(&name) == claim.as_ref()
            && claim.as_ref().and_then(|claim| self.bound.get(claim)) == Some(&bound)
        {
            return Vec::new();
        }
        let mut changed: Vec<Key> = self.remove(&name).into_iter().collect();
        if let Some(claim) = claim {
            self.claims.insert(name, claim.clone());
            self.fresh.remove(&claim);
            self.bound.insert(claim.clone(), bound);
            changed.push(claim);
        }
        changed
    }

    /// Takes in what a claim asks for that has no volume yet, and returns it if that is news.
    pub(super) fn set_fresh(&mut self, claim: Key, access: Access) -> Option<Key> {
        let is_news = !self.bound.contains_key(&claim) && self.fresh.get(&claim) != Some(&access);
        if !is_news || access == Access::ManyNodes {
            return None;
        }
        self.fresh.insert(claim.clone(), access);
        Some(claim)
    }

    /// Takes in whether every volume is known, and returns true if that changed.
    pub(super) fn set_known(&mut self, known: bool) -> bool {
        std::mem::replace(&mut self.may_be_missing, !known) == known
    }

    /// The ScavengerJobs that mount claims and have not ended.
    pub(super) fn mounting_scavenger_jobs(&self) -> Vec<Key> {
        let all: BTreeSet<&Key> = self.scavenger_jobs.values().flatten().collect();
        all.into_iter().cloned().collect()
    }

    /// The ScavengerJobs that mount a claim and have not ended.
    pub(super) fn scavenger_jobs_with(&self, claim: &Key) -> Vec<Key> {
        self.scavenger_jobs.get(claim).into_iter().flatten().cloned().collect()
    }

    /// The ordinary pods that wait and mount a claim, as they were seen.
    pub(super) fn waiting_with(&self, claim: &Key) -> Vec<Pod> {
        let uses = |pod: &&Pod| pod.key.namespace == claim.namespace && pod.claims.contains(&claim.name);
        self.waiting.values().filter(uses).cloned().collect()
    }
}

/// How far a ScavengerJob has come with its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Not at all.
    None,
    /// Capacity is promised to it, and it is being prepared.
    Promised,
    /// An attempt is active, or pods of it are left.
    Active,
}

/// Which ScavengerJobs name which folder, and who uses it.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// By namespace and folder; for most folders this is one.
    named_by: BTreeMap<(Name, Name), BTreeMap<Key, Use>>,
    folder_of: BTreeMap<Key, Name>,
}

impl Folders {
    /// Takes in how far a ScavengerJob has come with its folder. Returns those for which that makes a difference.
    pub(crate) fn set(&mut self, key: &Key, folder: Option<&Name>, uses: Use) -> Vec<Key> {
        let mut others = Vec::new();
        if self.folder_of.get(key) != folder {
            others = self.forget(key);
        }
        let Some(folder) = folder else { return others };
        self.folder_of.insert(key.clone(), folder.clone());
        let all = self.named_by.entry((key.namespace.clone(), folder.clone())).or_default();
        if all.insert(key.clone(), uses).is_none_or(|before| before != uses) {
            others.extend(all.keys().filter(|other| *other != key).cloned());
        }
        others
    }

    /// Forgets a ScavengerJob that is gone. Returns those that may go on.
    pub(crate) fn forget(&mut self, key: &Key) -> Vec<Key> {
        let Some(folder) = self.folder_of.remove(key) else { return Vec::new() };
        let folder = (key.namespace.clone(), folder);
        let Some(all) = self.named_by.get_mut(&folder) else { return Vec::new() };
        all.remove(key);
        let others = all.keys().cloned().collect();
        if all.is_empty() {
            self.named_by.remove(&folder);
        }
        others
    }

    /// The ScavengerJob for which this one waits, because it names the same folder.
    pub(crate) fn user_beside(&self, key: &Key) -> Option<&Key> {
        let all = self.named_by.get(&(key.namespace.clone(), self.folder_of.get(key)?.clone()))?;
        let own = all.get(key)?;
        let waits_for = |uses: Use| match uses {
            Use::None => false,
            Use::Promised => *own == Use::None,
            Use::Active => *own != Use::Active,
        };
        all.iter().find(|(other, uses)| *other != key && waits_for(**uses)).map(|(other, _)| other)
    }
}
