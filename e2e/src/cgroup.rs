//! The control groups of pods, on the machine on which the node runs: what they used, and a limit that stands for the
//! memory of the node. It can only be done there, and for the limit as root.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

const MEBIBYTE: u64 = 1 << 20;

/// The group of a pod that runs.
#[derive(Debug)]
pub struct PodGroup {
    /// Of the pod: where its processor time is counted.
    processors: PathBuf,
    /// Of all pods of the cluster: where its memory is limited.
    node: NodeMemory,
}

/// The group of all pods of the cluster.
#[derive(Debug, Clone)]
pub struct NodeMemory {
    folder: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl PodGroup {
    /// The group of a pod.
    ///
    /// # Errors
    /// If it does not run on this machine.
    pub fn of(pod: &Pod) -> Result<Self> {
        let uid = pod.uid().context("the pod has no UID")?;
        let (mut processors, mut node) = (None, None);
        for entry in fs::read_dir("/proc")?.flatten() {
            let Ok(groups) = fs::read_to_string(entry.path().join("cgroup")) else { continue };
            for line in groups.lines().filter(|line| line.contains(&uid)) {
                // "9:memory:/scavenger-test/kubepods/.../pod-uid/container", "0::/scavenger-test/kubepods/...".
                let mut fields = line.splitn(3, ':').skip(1);
                let (controllers, path) =
                    (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
                let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
                let Some(own) = parts.iter().position(|part| part.contains(&uid)) else { continue };
                let own: PathBuf = parts[..=own].iter().collect();
                for controller in controllers.split(',') {
                    match controller {
                        "memory" => node = NodeMemory::at(Path::new("/sys/fs/cgroup/memory"), parts[0]),
                        "cpuacct" => processors = Some(Path::new("/sys/fs/cgroup/cpuacct").join(&own)),
                        // Version 2, if it counts anything: with version 1 it can be there beside it.
                        "" if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
                            node = NodeMemory::at(Path::new("/sys/fs/cgroup"), parts[0]);
                            processors = Some(Path::new("/sys/fs/cgroup").join(&own));
                        }
                        _ => {}
                    }
                }
            }
            if let (Some(processors), Some(node)) = (&processors, &node) {
                return Ok(Self { processors: processors.clone(), node: node.clone() });
            }
        }
        anyhow::bail!("pod {} does not run on this machine", pod.name_any())
    }

    /// Processor time that the pod has had.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn processor_time(&self) -> Result<Duration> {
        let read = |name: &str| {
            let file = self.processors.join(name);
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        if self.processors.join("cpuacct.usage").exists() {
            return Ok(Duration::from_nanos(read("cpuacct.usage")?.trim().parse()?));
        }
        let text = read("cpu.stat")?;
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
        Ok(Duration::from_micros(micros.context("cpu.stat has no usage_usec")?.trim().parse()?))
    }

    /// True once nothing of the pod is left on the node.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        !self.processors.exists()
    }

    /// The memory of all pods of its node.
    #[must_use]
    pub fn node(&self) -> &NodeMemory {
        &self.node
    }
}

impl NodeMemory {
    fn at(root: &Path, top: &str) -> Option<Self> {
        let files = [("memory.limit_in_bytes", "memory.usage_in_bytes"), ("memory.max", "memory.current")];
        let folder = root.join(top);
        let (limit, usage) = files.into_iter().find(|(limit, _)| folder.join(limit).exists())?;
        Some(Self { folder, limit, usage })
    }

    /// Leaves so many MiB beside what is used now.
    ///
    /// # Errors
    /// If this program may not write the limit.
    pub fn leave(&self, mebibytes: u64) -> Result<()> {
        // What is only cached would be given back later, and the node would have more than it seemed.
        let reclaim =
            if self.limit == "memory.max" { ("memory.reclaim", "1G") } else { ("memory.force_empty", "0") };
        let _ = fs::write(self.folder.join(reclaim.0), reclaim.1);
        let used: u64 = fs::read_to_string(self.folder.join(self.usage))?.trim().parse()?;
        self.write(&(used + mebibytes * MEBIBYTE).to_string())
    }

    /// Takes the limit away.
    ///
    /// # Errors
    /// If this program may not write it.
    pub fn lift(&self) -> Result<()> {
        self.write(if self.limit == "memory.max" { "max" } else { "-1" })
    }

    fn write(&self, limit: &str) -> Result<()> {
        let file = self.folder.join(self.limit);
        fs::write(&file, limit).with_context(|| format!("cannot write {limit} to {}", file.display()))
    }
}

/// What a pod gets of processors that others want, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// Only what nobody else wants.
    pub idle: bool,
    /// `cpu.weight`, or `cpu.shares` with version 1.
    pub weight: u64,
}

/// The weights of all pods of the cluster that have a group, by folder.
///
/// # Errors
/// If nobody said where the groups are, or they cannot be read.
pub fn weights() -> Result<BTreeMap<PathBuf, Weight>> {
    let root = std::env::var_os(crate::KUBEPODS).context("nobody says where the cgroups of the pods are")?;
    let mut weights = BTreeMap::new();
    let mut folders = vec![PathBuf::from(root)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if !path.is_dir() {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            // Those of the QoS classes are above: "burstable/pod-uid", "kubepods-burstable.slice/kubepods-burstable-podUID.slice".
            if !name.contains("pod") || name.starts_with("kubepods") && !name.contains("-pod") {
                folders.push(path);
            } else if let Some(weight) = Weight::read(&path) {
                weights.insert(path, weight);
            }
        }
    }
    Ok(weights)
}

impl Weight {
    /// Of a pod that runs.
    ///
    /// # Errors
    /// If it has no group on this machine.
    pub fn of(pod: &Pod) -> Result<Self> {
        let uid = pod.uid().context("the pod has no UID")?;
        let names = [uid.clone(), uid.replace('-', "_")];
        let is_its = |path: &Path| names.iter().any(|name| path.to_string_lossy().contains(name));
        let found = weights()?.into_iter().find(|(path, _)| is_its(path));
        Ok(found.with_context(|| format!("pod {} has no cgroup on this machine", pod.name_any()))?.1)
    }

    /// None if the group has gone meanwhile.
    fn read(folder: &Path) -> Option<Self> {
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let weight = number("cpu.weight").or_else(|| number("cpu.shares"))?;
        Some(Self { idle: number("cpu.idle") == Some(1), weight })
    }
}

/// Processor time that the whole machine has spent on work, and all that it had: of all cores, in ticks.
///
/// # Errors
/// If it cannot be read.
pub fn machine() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line =
        text.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat has no cpu")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("/proc/stat has no numbers")?;
    // The first eight: what guests use is in them already. Idle, and waiting for disks.
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}
