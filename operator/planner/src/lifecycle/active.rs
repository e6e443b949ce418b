//! An attempt that is being made: has it ended, is it to be interrupted, does it start, does it run?

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    interruption,
    known::{Known, Next, Transition},
    starting,
    verdict::{self, Case, JobState, Verdict},
};
use crate::{
    facts::tracked,
    values::{
        Attempt, Container, Ending, Name, Outcome, Phase, Pod, Reason, Waiting, WaitingReason, action::Task,
        earlier, later,
    },
};

/// What is said while `spec.suspend` holds a ScavengerJob.
pub(super) const HELD_BY_SUSPEND: &str = "held by spec.suspend";

/// What is next for the active attempt.
pub fn next(known: &Known<'_>, attempt: &Attempt) -> Next {
    // A Job that was made after all, when its creation had long been given up: two attempts must never meet.
    if let Some(stray) = known.jobs.values().find(|job| job.attempt != attempt.number && !job.deleting) {
        return Next::Do(Task::delete(stray));
    }
    let job = known.jobs.values().find(|job| job.attempt == attempt.number);
    let state = match job {
        Some(job) => JobState::There(job),
        // Once its UID was written down, or its pods were seen, the Job must have been there.
        None if attempt.job_uid.is_some() || known.memory.lost_job == Some(attempt.number) => JobState::Gone,
        None => JobState::Unseen,
    };
    let pods: BTreeMap<Name, Arc<Pod>> = known
        .pods
        .iter()
        .filter(|(_, pod)| pod.is_of(attempt.number))
        .map(|(name, pod)| (name.clone(), pod.clone()))
        .collect();
    let judged_at = match judge(known, attempt, state, &pods) {
        Verdict::Ended(ending) => {
            return Next::Change(Transition::End(interruption::explained(attempt, ending)));
        }
        Verdict::NeedsList => return Next::Do(Task::ListPods { job: None }),
        Verdict::OpenUntil(time) => Some(time),
        Verdict::Open => None,
    };
    // Whoever is to blame for a pod that failed: somebody counts on the capacity of its peers.
    if let Some(next) = interruption::next(known, attempt, &pods) {
        return match next {
            Next::Wait(timer) => Next::Wait(earlier(timer, judged_at)),
            next => next,
        };
    }
    // It has failed, so there is nothing to suspend.
    if judged_at.is_some() {
        return Next::Wait(judged_at);
    }
    // Only now: an end that has shown is not talked away.
    if known.sj.controls.suspend {
        return Next::Change(suspend(known, attempt));
    }
    let deadline = runs_out_at(known, attempt);
    if let Some((seconds, time)) = deadline
        && time <= known.now
    {
        return Next::Change(Transition::fail(Reason::DeadlineExceeded, deadline_message(seconds)));
    }
    let Some(job) = job else { return without_job(known, attempt, state, &pods) };
    let all = attempt.demand.pod_count as usize;
    // Containers that were injected beside the main ones may not have started yet, or have failed.
    let up = pods.values().filter(|pod| pod.container == Container::Running).count();
    let ended = known.evidence.succeeded(&pods);
    match known.sj.status.phase {
        // A short workload may have ended before all of its pods were seen to run at the same time.
        Phase::Starting if up + ended >= all && up > 0 => {
            Next::Change(Transition::Run { job_uid: job.uid.clone() })
        }
        Phase::Starting => starting::next(known, attempt, job, &pods),
        _ => match next_running(known) {
            Next::Wait(timer) => Next::Wait(earlier(timer, deadline.map(|(_, time)| time))),
            Next::Inform(transition, _) => Next::Inform(transition, deadline.map(|(_, time)| time)),
            next => next,
        },
    }
}

fn judge(
    known: &Known<'_>,
    attempt: &Attempt,
    job: JobState<'_>,
    pods: &BTreeMap<Name, Arc<Pod>>,
) -> Verdict {
    verdict::judge(&Case {
        attempt,
        evidence: known.evidence,
        job,
        pods,
        listed: known.memory.listed == Some(attempt.number),
        lost: known.pod_on_lost_node(),
        is_to_blame: known.is_to_blame,
        usage: known.sj.status.usage.as_deref(),
        out_of_memory_nodes: &known.sj.status.out_of_memory_nodes,
        made_progress: made_progress(known, attempt),
        killed_by: &known.memory.killed_by,
        node_agents: known.node_agents,
        now: known.now,
    })
}

/// What is next for an attempt whose Job is not there.
fn without_job(
    known: &Known<'_>,
    attempt: &Attempt,
    job: JobState<'_>,
    pods: &BTreeMap<Name, Arc<Pod>>,
) -> Next {
    if matches!(job, JobState::Gone) {
        starting::next_of_orphans(known, attempt, pods)
    } else if let Some(next) = starting::next_of_refused(known) {
        next
    } else if known.memory.may_create == Some(attempt.number) {
        starting::create_job(known, attempt)
    } else {
        // A restarted operator cannot know whether the Job was made and deleted while it was away.
        Next::Do(Task::ListPods { job: None })
    }
}

/// True if an attempt has run for a whole `interruptionAfter` by now.
fn made_progress(known: &Known<'_>, attempt: &Attempt) -> bool {
    let stretch = known.sj.spec.as_ref().map(|spec| spec.interruption_after);
    attempt
        .start_time
        .zip(stretch.ok())
        .is_some_and(|(start, stretch)| known.now.duration_since(start) >= stretch)
}

/// `spec.activeDeadlineSeconds`, and when this attempt will have used it up; none if its run time is not limited.
fn runs_out_at(known: &Known<'_>, attempt: &Attempt) -> Option<(i64, Timestamp)> {
    let (deadline, started) = (known.sj.controls.active_deadline?, attempt.start_time?);
    let before = SignedDuration::from_secs(known.sj.status.active_seconds);
    let left = deadline.saturating_sub(before).max(SignedDuration::ZERO);
    Some((deadline.as_secs(), later(started, left)))
}

/// What is said when the run time of all attempts together is used up.
pub(super) fn deadline_message(deadline: i64) -> String {
    format!("all attempts together reached spec.activeDeadlineSeconds ({deadline} s)")
}

/// Stops an attempt because the spec asks for it: the status first, then its Job goes as that of any attempt that ended.
fn suspend(known: &Known<'_>, attempt: &Attempt) -> Transition {
    let outcome = verdict::taken_away(attempt, known.evidence);
    let ending = Ending::new(outcome, Reason::Suspended, HELD_BY_SUSPEND.to_owned());
    let waiting = Waiting { reason: WaitingReason::Suspended, message: HELD_BY_SUSPEND.to_owned() };
    match outcome {
        Outcome::Interrupted => Transition::Interrupt(ending, waiting),
        _ => Transition::Withdraw(ending, waiting),
    }
}

/// An attempt whose pods all run. Its running priority follows from the clock and from what its supervisor reports, and is
/// written down with whatever is written next. What is reported is written down for people, too, once a minute at most.
fn next_running(known: &Known<'_>) -> Next {
    let status = &known.sj.status;
    if status.observed_generation != known.sj.generation {
        return Next::Inform(Transition::Observe, None);
    }
    if known.has_news {
        let again = known.written.map(|written| later(written, tracked::WRITE_EVERY));
        return match again.filter(|again| *again > known.now) {
            Some(again) => Next::Wait(Some(again)),
            None => Next::Inform(Transition::Report, None),
        };
    }
    Next::Wait(None)
}
