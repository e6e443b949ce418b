//! The cluster's metrics-server, for `kubectl top` and the API `metrics.k8s.io`.

use anyhow::{Context, Result};

use super::Cluster;
use crate::progress::Task;

/// Port of the metrics-server on the node.
const PORT: u16 = 4443;

impl Cluster {
    /// Makes sure that the metrics-server runs and that the API server reaches it.
    pub(super) fn ensure_metrics_server(&self) -> Result<()> {
        let task = Task::start("starting the metrics-server");
        self.ask_for("metrics-server", &[]).context("cannot start the metrics-server")?;
        task.done(format!("the metrics-server is at {}:{PORT}", self.node_address));
        Ok(())
    }
}
