//! A file system without locks: GROMACS itself and the inspection's script meet one that is mounted for the test. What
//! follows decides the state machine, with the arguments that a row gets.

mod file_system;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::fixtures::{manifest_settings, terms};
use crate::manifest::simulation_job;
use crate::mdrun_log::LogFacts;
use crate::probe::{INSPECT_SCRIPT, VERIFY_SCRIPT, WATER_SCRIPT, parse_inspection, parse_verification};

#[path = "../../../../tests/volume/mod.rs"]
mod volume;

use file_system::{FileSystem, Refuses};
use volume::{Volume, has_gromacs};

/// Some seconds on one core: long enough to be interrupted.
const STEPS: i64 = 1500;

/// A volume without locks, with a box of water on it.
struct NoLocks {
    file_system: FileSystem,
    /// What belongs to the pods beside it.
    volume: Volume,
}

impl NoLocks {
    /// None where GROMACS or FUSE is missing.
    fn new(refuses: Refuses) -> Option<Self> {
        if !has_gromacs() {
            return None;
        }
        let file_system = FileSystem::new(refuses)?;
        let this = Self { file_system, volume: Volume::new("PATH=${PATH#*:} exec gmx \"$@\"") };
        let steps = STEPS.to_string();
        let sizes = ["2", "2", "2", &steps].map(Path::new);
        std::fs::create_dir_all(this.root().join("water")).expect("should make a folder");
        this.script(
            WATER_SCRIPT,
            &[&[this.file().as_path(), this.folder().as_path()], sizes.as_slice()].concat(),
        );
        Some(this)
    }

    fn root(&self) -> &Path {
        self.file_system.path()
    }

    fn file(&self) -> PathBuf {
        self.root().join("water/topol.tpr")
    }

    /// The folder of row 7.
    fn folder(&self) -> PathBuf {
        self.root().join("water/gromacs-7")
    }

    /// Runs a probe's script there, and returns what it says.
    fn script(&self, script: &str, arguments: &[&Path]) -> String {
        let output = self.volume.run(script, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.volume.message()
    }

    fn inspect(&self) -> String {
        self.script(INSPECT_SCRIPT, &[&self.file(), &self.folder(), Path::new(&row().uuid)])
    }

    /// Starts mdrun as the ScavengerJob of the row would, with the smallest configuration.
    fn start(&self, row: &GromacsToTune) -> Child {
        let spec = simulation_job(row, &ladder()[2], &manifest_settings(), &terms()).spec;
        let there = |path: &str| path.replacen("/data", &self.root().to_string_lossy(), 1);
        // What it says of its progress it says often, so that it can be interrupted early.
        let mut arguments: Vec<String> = spec.args.iter().map(|argument| there(argument)).collect();
        let progress =
            arguments.iter().position(|argument| argument == "-stepout").expect("it tells its progress");
        arguments[progress + 1] = "20".to_owned();
        let log = std::fs::File::create(self.volume.0.join("log")).expect("should make a log");
        Command::new(&spec.command[0])
            .args(spec.command[1..].iter().map(|word| word.replace("$$", "$")))
            .args(arguments)
            .current_dir(there(spec.working_dir.as_deref().expect("it has a folder")))
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("should start gmx")
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.volume.0.join("log")).unwrap_or_default()).into_owned()
    }

    /// Runs it to its end.
    fn run(&self, row: &GromacsToTune) -> (bool, LogFacts) {
        let status = self.start(row).wait().expect("should end");
        (status.success(), mdrun_log::parse(&self.log()))
    }

    /// Interrupts it as a cluster does, some steps behind its start, and returns what it said.
    async fn interrupt(&self, row: &GromacsToTune) -> LogFacts {
        let mut mdrun = self.start(row);
        let begun = Instant::now();
        let has_computed = || {
            let facts = mdrun_log::parse(&self.log());
            facts.first_step.zip(facts.last_step).is_some_and(|(first, last)| last >= first + 100)
        };
        while !has_computed() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{}", self.log());
            assert!(mdrun.try_wait().expect("should be asked").is_none(), "it ended: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let killed = Command::new("kill").args(["-TERM", &mdrun.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        mdrun.wait().expect("should end");
        mdrun_log::parse(&self.log())
    }

    /// The step of its checkpoint.
    fn saved(&self) -> i64 {
        self.script(VERIFY_SCRIPT, &[&self.folder().join("state.cpt")]);
        parse_verification(&self.volume.message()).expect("should be a step").step
    }

    /// The logs in its folder, in their order.
    fn logs(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder()).expect("should be a folder");
        let mut logs: Vec<String> = names
            .map(|entry| entry.expect("should be readable").file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".log"))
            .collect();
        logs.sort();
        logs
    }

    /// Each part of the output has its end, at the step of the checkpoint that the next one starts from, and its energies
    /// beside it.
    fn parts_are_whole(&self, parts: &[(&str, i64)]) {
        assert_eq!(self.logs(), parts.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (part, end) in parts {
            let log = std::fs::read_to_string(self.folder().join(part)).expect("should be a log");
            let last = log.rsplit_once("           Step           Time\n").expect("should have steps").1;
            let last: Option<i64> = last.split_whitespace().next().and_then(|step| step.parse().ok());
            assert_eq!(last, Some(*end), "{part}");
            assert!(log.contains("Finished mdrun"), "{part} has no end");
            let energies = part.replace("md.", "ener.").replace(".log", ".edr");
            assert!(self.folder().join(&energies).is_file(), "there is no {energies}");
        }
    }
}

