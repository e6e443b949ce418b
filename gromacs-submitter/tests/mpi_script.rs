//! What the script does that runs one mdrun of a build for library MPI, with a `gmx` of the test's.

mod volume;

use std::path::{Path, PathBuf};

use gromacs_submitter::mdrun_log::{error_message, parse};
use gromacs_submitter::multidir::OLDEST_CHECKPOINT;
use gromacs_submitter::multidir::mpi::MPI_SCRIPT;
use volume::{Volume, contents};

/// A `gmx` whose checkpoints hold the part of the run and the step. As mdrun it goes on in all folders from the step of the first
/// one's, to step 100 or that of `stop-at`; `left-out` names a folder that it does not complete.
const GMX: &str = r#"
if [ "$2" = check ]; then grep -q '^[0-9]' "$4"; exit; fi
if [ "$2" = dump ]; then read -r part step <"$4"; printf 'simulation part # = %s\nstep = %s\n' "$part" "$step"; exit 0; fi
shift
step=0 from=
if [ -s "$1/state.cpt" ]; then read -r _ step <"$1/state.cpt"; from=" (continuing from step $step,      0.0 ps)"; fi
for folder; do printf "starting mdrun 'Water'\n100 steps,      0.2 ps$from.\n"; done
if [ -e fail ]; then printf '\n\nFatal error:\nThe subsystems are not compatible\n\n'; exit 1; fi
sleep 1.1
printf '\rstep 50, remaining wall clock time:     1 s          \rstep 100, remaining wall clock time:     0 s          '
for folder; do
    echo "1 100" >"$folder/state.cpt"
    if [ -e stop ]; then printf '\n\nReceived the TERM signal, stopping within 400 steps\n'; continue; fi
    printf '       Time:       12.3        6.2      200.0\nPerformance:   %s     0.8\n' "$(cat "$folder/speed")" >>"$folder/md.log"
    if [ "$folder" != "$(cat left-out 2>/dev/null)" ]; then printf '\nWriting final coordinates.\n'; echo >"$folder/confout.gro"; fi
done
if [ -e stop ]; then exit 1; fi
"#;

const NAMES: [&str; 2] = ["sim0", "a b/$(id)"];

fn row() -> (Volume, PathBuf) {
    let volume = Volume::new(GMX);
    let work = volume.0.join("gromacs-7");
    for (name, speed) in NAMES.into_iter().zip(["20.5", "10.5"]) {
        std::fs::create_dir_all(work.join(name)).expect("should make a folder");
        std::fs::write(work.join(name).join("speed"), speed).expect("should write");
    }
    (volume, work)
}

/// What the script says and how it ends, with so many steps between exchanges.
fn run(volume: &Volume, work: &Path, exchange: &str) -> (Option<i32>, String) {
    let launcher = ["sh", "-c", r#": >"$RANKS/$$"; exec "$@""#, "rank", "gmx", "mdrun"];
    let words = ["100", "1", exchange, "2"].into_iter().chain(NAMES).chain(launcher).chain(NAMES);
    let arguments: Vec<&Path> = [work].into_iter().chain(words.map(Path::new)).collect();
    let output = volume.run(MPI_SCRIPT, &arguments);
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output.status.code(), said.concat())
}

#[test]
fn the_slowest_tells_the_speed_and_the_oldest_checkpoint_is_marked() {
    let (volume, work) = row();
    let (code, text) = run(&volume, &work, "0");
    let facts = parse(&text);
    assert_eq!(
        (code, facts.first_step, facts.last_step, facts.reached_the_end),
        (Some(0), Some(0), Some(100), true),
        "{text}"
    );
    assert_eq!((facts.ns_per_day, facts.wall_seconds), (Some(10.5), Some(6.2)), "{text}");
    let time = |file: &str| {
        work.join(file).metadata().expect("should be there").modified().expect("should have a time")
    };
    assert_eq!(time(OLDEST_CHECKPOINT), time("sim0/state.cpt"), "it wrote first");
}

