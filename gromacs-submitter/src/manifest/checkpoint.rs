//! What the ScavengerJob of a simulation says of its checkpoints, and what mdrun is told to match.

use std::time::Duration;

use scavenger_schema::scavenger_job::Checkpoint;
use scavenger_schema::simulation::GromacsToTune;

use super::{Terms, working_directory};
use crate::multidir::OLDEST_CHECKPOINT;
use crate::probe::starts_by_script;

/// mdrun's file, in the folder of the row. It is written under another name and renamed.
pub(super) const FILE: &str = "state.cpt";

/// Seconds that a restart costs where nobody has measured it: mdrun starts, reads the checkpoint and tunes PME again.
const RESTART_SECONDS: i32 = 30;

/// What counts at least: an attempt that is stopped sooner than that may not have come to its first step.
const LEAST_RESTART_SECONDS: i32 = 10;

/// The longest path that a ScavengerJob takes, in characters.
const LONGEST_PATH: usize = 512;

/// mdrun writes at the first pair search after `-cpt`. A tenth less keeps the promised interval.
const SHARE_OF_INTERVAL: f64 = 0.9;

/// What the ScavengerJob promises.
pub(super) fn promise(row: &GromacsToTune, terms: &Terms) -> Checkpoint {
    Checkpoint {
        interval: Some(interval(row).into()),
        saves_on_sigterm: terms.supervised || !starts_by_script(row),
        restart_seconds: restart_seconds(terms.restart_seconds).into(),
        path: path(row),
        progress_path: None,
        rank: None,
        request: None,
    }
}

/// Seconds that a restart is taken to cost, given what was measured: for the promise, and for every decision that weighs a
/// restart.
#[must_use]
pub fn restart_seconds(measured: Option<i32>) -> i32 {
    measured.map_or(RESTART_SECONDS, |measured| measured.max(LEAST_RESTART_SECONDS))
}

/// The time between two checkpoints.
pub(super) fn interval(row: &GromacsToTune) -> Duration {
    Duration::from_secs(u64::try_from(row.interruption_after_seconds).unwrap_or(600))
}

/// What `-cpt` takes, in minutes.
pub(super) fn mdrun_minutes(row: &GromacsToTune) -> String {
    format!("{:.4}", interval(row).as_secs_f64() * SHARE_OF_INTERVAL / 60.0)
}

/// Where the supervisor looks: a pattern that matches this one file. Of several simulations the oldest checkpoint counts,
/// and of several files that match the supervisor takes the newest: so one file stands for the oldest. A folder with a name that is too long is not watched,
/// since the API server would refuse the ScavengerJob.
fn path(row: &GromacsToTune) -> Option<String> {
    let mut path = String::new();
    let file = if row.is_multidir() { OLDEST_CHECKPOINT } else { FILE };
    for character in working_directory(row).chars().chain(['/']).chain(file.chars()) {
        match character {
            '*' | '?' | '[' | ']' => path.extend(['[', character, ']']),
            _ => path.push(character),
        }
    }
    (path.chars().count() <= LONGEST_PATH).then_some(path)
}
