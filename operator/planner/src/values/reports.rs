//! What supervisors and metrics.k8s.io report: the supervisor of a pool, checkpoints and endings, what nodes and pods really use,
//! and the rules for taking what is left.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Key, Name, Node, resources::Share};

pub use scavenger_vocabulary::Accounting;
pub use scavenger_vocabulary::{Supervision, supervisor::Stop};

/// The supervisor of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervisor {
    /// Image that has the program.
    pub image: Name,
    /// Secrets with which it is pulled.
    pub image_pull_secrets: Vec<Name>,
    /// True if ScavengerJobs that do not say so run under it.
    pub by_default: bool,
}

/// What a ScavengerJob says about the supervisor, as far as the rules need it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisionSpec {
    /// Whether it is to run under the supervisor; none if that is the pool's choice.
    pub enabled: Option<bool>,
    /// True if it names its command, which the supervisor is put in front of.
    pub has_command: bool,
    /// True if it names the path of its checkpoints.
    pub names_checkpoint: bool,
    /// True if it writes a checkpoint when it is asked for one.
    pub can_be_asked: bool,
    /// The pod whose checkpoints count.
    pub rank: Rank,
}

/// The pods of a gang whose checkpoints count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rank {
    /// Every pod has its own: the oldest of them counts, once all have written one.
    #[default]
    Oldest,
    /// The pod with this index.
    One(u32),
}

impl Rank {
    /// True if the checkpoints of a pod with this index count.
    #[must_use]
    pub fn counts(self, index: Option<u32>) -> bool {
        match self {
            Self::Oldest => true,
            Self::One(rank) => index == Some(rank),
        }
    }
}

/// The wish that a workload write a checkpoint now, since its interruption is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRequest {
    /// UIDs of its pods.
    pub pods: Vec<Name>,
    /// When its interruption was decided: a checkpoint after that answers.
    pub since: Timestamp,
}

/// Whether an attempt runs under the supervisor: condition Supervised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervised {
    /// Why it does, or does not.
    pub why: Supervision,
    /// The same as a message.
    pub message: String,
    /// Since when that is so.
    pub since: Timestamp,
}

/// Whether a workload writes a checkpoint when it is told to stop, as its attempts showed: condition SavesOnSigterm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSaves {
    /// What the last attempt that showed it did.
    pub saves: bool,
    /// The same as a message.
    pub message: String,
    /// Since when that is so.
    pub since: Timestamp,
}

/// What was found out about the work of one attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// When it wrote its last checkpoint.
    pub last_checkpoint: Option<Timestamp>,
    /// The part of its run time for which it had the processors that it could use; none if nobody measured that.
    pub worked: Option<SignedDuration>,
    /// The same after its last checkpoint, or run time where nobody measured that; none if the checkpoint is not known.
    pub lost: Option<SignedDuration>,
    /// What the planner expected it to lose when it was taken away.
    pub expected: Option<SignedDuration>,
    /// Whether it wrote a checkpoint after it was told to stop; none if it was not, or if that is not known.
    pub answered_sigterm: Option<bool>,
}

impl Measured {
    /// True if anything was found out once the attempt had ended.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.lost.is_some() || self.last_checkpoint.is_some() || self.answered_sigterm.is_some()
    }
}

/// Processor time of the threads of one pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// On a processor.
    pub run: SignedDuration,
    /// Ready to run, while others had the processors.
    pub wait: SignedDuration,
}

impl CpuTime {
    /// What came after an earlier count of the same threads.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let more = |now: SignedDuration, before| now.saturating_sub(before).max(SignedDuration::ZERO);
        Self { run: more(self.run, earlier.run), wait: more(self.wait, earlier.wait) }
    }

    /// How far it got in a time, as a share of how far it would have got with all the processor time that it could use. Nothing
    /// kept it from what it did asleep. Awake it could use what it requests (in millicores), and no more than its threads were
    /// ready for: threads beyond what it requests wait for each other.
    #[must_use]
    pub fn share(self, over: SignedDuration, requested_milli: i64) -> Share {
        let (over, run) = (over.as_secs_f64(), self.run.as_secs_f64());
        let ready = run + self.wait.as_secs_f64();
        let requested = over * f64::from(i32::try_from(requested_milli).unwrap_or(i32::MAX)) / 1000.0;
        let usable = ready.min(requested);
        if over <= 0.0 || usable <= 0.0 {
            return Share::ONE;
        }
        let awake = (ready / over).min(1.0);
        Share::from_fraction(1.0 - awake + awake * (run / usable).min(1.0))
    }
}

