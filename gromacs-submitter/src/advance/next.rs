//! What comes after a submission, or after a row: the next submission, or the end.

use scavenger_schema::simulation::{GromacsToTune, PrivateState, RowStatus, State};

use super::checkpoint;
use super::not_done::with_failure;
use super::seen::Input;
use super::step::{Action, Step, act, record, settle};
use crate::manifest::Probe;
use crate::view::JobView;

/// The row starts over, from its checkpoint, with a ScavengerJob of its own.
pub(super) fn next_submission(row: &GromacsToTune, reason: String) -> RowStatus {
    RowStatus {
        state: State::Queued,
        reason: Some(reason),
        submission: row.status.submission.saturating_add(1),
        job_uid: None,
        rung: None,
        next_rung: None,
        attempt: 0,
        first_step: None,
        blocked: false,
        finish_time: None,
        failures: 0,
        peak_memory_bytes: None,
        job_expiry_time: None,
        // What was learned of its memory and of its failed starts is about the row; all else is about the submission.
        private: PrivateState {
            checkpoint_step: checkpoint::saved_step(row, &row.status),
            ladder_interruptions: row.status.interruptions,
            outgrown_memory_bytes: row.status.private.outgrown_memory_bytes,
            probe_outgrown_memory_bytes: row.status.private.probe_outgrown_memory_bytes,
            start_failures: row.status.private.start_failures,
            unknown: row.status.private.unknown.clone(),
            ..PrivateState::default()
        },
        ..row.status.clone()
    }
}

/// What was just learned of the submission that ended stays known in the next one.
pub(super) fn with_history(next: RowStatus, ended: &RowStatus) -> RowStatus {
    RowStatus {
        interruptions: ended.interruptions,
        start_time: ended.start_time,
        private: PrivateState {
            checkpoint_step: next.private.checkpoint_step.max(ended.private.checkpoint_step),
            ..next.private
        },
        ..next
    }
}

pub(super) fn fail(input: &Input<'_>, reason: String) -> Step {
    record(with_failure(input.row, reason, input.settings.keep_jobs, input.now))
}

/// Cancels a row without a ScavengerJob that computes; a probe may still be at work.
pub(super) fn cancel_probe(kind: Probe, input: &Input<'_>) -> Step {
    match input.probe().filter(|probe| probe.ours) {
        Some(probe) => {
            let what = match kind {
                Probe::Inspection => "the inspection",
                Probe::Verification => "the reading of its checkpoint",
            };
            let reason = format!("cancel requested; waits until {what} is gone");
            delete_and_wait(Action::DeleteProbe(kind), probe, reason, input)
        }
        None => cancelled(input),
    }
}

pub(super) fn cancelled(input: &Input<'_>) -> Step {
    record(RowStatus {
        state: State::Cancelled,
        reason: Some("cancelled by its owner".to_owned()),
        finish_time: Some(input.now.into()),
        next_rung: None,
        failures: 0,
        private: PrivateState { no_room_since: None, verifying: false, ..input.row.status.private.clone() },
        ..input.row.status.clone()
    })
}

/// Deletes the ScavengerJob of the row's submission, if it is still this one.
pub(super) fn delete_job(row: &GromacsToTune, job: &JobView) -> Action {
    Action::DeleteJob { submission: row.status.submission, uid: job.uid.clone() }
}

pub(super) fn delete_and_wait(action: Action, job: &JobView, reason: String, input: &Input<'_>) -> Step {
    if job.deleting { settle(input.row.status.clone(), Some(reason), input) } else { act(action, input.row) }
}
