//! Debian packages that a task needs: finds which are missing, and installs or names them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::progress::Task;

/// What the cluster's node runs on beside the programs built from source.
pub(crate) const CLUSTER: &[&str] = &[
    "conntrack",
    "containernetworking-plugins",
    "ethtool",
    "iproute2",
    "iptables",
    "runc",
    // kubectl port-forward
    "socat",
];

/// What tests need beside the cluster: a Postgres server, which each test of the queue starts for itself, a Python for the
/// program that tries the tuner's contract and for workloads that a page shows, the GROMACS with which the probes' scripts
/// and mdrun's words are tried, and faketime for a submitter whose clock is wrong.
pub(crate) const TESTS: &[&str] = &["faketime", "gromacs", "postgresql", "python3", "python3-venv"];

/// The emulated machine of `cargo xtask kernel`, and the disk in it.
pub(crate) const KERNEL: &[&str] = &["e2fsprogs", "python3", "qemu-system-x86"];

/// Makes sure that `wanted` are installed. With `install` false, a missing package is an error that names
/// the command to run.
pub(crate) fn ensure(wanted: &[&str], install: bool) -> Result<()> {
    let missing = missing(wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !install {
        bail!("these Debian packages are missing; run: apt-get install --no-install-recommends {names}");
    }
    let task = Task::start(format!("installing the Debian packages {names}"));
    apt_get(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&missing);
    apt_get(&arguments)?;
    task.done(format!("installed the Debian packages {names}"));
    Ok(())
}

/// Those of `wanted` that are not fully installed.
pub(crate) fn missing<'a>(wanted: &[&'a str]) -> Result<Vec<&'a str>> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\\n"])
        .args(wanted)
        .output()
        .context("dpkg-query does not run: this is not a Debian system")?;
    // It fails when one is unknown to dpkg, and still lists the others.
    let listed = String::from_utf8_lossy(&output.stdout);
    let is_installed = |name: &&str| listed.lines().any(|line| line == format!("{name} installed"));
    Ok(wanted.iter().filter(|name| !is_installed(name)).copied().collect())
}

/// Downloads the package that `name` depends on, such as the newest kernel, into a folder; returns its file.
pub(crate) fn download(name: &str, folder: &Path) -> Result<PathBuf> {
    let task = Task::start(format!("downloading what the Debian package {name} stands for"));
    apt_get(&["update"])?;
    let output = Command::new("apt-cache")
        .args(["depends", "--important", name])
        .output()
        .context("apt-cache does not run: this is not a Debian system")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let newest =
        dependency(&text).with_context(|| format!("Debian has no package {name} for this machine"))?;
    // It downloads into the current folder, as another user if that may write there.
    let downloaded = Command::new("apt-get")
        .args(["--quiet", "-o", "APT::Sandbox::User=root", "download", newest])
        .current_dir(folder)
        .output()
        .context("apt-get does not run: this is not a Debian system")?;
    let files = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let file = files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "deb"));
    let said = String::from_utf8_lossy(&downloaded.stderr);
    let file = file.with_context(|| format!("apt-get download {newest} failed: {}", said.trim()))?;
    task.done(format!("downloaded {newest}"));
    Ok(file)
}

/// The first package that one depends on, in what `apt-cache depends` prints.
fn dependency(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("Depends: "))
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(["--quiet", "-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("apt-get does not run: this is not a Debian system")?;
    if !output.status.success() {
        bail!("apt-get {} failed: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_what_is_missing_and_what_is_there() {
        let missing = super::missing(&["dpkg", "no-such-package-here"]).unwrap();
        assert_eq!(missing, ["no-such-package-here"]);
    }

    #[test]
    fn the_newest_kernel_is_what_its_package_depends_on() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-50-cloud-amd64\n";
        assert_eq!(super::dependency(text), Some("linux-image-6.1.0-50-cloud-amd64"));
        assert_eq!(super::dependency("W: unknown\n"), None);
    }
}
