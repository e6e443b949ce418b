//! Finds a cluster's processes in /proc. No pid file: those lie after a crash.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::description::state_dir;

/// The first process of a cluster, seen from the host. All others end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Init(Pid);

/// The running first process of the cluster `name`.
pub(super) fn init(name: &str) -> Result<Option<Init>> {
    let description = state_dir(name).join("cluster.json");
    let description = description.to_string_lossy();
    for pid in pids()? {
        let process = Path::new("/proc").join(pid.to_string());
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0).skip(1);
        let is_init = words.next() == Some(b"init") && words.next() == Some(description.as_bytes());
        // In its own namespace it is process 1, and a zombie is as good as gone.
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let is_first = field("NSpid:").split_whitespace().nth(1) == Some("1");
        if is_init && is_first && !field("State:").trim().starts_with('Z') {
            return Ok(Some(Init(Pid::from_raw(pid))));
        }
    }
    Ok(None)
}

/// Process ids of the host and of all namespaces within.
fn pids() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc").context("cannot list the processes in /proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

impl Init {
    /// Ends every process of the cluster and waits until they are gone.
    pub(super) fn kill(self) -> Result<()> {
        let namespace = self.namespace();
        let _ = kill(self.0, Signal::SIGKILL);
        // The kernel ends and reaps the others before the first is gone; a process in an uninterruptible
        // state can make it wait. Its parent reaps the first: that is the host's process 1.
        wait_until(Duration::from_secs(30), || {
            let others = namespace
                .is_some_and(|own| pids().is_ok_and(|all| all.iter().any(|pid| lives_in(*pid, own))));
            !others
        })
        .context("the cluster's processes do not end: a disk or network file system may not answer")
    }

    fn namespace(self) -> Option<u64> {
        namespace_of(self.0.as_raw())
    }
}

fn namespace_of(pid: i32) -> Option<u64> {
    // Following the link gives the namespace itself; its inode number is its name.
    Some(fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino())
}

fn lives_in(pid: i32, namespace: u64) -> bool {
    namespace_of(pid) == Some(namespace)
}

/// Asks every 20 ms until the answer is yes.
pub(super) fn wait_until(limit: Duration, mut is_true: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !is_true() {
        if started.elapsed() > limit {
            bail!("waited {} s", limit.as_secs());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the wait helper: neither /proc nor cgroups notify"
        )]
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
