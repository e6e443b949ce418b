//! Times, as the rules count with them.

use jiff::{SignedDuration, Timestamp};

/// `time` after `duration`; what a status says may be absurd, and must not end the planner.
pub(crate) fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// The earlier of two times, where there is one.
pub(crate) fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}
