//! A directory with a checkpoint and a journal, and runs of the program on it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Where a workload keeps its files.
pub(crate) struct Volume(TempDir);

impl Volume {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program with the flags that every run here has.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scavenger-counter"));
        command.args(["--every", "5ms", "--checkpoint-interval", "100ms"]);
        command.arg("--checkpoint").arg(self.path("count"));
        command.arg("--journal").arg(self.path("journal-{index}"));
        command.env("JOB_COMPLETION_INDEX", "0").env_remove("SCAVENGER_ATTEMPT").args(flags);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, flags: &[&str]) -> Run {
        Run::new(self.command(flags))
    }

    /// The journal's events of one kind, as (attempt, count).
    pub(crate) fn journal(&self, event: &str) -> Vec<(u64, u64)> {
        let text = std::fs::read_to_string(self.path("journal-0")).unwrap();
        let fields = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        fields
            .filter(|fields| fields[0] == event)
            .map(|fields| (fields[1].parse().unwrap(), fields[2].parse().unwrap()))
            .collect()
    }
}

/// A run that has begun.
pub(crate) struct Run {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Run {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads on until a line begins like this, and returns the number that follows.
    pub(crate) fn wait_for(&mut self, start: &str) -> u64 {
        let mut seen = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix(start) {
                let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
                return digits.parse().unwrap_or_else(|_| panic!("no number in {line:?}"));
            }
            seen.push(line);
        }
        panic!("the program ended without a line {start:?}; it said {seen:?}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the end: exit status (none if a signal killed it), rest of stdout, stderr.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<String>, String) {
        let lines = self.lines.map(Result::unwrap).collect();
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut stderr).unwrap();
        (self.child.wait().unwrap().code(), lines, stderr)
    }
}
