//! A ScavengerJob, its attempts and their Jobs, and why it waits.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    ASKED_BEFORE, Accounting, AttemptUsage, Key, Measured, Name, ObservedSaves, Outcome, Phase, Placement,
    Reason, Supervised, SupervisionSpec, WaitingReason, later,
    resources::{Resources, Share},
};

/// A ScavengerJob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScavengerJob {
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
    /// The folder that it works in: value of the label `scavenger.dev/folder`.
    #[serde(default)]
    pub folder: Option<Name>,
    /// What of its spec may change at any time.
    pub controls: Controls,
    /// Equal for those with the same spec.
    #[serde(default)]
    pub spec_hash: u64,
    /// What it asks, or why that cannot be understood.
    pub spec: Result<ScavengerJobSpec, String>,
    /// What became of it so far.
    pub status: ScavengerJobStatus,
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
pub struct ScavengerJobSpec {
    /// What it needs where; shared, since many ask for the same. The planner adds what the RuntimeClass does.
    pub demand: Arc<Demand>,
    /// The RuntimeClass of its pods, if it names one.
    #[serde(default)]
    pub runtime: Option<Box<Runtime>>,
    /// The stretch it needs for lasting progress.
    pub interruption_after: SignedDuration,
    /// How often its workload writes a checkpoint, if it says so; else at least every `interruption_after`.
    #[serde(default)]
    pub checkpoint_interval: Option<SignedDuration>,
    /// True if its workload promises to write a checkpoint when it is stopped; see
    /// [`ScavengerJob::saves_on_sigterm`].
    pub saves_on_sigterm: bool,
    /// Work that a restart costs.
    pub restart: SignedDuration,
    /// How long its pods may take to end.
    #[serde(default = "usual_grace_period")]
    pub grace_period: SignedDuration,
    /// PersistentVolumeClaims of its namespace that its pods mount.
    #[serde(default)]
    pub claims: Vec<Name>,
    /// Secrets of its namespace that it mounts or takes variables from.
    #[serde(default)]
    pub secrets: Vec<Name>,
    /// ConfigMaps of its namespace that it mounts or takes variables from.
    #[serde(default)]
    pub config_maps: Vec<Name>,
    /// Hash of all from which its containers are created: image, command, variables, what is mounted.
    #[serde(default)]
    pub container_hash: u64,
    /// Hash of its image and of how that is pulled.
    #[serde(default)]
    pub image_hash: u64,
    /// What it says about the supervisor.
    #[serde(default)]
    pub supervision: SupervisionSpec,
}

/// The RuntimeClass of a spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runtime {
    /// Its name.
    pub class: Name,
    /// What the spec asks for on its own.
    pub own: Arc<Demand>,
}

impl ScavengerJobSpec {
    /// What an attempt is recorded with: what its containers request.
    #[must_use]
    pub(crate) fn of_containers(&self) -> Arc<Demand> {
        match &self.runtime {
            Some(runtime) => Demand { per_pod: runtime.own.per_pod.clone(), ..(*self.demand).clone() }.into(),
            None => self.demand.clone(),
        }
    }

    /// What its RuntimeClass takes of a node for each pod.
    #[must_use]
    pub fn overhead(&self) -> Option<Resources> {
        let overhead = self.demand.per_pod.minus(&self.runtime.as_ref()?.own.per_pod);
        (overhead != Resources::default()).then_some(overhead)
    }
}