fn on_the_volume() -> GromacsToTune {
    let mut row = submitted();
    row.system.nsteps = Some(STEPS);
    row
}

#[tokio::test]
async fn the_inspection_finds_no_locks_and_the_row_goes_on_in_parts() {
    let Some(there) = NoLocks::new(Refuses::All) else { return };
    let answer = there.inspect();
    assert!(answer.contains("locks=no\n"), "{answer}");
    let inspection = parse_inspection(&answer).expect("should be read");
    assert_eq!(inspection.append, Some(false));
    let mut row = on_the_volume();
    row.append = inspection.append;
    row.inspected = Some(sqlx::types::Json(inspection.values));

    let first = there.interrupt(&row).await;
    assert_eq!(first.first_step, Some(0));
    let one = there.saved();
    assert!(Some(one) >= first.last_step, "{one} are saved of {first:?}");
    let second = there.interrupt(&row).await;
    assert_eq!(second.first_step, Some(one), "{}", there.log());
    let two = there.saved();
    let (is_good, third) = there.run(&row);
    assert!(is_good && third.reached_the_end, "{}", there.log());
    assert_eq!((third.first_step, there.saved()), (Some(two), STEPS));
    there.parts_are_whole(&[("md.part0001.log", one), ("md.part0002.log", two), ("md.part0003.log", STEPS)]);
}

#[tokio::test]
async fn what_the_inspection_cannot_find_mdrun_says_and_the_row_goes_on_in_parts() {
    let Some(there) = NoLocks::new(Refuses::Fcntl) else { return };
    let answer = there.inspect();
    assert!(answer.contains("locks=yes\n"), "{answer}");
    let mut row = on_the_volume();
    let inspection = parse_inspection(&answer).expect("should be read");
    row.append = inspection.append;
    row.inspected = Some(sqlx::types::Json(inspection.values));
    let first = there.interrupt(&row).await;
    assert_eq!((first.first_step, there.logs()), (Some(0), vec!["md.log".to_owned()]));
    let saved = there.saved();
    let (is_good, _) = there.run(&row);
    assert!(!is_good, "it cannot lock md.log: {}", there.log());

    // What the state machine makes of mdrun's words.
    let mut scene = Scene::with_job(row, failed_job(Reason::ContainerFailed)).read(&there.log());
    let step = scene.go();
    assert!(step.stops_appending && step.status.state == State::Queued, "{step:?}");
    assert_eq!(
        reason(&step),
        "mdrun could not start: Failed to lock: md.log. No locks available.; starts again and writes new output files"
    );
    scene.row.append = Some(false);
    let (is_good, second) = there.run(&scene.row);
    assert!(is_good && second.reached_the_end, "{}", there.log());
    assert_eq!((second.first_step, there.saved()), (Some(saved), STEPS));
    there.parts_are_whole(&[("md.log", saved), ("md.part0002.log", STEPS)]);
}
