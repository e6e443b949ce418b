//! The end of a ScavengerJob: what it means for the row, and what was measured.

use scavenger_schema::simulation::{GromacsToTune, Kind, PrivateState, RowStatus, State};
use scavenger_vocabulary::Phase;

use super::attempt::{AttemptRecord, followed, measurement, peak_of_last};
use super::clock::{finish_time, reset_clock};
use super::next::{delete_and_wait, fail, next_submission, with_history};
use super::probed::{answer, passing, probe_failure};
use super::seen::Input;
use super::short::stopped_short;
use super::step::{Action, Step, act, record, settle, settle_until};
use super::words::{name_taken, said};
use super::{restart, tries};
use crate::faults::{Meaning, remedy};
use crate::manifest::{Probe, RowNames};
use crate::mdrun_log::LogFacts;
use crate::probe::{Verification, parse_verification};
use crate::view::JobView;

/// The ScavengerJob is Completed, which is exit code 0 and no proof: mdrun also exits with 0 after `-maxh`. Of a command nobody
/// knows more.
pub(super) fn completed(mut status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    if input.row.kind == Kind::Command {
        return reached_the_end(status, None, None, input, job);
    }
    status.rung = job.last_attempt().and_then(|attempt| attempt.rung).or(status.rung);
    let Some(end) = input.row.system.last_step() else {
        let reason = "mdrun succeeded, but nsteps is not known; set nsteps of the row, and retry";
        return fail(input, reason.to_owned());
    };
    if let Some(facts) = input.log().facts() {
        if is_unfit(input.row, facts) {
            return fail(input, unfit(facts, input));
        }
        if is_at_end(facts, end) {
            // The file's end, whatever the row says of it: mdrun does what the file says.
            let last = facts.last_step.unwrap_or(end);
            return reached_the_end(status, Some(last), Some(facts), input, job);
        }
        if let Some(step) = facts.last_step {
            return stopped_short(&status, step, input, job);
        }
    }
    if input.row.kind == Kind::Calibration {
        let reason = "the benchmark ended, but its log is gone, and with it what was measured; set retry_requested to \
                      run it again";
        return fail(input, reason.to_owned());
    }
    if input.row.is_minimisation() {
        // It knows no exit code 0 before its end, and has no checkpoint that could tell more.
        return reached_the_end(status, Some(end), None, input, job);
    }
    // The log is gone: the checkpoint tells.
    if !status.private.verifying {
        let reason =
            "mdrun ended and its log is gone: reads the checkpoint to see whether all steps were done";
        return verify(status, reason);
    }
    let waits_until = status.private.not_before.filter(|time| *time > input.now);
    let Some(probe) = input.probe() else {
        return match waits_until {
            Some(time) => settle_until(status, None, time),
            None => act(Action::CreateProbe(Probe::Verification), input.row),
        };
    };
    let name = RowNames::of(input.row).probe(Probe::Verification);
    if !probe.ours {
        return not_read(status, name_taken(&name, input.row), end, input, job);
    }
    match probe.phase {
        Phase::Completed => match answer(probe, input.log(), parse_verification) {
            Ok(found) if found.step >= end => {
                let facts = facts_of(&found);
                reached_the_end(status, Some(end), facts.as_ref(), input, job)
            }
            Ok(found) if found.is_backup => newest_not_read(status, found.step, end, input, job),
            Ok(found) => stopped_short(&status, found.step, input, job),
            Err(error) => not_read(status, error.to_string(), end, input, job),
        },
        // It is recorded that the volume was away, and until when nobody reads it again.
        Phase::Failed if waits_until.is_some() => {
            let reason = status.reason.clone().unwrap_or_default();
            delete_and_wait(Action::DeleteProbe(Probe::Verification), probe, reason, input)
        }
        Phase::Failed => {
            let reason = probe_failure(probe, input, "reading the checkpoint failed");
            not_read(status, reason, end, input, job)
        }
        _ => settle(status, Some(format!("reads the checkpoint: {}", said(probe))), input),
    }
}

/// True if a minimisation ended with exit code 0 and has not done what it is for: whatever comes after it would blow up.
fn is_unfit(row: &GromacsToTune, facts: &LogFacts) -> bool {
    row.is_minimisation() && facts.largest_force.is_some_and(|force| !force.is_finite())
}

