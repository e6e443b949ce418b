//! What a test asks about the cluster.

use super::{cluster::Cluster, key};
use scavenger_planner::values::{Job, Node, Pod, ScavengerJob, ScavengerJobStatus, WaitingReason};

impl Cluster {
    /// Status of a ScavengerJob as the API server has it.
    ///
    /// # Panics
    /// If there is no such ScavengerJob.
    #[must_use]
    pub fn status(&self, name: &str) -> &ScavengerJobStatus {
        &self.scavenger_jobs.get(&key(name)).unwrap_or_else(|| panic!("{name} should be there")).status
    }

    /// A ScavengerJob as the API server has it.
    ///
    /// # Panics
    /// If there is no such ScavengerJob.
    #[must_use]
    pub fn stored_sj(&self, name: &str) -> &ScavengerJob {
        self.scavenger_jobs.get(&key(name)).unwrap_or_else(|| panic!("{name} should be there"))
    }

    /// Why a ScavengerJob waits, if it does.
    #[must_use]
    pub fn waits(&self, name: &str) -> Option<WaitingReason> {
        Some(self.status(name).admitted.as_ref()?.waiting.as_ref()?.reason)
    }

    /// True if there is such a ScavengerJob.
    #[must_use]
    pub fn exists(&self, name: &str) -> bool {
        self.scavenger_jobs.contains_key(&key(name))
    }

    /// Pods of a ScavengerJob that have not ended.
    #[must_use]
    pub fn live_pods(&self, name: &str) -> Vec<&Pod> {
        let prefix = format!("{name}-");
        let pods = self.pods.values().filter(|pod| pod.owner.is_some() && !pod.phase.is_terminal());
        pods.filter(|pod| {
            pod.key.name.strip_prefix(&*prefix).is_some_and(|rest| rest.split('-').count() == 2)
        })
        .collect()
    }

    /// A pod by name, if it is there.
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<&Pod> {
        self.pods.get(&key(name))
    }

    /// Every pod that belongs to no ScavengerJob and has not ended.
    pub fn ordinary_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| pod.owner.is_none() && !pod.phase.is_terminal())
    }

    /// Every ScavengerJob.
    pub fn scavenger_jobs(&self) -> impl Iterator<Item = &ScavengerJob> {
        self.scavenger_jobs.values()
    }

    /// Every pod of any ScavengerJob that has not ended.
    #[must_use]
    pub fn all_live_pods(&self) -> Vec<&Pod> {
        self.pods.values().filter(|pod| pod.owner.is_some() && !pod.phase.is_terminal()).collect()
    }

    /// Every Job.
    pub fn all_jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// Every node.
    pub fn all_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Child Jobs of a ScavengerJob.
    #[must_use]
    pub fn jobs_of(&self, name: &str) -> Vec<&Job> {
        let uid = self.scavenger_jobs.get(&key(name)).map(|sj| &sj.uid);
        self.jobs.values().filter(|job| Some(&job.owner) == uid).collect()
    }
}
