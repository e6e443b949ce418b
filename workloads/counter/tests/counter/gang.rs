//! Three pods that talk to each other, here three processes.

use std::{collections::BTreeSet, net::TcpListener, sync::Mutex};

use nix::sys::signal::Signal;

use crate::harness::{Run, Volume};

/// A port that was free a moment ago, another one for each test: the kernel may give the same one twice.
fn free_port() -> String {
    static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        if TAKEN.lock().unwrap().insert(port) {
            return port.to_string();
        }
    }
}

fn gang(volume: &Volume, port: &str, to: &str) -> [Run; 3] {
    [0, 1, 2].map(|index: usize| {
        let mut command = volume.command(&["--gang", "--to", to, "--port", port, "--peer-timeout", "5s"]);
        command.env("JOB_COMPLETION_INDEX", index.to_string());
        command.env("SCAVENGER_HOSTS", "localhost,localhost,localhost");
        Run::new(command)
    })
}

#[test]
fn all_count_in_step_to_the_end_and_again() {
    let volume = Volume::new();
    for _ in 0..2 {
        for run in gang(&volume, &free_port(), "30") {
            let (status, lines, stderr) = run.end();
            assert_eq!(status, Some(0), "{stderr}");
            assert_eq!(lines.last().unwrap(), "done 30");
        }
    }
    for index in 0..3 {
        let text = std::fs::read_to_string(volume.path(&format!("journal-{index}"))).unwrap();
        assert_eq!(text.matches("step ").count(), 30, "pod {index}: {text}");
    }
}

#[test]
fn when_one_vanishes_the_others_fail_and_all_resume_together() {
    let volume = Volume::new();
    let [mut leader, follower, victim] = gang(&volume, &free_port(), "100");
    leader.wait_for("checkpoint");
    victim.signal(Signal::SIGKILL);
    let (status, lines, _) = leader.end();
    assert_eq!(status, Some(1));
    assert!(lines.last().unwrap().contains("lost peer 2"), "{lines:?}");
    let (status, lines, _) = follower.end();
    assert_eq!(status, Some(1));
    assert!(lines.last().unwrap().contains("lost the leader localhost"), "{lines:?}");
    assert_eq!(victim.end().0, None);

    let [mut leader, first, second] = gang(&volume, &free_port(), "100");
    let resumed = leader.wait_for("resumed at");
    assert!(volume.journal("checkpoint").contains(&(1, resumed)));
    for run in [leader, first, second] {
        assert_eq!(run.end().0, Some(0));
    }
}

#[test]
fn a_leader_that_is_stopped_saves_for_all() {
    let volume = Volume::new();
    let [mut leader, first, second] = gang(&volume, &free_port(), "1000");
    leader.wait_for("checkpoint");
    leader.signal(Signal::SIGTERM);
    let stopped = leader.wait_for("stopped");
    assert_eq!(leader.end().0, Some(143));
    assert_eq!((first.end().0, second.end().0), (Some(1), Some(1)));
    assert_eq!(volume.journal("checkpoint").last().unwrap(), &(1, stopped));
}

#[test]
fn a_follower_without_a_leader_can_be_stopped() {
    let volume = Volume::new();
    let mut command = volume.command(&["--gang", "--to", "10", "--port", &free_port()]);
    command.env("JOB_COMPLETION_INDEX", "1").env("SCAVENGER_HOSTS", "localhost,localhost");
    let mut run = Run::new(command);
    // Signals are handled from the first instruction on, but the program must have been started.
    while !volume.path("journal-1").exists() {
        std::thread::yield_now();
    }
    run.signal(Signal::SIGTERM);
    assert_eq!(run.wait_for("stopped"), 0);
    assert_eq!(run.end().0, Some(143));
}

#[test]
fn a_gang_that_is_too_large_to_be_listed_knows_its_leader_by_the_template() {
    let (volume, port) = (Volume::new(), free_port());
    let runs = [0, 1].map(|index: usize| {
        let mut command = volume.command(&["--gang", "--to", "5", "--port", &port]);
        command.env("JOB_COMPLETION_INDEX", index.to_string());
        // A name of the loopback address: what the template makes of index 0.
        command.env("SCAVENGER_HOST_TEMPLATE", "127.0.{index}.1").env("SCAVENGER_POD_COUNT", "2");
        Run::new(command)
    });
    for run in runs {
        let (status, lines, stderr) = run.end();
        assert_eq!((status, lines.last().map(String::as_str)), (Some(0), Some("done 5")), "{stderr}");
    }
}

#[test]
fn a_leader_without_followers_gives_up_in_time() {
    let volume = Volume::new();
    let mut command =
        volume.command(&["--gang", "--to", "10", "--port", &free_port(), "--start-timeout", "200ms"]);
    command.env("SCAVENGER_HOSTS", "a,b,c");
    let (status, lines, _) = Run::new(command).end();
    assert_eq!(status, Some(1));
    assert_eq!(lines.last().unwrap(), "failed 0: 2 of 2 peers did not connect within 200ms");
}
