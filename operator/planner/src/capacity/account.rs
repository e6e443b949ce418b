//! How a node is counted: by what pods request, or by what ordinary pods really use.
//!
//! A node that is counted by use has an [`Account`], which [`crate::node_use`] makes from samples. Its cpu and memory are
//! then filled up to a limit of its own with what ordinary pods are expected to use and with what ScavengerJobs hold: their
//! limits, since their pods request next to nothing. Everything else (devices, scratch space, pods) is counted by requests
//! as on any node, for kube-scheduler binds by these.
//!
//! kube-scheduler counts requests on such a node, too. So the pods that it places by requests, those of a gang for example,
//! must find capacity by both.

use std::collections::BTreeMap;

use crate::values::{Key, resources::Resources};

/// How the cpu and memory of a node are counted by use. The amounts are of cpu and memory alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// What ordinary pods are expected to use at most.
    pub expected: Resources,
    /// Bytes of memory that pods of ScavengerJobs hold and are not expected to use.
    pub spares: BTreeMap<Key, i64>,
    /// How far the node may be filled now.
    pub limit: Resources,
    /// How far it may be filled at best, whatever ordinary pods use and whatever window holds.
    pub most: Resources,
    /// How many pods of ScavengerJobs may be there.
    pub most_pods: i64,
    /// False while nothing may be added, since nobody knows what the node uses now.
    pub open: bool,
}

/// Cpu and memory of `amounts`, and nothing else.
pub(crate) fn compute(amounts: &Resources) -> Resources {
    Resources { cpu_milli: amounts.cpu_milli, memory_bytes: amounts.memory_bytes, ..Resources::default() }
}

/// `amounts` without cpu and memory.
pub(crate) fn without_compute(amounts: &Resources) -> Resources {
    amounts.minus(&compute(amounts))
}

/// `amounts` with other amounts of cpu and memory.
pub(super) fn with_compute(amounts: &Resources, compute: &Resources) -> Resources {
    Resources { cpu_milli: compute.cpu_milli, memory_bytes: compute.memory_bytes, ..amounts.clone() }
}

/// The smaller of both, resource by resource of the first.
pub(super) fn smaller(one: &Resources, other: &Resources) -> Resources {
    one.map(|name, amount| amount.min(other.get(name)))
}
