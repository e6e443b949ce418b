//! Rows that compute several simulations side by side: an ensemble, as mdrun's `-multidir` names it.
//!
//! `tpr_path` names the file in each folder of `multidir`, which stand beside it. One pod runs all of them, each as a mdrun
//! of its own in a folder of its own below that of the row. So any image does that runs single simulations: `-multidir`
//! itself needs a GROMACS with library MPI and its launcher, which most images have not. Where a row asks for that engine, all
//! simulations are one mdrun ([`mpi`]), and can exchange.
//!
//! A script runs them, and says in mdrun's words how far the least advanced one is. All that reads the log of a simulation
//! reads that of a row of several, too: steps and speeds are those of one simulation, resources those of all.

pub mod mpi;

use scavenger_schema::simulation::{GromacsToTune, LadderRung};

use crate::mdrun_log::progress_seconds;
use crate::text::literal;

/// Runs the simulations.
pub const RUN_SCRIPT: &str =
    concat!(include_str!("../probe/checkpoint.sh"), include_str!("several.sh"), include_str!("run.sh"));

/// Inspects each of them with the script that inspects one.
pub const INSPECT_SCRIPT: &str = concat!(include_str!("../probe/folder.sh"), include_str!("inspect.sh"));

/// Reads the checkpoint of each of them with the script that reads one.
pub const VERIFY_SCRIPT: &str = include_str!("verify.sh");

/// A file in the folder of the row that is as old as the oldest checkpoint of the simulations that run.
pub const OLDEST_CHECKPOINT: &str = ".oldest-checkpoint";

/// Seconds after which the script sees at the latest that the last mdrun has ended.
pub(crate) const LOOK_SECONDS: f64 = 2.0;

/// Where the simulations are, in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Folder of the row.
    pub(crate) work: String,
    /// Folder that holds the folders with the run inputs.
    pub(crate) inputs: String,
    /// Name of each run input.
    pub(crate) file: String,
}

/// What runs the simulations of a row: a shell with the script, behind which stands mdrun with its arguments.
pub(crate) fn command(
    row: &GromacsToTune,
    rung: &LadderRung,
    places: &Places,
    mdrun: Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let command = vec!["sh".to_owned(), "-c".to_owned(), literal(RUN_SCRIPT), "multidir".to_owned()];
    let last_step = row.system.last_step().unwrap_or(0);
    let every = progress_seconds(rung.hours_to_finish).ceil();
    let numbers = [last_step.to_string(), every.to_string(), rung.gpus.to_string()];
    let mut args: Vec<String> =
        [&places.work, &places.inputs, &places.file].map(|place| literal(place)).to_vec();
    args.extend(numbers);
    args.extend([rung.layout.gpus.to_string(), row.simulations().to_string()]);
    args.extend(row.multidir.iter().map(|folder| literal(folder)));
    args.extend(mdrun);
    (command, args)
}

/// The files that a path of a row means: itself, or the one of its name in each of these folders beside it.
pub(crate) fn files(path: &str, folders: &[String]) -> Vec<String> {
    if folders.is_empty() {
        return vec![path.to_owned()];
    }
    let (beside, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_folder = |folder: &String| {
        let parts = [beside, folder, name].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("/")
    };
    folders.iter().map(in_folder).collect()
}

/// Steps between two lines of progress, in a file that nobody holds back: two of them in each time that the script reports.
pub(crate) fn step_interval(rung: &LadderRung, dt_ps: f64) -> i64 {
    let steps_per_second = rung.ns_per_day_p50 * 1000.0 / dt_ps / 86400.0;
    let interval = steps_per_second * progress_seconds(rung.hours_to_finish) / 2.0;
    if interval.is_finite() { (interval as i64).clamp(1, 1_000_000) } else { 100 }
}

/// The simulation that failed, if the log says which one.
pub(crate) fn failed_simulation(log: &str) -> Option<&str> {
    let lines = log.split(['\n', '\r']);
    lines.rev().find_map(|line| {
        line.trim().strip_prefix("simulation ")?.rsplit_once(" ended with exit code ").map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{ladder, row};

    #[test]
    fn the_log_says_which_simulation_failed() {
        let log = "starting mdrun '2 simulations'\r\nFatal error:\nToo many LINCS warnings\n\n\
                   simulation lambda/0 ended with exit code 1\n";
        assert_eq!(failed_simulation(log), Some("lambda/0"));
        assert_eq!(failed_simulation("simulation sim1 is complete\n"), None);
        let odd = "simulation a ended with exit code 3 ended with exit code 1";
        assert_eq!(failed_simulation(odd), Some("a ended with exit code 3"));
    }

    #[test]
    fn progress_is_written_as_often_as_it_is_reported() {
        let row = row();
        let rung = LadderRung { hours_to_finish: Some(100.0), ..ladder()[0].clone() };
        // 451 steps/s, reported every 2 minutes.
        assert_eq!(step_interval(&rung, row.system.dt_ps.unwrap_or_default()), 27083);
        let slow = LadderRung { ns_per_day_p50: 0.001, ..rung.clone() };
        assert_eq!(step_interval(&slow, 0.002), 1);
        assert_eq!(step_interval(&LadderRung { ns_per_day_p50: f64::NAN, ..rung }, 0.002), 100);
    }
}
