//! Pods' cgroups as the kubelet lays them out, and the program beside them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::{Pid, geteuid},
};
pub use scavenger_cgroups::tree::{Class, Driver};
pub use scavenger_reporting::testing::eventually;
use scavenger_schema::node_agent::NodePod;
use tempfile::TempDir;

use crate::operator::Operator;

/// The program: the one that was built with the tests, or another build of it.
pub fn program() -> String {
    env::var("SCAVENGER_NODE_AGENT_PROGRAM")
        .unwrap_or_else(|_| env!("CARGO_BIN_EXE_scavenger-node-agent").to_owned())
}

/// A tree of cgroups of its own.
pub struct Tree {
    /// The cgroup of all pods.
    pub root: PathBuf,
    /// The folder in which that is.
    base: PathBuf,
    driver: Driver,
    /// Files that only look like cgroups.
    files: Option<TempDir>,
}

impl Tree {
    /// Of the kernel. None, and the reason on the standard error, if this machine does not allow that.
    pub fn of_kernel(driver: Driver) -> Option<Self> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"].map(Path::new);
        let controls = |mount: &&Path| {
            let controllers = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
            mount.join("cpu.shares").exists() || controllers.split_whitespace().any(|name| name == "cpu")
        };
        let Some(mount) = mounts.into_iter().find(controls).filter(|_| geteuid().is_root()) else {
            eprintln!(
                "SKIPPED: cgroups are not tested, which needs root and a cgroup cpu controller of this machine"
            );
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = mount.join(format!("scavenger-agent-test-{}-{number}", std::process::id()));
        hand_on(mount);
        fs::create_dir(&base).unwrap();
        hand_on(&base);
        Some(Self::with_classes(base, driver, None))
    }

    /// Of plain files, which anybody may make.
    pub fn of_files() -> Self {
        let files = tempfile::tempdir().unwrap();
        Self::with_classes(files.path().to_owned(), Driver::Cgroupfs, Some(files))
    }

    fn with_classes(base: PathBuf, driver: Driver, files: Option<TempDir>) -> Self {
        for class in [Class::Guaranteed, Class::Burstable, Class::BestEffort] {
            let folder = base.join(driver.class(class));
            fs::create_dir(&folder).unwrap();
            hand_on(&folder);
        }
        Self { root: base.join(driver.class(Class::Guaranteed)), base, driver, files }
    }

    /// As the kubelet makes it: the folder, then the weight.
    pub fn pod(&self, class: Class, number: u32, milli_cpu: u64) -> Pod {
        let uid = format!("0a0a0a0a-0000-4000-8000-{number:012}");
        let path = self.base.join(self.driver.pod(class, &uid));
        let pod = Pod { uid, path, milli_cpu };
        fs::create_dir(&pod.path).unwrap();
        if self.files.is_some() {
            fs::write(pod.path.join("cpu.idle"), "0\n").unwrap();
            fs::write(pod.path.join("cpu.weight"), "100\n").unwrap();
        }
        pod.write_weight().unwrap();
        pod
    }

    /// The same with something that runs in it.
    pub fn running(&self, class: Class, number: u32, milli_cpu: u64) -> Pod {
        let pod = self.pod(class, number, milli_cpu);
        pod.container("cri-containerd-6f2d.scope");
        pod
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.files.is_none() {
            remove(&self.base);
        }
    }
}

/// Cgroup v2 has a controller where the folder above asks for it.
fn hand_on(folder: &Path) {
    let there = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    for controller in there.split_whitespace().filter(|name| ["cpu", "memory"].contains(name)) {
        fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}")).unwrap();
    }
}

fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    fs::remove_dir(folder).ok();
}

pub struct Pod {
    pub uid: String,
    pub path: PathBuf,
    milli_cpu: u64,
}

impl Pod {
    pub fn listed(&self, idle: bool) -> NodePod {
        NodePod { uid: self.uid.clone(), milli_cpu: self.milli_cpu, idle }
    }

    pub fn container(&self, name: &str) {
        fs::create_dir(self.path.join(name)).unwrap();
    }

    pub fn read(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.path.join(name)).ok()?.trim().parse().ok()
    }

    /// The file of the weight, and what the kubelet writes there for the pods of these tests.
    fn weight_file(&self) -> (&'static str, u64) {
        let [weight, shares] = match self.milli_cpu {
            0 => [1, 2],
            200 => [8, 204],
            1_600 => [63, 1_638],
            other => panic!("nobody said what the kubelet writes for {other}"),
        };
        if self.path.join("cpu.shares").exists() { ("cpu.shares", shares) } else { ("cpu.weight", weight) }
    }

    pub fn write_weight(&self) -> std::io::Result<()> {
        let (file, weight) = self.weight_file();
        fs::write(self.path.join(file), weight.to_string())
    }

    /// Where the kernel has no cpu.idle, the least weight stands for it.
    pub fn is_idle(&self) -> bool {
        let (file, _) = self.weight_file();
        self.read("cpu.idle").unwrap_or_else(|| u64::from(self.read(file).is_some_and(|weight| weight <= 2)))
            == 1
    }

    /// As the kubelet left it.
    pub fn is_as_before(&self) -> bool {
        let (file, weight) = self.weight_file();
        self.read("cpu.idle").unwrap_or(0) == 0 && self.read(file) == Some(weight)
    }

    pub fn end(self) {
        remove(&self.path);
    }
}

/// The program at work.
pub struct Agent {
    child: Child,
    folder: TempDir,
}

impl Agent {
    pub fn start(tree: &Path, operator: &Operator) -> Self {
        Self::start_with(tree, operator, &[])
    }

    pub fn start_with(tree: &Path, operator: &Operator, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "token").unwrap();
        fs::write(folder.path().join("ca"), &operator.server.ca).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program())
            .args(["run", "--report-token", "token", "--report-ca", "ca", "--report-url"])
            .args([&operator.server.url, "--tree"])
            .arg(tree)
            .args(more)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    pub fn write_token(&self, token: &str) {
        fs::write(self.folder.path().join("token"), token).unwrap();
    }

    /// Ends it with SIGTERM, and expects that it succeeds.
    pub fn end(mut self) -> String {
        signal::kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), Signal::SIGTERM).unwrap();
        let mut status = None;
        eventually("the end of the agent", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let log = self.log();
        assert!(status.unwrap().success(), "{log}");
        log
    }

    /// As the kernel does when memory ends.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the agent wrote:\n{}", self.log());
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
