//! The cluster's own registry: Debian's docker-registry, which asks for a user and a password.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Cluster, binaries};
use crate::cache::{self, Key};
use crate::progress::Task;

/// The Debian package, and the name of its program.
const REGISTRY: &str = "docker-registry";

/// User and password of every cluster's registry, as `deploy/devcluster/config/registry.htpasswd` has them.
pub(crate) const LOGIN: (&str, &str) = ("scavenger", "pull");

/// Port of the registry on the node, and of what a test puts in front of it on the host.
const PORT: u16 = 5000;

/// The registry's program, unpacked into the cache and not installed: its package starts a service.
pub(crate) fn program() -> Result<PathBuf> {
    let folder = cache::entry(REGISTRY, &Key::new("bookworm"), |folder| {
        in_folder(folder, "apt-get", &["download", "--quiet", REGISTRY])?;
        in_folder(folder, "sh", &["-c", "dpkg-deb --extract docker-registry_*.deb ."])
    })?;
    Ok(folder.join("usr/bin").join(REGISTRY))
}

fn in_folder(folder: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot unpack the Debian package {REGISTRY}: {}", said.trim());
    Ok(())
}

impl Cluster {
    /// Makes sure that the registry runs.
    pub(super) fn ensure_registry(&self) -> Result<()> {
        let task = Task::start("starting the registry");
        binaries::link(&[(REGISTRY, program()?)].into(), &self.bin_dir)?;
        self.ask_for("registry", &[]).context("cannot start the registry")?;
        task.done(format!("the registry is at {}", self.registry()));
        Ok(())
    }

    /// Where the registry listens, for the host and for the node.
    pub(crate) fn registry(&self) -> String {
        format!("{}:{PORT}", self.node_address)
    }

    /// Where a test may listen to answer the node in the registry's place.
    pub(crate) fn registry_front(&self) -> String {
        format!("{}:{PORT}", self.host_address)
    }
}
