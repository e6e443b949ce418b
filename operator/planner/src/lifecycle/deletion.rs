//! The end of a ScavengerJob that is deleted: its Jobs go, and once no pod of it is left its finalizer.

use jiff::SignedDuration;

use super::{
    known::Known,
    leftovers,
    next::{Next, Transition},
    transition,
};
use crate::values::{action::Task, later};

/// How long a deletion may wait for pods before somebody is told: the garbage collector needs a moment to delete the
/// pods of a Job that is gone.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// How often it is looked again at pods that hold something up: their node can be lost without any of them changing.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// What is next for a ScavengerJob that is being deleted.
#[must_use]
pub fn next(known: &Known<'_>) -> Next {
    let pods_left = known.first_pod_left().is_some();
    // A Job that is over and has no pods left goes with its owner: the garbage collector deletes it.
    let mut holding = known.jobs.values().filter(|job| pods_left || !job.is_over());
    if let Some(job) = holding.clone().find(|job| !job.deleting) {
        return Next::Do(Task::delete(job));
    }
    if let Some(next) = leftovers::next_of_orphans(known) {
        return next;
    }
    if pods_left || holding.next().is_some() {
        return explain(known);
    }
    if let Some(until) = leftovers::pods_may_come_until(known) {
        return Next::Wait(Some(until));
    }
    if known.sj.has_finalizer {
        return Next::Do(Task::RemoveFinalizer { last: transition::uncounted(known).map(Box::new) });
    }
    Next::Wait(None)
}

/// A pod on a node that does not answer can hold a deletion forever. The message says which.
fn explain(known: &Known<'_>) -> Next {
    let Some(message) = leftovers::holds_deletion(known) else {
        return Next::Wait(Some(later(known.now, LOOK_AGAIN)));
    };
    if known.sj.status.message == message {
        return Next::Wait(Some(later(known.now, LOOK_AGAIN)));
    }
    let until = later(known.memory.deleting_since.unwrap_or(known.now), PATIENCE);
    if known.now < until {
        return Next::Wait(Some(until));
    }
    Next::Inform(Transition::ExplainDeletion(message), Some(later(known.now, LOOK_AGAIN)))
}
