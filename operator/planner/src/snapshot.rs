//! Values in: the cluster as the planner sees it, in plain types. Whoever observes turns API objects into these.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
pub use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason};
use serde::{Deserialize, Serialize};

use crate::{
    action::ActionResult,
    causes::headroom::Headroom,
    loss::Weights,
    resources::{Resources, Thresholds},
};

/// A short, shared text: names, UIDs.
pub type Name = Arc<str>;

/// Namespace and name of a namespaced object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
}

impl Key {
    /// Key of `namespace/name`.
    pub fn new(namespace: impl Into<Name>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// One thing that was seen, or that became of an action.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Observation {
    /// A ScavengerJob is there, in this version.
    Job(Box<Job>),
    /// A ScavengerJob is gone.
    JobGone(Key),
    /// A child Job is there, in this version.
    Child(Child),
    /// A child Job is gone: its namespace, its ScavengerJob's UID, and its own.
    ChildGone {
        /// Namespace of the child Job.
        namespace: Name,
        /// UID of the ScavengerJob.
        owner: Name,
        /// UID of the child Job.
        uid: Name,
    },
    /// A pod is there, in this version.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodGone(Key),
    /// The pod watch lists all pods anew: versions seen before and after have no order.
    PodsRelisted,
    /// A node is there, in this version.
    Node(Node),
    /// A node is gone.
    NodeGone(Name),
    /// A PersistentVolume is there, in this version.
    Volume(Volume),
    /// A PersistentVolume is gone.
    VolumeGone(Name),
    /// How much memory nodes really use; none if nobody measures it.
    Usage(Option<Vec<Usage>>),
    /// The pool's settings, or why nothing can be admitted.
    Pool(Box<Result<Settings, String>>),
    /// An action was carried out, or was not.
    Done(ActionResult),
}

/// Settings of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Labels that a node of the pool must have.
    pub node_selector: BTreeMap<Name, Name>,
    /// Keys of taints that a node of the pool may have.
    pub tolerated_taints: Vec<Name>,
    /// Up to where ScavengerJobs may fill the pool.
    pub start_thresholds: Thresholds,
    /// How many may be starting at the same time.
    pub max_concurrent_starts: usize,
    /// How long a pod may stay unscheduled.
    pub pending_timeout: SignedDuration,
    /// How long a container may fail to be created.
    pub start_deadline: SignedDuration,
    /// How long a missing reference may be missing.
    pub reference_grace: SignedDuration,
    /// Wait after an interruption.
    pub interruption_backoff: SignedDuration,
    /// After this time of waiting room is kept for a ScavengerJob.
    pub reserve_after: SignedDuration,
    /// Steps of the running priority.
    pub priority_steps: i32,
    /// What a second of each resource is worth.
    pub weights: Weights,
    /// When ScavengerJobs make room before anybody asks for it.
    pub headroom: Headroom,
    /// Who makes room for an ordinary pod that finds none.
    pub preemption_mode: PreemptionMode,
    /// True while nothing starts.
    pub paused: bool,
    /// True while everything is interrupted; nothing starts either.
    pub drain: bool,
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

/// A ScavengerJob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Namespace and name.
    pub key: Key,
    /// UID.
    pub uid: Name,
    /// `metadata.resourceVersion`; a number that only grows.
    pub resource_version: u64,
    /// `metadata.generation` of the spec.
    pub generation: i64,
    /// When it was created.
    pub creation_time: Timestamp,
    /// True once it is being deleted.
    pub deleting: bool,
    /// True if it carries our finalizer.
    pub has_finalizer: bool,
    /// What of its spec may change at any time.
    pub controls: Controls,
    /// What it asks, or why that can not be understood.
    pub spec: Result<JobSpec, String>,
    /// What became of it so far.
    pub status: JobStatus,
}

/// What of a ScavengerJob's spec may change at any time, even while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controls {
    /// True holds it, and interrupts it if it runs.
    pub suspend: bool,
    /// How long it may run, summed over all attempts; no limit if none.
    pub active_deadline: Option<SignedDuration>,
    /// How long it stays after its end.
    pub ttl_after_finished: SignedDuration,
}

impl Default for Controls {
    /// Nothing is held or limited, and it stays for a week.
    fn default() -> Self {
        Self { suspend: false, active_deadline: None, ttl_after_finished: SignedDuration::from_hours(7 * 24) }
    }
}

