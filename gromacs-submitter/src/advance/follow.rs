//! A row whose ScavengerJob is submitted: its end, its progress, and the way down the ladder.

use jiff::Timestamp;
use scavenger_schema::reasons::{failure, waiting};
use scavenger_schema::scavenger_job::Phase;
use scavenger_schema::simulation::{AttemptOutcome, RowStatus, State, job_name};

use super::{
    Action, AttemptRecord, FIRST_LAP_DELAY, HEAL_INTERVAL, Input, LONGEST_LAP_DELAY, Observation, Step, act,
    answer, cancelled, delete_and_wait, describe, fail, later, name_taken, next_submission, probe_failure,
    record, said, seconds_between, settle, settle_until,
};
use crate::manifest::{Probe, probe_name};
use crate::mdrun_log::{LogFacts, error_message};
use crate::probe::parse_verification;
use crate::view::{AttemptView, JobView};

/// A shorter run measures start-up. How much weight a short one has is the tuner's business: it sees the wall time.
const SHORTEST_MEASUREMENT_SECONDS: f64 = 1.0;

/// mdrun rounds the remaining time to seconds; below this many the speed derived from it is too coarse.
const SHORTEST_REMAINING_SECONDS: f64 = 20.0;

/// Within less time start-up weighs too much.
const SHORTEST_ELAPSED_SECONDS: f64 = 30.0;

pub(super) fn follow(input: &Input<'_>) -> Step {
    let row = input.row;
    let name = job_name(row.id, row.status.submission);
    let Some(job) = input.job else {
        return match (&row.status.job_uid, row.cancel_requested) {
            (_, true) => cancelled(input),
            (None, false) => act(Action::CreateJob(row.status.rung.unwrap_or(1)), row),
            (Some(_), false) => fail(
                input,
                format!(
                    "ScavengerJob {name} was deleted by somebody else; set retry_requested to go on from the last checkpoint"
                ),
            ),
        };
    };
    if !job.ours {
        return fail(input, name_taken(&name, row));
    }
    let ended = matches!(job.phase, Phase::Completed | Phase::Failed);
    if row.cancel_requested && !ended {
        let reason = format!("cancel requested; waits until {name} and its pods are gone");
        let action = Action::DeleteJob { submission: row.status.submission, uid: job.uid.clone() };
        return delete_and_wait(action, job, reason, input);
    }
    if job.deleting && !ended {
        return settle(row.status.clone(), Some(format!("{name} is being deleted by somebody else")), input);
    }
    let (mut status, attempts) = synchronise(input, job);
    let step = match job.phase {
        Phase::Running => running(&mut status, input, job),
        Phase::Starting => settle(started_state(status, job), Some(said(job)), input),
        Phase::Waiting | Phase::Interrupted => wait_for_room(started_state(status, job), input, job),
        Phase::Completed => completed(status, input, job),
        Phase::Failed => failed(status, input, job),
    };
    with_attempts(step, attempts)
}

