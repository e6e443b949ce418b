//! A row whose ScavengerJob is submitted: what it says of itself, and its progress while it runs.

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, Kind, RowStatus, State};
use scavenger_vocabulary::{Outcome, Phase, WaitingReason};

use super::attempt::{AttemptRecord, Measurement, followed};
use super::checkpoint::{deposited_twice, lost, saved_step, speed_ratio, went_back};
use super::clock::{later, reset_clock, seconds_between, seconds_seen, stop_clock};
use super::ending::completed;
use super::failing::failed;
use super::ladder::{describe, take};
use super::next::{cancel_probe, cancelled, delete_and_wait, delete_job, fail};
use super::seen::{Details, Input, LogToRead, Needs, Seen, has_ended};
use super::step::{Action, HEAL_INTERVAL, Step, act, record, settle, settle_until};
use super::tries::well_after_seconds;
use super::waiting::wait_for_room;
use super::words::{name_taken, said};
use super::{growth, restart};
use crate::manifest::{Probe, RowNames};
use crate::mdrun_log::LogFacts;
use crate::view::{AttemptView, JobView};

/// mdrun rounds the remaining time to seconds; below this many the speed derived from it is too coarse.
const SHORTEST_REMAINING_SECONDS: f64 = 20.0;

/// Within less time start-up weighs too much.
const SHORTEST_ELAPSED_SECONDS: f64 = 30.0;

/// The log of an attempt that was taken away goes with its pod, and mdrun's own account with it. Its progress is seen some
/// seconds late, which in a shorter attempt would be more than two sites with the same chip differ.
const SHORTEST_INTERRUPTED_SECONDS: f64 = 120.0;

pub(super) fn needs(row: &GromacsToTune, _now: Timestamp) -> Needs {
    let probe = row.status.private.verifying.then_some(Probe::Verification);
    Needs { ladder: true, job: true, probe, ..Needs::default() }
}

pub(super) fn details(row: &GromacsToTune, seen: &Seen) -> Details {
    let status = &row.status;
    let (job, probe) = (seen.job.as_ref(), seen.probe.as_ref());
    let runs = job.is_some_and(|job| job.phase == Phase::Running);
    let log = if status.private.verifying {
        has_ended(probe).then_some(LogToRead::OfProbe)
    } else if runs {
        job.filter(|_| row.kind != Kind::Command).and_then(|job| log_of_running(status, job))
    } else {
        has_ended(job).then_some(LogToRead::OfJob)
    };
    // While it runs with the largest configuration, nothing about the pool matters, unless an earlier attempt has ended
    // that nobody has seen: on which nodes it can have run goes with what it measured.
    let has_news = job.is_some_and(|job| job.has_ended_since(status.private.attempts_recorded));
    let may_grow = status.private.grown_from.is_some() || growth::may_grow(status, &seen.ladder);
    Details {
        log,
        // What mdrun itself said counts where the probe says nothing.
        job_log: status.private.verifying
            && probe.is_some_and(|probe| probe.phase == Phase::Failed)
            && has_ended(job),
        pool: !runs || has_news || may_grow,
        quota: job.is_some_and(|job| job.waiting_reason == Some(WaitingReason::QuotaExceeded)),
        image: false,
        restart: job.is_some_and(|job| growth::is_considered(row, job, &seen.ladder)),
        earlier: status.submission > 1 && job.is_some_and(|job| job.phase == Phase::Completed),
        failures: status.submission > 1 && job.is_some_and(|job| job.phase == Phase::Failed),
    }
}

/// Where an attempt started is read first; what follows can be followed.
fn log_of_running(status: &RowStatus, job: &JobView) -> Option<LogToRead> {
    let attempt = job.last_attempt().filter(|_| job.ours)?.number;
    let knows_start = attempt == status.attempt
        && status.first_step.is_some()
        && status.private.progress_from_step.is_some();
    Some(LogToRead::OfRunning { attempt, knows_start })
}

