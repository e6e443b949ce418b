//! An attempt of a ScavengerJob, its Job, and what the ScavengerJob has come to.

use super::pod::Allowed;
use crate::values::{Amounts, AttemptId, PodId, SjId, Time};

/// The beginning of an attempt.
#[derive(Debug, Clone)]
pub struct Start {
    /// The ScavengerJob.
    pub sj: SjId,
    /// Counted from 1.
    pub number: u32,
    /// Priority of its pods.
    pub priority: i32,
    /// Where its pods may go.
    pub allowed: Allowed,
    /// True if the Job controller makes another pod for each that is taken away; else the Job fails, and all of its pods go.
    pub remakes: bool,
    /// What its pods request if they may use more than that; none if they request what they use.
    pub least: Option<Amounts>,
}

/// How the Job of an attempt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// It is neither complete nor failed.
    Active,
    /// All of its pods have succeeded.
    Complete(Time),
    /// A pod of it was taken away.
    Failed(Time),
}

/// An attempt.
#[derive(Debug)]
pub struct Attempt {
    /// Its beginning.
    pub start: Start,
    /// Its pods by their index: the newest of each.
    pub pods: Vec<PodId>,
    /// Its Job.
    pub job: Job,
    /// When its work was done.
    pub work_done: Option<Time>,
    /// Since when all of its containers run, and how long the restart takes of that.
    pub run: Option<(Time, Time)>,
    /// How long of the run it waited for processors.
    pub starved: Time,
    /// How many runs it has begun.
    pub(super) runs: u32,
    /// Pods that have not ended.
    pub live: usize,
    pub(super) is_over: bool,
}

/// How a ScavengerJob stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScavengerState {
    /// Work that its checkpoints hold.
    pub kept: Time,
    /// When all of its containers ran for the first time.
    pub first_run: Option<Time>,
    /// When its work was done.
    pub finished: Option<Time>,
    /// How often it was interrupted while it ran.
    pub interruptions: u32,
    /// Its attempt.
    pub attempt: Option<AttemptId>,
}
