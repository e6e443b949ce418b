//! What the inspection's script does for a row that goes on from what was computed before: with a `gmx` of the test's, and
//! with GROMACS itself.

mod volume;

use std::path::Path;
use std::process::Command;

use gromacs_submitter::mdrun_log::error_message;
use gromacs_submitter::probe::{
    Change, INSPECT_SCRIPT, VERIFY_SCRIPT, WATER_SCRIPT, change, parse_inspection, parse_verification,
};
use volume::{OTHER_UUID, READ_STEPS_AND_OUTPUT, UUID, Volume, has_gromacs};

/// A `gmx` uuid `convert-tpr` makes another file each time, as GROMACS does, with the steps that it is told.
fn extending() -> String {
    format!(
        "case \"$*\" in
        *'convert-tpr '*)
            {READ_STEPS_AND_OUTPUT}
            echo \"$nsteps $$\" >\"$output\" ;;
        *'check -f '*) grep -qv damaged \"$4\" ;;
        *--version*) echo 'GROMACS version:    2022.5-Debian' ;;
        *'dump -s '*extended.tpr) nsteps=$(cut -d ' ' -f 1 \"$4\")
            sed \"s/^   nsteps .*/   nsteps                         = $nsteps/\" '{dump}' ;;
        *'dump -s '*) cat '{dump}' ;;
        *) exit 9 ;;
        esac",
        dump = format_args!("{}/tests/fixtures/dump-peptide.txt", env!("CARGO_MANIFEST_DIR"))
    )
}

