//! One pod.

use std::collections::HashMap;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::harness::{Run, Volume};

#[test]
fn counts_to_the_end_and_stops_at_once_when_run_again() {
    let volume = Volume::new();
    let (status, lines, _) = volume.start(&["--to", "30"]).end();
    assert_eq!(status, Some(0));
    assert_eq!(lines.first().unwrap(), "started at 0");
    assert_eq!(lines.last().unwrap(), "done 30");

    let (status, lines, _) = volume.start(&["--to", "30"]).end();
    assert_eq!(status, Some(0));
    assert_eq!(lines, ["resumed at 30", "done 30"]);
    assert_eq!(volume.journal("step").len(), 30);
}

#[test]
fn saves_on_sigterm_and_computes_no_step_twice() {
    for (what, expected) in [("save", 143), ("save-exit-0", 0), ("save-exit-1", 1)] {
        let volume = Volume::new();
        let flags = ["--to", "60", "--on-sigterm", what];
        let mut run = volume.start(&flags);
        run.wait_for("checkpoint");
        run.signal(Signal::SIGTERM);
        let stopped = run.wait_for("stopped");
        assert_eq!(run.end().0, Some(expected), "{what}");

        let mut run = volume.start(&flags);
        assert_eq!(run.wait_for("resumed at"), stopped);
        assert_eq!(run.end().0, Some(0));
        let steps: Vec<_> = volume.journal("step").into_iter().map(|(_, step)| step).collect();
        assert_eq!(steps, (1..=60).collect::<Vec<_>>(), "{what}");
        assert_eq!(volume.journal("start"), [(1, 0), (2, stopped)]);
    }
}

#[test]
fn what_is_lost_without_a_save_is_what_came_after_the_checkpoint() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let volume = Volume::new();
        let flags = ["--to", "80", "--on-sigterm", "die"];
        let mut run = volume.start(&flags);
        run.wait_for("checkpoint");
        run.signal(signal);
        let expected = if signal == Signal::SIGTERM { Some(143) } else { None };
        assert_eq!(run.end().0, expected);

        let mut run = volume.start(&flags);
        let resumed = run.wait_for("resumed at");
        assert_eq!(run.end().0, Some(0));
        assert_eq!(volume.journal("checkpoint").iter().find(|(attempt, _)| *attempt == 2).unwrap().0, 2);
        assert!(volume.journal("checkpoint").contains(&(1, resumed)));

        let mut times: HashMap<u64, u64> = HashMap::new();
        for (_, step) in volume.journal("step") {
            *times.entry(step).or_default() += 1;
        }
        assert!((1..=resumed).all(|step| times[&step] == 1), "{times:?}");
        assert!((resumed + 1..=80).all(|step| times[&step] <= 2), "{times:?}");
        assert_eq!(times.len(), 80);
    }
}

#[test]
fn ignores_sigterm_if_asked() {
    let volume = Volume::new();
    let mut run = volume.start(&["--to", "50", "--on-sigterm", "ignore"]);
    run.wait_for("checkpoint");
    run.signal(Signal::SIGTERM);
    let (status, lines, _) = run.end();
    assert_eq!((status, lines.last().unwrap().as_str()), (Some(0), "done 50"));
}

#[test]
fn counts_on_until_the_attempt_that_may_end() {
    let volume = Volume::new();
    let flags = ["--to", "3", "--not-before-attempt", "2"];
    let mut first = volume.start(&flags);
    first.wait_for("checkpoint");
    first.signal(Signal::SIGTERM);
    assert_eq!(first.end().0, Some(143));
    let (status, lines, _) = volume.start(&flags).end();
    let reached: u64 = lines.last().unwrap().strip_prefix("done ").unwrap().parse().unwrap();
    assert!(status == Some(0) && reached >= 5, "{lines:?}");
}

#[test]
fn takes_the_number_of_the_attempt_from_outside() {
    let volume = Volume::new();
    let mut command = volume.command(&["--to", "3"]);
    command.env("SCAVENGER_ATTEMPT", "7");
    assert_eq!(Run::new(command).end().0, Some(0));
    assert_eq!(volume.journal("start"), [(7, 0)]);
    assert_eq!(volume.start(&["--to", "4"]).end().0, Some(0));
    assert_eq!(volume.journal("start"), [(7, 0), (8, 3)]);
}

#[test]
fn fails_by_itself_when_told_to() {
    let volume = Volume::new();
    let (status, lines, _) = volume.start(&["--to", "50", "--fail-at", "7"]).end();
    assert_eq!(status, Some(1));
    assert_eq!(lines.last().unwrap(), "failed 7: as --fail-at asked");
    assert_eq!(volume.journal("fail"), [(1, 7)]);
}

#[test]
fn two_runs_on_one_checkpoint_are_caught() {
    let volume = Volume::new();
    let mut first = volume.start(&["--to", "1000000"]);
    first.wait_for("started at");
    let (status, _, stderr) = volume.start(&["--to", "1000000"]).end();
    assert_eq!(status, Some(3));
    assert!(stderr.contains("is in use: another run holds the lock"), "{stderr}");
    assert_eq!(volume.journal("overlap"), [(0, 0)]);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.end().0, Some(143));
}

#[test]
fn errors_name_what_is_wrong() {
    for (flags, named) in [
        (["--checkpoint", "count", "--to", "5"], "--checkpoint must be an absolute path"),
        (["--checkpoint", "/no/such/count", "--to", "5"], "/no/such/count.lock"),
        (["--checkpoint", "/tmp/count", "--to", "five"], "--to"),
        (["--checkpoint", "/tmp/count", "--every", "5"], "--every"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_scavenger-counter")).args(flags).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr.contains(named), "{named}: {stderr}");
    }
}
