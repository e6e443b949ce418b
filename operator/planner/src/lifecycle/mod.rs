//! The life of one ScavengerJob: what is to be done about it next, given what is known of it alone. Capacity and order are
//! decided elsewhere ([`crate::queue`]); what this returns says only whether it may be started.
//!
//! Of a ScavengerJob that is deleted the Jobs go, and once no pod of it is left its finalizer.

pub(crate) mod active;
pub(crate) mod attempt;
pub(crate) mod interruption;
pub(crate) mod known;
pub mod loss;
pub(crate) mod out_of_memory;
pub(crate) mod priority;
pub(crate) mod starting;
pub(crate) mod transition;
pub(crate) mod verdict;
pub(crate) mod waiting;

use jiff::{SignedDuration, Timestamp};

use crate::values::{
    Job, Reason, WaitingReason,
    action::{Failure, Task},
    earlier, later,
};
use known::{Known, Next, Transition};

/// When a Job is read again that no watch has shown since it was made. Watches are behind by much less, unless they are
/// stuck; and if the Job was deleted while a watch listed everything again, none will ever show it.
const UNWATCHED_PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// What is to be done next.
pub fn next(known: &Known<'_>) -> Next {
    interruption::hurried(known, next_step(known))
}

fn next_step(known: &Known<'_>) -> Next {
    let status = &known.sj.status;
    if known.sj.deleting {
        return next_of_deleted(known);
    }
    if !status.phase.is_active()
        && let Some(next) = attempt::next_measured(known)
    {
        return next;
    }
    if status.phase.is_finished() {
        return next_finished(known);
    }
    match (status.phase.is_active(), &status.attempt) {
        (true, Some(attempt)) => doubted(known, active::next(known, attempt)),
        _ => waiting::next(known),
    }
}

/// Instead of waiting for news of a Job forever.
fn doubted(known: &Known<'_>, next: Next) -> Next {
    let (Some((uid, since)), Next::Wait(timer)) = (known.unwatched_job, &next) else { return next };
    let Some(job) = known.jobs.get(uid) else { return next };
    let until = later(*since, UNWATCHED_PATIENCE);
    if known.now < until {
        return Next::Wait(earlier(*timer, Some(until)));
    }
    Next::Do(Task::ReadJob { job: job.key.clone(), uid: uid.clone() })
}

/// What is to be done after an action was refused.
pub fn after_refusal(known: &Known<'_>, refusal: Failure) -> Next {
    let is_active = known.sj.status.active_attempt().is_some();
    match refusal {
        // The next attempt has another name.
        Failure::NameTaken(message) if is_active => {
            Next::Change(Transition::give_up(Reason::NameTaken, message))
        }
        Failure::Refused(message) if is_active => Next::Change(starting::denied(known, message)),
        Failure::Refused(message) => Next::Change(Transition::fail(Reason::Refused, message)),
        Failure::QuotaExceeded(message) if is_active => {
            Next::Change(Transition::withdraw(WaitingReason::QuotaExceeded, message))
        }
        _ => next(known),
    }
}

fn next_finished(known: &Known<'_>) -> Next {
    let now = known.now;
    let status = &known.sj.status;
    if let Some(job) = useless_job(known) {
        return Next::Do(Task::delete(job));
    }
    if let Some(next) = waiting::next_of_orphans(known) {
        return next;
    }
    let until = later(status.finish_time.unwrap_or(now), known.sj.controls.ttl_after_finished);
    if until <= now {
        return Next::Do(Task::DeleteScavengerJob { resource_version: known.sj.resource_version });
    }
    let again = earlier(Some(until), outlived_main(known).filter(|time| *time > now));
    if status.observed_generation != known.sj.generation {
        return Next::Inform(Transition::Observe, again);
    }
    Next::Wait(again)
}

/// Until when a pod of the last attempt may go on whose main container has ended.
fn outlived_main(known: &Known<'_>) -> Option<Timestamp> {
    let number = known.sj.status.attempt.as_ref()?.number;
    let pods = known.pods.values().filter(|pod| pod.is_of(number));
    pods.filter_map(|pod| known.evidence.outlives_main(pod)).min()
}

/// A Job of a finished ScavengerJob that has to go because it would go on trying. The Job of an attempt that
/// really ended stays, so that its log can be read; the Job controller may be a second behind in seeing its end. But if a
/// container that was injected does not end, the Job never does, and its pod would hold its capacity.
fn useless_job<'a>(known: &Known<'a>) -> Option<&'a Job> {
    let goes_on = outlived_main(known).is_some_and(|until| until <= known.now);
    let kept = known.sj.status.attempt.as_ref().filter(|attempt| {
        !goes_on
            && attempt.outcome.is_some()
            && attempt.reason.as_ref().is_some_and(Reason::job_ends_on_its_own)
    });
    known.jobs.values().map(|job| &**job).find(|job| {
        !job.deleting && !job.is_over() && kept.is_none_or(|attempt| attempt.number != job.attempt)
    })
}

/// How long a deletion may wait for pods before somebody is told: the garbage collector needs a moment to delete the
/// pods of a Job that is gone.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// How often it is looked again at pods that hold something up: their node can be lost without any of them changing.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// What is next for a ScavengerJob that is being deleted.
fn next_of_deleted(known: &Known<'_>) -> Next {
    let pods_left = known.first_pod_left().is_some();
    // A Job that is over and has no pods left goes with its owner: the garbage collector deletes it.
    let mut holding = known.jobs.values().filter(|job| pods_left || !job.is_over());
    if let Some(job) = holding.clone().find(|job| !job.deleting) {
        return Next::Do(Task::delete(job));
    }
    if let Some(next) = waiting::next_of_orphans(known) {
        return next;
    }
    if pods_left || holding.next().is_some() {
        return explain_deletion(known);
    }
    if let Some(until) = waiting::pods_may_come_until(known) {
        return Next::Wait(Some(until));
    }
    if known.sj.has_finalizer && !known.is_counted {
        // What its tenant used must not depend on whether it is deleted.
        return Next::Wait(None);
    }
    if known.sj.has_finalizer {
        return Next::Do(Task::RemoveFinalizer { last: transition::uncounted(known).map(Box::new) });
    }
    Next::Wait(None)
}

/// A pod on a node that does not answer can hold a deletion forever. The message says which.
fn explain_deletion(known: &Known<'_>) -> Next {
    let Some(message) = waiting::holds_deletion(known) else {
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