/// Takes over what the ScavengerJob says of itself, and lists the attempts that are not recorded yet.
fn synchronise(input: &Input<'_>, job: &JobView) -> (RowStatus, Vec<AttemptRecord>) {
    let mut status = input.row.status.clone();
    status.job_uid = Some(job.uid.clone());
    let mut attempts = Vec::new();
    for attempt in &job.attempts {
        let ended = attempt.outcome.is_some();
        if attempt.number <= status.attempts_recorded || (attempt.number <= status.attempt && !ended) {
            continue;
        }
        let is_known = attempt.number == status.attempt;
        attempts.push(AttemptRecord {
            view: attempt.clone(),
            first_step: status.first_step.filter(|_| is_known),
            last_step: status.step.filter(|_| is_known && status.first_step.is_some()),
            ns_per_day: None,
        });
        if attempt.number > status.attempt {
            // A new attempt starts from its checkpoint, which is not known before its log says so.
            status.attempt = attempt.number;
            status.first_step = None;
        }
        if ended {
            status.attempts_recorded = attempt.number;
        }
        if attempt.outcome == Some(AttemptOutcome::Interrupted) {
            status.interruptions = status.interruptions.saturating_add(1);
            reset_clock(&mut status);
        }
        status.start_time = status.start_time.or(attempt.start_time.map(Into::into));
    }
    (status, attempts)
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

fn reset_clock(status: &mut RowStatus) {
    status.no_room_since = None;
    status.no_room_seconds = 0.0;
    status.next_lap_time = None;
}

fn running(status: &mut RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    status.state = State::Running;
    reset_clock(status);
    // It started before it could be replaced: it is left alone.
    status.next_rung = None;
    status.rung = job.rung.or(status.rung);
    let attempt = job.last_attempt();
    let reason = attempt.map(|attempt| format!("attempt {} runs on {}", attempt.number, room_of(attempt)));
    let knew_start = status.first_step.is_some();
    if let Some(facts) = input.log.facts() {
        take_progress(status, facts, input, attempt.and_then(|attempt| attempt.start_time));
    }
    let learned_start = !knew_start && status.first_step.is_some();
    let mut attempts = Vec::new();
    if let Some(attempt) = attempt {
        status.start_time = status.start_time.or(attempt.start_time.map(Into::into));
        if learned_start || input.row.status.state != State::Running {
            attempts.push(AttemptRecord {
                view: attempt.clone(),
                first_step: status.first_step,
                last_step: status.step.filter(|_| status.first_step.is_some()),
                ns_per_day: None,
            });
        }
    }
    let due = later(input.now, input.settings.progress_interval);
    Step { attempts, ..settle_until(status.clone(), reason, due) }
}

fn room_of(attempt: &AttemptView) -> String {
    describe(scavenger_schema::tuning::Resources {
        cpu_millicores: attempt.cpu_millicores.and_then(|cpu| cpu.try_into().ok()).unwrap_or(0),
        memory_bytes: 0,
        gpus: attempt.gpus.and_then(|gpus| gpus.try_into().ok()).unwrap_or(0),
    })
}

fn take_progress(status: &mut RowStatus, facts: &LogFacts, input: &Input<'_>, start_time: Option<Timestamp>) {
    status.first_step = status.first_step.or(facts.first_step);
    let Some(last_step) = facts.last_step.or(facts.first_step).filter(|step| Some(*step) != status.step)
    else {
        return;
    };
    status.step = Some(last_step);
    status.progress_time = Some(input.now.into());
    let Some(dt_ps) = input.row.system.dt_ps else { return };
    let speed = |steps: i64, seconds: f64| steps as f64 * dt_ps / 1000.0 / seconds * 86400.0;
    let to_do = input.row.system.last_step().map_or(0, |end| end - last_step);
    let done = status.first_step.map_or(0, |first| last_step - first);
    let elapsed = start_time.map_or(0.0, |start| seconds_between(start, input.now));
    if let Some(remaining) =
        facts.remaining_seconds.filter(|time| *time >= SHORTEST_REMAINING_SECONDS && to_do > 0)
    {
        status.ns_per_day = Some(speed(to_do, remaining));
    } else if facts.remaining_seconds.is_none() && done > 0 && elapsed >= SHORTEST_ELAPSED_SECONDS {
        // mdrun names a date instead when more than 5 minutes remain. Progress was just seen for the first time, so
        // `now` is at most one look behind it.
        status.ns_per_day = Some(speed(done, elapsed));
    }
}

/// Waits, and steps down the ladder when there is no room for what it asks for.
fn wait_for_room(mut status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    let rungs = i32::try_from(input.ladder.len()).unwrap_or(i32::MAX);
    if let Some(next) = status.next_rung {
        if job.rung != Some(next) && (1..=rungs).contains(&next) {
            // The intention is recorded; now it is done. Whoever finds it half done, does it again.
            let resource_version = job.resource_version.clone();
            return act(Action::ReplaceJob { rung: next, resource_version }, input.row);
        }
        status.next_rung = None;
        status.rung = Some(next);
        reset_clock(&mut status);
        // The reason stays: it says why, and the history shows it beside the new configuration.
        return record(status);
    }
    // Its spec is the truth, also when a person changed it; what is no rung is not judged.
    status.rung = job.rung.or(status.rung);
    let why = job.waiting_reason.as_deref().filter(|_| job.judged);
    let no_room = matches!(why, Some(waiting::NO_ROOM | waiting::UNSCHEDULED));
    let never_fits = why == Some(waiting::NEVER_FITS);
    let waited = run_clock(&mut status, no_room, input.now);
    let Some(rung) = job.rung else { return settle(status, Some(said(job)), input) };
    if !never_fits && !no_room {
        return settle(status, Some(said(job)), input);
    }
    let patience = patience_seconds(input);
    if !never_fits && waited < patience {
        let due = later(input.now, std::time::Duration::from_secs_f64(patience - waited).min(HEAL_INTERVAL));
        return settle_until(status, Some(said(job)), due);
    }
    if rung < rungs {
        status.next_rung = Some(rung + 1);
        let why = if never_fits { said(job) } else { format!("no room for {waited:.0} s") };
        let smaller = configuration(input, rung + 1);
        let reason = format!("{why}; falls back to configuration {} of {rungs}, {smaller}", rung + 1);
        return record(RowStatus { reason: Some(reason), ..status });
    }
    start_over(status, rungs, input, job)
}

/// Even the smallest finds no room: over again from the largest, after a delay that grows. Until then the smallest
/// keeps waiting, and may start.
fn start_over(mut status: RowStatus, rungs: i32, input: &Input<'_>, job: &JobView) -> Step {
    if rungs == 1 {
        return settle(status, Some(format!("{}; there is no smaller configuration", said(job))), input);
    }
    let time = status.next_lap_time.map_or_else(
        || {
            let doublings = u32::try_from(status.laps).unwrap_or(0).min(10);
            later(input.now, (FIRST_LAP_DELAY * (1 << doublings)).min(LONGEST_LAP_DELAY))
        },
        Timestamp::from,
    );
    if time > input.now {
        status.next_lap_time = Some(time.into());
        let reason = format!(
            "{}; all {rungs} configurations were tried, over again from the largest at {time:.0}",
            said(job)
        );
        return settle_until(status, Some(reason), time.min(later(input.now, HEAL_INTERVAL)));
    }
    status.laps = status.laps.saturating_add(1);
    status.next_lap_time = None;
    status.next_rung = Some(1);
    let reason = format!("all {rungs} configurations were tried; starts over from the largest");
    record(RowStatus { reason: Some(reason), ..status })
}

/// Seconds it has waited for room with this configuration. The clock stands still while it waits for anything else.
fn run_clock(status: &mut RowStatus, no_room: bool, now: Timestamp) -> f64 {
    let running = status.no_room_since.map_or(0.0, |since| seconds_between(since.into(), now));
    let waited = status.no_room_seconds + running;
    if no_room {
        status.no_room_since = status.no_room_since.or(Some(now.into()));
    } else {
        status.no_room_since = None;
        status.no_room_seconds = waited;
    }
    waited
}

/// How long it waits before it falls back: longer than the operator waits for the scheduler, else a rung would be
/// given up while its pod may still find its place.
fn patience_seconds(input: &Input<'_>) -> f64 {
    let own = input.row.fallback_after_seconds.map_or(input.settings.fallback_after.as_secs_f64(), f64::from);
    let pending = input.pool.map_or(0.0, |pool| pool.pending_timeout.as_secs_f64());
    own.max(pending + 1.0)
}

fn configuration(input: &Input<'_>, rung: i32) -> String {
    input
        .ladder
        .iter()
        .find(|found| found.rung == rung)
        .map_or_else(String::new, |found| describe(found.resources()))
}

/// The ScavengerJob is Completed, which is exit code 0 and no proof: mdrun also exits with 0 after `-maxh`.
fn completed(mut status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    status.rung = job.last_attempt().and_then(|attempt| attempt.rung).or(status.rung);
    let Some(end) = input.row.system.last_step() else {
        return fail(input, "mdrun ended with success, but nsteps is not known; set it and retry".to_owned());
    };
    if let Some(facts) = input.log.facts() {
        if facts.reached_the_end || facts.last_step.is_some_and(|step| step >= end) {
            return reached_the_end(status, end, Some(facts), input, job);
        }
        if let Some(step) = facts.last_step {
            return stopped_short(&status, step, input, job);
        }
    }
    // The log is gone: the checkpoint tells.
    if !status.verifying {
        status.verifying = true;
        let reason =
            "mdrun ended and its log is gone: reads the checkpoint to see whether all steps were done";
        return record(RowStatus { reason: Some(reason.to_owned()), ..status });
    }
    let Some(probe) = input.probe else { return act(Action::CreateProbe(Probe::Verification), input.row) };
    let name = probe_name(input.row, Probe::Verification);
    if !probe.ours {
        return fail(input, name_taken(&name, input.row));
    }
    match probe.phase {
        Phase::Completed => match answer(probe, input.log, parse_verification) {
            Ok(step) if step >= end => reached_the_end(status, end, None, input, job),
            Ok(step) => stopped_short(&status, step, input, job),
            Err(error) => fail(input, error.to_string()),
        },
        Phase::Failed => fail(input, probe_failure(probe, input.log, "reading the checkpoint failed")),
        _ => settle(status, Some(format!("reads the checkpoint: {}", said(probe))), input),
    }
}

fn reached_the_end(
    mut status: RowStatus,
    end: i64,
    facts: Option<&LogFacts>,
    input: &Input<'_>,
    job: &JobView,
) -> Step {
    status.state = State::Completed;
    status.reason = None;
    status.verifying = false;
    status.step = Some(end);
    status.progress_time = Some(input.now.into());
    status.finish_time = Some(job.finish_time.unwrap_or(input.now).into());
    status.failures = 0;
    reset_clock(&mut status);
    let attempt = job.last_attempt();
    status.start_time = status.start_time.or(attempt.and_then(|attempt| attempt.start_time).map(Into::into));
    let first_step = facts.and_then(|facts| facts.first_step).or(status.first_step);
    let measured = facts.and_then(|facts| measurement(facts, first_step, end));
    if let Some((ns_per_day, ..)) = measured {
        status.ns_per_day = Some(ns_per_day);
    }
    let attempts = attempt.map(|attempt| AttemptRecord {
        view: attempt.clone(),
        first_step,
        last_step: Some(end),
        ns_per_day: measured.map(|(ns_per_day, ..)| ns_per_day),
    });
    let observation = attempt.zip(measured).and_then(|(attempt, (ns_per_day, steps, wall_seconds))| {
        Some(Observation {
            attempt: attempt.number,
            system: input.row.system.description()?,
            rung: attempt.rung?,
            node_labels: common_labels(input),
            ns_per_day,
            steps,
            wall_seconds,
        })
        .filter(|observation| observation.wall_seconds >= SHORTEST_MEASUREMENT_SECONDS)
    });
    Step { attempts: attempts.into_iter().collect(), observation, ..record(status) }
}

/// Speed, steps and wall time that a finished log tells; none for a run that had nothing left to do.
fn measurement(facts: &LogFacts, first_step: Option<i64>, end: i64) -> Option<(f64, i64, f64)> {
    let steps = end.checked_sub(first_step?).filter(|steps| *steps > 0)?;
    Some((facts.ns_per_day?, steps, facts.wall_seconds?))
}

fn common_labels(input: &Input<'_>) -> std::collections::BTreeMap<String, String> {
    match input.pool.map(|pool| pool.nodes.as_slice()) {
        Some([only]) => only.labels.clone(),
        _ => std::collections::BTreeMap::new(),
    }
}

/// Exit code 0 before the last step: a next submission goes on from the checkpoint, if there was any progress.
fn stopped_short(status: &RowStatus, step: i64, input: &Input<'_>, job: &JobView) -> Step {
    let end = input.row.system.last_step().unwrap_or(0);
    let first_step = input.log.facts().and_then(|facts| facts.first_step).or(status.first_step);
    let attempts = job
        .last_attempt()
        .map(|attempt| AttemptRecord {
            view: attempt.clone(),
            first_step,
            last_step: Some(step),
            ns_per_day: None,
        })
        .into_iter()
        .collect();
    if first_step.is_some_and(|first| step <= first) {
        let reason = format!("mdrun ends at step {step} of {end} without an error and gets no further");
        return Step { attempts, ..fail(input, reason) };
    }
    let reason = format!("mdrun ended at step {step} of {end} without an error; goes on from its checkpoint");
    let next = next_submission(input.row, reason);
    let status = RowStatus {
        step: Some(step),
        interruptions: status.interruptions,
        start_time: status.start_time,
        ..next
    };
    Step { attempts, ..record(status) }
}

fn failed(status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    let attempt = job.last_attempt();
    let reason = match job.failure_reason.as_deref() {
        Some(failure::OOM_KILLED) => {
            let memory = attempt.and_then(|attempt| attempt.memory_bytes).unwrap_or(0) >> 20;
            format!("mdrun needed more than the {memory} MiB of memory that it was given")
        }
        Some(failure::CONTAINER_FAILED) => {
            let message = attempt.and_then(|attempt| attempt.message.as_deref()).unwrap_or_default();
            [input.log.text(), message]
                .into_iter()
                .find_map(error_message)
                .map_or_else(|| said(job), |words| format!("mdrun failed: {words}"))
        }
        _ => said(job),
    };
    let facts = input.log.facts();
    let attempts = attempt
        .map(|attempt| AttemptRecord {
            view: attempt.clone(),
            first_step: facts.and_then(|facts| facts.first_step).or(status.first_step),
            last_step: facts.and_then(|facts| facts.last_step),
            ns_per_day: None,
        })
        .into_iter()
        .collect();
    let failed = RowStatus {
        state: State::Failed,
        reason: Some(reason),
        finish_time: Some(job.finish_time.unwrap_or(input.now).into()),
        next_rung: None,
        verifying: false,
        ..status
    };
    Step { attempts, ..record(failed) }
}
