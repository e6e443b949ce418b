//! Stops clusters and removes what they left on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::description::{names, state_dir};
use super::processes::{self, wait_until};
use super::{Cluster, STATE_ROOT, cgroups, up};
use crate::cache;
use crate::preflight;
use crate::progress::Task;

/// Stops the cluster `name`.
pub(super) fn down(name: &str) -> Result<()> {
    preflight::root()?;
    let _turn = up::lock()?;
    stop(name)?;
    forget_empty_root()
}

/// Stops every cluster that has files on this machine.
pub(super) fn down_all() -> Result<()> {
    preflight::root()?;
    let _turn = up::lock()?;
    for name in names()?.into_iter().collect::<BTreeSet<_>>() {
        stop(&name)?;
    }
    forget_empty_root()
}

fn stop(name: &str) -> Result<()> {
    let init = processes::init(name)?;
    if init.is_none() && !state_dir(name).exists() {
        // A cgroup may still be there if someone removed the files by hand.
        cgroups::remove(name)?;
        eprintln!("there is no cluster {name}");
        return Ok(());
    }
    let task = Task::start(format!("stopping the cluster {name}"));
    if let Some(init) = init {
        init.kill()?;
    }
    remove_leftovers(name)?;
    task.done(format!("the cluster {name} is gone"));
    Ok(())
}

/// Removes what the end of a cluster's processes leaves: a route, cgroups and files. None of its processes may
/// run any more.
pub(super) fn remove_leftovers(name: &str) -> Result<()> {
    if let Some(cluster) = Cluster::read(name)? {
        remove_network(&cluster)?;
    }
    cgroups::remove(name)?;
    let folder = state_dir(name);
    refuse_mounts(&folder)?;
    cache::remove(&folder)
}

/// The cable vanishes with the node's network namespace, but when is up to the kernel.
fn remove_network(cluster: &Cluster) -> Result<()> {
    let device = Path::new("/sys/class/net").join(&cluster.host_device);
    if device.exists() {
        // It may vanish just before.
        let _ = Command::new("ip").args(["link", "delete", &cluster.host_device]).output();
    }
    wait_until(Duration::from_secs(10), || !device.exists())
        .with_context(|| format!("cannot remove the network device {}", cluster.host_device))?;
    // It is no error if the route is not there.
    let route = ["route", "delete", "unreachable", &cluster.network, "metric", "4000"];
    Command::new("ip").args(route).output().context("cannot run `ip`")?;
    Ok(())
}

/// Deleting through a mount would delete what is mounted.
fn refuse_mounts(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    let inside = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .find(|target| Path::new(target).starts_with(folder));
    if let Some(target) = inside {
        bail!("{target} is mounted: unmount it, then run this again");
    }
    Ok(())
}

/// The last cluster takes the common folder along.
fn forget_empty_root() -> Result<()> {
    match fs::remove_dir(STATE_ROOT) {
        Err(error) if error.kind() != std::io::ErrorKind::DirectoryNotEmpty => {
            Err(error).with_context(|| format!("cannot remove {STATE_ROOT}"))
        }
        _ => Ok(()),
    }
}
