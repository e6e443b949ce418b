//! What the script does that starts mdrun in the folder of a row: GROMACS itself, where it is installed, finds a checkpoint that
//! it can read.

mod volume;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gromacs_submitter::faults::{Meaning, of_gromacs};
use gromacs_submitter::mdrun_log::{error_message, parse};
use gromacs_submitter::probe::{START_SCRIPT, VERIFY_SCRIPT, WATER_SCRIPT, parse_verification};
use volume::{Volume, has_gromacs};

/// A box of water with two checkpoints, at the steps 20 and 30, as an interrupted row has them.
struct Row {
    volume: Volume,
    options: &'static [&'static str],
}

impl Row {
    /// None where GROMACS is missing.
    fn new(options: &'static [&'static str]) -> Option<Self> {
        if !has_gromacs() {
            return None;
        }
        let this = Self { volume: Volume::new("PATH=${PATH#*:} exec gmx \"$@\""), options };
        let sizes = ["2", "2", "2", "1000"].map(Path::new);
        let made = this.volume.run(
            WATER_SCRIPT,
            &[&[this.input().as_path(), this.folder().as_path()], sizes.as_slice()].concat(),
        );
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(this.start(20), (Some(0), "20 steps from 0".to_owned()));
        assert_eq!(this.start(10), (Some(0), "30 steps from 20".to_owned()));
        Some(this)
    }

    fn folder(&self) -> PathBuf {
        self.volume.0.join("gromacs-7")
    }

    fn input(&self) -> PathBuf {
        self.volume.0.join("water.tpr")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Starts mdrun as the pod of the row does, for so many steps more.
    fn run(&self, steps: u32) -> (Option<i32>, String) {
        let steps = steps.to_string();
        let output = Command::new("sh")
            .args(["-c", START_SCRIPT, "start", "gmx", "mdrun", "-s"])
            .arg(self.input())
            .args(["-cpi", "state.cpt", "-cpo", "state.cpt", "-cpt", "9", "-nsteps", &steps])
            .args(["-ntmpi", "1", "-ntomp", "1", "-nb", "cpu", "-v"])
            .args(self.options)
            .current_dir(self.folder())
            .output()
            .expect("should run sh");
        let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), told.concat())
    }

    /// The same in short: to which step, and from which one.
    fn start(&self, steps: u32) -> (Option<i32>, String) {
        let (code, text) = self.run(steps);
        let Some(first) = parse(&text).first_step else { return (code, text) };
        (code, format!("{} steps from {first}", first + i64::from(steps)))
    }

    /// What the pod that reads the checkpoint says: the step, and whether it is that of the one before.
    fn verified(&self) -> (i64, bool) {
        let output = self.volume.run(VERIFY_SCRIPT, &[&self.file("state.cpt")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found = parse_verification(&self.volume.message()).expect("should be an answer");
        (found.step, found.is_backup)
    }
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).expect("should be readable")
}

fn write(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).expect("should write");
}

fn cut(file: &Path, bytes: usize) {
    let mut left = read(file);
    left.truncate(bytes);
    write(file, &left);
}

#[test]
fn a_damaged_checkpoint_is_kept_and_mdrun_goes_on_from_the_one_before() {
    let Some(row) = Row::new(&[]) else { return };
    let (state, before) = (row.file("state.cpt"), row.file("state_prev.cpt"));
    let (whole, older, log) = (read(&state), read(&before), read(&row.file("md.log")));
    let garbage: Vec<u8> = (0..whole.len()).map(|byte| (byte * 7919 % 251) as u8).collect();
    let mut hole = whole.clone();
    hole[whole.len() / 2..].fill(0);
    let cut_at = |bytes: usize| whole[..bytes].to_vec();
    let last = whole.len();
    let damaged = [0, 1, 4, 100, 900, 9000, last / 2, last - 12, last - 4, last - 1].map(cut_at);
    let damaged = damaged.into_iter().chain([b"hello\n".to_vec(), vec![0; last], garbage, hole]);
    for (bytes, number) in damaged.zip(1..) {
        write(&state, &bytes);
        write(&before, &older);
        // Whatever is left of the file, the log says how far it was.
        write(&row.file("md.log"), &log);
        let (code, text) = row.run(0);
        let facts = parse(&text);
        let kept = row.file(&format!("state_damaged{number}.cpt"));
        assert_eq!((code, facts.first_step), (Some(0), Some(20)), "{number}: {text}");
        assert_eq!(
            facts.restored,
            [format!(
                "goes on from state_prev.cpt at step 20: state.cpt is damaged, and kept as state_damaged{number}.cpt; 10 \
                 steps are computed again"
            )],
            "{text}"
        );
        assert_eq!(read(&kept), bytes);
        let log = std::fs::read_to_string(row.file("md.log")).expect("should be a log");
        assert!(log.contains("Restarting from checkpoint, appending to previous log file."), "{log}");
    }
    // It goes on as if nothing had been.
    assert_eq!(row.start(30), (Some(0), "50 steps from 20".to_owned()));
    assert_eq!(row.start(5), (Some(0), "55 steps from 50".to_owned()));
}

