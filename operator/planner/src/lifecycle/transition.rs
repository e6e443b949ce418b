//! How a step in the life of a ScavengerJob becomes its status: the one place that writes phases, counters and times.

use jiff::{SignedDuration, Timestamp};

use super::{
    attempt, interruption,
    known::{Known, Transition},
    loss::{self, Work},
    out_of_memory::{self, Kills},
    priority, verdict, waiting,
};
use crate::{
    backoff,
    values::{
        Accounting, Admitted, Attempt, Disruption, Ending, HISTORY, Measured, Name, ObservedSaves, Outcome,
        Phase, Reason, ScavengerJob, ScavengerJobStatus, Supervised, Supervision, Waiting, WaitingReason,
        action::{Event, StatusWrite, Task},
        later,
    },
};

/// The write of the status that a transition leads to.
pub fn apply(known: &Known<'_>, transition: Transition) -> Task {
    let mut status = known.sj.status.clone();
    status.priority_start_over = priority::started_over(known.sj, known.settings, known.now);
    let (ended, event) = match (transition, known.sj.status.active_attempt()) {
        (Transition::Start, _) => start(known, &mut status),
        (Transition::Run { job_uid }, Some(attempt)) => run(known, &mut status, attempt, job_uid),
        (Transition::OrderInterruption(order), Some(attempt)) => {
            order_interruption(&mut status, attempt, order)
        }
        (Transition::End(ending), Some(attempt)) => end(known, &mut status, attempt, ending),
        (Transition::Interrupt(ending, waiting), Some(attempt)) => {
            interrupt(known, &mut status, attempt, &ending, waiting)
        }
        (Transition::Withdraw(ending, waiting), Some(attempt)) => {
            withdraw(known, &mut status, attempt, &ending, waiting)
        }
        (Transition::Finish(ending), attempt) => finish(known, &mut status, attempt, ending),
        (Transition::ExplainDeletion(message), _) => {
            status.message = message;
            (None, None)
        }
        (Transition::Measure(measured, saves), _) => measure(&mut status, measured, saves),
        // What is reported is written with every transition; and nothing runs that could end.
        (Transition::Report | Transition::Observe, _) | (_, None) => (None, None),
    };
    write(known.sj, status, ended, event)
}

/// The write that says why a ScavengerJob waits: [`crate::lifecycle::known::Next::NotReady`], once `plan/inform.rs` finds it due.
pub fn wait(sj: &ScavengerJob, waiting: Waiting, now: Timestamp) -> Task {
    let mut status = sj.status.clone();
    set_waiting(&mut status, waiting, now);
    write(sj, status, None, None)
}

fn write(
    sj: &ScavengerJob,
    mut status: ScavengerJobStatus,
    ended: Option<Attempt>,
    event: Option<Event>,
) -> Task {
    status.written = true;
    status.observed_generation = sj.generation;
    Task::WriteStatus(Box::new(StatusWrite { resource_version: sj.resource_version, status, ended, event }))
}

/// Refusals by admission that are further apart are not in a row.
const REFUSED_IN_A_ROW: SignedDuration = SignedDuration::from_hours(1);

/// The attempt that goes into the history with a write, and the event that is published after it.
type Recorded = (Option<Attempt>, Option<Event>);

fn start(known: &Known<'_>, status: &mut ScavengerJobStatus) -> Recorded {
    let Ok(spec) = &known.sj.spec else { return (None, None) };
    let number = status.attempt.as_ref().map_or(0, |attempt| attempt.number).saturating_add(1);
    status.phase = Phase::Starting;
    status.message = format!("attempt {number} is starting");
    let waited = status.admitted.replace(Admitted { waiting: None, since: known.now });
    status.not_before = None;
    (status.starved_since, status.cpu_share) = (None, None);
    // What was refused long ago, or with another spec, is no refusal in a row. While a namespace is held, its ScavengerJobs are
    // tried one after the other, and each rarely.
    let was_held = waited.and_then(|admitted| admitted.waiting);
    let was_held = was_held.is_some_and(|waiting| waiting.reason == WaitingReason::Refused);
    let is_in_a_row = |last: &Attempt| {
        let is_recent = |end: Timestamp| known.now < later(end, REFUSED_IN_A_ROW);
        last.generation == known.sj.generation && (was_held || last.end_time.is_some_and(is_recent))
    };
    status.refused_since =
        status.refused_since.filter(|_| status.attempt.as_deref().is_some_and(is_in_a_row));
    status.supervised = attempt::supervision(known).map(|new| {
        let before = status.supervised.take().filter(|before| before.why == new.why);
        // Since when it has its status, as with any condition.
        Supervised { since: before.map_or(new.since, |before| before.since), ..new }
    });
    let supervised =
        status.supervised.as_ref().is_some_and(|supervised| supervised.why == Supervision::Supervised);
    let one_node = spec.demand.placement.one_node;
    let by_use = !one_node && known.chosen_node.is_some_and(|node| known.capacity.starts_by_use(node));
    let has_limits = known.capacity.has_limits_of_nodes();
    status.attempt = Some(Box::new(Attempt {
        number,
        supervised,
        accounting: if by_use { Accounting::Usage } else { Accounting::Requests },
        // Where kube-scheduler counts it knows best, once the planner's choice did not do.
        node: known
            .chosen_node
            .filter(|_| by_use || one_node || has_limits || status.failed_starts == 0)
            .cloned(),
        generation: known.sj.generation,
        priority_class: status.counted_interruptions,
        ..Attempt::first(spec.of_containers(), known.now)
    }));
    (None, Some(Event::Started))
}