/// What a ScavengerJob asks, as far as the rules need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What it needs where; shared, since many ask for the same.
    pub demand: Arc<Demand>,
    /// The stretch it needs for lasting progress.
    pub interruption_after: SignedDuration,
    /// True if its workload writes a checkpoint when it is stopped.
    pub saves_on_sigterm: bool,
    /// Work that a restart costs.
    pub restart: SignedDuration,
    /// PersistentVolumeClaims of its namespace that its pods mount.
    #[serde(default)]
    pub claims: Vec<Name>,
}

/// What has to fit where. ScavengerJobs with equal demands either all fit or none does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Demand {
    /// Requests of one pod, `pods: 1` included.
    pub per_pod: Resources,
    /// Number of pods.
    pub pod_count: u32,
    /// Where its pods may go.
    pub placement: Placement,
}

impl Demand {
    /// Requests of all pods.
    #[must_use]
    pub fn total(&self) -> Resources {
        self.per_pod.times(i64::from(self.pod_count))
    }
}

/// Where a pod may go.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Labels that the node must have.
    pub node_selector: BTreeMap<Name, Name>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Required node affinity: one of these terms must match. Every node matches if there is none.
    pub affinity: Vec<NodeTerm>,
    /// Of each PersistentVolume that is bound to nodes, its terms: one of them must match. The planner fills it in.
    #[serde(default)]
    pub volumes: Vec<Vec<NodeTerm>>,
}

/// A term of a required node affinity: all of its expressions must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeTerm {
    /// About labels.
    pub labels: Vec<Expression>,
    /// About the node's name.
    pub names: Vec<Expression>,
}

/// An expression over labels or the name of a node; see the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression {
    /// Key of the label; for the node's name `metadata.name`.
    pub key: Name,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<Name>,
}

/// How an [`Expression`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of these.
    In,
    /// It is none of these, or there is no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is none.
    DoesNotExist,
    /// The value is a number above this.
    Gt,
    /// The value is a number below this.
    Lt,
}

impl Expression {
    fn matches(&self, value: Option<&Name>) -> bool {
        let number = |text: &Name| text.parse::<i64>().ok();
        let compared = |holds: fn(i64, i64) -> bool| {
            value.and_then(number).zip(self.values.first().and_then(number)).is_some_and(|(a, b)| holds(a, b))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(|a, b| a > b),
            Operator::Lt => compared(|a, b| a < b),
        }
    }
}

impl NodeTerm {
    /// A term without any expression matches no node.
    fn matches(&self, node: &Node) -> bool {
        !(self.labels.is_empty() && self.names.is_empty())
            && self.labels.iter().all(|expression| expression.matches(node.labels.get(&expression.key)))
            && self.names.iter().all(|expression| expression.matches(Some(&node.name)))
    }
}

/// A toleration; see the Kubernetes API.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// Key; every key if none.
    pub key: Option<Name>,
    /// Value that must be equal; every value if none.
    pub value: Option<Name>,
    /// Effect; every effect if none.
    pub effect: Option<Name>,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Key.
    pub key: Name,
    /// Value, or nothing.
    pub value: Name,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: Name,
}

impl Placement {
    /// True if the node's labels, name and taints let the pod in.
    #[must_use]
    pub fn admits(&self, node: &Node) -> bool {
        self.admits_past(node, Taint::repels)
    }

    /// True if they will let it in once the node is ready and not cordoned.
    #[must_use]
    pub fn admits_when_ready(&self, node: &Node) -> bool {
        self.admits_past(node, |taint| taint.repels() && !taint.passes())
    }

    fn admits_past(&self, node: &Node, counts: fn(&Taint) -> bool) -> bool {
        self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && (self.affinity.is_empty() || self.affinity.iter().any(|term| term.matches(node)))
            && self.volumes.iter().all(|terms| terms.iter().any(|term| term.matches(node)))
            && node.taints.iter().filter(|taint| counts(taint)).all(|taint| {
                self.tolerations.iter().any(|toleration| {
                    toleration.key.as_ref().is_none_or(|key| *key == taint.key)
                        && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
                        && toleration.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
                })
            })
    }
}

impl Taint {
    /// True if pods that do not tolerate it can not go there.
    #[must_use]
    pub fn repels(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }

    /// True for a taint that Kubernetes itself sets while a node is cordoned, not ready or under pressure, and takes
    /// away again. [`Node::usable`] stands for all of them.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.key.starts_with("node.kubernetes.io/")
    }
}

/// How many start times, interruption times and ended attempts a status keeps: the newest.
pub const HISTORY: usize = 50;

