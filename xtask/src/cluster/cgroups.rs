//! The cgroup below which all pods of a cluster run: one folder in every hierarchy that the host has mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::processes::wait_until;

/// What a kubelet wants to find in its root cgroup where there is only cgroup v2.
const V2_CONTROLLERS: &[&str] = &["+cpuset", "+cpu", "+io", "+memory", "+hugetlb", "+pids"];

/// Creates the cluster's cgroup: a kubelet does not create its own root.
pub(super) fn create(name: &str) -> Result<()> {
    for root in folders(name)? {
        fs::create_dir_all(&root).with_context(|| format!("cannot create the cgroup {}", root.display()))?;
        let parent = root.parent().expect("should be below a mount point");
        for folder in [parent, &root] {
            for controller in V2_CONTROLLERS {
                // Only v2 has this file, and not every kernel every controller: the kubelet says what it misses.
                let _ = fs::write(folder.join("cgroup.subtree_control"), controller);
            }
        }
    }
    Ok(())
}

/// Where the cgroups of the cluster's pods have their weights, as its kubelet names them.
pub(super) fn kubepods(root: &str) -> PathBuf {
    let whole = Path::new("/sys/fs/cgroup");
    let hierarchy =
        if whole.join("cgroup.controllers").exists() { whole.to_owned() } else { whole.join("cpu") };
    hierarchy.join(root.trim_start_matches('/')).join("kubepods")
}

/// Removes the cluster's cgroup and all below. Its processes must have ended.
pub(super) fn remove(name: &str) -> Result<()> {
    for root in folders(name)? {
        // A cgroup stays busy for a moment after its last process.
        wait_until(Duration::from_secs(10), || remove_tree(&root).is_ok()).with_context(|| {
            format!("cannot remove the cgroup {}: processes are still in it", root.display())
        })?;
    }
    Ok(())
}

fn remove_tree(folder: &Path) -> std::io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

fn folders(name: &str) -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    Ok(hierarchies(&mounts).map(|hierarchy| hierarchy.join(format!("scavenger-{name}"))).collect())
}

fn hierarchies(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (target, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup" || kind == "cgroup2").then(|| PathBuf::from(target))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_the_hierarchies_of_both_versions() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found: Vec<_> = super::hierarchies(mounts).map(|path| path.display().to_string()).collect();
        assert_eq!(found, ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"]);
    }
}
