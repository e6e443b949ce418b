//! What counts as a checkpoint.

use std::fs;

use nix::sys::signal::Signal;
use scavenger_schema::supervision::Stop;
use scavenger_supervisor::files;

use crate::harness::{Bench, eventually};

#[test]
fn the_newest_of_a_glob_counts_and_what_was_there_before_does_not() {
    let bench = Bench::new();
    fs::create_dir(bench.path("run")).unwrap();
    fs::write(bench.path("run/old.cpt"), "of an earlier attempt").unwrap();
    let flags = ["--checkpoint", "run/*.cpt"];
    assert_eq!(bench.run(&flags, &["true"]), 0);
    assert_eq!(bench.end_report().unwrap().checkpoint, None);
    fs::write(bench.path("message"), "").unwrap();
    // Two, the older one with a time of long ago: a copy of something.
    let script =
        "touch -d 2001-01-01 run/copy.cpt; echo 1 > run/b.cpt; echo 2 > run/a.txt; touch run/.hidden.cpt";
    assert_eq!(bench.run(&flags, &["bash", "-c", script]), 0);
    let checkpoint = bench.end_report().unwrap().checkpoint.unwrap();
    assert_eq!(checkpoint.seen, 1);
    assert!(checkpoint.age_seconds < 60.0);
}

#[test]
fn a_change_is_announced() {
    let bench = Bench::new();
    // The slow look would come after the test has given up.
    let flags = ["--checkpoint", "state.cpt", "--look-every", "1h", "--progress", "progress"];
    let script = "echo 1 > state.cpt; echo 0.25 > progress; . ./saves";
    let running = bench.start(&flags, &["bash", "-c", script]);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    eventually("a report of the answer, while the workload runs", || {
        let report = bench.end_report();
        report.is_some_and(|report| report.stop == Stop::Answered && report.progress == Some(0.25))
    });
    bench.make("go");
    running.end();
}

