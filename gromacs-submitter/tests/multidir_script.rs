//! What the scripts of a row of several simulations do, with a `gmx` of the test's and with GROMACS itself.

mod volume;

use std::path::{Path, PathBuf};
use std::process::Output;

use gromacs_submitter::mdrun_log::{error_message, parse};
use gromacs_submitter::multidir::{INSPECT_SCRIPT, OLDEST_CHECKPOINT, RUN_SCRIPT, VERIFY_SCRIPT};
use gromacs_submitter::probe;
use volume::{OTHER_UUID, READ_STEPS_AND_OUTPUT, UUID, Volume, contents, has_gromacs, is_refused};

/// A `gmx` that takes 100 steps, 10 in each 0.3 s, and has a checkpoint after each. `stop-at` in the folder of a simulation
/// holds the step at which it is told to stop, `fail-at` that at which it fails.
const GMX: &str = r#"
if [ "$2" = check ]; then grep -q '^[0-9]' "$4"; exit; fi
if [ "$2" = dump ]; then echo "step = $(cat "$4")"; exit 0; fi
step=0 from=
if [ -s state.cpt ]; then step=$(cat state.cpt) from=" (continuing from step $step,      0.0 ps)"; fi
echo "starting mdrun 'Water'"
echo "100 steps,      0.2 ps$from."
trap 'printf "\n\nReceived the TERM signal, stopping within 10 steps\n"; echo "$step" >state.cpt; exit 1' TERM
while [ "$step" -lt 100 ]; do
    sleep 0.3
    step=$((step + 10))
    printf '\rstep %s, remaining wall clock time:     %s s          ' "$step" "$((100 - step))"
    echo "$step" >state.new && mv state.new state.cpt
    echo "Writing checkpoint, step $step at Wed Nov 25 04:51:36 2026" >>md.log
    if [ "$step" = "$(cat fail-at 2>/dev/null)" ]; then printf '\n\nFatal error:\nToo many LINCS warnings\n\n'; exit 1; fi
    if [ "$step" = "$(cat stop-at 2>/dev/null)" ]; then rm stop-at; kill -TERM $$; fi
done
printf '\nWriting final coordinates.\n\n       Time:       12.3        6.2      200.0\nPerformance:   %s     0.8\n' "$(cat speed)"
"#;

fn row(gmx: &str, names: &[&str]) -> (Volume, PathBuf) {
    let volume = Volume::new(gmx);
    let work = volume.0.join("ens/gromacs-7");
    for (name, number) in names.iter().zip(1..) {
        let (input, folder) = (volume.0.join("ens").join(name), work.join(name));
        for folder in [&input, &folder] {
            std::fs::create_dir_all(folder).expect("should make a folder");
        }
        std::fs::write(input.join("topol.tpr"), "x").expect("should write");
        std::fs::write(folder.join("speed"), format!("{number}0.5")).expect("should write");
    }
    (volume, work)
}

fn write(work: &Path, file: &str, text: &str) {
    std::fs::write(work.join(file), text).expect("should write");
}

fn run(volume: &Volume, work: &Path, names: &[&str], mdrun: &[&str]) -> (Option<i32>, String) {
    run_to("100", &volume.0.join("ens"), "topol.tpr", volume, work, names, mdrun)
}

