//! What the ScavengerJob of a simulation says of its checkpoints, and what mdrun is told to match.

use std::time::Duration;

use scavenger_schema::scavenger_job::Checkpoint;
use scavenger_schema::simulation::GromacsToTune;

use super::paths::working_directory;
use super::terms::Terms;
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

/// mdrun writes at the first pair search after `-cpt`. A tenth less keeps the promised interval, where no search takes longer.
const SHARE_OF_INTERVAL: f64 = 0.9;

/// However long a search takes, mdrun shall not write all the time.
const LEAST_SHARE_OF_INTERVAL: f64 = 0.1;

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

/// What `-cpt` takes, in minutes, of an mdrun that writes at most so many seconds later.
pub(super) fn mdrun_minutes(row: &GromacsToTune, late_seconds: f64) -> String {
    let interval = interval(row).as_secs_f64();
    let share = (1.0 - late_seconds / interval).clamp(LEAST_SHARE_OF_INTERVAL, SHARE_OF_INTERVAL);
    format!("{:.4}", interval * share / 60.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ladder, manifest_settings, row, terms};
    use crate::manifest::simulation_job;

    #[test]
    fn the_promised_interval_is_kept_where_pair_searches_take_long() {
        let minutes = |seconds: i32, ns_per_day: f64| {
            let mut rung = ladder()[0].clone();
            rung.ns_per_day_p10 = ns_per_day;
            let row = GromacsToTune { interruption_after_seconds: seconds, ..row() };
            let args = simulation_job(&row, &rung, &manifest_settings(), &terms()).spec.args;
            let at = args.iter().position(|word| word == "-cpt").expect("should write checkpoints");
            args[at + 1].parse::<f64>().expect("should be a number")
        };
        // 200 steps take 1 s, 20 s and 200 s.
        assert_eq!(minutes(600, 34.56), 9.0);
        assert_eq!(minutes(60, 1.728), 0.6667);
        assert_eq!(minutes(60, 0.1728), 0.1);
        assert_eq!(minutes(600, 0.1728), 6.6667);
    }
}