#[test]
fn what_has_the_name_and_is_no_file_is_moved_away_and_what_is_missing_is_replaced() {
    let Some(row) = Row::new(&[]) else { return };
    let state = row.file("state.cpt");
    std::fs::remove_file(&state).expect("should remove");
    assert_eq!(row.verified(), (20, true));
    let (code, text) = row.run(0);
    let facts = parse(&text);
    assert_eq!((code, facts.first_step), (Some(0), Some(20)), "{text}");
    let said = "goes on from state_prev.cpt at step 20: state.cpt is missing; 10 steps are computed again";
    assert_eq!(facts.restored, [said]);

    std::fs::remove_file(&state).expect("should remove");
    std::fs::create_dir(&state).expect("should make a folder");
    assert_eq!(row.verified(), (20, true));
    assert_eq!(row.start(10), (Some(0), "30 steps from 20".to_owned()));
    assert!(row.file("state_damaged1.cpt").is_dir());
    assert_eq!(row.verified(), (30, false));
}

#[test]
fn parts_go_on_from_the_one_before() {
    let Some(row) = Row::new(&["-noappend"]) else { return };
    cut(&row.file("state.cpt"), 0);
    assert_eq!(row.start(40), (Some(0), "60 steps from 20".to_owned()));
    assert!(row.file("md.part0001.log").exists() && row.file("md.part0002.log").exists());
    // What the damaged one had reached binds nobody any more.
    cut(&row.file("state.cpt"), 9000);
    assert_eq!(row.start(1), (Some(0), "21 steps from 20".to_owned()));
    assert_eq!(row.start(1), (Some(0), "22 steps from 21".to_owned()));
}

/// mdrun says what is wrong; what the row advises then is done, to the letter.
#[test]
fn where_both_are_damaged_the_advice_works() {
    let Some(row) = Row::new(&[]) else { return };
    let (state, before) = (row.file("state.cpt"), row.file("state_prev.cpt"));
    let (whole, older) = (read(&state), read(&before));
    for no_backup in [true, false] {
        for bytes in [0, 4, 9000, whole.len() - 1] {
            write(&state, &whole[..bytes]);
            if no_backup {
                let _ = std::fs::remove_file(&before);
            } else {
                write(&before, &older[..older.len() - 1]);
            }
            let (code, text) = row.run(0);
            assert_ne!(code, Some(0), "{text}");
            let words = error_message(&text).expect("should say why");
            assert_eq!(of_gromacs(&words), Meaning::DamagedCheckpoint, "{words}");
            assert_eq!(read(&state), &whole[..bytes], "it stays where it is");
        }
    }
    write(&state, &older);
    assert_eq!(row.start(1), (Some(0), "21 steps from 20".to_owned()));
    cut(&state, 0);
    let away = row.volume.0.join("away");
    std::fs::rename(row.folder(), &away).expect("should move");
    std::fs::create_dir(row.folder()).expect("should make a folder");
    assert_eq!(row.start(1), (Some(0), "1 steps from 0".to_owned()));
}

#[test]
fn mdrun_does_not_begin_again_over_what_it_computed() {
    let Some(row) = Row::new(&[]) else { return };
    let (state, before) = (row.file("state.cpt"), row.file("state_prev.cpt"));
    let whole = read(&state);
    let log = read(&row.file("md.log"));
    std::fs::remove_file(&state).expect("should remove");
    std::fs::remove_file(&before).expect("should remove");
    let (code, text) = row.run(1);
    let words = "state.cpt is missing, but a checkpoint had reached step 30";
    assert_eq!((code, error_message(&text).as_deref()), (Some(12), Some(words)), "{text}");
    assert_eq!(read(&row.file("md.log")), log, "nothing was moved or written");
    assert_eq!(of_gromacs(words), Meaning::OlderCheckpoint);
    // The one half of the advice.
    write(&state, &whole);
    assert_eq!(row.start(1), (Some(0), "31 steps from 30".to_owned()));
    // The other.
    let away = row.volume.0.join("away");
    std::fs::create_dir(&away).expect("should make a folder");
    for entry in std::fs::read_dir(row.folder()).expect("should be a folder") {
        let entry = entry.expect("should be readable");
        std::fs::rename(entry.path(), away.join(entry.file_name())).expect("should move");
    }
    assert_eq!(row.start(1), (Some(0), "1 steps from 0".to_owned()));
}