/// With run inputs of that name in that folder, up to a last step.
fn run_to(
    end: &str,
    inputs: &Path,
    file: &str,
    volume: &Volume,
    work: &Path,
    names: &[&str],
    mdrun: &[&str],
) -> (Option<i32>, String) {
    let count = names.len().to_string();
    let arguments = [file, end, "1", "0", "0", &count];
    let words = arguments.iter().chain(names).chain(mdrun).map(Path::new);
    let arguments: Vec<&Path> = [work, inputs].into_iter().chain(words).collect();
    let output = volume.run(RUN_SCRIPT, &arguments);
    (output.status.code(), said(&output))
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

const NAMES: [&str; 3] = ["sim0", "a b/$(id)", "-x"];

#[test]
fn all_are_computed_and_the_slowest_tells_the_speed() {
    let (volume, work) = row(GMX, &NAMES);
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!(code, Some(0), "{text}");
    let facts = parse(&text);
    assert_eq!(
        (facts.first_step, facts.last_step, facts.reached_the_end),
        (Some(0), Some(100), true),
        "{text}"
    );
    assert_eq!((facts.ns_per_day, facts.wall_seconds), (Some(10.5), Some(6.2)), "{text}");
    assert!(text.contains("together: 61.5 ns/day"), "{text}");
    // Nothing is left to do.
    write(&work, "sim0/state.cpt", "7");
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!((code, parse(&text).reached_the_end), (Some(0), true), "{text}");
    assert_eq!(std::fs::read_to_string(work.join("sim0/state.cpt")).expect("should be there"), "7");
}

#[test]
fn the_least_advanced_one_says_where_the_row_goes_on() {
    let (volume, work) = row(GMX, &NAMES);
    write(&work, "sim0/state.cpt", "60");
    write(&work, "-x/state.cpt", "40");
    write(&work, "a b/$(id)/.done", "100\n");
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    let facts = parse(&text);
    assert_eq!((code, facts.first_step, facts.last_step), (Some(0), Some(40), Some(100)), "{text}");
    assert!(!work.join("a b/$(id)/mdrun.out").exists(), "it is complete");
}

#[test]
fn what_is_interrupted_ends_with_the_oldest_checkpoint() {
    let (volume, work) = row(GMX, &NAMES);
    for (name, step) in NAMES.iter().zip(["30", "50", "40"]) {
        write(&work, &format!("{name}/stop-at"), step);
    }
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    let facts = parse(&text);
    assert_eq!((code, facts.reached_the_end, facts.last_step), (Some(1), false, Some(30)), "{text}");
    let time = |file: &str| {
        std::fs::metadata(work.join(file)).and_then(|found| found.modified()).expect("should be there")
    };
    assert_eq!(time(OLDEST_CHECKPOINT), time("sim0/state.cpt"));
    assert!(time(OLDEST_CHECKPOINT) < time("a b/$(id)/state.cpt"));
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!((code, parse(&text).first_step), (Some(0), Some(30)), "{text}");
}

#[test]
fn one_that_fails_stops_the_others_and_is_named() {
    let (volume, work) = row(GMX, &NAMES);
    write(&work, "a b/$(id)/fail-at", "20");
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(error_message(&text).as_deref(), Some("Too many LINCS warnings"), "{text}");
    assert!(text.ends_with("simulation a b/$(id) ended with exit code 1\n"), "{text}");
    let out = std::fs::read_to_string(work.join("-x/mdrun.out")).expect("should be there");
    assert!(out.contains("Received the TERM signal"), "it has saved what it computed: {out}");
}

#[test]
fn a_checkpoint_that_is_missing_or_older_is_not_gone_on_from() {
    let log = "Writing checkpoint, step 30 at W\nWriting checkpoint, step 60 at W\n";
    for (checkpoint, words) in [(None, "missing"), (Some("20"), "at step 20")] {
        let (volume, work) = row(GMX, &NAMES);
        write(&work, "-x/md.log", log);
        if let Some(step) = checkpoint {
            write(&work, "-x/state.cpt", step);
        }
        let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
        let said = format!("-x: state.cpt is {words}, but a checkpoint had reached step 30");
        assert_eq!((code, error_message(&text)), (Some(12), Some(said)), "{text}");
        assert!(!work.join("sim0/mdrun.out").exists(), "nothing was started");
        // The last one that the log names may not have been written.
        write(&work, "-x/state.cpt", "30");
        assert_eq!(run(&volume, &work, &NAMES, &["gmx", "mdrun"]).0, Some(0));
    }
}

/// As a node that lost power leaves them: each goes on from its own, and they need not be at the same step.
#[test]
fn checkpoints_that_are_damaged_are_replaced_by_the_ones_before() {
    let (volume, work) = row(GMX, &NAMES);
    for (name, state, before) in [
        (NAMES[0], Some("damaged"), Some("30")),
        (NAMES[1], Some("60"), Some("50")),
        (NAMES[2], None, Some("40")),
    ] {
        for (file, text) in [("state.cpt", state), ("state_prev.cpt", before)] {
            if let Some(text) = text {
                write(&work, &format!("{name}/{file}"), text);
            }
        }
        let reached = if name == NAMES[0] { 90 } else { 60 };
        write(
            &work,
            &format!("{name}/md.log"),
            &format!("Writing checkpoint, step {reached} at W\nFinished mdrun on rank 0\n"),
        );
        write(&work, &format!("{name}/stop-at"), "70");
    }
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    let facts = parse(&text);
    assert_eq!((code, facts.first_step), (Some(1), Some(30)), "{text}");
    let damaged = "goes on from state_prev.cpt at step 30: state.cpt is damaged, and kept as state_damaged1.cpt; 60 steps are \
                   computed again";
    let missing = "goes on from state_prev.cpt at step 40: state.cpt is missing; 20 steps are computed again";
    assert_eq!(facts.restored, [format!("sim0: {damaged}"), format!("-x: {missing}")], "{text}");
    assert!(work.join("sim0/state_damaged1.cpt").exists() && !work.join("-x/state_damaged1.cpt").exists());
    // mdrun writes over its log from where the checkpoint was: what is left of it behind is no sign of a checkpoint.
    let left = "Writing checkpoint, step 90 at W\nFinished mdrun on rank 0\n";
    write(
        &work,
        "sim0/md.log",
        &format!("Writing checkpoint, step 70 at W\nFinished mdrun on rank 0\n{left}"),
    );
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!((code, parse(&text).first_step), (Some(0), Some(70)), "{text}");
}

#[test]
fn a_checkpoint_that_is_damaged_and_the_only_one_is_named() {
    let (volume, work) = row(GMX, &NAMES);
    write(&work, "-x/state.cpt", "damaged");
    write(&work, "-x/md.log", "Writing checkpoint, step 60 at W\nFinished mdrun on rank 0\n");
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    let words = "-x: state.cpt is damaged, but a checkpoint had reached step 60";
    assert_eq!((code, error_message(&text).as_deref()), (Some(12), Some(words)), "{text}");
    // The advice: what that simulation wrote is moved out of its folder.
    let folder = work.join("-x");
    std::fs::rename(&folder, volume.0.join("away")).expect("should move");
    std::fs::create_dir(&folder).expect("should make a folder");
    write(&work, "-x/speed", "1");
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!((code, parse(&text).first_step), (Some(0), Some(0)), "{text}");
}

/// The supervisor brings SIGTERM to what a shell runs, and to leaves.
#[test]
fn sigterm_while_a_checkpoint_is_read_says_nothing_of_it() {
    let (volume, work) = row("if [ \"$2\" = check ]; then kill -TERM $$; fi", &NAMES);
    for (file, text) in [("sim0/state.cpt", "90"), ("sim0/state_prev.cpt", "30")] {
        write(&work, file, text);
    }
    let (code, text) = run(&volume, &work, &NAMES, &["gmx", "mdrun"]);
    assert_eq!((code, parse(&text).restored.len()), (Some(143), 0), "{text}");
    let kept = contents(&work.join("sim0"));
    assert!(kept["state.cpt"] == "90" && !kept.contains_key("state_damaged1.cpt"), "{kept:?}");
}

/// Each mdrun has GPUs of its own, or several have one.
#[test]
fn gpus_are_divided() {
    let gmx =
        r#"for word; do if [ "$before" = -gpu_id ]; then echo "$word" >gpu; fi; before=$word; done; exit 3"#;
    for (gpus, each, expected) in
        [("1", "1", ["", "", "", ""]), ("2", "1", ["0", "0", "1", "1"]), ("8", "2", ["01", "23", "45", "67"])]
    {
        let names = ["s0", "s1", "s2", "s3"];
        let (volume, work) = row(gmx, &names);
        let inputs = volume.0.join("ens");
        let words = ["topol.tpr", "100", "1", gpus, each, "4", "s0", "s1", "s2", "s3", "gmx", "mdrun"];
        let arguments: Vec<&Path> =
            [work.as_path(), inputs.as_path()].into_iter().chain(words.iter().map(Path::new)).collect();
        volume.run(RUN_SCRIPT, &arguments);
        let found = names.map(|name| {
            std::fs::read_to_string(work.join(name).join("gpu")).unwrap_or_default().trim().to_owned()
        });
        assert_eq!(found, expected, "{gpus} GPUs");
    }
}

#[test]
fn simulations_of_other_lengths_are_refused() {
    let dump = format!("{}/tests/fixtures/dump-peptide.txt", env!("CARGO_MANIFEST_DIR"));
    let gmx = format!(
        "case \"$*\" in *--version*) echo 'GROMACS version:    2022.5' ;; *longer*) sed 's/^   nsteps .*/   nsteps = 77/' '{dump}' ;; *) cat '{dump}' ;; esac"
    );
    let (volume, work) = row(&gmx, &["sim0", "sim1", "longer"]);
    let (script, file) = (Path::new(probe::INSPECT_SCRIPT), volume.0.join("ens/topol.tpr"));
    let inspect = |words: &[&str]| {
        let none = Path::new("-");
        let head = [script, &file, &work, Path::new(UUID), none, none, none];
        let arguments: Vec<&Path> = head.into_iter().chain(words.iter().map(Path::new)).collect();
        let output = volume.run(INSPECT_SCRIPT, &arguments);
        (output.status.code(), said(&output))
    };
    let (code, text) = inspect(&["2", "sim0", "sim1"]);
    assert_eq!(code, Some(0), "{text}");
    let before = probe::parse_inspection(&volume.message()).expect("should be read");
    assert_eq!(before.system.nsteps, Some(1000));
    assert!(volume.message().len() < 1000 && work.join("sim1/.row").exists());
    assert_eq!(contents(&work)[".row"], format!("{UUID}\n"), "what the simulations share is the row's, too");
    let (code, text) = inspect(&["3", "sim0", "sim1", "longer"]);
    assert_eq!(code, Some(10), "{text}");
    assert!(text.contains("longer has nsteps 77, and sim0 has 1000"), "{text}");
    let (code, text) = inspect(&["2", "sim0", "none"]);
    assert!(
        code == Some(4) && text.contains("there is no file") && text.contains("none/topol.tpr"),
        "{text}"
    );
    let (code, text) = inspect(&["2", "sim0", "sim1", "/nowhere.dat"]);
    assert!(code == Some(4) && text.contains("there is no file /nowhere.dat"), "{text}");
    // Any of the files that changes is seen.
    std::fs::write(volume.0.join("ens/sim1/topol.tpr"), "y").expect("should write");
    assert_eq!(inspect(&["2", "sim0", "sim1"]).0, Some(0));
    let after = probe::parse_inspection(&volume.message()).expect("should be read");
    assert_eq!(probe::change(&before.values, &after.values), probe::Change::Other(Vec::new()));
}

/// Whichever of its folders it is that another row of the same number has made.
#[test]
fn the_folders_of_another_row_are_left_alone() {
    let dump = format!("cat '{}/tests/fixtures/dump-peptide.txt'", env!("CARGO_MANIFEST_DIR"));
    for marked in ["", "sim1"] {
        let (volume, work) = row(&dump, &["sim0", "sim1"]);
        let folder = if marked.is_empty() { work.clone() } else { work.join(marked) };
        std::fs::write(folder.join(".row"), format!("{OTHER_UUID}\n")).expect("should write");
        let before = contents(&folder);
        let none = Path::new("-");
        let file = volume.0.join("ens/topol.tpr");
        let head = [Path::new(probe::INSPECT_SCRIPT), &file, &work, Path::new(UUID), none, none, none];
        let arguments: Vec<&Path> = head.into_iter().chain(["2", "sim0", "sim1"].map(Path::new)).collect();
        is_refused(&volume.run(INSPECT_SCRIPT, &arguments), &folder);
        assert_eq!(contents(&folder), before, "{marked}");
        assert_eq!(volume.message(), "");
    }
}

/// Name of the copies that the last inspection made.
fn copies(volume: &Volume) -> Option<String> {
    probe::parse_inspection(&volume.message()).ok()?.values.remove("run-input")
}

/// What a row of several does when it is extended: the inspection makes a copy of each file with more steps, from which the
/// script goes on.
fn extend(volume: &Volume, work: &Path, names: &[&str], steps: &str) -> (Option<i32>, String) {
    let script = Path::new(probe::INSPECT_SCRIPT);
    let (file, count) = (volume.0.join("ens/topol.tpr"), names.len().to_string());
    let kept = copies(volume).unwrap_or_else(|| "-".to_owned());
    let head = [
        script,
        &file,
        work,
        Path::new(UUID),
        Path::new(steps),
        Path::new("-"),
        Path::new(&kept),
        Path::new(&count),
    ];
    let arguments: Vec<&Path> = head.into_iter().chain(names.iter().map(Path::new)).collect();
    let output = volume.run(INSPECT_SCRIPT, &arguments);
    (output.status.code(), said(&output))
}

#[test]
fn all_are_extended_and_none_begins_again() {
    // A file holds its number of steps.
    let dump = format!("{}/tests/fixtures/dump-peptide.txt", env!("CARGO_MANIFEST_DIR"));
    let mdrun = GMX
        .replace("-lt 100", "-lt $end")
        .replace("100 steps", "$end steps")
        .replace("100 - step", "end - step")
        .replace("step=0 from=", "for last; do :; done; end=$(cat \"$last\"); step=0 from=");
    let gmx = format!(
        "case \"$*\" in
        *'convert-tpr '*)
            {READ_STEPS_AND_OUTPUT}
            echo \"$nsteps\" >\"$output\"; exit ;;
        *--version*) echo 'GROMACS version:    2022.5'; exit ;;
        *'dump -s '*) sed \"s/^   nsteps .*/   nsteps = $(cat \"$4\")/\" '{dump}'; exit ;;
        esac
        {mdrun}"
    );
    let (volume, work) = row(&gmx, &NAMES);
    let set = |steps: &str| {
        for name in NAMES {
            std::fs::write(volume.0.join("ens").join(name).join("topol.tpr"), steps).expect("should write");
        }
    };
    set("50");
    assert_eq!(extend(&volume, &work, &NAMES, "-").0, Some(0), "first it is read as it is");
    let all = ["gmx", "mdrun"];
    let (code, text) = run_to("50", &volume.0.join("ens"), "topol.tpr", &volume, &work, &NAMES, &all);
    assert_eq!((code, parse(&text).reached_the_end), (Some(0), true), "{text}");

    // Twice: it may be interrupted, and the row may be tried again.
    for _ in 0..2 {
        let (code, text) = extend(&volume, &work, &NAMES, "100");
        assert_eq!(code, Some(0), "{text}");
        let found = probe::parse_inspection(&volume.message()).expect("should be read");
        assert_eq!(found.system.nsteps, Some(100));
    }
    let (code, text) = run_to("100", &work, "extended.tpr", &volume, &work, &NAMES, &all);
    let facts = parse(&text);
    assert_eq!(
        (code, facts.first_step, facts.last_step, facts.reached_the_end),
        (Some(0), Some(50), Some(100), true),
        "{text}"
    );
    for name in NAMES {
        let out = std::fs::read_to_string(work.join(name).join("mdrun.out")).expect("should be there");
        assert!(out.contains("100 steps,") && out.contains("continuing from step 50,"), "{name}: {out}");
        let user = std::fs::read_to_string(volume.0.join("ens").join(name).join("topol.tpr"));
        assert_eq!(user.expect("should be there"), "50", "the user's file stays");
    }

    // The checkpoint before is one, too.
    std::fs::rename(work.join("-x/state.cpt"), work.join("-x/state_prev.cpt")).expect("should rename");
    assert_eq!(extend(&volume, &work, &NAMES, "150").0, Some(0));
    // All of them, or none.
    std::fs::remove_file(work.join("-x/state_prev.cpt")).expect("should remove");
    let (code, text) = extend(&volume, &work, &NAMES, "150");
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("there is no checkpoint") && text.contains("/-x/state.cpt"), "{text}");
}

