//! What nodes and pods really use, as metrics.k8s.io serves it, and the rules for taking what is left.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Key, Name};
use crate::values::resources::Share;
pub use scavenger_vocabulary::Accounting;

/// Rules of accounting Usage: how ScavengerJobs take what is reserved but not used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageRules {
    /// Labels of the nodes of the pool that are counted by use; all of them if empty. The others are counted by requests.
    pub node_selector: BTreeMap<Name, Name>,
    /// Labels of the nodes whose kubelet keeps whole cores for Guaranteed pods, used or not; none of them if empty.
    #[serde(default)]
    pub static_cpu_selector: BTreeMap<Name, Name>,
    /// True if it is only calculated and reported what would happen.
    pub dry_run: bool,
    /// For how long a pod or a node must have been measured before what it uses counts instead of what it requests.
    pub window: SignedDuration,
    /// After this time a sample counts half as much.
    pub half_life: SignedDuration,
    /// The share of the samples that are below the predicted peak.
    pub percentile: Share,
    /// What is added to the predicted peak, as a share of it.
    pub margin: Share,
    /// For how long ScavengerJobs may crawl on a node whose processors ordinary pods need.
    pub linger: SignedDuration,
    /// A node whose last sample is older takes no ScavengerJob.
    pub oldest_metrics: SignedDuration,
    /// A node whose last sample is older gives up its ScavengerJobs.
    pub metrics_grace: SignedDuration,
    /// Pods of ScavengerJobs on a node.
    pub most_pods_per_node: u32,
    /// The longest grace period of their pods.
    pub grace_period: SignedDuration,
}

/// What one planner learned of the use of nodes, for the one that goes on after it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RememberedUse {
    /// What was measured of each node.
    pub nodes: BTreeMap<Name, RememberedNode>,
    /// The nodes that are counted by requests for a while, because accounting Usage did harm there.
    pub harmed: BTreeMap<Name, Harm>,
    /// Namespaces in which a LimitRange refuses pods that request next to nothing, and until when they are counted by
    /// requests.
    #[serde(default)]
    pub by_requests: BTreeMap<Name, Timestamp>,
}

/// What was measured of a node. Of the samples their predicted peak is kept, and how much they weigh.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RememberedNode {
    /// When it was measured last.
    pub time: Timestamp,
    /// For how long it has been measured.
    pub known: SignedDuration,
    /// Predicted peak of what its ordinary pods use, in millicores.
    pub cpu_milli: i64,
    /// The same of memory, in bytes.
    pub memory_bytes: i64,
    /// How much all samples weigh; the last one weighs 1.
    pub weight: f64,
}

/// What accounting Usage did to an ordinary pod of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harm {
    /// Until then the node is counted by requests.
    pub until: Timestamp,
    /// What happened.
    pub why: String,
}

/// How pods are made whose capacity is counted by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByUse {
    /// Their longest grace period.
    pub grace_period: SignedDuration,
}

/// What one pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUsage {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// When it was measured.
    pub time: Timestamp,
    /// The mean over the time before that, usually 15 s, in millicores.
    pub cpu_milli: i64,
    /// Working set, in bytes.
    pub memory_bytes: i64,
}

/// What the pods of one attempt used together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptUsage {
    /// Number of the attempt.
    pub attempt: u32,
    /// How much of its run time was measured.
    pub measured: SignedDuration,
    /// CPU, in millicores.
    pub cpu: Figures,
    /// Working set, in bytes.
    pub memory: Figures,
}

/// Mean and peak of an amount over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// The mean.
    pub mean: i64,
    /// The most that was measured.
    pub peak: i64,
}