#[test]
fn without_announcements_a_slow_look_finds_it() {
    let bench = Bench::new();
    // Opened once and written to for ever, as through a file server: never closed, never renamed.
    let flags = ["--checkpoint", "run/state.cpt", "--look-every", "200ms"];
    let script = "trap 'note=1' TERM; mkdir run; exec 5<> run/state.cpt; echo $$ > ready; \
                  while [ -z \"$note\" ]; do sleep 0.02; done; echo saved >&5; \
                  while [ ! -e go ]; do sleep 0.02; done";
    let running = bench.start(&flags, &["bash", "-c", script]);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    eventually("the checkpoint in the message", || {
        bench.end_report().is_some_and(|report| report.stop == Stop::Answered)
    });
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn a_checkpoint_before_the_signal_is_no_answer() {
    let bench = Bench::new();
    let script = "echo 1 > state.cpt; touch -d '1 minute' state.cpt; touch -d '-1 minute' state.cpt; \
                  trap '' TERM; echo $$ > ready; while [ ! -e go ]; do sleep 0.02; done";
    let running = bench.start(&["--checkpoint", "state.cpt"], &["bash", "-c", script]);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    eventually("the message", || bench.end_report().is_some());
    bench.make("go");
    assert_eq!(running.end(), 0);
    let report = bench.end_report().unwrap();
    assert_eq!(report.stop, Stop::Unanswered);
    assert!(report.checkpoint.unwrap().age_seconds > 59.0);
}

/// The workload sends the signal itself, at once after the rename: no clock of files is so fine that it tells them apart.
#[test]
fn a_checkpoint_in_the_moment_before_the_signal_is_no_answer() {
    // The second time as a file system does that keeps whole seconds.
    for rounding in ["", "touch -d @$(date +%s) half; "] {
        let bench = Bench::new();
        let script = format!(
            "trap 'echo >> got' TERM; echo 1 > half; {rounding}mv half state.cpt; kill -TERM $PPID; \
             while [ ! -e go ]; do sleep 0.02; done"
        );
        let running = bench.start(&["--checkpoint", "state.cpt"], &["bash", "-c", &script]);
        eventually("SIGTERM at the workload", || bench.path("got").exists());
        bench.make("go");
        assert_eq!(running.end(), 0);
        let report = bench.end_report().unwrap();
        assert_eq!((report.stop, report.checkpoint.unwrap().seen), (Stop::Unanswered, 1), "{rounding:?}");
    }
}

#[test]
fn a_checkpoint_in_the_moment_after_the_signal_is_an_answer() {
    // Its time is before the signal on a file system that keeps whole seconds.
    for rounding in ["", "touch -d @$(date +%s) half; "] {
        let bench = Bench::new();
        let script = format!(
            "save() {{ echo $1 > half; {rounding}mv half state.cpt; }}; trap 'save 2; echo >> got' TERM; save 1; \
             kill -TERM $PPID; while [ ! -e go ]; do sleep 0.02; done"
        );
        let running = bench.start(&["--checkpoint", "state.cpt"], &["bash", "-c", &script]);
        eventually("SIGTERM at the workload", || bench.path("got").exists());
        bench.make("go");
        assert_eq!(running.end(), 0);
        assert_eq!(bench.end_report().unwrap().stop, Stop::Answered, "{rounding:?}");
    }
}

#[test]
fn bad_progress_is_ignored_and_said_once() {
    let bench = Bench::new();
    let flags = ["--progress", "progress", "--look-every", "20ms"];
    let script = "echo half > progress; while [ ! -e go ]; do sleep 0.02; done";
    let running = bench.start(&flags, &["bash", "-c", script]);
    eventually("a word about it", || bench.read("log").contains("progress is ignored"));
    fs::write(bench.path("progress"), "0.75").unwrap();
    bench.make("go");
    assert_eq!(running.end(), 0);
    assert_eq!(bench.end_report().unwrap().progress, Some(0.75));
    assert_eq!(bench.lines("log").len(), 1, "{}", bench.read("log"));
}

#[test]
fn strange_files_stop_nothing() {
    let bench = Bench::new();
    let flags = ["--checkpoint", "*.cpt", "--progress", "fifo.cpt"];
    let script = "mkfifo fifo.cpt; ln -s /dev/zero zero.cpt; ln -s nowhere.cpt loop.cpt";
    assert_eq!(bench.run(&flags, &["bash", "-c", script]), 0);
    let report = bench.end_report().unwrap();
    assert_eq!((report.checkpoint, report.progress), (None, None));
}

/// Writes a checkpoint with a time in the future, and then one with the time of today: what is seen of a clock that is set
/// back in between.
#[test]
fn a_clock_that_jumps_back_hides_no_checkpoint() {
    let bench = Bench::new();
    let script = "trap '' TERM; echo $$ > ready; echo 1 > half; touch -d '+1 hour' half; mv half state.cpt; \
                  while [ ! -e next ]; do sleep 0.02; done; echo 2 > half; mv half state.cpt; \
                  while [ ! -e go ]; do sleep 0.02; done";
    let running = bench.start(&["--checkpoint", "state.cpt"], &["bash", "-c", script]);
    bench.number("ready");
    // From then on the message is written at each change.
    running.signal(Signal::SIGTERM);
    let seen = |count| {
        eventually("the message", || {
            let checkpoint = bench.end_report().and_then(|report| report.checkpoint);
            checkpoint.is_some_and(|checkpoint| checkpoint.seen == count && checkpoint.age_seconds < 60.0)
        });
    };
    seen(1);
    bench.make("next");
    seen(2);
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn a_link_out_of_the_volume_is_no_checkpoint() {
    let bench = Bench::new();
    // Every machine has it, and it is a file system of its own.
    let outside = tempfile::Builder::new().tempfile_in("/dev/shm").unwrap();
    let script = format!(
        "echo 1 > half; ln -s \"$PWD/half\" inside.cpt; echo 2 > {0}; ln -s {0} outside.cpt",
        outside.path().display()
    );
    for (pattern, seen) in [("outside.cpt", None), ("*.cpt", Some(1))] {
        fs::write(bench.path("message"), "").unwrap();
        for name in ["inside.cpt", "outside.cpt"] {
            fs::remove_file(bench.path(name)).ok();
        }
        assert_eq!(bench.run(&["--checkpoint", pattern], &["bash", "-c", &script]), 0);
        let checkpoint = bench.end_report().unwrap().checkpoint;
        assert_eq!(checkpoint.map(|checkpoint| checkpoint.seen), seen, "{pattern}");
        let log = bench.read("log");
        assert!(log.contains("outside.cpt is no checkpoint") && !log.contains("inside.cpt"), "{log}");
    }
}

/// The glob of a workload that never tidies up: SIGTERM passes while somebody looks at all of them, and the newest counts. If
/// there is no time to look at them to the end, nobody says that there was no checkpoint.
#[test]
fn a_hundred_thousand_files_keep_nobody_waiting() {
    let bench = Bench::new();
    // To make and to remove so many takes long on a disk.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    for number in 0..100_000 {
        fs::File::create(folder.path().join(format!("{number}.cpt"))).unwrap();
    }
    let (last, pattern) = (folder.path().join("last.cpt"), folder.path().join("*.cpt"));
    let pattern = pattern.to_str().unwrap();
    let script = format!(
        "trap 'echo 1 > {}; exit 143' TERM; echo $$ > ready; while [ ! -e go ]; do sleep 0.02; done",
        last.display()
    );
    let running = bench.start(&["--checkpoint", pattern], &["bash", "-c", &script]);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.end(), 143);
    let report = bench.end_report().unwrap();
    match report.stop {
        Stop::Answered => assert_eq!(report.checkpoint.unwrap().seen, 1),
        stop => assert_eq!(stop, Stop::Unknown),
    }
    assert_eq!(files::look(pattern).newest.last().map(|found| &found.path), Some(&last));
}