/// GROMACS itself, where it is installed: two boxes of water are computed, extended, and computed to their new end.
#[test]
fn gromacs_goes_on_with_several_in_the_same_output() {
    if !has_gromacs() {
        return;
    }
    let names = ["sim0", "a b"];
    let (volume, work) = row("PATH=${PATH#*:} exec gmx \"$@\"", &names);
    water(&volume, &names);
    let (code, text) = extend(&volume, &work, &names, "-");
    assert_eq!(code, Some(0), "first they are read as they are: {text}");
    // What becomes of the user's files does not matter from now on.
    for name in names {
        std::fs::remove_file(volume.0.join("ens").join(name).join("topol.tpr")).expect("should remove");
    }
    let copies = copies(&volume).expect("should have made copies");
    let mdrun = "gmx mdrun -cpi state.cpt -cpo state.cpt -cpt 9 -ntmpi 1 -ntomp 1 -nb cpu -v -stepout 10";
    let mdrun: Vec<&str> = mdrun.split(' ').collect();
    let (code, text) = run_to("100", &work, &copies, &volume, &work, &names, &mdrun);
    assert_eq!((code, parse(&text).reached_the_end), (Some(0), true), "{text}");
    let (code, text) = extend(&volume, &work, &names, "250");
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(probe::parse_inspection(&volume.message()).map(|found| found.system.nsteps), Ok(Some(250)));
    let (code, text) = run_to("250", &work, "extended.tpr", &volume, &work, &names, &mdrun);
    let facts = parse(&text);
    assert_eq!((code, facts.first_step, facts.last_step), (Some(0), Some(100), Some(250)), "{text}");
    for name in names {
        let log = std::fs::read_to_string(work.join(name).join("md.log")).expect("should be a log");
        assert!(log.contains("Restarting from checkpoint, appending to previous log file."), "{name}: {log}");
        assert!(!work.join(name).join("#md.log.1#").exists(), "{name} did not begin again");
    }
}

