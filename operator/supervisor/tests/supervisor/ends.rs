//! How the container ends.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use nix::sys::signal::Signal;
use scavenger_schema::supervision::Stop;

use crate::harness::{Bench, eventually, lives, program};

#[test]
fn the_exit_code_is_the_workloads() {
    let bench = Bench::new();
    for code in 0..=255 {
        assert_eq!(bench.run(&[], &["sh", "-c", &format!("exit {code}")]), code);
    }
    for (signal, code) in [("KILL", 137), ("SEGV", 139), ("TERM", 143), ("RTMIN+1", 128 + 35)] {
        assert_eq!(bench.run(&[], &["bash", "-c", &format!("kill -{signal} $$")]), code, "{signal}");
    }
}

#[test]
fn a_command_that_cannot_be_run() {
    let bench = Bench::new();
    let refused = |command: &str| (bench.run(&[], &[command]), bench.read("log"));
    let (code, log) = refused("no-such-command");
    assert_eq!(
        (code, log.as_str()),
        (127, "scavenger-supervisor: cannot run \"no-such-command\": no directory of PATH has it\n")
    );
    assert_eq!(refused("./missing").0, 127);
    fs::write(bench.path("plain"), "text").unwrap();
    assert_eq!(refused("./plain").0, 126);
    fs::write(bench.path("script"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(bench.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    let (code, log) = refused("./script");
    assert!(code == 127 && log.contains("interpreter"), "{log}");
    // A failure keeps its own message.
    assert_eq!(bench.read("message"), "");
}

#[test]
fn a_workload_that_ignores_sigterm_can_still_be_killed() {
    let bench = Bench::new();
    let script = "trap '' TERM; echo $$ > ready; while [ ! -e go ]; do sleep 0.02; done";
    let running = bench.start(&["--checkpoint", "state.cpt"], &["bash", "-c", script]);
    let workload = bench.number("ready");
    running.signal(Signal::SIGTERM);
    // The message is written at once: nothing may be left to write it when the grace period is over.
    eventually("the message", || bench.end_report().is_some_and(|report| report.stop == Stop::Unanswered));
    assert!(lives(workload));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(workload), Signal::SIGKILL).unwrap();
    assert_eq!(running.end(), 137);
}

#[test]
fn zombies_are_reaped_while_the_workload_runs() {
    let bench = Bench::new();
    // The orphan's parent ends first; the orphan becomes the supervisor's child, and ends when it is allowed to.
    let script = "bash -c '(echo $BASHPID > orphan; while [ ! -e die ]; do sleep 0.02; done) & sleep 0'; \
                  echo > ready; while [ ! -e go ]; do sleep 0.02; done";
    let running = bench.start(&[], &["bash", "-c", script]);
    let orphan = bench.number("orphan");
    let parent = || {
        let table = scavenger_supervisor::table::below(i32::try_from(std::process::id()).unwrap());
        table.iter().find(|process| process.pid == orphan).map(|process| process.parent)
    };
    eventually("the adoption", || parent() == Some(running.pid().as_raw()));
    bench.make("die");
    eventually("the orphan's entry to vanish", || !fs::exists(format!("/proc/{orphan}")).unwrap());
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn a_daemon_does_not_keep_the_container() {
    let bench = Bench::new();
    let daemon =
        |trap: &str| format!("trap '{trap}' TERM; echo $BASHPID > daemon; while :; do sleep 0.02; done");
    // Double fork and a session of its own, as daemons do. One ends at SIGTERM, one never.
    for (trap, log) in
        [("echo > ended; exit 0", ""), ("", "still there after the workload has ended: killed")]
    {
        fs::write(bench.path("daemon.sh"), daemon(trap)).unwrap();
        let script = "rm -f daemon; (setsid bash daemon.sh < /dev/null > /dev/null 2>&1 &); \
                      while [ ! -s daemon ]; do sleep 0.02; done; exit 5";
        assert_eq!(bench.run(&[], &["bash", "-c", script]), 5);
        assert!(bench.read("log").contains(log));
        assert!(!lives(bench.number("daemon")));
    }
    assert!(bench.path("ended").exists(), "the first daemon got SIGTERM");
}

#[test]
fn a_workloads_own_message_stays() {
    let bench = Bench::new();
    assert_eq!(bench.run(&[], &["sh", "-c", "echo own words > message"]), 0);
    assert_eq!(bench.read("message"), "own words\n");
    let bench = Bench::new();
    assert_eq!(bench.run(&[], &["true"]), 0);
    assert_eq!(bench.end_report().unwrap().stop, Stop::NotAsked);
    let bench = Bench::new();
    assert_eq!(bench.run(&[], &["false"]), 1);
    assert_eq!(bench.read("message"), "");
}

#[test]
fn the_workload_stands_back_and_the_supervisor_does_not() {
    let bench = Bench::new();
    let script = "cat /proc/self/oom_score_adj > score; cut -d' ' -f41 /proc/self/stat > policy; \
                  cat /proc/$PPID/oom_score_adj > own; grep SigBlk /proc/self/status > blocked";
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    // dash would unblock all signals by itself.
    assert_eq!(bench.run(&[], &["bash", "-c", script]), 0);
    const BATCH: &str = "3\n";
    let blocked = || bench.read("blocked").ends_with("0000000000000000\n");
    assert_eq!((bench.read("score").as_str(), bench.read("policy").as_str()), ("1000\n", BATCH));
    assert!(blocked());
    assert_eq!(bench.read("own"), own);
    assert_eq!(bench.run(&["--keep-priority"], &["bash", "-c", script]), 0);
    assert_eq!((bench.read("score"), bench.read("policy").as_str()), (own, "0\n"));
    assert!(blocked());
}

#[test]
fn a_closed_stdin_and_a_parent_that_ignores_sigchld() {
    let bench = Bench::new();
    let line = format!("trap '' CHLD; exec {} run --message message -- sh -c 'exit 9' <&-", program());
    let code = Command::new("bash").args(["-c", &line]).current_dir(bench.folder.path()).status().unwrap();
    assert_eq!(code.code(), Some(9));
}

#[test]
fn the_copy_runs() {
    let bench = Bench::new();
    let copied = Command::new(program()).arg("copy").arg(bench.folder.path()).status().unwrap();
    assert!(copied.success());
    let copy = bench.path("scavenger-supervisor");
    let mut command = bench.command_of(&[copy.to_str().unwrap()], &[], &["sh", "-c", "exit 6"]);
    assert_eq!(command.status().unwrap().code(), Some(6));
    let missing = Command::new(program()).args(["copy", "/no/such/directory"]).output().unwrap();
    assert!(!missing.status.success() && String::from_utf8_lossy(&missing.stderr).contains("cannot copy"));
}
