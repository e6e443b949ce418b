//! Where PersistentVolumes let pods go: a claim that is bound brings the node affinity of its volume with it. An
//! ordinary pod with a claim that is not bound can not be judged; a ScavengerJob with one may go anywhere, since the
//! volume will be bound where its pod is placed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::values::{Key, Name, NodeTerm, Pod, ScavengerJob, Volume};

/// The volumes that are bound, and who asked for their claims.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// The claim that each volume is bound to.
    claims: BTreeMap<Name, Key>,
    /// Required node affinity of the volume that each claim is bound to; every node if there is no term.
    affinities: BTreeMap<Key, Vec<NodeTerm>>,
    /// ScavengerJobs that mount each claim and have not ended.
    scavenger_jobs: BTreeMap<Key, BTreeSet<Key>>,
    /// Ordinary pods that wait and mount claims, as they were seen.
    waiting: BTreeMap<Key, Pod>,
}

impl Volumes {
    /// What the volumes of these claims demand of a node, and the claims that are not bound.
    fn demands(&self, namespace: &Name, claims: &[Name]) -> (Vec<Vec<NodeTerm>>, Vec<Name>) {
        let (mut terms, mut unbound) = (Vec::new(), Vec::new());
        for claim in claims {
            match self.affinities.get(&Key::new(namespace.clone(), claim.clone())) {
                Some(affinity) if affinity.is_empty() => {}
                // Several claims of one node's volumes demand the same.
                Some(affinity) if terms.contains(affinity) => {}
                Some(affinity) => terms.push(affinity.clone()),
                None => unbound.push(claim.clone()),
            }
        }
        (terms, unbound)
    }

    /// Takes in what the volumes of its claims demand of a ScavengerJob's nodes.
    pub(crate) fn place_sj(&mut self, sj: &mut ScavengerJob) {
        let ended = sj.status.phase.is_finished();
        let Ok(spec) = &mut sj.spec else { return };
        if spec.claims.is_empty() {
            return;
        }
        Arc::make_mut(&mut spec.demand).placement.volumes = self.demands(&sj.key.namespace, &spec.claims).0;
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
    pub(crate) fn place_pod(&mut self, pod: &mut Pod) {
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

    /// Forgets an ordinary pod.
    pub(crate) fn forget_pod(&mut self, pod: &Key) {
        self.waiting.remove(pod);
    }

    /// Forgets a volume, and returns the claim that it was bound to.
    pub(crate) fn remove(&mut self, volume: &Name) -> Option<Key> {
        let claim = self.claims.remove(volume)?;
        self.affinities.remove(&claim);
        Some(claim)
    }

    /// Takes in a volume, and returns the claims of which something changed.
    pub(crate) fn set(&mut self, volume: Volume) -> Vec<Key> {
        if let (Some(claim), Some(known)) = (&volume.claim, self.claims.get(&volume.name))
            && claim == known
            && self.affinities.get(claim) == Some(&volume.affinity)
        {
            return Vec::new();
        }
        let mut changed: Vec<Key> = self.remove(&volume.name).into_iter().collect();
        if let Some(claim) = volume.claim {
            self.claims.insert(volume.name, claim.clone());
            self.affinities.insert(claim.clone(), volume.affinity);
            changed.push(claim);
        }
        changed
    }

    /// The ScavengerJobs that mount a claim and have not ended.
    pub(crate) fn scavenger_jobs_with(&self, claim: &Key) -> Vec<Key> {
        self.scavenger_jobs.get(claim).into_iter().flatten().cloned().collect()
    }

    /// The ordinary pods that wait and mount a claim, as they were seen.
    pub(crate) fn waiting_with(&self, claim: &Key) -> Vec<Pod> {
        let uses = |pod: &&Pod| pod.key.namespace == claim.namespace && pod.claims.contains(&claim.name);
        self.waiting.values().filter(uses).cloned().collect()
    }
}
