//! PersistentVolumes.

use serde::{Deserialize, Serialize};

use super::{Key, Name, NodeTerm};

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Name.
    pub name: Name,
    /// The PersistentVolumeClaim that it is bound to.
    pub claim: Option<Key>,
    /// Required node affinity: one of these terms must match. Every node matches if there is none.
    pub affinity: Vec<NodeTerm>,
    /// How many may mount it at a time.
    #[serde(default)]
    pub access: Access,
}

/// How many may mount a PersistentVolume at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Pods on any number of nodes.
    #[default]
    ManyNodes,
    /// The pods of one node: it is attached there.
    OneNode,
    /// One pod.
    OnePod,
}
