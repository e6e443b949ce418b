//! Which file mdrun reads.
//!
//! A row runs what was inspected, whatever becomes of the user's file: the inspection copies it into the folder of the row. Were
//! it read where it is, `gmx grompp` for another run or a new `cp` would be continued with the checkpoint of this one.

use scavenger_schema::simulation::GromacsToTune;

use super::paths::{MOUNT_PATH, working_directory};
use crate::multidir::Places;
use crate::probe::RUN_INPUT;

/// The run input of a row that was extended, in the folder of the row. The inspection makes it of the row's copy.
const EXTENDED_FILE: &str = "extended.tpr";

/// The row's own copy of its .tpr file: its name in the folder of the row or of each of its simulations. None before the
/// inspection, and of a row that was inspected before there were copies.
pub(crate) fn own_copy(row: &GromacsToTune) -> Option<&str> {
    let name = row.inspected.as_ref()?.get(RUN_INPUT)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// A folder, and the name of the file in it or in the folder of each simulation there. What was inspected before there were
/// copies runs the user's file until it is inspected again.
pub(super) fn run_input(row: &GromacsToTune) -> (String, String) {
    let own = row.extended_nsteps.map(|_| EXTENDED_FILE).or_else(|| own_copy(row));
    match (own, row.tpr_path.rsplit_once('/')) {
        (Some(name), _) => (working_directory(row), name.to_owned()),
        (None, Some((folder, name))) => (format!("{MOUNT_PATH}/{folder}"), name.to_owned()),
        (None, None) => (MOUNT_PATH.to_owned(), row.tpr_path.clone()),
    }
}

/// Where the simulations of a row of several read and write.
pub(super) fn places(row: &GromacsToTune) -> Places {
    let (inputs, file) = run_input(row);
    Places { work: working_directory(row), inputs, file }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sqlx::types::Json;

    use super::*;
    use crate::fixtures::{inspected, ladder, manifest_settings, row, terms};
    use crate::manifest::{Probe, probe_job, simulation_job};

    fn args(row: &GromacsToTune) -> Vec<String> {
        simulation_job(row, &ladder()[0], &manifest_settings(), &terms()).spec.args
    }

    #[test]
    fn no_argument_leads_to_the_users_file_once_it_was_inspected() {
        let simulations = ["sim0", "sim1"].map(ToOwned::to_owned).to_vec();
        let options = ["-f", "a.mdp", "-c", "a.gro", "-p", "a.top"].map(ToOwned::to_owned).to_vec();
        let single = GromacsToTune { inspected: inspected(), ..row() };
        for row in [
            single.clone(),
            GromacsToTune { extended_nsteps: Some(9000), ..single.clone() },
            GromacsToTune { grompp_options: options, ..single.clone() },
            GromacsToTune { checkpoint_path: Some("old.cpt".to_owned()), ..single.clone() },
            GromacsToTune { append: Some(false), ..single.clone() },
            GromacsToTune { multidir: simulations.clone(), ..single.clone() },
            GromacsToTune { multidir: simulations, extended_nsteps: Some(9000), ..single.clone() },
            GromacsToTune { tpr_path: "topol.tpr".to_owned(), ..single.clone() },
        ] {
            let args = args(&row);
            assert!(args.iter().all(|word| !word.contains("topol.tpr")), "{args:?}");
            let name = if row.extended_nsteps.is_some() { "extended.tpr" } else { "run-1-2.tpr" };
            if row.is_multidir() {
                assert_eq!(args[..3], ["/data/water/gromacs-7", "/data/water/gromacs-7", name]);
            } else {
                let folder = if row.tpr_path.contains('/') { "/data/water" } else { "/data" };
                assert_eq!(args[..2], ["-s".to_owned(), format!("{folder}/gromacs-7/{name}")]);
            }
        }
    }

    #[test]
    fn the_inspection_is_told_which_copy_has_been_run() {
        let told = |row: &GromacsToTune| {
            let args = probe_job(row, Probe::Inspection, &manifest_settings(), &terms()).spec.args;
            args.get(6).cloned()
        };
        assert_eq!(told(&row()).as_deref(), Some("-"));
        assert_eq!(told(&GromacsToTune { inspected: inspected(), ..row() }).as_deref(), Some("run-1-2.tpr"));
    }

    #[test]
    fn a_row_without_a_copy_and_a_name_that_leads_elsewhere_run_the_users_file() {
        for name in [None, Some(""), Some("../other/run-1-2.tpr"), Some("/etc/passwd")] {
            let found = name.map(|name| BTreeMap::from([("run-input".to_owned(), name.to_owned())]));
            let row = GromacsToTune { inspected: found.map(Json), ..row() };
            assert_eq!(args(&row)[..2], ["-s", "/data/water/topol.tpr"], "{name:?}");
        }
    }
}
