//! What a NetworkPolicy that forbids egress does to a pod, done by hand: the network of the development cluster enforces
//! none.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// From now on nothing that a pod sends arrives anywhere, and nobody answers. The rule goes with the pod. Returns false while the
/// pod has no network yet; asked again and again from its creation on, the rule is there before its containers.
///
/// # Errors
/// If this program may not enter its network.
pub fn forbid(pod: &Pod) -> Result<bool> {
    let uid = pod.uid().context("the pod has no UID")?;
    // The process that holds the network. Others of a pod can still be in the network of the node when they start.
    let holds_network = |entry: &fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        read("comm").trim_end() == "pause" && read("cgroup").contains(&uid)
    };
    let Some(process) = fs::read_dir("/proc")?.flatten().find(holds_network) else { return Ok(false) };
    let done = Command::new("nsenter")
        .arg(format!("--net={}", process.path().join("ns/net").display()))
        .args(["iptables", "--wait", "--insert", "OUTPUT", "!", "--out-interface", "lo", "--jump", "DROP"])
        .output()
        .context("cannot start nsenter")?;
    let why = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "egress of pod {} cannot be forbidden: {}", pod.name_any(), why.trim());
    Ok(true)
}
