//! Who is killed when memory ends: a cgroup with a limit stands for the node, and processes in it have the scores that the
//! kubelet gives to pods.
//!
//! It takes root and cgroup v1 or v2 with a memory controller; where that is missing the test says so and passes.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

use super::harness::{eventually, program};

const MEBIBYTE: u64 = 1024 * 1024;

/// Memory of the node.
const NODE: u64 = 256 * MEBIBYTE;

/// Memory of the workload.
const WORKLOAD: u64 = 96 * MEBIBYTE;

/// What the kubelet gives to a Burstable pod that requests half of the node: 1000 minus 1000 times that share.
const BURSTABLE: i32 = 500;

/// A cgroup that is removed at the end.
struct Node(PathBuf);

impl Node {
    /// None where this machine does not let us make one.
    fn new(name: &str) -> Option<Self> {
        let root = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(PathBuf::from);
        let (root, limit) = root.into_iter().find_map(|root| {
            let limits = ["memory.limit_in_bytes", "memory.max"];
            if root.ends_with("memory") && root.join(limits[0]).exists() {
                return Some((root, limits[0]));
            }
            let controllers = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
            controllers.contains("memory").then_some((root, limits[1]))
        })?;
        let path = root.join(format!("scavenger-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let node = Self(path);
        fs::write(node.0.join(limit), NODE.to_string()).ok()?;
        Some(node)
    }

    /// Starts a command in it with this score.
    fn start(&self, line: &[String], score: i32) -> Child {
        let script = "echo $$ > \"$0\"; echo \"$1\" > /proc/self/oom_score_adj; shift; exec \"$@\"";
        let mut command = Command::new("bash");
        command.args(["-c", script]).arg(self.0.join("cgroup.procs")).arg(score.to_string()).args(line);
        command.spawn().unwrap()
    }
}

impl Node {
    /// Kills everything in it.
    fn clear(&self) {
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let pid = Pid::from_raw(pid.parse().unwrap());
            let _ = signal::kill(pid, Signal::SIGKILL);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.clear();
        // The kernel lets it go once its processes are gone, some of which are not ours to wait for.
        eventually("the cgroup can be removed", || fs::remove_dir(&self.0).is_ok());
    }
}

fn bash(script: String) -> Vec<String> {
    vec!["bash".to_owned(), "-c".to_owned(), script]
}

/// An ordinary pod grows beside a workload until one of them is killed. How the ordinary one ended, none if it lives.
fn ordinary_end(node: &Node, supervised: bool) -> Option<ExitStatus> {
    let folder = tempfile::tempdir().unwrap();
    let (message, holds) = (folder.path().join("message"), folder.path().join("holds"));
    let script = format!(
        "x=$(head -c {WORKLOAD} /dev/zero | tr '\\0' x); : > {}; sleep 1000000 & wait",
        holds.display()
    );
    let mut line = bash(script);
    if supervised {
        let supervisor =
            [&program(), "run", "--message", &message.to_string_lossy(), "--"].map(str::to_owned);
        line.splice(0..0, supervisor);
    }
    // A Guaranteed pod has -997. Nobody here may lower a score, and 0 is far below the other's as well.
    let mut workload = node.start(&line, 0);
    eventually("the workload holds its memory", || holds.exists());

    // Steps of a megabyte, without a process for each.
    let script = "chunk=$(head -c 1000000 /dev/zero | tr '\\0' x); while :; do all[i++]=$chunk; done";
    let mut ordinary = node.start(&bash(script.to_owned()), BURSTABLE);
    let mut end = None;
    eventually("one of them is killed", || {
        end = ordinary.try_wait().unwrap();
        end.is_some() || workload.try_wait().unwrap().is_some()
    });
    node.clear();
    for child in [&mut ordinary, &mut workload] {
        child.wait().unwrap();
    }
    end
}

/// The kernel kills where memory and score together are highest. With the score of 1000 the workload goes as long as it has
/// more memory than the ordinary pod has above its request: here 96 MiB, against 32 MiB.
#[test]
fn the_workload_is_killed_before_an_ordinary_pod() {
    let Some(node) = Node::new("memory") else {
        eprintln!("skipped: nobody can make a cgroup with a limit of memory here");
        return;
    };
    let alone = ordinary_end(&node, false).expect("without the supervisor the ordinary pod should be killed");
    assert_eq!(alone.signal(), Some(Signal::SIGKILL as i32), "{alone:?}");
    for _ in 0..3 {
        assert_eq!(ordinary_end(&node, true), None, "the ordinary pod was killed before the workload");
    }
}
