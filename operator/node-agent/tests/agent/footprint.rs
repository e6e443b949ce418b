//! What the agent costs a node. Prints the figures: `cargo test -p scavenger-node-agent footprint -- --nocapture`.
//! Another build is measured with `SCAVENGER_NODE_AGENT_PROGRAM=PATH`.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    harness::{Agent, Class, Pod, Tree, eventually, program},
    operator::Operator,
};

/// Nanoseconds on a processor, of all threads.
fn used(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}

fn kilobytes(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn footprint() {
    let tree = Tree::of_files();
    // A full node, of which ten are of ScavengerJobs.
    let pods: Vec<_> = (1..=110).map(|number| tree.running(Class::Burstable, number, 200)).collect();
    let operator = Operator::start();
    operator.tell(&pods[..10].iter().map(|pod| pod.listed(true)).collect::<Vec<_>>());
    let agent = Agent::start(&tree.root, &operator);
    eventually("all idle", || pods[..10].iter().all(Pod::is_idle));
    eventually("a request that is held", || operator.server.requests().len() == 2);
    let (before, began) = (used(agent.pid()), Instant::now());
    // Two looks fall into this time.
    eventually("20 s", || began.elapsed() >= Duration::from_secs(20));
    let used = Duration::from_nanos(used(agent.pid()) - before);
    let (resident, own) = (kilobytes(agent.pid(), "VmRSS:"), kilobytes(agent.pid(), "RssAnon:"));
    let size = fs::metadata(program()).unwrap().len();
    println!(
        "{}: {size} bytes; resident {resident} kB, of which anonymous {own} kB; {used:?} of cpu in 20 s",
        program()
    );
    agent.end();
    assert!(used < Duration::from_millis(100), "{used:?} of cpu in 20 s of doing nothing");
    assert!(own <= 3_000, "{own} kB of anonymous memory");
}