fn run(known: &Known<'_>, status: &mut ScavengerJobStatus, attempt: &Attempt, job_uid: Name) -> Recorded {
    status.phase = Phase::Running;
    status.message = format!("attempt {} is running", attempt.number);
    status.failed_starts = 0;
    status.refused_since = None;
    // That of an earlier attempt says nothing about this one.
    status.priority_start_over = None;
    push(&mut status.start_times, known.now);
    let attempt = Attempt {
        job_uid: Some(job_uid),
        start_time: Some(known.now),
        nodes: attempt::hardware(known, attempt),
        ..attempt.clone()
    };
    status.attempt = Some(Box::new(attempt));
    (None, None)
}

/// The record of the last attempt, with what was found out about it.
fn measure(status: &mut ScavengerJobStatus, measured: Measured, saves: Option<ObservedSaves>) -> Recorded {
    if let Some(attempt) = &mut status.attempt {
        attempt.measured = measured;
    }
    status.last_checkpoint = status.last_checkpoint.max(measured.last_checkpoint);
    status.observed_saves = saves.or(status.observed_saves.take());
    (status.attempt.as_deref().cloned(), None)
}

fn order_interruption(status: &mut ScavengerJobStatus, attempt: &Attempt, order: Disruption) -> Recorded {
    status.message = format!("attempt {} is being interrupted: {}", attempt.number, order.message);
    status.attempt = Some(Box::new(Attempt { disruption: Some(order), ..attempt.clone() }));
    (None, None)
}

/// What the outcome of an attempt makes of its ScavengerJob.
fn end(
    known: &Known<'_>,
    status: &mut ScavengerJobStatus,
    attempt: &Attempt,
    mut ending: Ending,
) -> Recorded {
    let made_progress = made_progress(known, attempt, ended_at(known, attempt, ending.outcome));
    if ending.reason == Reason::Unknown && status.unknown_ends_in_a_row > 0 && !made_progress {
        // One further attempt was made already.
        ending.outcome = Outcome::Failed;
        ending.message.push_str("; the attempt before it ended in the same way");
    }
    let waiting = |message: String| Waiting { reason: WaitingReason::BackingOff, message };
    match ending.outcome {
        Outcome::Completed | Outcome::Failed => finish(known, status, Some(attempt), ending),
        Outcome::Interrupted => {
            let message = format!("attempt {} was interrupted: {}", attempt.number, ending.message);
            interrupt(known, status, attempt, &ending, waiting(message))
        }
        Outcome::Withdrawn => {
            let message = ending.message.clone();
            // Of a gang some pods may have run while a node refused another: what they did is lost, and is said so.
            if ending.reason != Reason::SupervisorNotStarted {
                ending.outcome = verdict::taken_away(attempt, known.evidence);
            }
            withdraw(known, status, attempt, &ending, waiting(message))
        }
    }
}

