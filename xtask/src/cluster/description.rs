//! What a cluster is called, where its files are and which addresses it has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::{STATE_ROOT, binaries::Kubernetes, cgroups, processes};

/// A cluster's description, as `cmd/devnode` reads it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// Tells clusters apart in addresses and device names.
    number: u8,
    pub(super) kubernetes: Kubernetes,
    pub(super) state_dir: PathBuf,
    pub(super) bin_dir: PathBuf,
    pub(crate) node_name: String,
    pub(super) host_device: String,
    pub(super) network: String,
    pub(super) host_address: String,
    /// Where the host reaches the API server and NodePorts.
    pub(crate) node_address: String,
    pod_cidr: String,
    service_cidr: String,
    api_service_address: String,
    dns_service_address: String,
    cgroup_root: String,
    pause_image: String,
    volume_count: u32,
}

impl Cluster {
    /// Describes a new cluster. `number` must not be in use.
    pub(super) fn new(name: &str, number: u8, kubernetes: Kubernetes) -> Self {
        let state_dir = state_dir(name);
        Self {
            name: name.into(),
            number,
            kubernetes,
            bin_dir: state_dir.join("bin"),
            state_dir,
            node_name: "scavenger-node".into(),
            host_device: format!("scavenger{number}"),
            network: format!("10.231.{number}.0/30"),
            host_address: format!("10.231.{number}.1"),
            node_address: format!("10.231.{number}.2"),
            pod_cidr: format!("10.232.{number}.0/24"),
            service_cidr: format!("10.233.{number}.0/24"),
            api_service_address: format!("10.233.{number}.1"),
            dns_service_address: format!("10.233.{number}.10"),
            cgroup_root: format!("/scavenger-{name}"),
            pause_image: "scavenger.dev/pause:1".into(),
            volume_count: 100,
        }
    }

    /// The cluster of this name, if it runs.
    pub(crate) fn running(name: &str) -> Result<Self> {
        if processes::init(name)?.is_none() {
            bail!("there is no cluster {name}: start it with `cargo xtask cluster up --name {name}`");
        }
        Self::read(name)?.with_context(|| {
            format!(
                "the cluster {name} runs but its files are gone: run `cargo xtask cluster down --name {name}`"
            )
        })
    }

    /// What `up` wrote down about the cluster, whether it runs or not.
    pub(super) fn read(name: &str) -> Result<Option<Self>> {
        let path = file(name);
        match fs::read(&path) {
            // A file that was cut short is as good as none.
            Ok(content) => Ok(serde_json::from_slice(&content).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    pub(super) fn write(&self) -> Result<()> {
        let content = serde_json::to_vec_pretty(self).expect("should be a plain structure");
        fs::write(self.file(), content).with_context(|| format!("cannot write {}", self.file().display()))
    }

    pub(super) fn file(&self) -> PathBuf {
        file(&self.name)
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state_dir.join("pki/admin.kubeconfig")
    }

    pub(super) fn containerd_socket(&self) -> PathBuf {
        self.state_dir.join("containerd.sock")
    }

    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// What a shell needs to use the cluster: KUBECONFIG, and a PATH that has kubectl.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("KUBECONFIG", self.kubeconfig().display().to_string()),
            ("PATH", format!("{}:$PATH", self.tools().display())),
        ]
    }

    /// The folder with the cgroups of its pods, on this machine and on its node.
    pub(crate) fn kubepods(&self) -> PathBuf {
        cgroups::kubepods(&self.cgroup_root)
    }

    /// A folder with kubectl and nothing else.
    pub(crate) fn tools(&self) -> PathBuf {
        self.state_dir.join("tools")
    }
}

pub(super) fn state_dir(name: &str) -> PathBuf {
    Path::new(STATE_ROOT).join(name)
}

fn file(name: &str) -> PathBuf {
    state_dir(name).join("cluster.json")
}

/// Names of all clusters that have files on this machine.
pub(super) fn names() -> Result<Vec<String>> {
    let entries = match fs::read_dir(STATE_ROOT) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot list {STATE_ROOT}"))?,
    };
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, std::io::Error>>()
        .with_context(|| format!("cannot list {STATE_ROOT}"))
}

/// A number that neither another cluster nor any of the host's `taken` addresses uses. The well-known names
/// keep theirs, so that addresses in a terminal's history stay true.
pub(super) fn free_number(name: &str, taken_addresses: &str) -> Result<u8> {
    let mut taken = BTreeSet::new();
    for other in names()? {
        if other != name {
            taken.extend(Cluster::read(&other)?.map(|cluster| cluster.number));
        }
    }
    choose_number(name, &taken, taken_addresses)
}

fn choose_number(name: &str, taken: &BTreeSet<u8>, taken_addresses: &str) -> Result<u8> {
    let favourite = match name {
        "dev" => 1,
        "test" => 2,
        _ => 3,
    };
    let is_free =
        |number: &u8| !taken.contains(number) && !taken_addresses.contains(&format!("10.231.{number}."));
    (favourite..=254)
        .chain(3..favourite)
        .find(is_free)
        .context("no network of the form 10.231.N.0/30 is free on this machine")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_not_shared() {
        assert_eq!(choose_number("dev", &BTreeSet::new(), "").unwrap(), 1);
        assert_eq!(choose_number("dev", &BTreeSet::new(), "2: eth0 inet 10.231.1.7/24").unwrap(), 2);
        assert_eq!(choose_number("other", &BTreeSet::from([1, 3]), "").unwrap(), 4);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let cluster = Cluster::new("dev", 1, Kubernetes::default());
        let text = serde_json::to_string(&cluster).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&text).unwrap().node_address, "10.231.1.2");
    }
}
