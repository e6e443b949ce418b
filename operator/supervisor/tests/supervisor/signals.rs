//! Whom signals reach.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use scavenger_schema::supervision::Stop;

use crate::harness::{Bench, eventually, has_python, program};

/// Starts a workload, waits until it can save, stops it, and returns how it took that.
fn stopped(bench: &Bench, flags: &[&str], workload: &[&str]) -> i32 {
    let flags: Vec<&str> = ["--checkpoint", "state.cpt"].iter().chain(flags).copied().collect();
    let running = bench.start(&flags, workload);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    eventually("SIGTERM at the workload", || bench.lines("got") == ["TERM"]);
    bench.make("go");
    let code = running.end();
    assert_eq!(bench.lines("got"), ["TERM"], "{}", bench.read("log"));
    assert_eq!(bench.end_report().unwrap().stop, Stop::Answered, "{}", bench.read("log"));
    code
}

#[test]
fn a_wrapper_without_exec_does_not_swallow_sigterm() {
    let bench = Bench::new();
    // As the wrapper of the most used GROMACS image: a script that chooses a program and stays in front of it.
    fs::write(bench.path("gmx"), "#!/bin/bash\nbash saves\nexit $?\n").unwrap();
    fs::set_permissions(bench.path("gmx"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(stopped(&bench, &[], &["./gmx", "mdrun"]), 1);
}

#[test]
fn nested_shells_of_several_kinds() {
    let bench = Bench::new();
    let inner = "bash -c \"dash -c 'bash saves; exit 3'; exit 4\"; exit 5";
    assert_eq!(stopped(&bench, &[], &["sh", "-c", inner]), 5);
}

#[test]
fn a_command_that_is_no_shell() {
    let bench = Bench::new();
    assert_eq!(stopped(&bench, &[], &["env", "bash", "saves"]), 1);
}

#[test]
fn a_shell_with_a_trap_takes_care_itself() {
    let bench = Bench::new();
    let script = "trap 'kill -TERM $child' TERM; bash saves & child=$!; wait; wait $child";
    assert_eq!(stopped(&bench, &[], &["bash", "-c", script]), 1);
}

#[test]
fn timeout_does_not_double_it() {
    let bench = Bench::new();
    assert_eq!(stopped(&bench, &[], &["timeout", "600", "bash", "saves"]), 1);
}

#[test]
fn the_reader_of_the_log_outlives_the_workload() {
    let bench = Bench::new();
    // What is written after the signal must reach the log.
    let script = "set -o pipefail; { bash saves; echo last words; exit 1; } | tee log.txt > /dev/null";
    assert_eq!(stopped(&bench, &[], &["bash", "-c", script]), 1);
    assert_eq!(bench.read("log.txt"), "last words\n");
    // A reader that the shell does not wait for, and that writes after the shell has ended.
    let bench = Bench::new();
    let script = "exec > >(text=$(cat); sleep 0.2; echo $text > log.txt); bash saves; echo last words";
    stopped(&bench, &[], &["bash", "-c", script]);
    assert_eq!(bench.read("log.txt"), "last words\n");
}

#[test]
fn a_pattern_finds_one_process_among_many() {
    let bench = Bench::new();
    // A parent that knows nothing of signals, as a launcher in another language.
    fs::write(
        bench.path("launcher"),
        "import subprocess, sys\nsys.exit(subprocess.call(['bash', 'saves']))\n",
    )
    .unwrap();
    has_python();
    let workload = ["python3", "launcher"];
    assert_eq!(stopped(&bench, &["--signal-process", "^bash saves$"], &workload), 1);
}

#[test]
fn a_wrapper_that_dies_of_the_signal_costs_the_workload_no_time() {
    let bench = Bench::new();
    let flags = ["--checkpoint", "state.cpt", "--signal-process", "saves"];
    // The wrapper's command line has the word, too.
    let running = bench.start(&flags, &["bash", "-c", "bash saves; exit $?"]);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    eventually("SIGTERM at the workload", || bench.lines("got") == ["TERM"]);
    // Longer than what is left behind has after an end that nobody asked for.
    let began = Instant::now();
    eventually("3.5 seconds", || began.elapsed() >= Duration::from_millis(3500));
    bench.make("go");
    assert_eq!(running.end(), 143);
    assert!(!bench.read("log").contains("killed"), "{}", bench.read("log"));
    assert_eq!(bench.lines("got"), ["TERM"], "{}", bench.read("log"));
    assert_eq!(bench.end_report().unwrap().stop, Stop::Answered, "{}", bench.read("log"));
}

#[test]
fn all_background_children_get_it_once() {
    let bench = Bench::new();
    for folder in ["a", "b"] {
        fs::create_dir(bench.path(folder)).unwrap();
    }
    let script = "(cd a; bash ../saves) & (cd b; bash ../saves) & wait";
    let running = bench.start(&[], &["bash", "-c", script]);
    bench.number("a/ready");
    bench.number("b/ready");
    running.signal(Signal::SIGTERM);
    eventually("SIGTERM at both", || bench.lines("a/got") == ["TERM"] && bench.lines("b/got") == ["TERM"]);
    bench.make("a/go");
    bench.make("b/go");
    assert_eq!(running.end(), 0);
    assert_eq!((bench.lines("a/got").len(), bench.lines("b/got").len()), (1, 1));
}

#[test]
fn sigterm_comes_once_however_often_it_is_sent() {
    let bench = Bench::new();
    let running = bench.start(&[], &["bash", "saves"]);
    bench.number("ready");
    running.signal(Signal::SIGTERM);
    eventually("the first SIGTERM", || bench.lines("got") == ["TERM"]);
    running.signal(Signal::SIGTERM);
    // The kernel hands pending signals out by their number: this one comes after the second SIGTERM.
    running.signal(Signal::SIGWINCH);
    eventually("a later signal", || bench.lines("got").contains(&"WINCH".to_owned()));
    running.signal(Signal::SIGUSR1);
    eventually("SIGUSR1", || bench.lines("got") == ["TERM", "WINCH", "USR1"]);
    bench.make("go");
    assert_eq!(running.end(), 1);
}

#[test]
fn a_signal_without_handler_does_not_end_the_workload() {
    let bench = Bench::new();
    // One process that waits, and not many short ones: nothing is said of one that ends just then, and on a loaded machine
    // they all would.
    let running = bench.start(&[], &["sh", "-c", "mkfifo go; echo > ready; cat go"]);
    eventually("the start", || bench.path("ready").exists());
    // Again and again: at first it may not be there yet.
    eventually("a word about it", || {
        running.signal(Signal::SIGUSR2);
        bench.read("log").contains("SIGUSR2 is not sent")
    });
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn as_process_1_of_a_pid_namespace() {
    let bench = Bench::new();
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    if !Command::new(unshare[0]).args(&unshare[1..]).arg("true").status().is_ok_and(|status| status.success())
    {
        eprintln!(
            "skipped: no pid namespace can be made here (unshare --pid --fork --mount-proc is refused)"
        );
        return;
    }
    fs::write(bench.path("wrapper"), "echo $PPID > parent; bash saves; exit 7\n").unwrap();
    let program = program();
    let program: Vec<&str> = unshare.iter().copied().chain([program.as_str()]).collect();
    let workload = ["bash", "wrapper"];
    let running = bench.start_command(bench.command_of(&program, &["--checkpoint", "state.cpt"], &workload));
    bench.number("ready");
    assert_eq!(bench.number("parent"), 1);
    // Signals from outside reach process 1 of the namespace as the kubelet's do.
    let table = scavenger_supervisor::table::below(i32::try_from(std::process::id()).unwrap());
    let supervisor = table.iter().find(|process| {
        process.parent == running.pid().as_raw() && process.program == "scavenger-supervisor"
    });
    let supervisor = nix::unistd::Pid::from_raw(supervisor.unwrap().pid);
    nix::sys::signal::kill(supervisor, Signal::SIGTERM).unwrap();
    eventually("SIGTERM at the workload", || bench.lines("got") == ["TERM"]);
    bench.make("go");
    assert_eq!(running.end(), 7);
    assert_eq!(bench.end_report().unwrap().stop, Stop::Answered);
}