impl ScavengerJob {
    /// An attempt with what its pods hold of their nodes: what their containers request, and the overhead of their
    /// RuntimeClass.
    pub(crate) fn as_held<'a>(&self, attempt: &'a Attempt) -> Cow<'a, Attempt> {
        let Some(overhead) = self.spec.as_ref().ok().and_then(ScavengerJobSpec::overhead) else {
            return Cow::Borrowed(attempt);
        };
        let mut held = attempt.clone();
        Arc::make_mut(&mut held.demand).per_pod.add(&overhead);
        Cow::Owned(held)
    }

    /// The attempt that is being made, unless the ScavengerJob is being deleted.
    #[must_use]
    pub fn ongoing_attempt(&self) -> Option<&Attempt> {
        self.status.active_attempt().filter(|_| !self.deleting)
    }

    /// True if a container of it had started in an earlier attempt, with the image, the command and the references that its
    /// spec has now. So nothing of these is misspelt.
    #[must_use]
    pub fn has_run_as_specified(&self) -> bool {
        let Ok(spec) = &self.spec else { return false };
        match self.status.started_container {
            Some(hash) => hash == spec.container_hash,
            // An operator from before this was written down made its attempts.
            None => {
                self.status.attempt.as_ref().is_some_and(|attempt| {
                    attempt.start_time.is_some() && attempt.generation == self.generation
                })
            }
        }
    }

    /// True if its workload writes a checkpoint when it is told to stop: it promises to, and no attempt has shown otherwise
    /// since one did.
    #[must_use]
    pub fn saves_on_sigterm(&self) -> bool {
        let promised = self.spec.as_ref().is_ok_and(|spec| spec.saves_on_sigterm);
        promised && self.status.observed_saves.as_ref().is_none_or(|observed| observed.saves)
    }

    /// How long after its start it has surely saved, if it starts now and is to stop early enough before its node goes.
    #[must_use]
    pub(crate) fn saves_within(&self) -> SignedDuration {
        let Ok(spec) = &self.spec else { return SignedDuration::MAX };
        let works = if self.saves_on_sigterm() { spec.grace_period } else { spec.checkpoint_every() };
        spec.restart.saturating_add(works).saturating_add(ASKED_BEFORE)
    }

    /// Since when it has waited: since it was created, or last interrupted.
    #[must_use]
    pub fn waiting_since(&self) -> Timestamp {
        self.status.interruption_times.last().copied().unwrap_or(self.creation_time)
    }

    /// Since when nothing but capacity has kept it from starting.
    #[must_use]
    pub fn ready_since(&self) -> Timestamp {
        let waiting_since = self.waiting_since();
        self.status.not_before.map_or(waiting_since, |time| time.max(waiting_since))
    }

    /// By when the pods of a decided interruption are evicted at the latest.
    #[must_use]
    pub fn evicted_by(&self, decided: &Disruption) -> Timestamp {
        let can_be_asked = self.spec.as_ref().is_ok_and(|spec| spec.supervision.can_be_asked);
        match can_be_asked && decided.reason.leaves_time() {
            true => later(decided.time, FOR_A_CHECKPOINT),
            false => decided.time,
        }
    }
}

/// How long a workload that is asked for a checkpoint may take.
pub(crate) const FOR_A_CHECKPOINT: SignedDuration = SignedDuration::from_secs(30);

/// What the API server assumes.
fn usual_grace_period() -> SignedDuration {
    SignedDuration::from_secs(30)
}

impl ScavengerJobSpec {
    /// How often its workload writes a checkpoint at least, as far as anybody knows.
    #[must_use]
    pub fn checkpoint_every(&self) -> SignedDuration {
        self.checkpoint_interval.unwrap_or(self.interruption_after)
    }
}

/// What has to fit where. ScavengerJobs with equal demands either all fit or none does.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

    /// What a node takes as a whole or not at all, and how many of these there are: each pod, or all pods at once.
    #[must_use]
    pub fn units(&self) -> (Resources, u32) {
        if self.placement.one_node { (self.total(), 1) } else { (self.per_pod.clone(), self.pod_count) }
    }

    /// True if the planner may place it by what is really used: kube-scheduler, which counts requests, does not place it.
    #[must_use]
    pub fn may_go_by_use(&self) -> bool {
        self.pod_count == 1 && !self.placement.by_requests
    }

    /// Number of pods in each of the [`Self::units`].
    #[must_use]
    pub fn pods_per_unit(&self) -> u32 {
        if self.placement.one_node { self.pod_count } else { 1 }
    }
}

/// How many start times, interruption times and ended attempts a status keeps: the newest.
pub const HISTORY: usize = 50;

/// What became of a ScavengerJob. A plan carries the whole new value, and the executor writes it as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScavengerJobStatus {
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
    /// Attempts in a row whose end nobody explained.
    pub unknown_ends_in_a_row: u32,
    /// Nodes on which it was killed for memory although it used less than its limit.
    #[serde(default)]
    pub out_of_memory_nodes: Vec<Name>,
    /// Seconds that ended attempts ran, all pods together.
    pub active_seconds: i64,
    /// When that last fell back to 1.
    pub priority_start_over: Option<Timestamp>,
    /// When it last wrote a checkpoint, as its supervisor reported. The planner's view is ahead of what is stored.
    pub last_checkpoint: Option<Timestamp>,
    /// How far it has come, from 0 to 1, as its supervisor reported.
    #[serde(default)]
    pub progress: Option<f64>,
    /// Since when the active attempt has got next to none of the processor time that it could use: condition Starved.
    #[serde(default)]
    pub starved_since: Option<Timestamp>,
    /// Of the processor time that the active attempt could have used since its last checkpoint, the share that it got, as its
    /// supervisor reported. It is not stored: a planner that begins knows it with the next report.
    #[serde(default)]
    pub cpu_share: Option<Share>,
    /// What the active or last attempt was measured to use. The planner's view is ahead of what is stored.
    #[serde(default)]
    pub usage: Option<Box<AttemptUsage>>,
    /// Whether the active or last attempt runs under the supervisor; none in a pool that has none.
    #[serde(default)]
    pub supervised: Option<Supervised>,
    /// Whether its workload writes a checkpoint when it is told to stop, once an attempt has shown that it does not.
    #[serde(default)]
    pub observed_saves: Option<ObservedSaves>,
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
    /// Since when admission has refused each start.
    #[serde(default)]
    pub refused_since: Option<Timestamp>,
    /// [`ScavengerJobSpec::container_hash`] of the newest attempt in which a container had started.
    #[serde(default)]
    pub started_container: Option<u64>,
    /// The active or last attempt; apart, since most have made none.
    pub attempt: Option<Box<Attempt>>,
}