#[test]
fn a_run_that_is_extended_gets_a_copy_of_its_file_with_more_steps() {
    let volume = Volume::new(&extending());
    let (file, folder) = (volume.file("a b.tpr"), volume.0.join("gromacs-1"));
    let uuid = Path::new(UUID);
    let inspect = |steps: &[&Path]| {
        let output = volume.run(INSPECT_SCRIPT, &[&[&file, &folder, uuid], steps].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(inspect(&[]).0, Some(0));
    let before = parse_inspection(&volume.message()).expect("should be read");
    let missing = inspect(&[Path::new("5000")]);
    assert_eq!(missing.0, Some(4));
    assert!(missing.1.contains("there is no checkpoint") && missing.1.contains("put it back, and retry"));
    assert!(!folder.join("extended.tpr").exists());

    volume.file("gromacs-1/state_prev.cpt");
    assert_eq!(inspect(&[Path::new("2000")]), (Some(0), String::new()), "mdrun goes on from this one");
    volume.file("gromacs-1/state.cpt");
    // Twice: it may be interrupted, and the row may be tried again.
    for _ in 0..2 {
        assert_eq!(inspect(&[Path::new("5000")]), (Some(0), String::new()));
        let after = parse_inspection(&volume.message()).expect("should be read");
        assert_eq!((before.system.nsteps, after.system.nsteps), (Some(1000), Some(5000)));
        assert_eq!(change(&before.values, &after.values), Change::None, "the user's file is what it was");
        let made = std::fs::read_to_string(folder.join("extended.tpr")).expect("should be made");
        assert!(made.starts_with("5000 "), "{made}");
        assert!(!folder.join("new.tpr").exists());
    }
    assert_eq!(std::fs::read_to_string(&file).expect("should be there"), "x", "the user's file stays");
    // The checkpoint of another row is left alone.
    let output = volume.run(INSPECT_SCRIPT, &[&file, &folder, Path::new(OTHER_UUID), Path::new("9000")]);
    assert_eq!(output.status.code(), Some(9));
    let made = std::fs::read_to_string(folder.join("extended.tpr")).expect("should be there");
    assert!(made.starts_with("5000 "), "{made}");
}

#[test]
fn a_checkpoint_to_start_from_is_copied_once() {
    let volume = Volume::new(&extending());
    let (file, folder) = (volume.file("a.tpr"), volume.0.join("gromacs-1"));
    let uuid = Path::new(UUID);
    let inspect = |checkpoint: &Path| {
        let arguments = [&file, &folder, uuid, Path::new("-"), checkpoint];
        let output = volume.run(INSPECT_SCRIPT, &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let missing = inspect(&volume.0.join("none.cpt"));
    assert_eq!(missing.0, Some(4));
    assert!(missing.1.contains("there is no checkpoint") && missing.1.contains("none.cpt"), "{}", missing.1);
    let given = volume.file("-old $(run).cpt");
    assert_eq!(inspect(&given), (Some(0), String::new()));
    let copy = folder.join("state.cpt");
    assert_eq!(std::fs::read_to_string(&copy).expect("should be copied"), "x");
    assert!(!folder.join("new.cpt").exists() && !folder.join("extended.tpr").exists());
    // What the simulation wrote since is what it goes on from.
    std::fs::write(&copy, "newer").expect("should write");
    assert_eq!(inspect(&given), (Some(0), String::new()));
    assert_eq!(std::fs::read_to_string(&copy).expect("should be there"), "newer");
    assert_eq!(std::fs::read_to_string(&given).expect("should be there"), "x");
    // A node that failed between two renames has left the one before alone.
    std::fs::rename(&copy, folder.join("state_prev.cpt")).expect("should rename");
    assert_eq!(inspect(&given), (Some(0), String::new()));
    assert!(!copy.exists(), "what was computed since is not given up");
}

/// Once a checkpoint has the name that mdrun looks for, it is not copied again; so one that nobody can read never gets it.
#[test]
fn a_damaged_checkpoint_to_start_from_is_refused_until_it_is_replaced() {
    let volume = Volume::new(&extending());
    let (file, folder) = (volume.file("a.tpr"), volume.0.join("gromacs-1"));
    let given = volume.file("old.cpt");
    let inspect = || {
        let arguments = [&file, &folder, Path::new(UUID), Path::new("-"), &given];
        let output = volume.run(INSPECT_SCRIPT, &arguments);
        (output.status.code(), error_message(&String::from_utf8_lossy(&output.stderr)))
    };
    std::fs::write(&given, "damaged").expect("should write");
    let (code, words) = inspect();
    let advice = "old.cpt; put one there that the image can read, and retry";
    assert_eq!(code, Some(4));
    assert!(
        words.is_some_and(
            |words| words.starts_with("GROMACS cannot read checkpoint") && words.ends_with(advice)
        )
    );
    assert!(!folder.join("state.cpt").exists() && !folder.join("new.cpt").exists());
    std::fs::write(&given, "whole").expect("should write");
    assert_eq!(inspect(), (Some(0), None));
    assert_eq!(std::fs::read_to_string(folder.join("state.cpt")).expect("should be copied"), "whole");
}

/// It would be another simulation's that the row goes on from, once state.cpt cannot be read.
#[test]
fn the_checkpoint_before_of_another_row_is_left_alone() {
    let volume = Volume::new(&extending());
    let (file, folder) = (volume.file("a.tpr"), volume.0.join("gromacs-1"));
    std::fs::create_dir(&folder).expect("should make a folder");
    volume.file("gromacs-1/state_prev.cpt");
    let output = volume.run(INSPECT_SCRIPT, &[&file, &folder, Path::new(UUID)]);
    assert_eq!(output.status.code(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
}

/// GROMACS itself, where it is installed: what another run began is computed in the folder of a row, and extended.
#[test]
fn gromacs_starts_from_the_checkpoint_of_another_folder() {
    if !has_gromacs() {
        return;
    }
    let volume = Volume::new("PATH=${PATH#*:} exec gmx \"$@\"");
    let (file, elsewhere, folder) =
        (volume.0.join("water.tpr"), volume.0.join("elsewhere"), volume.0.join("gromacs-1"));
    let good = |script: &str, arguments: &[&Path]| {
        let output = volume.run(script, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let sizes = ["2", "2", "2", "200"].map(Path::new);
    good(WATER_SCRIPT, &[&[file.as_path(), elsewhere.as_path()], sizes.as_slice()].concat());
    let mdrun = |folder: &Path, input: &Path, more: &[&str]| {
        let output = Command::new("gmx")
            .args([
                "-quiet",
                "mdrun",
                "-cpi",
                "state.cpt",
                "-cpo",
                "state.cpt",
                "-ntmpi",
                "1",
                "-ntomp",
                "1",
                "-v",
            ])
            .args(more)
            .arg("-s")
            .arg(input)
            .current_dir(folder)
            .output()
            .expect("should run gmx");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        gromacs_submitter::mdrun_log::parse(&told)
    };
    mdrun(&elsewhere, &file, &["-nsteps", "100"]);
    let (uuid, checkpoint) = (Path::new(UUID), elsewhere.join("state.cpt"));
    good(INSPECT_SCRIPT, &[&file, &folder, uuid, Path::new("-"), &checkpoint]);
    assert_eq!(mdrun(&folder, &file, &["-noappend"]).first_step, Some(100));
    assert!(folder.join("md.part0002.log").exists(), "its output is a part of its own");
    good(INSPECT_SCRIPT, &[&file, &folder, uuid, Path::new("300"), &checkpoint]);
    let facts = mdrun(&folder, &folder.join("extended.tpr"), &["-noappend"]);
    assert_eq!(facts.first_step, Some(200));
    good(VERIFY_SCRIPT, &[&folder.join("state.cpt")]);
    assert_eq!(parse_verification(&volume.message()).map(|found| found.step), Ok(300));
}

/// GROMACS itself, where it is installed: a box of water is computed, extended, and computed to its new end.
#[test]
fn gromacs_goes_on_with_the_copy_in_the_same_output() {
    if !has_gromacs() {
        return;
    }
    let volume = Volume::new("PATH=${PATH#*:} exec gmx \"$@\"");
    let (file, folder) = (volume.0.join("water.tpr"), volume.0.join("gromacs-1"));
    let uuid = Path::new(UUID);
    let good = |script: &str, arguments: &[&Path]| {
        let output = volume.run(script, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let sizes = ["2", "2", "2", "100"].map(Path::new);
    good(WATER_SCRIPT, &[&[file.as_path(), folder.as_path()], sizes.as_slice()].concat());
    good(INSPECT_SCRIPT, &[&file, &folder, uuid]);
    let mdrun = |input: &Path| {
        let arguments = "-quiet mdrun -cpi state.cpt -cpo state.cpt -cpt 9 -ntmpi 1 -ntomp 1 -nb cpu -v -s";
        let output = Command::new("gmx")
            .args(arguments.split(' '))
            .arg(input)
            .current_dir(&folder)
            .output()
            .expect("should run gmx");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        told
    };
    mdrun(&file);
    let step = || {
        good(VERIFY_SCRIPT, &[&folder.join("state.cpt")]);
        parse_verification(&volume.message()).expect("should be a step").step
    };
    assert_eq!(step(), 100);
    good(INSPECT_SCRIPT, &[&file, &folder, uuid, Path::new("250")]);
    let inspection = parse_inspection(&volume.message()).expect("should be read");
    assert_eq!(inspection.system.nsteps, Some(250));
    let told = mdrun(&folder.join("extended.tpr"));
    let facts = gromacs_submitter::mdrun_log::parse(&told);
    assert_eq!((facts.first_step, step()), (Some(100), 250), "{told}");
    let log = std::fs::read_to_string(folder.join("md.log")).expect("should be a log");
    assert!(log.contains("Restarting from checkpoint, appending to previous log file."), "{log}");
    let energies = Command::new("gmx")
        .args(["-quiet", "dump", "-e", "ener.edr"])
        .current_dir(&folder)
        .output()
        .expect("should run gmx");
    let energies = String::from_utf8_lossy(&energies.stdout).into_owned();
    let steps: Vec<&str> =
        energies.lines().filter_map(|line| line.split_once("step:")?.1.split_whitespace().next()).collect();
    // GROMACS takes the frame of the former end back, since it is no multiple of nstenergy.
    assert_eq!(steps, ["0", "250"]);
}

#[test]
fn a_user_who_may_not_write_beside_the_file_is_named() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;

    let volume = Volume::new(&extending());
    let file = volume.file("a.tpr");
    let mode = |mode| {
        std::fs::set_permissions(&volume.0, std::fs::Permissions::from_mode(mode)).expect("should be set");
    };
    mode(0o555);
    let mut command = Command::new("sh");
    command.args(["-c", INSPECT_SCRIPT, "probe"]).args([&file, &volume.0.join("gromacs-1")]);
    let mut user = file.metadata().expect("should be a file").uid();
    if user == 0 {
        // Root may write everywhere.
        user = 65534;
        command.uid(user).gid(user);
    }
    let output = command.output().expect("should run sh");
    mode(0o755);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{words}");
    let last = format!("user {user} cannot write to {}", volume.0.display());
    assert_eq!(words.lines().last(), Some(last.as_str()), "{words}");
}

#[test]
fn files_that_mdrun_reads_must_be_there() {
    let volume = Volume::new(&extending());
    let (file, folder) = (volume.file("a.tpr"), volume.0.join("gromacs-1"));
    let nothing = Path::new("-");
    let uuid = Path::new(UUID);
    let (there, missing) = (volume.file("plumed.dat"), volume.0.join("table b.xvg"));
    let inspect = |files: &[&Path]| {
        let output =
            volume.run(INSPECT_SCRIPT, &[&[&file, &folder, uuid, nothing, nothing, nothing], files].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(inspect(&[&there]), (Some(0), String::new()));
    let (code, words) = inspect(&[&there, &missing]);
    assert_eq!(code, Some(4));
    assert!(words.contains("there is no file") && words.contains("table b.xvg"), "{words}");
}
