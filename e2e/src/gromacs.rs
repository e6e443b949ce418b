//! What mdrun left in a row's folder: whether its energies go on without a gap, and which steps it computed.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, LogParams};
use serde_json::json;

use crate::{World, world::until};

/// Makes structure and topology of the box in /data/water, from which further run inputs can be made there: box.gro, topol.top.
pub const SYSTEM: &str = r#"
cd /data/water
gmx -quiet -nobackup editconf -f water.tpr -o box.gro
cat >topol.top <<TOPOLOGY
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
Water
[ molecules ]
SOL $(($(sed -n 2p box.gro) / 3))
TOPOLOGY
"#;

/// Prints the checksum of each file.
const SUMS: &str = r#"
cd "$1"
sha256sum -- *
"#;

/// Prints gmx's opinion of the energies, and the lines of md.log that tell where mdrun stopped and began.
const SCRIPT: &str = r#"
cd "$1"
gmx -quiet check -e ener.edr 2>&1 | tr '\r' '\n' | grep -E "don't match|Found .* frames|rror" || true
awk '/Writing checkpoint, step/ { print "checkpoint", $4 }
     /Restarting from checkpoint/ { print "restart" }
     next_is_step { print "step", $1; next_is_step = 0 }
     /^ +Step +Time$/ { next_is_step = 1 }' md.log
"#;

/// What a simulation computed over all of its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computed {
    /// Steps, those that were computed twice counted twice.
    pub steps: i64,
    /// Last step.
    pub last_step: i64,
    /// How often mdrun went on from a checkpoint.
    pub restarts: i64,
    /// Frames of energies.
    pub frames: i64,
}

/// Looks at the folder of a row whose run input is `/data/water/water.tpr`.
///
/// # Errors
/// If the energies are not continuous, or the pod that looks does not succeed.
pub async fn computed(world: &World, id: i64) -> Result<Computed> {
    computed_in(world, id, ".").await
}

/// Like [`computed`], of one of several simulations of a row: that in the folder `folder`.
///
/// # Errors
/// If the energies are not continuous, or the pod that looks does not succeed.
pub async fn computed_in(world: &World, id: i64, folder: &str) -> Result<Computed> {
    let report = look_in(world, id, folder, SCRIPT).await?;
    let computed = energies_go_on(&report).and_then(|()| read(&report));
    computed.with_context(|| format!("row {id}, folder {folder}: {report}"))
}

/// Like [`computed`], of a simulation that was stopped before its end, which leaves a frame of energies of its own.
///
/// # Errors
/// If the pod that looks does not succeed.
pub async fn computed_so_far(world: &World, id: i64) -> Result<Computed> {
    let report = look(world, id, SCRIPT).await?;
    read(&report).with_context(|| format!("row {id}: {report}"))
}

/// SHA-256 of each file in the folder of a row whose run input is `/data/water/water.tpr`.
///
/// # Errors
/// If the pod that looks does not succeed.
pub async fn checksums(world: &World, id: i64) -> Result<BTreeMap<String, String>> {
    let report = look(world, id, SUMS).await?;
    let pairs = report.lines().filter_map(|line| line.split_once("  "));
    Ok(pairs.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect())
}

async fn look(world: &World, id: i64, script: &str) -> Result<String> {
    look_in(world, id, ".", script).await
}

async fn look_in(world: &World, id: i64, folder: &str, script: &str) -> Result<String> {
    let name = format!("check-{id}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "check", "image": "scavenger.dev/gromacs:2022.5", "imagePullPolicy": "IfNotPresent",
                "command": ["bash", "-euc", script, "check", format!("/data/water/gromacs-{id}/{folder}")],
                "resources": { "requests": { "cpu": "10m" } },
                "volumeMounts": [{ "name": "data", "mountPath": "/data", "readOnly": true }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "simulations" } }],
        },
    });
    world.create::<Pod>(pod).await?;
    let pods = world.api::<Pod>();
    until(&format!("the folder of row {id} is checked"), || async {
        let phase = pods.get(&name).await?.status.and_then(|status| status.phase).unwrap_or_default();
        ensure!(phase != "Failed", "pod {name} failed");
        Ok((phase == "Succeeded").then_some(()))
    })
    .await?;
    let report = pods.logs(&name, &LogParams::default()).await?;
    pods.delete(&name, &DeleteParams::default()).await?;
    Ok(report)
}

fn energies_go_on(report: &str) -> Result<()> {
    if let Some(line) = report.lines().find(|line| line.contains("don't match") || line.contains("rror")) {
        bail!("gmx check finds the energies not continuous: {}", line.trim());
    }
    Ok(())
}

fn read(report: &str) -> Result<Computed> {
    let frames = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("Found")?.split_whitespace().next()?.parse().ok())
        .context("gmx check found no energies")?;
    let mut computed = Computed { steps: 0, last_step: 0, restarts: 0, frames };
    let (mut start, mut checkpoint, mut last) = (0, None, 0);
    for line in report.lines() {
        let number = || line.split_whitespace().nth(1).and_then(|step| step.parse::<i64>().ok());
        if line.starts_with("checkpoint ") {
            checkpoint = number();
            last = last.max(checkpoint.unwrap_or(0));
        } else if line.starts_with("step ") {
            last = last.max(number().unwrap_or(0));
        } else if line == "restart" {
            let from = checkpoint.context("mdrun was restarted without a checkpoint")?;
            computed.steps += last - start;
            computed.restarts += 1;
            (start, last) = (from, from);
        }
    }
    computed.steps += last - start;
    computed.last_step = last;
    Ok(computed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_were_computed_twice_count_twice() {
        let report = "Found 31 frames with a timestep of 0.2 ps.\nstep 0\ncheckpoint 480\nstep 1320\ncheckpoint 1320\n\
                      restart\nstep 1320\ncheckpoint 1500\nstep 1700\nrestart\nstep 1500\nstep 3000\ncheckpoint 3000\n";
        let computed = read(report).unwrap();
        assert_eq!(computed, Computed { steps: 1320 + 380 + 1500, last_step: 3000, restarts: 2, frames: 31 });
    }

    #[test]
    fn gaps_are_found() {
        assert!(energies_go_on("Found 3 frames\nTimesteps at t=2 don't match (0.2, 0.4)\n").is_err());
        assert!(read("step 0\nrestart\n").is_err());
        assert!(read("Found 3 frames\nrestart\n").is_err());
    }
}
