//! The systems in `tests/systems` without a cluster: GROMACS makes their run inputs, the inspection reads them, and mdrun
//! runs them with the arguments that a row gets, on one rank and on two.

mod volume;

use std::path::{Path, PathBuf};
use std::process::Command;

use gromacs_submitter::faults::{Meaning, Part, of_gromacs};
use gromacs_submitter::mdrun_log::{error_message, parse};
use gromacs_submitter::mdrun_options::MdrunOptions;
use gromacs_submitter::probe::{INSPECT_SCRIPT, parse_inspection, without_checkpoints};
use scavenger_schema::tuning::Layout;
use volume::{UUID, Volume, has_gromacs};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/systems")
}

/// Name of each system, and the words with which it is refused; none if it completes.
fn systems() -> Vec<(String, Option<String>)> {
    let mut systems: Vec<_> = std::fs::read_dir(folder())
        .expect("should be a folder")
        .filter_map(|entry| {
            let path = entry.expect("should be readable").path();
            let name = path.file_name()?.to_str()?.strip_suffix(".mdp")?.to_owned();
            let text = std::fs::read_to_string(&path).expect("should be readable");
            let then = text.lines().nth(2)?.strip_prefix("; then: ")?.to_owned();
            Some((name, then.strip_prefix("refused ").map(str::to_owned)))
        })
        .collect();
    systems.sort();
    systems
}

/// Ends with exit code and what mdrun printed.
fn mdrun(folder: &Path, tpr: &Path, layout: &Layout, version: Option<&str>, more: &[&str]) -> (bool, String) {
    let output = Command::new("gmx")
        .args(["-quiet", "-nobackup", "mdrun", "-s"])
        .arg(tpr)
        .args(["-cpi", "state.cpt", "-cpo", "state.cpt", "-cpt", "9"])
        .args(layout.mdrun_args(version))
        .args(["-v", "-stepout", "50"])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("should run gmx");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn gromacs_runs_them_or_the_inspection_says_why_not() {
    if !has_gromacs() {
        return;
    }
    let volume = Volume::new("PATH=${PATH#*:} exec gmx \"$@\"");
    let made = Command::new("sh")
        .arg(folder().join("make.sh"))
        .arg(&volume.0)
        .output()
        .expect("should run the script");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let systems = systems();
    assert!(systems.len() >= 30, "{systems:?}");
    for (name, refused) in systems {
        let tpr = volume.0.join(format!("{name}/{name}.tpr"));
        let work = volume.0.join(format!("{name}/gromacs-1"));
        let output = volume.run(INSPECT_SCRIPT, &[&tpr, &work, Path::new(UUID)]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let message = volume.message();
        assert!(message.len() < 1024, "{name}: the operator copies at most 1 kB: {message}");
        let found = parse_inspection(&message).map_err(|error| error.to_string()).and_then(|found| {
            without_checkpoints(&found.values, &MdrunOptions::default()).map_or(Ok(found), Err)
        });
        let inspection = match (found, refused) {
            (Err(error), Some(words)) => {
                assert!(error.contains(&words), "{name}: {error}");
                continue;
            }
            (Ok(inspection), None) => inspection,
            (found, refused) => panic!("{name}: {found:?} instead of {refused:?}"),
        };
        let version = inspection.system.gromacs_version.as_deref();
        let (success, told) = mdrun(&work, &tpr, &Layout::cpu(1, 1), version, &[]);
        let facts = parse(&told);
        assert!(success && facts.reached_the_end && facts.first_step == Some(0), "{name}: {told}");
        // What a row is promised to go on from.
        assert_eq!(work.join("state.cpt").is_file(), !inspection.minimises(), "{name}");
        // More ranks than the system takes are refused in words that lead to fewer. A few steps show it: on a busy machine
        // ranks that wait for each other take long.
        let two = volume.0.join(format!("{name}/gromacs-2"));
        std::fs::create_dir(&two).expect("should make a folder");
        let (success, told) = mdrun(&two, &tpr, &Layout::cpu(2, 1), version, &["-nsteps", "10"]);
        let words = error_message(&told).unwrap_or_default();
        assert!(
            success || matches!(of_gromacs(&words), Meaning::Refuses(Part::Ranks | Part::Domains)),
            "{name} on two ranks: {words:?}, of {told}"
        );
    }
}
