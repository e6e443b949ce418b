//! What is known of a row's checkpoint: an attempt that starts before it has lost work, and is stopped.

use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, RowStatus};

use crate::manifest::appends;
use crate::mdrun_log::LogFacts;
use crate::mdrun_options::MdrunOptions;
use crate::probe::starts_by_script;
use crate::view::{JobView, PoolView};

/// The step that a checkpoint of the row has reached: mdrun has read it there, at the start of an attempt. What it has
/// written since is known to its files alone, which are looked at before it starts.
pub(super) fn saved_step(row: &GromacsToTune, status: &RowStatus) -> Option<i64> {
    if has_checkpoints(row) { status.private.checkpoint_step.max(status.first_step) } else { None }
}

pub(super) fn has_checkpoints(row: &GromacsToTune) -> bool {
    row.kind == Kind::Simulation && !row.is_minimisation()
}

/// Why the running attempt must not go on; none if it started where it should. `first_step` is that of the running
/// attempt, and `checkpoint_step` rises only when an attempt ends.
pub(super) fn lost(row: &GromacsToTune) -> Option<String> {
    let (first, saved) = row.status.first_step.zip(row.status.private.checkpoint_step)?;
    // It has cut its output files back, or moved them away.
    let parts = if appends(row) { ", set append to false (gromacs-submitter edit)" } else { "" };
    let folder = if row.is_multidir() { "a folder of" } else { "the folder" };
    (first < saved && has_checkpoints(row)).then(|| {
        format!(
            "mdrun started at step {first}, but a checkpoint had reached step {saved}: state.cpt in {folder} \
             gromacs-{} beside the file is missing or older; put it back{parts} and retry; a retry without it goes on from the \
             checkpoint that is there",
            row.id
        )
    })
}

/// What the row says of checkpoints that were replaced by the ones before: what the script said, with the time that is computed
/// again; none if none was.
pub(super) fn went_back(restored: &[String], row: &GromacsToTune) -> Option<String> {
    let (first, further) = restored.split_first()?;
    let ns = steps_computed_again(first).zip(row.system.dt_ps).map(|(steps, dt)| steps * dt / 1000.0);
    let time = ns.map(|ns| format!(" ({ns:.3} ns)")).unwrap_or_default();
    Some(match further.len() {
        0 => format!("{first}{time}"),
        more => format!("{first}{time}; {more} more simulations do so, see the log"),
    })
}

/// That an attempt of a row with PLUMED computes again what its files have already: mdrun cuts back its own files to the
/// checkpoint, and PLUMED reads and goes on with all that it has written. None if the attempt before wrote its checkpoint last, or
/// if it was seen before where this one started.
pub(super) fn deposited_twice(
    row: &GromacsToTune,
    facts: &LogFacts,
    job: &JobView,
    knew_start: bool,
) -> Option<String> {
    let first = facts.first_step.filter(|_| !knew_start && has_checkpoints(row))?;
    let options = MdrunOptions::read(&row.mdrun_options).unwrap_or_default();
    let seen = row.status.step.filter(|step| *step > first);
    let before = job.attempts.iter().rev().nth(1);
    let lost = before.and_then(|attempt| attempt.lost_seconds).is_some_and(|seconds| seconds > 0);
    if !options.has("-plumed") || (seen.is_none() && !lost) {
        return None;
    }
    let from = row.system.dt_ps.map(|dt| format!(" ({:.3} ps)", first as f64 * dt)).unwrap_or_default();
    Some(format!(
        "what was computed behind step {first}{from} is computed again, and PLUMED's files, such as HILLS, have it twice: before \
         they are used, or the row goes on for long, see \"PLUMED after a hard end\" in docs/rows.md"
    ))
}

fn steps_computed_again(line: &str) -> Option<f64> {
    line.strip_suffix(" steps are computed again")?.rsplit(' ').next()?.parse().ok()
}

/// How the measured speed compares with what was predicted for the configuration that ran.
pub(super) fn speed_ratio(ran: Option<i32>, measured: Option<f64>, ladder: &[LadderRung]) -> Option<f64> {
    let predicted = ladder.iter().find(|rung| Some(rung.rung) == ran)?.ns_per_day_p50;
    measured.map(|measured| measured / predicted).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

/// True if a row can stop at a checkpoint and go on from there: SIGTERM reaches its mdrun, which then writes one.
pub(super) fn can_grow(row: &GromacsToTune, pool: &PoolView) -> bool {
    has_checkpoints(row) && (pool.supervises || !starts_by_script(row))
}
