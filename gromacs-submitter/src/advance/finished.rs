//! A row that has ended: it goes on if somebody asks for it, and what it left in the cluster is removed.

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, PrivateState, RowStatus, State};

use super::next::{delete_job, next_submission};
use super::seen::{Input, Needs};
use super::step::{Action, Step, act, record, settle};
use crate::manifest::Probe;
use crate::view::JobView;

/// What it may have left, once that is to be removed.
pub(super) fn needs(row: &GromacsToTune, now: Timestamp) -> Needs {
    if row.status.job_expiry_time.is_some_and(|time| time.to_jiff() <= now) {
        Needs { job: true, ..Needs::probe(probe_left_by(row)) }
    } else {
        Needs::default()
    }
}

pub(super) fn finished(input: &Input<'_>) -> Step {
    let row = input.row;
    if row.retry_requested {
        let reason = match row.status.state {
            State::Completed => extension(row),
            _ => Some("retry requested".to_owned()),
        };
        let step = match reason {
            Some(reason) => {
                let next = next_submission(row, reason);
                // Where a row did not complete, a person may have put another checkpoint there, or none, as the row advised:
                // what is there now counts.
                let checkpoint_step =
                    next.private.checkpoint_step.filter(|_| row.status.state == State::Completed);
                record(RowStatus {
                    inspect_again: true,
                    private: PrivateState { start_failures: 0, checkpoint_step, ..next.private },
                    ..next
                })
            }
            // Nothing is left to compute.
            None => settle(row.status.clone(), None, input),
        };
        return Step { clears_requests: true, ..step };
    }
    // What was not looked for is not gone.
    if !input.seen.needs.job {
        return settle(row.status.clone(), None, input);
    }
    let is_there = |job: &&JobView| job.ours && !job.deleting;
    if let Some(job) = input.job().filter(is_there) {
        return act(delete_job(row, job), row);
    }
    if input.probe().is_some_and(|probe| is_there(&probe)) {
        return act(Action::DeleteProbe(probe_left_by(row)), row);
    }
    settle(RowStatus { job_expiry_time: None, ..row.status.clone() }, None, input)
}

/// That a completed row goes on for longer, and how long it shall become.
fn extension(row: &GromacsToTune) -> Option<String> {
    let nsteps = row.extended_nsteps.filter(|nsteps| row.system.nsteps.is_none_or(|done| *nsteps > done))?;
    Some(format!("goes on for longer, to {nsteps} steps in all"))
}

/// The probe that a row that has ended may have left: the inspection is removed before anything is submitted.
fn probe_left_by(row: &GromacsToTune) -> Probe {
    if row.status.job_uid.is_some() { Probe::Verification } else { Probe::Inspection }
}
