//! Debian packages that a task needs: finds which are missing, and installs or names them.

use std::process::Command;

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
}
