//! Starts a cluster.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::fcntl::Flock;

use super::binaries::{self, Kubernetes, Programs};
use super::processes::{self, wait_until};
use super::status::{Phase, Status};
use super::{Cluster, STATE_ROOT, cgroups, description, down};
use crate::cache;
use crate::packages;
use crate::preflight;
use crate::progress::Task;

/// Images, their unpacked layers, etcd and logs.
const STATE_GIB: u64 = 5;

/// As long as the supervisor itself tries.
const START_LIMIT: Duration = Duration::from_secs(180);

/// How a cluster shall be.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Options {
    /// Have at least N nodes without containers, played by KWOK, beside the real one
    ///
    /// They are tainted kwok.x-k8s.io/node=fake:NoSchedule; deploy/devcluster/kwok says how their pods behave.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) fake_nodes: u32,
    /// Run this release of Kubernetes
    #[arg(long, value_enum, value_name = "RELEASE", default_value_t)]
    pub(crate) kubernetes: Kubernetes,
    /// Have a registry on port 5000 of the node, without TLS; its user is scavenger, its password pull
    #[arg(long)]
    pub(crate) registry: bool,
    /// Have a metrics-server, for `kubectl top`: it measures the real node and its pods every 10 s
    #[arg(long)]
    pub(crate) metrics_server: bool,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    pub(crate) no_install: bool,
}

/// Looks for what would stop `up`, and changes nothing.
pub(super) fn check(options: &Options) -> Result<()> {
    preflight::root()?;
    preflight::debian()?;
    preflight::disk(Path::new(STATE_ROOT), STATE_GIB)?;
    binaries::check(options)
}

/// Starts the cluster `name` unless it runs, and returns when its node is Ready.
pub(super) fn up(name: &str, options: &Options) -> Result<Cluster> {
    check(options)?;
    packages::ensure(packages::CLUSTER, !options.no_install)?;
    let programs = binaries::ensure(options)?;

    let _turn = lock()?;
    let cluster = match processes::init(name)? {
        Some(_) => join(name, options.kubernetes, &programs)?,
        None => start(name, options.kubernetes, &programs)?,
    };
    if options.fake_nodes > 0 {
        cluster.ensure_fake_nodes(options.fake_nodes)?;
    }
    if options.registry {
        cluster.ensure_registry()?;
    }
    if options.metrics_server {
        cluster.ensure_metrics_server()?;
    }
    Ok(cluster)
}

/// Holds all other `up` and `down` off, of any cluster: they share numbers and the folder itself.
pub(super) fn lock() -> Result<Flock<File>> {
    lock_in(Path::new(STATE_ROOT))
}

/// Holds a folder, which its last holder may have removed.
fn lock_in(root: &Path) -> Result<Flock<File>> {
    loop {
        let no_folder = fs::symlink_metadata(root).is_ok_and(|there| !there.is_dir());
        let folder = match fs::create_dir_all(root).and_then(|()| File::open(root)) {
            // It was removed while it was looked for, or just before it was opened.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) && !no_folder =>
            {
                continue;
            }
            folder => folder.with_context(|| format!("cannot create or open {}", root.display()))?,
        };
        let turn = cache::lock_file(folder, root)?;
        // Or while this waited: then the lock is on nothing.
        let held = turn.metadata().with_context(|| format!("cannot look at {}", root.display()))?;
        if fs::metadata(root).is_ok_and(|now| now.ino() == held.ino()) {
            return Ok(turn);
        }
    }
}

/// The cluster runs already, or another `up` was interrupted while it started.
fn join(name: &str, kubernetes: Kubernetes, programs: &Programs) -> Result<Cluster> {
    let cluster = Cluster::running(name)?;
    if cluster.kubernetes != kubernetes {
        bail!(
            "the cluster {name} runs Kubernetes {}, not {kubernetes}: run `cargo xtask cluster down --name {name}`, then up",
            cluster.kubernetes
        );
    }
    let mut status = Status::read(&cluster)?;
    // Until the status says otherwise, or the process is gone.
    let waited = wait_until(START_LIMIT, || {
        status = Status::read(&cluster).unwrap_or_default();
        status.phase != Phase::Starting || !matches!(processes::init(name), Ok(Some(_)))
    });
    if waited.is_err() || status.phase != Phase::Ready {
        bail!(
            "the cluster {name} is {}: run `cargo xtask cluster down --name {name}`, then up",
            status.phase
        );
    }
    status.complain(&cluster)?;
    // The cluster may have started without them.
    let on_request = programs.iter().filter(|(name, _)| binaries::ON_REQUEST.contains(name));
    binaries::link(&on_request.map(|(n, p)| (*n, p.clone())).collect(), &cluster.bin_dir)?;
    if !binaries::are_linked(programs, &cluster.bin_dir) {
        eprintln!("note: the cluster {name} runs an older build of its programs; down and up renew it");
    }
    cluster.recycle_volumes()?;
    eprintln!("the cluster {name} is up");
    Ok(cluster)
}

fn start(name: &str, kubernetes: Kubernetes, programs: &Programs) -> Result<Cluster> {
    // What a cluster that was killed, or a start that failed, has left.
    down::remove_leftovers(name)?;
    let addresses = Command::new("ip").args(["-4", "address", "show"]).output().context("cannot run `ip`")?;
    let number = description::free_number(name, &String::from_utf8_lossy(&addresses.stdout))?;
    let cluster = Cluster::new(name, number, kubernetes);
    let logs = cluster.state_dir.join("logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    binaries::link(programs, &cluster.bin_dir)?;
    // A folder with nothing but kubectl, for the user's PATH.
    let kubectl =
        programs.iter().filter(|(name, _)| **name == "kubectl").map(|(n, p)| (*n, p.clone())).collect();
    binaries::link(&kubectl, &cluster.tools())?;
    cluster.write()?;
    cgroups::create(name)?;

    let task = Task::start(format!("starting the cluster {name}"));
    if let Err(error) = run_devnode(&cluster, &task) {
        // Half a cluster serves nobody. Its files stay for the logs, until the next up or down.
        if let Some(init) = processes::init(name)? {
            init.kill()?;
        }
        return Err(error);
    }
    task.done(format!("the cluster {name} is up"));
    Ok(cluster)
}

/// Runs the part that makes the namespaces; it ends when the cluster is ready, and the cluster stays.
fn run_devnode(cluster: &Cluster, task: &Task) -> Result<()> {
    let mut devnode = Command::new(cluster.binary("devnode"))
        .arg("up")
        .arg(cluster.file())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run the cluster's supervisor")?;
    let stdout = devnode.stdout.take().expect("should be piped");
    for line in BufReader::new(stdout).lines() {
        task.detail(&line.context("cannot read what the cluster's supervisor says")?);
    }
    let complaint = binaries::read_all(devnode.stderr.take().expect("should be piped"));
    let status = devnode.wait().context("cannot wait for the cluster's supervisor")?;
    if !status.success() {
        bail!("the cluster {} did not start: {complaint}", cluster.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_its_last_holder_removes_is_held_all_the_same() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("clusters");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _turn = lock_in(&root).unwrap();
                        fs::remove_dir(&root).unwrap();
                    }
                });
            }
        });
    }
}