fn unfit(facts: &LogFacts, input: &Input<'_>) -> String {
    let step = facts.last_step.unwrap_or(0);
    let remedy = remedy(Meaning::InfiniteForce, true, input.row).unwrap_or_default();
    format!("the minimisation stopped at step {step}, where the force on an atom is not finite; {remedy}")
}

fn is_at_end(facts: &LogFacts, end: i64) -> bool {
    facts.reached_the_end || facts.last_step.is_some_and(|step| step >= end)
}

/// The probe tells nothing, for this `reason`. If mdrun itself said that it reached the end, the row is completed all the
/// same.
fn not_read(status: RowStatus, reason: String, end: i64, input: &Input<'_>, job: &JobView) -> Step {
    let facts = input.seen.job_log.facts().filter(|facts| is_at_end(facts, end));
    if facts.is_none() && status.step.is_none_or(|step| step < end) {
        let passes = input.probe().filter(|probe| probe.ours).and_then(|probe| passing(probe, input));
        return match (passes, tries::next_try(&status, input)) {
            (Some(_), Some((start_failures, time))) => {
                let reason = Some(format!("{reason}; tries again at {time:.0}"));
                let not_before = Some(time);
                record(RowStatus {
                    reason,
                    private: PrivateState { start_failures, not_before, ..status.private },
                    ..status
                })
            }
            (Some((_, meaning)), None) => fail(input, tries::too_often(&reason, meaning, input.row)),
            (None, _) => fail(input, reason),
        };
    }
    let last = facts.and_then(|facts| facts.last_step).unwrap_or(end);
    reached_the_end(status, Some(last), facts, input, job)
}

/// Of the two checkpoints the newest cannot be read, and the one before is at `step`: the next start of mdrun goes on from
/// there, unless it is known that the end was reached.
fn newest_not_read(status: RowStatus, step: i64, end: i64, input: &Input<'_>, job: &JobView) -> Step {
    if status.step.is_some_and(|step| step >= end) {
        return reached_the_end(status, Some(end), None, input, job);
    }
    let reason = format!(
        "mdrun ended without an error, and GROMACS cannot read state.cpt; goes on from state_prev.cpt at step {step} of {end}"
    );
    record(with_history(next_submission(input.row, reason), &status))
}

/// A probe reads the checkpoint, and the end of md.log.
fn verify(status: RowStatus, reason: &str) -> Step {
    record(RowStatus {
        reason: Some(reason.to_owned()),
        private: PrivateState { verifying: true, ..status.private },
        ..status
    })
}

/// What the end of md.log says in the place of the pod's log.
fn facts_of(found: &Verification) -> Option<LogFacts> {
    let (ns_per_day, wall_seconds) = found.speed?;
    Some(LogFacts {
        last_step: Some(found.step),
        reached_the_end: true,
        ns_per_day: Some(ns_per_day),
        wall_seconds: Some(wall_seconds),
        ..LogFacts::default()
    })
}

/// The row is completed, at the step `end` if it has steps.
fn reached_the_end(
    mut status: RowStatus,
    end: Option<i64>,
    facts: Option<&LogFacts>,
    input: &Input<'_>,
    job: &JobView,
) -> Step {
    status.state = State::Completed;
    status.reason = None;
    status.private.verifying = false;
    status.step = end;
    status.progress_time = Some(input.now.into());
    status.finish_time = Some(finish_time(input, job));
    status.failures = 0;
    reset_clock(&mut status);
    let attempt = job.last_attempt();
    status.start_time = status.start_time.or(attempt.and_then(|attempt| attempt.start_time).map(Into::into));
    let first_step = facts.and_then(|facts| facts.first_step).or(status.first_step);
    let measured = facts.zip(end).and_then(|(facts, end)| measurement(input.row, facts, first_step, end));
    if let Some(measured) = measured {
        status.ns_per_day = Some(measured.ns_per_day);
    }
    let peak_memory_bytes = peak_of_last(&status, attempt);
    let attempts = attempt.map(|attempt| AttemptRecord {
        first_step,
        last_step: end,
        measured,
        peak_memory_bytes,
        restart_seconds: followed(&status, attempt, input)
            .and_then(|status| restart::measured(status, input.row)),
        ..AttemptRecord::of(attempt)
    });
    Step { attempts: attempts.into_iter().collect(), ..record(status) }
}
