//! What the supervisor costs a pod. Prints the figures: `cargo test -p scavenger-supervisor footprint -- --nocapture`.
//! Another build is measured with `SCAVENGER_SUPERVISOR_PROGRAM=PATH`.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    harness::{Bench, eventually, program},
    report::{STEPS, Server, flags},
};

/// Clock ticks of user and system time.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn kilobytes(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn footprint() {
    let bench = Bench::new();
    let program = program();
    let server = Server::start();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), &server.ca).unwrap();
    let command = bench.command_of(&[&program], &flags(&server.url, &[]), &["bash", "-c", STEPS]);
    let running = bench.start_command(command);
    bench.number("ready");
    let pid = running.pid().as_raw();
    let at_first = kilobytes(pid, "VmRSS:");
    // The code and the memory of TLS are in use from the first report on.
    bench.make("next");
    eventually("a report", || !server.requests().is_empty());
    let (before, began) = (ticks(pid), Instant::now());
    // One slow look at least falls into this time.
    eventually("10 s", || began.elapsed() >= Duration::from_secs(10));
    let used = ticks(pid) - before;
    let (resident, own) = (kilobytes(pid, "VmRSS:"), kilobytes(pid, "RssAnon:"));
    let size = fs::metadata(&program).unwrap().len();
    println!(
        "{program}: {size} bytes; resident {at_first} kB before and {resident} kB after the first report, of \
         which anonymous {own} kB; {used} ticks in 10 s"
    );
    bench.make("go");
    assert_eq!(running.end(), 0);
    // A tick is a hundredth of a second. Loops that spin use hundreds.
    assert!(used <= 20, "{used} ticks of cpu in 10 s of doing nothing");
    assert!(own <= 3_000, "{own} kB of anonymous memory");
}