/// A box of water in the folder of each.
fn water(volume: &Volume, names: &[&str]) {
    let made = volume.0.join("water.tpr");
    let sizes = ["2", "2", "2", "100"].map(Path::new);
    let scratch = volume.0.join("scratch");
    let water =
        volume.run(probe::WATER_SCRIPT, &[&[made.as_path(), scratch.as_path()], sizes.as_slice()].concat());
    assert!(water.status.success(), "{}", said(&water));
    for name in names {
        std::fs::copy(&made, volume.0.join("ens").join(name).join("topol.tpr")).expect("should copy");
    }
}

/// GROMACS itself, where it is installed: two boxes of water, and the second one is ahead.
#[test]
fn gromacs_computes_several_and_the_least_advanced_is_read() {
    if !has_gromacs() {
        return;
    }
    let names = ["sim0", "sim1"];
    let (volume, work) = row("PATH=${PATH#*:} exec gmx \"$@\"", &names);
    water(&volume, &names);
    let mdrun = "gmx mdrun -cpi state.cpt -cpo state.cpt -cpt 9 -ntmpi 1 -ntomp 1 -nb cpu -v -stepout 10";
    let mdrun: Vec<&str> = mdrun.split(' ').collect();
    let (code, text) = run(&volume, &work, &names, &mdrun);
    let facts = parse(&text);
    assert_eq!((code, facts.reached_the_end, facts.last_step), (Some(0), true, Some(100)), "{text}");
    assert!(facts.ns_per_day.is_some() && facts.wall_seconds.is_some(), "{text}");
    let read = || {
        let script = Path::new(probe::VERIFY_SCRIPT);
        let output = volume.run(VERIFY_SCRIPT, &[script, &work, Path::new("sim0"), Path::new("sim1")]);
        (output.status.code(), said(&output))
    };
    assert_eq!(read().0, Some(0));
    let found = probe::parse_verification(&volume.message()).expect("should be an answer");
    assert_eq!((found.step, found.speed.map(|(speed, _)| speed)), (100, facts.ns_per_day));
    std::fs::rename(work.join("sim1/state.cpt"), work.join("sim1/state_prev.cpt")).expect("should rename");
    assert_eq!(read().0, Some(0));
    let found = probe::parse_verification(&volume.message()).expect("should be an answer");
    assert_eq!((found.step, found.is_backup), (100, true));
    std::fs::remove_file(work.join("sim1/state_prev.cpt")).expect("should remove");
    let (code, text) = read();
    assert!(code == Some(4) && text.contains("there is no checkpoint"), "{text}");
}
