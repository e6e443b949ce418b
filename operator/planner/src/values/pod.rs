//! A pod, of a ScavengerJob or not.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{EndReport, Key, Name, Placement, later, resources::Resources};

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
    /// What it occupies: containers, sidecars, init containers, overhead, and `pods: 1`. During an in-place resize the
    /// larger of what it had and what it is to have.
    pub requests: Resources,
    /// What a pod of a ScavengerJob may really use, if that is more than it requests: its limits, with accounting Usage.
    #[serde(default)]
    pub limits: Option<Box<Resources>>,
    /// Millicores that a kubelet with the static CPU manager keeps for it alone: the whole cores of a Guaranteed pod.
    #[serde(default)]
    pub exclusive_milli: i64,
    /// When a container of it was last killed for memory.
    #[serde(default)]
    pub out_of_memory: Option<Timestamp>,
    /// What an in-place resize that its node deferred for lack of capacity adds to what it had; part of `requests`.
    #[serde(default)]
    pub deferred_resize: Option<Resources>,
    /// Where it is bound.
    pub node: Option<Name>,
    /// Where the scheduler frees capacity for it.
    pub nominated_node: Option<Name>,
    /// Where it may go.
    pub placement: Placement,
    /// `spec.priority`.
    pub priority: i32,
    /// When it was created.
    pub creation_time: Timestamp,
    /// Since when it has condition PodScheduled=True: when it was bound.
    #[serde(default)]
    pub scheduled: Option<Timestamp>,
    /// True unless its preemptionPolicy is Never.
    pub preempts: bool,
    /// PersistentVolumeClaims of its namespace that it mounts.
    #[serde(default)]
    pub claims: Vec<Name>,
    /// What of its spec says more about where it may go than [`Self::placement`] can tell; empty if nothing does.
    pub unjudged: Vec<Name>,
    /// What [`Self::unschedulable`] means, once the planner has read it.
    #[serde(skip)]
    pub refused: Refused,
    /// `status.phase`.
    pub phase: PodPhase,
    /// When its deletion was requested; see `deletion_forced`.
    pub deletion_requested: Option<Timestamp>,
    /// True if no grace period is left. Then it may have been requested earlier: the API server moves the stamp to the
    /// time of the kubelet's own deletion, which comes when everything has ended, and such a pod stays until the Job
    /// controller has counted it.
    #[serde(default)]
    pub deletion_forced: bool,
    /// `spec.terminationGracePeriodSeconds`.
    #[serde(default = "usual_grace_period")]
    pub grace_period: SignedDuration,
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
    /// Name of its scheduler, if that is not kube-scheduler.
    #[serde(default)]
    pub scheduler: Option<Name>,
    /// True while scheduling gates hold it.
    pub gated: bool,
    /// `status.reason` and `status.message`, for example Evicted or OutOfcpu.
    pub status_reason: Option<(String, String)>,
    /// What an init container said that failed, if it is not the supervisor's: the main container never starts.
    #[serde(default)]
    pub failed_init: Option<String>,
    /// True if it has containers that were injected, beside its main one and that of the supervisor.
    #[serde(default)]
    pub has_injected: bool,
    /// Its main container.
    pub container: Container,
    /// When its main container started.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// Its index in its Job.
    #[serde(default)]
    pub index: Option<u32>,
    /// The init container that brings the supervisor; none if it runs without one.
    #[serde(default)]
    pub supervisor: Option<Box<Container>>,
    /// What the supervisor left when the workload had ended.
    #[serde(default)]
    pub end_report: Option<EndReport>,
}

/// What a scheduler says of an ordinary pod that it cannot place, as far as the planner understands it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// True if some node has not enough for it.
    pub lacks_capacity: bool,
    /// The first reason that the planner cannot judge.
    pub unjudged: Option<Name>,
}

impl Pod {
    /// True if it belongs to the attempt of this number.
    #[must_use]
    pub fn is_of(&self, attempt: u32) -> bool {
        self.owner.as_ref().is_some_and(|(_, number)| *number == attempt)
    }

    /// True if it has not ended and nobody has asked for its end.
    #[must_use]
    pub fn is_evictable(&self) -> bool {
        !self.phase.is_terminal() && self.deletion_requested.is_none()
    }

    /// When it was bound to its node, which was not before it was created; none if it is not.
    #[must_use]
    pub fn bound_since(&self) -> Option<Timestamp> {
        self.node.as_ref().map(|_| self.scheduled.unwrap_or(self.creation_time))
    }

    /// True if its main container has yet to start.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.phase.is_terminal() && !self.container.has_started()
    }

    /// What it holds for its ScavengerJob, whatever it requests.
    #[must_use]
    pub fn holds(&self) -> &Resources {
        self.limits.as_deref().unwrap_or(&self.requests)
    }

    /// When it should be gone; none unless it is being deleted. Whoever deletes a pod may choose any grace period, but
    /// nobody has to wait for longer than the pod's own.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let own = later(self.deletion_requested?, self.grace_period);
        Some(self.deletion_due.or(self.deletion_requested)?.min(own))
    }

    /// When the operator deletes it again, because it was deleted with a longer grace period than its own.
    #[must_use]
    pub fn outstays(&self) -> Option<Timestamp> {
        self.due().filter(|due| !self.phase.is_terminal() && self.deletion_due > Some(*due))
    }

    /// True if its node went down under it: the kubelet lost track of its container before anybody wanted the pod gone. Of a
    /// pod that is deleted or evicted the kubelet says that of every container that it does not find any more, on a node
    /// that is well.
    #[must_use]
    pub fn was_lost_by_node(&self) -> bool {
        let Container::Ended { reason, time, .. } = &self.container else { return false };
        let is_first = |requested| time.is_some_and(|ended| ended < requested);
        let is_evicted = self.status_reason.as_ref().is_some_and(|(reason, _)| reason == "Evicted");
        tells_of_loss(reason) && self.deletion_requested.is_none_or(is_first) && !is_evicted
    }
}

/// What Kubernetes gives a pod that does not say.
fn usual_grace_period() -> SignedDuration {
    SignedDuration::from_secs(30)
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
    /// All containers ended, one without success, be it injected. Or the kubelet ended the pod, or refused it.
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

/// True if the kubelet gives this reason for the end of a container that it lost track of.
pub(crate) fn tells_of_loss(reason: &str) -> bool {
    matches!(reason, "ContainerStatusUnknown" | "Unknown")
}
