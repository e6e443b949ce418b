//! The own tests of supervisor and node agent, and what a container reads of itself.

use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use super::{Accounting, NEIGHBOURS, check, node, row, table};
use crate::{
    actor::{Actor, Policy},
    cgroup::{self, Pods},
    init::{Asked, report},
};
use scavenger_kernel_guest::report::Line;

/// The supervisor's.
pub fn supervisor(asked: &Asked) -> io::Result<()> {
    run("/tests/supervisor", "The supervisor's own tests")?;
    own_files(asked)
}

/// The agent's.
pub fn node_agent() -> io::Result<()> {
    run("/tests/node-agent", "The node agent's own tests")
}

/// Runs what the host put into a folder.
fn run(folder: &str, title: &str) -> io::Result<()> {
    table("tests", title, &["program", "passed", "failed", "skipped in part"]);
    // Some make cgroups of their own, which have the controllers that are enabled above them.
    cgroup::enable_at_root()?;
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let mut all = 0;
    for path in paths {
        let (status, lines) = run_program(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ended =
            |how: &str| lines.iter().filter(|line| line.starts_with("test ") && line.ends_with(how)).count();
        let [passed, failed] = [" ok", " FAILED"].map(ended);
        let skipped =
            lines.iter().filter(|line| line.starts_with("skipped:") || line.starts_with("SKIPPED:")).count();
        row(vec![name.clone(), passed.to_string(), failed.to_string(), skipped.to_string()]);
        all += passed;
        let all_well = status.success() && skipped == 0;
        check(
            all_well,
            format!("{name}: {passed} tests passed, {failed} failed, {skipped} skipped something"),
        );
        if !all_well {
            for line in &lines[lines.len().saturating_sub(80)..] {
                report(&Line::Note(line.clone()));
            }
        }
    }
    check(all > 0, format!("{title}: {all} passed"));
    Ok(())
}

/// Runs a program of tests. The console gets each line at once: should the machine not end, they tell where it stood.
fn run_program(path: &Path) -> io::Result<(ExitStatus, Vec<String>)> {
    let mut child = Command::new(path)
        .args(["--test-threads", "2", "--show-output", "--include-ignored"])
        .current_dir("/tmp")
        .env("PATH", "/usr/bin:/bin")
        .env("SCAVENGER_SUPERVISOR_PROGRAM", "/scavenger-supervisor")
        .env("SCAVENGER_NODE_AGENT_PROGRAM", "/scavenger-node-agent")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines() {
        let line = line?;
        eprintln!("{line}");
        lines.push(line);
    }
    Ok((child.wait()?, lines))
}

/// What a process in the container reads of its own cgroup after a second of work.
fn own_files(asked: &Asked) -> io::Result<()> {
    table("files", "What a container reads of its own cgroup", &["file", "after a second of work"]);
    let scavenger = NEIGHBOURS[0].scavenger(Accounting::Requests);
    let pods = Pods::make(node(asked), &[scavenger])?;
    let mut actor = Actor::start(&pods.container(&scavenger), 0, Policy::Batch, &["compute", "2", "1"])?;
    actor.number()?;
    for name in ["memory.peak", "memory.events", "cpu.stat", "cpu.pressure", "memory.pressure", "io.pressure"]
    {
        let text = fs::read_to_string(pods.container(&scavenger).join(name));
        check(text.is_ok(), format!("a container has {name}"));
        row(vec![format!("`{name}`"), text.unwrap_or_default().trim().replace('\n', "; ")]);
    }
    actor.end()
}
