//! The cluster as the planner sees it, in plain types. The operator turns API objects into these.

pub mod action;
mod calendar;
mod confinement;
mod explanation;
mod filling;
mod node;
mod node_group;
mod observation;
mod placement;
mod pod;
pub mod resources;
mod scavenger_job;
mod settings;
mod supervision;
mod thresholds;
pub(crate) mod time;
pub mod urgency;
mod usage;
mod volume;
pub mod weights;

use std::{collections::BTreeMap, sync::Arc};

pub use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason};
use serde::{Deserialize, Serialize};

pub use calendar::{Calendar, Window};
pub use confinement::Confinement;
pub use explanation::{Explanation, Shortage};
pub use filling::{Filling, Headroom};
pub use node::{Node, Taint, Usage};
pub use node_group::NodeGroup;
pub use observation::Observation;
pub(crate) use placement::Named;
pub use placement::{Expression, NodeTerm, Operator, Placement, Toleration};
pub(crate) use pod::tells_of_loss;
pub use pod::{Container, Pod, PodPhase};
pub use scavenger_job::{
    Admitted, Attempt, AttemptNode, Controls, Demand, Disruption, Ending, HISTORY, Job, ScavengerJob,
    ScavengerJobSpec, ScavengerJobStatus, Waiting,
};
pub use settings::{PreemptionMode, Settings};
pub use supervision::{
    CheckpointRequest, EndReport, LiveReport, Measured, ObservedSaves, Rank, Stop, Supervised, Supervision,
    SupervisionSpec, Supervisor,
};
pub use usage::{
    Accounting, AttemptUsage, ByUse, Figures, Harm, PodUsage, RememberedNode, RememberedUse, UsageRules,
};
pub use volume::{Access, Volume};

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