pub(super) fn follow(input: &Input<'_>) -> Step {
    let row = input.row;
    let name = RowNames::of(row).job();
    let Some(job) = input.job() else {
        return match (&row.status.job_uid, row.cancel_requested) {
            (_, true) => cancelled(input),
            (None, false) if row.command().is_some() => act(Action::CreateCommand, row),
            (None, false) => act(Action::CreateJob(row.status.rung.unwrap_or(1)), row),
            (Some(_), false) if lost(row).is_some() => fail(input, lost(row).unwrap_or_default()),
            (Some(_), false) => fail(
                input,
                format!(
                    "ScavengerJob {name} was deleted by somebody else; set retry_requested to go on from the last checkpoint"
                ),
            ),
        };
    };
    if !job.ours {
        return if row.cancel_requested { cancelled(input) } else { fail(input, name_taken(&name, row)) };
    }
    let ended = matches!(job.phase, Phase::Completed | Phase::Failed);
    if row.cancel_requested && row.status.private.verifying {
        // The ScavengerJob has ended; what still may wait for room is the probe that reads its checkpoint.
        return cancel_probe(Probe::Verification, input);
    }
    if row.cancel_requested && !ended {
        let reason = format!("cancel requested; waits until {name} and its pods are gone");
        return delete_and_wait(delete_job(row, job), job, reason, input);
    }
    if let Some(reason) = lost(row).filter(|_| !ended) {
        return delete_and_wait(delete_job(row, job), job, reason, input);
    }
    if job.deleting && !ended {
        return settle(row.status.clone(), Some(format!("{name} is being deleted by somebody else")), input);
    }
    if let Some(rung) = row.status.next_rung.filter(|next| job.rung == Some(*next)) {
        // Replaced. That is recorded first, even if it runs by now, or ended: the reason is still the intention's, and
        // the history shows it beside the new configuration.
        let mut status = RowStatus { next_rung: None, ..row.status.clone() };
        take(&mut status, Some(rung), input.ladder());
        reset_clock(&mut status);
        return record(status);
    }
    let (mut status, attempts) = synchronise(input, job);
    let knew_start = status.first_step.is_some();
    let step = match job.phase {
        Phase::Running => running(&mut status, input, job),
        Phase::Starting => {
            // It has found room: if it is withdrawn again, that time was no waiting for it.
            stop_clock(&mut status, input.now);
            settle(started_state(status, job), Some(said(job)), input)
        }
        Phase::Waiting | Phase::Interrupted => wait_for_room(started_state(status, job), input, job),
        Phase::Completed => completed(status, input, job),
        Phase::Failed => failed(status, input, job),
    };
    let is_recorded = |attempt: &&AttemptView| attempt.number <= input.row.status.private.attempts_recorded;
    let recorded = job.attempts.iter().filter(is_recorded);
    let lost = recorded.filter_map(|attempt| Some((attempt.number, attempt.lost_seconds?))).collect();
    let went_back = input.log().facts().and_then(|facts| computes_again(facts, row, job, knew_start));
    with_attempts(Step { lost, went_back, ..step }, attempts)
}

