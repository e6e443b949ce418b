//! A pod, from its creation to its end.

use std::sync::Arc;

use crate::values::{Amounts, AttemptId, NodeId, Time};

/// Where a pod may go; everywhere if none.
pub type Allowed = Option<Arc<Vec<NodeId>>>;

/// To whom a pod belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The ordinary pod at this place in the workload.
    Ordinary(u32),
    /// An attempt, and its place in it.
    Attempt(AttemptId, u32),
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its container does not run yet.
    Pending,
    /// Its container runs.
    Running,
    /// It has done what it was to do.
    Succeeded,
    /// It was taken away.
    Failed,
}

/// Who took a pod away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disruption {
    /// kube-scheduler, for a pod of higher priority.
    Preempted,
    /// A policy, by eviction.
    Evicted,
    /// The Job controller, because its Job has failed.
    JobFailed,
}

/// A pod.
#[derive(Debug, Clone)]
pub struct Pod {
    /// To whom it belongs.
    pub owner: Owner,
    /// What it requests.
    pub requests: Amounts,
    /// Its priority.
    pub priority: i32,
    /// When it was created.
    pub created: Time,
    /// Where it is bound.
    pub node: Option<NodeId>,
    /// Where kube-scheduler frees capacity for it.
    pub nominated: Option<NodeId>,
    /// True once kube-scheduler found no node for it.
    pub unschedulable: bool,
    /// Where it is in its life.
    pub phase: Phase,
    /// When it was bound.
    pub bound: Option<Time>,
    /// When its container started.
    pub started: Option<Time>,
    /// When its end was asked for, and by whom.
    pub deleted: Option<(Time, Disruption)>,
    /// True if its container was killed because its node had no memory left.
    pub is_killed: bool,
    /// When it ended.
    pub ended: Option<Time>,
    /// True once its object is gone.
    pub is_gone: bool,
    /// What it waits with.
    pub(super) shape: usize,
    /// How long its container is to run, if it is an ordinary pod.
    pub(super) left: Time,
    /// Since when its container runs and nothing gets done.
    pub(super) idle_since: Option<Time>,
}

impl Pod {
    /// True once it holds nothing any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}
