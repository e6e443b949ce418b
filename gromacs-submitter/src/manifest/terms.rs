//! What the pool does with the ScavengerJobs of a row.

use scavenger_schema::scavenger_job::{Toleration, TolerationOperator};

/// The most tolerations that a ScavengerJob takes.
const MOST_TOLERATIONS: usize = 16;

/// What the pool does with the ScavengerJobs of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Seconds of the longest grace period that it allows.
    pub longest_grace: i64,
    /// True if the workload runs under the supervisor, which brings SIGTERM past a script to mdrun.
    pub supervised: bool,
    /// Keys of the taints that ScavengerJobs may tolerate.
    pub tolerated_taints: Vec<String>,
    /// What the GPUs of a configuration are called on its nodes, if not as usual.
    pub gpu_resource: Option<String>,
    /// Seconds that a restart costs, if that was measured.
    pub restart_seconds: Option<i32>,
}

impl Terms {
    /// The row's nodes are those that the pool shows, and the pool shows the nodes behind every taint that it tolerates.
    /// Without a toleration for each, the tuner would choose configurations for nodes that the row cannot reach.
    pub(super) fn tolerations(&self) -> Vec<Toleration> {
        let keys = self.tolerated_taints.iter().filter(|key| !key.is_empty());
        let tolerations = keys.map(|key| Toleration {
            key: Some(key.clone()),
            operator: Some(TolerationOperator::Exists),
            value: None,
            effect: None,
        });
        tolerations.take(MOST_TOLERATIONS).collect()
    }
}