/// The checkpoints of the two simulations, `state.cpt` and the one before, and what becomes of them.
struct Case {
    exchange: &'static str,
    checkpoints: [[Option<&'static str>; 2]; 2],
    expected: Result<i64, &'static str>,
    ahead: Option<(&'static str, &'static str)>,
}

#[test]
fn mdrun_starts_from_checkpoints_that_belong_together() {
    let both = |state, before| [Some(state), Some(before)];
    let cases = [
        // After an exchange one wrote at the next step, the other at the next pair search.
        Case {
            exchange: "20",
            checkpoints: [both("1 50", "1 30"), both("1 41", "1 21")],
            expected: Ok(41),
            ahead: None,
        },
        // The pod ended while the new ones got their names.
        Case {
            exchange: "20",
            checkpoints: [both("1 61", "1 41"), both("1 50", "1 21")],
            expected: Ok(41),
            ahead: Some(("sim0", "1 61")),
        },
        Case {
            exchange: "20",
            checkpoints: [both("1 41", "1 21"), both("1 70", "1 60")],
            expected: Ok(41),
            ahead: Some(("a b/$(id)", "1 70")),
        },
        // The state at step 40 is that before the exchange.
        Case {
            exchange: "20",
            checkpoints: [both("1 40", "1 21"), both("1 41", "1 40")],
            expected: Ok(40),
            ahead: Some(("a b/$(id)", "1 41")),
        },
        // Without exchanges each goes on from its own, in the same part of the run.
        Case {
            exchange: "0",
            checkpoints: [both("1 90", "1 80"), both("1 10", "1 5")],
            expected: Ok(10),
            ahead: None,
        },
        Case {
            exchange: "0",
            checkpoints: [both("2 50", "1 45"), both("1 43", "1 30")],
            expected: Ok(43),
            ahead: Some(("sim0", "2 50")),
        },
        // The one that is damaged has one before, and the other one, too.
        Case {
            exchange: "20",
            checkpoints: [both("damaged", "1 41"), both("1 70", "1 50")],
            expected: Ok(41),
            ahead: Some(("a b/$(id)", "1 70")),
        },
        // It was the first checkpoint of all.
        Case {
            exchange: "20",
            checkpoints: [[Some("1 21"), None], [None, None]],
            expected: Ok(0),
            ahead: Some(("sim0", "1 21")),
        },
        Case {
            exchange: "20",
            checkpoints: [both("1 90", "1 70"), both("1 41", "1 21")],
            expected: Err(
                "sim0: no checkpoint belongs to those of the other simulations: state.cpt is at step 90, state_prev.cpt at \
                 step 70, and the least advanced simulation is at step 41",
            ),
            ahead: None,
        },
    ];
    for Case { exchange, checkpoints, expected, ahead } in cases {
        let (volume, work) = row();
        for (name, files) in NAMES.iter().zip(checkpoints) {
            for (file, text) in ["state.cpt", "state_prev.cpt"].into_iter().zip(files) {
                if let Some(text) = text {
                    std::fs::write(work.join(name).join(file), format!("{text}\n")).expect("should write");
                }
            }
        }
        let (code, text) = run(&volume, &work, exchange);
        match expected {
            Ok(step) => {
                assert_eq!((code, parse(&text).first_step), (Some(0), Some(step)), "{checkpoints:?}: {text}");
            }
            Err(words) => {
                assert_eq!((code, error_message(&text).as_deref()), (Some(12), Some(words)), "{text}");
            }
        }
        let kept = NAMES.map(|name| contents(&work.join(name)).remove("state_ahead.cpt"));
        let wanted =
            NAMES.map(|name| ahead.filter(|(of, _)| *of == name).map(|(_, text)| format!("{text}\n")));
        assert_eq!(kept, wanted, "{checkpoints:?}: {text}");
        let is_said =
            parse(&text).restored.iter().any(|line| line.contains("was ahead of other simulations"));
        assert_eq!(is_said, ahead.is_some() && expected != Ok(0), "{checkpoints:?}: {text}");
    }
}

#[test]
fn an_end_that_is_none_of_all_is_said() {
    let (volume, work) = row();
    std::fs::write(work.join("left-out"), "sim0").expect("should write");
    let (code, text) = run(&volume, &work, "0");
    let words = "sim0: mdrun ended before step 100 without an error, and other simulations are complete";
    assert_eq!((code, error_message(&text).as_deref()), (Some(12), Some(words)), "{text}");

    std::fs::write(work.join("fail"), "").expect("should write");
    let (code, text) = run(&volume, &work, "0");
    let words = "The subsystems are not compatible";
    assert_eq!((code, error_message(&text).as_deref()), (Some(1), Some(words)), "{text}");

    let (volume, work) = row();
    std::fs::write(work.join("stop"), "").expect("should write");
    let (code, text) = run(&volume, &work, "0");
    assert!(code == Some(1) && error_message(&text).is_none() && !parse(&text).reached_the_end, "{text}");
}
