//! Deadlines: whether a row will meet its own, at the slow end of what may be, and what it does for that. A deadline never stops
//! a row: it only chooses between configurations, and when.

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, RowStatus, State};

use super::ladder::rest_seconds;
use super::seen::Input;

/// A row that was said to be late is in time again with so much to spare, and a share of what is left: speeds vary, and the
/// history should not say the one and the other all day.
const SECONDS_TO_SPARE: f64 = 600.0;
const SHARE_TO_SPARE: f64 = 0.05;

/// Lateness is told in minutes.
const MINUTE: f64 = 60.0;

/// Until the deadline of a row: the time, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook<'s, 'l> {
    row: &'l GromacsToTune,
    status: &'s RowStatus,
    ladder: &'l [LadderRung],
    seconds_left: f64,
}

impl<'s, 'l> Outlook<'s, 'l> {
    /// None for a row without a deadline.
    pub(super) fn new(
        row: &'l GromacsToTune,
        status: &'s RowStatus,
        ladder: &'l [LadderRung],
        now: Timestamp,
    ) -> Option<Self> {
        let deadline = row.deadline.filter(|_| row.kind == Kind::Simulation)?.to_jiff();
        let seconds_left = deadline.duration_since(now).as_secs_f64();
        Some(Self { row, status, ladder, seconds_left })
    }

    /// Seconds until it would be done with a configuration that starts now.
    fn rest(&self, rung: &LadderRung) -> Option<f64> {
        rest_seconds(self.row, self.status, rung, self.ladder, true)
    }

    /// Seconds by which it would be late with a configuration that starts after `wait`; below 0 if it is in time.
    pub(super) fn late(&self, rung: &LadderRung, wait: f64) -> Option<f64> {
        Some(wait + self.rest(rung)? - self.seconds_left)
    }

    /// True if it would be late so.
    pub(super) fn misses(&self, rung: &LadderRung, wait: f64) -> bool {
        self.late(rung, wait).is_some_and(|late| late > 0.0)
    }
}

/// Seconds by which the row is expected to miss its deadline, as it is in `status`: in whole minutes, none if it is in time.
pub(super) fn late_seconds(status: &RowStatus, input: &Input<'_>) -> Option<i64> {
    let outlook = Outlook::new(input.row, status, input.ladder(), input.now)?;
    let rest = match status.state {
        State::Completed | State::Failed | State::Cancelled => return None,
        // Nothing is known of its length yet.
        State::Queued | State::Inspecting | State::Tuning => 0.0,
        State::Submitted | State::Running | State::Interrupted => {
            let rung = input.ladder().iter().find(|found| Some(found.rung) == status.rung);
            rung.and_then(|rung| outlook.rest(rung)).unwrap_or(0.0)
        }
    };
    let late = rest - outlook.seconds_left;
    let spare = if status.late_seconds.is_some() { SECONDS_TO_SPARE.max(rest * SHARE_TO_SPARE) } else { 0.0 };
    // A float that is too large becomes the largest integer.
    (late > -spare).then(|| ((late.max(0.0) / MINUTE).round() * MINUTE) as i64)
}
