//! What is known of a row's checkpoint: an attempt that starts before it has lost work, and is stopped.

use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, RowStatus};

/// A checkpoint is due every interval, and written at the next pair search. A slow volume may take one more, and the
/// speed that is assumed may be off by as much.
const INTERVALS_UNTIL_SAVED: f64 = 3.0;

/// The step that a checkpoint of the row must have reached by now: that which its last attempt started from, or what it
/// had computed three intervals before its last progress.
pub(super) fn saved_step(row: &GromacsToTune, status: &RowStatus) -> Option<i64> {
    if row.kind == Kind::Calibration || row.is_minimisation() {
        return None;
    }
    let computed = status.first_step.and(status.step).zip(steps_between_checkpoints(row, status));
    let saved = computed.map(|(step, unsaved)| step.saturating_sub(unsaved)).filter(|step| *step > 0);
    status.checkpoint_step.max(status.first_step).max(saved)
}

fn steps_between_checkpoints(row: &GromacsToTune, status: &RowStatus) -> Option<i64> {
    let steps_per_second = status.ns_per_day? * 1000.0 / row.system.dt_ps? / 86400.0;
    let steps = steps_per_second * f64::from(row.interruption_after_seconds) * INTERVALS_UNTIL_SAVED;
    // A float that is too large becomes the largest integer.
    steps.is_finite().then_some(steps.ceil() as i64)
}

/// Why the running attempt must not go on; none if it started where it should. `first_step` is that of the running
/// attempt, and `checkpoint_step` rises only when an attempt ends.
pub(super) fn lost(row: &GromacsToTune) -> Option<String> {
    let (first, saved) = row.status.first_step.zip(row.status.checkpoint_step)?;
    (first < saved && row.kind == Kind::Simulation && !row.is_minimisation()).then(|| {
        format!(
            "mdrun started at step {first}, but a checkpoint had reached step {saved}: state.cpt in the folder \
             gromacs-{} beside the file is missing or older; put it back and retry; a retry without it goes on from step \
             {first}",
            row.id
        )
    })
}

/// How the measured speed compares with what was predicted for the configuration that ran.
pub(super) fn speed_ratio(ran: Option<i32>, measured: Option<f64>, ladder: &[LadderRung]) -> Option<f64> {
    let predicted = ladder.iter().find(|rung| Some(rung.rung) == ran)?.ns_per_day_p50;
    measured.map(|measured| measured / predicted).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}
