//! Whether a row waits for something that the other rows of its owner do not wait for. Such rows do not use up what may wait
//! of an owner in the cluster, or twenty files on a volume that nobody provides would hold up everything that could run.

use scavenger_schema::simulation::{RowStatus, State};
use scavenger_vocabulary::{Outcome, Reason, WaitingReason};

use super::seen::Input;
use crate::view::{AttemptView, JobView};

/// So many starts in a row came to nothing, and not for lack of capacity: an image that nobody can pull, for example.
const STARTS_TO_BE_BLOCKED: usize = 3;

/// True if the row waits so, in `status`.
pub(super) fn is_blocked(status: &RowStatus, input: &Input<'_>) -> bool {
    match status.state {
        State::Inspecting => input.probe().map_or_else(|| has_no_nodes(input), waits_alone),
        State::Tuning => has_no_nodes(input),
        State::Submitted | State::Interrupted => input.job().is_some_and(waits_alone),
        State::Queued | State::Running | State::Completed | State::Failed | State::Cancelled => false,
    }
}

/// No node of the pool has the labels that it asks for. A pool without nodes holds up all rows.
fn has_no_nodes(input: &Input<'_>) -> bool {
    !input.row.node_labels.is_empty() && input.pool().is_some_and(|pool| pool.nodes.is_empty())
}

fn waits_alone(job: &JobView) -> bool {
    let why = job.waiting_reason.filter(|_| job.judged);
    let is_its_own = matches!(
        why,
        Some(
            WaitingReason::VolumeUnbound
                | WaitingReason::VolumeInUse
                | WaitingReason::VolumeUnknown
                | WaitingReason::FolderInUse
                | WaitingReason::Suspended
                | WaitingReason::NodeUnreachable
                | WaitingReason::NeverFits
                | WaitingReason::Refused
        )
    );
    is_its_own || fails_to_start(job)
}

fn fails_to_start(job: &JobView) -> bool {
    let came_to_nothing = |attempt: &&AttemptView| {
        attempt.outcome == Some(Outcome::Withdrawn)
            && !matches!(attempt.reason, Some(Reason::Unscheduled | Reason::QuotaExceeded))
    };
    let ended = job.attempts.iter().rev().filter(|attempt| attempt.outcome.is_some());
    ended.take_while(came_to_nothing).count() >= STARTS_TO_BE_BLOCKED
}