impl ScavengerJobStatus {
    /// What it means that an attempt is starved.
    pub const STARVED: &str = "its threads are ready to run, but get less than a tenth of the processor time that it requests: \
                               other pods of the node need it";

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// UID of the Job once it was seen.
    pub job_uid: Option<Name>,
    /// Generation of the spec it runs with.
    pub generation: i64,
    /// What it runs with, as far as capacity is concerned.
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
    /// True if it runs under the supervisor.
    #[serde(default)]
    pub supervised: bool,
    /// How its capacity was counted when it started: so it is counted until it ends.
    #[serde(default)]
    pub accounting: Accounting,
    /// The node that the planner chose for its pod; none if kube-scheduler chooses.
    #[serde(default)]
    pub node: Option<Name>,
    /// What was found out about its work once it had ended.
    #[serde(default)]
    pub measured: Measured,
    /// On what it ran; empty until it is known.
    #[serde(default)]
    pub nodes: Vec<AttemptNode>,
}

/// A node on which pods of an attempt ran, and how many ran on nodes like it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptNode {
    /// The first of its kind.
    pub name: Name,
    /// Pods on nodes of its kind.
    pub pod_count: u32,
    /// Its labels that tell which hardware it is.
    pub labels: BTreeMap<Name, Name>,
    /// CPU, memory and devices that it has for pods.
    pub allocatable: Resources,
    /// What all pods on the first one requested of that when the attempt began to run.
    #[serde(default)]
    pub requested: Resources,
}

impl Attempt {
    /// The first attempt of the first generation, decided at `time`.
    #[must_use]
    pub fn first(demand: Arc<Demand>, time: Timestamp) -> Self {
        Self { number: 1, generation: 1, demand, creation_time: time, ..Self::default() }
    }

    /// The decision to interrupt it that is written down already.
    #[must_use]
    pub fn decided(&self) -> Option<&Disruption> {
        self.disruption.as_ref().filter(|disruption| disruption.reason.is_operators_decision())
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
    /// Name of the pod (or Job) that showed it; empty if the planner decided it.
    pub pod: Name,
}

impl Disruption {
    /// A decision of the planner to interrupt.
    #[must_use]
    pub fn decided(reason: Reason, message: String, now: Timestamp) -> Self {
        Self { time: now, reason, message, pod: "".into() }
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// Why, as one word.
    pub reason: Reason,
    /// The same as a message.
    pub message: String,
    /// The sign that it was taken away, if it was.
    pub disruption: Option<Disruption>,
}

impl Ending {
    /// An ending that no pod's disruption explains.
    #[must_use]
    pub fn new(outcome: Outcome, reason: Reason, message: String) -> Self {
        Self { outcome, reason, message, disruption: None }
    }

    /// True unless the workload itself came to its end.
    #[must_use]
    pub fn is_taken_away(&self) -> bool {
        matches!(self.outcome, Outcome::Interrupted | Outcome::Withdrawn)
    }

    /// The workload, or what it asks for, failed.
    #[must_use]
    pub fn failed(reason: Reason, message: String) -> Self {
        Self::new(Outcome::Failed, reason, message)
    }
}

/// The batch/v1 Job of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
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

impl Job {
    /// True if the Job controller will make no more pods for it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.complete || self.failed.is_some()
    }
}

/// Why a ScavengerJob waits, as its status is to say it.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The reason and the message.
    pub waiting: Waiting,
    /// The shortage whose numbers the message tells, if it does.
    pub shortage: Option<Shortage>,
}

impl From<Waiting> for Explanation {
    fn from(waiting: Waiting) -> Self {
        Self { waiting, shortage: None }
    }
}

/// Why a demand cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// The resource that lacks, if it is one.
    pub resource: Option<String>,
    /// What is there: of that resource, or else the number of pods for which there is a node.
    pub left: i64,
    /// What it is a part of: of that resource, or else the number of nodes that were looked at.
    pub whole: i64,
    /// The same as a message for people.
    pub message: String,
}

impl Shortage {
    /// True if it is worth telling to somebody who was told the other: about another resource, or with a number that
    /// differs by more than a quarter.
    pub(crate) fn is_news_after(&self, other: &Self) -> bool {
        let differs = |a: i64, b: i64| a.abs_diff(b) > a.max(b).unsigned_abs() / 4;
        self.resource != other.resource || differs(self.left, other.left) || differs(self.whole, other.whole)
    }
}
