//! What a restart costs: the time in which an attempt is there, and computes nothing yet. Its pods start, mdrun reads its
//! checkpoint and sets up. All times are of the database's clock.

use scavenger_schema::simulation::{GromacsToTune, RowStatus};

use super::checkpoint::has_checkpoints;

/// What takes longer was no restart: nobody looked, or the pods waited for an image.
const LONGEST_SECONDS: f64 = 3600.0;

/// Seconds from when the row's attempt was first seen to its first step; none if that was not seen. When progress was first
/// seen, some steps were done: as long as they took at the speed of the attempt is taken off.
pub(super) fn measured(status: &RowStatus, row: &GromacsToTune) -> Option<i32> {
    if !has_checkpoints(row) {
        return None;
    }
    let from = status.private.attempt_seen_time?;
    let seen = status.private.progress_from_time?.duration_since(from).as_secs_f64();
    let steps = status.private.progress_from_step?.checked_sub(status.first_step?)?;
    let computed = match steps {
        0 => 0.0,
        steps => {
            let speed = status.ns_per_day.filter(|speed| *speed > 0.0)?;
            steps as f64 * row.system.dt_ps? / 1000.0 / speed * 86400.0
        }
    };
    let seconds = seen - computed;
    // Less than nothing: it had computed before it was first seen.
    (0.0..=LONGEST_SECONDS).contains(&seconds).then_some(seconds.ceil() as i32)
}
