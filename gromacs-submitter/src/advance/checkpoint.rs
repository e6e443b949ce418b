//! What is known of a row's checkpoint: an attempt that starts before it has lost work, and is stopped.

use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, RowStatus};

use crate::view::AttemptView;

/// A checkpoint is due every interval, and written at the next pair search. A slow volume may take one more, and the
/// speed that is assumed may be off by as much.
const INTERVALS_UNTIL_SAVED: f64 = 3.0;

/// Seconds by which the operator's whole seconds, and the moment in which progress was seen, may be off.
const SECONDS_OFF: f64 = 1.0;

/// The step that a checkpoint of the row must have reached by now: that which its last attempt started from, or what it
/// had computed three intervals before its last progress.
pub(super) fn saved_step(row: &GromacsToTune, status: &RowStatus) -> Option<i64> {
    if !has_checkpoints(row) {
        return None;
    }
    let unsaved_seconds = f64::from(row.interruption_after_seconds) * INTERVALS_UNTIL_SAVED;
    let unsaved = status.ns_per_day.and_then(|speed| steps_in(unsaved_seconds, speed, row));
    let saved = status.first_step.and(status.step).zip(unsaved).map(|(step, unsaved)| step - unsaved);
    status.checkpoint_step.max(status.first_step).max(saved.filter(|step| *step > 0))
}

/// The same where the supervisor of the attempt that the progress is of has measured what was lost, which it tells after
/// the end: all but that was saved. A checkpoint that was written at SIGTERM counts so from its first second on.
pub(super) fn saved_by(
    attempt: &AttemptView,
    row: &GromacsToTune,
    status: &RowStatus,
    ladder: &[LadderRung],
) -> Option<i64> {
    let is_its_progress = attempt.number == status.attempt && status.progress_from_step.is_some();
    let (step, lost) =
        status.step.filter(|_| is_its_progress && has_checkpoints(row)).zip(attempt.lost_seconds)?;
    let ran = ladder.iter().find(|rung| Some(rung.rung) == attempt.rung);
    // Nothing may count as saved that was lost, so the faster of what is known counts.
    let fastest =
        status.ns_per_day.into_iter().chain(ran.map(|rung| rung.ns_per_day_p90)).reduce(f64::max)?;
    let unsaved = steps_in(lost.max(0) as f64 + SECONDS_OFF, fastest, row)?;
    Some(step - unsaved).filter(|step| *step > 0)
}

pub(super) fn has_checkpoints(row: &GromacsToTune) -> bool {
    row.kind == Kind::Simulation && !row.is_minimisation()
}

/// Steps in a time, at a speed; a number that is too large is none.
fn steps_in(seconds: f64, ns_per_day: f64, row: &GromacsToTune) -> Option<i64> {
    let steps = ns_per_day * 1000.0 / row.system.dt_ps? / 86400.0 * seconds;
    (steps < i64::MAX as f64).then_some(steps.ceil() as i64)
}

/// Why the running attempt must not go on; none if it started where it should. `first_step` is that of the running
/// attempt, and `checkpoint_step` rises only when an attempt ends.
pub(super) fn lost(row: &GromacsToTune) -> Option<String> {
    let (first, saved) = row.status.first_step.zip(row.status.checkpoint_step)?;
    let folder = if row.is_multidir() { "a folder of" } else { "the folder" };
    (first < saved && has_checkpoints(row)).then(|| {
        format!(
            "mdrun started at step {first}, but a checkpoint had reached step {saved}: state.cpt in {folder} \
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
