//! What a cluster says about itself.

use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{Cluster, processes};

/// The supervisor's status file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    pub(super) phase: Phase,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    #[default]
    Starting,
    Ready,
    Failed,
}

#[derive(Debug, Deserialize)]
struct Component {
    name: String,
    state: String,
    #[serde(default)]
    detail: String,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Failed => "failed",
        })
    }
}

impl Status {
    /// Before the supervisor has written anything, the cluster is starting.
    pub(super) fn read(cluster: &Cluster) -> Result<Self> {
        let path = cluster.state_dir.join("status.json");
        match fs::read(&path) {
            Ok(content) => serde_json::from_slice(&content)
                .with_context(|| format!("cannot understand {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

impl Status {
    /// An error if something has ended that should run.
    pub(super) fn complain(&self, cluster: &Cluster) -> Result<()> {
        let Some(component) = self.components.iter().find(|component| component.state == "ended") else {
            return Ok(());
        };
        let log = cluster.state_dir.join("logs").join(&component.name).with_extension("log");
        bail!(
            "in the cluster {0}, {1} has ended ({2}): see {3}; `cargo xtask cluster down --name {0}`, then up, renews it",
            cluster.name,
            component.name,
            component.detail,
            log.display()
        )
    }
}

/// Prints what runs. An error if the cluster does not, or not all of it.
pub(super) fn print(name: &str) -> Result<()> {
    let Some(cluster) = Cluster::read(name)? else { bail!("there is no cluster {name}") };
    let status = Status::read(&cluster)?;
    if processes::init(name)?.is_none() {
        let reason = if status.reason.is_empty() { "its processes were killed" } else { &status.reason };
        bail!(
            "the cluster {name} does not run: {reason}; `cargo xtask cluster up --name {name}` starts it again"
        );
    }
    println!("cluster {name}: {} after {:.1} s", status.phase, status.seconds);
    println!("kubeconfig {}", cluster.kubeconfig().display());
    println!("logs       {}", cluster.state_dir.join("logs").display());
    for component in &status.components {
        println!("  {:<24} {:<9} {}", component.name, component.state, component.detail);
    }
    if status.phase == Phase::Ready {
        println!(
            "{}",
            cluster.kubectl_output(&["get", "nodes", "-o", "wide", "--request-timeout=5s"])?.trim_end()
        );
    }
    status.complain(&cluster)
}
