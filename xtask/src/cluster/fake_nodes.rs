//! Nodes without containers, for tests at a scale that no single machine has.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Cluster;
use crate::progress::Task;

impl Cluster {
    /// Makes sure that KWOK runs and that there are at least `count` fake nodes.
    pub(crate) fn ensure_fake_nodes(&self, count: u32) -> Result<()> {
        let task = Task::start(format!("adding {count} fake nodes"));
        let output = Command::new(self.binary("devnode"))
            .arg("fake-nodes")
            .arg(self.file())
            .arg(count.to_string())
            .output()
            .context("cannot run the cluster's supervisor")?;
        if !output.status.success() {
            bail!("cannot add fake nodes: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        task.done(format!("there are {count} fake nodes or more"));
        Ok(())
    }
}
