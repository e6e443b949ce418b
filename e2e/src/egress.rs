//! What a NetworkPolicy that forbids egress does to a pod, done by hand: the network of the development cluster enforces
//! none.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// From now on nothing that a pod sends arrives anywhere, and nobody answers. The rule goes with the pod.
///
/// # Errors
/// If the pod does not run on this machine, or this program may not enter its network.
pub fn forbid(pod: &Pod) -> Result<()> {
    let uid = pod.uid().context("the pod has no UID")?;
    let is_of_pod = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("cgroup")).is_ok_and(|groups| groups.contains(&uid))
    };
    let process = fs::read_dir("/proc")?.flatten().find(is_of_pod);
    let process =
        process.with_context(|| format!("pod {} does not run on this machine", pod.name_any()))?.path();
    let done = Command::new("nsenter")
        .arg(format!("--net={}", process.join("ns/net").display()))
        .args(["iptables", "--wait", "--insert", "OUTPUT", "!", "--out-interface", "lo", "--jump", "DROP"])
        .output()
        .context("cannot start nsenter")?;
    let why = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "egress of pod {} cannot be forbidden: {}", pod.name_any(), why.trim());
    Ok(())
}