/// Processor time of the threads of one pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Since the workload was started.
    pub total: CpuTime,
    /// Since its newest checkpoint; all of it before the first one.
    pub since_checkpoint: CpuTime,
}

/// What the supervisor of one pod reports while the workload runs. The endpoint that receives it knows the pod by its token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveReport {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod. A report for another pod of that name is void.
    pub uid: Name,
    /// When the newest checkpoint was written, by the clock of the one who received the report: its age taken off the time
    /// of receipt. None before the first one.
    pub checkpoint: Option<Timestamp>,
    /// How far the workload has come, from 0 to 1, if it says so.
    pub progress: Option<f64>,
    /// None where the kernel does not count it.
    #[serde(default)]
    pub cpu: Option<Cpu>,
}

/// Why the kernel killed a container for memory, as the agent of its node reads in the counters of the pod's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KillCause {
    /// The container, or its pod, reached its own limit.
    Limit,
    /// The node had no memory left.
    Node,
    /// The counters do not say: they were gone, or the kernel has none.
    Unknown,
}

impl KillCause {
    /// So long the agent of a node is waited for. It answers within a second, unless it is just being replaced.
    pub const ANSWERED_WITHIN: SignedDuration = SignedDuration::from_secs(15);
}

/// What the agent of a node says about one kill. The endpoint that receives it knows the node by the agent's token, and that
/// the pod is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillReport {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod.
    pub uid: Name,
    /// When the container ended, as the pod's status says: an answer about an earlier kill is void.
    pub time: Timestamp,
    /// Why it was killed.
    pub cause: KillCause,
}

impl KillReport {
    /// True if an agent may still know of a kill of this time, which is by the clock of its node. Older ones are those that a
    /// planner sees when it begins.
    #[must_use]
    pub fn is_recent(time: Timestamp, now: Timestamp) -> bool {
        now.duration_since(time).abs() <= SignedDuration::from_mins(5)
    }
}

/// What the supervisor of one pod left when its workload had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// When the newest checkpoint was written, not before the container started nor after it ended; none if there was
    /// none.
    pub checkpoint: Option<Timestamp>,
    /// How far the workload has come, from 0 to 1, if it says so.
    pub progress: Option<f64>,
    /// None where the kernel does not count it.
    #[serde(default)]
    pub cpu: Option<Cpu>,
    /// Whether it was told to stop, and what it did then.
    pub stop: Stop,
}

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
    /// True if ScavengerJobs start by use only where the agent of the node is live.
    #[serde(default)]
    pub require_node_agent: bool,
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

fn has_all(node: &Node, labels: &BTreeMap<Name, Name>) -> bool {
    labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

impl UsageRules {
    /// True if the node is counted by use, as far as its labels have a say.
    #[must_use]
    pub fn select(&self, node: &Node) -> bool {
        has_all(node, &self.node_selector)
    }

    /// True if the node's kubelet keeps whole cores for Guaranteed pods.
    pub(crate) fn keeps_cores(&self, node: &Node) -> bool {
        !self.static_cpu_selector.is_empty() && has_all(node, &self.static_cpu_selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(run: i64, wait: i64, over: i64, requested_milli: i64) -> f64 {
        let seconds = SignedDuration::from_secs;
        CpuTime { run: seconds(run), wait: seconds(wait) }.share(seconds(over), requested_milli).fraction()
    }

    #[test]
    fn it_could_use_what_it_requests_and_was_ready_for() {
        assert!((share(4, 396, 100, 4000) - 0.01).abs() < 1e-6, "four threads on four processors, all taken");
        assert!((share(4, 96, 100, 4000) - 0.04).abs() < 1e-6, "one thread is all that it has");
        assert!(
            (share(390, 1200, 100, 4000) - 0.975).abs() < 1e-6,
            "sixteen threads, whose limit is four processors"
        );
        assert!((share(500, 0, 100, 4000) - 1.0).abs() < 1e-6, "more than it requests");
        assert!((share(0, 0, 1000, 4000) - 1.0).abs() < 1e-6, "nothing to do");
        assert!((share(1, 3, 100, 20) - 0.98).abs() < 1e-6, "it sleeps nearly all the time");
        assert!((share(1, 999, 1000, 20) - 0.05).abs() < 1e-6, "it never sleeps, and requests little");
        assert!((share(20, 980, 1000, 20) - 1.0).abs() < 1e-6, "the same, and gets what it requests");
        assert!((share(0, 100, 100, 0) - 1.0).abs() < 1e-6, "it requests nothing");
        assert!((share(5, 5, 0, 1000) - 1.0).abs() < 1e-6, "no time");
        assert!((share(5, 5, -1, 1000) - 1.0).abs() < 1e-6, "a clock that went back");
    }
}
