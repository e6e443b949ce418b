//! Another try of what goes by: when, and how often.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, PrivateState, RowStatus};

use super::clock::later;
use super::next::{next_submission, with_history};
use super::seen::Input;
use super::step::{Step, record};
use crate::faults::{Meaning, remedy};

/// Delay before the first new try after what goes by; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_secs(30);

/// The longest such delay.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// So many tries take 13 hours: what has not gone by then needs a person.
pub(super) const MOST_TRIES: i32 = 20;

/// The next submission of a row that is tried again after a delay; none if it was tried often enough. `what` says what
/// happened.
pub(super) fn again_later(status: &RowStatus, what: &str, input: &Input<'_>) -> Option<Step> {
    let (start_failures, time) = next_try(status, input)?;
    let reason = format!("{what}; tries again at {time:.0}");
    let next = with_history(next_submission(input.row, reason), status);
    Some(record(RowStatus {
        next_attempt_time: time.into(),
        private: PrivateState { start_failures, not_before: Some(time), ..next.private },
        ..next
    }))
}

/// How many tries that is, and when; none if there were enough.
pub(super) fn next_try(status: &RowStatus, input: &Input<'_>) -> Option<(i32, Timestamp)> {
    let tries = status.private.start_failures.saturating_add(1);
    (tries <= MOST_TRIES).then(|| (tries, later(input.now, delay(tries))))
}

/// Why a row fails that was tried often enough, and what to do.
pub(super) fn too_often(reason: &str, meaning: Meaning, row: &GromacsToTune) -> String {
    let remedy = remedy(meaning, false, row).unwrap_or_else(|| "remove the cause, and retry".to_owned());
    format!("{reason}; {MOST_TRIES} starts ended so: {remedy}")
}

/// How often something failed, and on which nodes.
pub(super) fn tried_often(nodes: &[Option<&str>]) -> String {
    let names: BTreeSet<&str> = nodes.iter().copied().flatten().collect();
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [] => format!("{} times in a row", nodes.len()),
        [name] => format!("{} times in a row on node {name}", nodes.len()),
        names => format!("{} times in a row on nodes {}", nodes.len(), names.join(", ")),
    }
}

fn delay(tries: i32) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(0).min(10);
    (FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY)
}

/// A run that has lasted for so long has written a checkpoint, so it does not fail again and again at the same place.
pub(super) fn well_after_seconds(row: &GromacsToTune) -> f64 {
    f64::from(row.interruption_after_seconds) * 2.0
}