/// What became of a ScavengerJob. A plan carries the whole new value; whoever carries it out writes it as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// False until a status was written for the first time.
    pub written: bool,
    /// Where it is in its life.
    pub phase: Phase,
    /// Generation that the status speaks of.
    pub observed_generation: i64,
    /// Why it is there.
    pub message: String,
    /// Condition Admitted.
    pub admitted: Option<Admitted>,
    /// How often it was taken away after a container had started.
    pub interrupted_count: u32,
    /// Those of them that advance it in the queue; see [`Reason::advances_in_queue`].
    pub counted_interruptions: u32,
    /// Interruptions since an attempt last ran for a whole `interruptionAfter`.
    pub interruptions_in_a_row: u32,
    /// Attempts in a row of which it is not known who ended them.
    pub unknown_ends_in_a_row: u32,
    /// Seconds that ended attempts ran, all pods together.
    pub active_seconds: i64,
    /// Step of its running priority, 1 to the pool's steps; present while it runs.
    pub running_priority: Option<i32>,
    /// When that last fell back to 1.
    pub priority_start_over: Option<Timestamp>,
    /// When it last reported a checkpoint.
    pub last_checkpoint: Option<Timestamp>,
    /// The newest times it started to run.
    pub start_times: Vec<Timestamp>,
    /// The newest times it was interrupted.
    pub interruption_times: Vec<Timestamp>,
    /// Why it failed; none unless it did.
    #[serde(default)]
    pub failure: Option<Reason>,
    /// When it finished.
    pub finish_time: Option<Timestamp>,
    /// No start before this.
    pub not_before: Option<Timestamp>,
    /// Withdrawals and failed starts in a row.
    pub failed_starts: u32,
    /// The active or last attempt; apart, since most have made none.
    pub attempt: Option<Box<Attempt>>,
}

impl JobStatus {
    /// The attempt that is being made, if one is.
    #[must_use]
    pub fn active_attempt(&self) -> Option<&Attempt> {
        self.attempt.as_deref().filter(|_| self.phase.is_active())
    }
}

/// Condition Admitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// None while an attempt is active, else why it waits.
    pub waiting: Option<Waiting>,
    /// Since when the condition has its status (True or False).
    pub since: Timestamp,
}

/// Why a ScavengerJob waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The reason.
    pub reason: WaitingReason,
    /// The same as a sentence.
    pub message: String,
}

/// One attempt to run a ScavengerJob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// UID of the child Job once it was seen.
    pub child_uid: Option<Name>,
    /// Generation of the spec it runs with.
    pub generation: i64,
    /// What it runs with, as far as room is concerned.
    pub demand: Arc<Demand>,
    /// Index of its PriorityClass.
    pub priority_class: u32,
    /// When the planner decided to start it.
    pub creation_time: Timestamp,
    /// When all its pods ran.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// First sign that it was taken away.
    pub disruption: Option<Disruption>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Reason of the outcome.
    pub reason: Option<Reason>,
    /// The reason as a sentence.
    pub message: Option<String>,
}

impl Attempt {
    /// The first attempt of the first generation, decided at `time`.
    #[must_use]
    pub fn first(demand: Arc<Demand>, time: Timestamp) -> Self {
        Self {
            number: 1,
            child_uid: None,
            generation: 1,
            demand,
            priority_class: 0,
            creation_time: time,
            start_time: None,
            end_time: None,
            disruption: None,
            outcome: None,
            reason: None,
            message: None,
        }
    }
}

/// First sign that an attempt was taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disruption {
    /// When it happened, as far as the cluster tells, or was decided.
    pub time: Timestamp,
    /// That of the pod's condition DisruptionTarget, [`Reason::Deleted`], or why the planner interrupts it
    /// ([`Reason::is_operators_decision`]).
    pub reason: Reason,
    /// The message beside it.
    pub message: String,
    /// Name of the pod (or child Job) that showed it; empty if the planner decided it.
    pub pod: Name,
}

/// The batch/v1 Job of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// Namespace and name.
    pub key: Key,
    /// UID.
    pub uid: Name,
    /// Version.
    pub resource_version: u64,
    /// When it was created.
    #[serde(default)]
    pub creation_time: Timestamp,
    /// UID of its ScavengerJob.
    pub owner: Name,
    /// Number of the attempt.
    pub attempt: u32,
    /// True once it is being deleted.
    pub deleting: bool,
    /// True with condition Complete or SuccessCriteriaMet.
    pub complete: bool,
    /// Reason and message of condition FailureTarget or Failed.
    pub failed: Option<(String, String)>,
    /// Since when it has the first of these conditions.
    #[serde(default)]
    pub over_since: Option<Timestamp>,
}

