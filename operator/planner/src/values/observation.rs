//! Values in: one thing that was seen, or what became of an action.

use serde::{Deserialize, Serialize};

use super::{
    Job, Key, LiveReport, Name, Node, Pod, PodUsage, RememberedUse, ScavengerJob, Settings, Usage, Volume,
};
use crate::values::action::ActionResult;

/// One thing that was seen, or that became of an action.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Observation {
    /// A ScavengerJob is there, in this version.
    ScavengerJob(Box<ScavengerJob>),
    /// A ScavengerJob is gone.
    ScavengerJobGone(Key),
    /// A Job is there, in this version.
    Job(Job),
    /// A Job is gone: its namespace, its ScavengerJob's UID, and its own.
    JobGone {
        /// Namespace of the Job.
        namespace: Name,
        /// UID of the ScavengerJob.
        owner: Name,
        /// UID of the Job.
        uid: Name,
    },
    /// A pod is there, in this version.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodGone(Key),
    /// The pod watch lists all pods again: versions seen before and after have no order.
    PodsRelisted,
    /// A node is there, in this version.
    Node(Node),
    /// A node is gone.
    NodeGone(Name),
    /// A PersistentVolume is there, in this version.
    Volume(Volume),
    /// A PersistentVolume is gone.
    VolumeGone(Name),
    /// True once all PersistentVolumes were listed, and before anybody says otherwise; false while that fails.
    VolumesKnown(bool),
    /// How much cpu and memory nodes really use; none if that was asked and not answered.
    Usage(Option<Vec<Usage>>),
    /// Nobody measures what nodes and pods use.
    UsageNotServed,
    /// What pods of ScavengerJobs really use.
    PodUsage(Vec<PodUsage>),
    /// What the planner before this one learned of the use of nodes.
    RememberedUse(Box<RememberedUse>),
    /// The supervisor of a pod reports.
    Report(LiveReport),
    /// The pool's settings, or why nothing can be admitted.
    Pool(Box<Result<Settings, String>>),
    /// An action was carried out, or was not.
    Done(ActionResult),
}