/// That mdrun goes on from an earlier checkpoint than there was, and what that means for PLUMED.
fn computes_again(facts: &LogFacts, row: &GromacsToTune, job: &JobView, knew_start: bool) -> Option<String> {
    let twice = deposited_twice(row, facts, job, knew_start);
    let said: Vec<String> = went_back(&facts.restored, row).into_iter().chain(twice).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// Takes over what the ScavengerJob says of itself, and lists the attempts that are not recorded yet.
fn synchronise(input: &Input<'_>, job: &JobView) -> (RowStatus, Vec<AttemptRecord>) {
    let mut status = input.row.status.clone();
    status.job_uid = Some(job.uid.clone());
    let mut attempts = Vec::new();
    for attempt in &job.attempts {
        let ended = attempt.outcome.is_some();
        if attempt.number <= status.private.attempts_recorded || (attempt.number <= status.attempt && !ended)
        {
            continue;
        }
        let is_known = attempt.number == status.attempt;
        let followed = followed(&status, attempt, input);
        attempts.push(AttemptRecord {
            first_step: status.first_step.filter(|_| is_known),
            last_step: status.step.filter(|_| is_known && status.first_step.is_some()),
            measured: followed.and_then(|status| measured_on_the_way(status, attempt, input.row)),
            peak_memory_bytes: status.peak_memory_bytes.filter(|_| is_known),
            restart_seconds: followed.and_then(|status| restart::measured(status, input.row)),
            ..AttemptRecord::of(attempt)
        });
        if is_known {
            status.private.speed_ratio =
                speed_ratio(attempt.rung, status.first_step.and(status.ns_per_day), input.ladder())
                    .or(status.private.speed_ratio);
            status.private.checkpoint_step = saved_step(input.row, &status);
        }
        if attempt.number > status.attempt {
            status.private.checkpoint_step = saved_step(input.row, &status);
            // A new attempt starts from its checkpoint, which is not known before its log says so.
            status.attempt = attempt.number;
            status.private.attempt_seen_time = Some(input.now);
            status.first_step = None;
            status.peak_memory_bytes = None;
            (status.private.progress_from_step, status.private.progress_from_time) = (None, None);
        }
        if ended {
            status.private.attempts_recorded = attempt.number;
        }
        if attempt.outcome == Some(Outcome::Interrupted) {
            // Nothing runs any more; where it started is in `checkpoint_step`.
            status.first_step = None;
            status.interruptions = status.interruptions.saturating_add(1);
            status.private.interruption_time = Some(input.now);
            reset_clock(&mut status);
        }
        status.start_time = status.start_time.or(attempt.start_time.map(Into::into));
    }
    (status, attempts)
}

/// What the progress of an attempt tells that was interrupted.
fn measured_on_the_way(
    status: &RowStatus,
    attempt: &AttemptView,
    row: &GromacsToTune,
) -> Option<Measurement> {
    if attempt.outcome != Some(Outcome::Interrupted) || row.is_minimisation() {
        return None;
    }
    let steps = status.step?.checked_sub(status.private.progress_from_step?).filter(|steps| *steps > 0)?;
    let wall_seconds =
        seconds_between(status.private.progress_from_time?, status.progress_time.as_ref()?.to_jiff());
    (wall_seconds >= SHORTEST_INTERRUPTED_SECONDS).then_some(Measurement {
        ns_per_day: ns_per_day(row.system.dt_ps?, steps, wall_seconds),
        steps,
        wall_seconds,
    })
}

fn ns_per_day(dt_ps: f64, steps: i64, seconds: f64) -> f64 {
    steps as f64 * dt_ps / 1000.0 / seconds * 86400.0
}

fn with_attempts(mut step: Step, attempts: Vec<AttemptRecord>) -> Step {
    for attempt in attempts {
        // What the end of the log said replaces what the status alone told.
        if !step.attempts.iter().any(|known| known.view.number == attempt.view.number) {
            step.attempts.push(attempt);
        }
    }
    step.attempts.sort_by_key(|attempt| attempt.view.number);
    step
}

fn started_state(status: RowStatus, job: &JobView) -> RowStatus {
    RowStatus { state: if job.has_run { State::Interrupted } else { State::Submitted }, ..status }
}

fn running(status: &mut RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    if let Some(step) = growth::intended(status, input, job) {
        return step;
    }
    growth::ended(status, job.rung, input.ladder());
    status.state = State::Running;
    reset_clock(status);
    status.private.laps = 0;
    // It started before it could be replaced: it is left alone.
    status.next_rung = None;
    take(status, job.rung, input.ladder());
    let attempt = job.last_attempt();
    let knew_start = status.first_step.is_some();
    let mut went_back_to = None;
    if let Some(facts) = input.log().facts() {
        take_progress(status, facts, input.row, input.now);
        went_back_to = computes_again(facts, input.row, job, knew_start);
        if !facts.restored.is_empty() && status.first_step.is_some() {
            // It is known, and said, that no later one is left.
            status.private.checkpoint_step = status.first_step;
        }
    }
    let reason = attempt.map(|attempt| running_on(attempt, went_back_to, status.reason.as_deref()));
    let ran = seconds_seen(status, input.now);
    if status.first_step.is_some() && status.step > status.first_step && ran >= well_after_seconds(input.row)
    {
        status.private.start_failures = 0;
    }
    status.peak_memory_bytes = status.peak_memory_bytes.max(input.seen.memory_bytes);
    let learned_start = !knew_start && status.first_step.is_some();
    let mut attempts = Vec::new();
    if let Some(attempt) = attempt {
        status.start_time = status.start_time.or(attempt.start_time.map(Into::into));
        if learned_start || input.row.status.state != State::Running {
            attempts.push(AttemptRecord {
                first_step: status.first_step,
                last_step: status.step.filter(|_| status.first_step.is_some()),
                ..AttemptRecord::of(attempt)
            });
        }
    }
    if let Some(step) = growth::intend(status, input, job).filter(|_| attempt.is_some()) {
        return Step { attempts, ..step };
    }
    // What is followed tells its progress by itself, from the step on at which it started.
    let is_followed = input.seen.is_followed && status.first_step.is_some();
    let interval = if is_followed { HEAL_INTERVAL } else { input.settings.progress_interval };
    let due = later(input.now, interval);
    Step { attempts, ..settle_until(status.clone(), reason, due) }
}

/// The beginning of its log is read once; what it said of its checkpoint stays for as long as it runs.
fn running_on(attempt: &AttemptView, went_back: Option<String>, said: Option<&str>) -> String {
    let runs = format!("attempt {} runs on {}", attempt.number, room_of(attempt));
    match (went_back, said) {
        (Some(went_back), _) => format!("{runs}; {went_back}"),
        (None, Some(said)) if said.strip_prefix(&runs).is_some_and(|rest| rest.starts_with("; ")) => {
            said.to_owned()
        }
        (None, _) => runs,
    }
}

fn room_of(attempt: &AttemptView) -> String {
    describe(scavenger_schema::tuning::Resources {
        cpu_millicores: attempt.cpu_millicores.and_then(|cpu| cpu.try_into().ok()).unwrap_or(0),
        memory_bytes: 0,
        gpus: attempt.gpus.and_then(|gpus| gpus.try_into().ok()).unwrap_or(0),
    })
}

/// Writes into `status` what the log tells of the attempt.
pub fn take_progress(status: &mut RowStatus, facts: &LogFacts, row: &GromacsToTune, now: Timestamp) {
    let begins = status.first_step.is_none() && facts.first_step.is_some();
    status.first_step = status.first_step.or(facts.first_step);
    if let (Some(step), None) = (facts.last_step.or(facts.first_step), status.private.progress_from_step) {
        (status.private.progress_from_step, status.private.progress_from_time) = (Some(step), Some(now));
    }
    if begins && row.system.last_step() > facts.last_step.or(facts.first_step) {
        // That of the attempt before, which may have had another configuration.
        status.ns_per_day = None;
    }
    let Some(last_step) = facts.last_step.or(facts.first_step).filter(|step| Some(*step) != status.step)
    else {
        return;
    };
    status.step = Some(last_step);
    status.progress_time = Some(now.into());
    // A minimisation has steps, and no time that goes by.
    let Some(dt_ps) = row.system.dt_ps.filter(|_| !row.is_minimisation()) else { return };
    let to_do = row.system.last_step().map_or(0, |end| end - last_step);
    let done = status.private.progress_from_step.map_or(0, |from| last_step - from);
    let elapsed = seconds_seen(status, now);
    if let Some(remaining) =
        facts.remaining_seconds.filter(|time| *time >= SHORTEST_REMAINING_SECONDS && to_do > 0)
    {
        status.ns_per_day = Some(ns_per_day(dt_ps, to_do, remaining));
    } else if facts.remaining_seconds.is_none() && done > 0 && elapsed >= SHORTEST_ELAPSED_SECONDS {
        // mdrun names a date instead when more than 5 minutes remain. Progress was just seen for the first time, so
        // `now` is at most one look behind it.
        status.ns_per_day = Some(ns_per_day(dt_ps, done, elapsed));
    }
}