fn interrupt(
    known: &Known<'_>,
    status: &mut ScavengerJobStatus,
    attempt: &Attempt,
    ending: &Ending,
    waiting: Waiting,
) -> Recorded {
    let end = ended_at(known, attempt, ending.outcome);
    let made_progress = made_progress(known, attempt, end);
    let attempt = ended(known, status, attempt, ending);
    status.phase = Phase::Interrupted;
    status.interrupted_count = status.interrupted_count.saturating_add(1);
    if interruption::counts(known, ending) {
        status.counted_interruptions = status.counted_interruptions.saturating_add(1);
    }
    status.interruptions_in_a_row =
        if made_progress { 1 } else { status.interruptions_in_a_row.saturating_add(1) };
    let before = std::mem::take(&mut status.out_of_memory_nodes);
    let unmarked = out_of_memory::is_unmarked(known.pods.values(), &attempt);
    let cause = out_of_memory::cause(known.pods.values(), &attempt, &known.memory.killed_by);
    let kills = Kills { before: &before, made_progress, unmarked, cause };
    status.out_of_memory_nodes = match ending.reason == Reason::NodeOutOfMemory && !kills.is_explained() {
        true => out_of_memory::with(kills.counted(), out_of_memory::node(&attempt)),
        false if made_progress => Vec::new(),
        false => before,
    };
    push(&mut status.interruption_times, end);
    let least = known.settings.map_or(SignedDuration::ZERO, |settings| settings.interruption_backoff);
    let in_a_row = status.interruptions_in_a_row;
    let (times, uid) = (&status.interruption_times, &known.sj.uid);
    let wait = backoff::after_interruption(times, in_a_row, least, uid, known.now);
    status.not_before = Some(later(known.now, wait));
    (status.failed_starts, status.refused_since) = (0, None);
    set_waiting(status, waiting, known.now);
    (Some(attempt), Some(Event::Interrupted))
}

/// Back to where it was before the attempt: waiting, or interrupted if it had run. If some pods of a gang ran, that is an
/// interruption: their work is lost. All the same it is a start that failed, so it is tried again as such, and neither
/// advances the ScavengerJob nor costs it its rank.
fn withdraw(
    known: &Known<'_>,
    status: &mut ScavengerJobStatus,
    attempt: &Attempt,
    ending: &Ending,
    waiting: Waiting,
) -> Recorded {
    let attempt = ended(known, status, attempt, ending);
    let event = match ending.outcome {
        Outcome::Interrupted => Event::Interrupted,
        _ => Event::Withdrawn,
    };
    if ending.outcome == Outcome::Interrupted {
        status.interrupted_count = status.interrupted_count.saturating_add(1);
    }
    status.phase = if status.interrupted_count > 0 { Phase::Interrupted } else { Phase::Waiting };
    if waiting.reason == WaitingReason::Refused {
        status.refused_since.get_or_insert(known.now);
    } else if known.evidence.pods_seen() >= attempt.demand.pod_count as usize {
        // They were taken, whatever kept them from running.
        status.refused_since = None;
    }
    // One that is suspended before it runs has not shown that it cannot start.
    if waiting.reason != WaitingReason::Suspended {
        status.failed_starts = status.failed_starts.saturating_add(1);
        // Where a namespace or a claim is held, the queue decides when somebody tries again.
        let counted = if backoff::blocks_others(waiting.reason) { 1 } else { status.failed_starts };
        let wait = backoff::after_failed_starts(counted, &known.sj.uid);
        // So that its reason stays until it may start: what is left of the attempt would be another.
        let pods_may_come = known.evidence.pods_seen() < attempt.demand.pod_count as usize;
        let least = if pods_may_come { waiting::JOB_CONTROLLER_PATIENCE } else { SignedDuration::ZERO };
        status.not_before = Some(later(known.now, wait.max(least)));
    }
    set_waiting(status, waiting, known.now);
    (Some(attempt), Some(event))
}

fn finish(
    known: &Known<'_>,
    status: &mut ScavengerJobStatus,
    attempt: Option<&Attempt>,
    ending: Ending,
) -> Recorded {
    let attempt = attempt.map(|attempt| ended(known, status, attempt, &ending));
    status.finish_time = Some(known.now);
    status.admitted = None;
    status.not_before = None;
    if ending.outcome == Outcome::Completed {
        status.phase = Phase::Completed;
        status.message = ending.message;
        (attempt, Some(Event::Completed))
    } else {
        status.phase = Phase::Failed;
        status.message = format!("{}: {}", ending.reason, ending.message);
        status.failure = Some(ending.reason);
        (attempt, Some(Event::Failed))
    }
}

fn set_waiting(status: &mut ScavengerJobStatus, waiting: Waiting, now: Timestamp) {
    status.message.clone_from(&waiting.message);
    let since = match &status.admitted {
        Some(Admitted { waiting: Some(_), since }) => *since,
        _ => now,
    };
    status.admitted = Some(Admitted { waiting: Some(waiting), since });
}

/// When an attempt ended whose end is only noticed now; see [`crate::facts::evidence::Evidence::end_time`].
fn ended_at(known: &Known<'_>, attempt: &Attempt, outcome: Outcome) -> Timestamp {
    let job = known.jobs.values().find(|job| job.attempt == attempt.number);
    known.evidence.end_time(attempt, job.map(|job| &**job), outcome, known.now)
}

