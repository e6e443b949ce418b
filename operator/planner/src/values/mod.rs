//! The cluster as the planner sees it, in plain types. The operator turns API objects into these.

pub mod action;
mod budget;
mod calendar;
mod confinement;
mod filling;
mod placement;
mod pod;
mod reports;
pub mod resources;
mod runtime_class;
mod scavenger_job;
mod settings;
mod sharing;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use action::Observation;
pub use budget::Budget;
pub use calendar::{Calendar, Schedule, Window};
pub use confinement::Confinement;
pub use filling::{Filling, Headroom};
pub(crate) use placement::{ASKED_BEFORE, Named};
pub use placement::{
    Access, Closed, Expression, Node, NodeTerm, Operator, Placement, Taint, Toleration, Usage, Volume,
};
pub(crate) use pod::tells_of_loss;
pub use pod::{Container, Pod, PodPhase, Refused};
pub use reports::{
    Accounting, AttemptUsage, ByUse, CheckpointRequest, Cpu, CpuTime, EndReport, Figures, Harm, KillCause,
    KillReport, LiveReport, Measured, ObservedSaves, PodUsage, Rank, RememberedNode, RememberedUse, Stop,
    Supervised, Supervision, SupervisionSpec, Supervisor, UsageRules,
};
pub use runtime_class::RuntimeClass;
pub(crate) use scavenger_job::FOR_A_CHECKPOINT;
pub use scavenger_job::{
    Admitted, Attempt, AttemptNode, Controls, Demand, Disruption, Ending, Explanation, HISTORY, Job, Runtime,
    ScavengerJob, ScavengerJobSpec, ScavengerJobStatus, Shortage, Waiting,
};
pub use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason};
pub use settings::{NodeGroup, PreemptionMode, Settings};
pub use sharing::{Averages, Counted, Order, Sharing, Stretch, Tenant, unit};

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

/// How many ScavengerJobs are where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By phase.
    pub phases: BTreeMap<Phase, usize>,
    /// Those that wait, by reason.
    pub waiting: BTreeMap<WaitingReason, usize>,
}

/// `time` after `duration`; what a status says may be absurd, and must not end the planner.
pub(crate) fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// The earlier of two times, where there is one.
pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
