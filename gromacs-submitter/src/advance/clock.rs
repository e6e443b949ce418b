//! Times of a row, by the clock of the database: `now` of a decision is of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use scavenger_schema::simulation::RowStatus;

use super::seen::Input;
use crate::view::JobView;

/// The operator writes the pool's status at least every minute. If it does not, its word on this row is old too.
pub(super) const AWAY_AFTER_SECONDS: f64 = 150.0;

pub(super) fn later(time: Timestamp, delay: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(delay)
        .ok()
        .and_then(|delay| time.checked_add(delay).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The time by the clock of the operator, as far as that is known.
pub(super) fn by_operators_clock(input: &Input<'_>) -> Timestamp {
    let ahead = input.pool().map_or(SignedDuration::ZERO, |pool| pool.operator_ahead);
    input.now.checked_add(ahead).unwrap_or(input.now)
}

pub(super) fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64().max(0.0)
}

/// Seconds since the attempt was first seen to compute, by the clock of the database: when its pod started, a kubelet says
/// by another one.
pub(super) fn seconds_seen(status: &RowStatus, now: Timestamp) -> f64 {
    status.private.progress_from_time.map_or(0.0, |from| seconds_between(from, now))
}

pub(super) fn is_operator_away(input: &Input<'_>) -> bool {
    let said = input.pool().and_then(|pool| pool.update_time);
    said.is_none_or(|time| seconds_between(time, input.now) > AWAY_AFTER_SECONDS)
}

/// Seconds it has waited for room with this configuration. The clock stands still while it waits for anything else.
pub(super) fn run_clock(status: &mut RowStatus, no_room: bool, now: Timestamp) -> f64 {
    let running = status.private.no_room_since.map_or(0.0, |since| seconds_between(since, now));
    let waited = status.private.no_room_seconds + running;
    if no_room {
        status.private.no_room_since = status.private.no_room_since.or(Some(now));
    } else {
        status.private.no_room_since = None;
        status.private.no_room_seconds = waited;
    }
    waited
}

/// The clock stands still, and goes on from there.
pub(super) fn stop_clock(status: &mut RowStatus, now: Timestamp) {
    run_clock(status, false, now);
}

/// The clock starts again: after an interruption, and with each configuration.
pub(super) fn reset_clock(status: &mut RowStatus) {
    status.private.no_room_since = None;
    status.private.no_room_seconds = 0.0;
    status.private.next_lap_time = None;
}

/// When it ended, as the operator says: at the latest now, whatever its clock.
pub(super) fn finish_time(input: &Input<'_>, job: &JobView) -> jiff_sqlx::Timestamp {
    job.finish_time.map_or(input.now, |time| time.min(input.now)).into()
}
