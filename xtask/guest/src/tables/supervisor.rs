//! The supervisor's own tests, and what a container reads of itself.

use std::{
    fs, io,
    process::{Command, Stdio},
};

use super::{Accounting, NEIGHBOURS, check, node, row, table};
use crate::{
    actor::{Actor, Policy},
    cgroup::Pods,
    init::{Asked, report},
};
use scavenger_kernel_guest::report::Line;

/// Where the host put the programs of tests.
const TESTS: &str = "/tests";

/// Runs and measures.
pub fn run(asked: &Asked) -> io::Result<()> {
    table("tests", "The supervisor's own tests", &["program", "passed", "failed", "skipped in part"]);
    let mut paths: Vec<_> = fs::read_dir(TESTS)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        let output = Command::new(&path)
            .args(["--test-threads", "2", "--show-output", "--include-ignored"])
            .current_dir("/tmp")
            .env("PATH", "/usr/bin:/bin")
            .env("SCAVENGER_SUPERVISOR_PROGRAM", "/scavenger-supervisor")
            .stdin(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ended =
            |how: &str| text.lines().filter(|line| line.starts_with("test ") && line.ends_with(how)).count();
        let [passed, failed] = [" ok", " FAILED"].map(ended);
        let skipped = text.lines().filter(|line| line.starts_with("skipped:")).count();
        row(vec![name.clone(), passed.to_string(), failed.to_string(), skipped.to_string()]);
        let all_well = output.status.success() && passed > 0 && skipped == 0;
        check(
            all_well,
            format!("{name}: {passed} tests passed, {failed} failed, {skipped} skipped something"),
        );
        if !all_well {
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(80)..] {
                report(&Line::Note((*line).to_owned()));
            }
        }
    }
    own_files(asked)
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
