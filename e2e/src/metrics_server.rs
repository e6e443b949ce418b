//! The metrics-server of the tests' cluster: one of its processes, which nobody starts again when it has ended.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::process::Command;

use crate::{
    halted::{Halted, is_running},
    world::until,
};

fn programs() -> Result<PathBuf> {
    let kubectl = std::env::var_os(crate::KUBECTL).context("the tests have no cluster of their own")?;
    Ok(Path::new(&kubectl).parent().context("kubectl is in no folder")?.to_owned())
}

/// Halts it: who asks it gets no answer.
///
/// # Errors
/// If it is not found on this machine.
pub fn halt() -> Result<Halted> {
    Halted::program(&programs()?.join("metrics-server"))
}

/// Ends it, and starts it again as the cluster did: it begins without any sample.
///
/// # Errors
/// If it is not found on this machine, or does not start.
pub async fn restart() -> Result<()> {
    halt()?.kill()?;
    let programs = programs()?;
    let cluster = programs.parent().context("the cluster's programs are in no folder")?.join("cluster.json");
    until("the metrics-server runs again", || async {
        // Until the cluster has seen the end of the first one it takes that for the answer to this request.
        let output =
            Command::new(programs.join("devnode")).arg("metrics-server").arg(&cluster).output().await?;
        let runs = output.status.success() && is_running(&programs.join("metrics-server"))?;
        Ok(runs.then_some(()))
    })
    .await
}