/// The attempt as the status and the history keep it. One that a container ran in, and that ended before all of its pods
/// were seen to run together, started when the first container was seen to have started.
fn ended(known: &Known<'_>, status: &mut ScavengerJobStatus, attempt: &Attempt, ending: &Ending) -> Attempt {
    let end = ended_at(known, attempt, ending.outcome);
    let ran = known.evidence.container_started && ending.outcome != Outcome::Withdrawn;
    let seen = || known.evidence.started_at().unwrap_or(end).min(end);
    let start_time = attempt.start_time.or_else(|| ran.then(seen));
    // Where the supervisor was not started, nobody knows what its command would have done. The spec of an attempt that is
    // active does not change.
    if start_time.is_some()
        && ending.reason != Reason::SupervisorNotStarted
        && let Ok(spec) = &known.sj.spec
    {
        status.started_container = Some(spec.container_hash);
    }
    if let Some(started) = start_time
        && attempt.start_time.is_none()
    {
        push(&mut status.start_times, started);
    }
    let attempt = &Attempt { start_time, ..attempt.clone() };
    status.active_seconds = status.active_seconds.saturating_add(run_time(attempt, end).as_secs());
    if ending.reason == Reason::Unknown {
        // What happened before a good stretch of run time tells nothing about this end.
        let before = if made_progress(known, attempt, end) { 0 } else { status.unknown_ends_in_a_row };
        status.unknown_ends_in_a_row = before.saturating_add(1);
    } else if ending.outcome != Outcome::Withdrawn {
        status.unknown_ends_in_a_row = 0;
    }
    // A workload that came to its end before it was evicted was not interrupted.
    let ordered = |disruption: &Disruption| disruption.reason.is_operators_decision();
    let written =
        attempt.disruption.clone().filter(|disruption| ending.is_taken_away() || !ordered(disruption));
    let shown = || ending.disruption.clone().map(|disruption| Disruption { time: end, ..disruption });
    let attempt = Attempt {
        end_time: Some(end),
        disruption: written.or_else(shown),
        outcome: Some(ending.outcome),
        reason: Some(ending.reason.clone()),
        message: Some(ending.message.clone()),
        ..attempt.clone()
    };
    let mut attempt = attempt;
    if attempt.nodes.is_empty() && ran {
        attempt.nodes = attempt::hardware(known, &attempt);
    }
    if attempt.supervised && ending.outcome == Outcome::Interrupted {
        attempt.measured.expected = Some(loss::expected(known.sj, end));
    }
    let found = attempt::work_of_ended(known, &attempt);
    (status.starved_since, status.cpu_share) = (None, None);
    status.attempt = Some(Box::new(attempt.clone()));
    if let Some((measured, saves)) = found {
        attempt.measured = measured;
        measure(status, measured, saves);
    }
    attempt
}

/// A ScavengerJob that is deleted, with its last attempt as that ended, if nobody has written down what the attempt was
/// worth, and nobody will. Its pods are gone; what they left is counted, if it came.
pub fn uncounted(known: &Known<'_>) -> Option<ScavengerJob> {
    let attempt = known.sj.status.attempt.as_deref().filter(|attempt| !Work::is_settled(attempt))?;
    let mut sj = known.sj.clone();
    if attempt.outcome.is_some() {
        if let Some((measured, saves)) = attempt::work_of_ended(known, attempt) {
            measure(&mut sj.status, measured, saves);
        }
    } else {
        let succeeded = known.evidence.succeeded(known.pods) >= attempt.demand.pod_count as usize;
        let ending = match succeeded {
            true => Ending::new(Outcome::Completed, Reason::Completed, "the workload succeeded".to_owned()),
            false => {
                let outcome = verdict::taken_away(attempt, known.evidence);
                Ending::new(outcome, Reason::Deleted, "the ScavengerJob was deleted".to_owned())
            }
        };
        let ending = interruption::explained(attempt, ending);
        ended(known, &mut sj.status, attempt, &ending);
    }
    let is_worth_something =
        sj.status.attempt.as_deref().is_some_and(|last| Work::of_ended(&sj, last).is_some());
    is_worth_something.then_some(sj)
}

/// True if an attempt that ended then had run for a whole `interruptionAfter`.
fn made_progress(known: &Known<'_>, attempt: &Attempt, end: Timestamp) -> bool {
    known.sj.spec.as_ref().is_ok_and(|spec| run_time(attempt, end) >= spec.interruption_after)
}

/// How long an attempt ran until `end`.
fn run_time(attempt: &Attempt, end: Timestamp) -> SignedDuration {
    let ran = attempt.start_time.map_or(SignedDuration::ZERO, |started| end.duration_since(started));
    ran.max(SignedDuration::ZERO)
}

fn push(history: &mut Vec<Timestamp>, time: Timestamp) {
    history.push(time);
    let excess = history.len().saturating_sub(HISTORY);
    history.drain(..excess);
}
