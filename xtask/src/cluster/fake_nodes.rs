//! Nodes without containers, for tests at a scale that no single machine has.

use anyhow::{Context, Result};

use super::Cluster;
use crate::progress::Task;

impl Cluster {
    /// Makes sure that KWOK runs and that there are at least `count` fake nodes.
    pub(crate) fn ensure_fake_nodes(&self, count: u32) -> Result<()> {
        let task = Task::start(format!("adding {count} fake nodes"));
        self.ask_for("fake-nodes", &[&count.to_string()]).context("cannot add fake nodes")?;
        task.done(format!("there are {count} fake nodes or more"));
        Ok(())
    }
}
