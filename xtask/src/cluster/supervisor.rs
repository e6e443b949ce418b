//! Asks the supervisor of a running cluster for what runs only on request.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Cluster;

impl Cluster {
    /// Asks for it, and returns when it works; the supervisor's complaint is the error.
    pub(super) fn ask_for(&self, what: &str, arguments: &[&str]) -> Result<()> {
        let mut devnode = Command::new(self.binary("devnode"));
        devnode.arg(what).arg(self.file()).args(arguments);
        let output = devnode.output().context("cannot run the cluster's supervisor")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}
