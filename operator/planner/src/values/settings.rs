//! Settings of the pool.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::{Calendar, Headroom, Name, Node, NodeGroup, Supervisor, UsageRules};
use crate::values::{resources::Thresholds, weights::Weights};

/// Settings of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `metadata.generation` of the pool, which its status repeats.
    #[serde(default)]
    pub generation: i64,
    /// Labels that a node of the pool must have.
    pub node_selector: BTreeMap<Name, Name>,
    /// Keys of taints that a node of the pool may have.
    pub tolerated_taints: Vec<Name>,
    /// Up to where ScavengerJobs may fill the pool now.
    pub start_thresholds: Thresholds,
    /// How many may be starting at the same time.
    pub max_concurrent_starts: usize,
    /// How long a pod may stay unscheduled.
    pub pending_timeout: SignedDuration,
    /// How long a container may fail to be created.
    pub start_deadline: SignedDuration,
    /// How long a missing reference may be missing.
    pub reference_grace: SignedDuration,
    /// How long each start may be refused by admission.
    #[serde(default)]
    pub refusal_grace: SignedDuration,
    /// Wait after an interruption.
    pub interruption_backoff: SignedDuration,
    /// After this time of waiting room is kept for a ScavengerJob.
    pub reserve_after: SignedDuration,
    /// Steps of the running priority.
    pub priority_steps: i32,
    /// What a second of each resource is worth.
    pub weights: Weights,
    /// When ScavengerJobs make room before anybody asks for it, as it holds now.
    pub headroom: Headroom,
    /// Windows of time with other thresholds; none if the same hold all the time.
    #[serde(default)]
    pub calendar: Option<Box<Calendar>>,
    /// The window whose thresholds hold now.
    #[serde(default)]
    pub window: Option<Name>,
    /// Nodes with thresholds of their own: the first group whose labels a node has.
    #[serde(default)]
    pub node_groups: Vec<NodeGroup>,
    /// Who makes room for an ordinary pod that finds none.
    pub preemption_mode: PreemptionMode,
    /// True while nothing starts.
    pub paused: bool,
    /// True while everything is interrupted; nothing starts either.
    pub drain: bool,
    /// The program under which workloads run; none if the pool has none.
    #[serde(default)]
    pub supervisor: Option<Supervisor>,
    /// How ScavengerJobs take what is reserved but not used; none if capacity is counted by requests.
    #[serde(default)]
    pub usage: Option<Box<UsageRules>>,
}

impl Settings {
    /// True if the node belongs to the pool, whether it is ready and schedulable at the moment or not.
    #[must_use]
    pub fn include(&self, node: &Node) -> bool {
        self.lacks(node).is_none()
    }

    /// What keeps the node out of the pool.
    #[must_use]
    pub fn lacks(&self, node: &Node) -> Option<String> {
        let label = self.node_selector.iter().find(|(key, value)| node.labels.get(*key) != Some(value));
        if let Some((key, value)) = label {
            return Some(format!("it lacks label {key}={value}"));
        }
        let mut taints = node.taints.iter().filter(|taint| taint.repels() && !taint.passes());
        let taint = taints.find(|taint| !self.tolerated_taints.contains(&taint.key))?;
        Some(format!("it has taint {}:{}", taint.key, taint.effect))
    }
}

/// Who makes room for a pending ordinary pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionMode {
    /// kube-scheduler, by priority and age.
    #[default]
    Scheduler,
    /// The operator, by expected loss, for pods that do not preempt by themselves.
    Operator,
}
