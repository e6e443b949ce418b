//! What the planner remembers of one ScavengerJob beside what the cluster shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use jiff::Timestamp;

use crate::values::{Demand, Key, Name, Waiting, action::PodEvent};

/// What the planner remembers of one ScavengerJob. Losing it costs a look at the API server, never correctness.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Answer to the last [`crate::values::action::Task::Prepare`], while room is reserved.
    pub prepared: Option<Prepared>,
    /// Why the last start could not be made, and when that was found.
    pub given_back: Option<(Waiting, Timestamp)>,
    /// Since when something that the spec refers to was found missing.
    pub missing_since: Option<Timestamp>,
    /// The attempt of which this planner knows that no Job was made yet.
    pub may_create: Option<u32>,
    /// The attempt whose Job was made and vanished.
    pub lost_job: Option<u32>,
    /// The attempt whose pods were listed live after its Job was over or gone.
    pub listed: Option<u32>,
    /// True while the list that is under way asks why the Job controller made no pods.
    pub asks_why: bool,
    /// UIDs of the active attempt's pods that were evicted, and when; the watch may not show it yet.
    pub evicted: BTreeMap<Name, Timestamp>,
    /// The attempt that is not waited for any more, if it is asked for a checkpoint: somebody who cannot wait counts on its
    /// capacity.
    pub hurried: Option<u32>,
    /// UIDs of pods that were deleted again, with their own grace period.
    pub deleted_again: BTreeSet<Name>,
    /// Set once it was asked live why the Job controller made no pods.
    pub create_failure: Option<CreateFailure>,
    /// Newest events of the pods that did not start in time, and when they were read.
    pub pod_events: Option<PodEvents>,
    /// The attempt whose pods were all made.
    pub taken: Option<u32>,
    /// Since when the active attempt's Job is refused for a reason that may pass, and the newest of the sentences.
    pub not_made: Option<(Timestamp, String)>,
    /// Live reads that found no Job although pods of the attempt are left.
    pub no_job: Option<NoJob>,
    /// True while its user keeps it from starting, and it could not have started before.
    pub held_back: bool,
    /// Since when it could have started. Its status says so as the time before which it could not.
    pub could_start: Option<Timestamp>,
    /// When this planner first saw that it is being deleted.
    pub deleting_since: Option<Timestamp>,
}

/// [`Memory`] that takes room only while something is in it: of a hundred thousand ScavengerJobs most just wait.
#[derive(Debug, Clone, Default)]
pub struct Remembered(Option<Box<Memory>>);

impl Deref for Remembered {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        static NOTHING: LazyLock<Memory> = LazyLock::new(Memory::default);
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Remembered {
    fn deref_mut(&mut self) -> &mut Memory {
        self.0.get_or_insert_default()
    }
}

/// Live reads of an attempt's Job that found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoJob {
    /// Number of the attempt.
    pub attempt: u32,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
}

/// When the newest events of pods were read, and the event of each pod that has one.
pub type PodEvents = (Timestamp, Vec<(Name, Option<PodEvent>)>);

/// Why the Job controller made no pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFailure {
    /// When it was asked.
    pub asked: Timestamp,
    /// The sentence of whoever refused the pods, if there is one.
    pub said: Option<String>,
}

/// Answer to a [`crate::values::action::Task::Prepare`].
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Pods that have not ended.
    pub pods_left: u32,
    /// A pod of another ScavengerJob that has not ended and works in the same folder.
    pub folder_pod: Option<Name>,
    /// Kind and name of what does not exist.
    pub missing: Vec<(String, String)>,
}

/// What is remembered of the promise to one ScavengerJob.
#[derive(Debug, Default)]
pub(crate) struct Promise {
    /// The attempt for which capacity was reserved after a restart, so that it is done once.
    pub(crate) recovered: Option<u32>,
    /// What it asked for when capacity was reserved; the spec may be replaced until the start is written.
    reserved_for: Option<Box<Demand>>,
    /// For which other ScavengerJob the capacity is reserved that was promised, if it is lent.
    lent_by: Option<Key>,
}

impl Promise {
    /// Capacity was reserved for this demand, maybe such as is lent.
    pub(crate) fn made_for(&mut self, demand: Demand, lent_by: Option<Key>) {
        self.reserved_for = Some(Box::new(demand));
        self.lent_by = lent_by;
    }

    /// For which other ScavengerJob the capacity is reserved that was promised, if it is lent.
    pub(crate) fn lent_by(&self) -> Option<&Key> {
        self.lent_by.as_ref()
    }

    /// True if capacity was reserved for this demand, and not for one that the spec asked for before.
    pub(crate) fn is_for(&self, demand: &Demand) -> bool {
        self.reserved_for.as_deref() == Some(demand)
    }
}