/// The output is not what the checkpoint says, since a file was lost, or since mdrun began again after all was moved away.
#[test]
fn what_mdrun_cannot_append_to_gets_parts_as_advised() {
    let Some(mut row) = Row::new(&[]) else { return };
    let whole = read(&row.file("state.cpt"));
    for begins_again in [false, true] {
        row.options = &[];
        if begins_again {
            let away = row.volume.0.join("away");
            std::fs::rename(row.folder(), &away).expect("should move");
            std::fs::create_dir(row.folder()).expect("should make a folder");
            assert_eq!(row.start(1), (Some(0), "1 steps from 0".to_owned()));
            write(&row.file("state.cpt"), &whole);
        } else {
            std::fs::remove_file(row.file("ener.edr")).expect("should remove");
        }
        let (code, text) = row.run(1);
        assert_ne!(code, Some(0), "{text}");
        let words = error_message(&text).expect("should say why");
        assert_eq!(of_gromacs(&words), Meaning::ChangedOutput, "{words}");
        row.options = &["-noappend"];
        assert_eq!(row.start(0), (Some(0), "30 steps from 30".to_owned()));
    }
}

/// mdrun itself takes a file that it may not read for none, and begins again.
#[test]
fn a_checkpoint_that_may_not_be_read_is_left_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let Some(row) = Row::new(&[]) else { return };
    let mode = |file: &Path, mode| {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("should be set");
    };
    mode(&row.folder(), 0o777);
    mode(&row.file("state.cpt"), 0o000);
    let mut command = Command::new("sh");
    command.args(["-c", START_SCRIPT, "start", "echo", "mdrun begins"]).current_dir(row.folder());
    if is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().expect("should run sh");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(12), "{text}");
    let words = error_message(&text).expect("should say why");
    assert!(
        words.starts_with("state.cpt cannot be read: ") && words.ends_with("Permission denied"),
        "{words}"
    );
    assert_eq!(of_gromacs(&words), Meaning::UnreadableCheckpoint, "{words}");
    mode(&row.file("state.cpt"), 0o644);
    assert_eq!(row.start(1), (Some(0), "31 steps from 30".to_owned()));
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A checkpoint of a newer release, and a GROMACS that does not run at all: neither is damaged.
#[test]
fn what_gromacs_cannot_read_at_all_is_left_alone() {
    for gmx in ["echo 'Attempting to read a checkpoint file of version 29' >&2; exit 1", "exit 132"] {
        let volume = Volume::new(gmx);
        let (state, before) = (volume.file("state.cpt"), volume.file("state_prev.cpt"));
        write(&before, b"older");
        let output = start(&volume, &["echo", "mdrun begins"]);
        assert_eq!(output, (Some(0), "mdrun begins\n".to_owned()));
        assert_eq!((read(&state), read(&before)), (b"x".to_vec(), b"older".to_vec()));
    }
}

#[test]
fn mdrun_takes_the_place_of_the_shell_with_every_word_as_it_is() {
    let volume = Volume::new("exit 0");
    let words = ["sh", "-c", "echo $$; printf '%s|' \"$@\"", "mdrun", "a b", "$(id)", "*", ""];
    let path = format!("{}:{}", volume.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let child = Command::new("sh")
        .args(["-c", START_SCRIPT, "start"])
        .args(words)
        .env("PATH", path)
        .current_dir(&volume.0)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("should start sh");
    let id = child.id();
    let output = child.wait_with_output().expect("should end");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{id}\na b|$(id)|*||"));
}

/// What starts, with a `gmx` of the test's.
fn start(volume: &Volume, words: &[&str]) -> (Option<i32>, String) {
    let path = format!("{}:{}", volume.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", START_SCRIPT, "start"])
        .args(words)
        .env("PATH", path)
        .current_dir(&volume.0)
        .output()
        .expect("should run sh");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What the logs say of checkpoints, where none is left.
#[test]
fn what_was_only_about_to_be_written_is_not_missed() {
    let wrote = |step: u32| format!("Writing checkpoint, step {step} at Wed Nov 25 04:51:36 2026\n");
    let step = "           Step           Time\n             10        0.02\n";
    for (log, missed) in [
        (String::new(), None),
        (wrote(30), None),
        (format!("{}{step}", wrote(0)), None),
        (format!("{}{step}", wrote(30)), Some(30)),
        (format!("{}Finished mdrun on rank 0\n", wrote(30)), Some(30)),
        (format!("{}{step}{}", wrote(30), wrote(60)), Some(30)),
        (format!("{}{}", wrote(30), wrote(60)), Some(30)),
        // It went back, and has not come to a checkpoint since.
        (format!("{}{step}{}", wrote(60), wrote(30)), None),
    ] {
        let volume = Volume::new("exit 1");
        write(&volume.0.join("md.log"), log.as_bytes());
        let (code, text) = start(&volume, &["echo", "mdrun begins"]);
        match missed {
            None => assert_eq!((code, text.as_str()), (Some(0), "mdrun begins\n"), "{log}"),
            Some(step) => {
                assert_eq!(code, Some(12), "{log}");
                let words = format!("state.cpt is missing, but a checkpoint had reached step {step}");
                assert_eq!(error_message(&text), Some(words), "{log}");
            }
        }
    }
}
