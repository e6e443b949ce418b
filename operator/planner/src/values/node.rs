//! Nodes, and what was measured on them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Name;
use crate::values::resources::Resources;

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Name.
    pub name: Name,
    /// What it has for pods.
    pub allocatable: Resources,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// True if it is ready, schedulable and under no pressure.
    pub usable: bool,
    /// The pressure condition that it has: MemoryPressure, DiskPressure or PIDPressure.
    pub pressure: Option<Name>,
    /// True if its kubelet is there and says that it is ready, be the node cordoned or not.
    pub ready: bool,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key.
    pub key: Name,
    /// Value, or nothing.
    pub value: Name,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: Name,
}

impl Taint {
    /// True if pods that do not tolerate it cannot go there.
    #[must_use]
    pub fn repels(&self) -> bool {
        matches!(&*self.effect, "NoSchedule" | "NoExecute")
    }

    /// True for a taint that Kubernetes itself sets while a node is cordoned, not ready or under pressure, and takes
    /// away again. [`Node::usable`] stands for all of them.
    #[must_use]
    pub fn passes(&self) -> bool {
        Self::is_passing(&self.key)
    }

    /// The same of every taint with this key.
    #[must_use]
    pub fn is_passing(key: &str) -> bool {
        key.starts_with("node.kubernetes.io/")
    }
}

/// What a node really uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The node.
    pub node: Name,
    /// CPU: the mean over the time before, usually 15 s, in millicores.
    #[serde(default)]
    pub cpu_milli: i64,
    /// Working set, in bytes.
    pub memory_bytes: i64,
    /// When it was measured.
    pub time: Timestamp,
}