impl Child {
    /// True if the Job controller will make no more pods for it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.complete || self.failed.is_some()
    }
}

/// A pod, of a ScavengerJob or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pod {
    /// Namespace and name.
    pub key: Key,
    /// UID.
    pub uid: Name,
    /// Version.
    pub resource_version: u64,
    /// UID of its ScavengerJob and number of the attempt, if it belongs to one.
    pub owner: Option<(Name, u32)>,
    /// What it occupies: containers, sidecars, init containers, overhead, and `pods: 1`.
    pub requests: Resources,
    /// Where it is bound.
    pub node: Option<Name>,
    /// Where the scheduler makes room for it.
    pub nominated_node: Option<Name>,
    /// Where it may go.
    pub placement: Placement,
    /// `spec.priority`.
    pub priority: i32,
    /// When it was created.
    pub creation_time: Timestamp,
    /// True unless its preemptionPolicy is Never.
    pub preempts: bool,
    /// PersistentVolumeClaims of its namespace that it mounts; told only of an ordinary pod without a node.
    #[serde(default)]
    pub claims: Vec<Name>,
    /// What of its spec says more about where it may go than [`Self::placement`] can tell; empty if nothing does.
    pub unjudged: Vec<Name>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// When its deletion was requested; see `deletion_forced`.
    pub deletion_requested: Option<Timestamp>,
    /// True if no grace period is left. Then it may have been requested earlier: the API server moves the stamp to the
    /// time of the kubelet's own deletion, which comes when everything has ended, and such a pod stays until the Job
    /// controller has counted it.
    #[serde(default)]
    pub deletion_forced: bool,
    /// When the grace period of its deletion is over.
    #[serde(default)]
    pub deletion_due: Option<Timestamp>,
    /// Reason and message of condition DisruptionTarget=True.
    pub disruption_target: Option<(String, String)>,
    /// Since when it has that condition.
    #[serde(default)]
    pub disrupted_since: Option<Timestamp>,
    /// The scheduler's message, with condition PodScheduled=False and reason Unschedulable.
    pub unschedulable: Option<String>,
    /// True while scheduling gates hold it.
    pub gated: bool,
    /// `status.reason` and `status.message`, for example Evicted or OutOfcpu.
    pub status_reason: Option<(String, String)>,
    /// Its main container.
    pub container: Container,
}

impl Pod {
    /// True if it has not ended and nobody has asked for its end.
    #[must_use]
    pub fn is_evictable(&self) -> bool {
        !self.phase.is_terminal() && self.deletion_requested.is_none()
    }
}

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not started, or not known.
    Pending,
    /// At least one container runs or restarts.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// All containers ended, one without success.
    Failed,
}

impl PodPhase {
    /// True for Succeeded and Failed.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// State of a pod's main container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Container {
    /// It was not created yet; reason and message of the kubelet, if it says why.
    Waiting(Option<(String, String)>),
    /// It runs.
    Running,
    /// It ended.
    Ended {
        /// Exit code.
        exit_code: i32,
        /// The kubelet's reason: Completed, Error, OOMKilled, ContainerStatusUnknown...
        reason: String,
        /// Termination message.
        message: String,
        /// When it ended; whole seconds.
        time: Option<Timestamp>,
        /// False if the kubelet never started it.
        started: bool,
    },
}

impl Container {
    /// True if the container ran at some time.
    #[must_use]
    pub fn has_started(&self) -> bool {
        matches!(self, Self::Running | Self::Ended { started: true, .. })
    }
}

/// What a node really uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The node.
    pub node: Name,
    /// Memory, in bytes.
    pub memory_bytes: i64,
    /// When it was measured.
    pub time: Timestamp,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Name.
    pub name: Name,
    /// The PersistentVolumeClaim that it is bound to.
    pub claim: Option<Key>,
    /// Required node affinity: one of these terms must match. Every node matches if there is none.
    pub affinity: Vec<NodeTerm>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Name.
    pub name: Name,
    /// What it has for pods.
    pub allocatable: Resources,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// True if it is ready, schedulable and under no pressure.
    pub usable: bool,
    /// True while it was measured to use so much memory that nothing may be added. The planner fills it in.
    #[serde(default)]
    pub full: bool,
    /// The pressure condition that it has: MemoryPressure, DiskPressure or PIDPressure.
    pub pressure: Option<Name>,
    /// True if its kubelet is there and says that it is ready, be the node cordoned or not.
    pub ready: bool,
}
