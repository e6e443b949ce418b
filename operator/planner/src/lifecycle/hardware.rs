//! On which hardware an attempt runs: what its pods' nodes say of themselves, written down before the pods are gone.

use std::{collections::BTreeMap, sync::Arc};

use scavenger_vocabulary::hardware;

use super::known::Known;
use crate::values::{
    Attempt, AttemptNode, Name, Node,
    resources::{CPU, MEMORY, Resources},
};

/// More kinds are not told. A gang mostly has one.
const MOST_KINDS: usize = 4;

/// What tells one kind of nodes from another.
type Kind = (BTreeMap<Name, Name>, Resources);

/// The nodes of an attempt's pods, one of each kind; empty if none has a node. A node that is not seen has no resources.
#[must_use]
pub(crate) fn of_attempt(known: &Known<'_>, attempt: &Attempt) -> Vec<AttemptNode> {
    let mut kinds: BTreeMap<Kind, (Name, u32)> = BTreeMap::new();
    let of_attempt = known
        .pods
        .values()
        .filter(|pod| pod.owner.as_ref().is_some_and(|(_, number)| *number == attempt.number));
    for name in of_attempt.filter_map(|pod| pod.node.as_ref()) {
        let kind = known.capacity.node(name).map(|room| kind_of(room.node)).unwrap_or_default();
        let (first, pods) = kinds.entry(kind).or_insert_with(|| (Arc::clone(name), 0));
        *pods += 1;
        if name < first {
            *first = Arc::clone(name);
        }
    }
    kinds
        .into_iter()
        .take(MOST_KINDS)
        .map(|((labels, allocatable), (name, pod_count))| AttemptNode {
            requested: known.capacity.node(&name).map(|room| of_hardware(room.used)).unwrap_or_default(),
            name,
            pod_count,
            labels,
            allocatable,
        })
        .collect()
}

fn kind_of(node: &Node) -> Kind {
    let labels = node.labels.iter().filter(|(label, _)| hardware::is_told_by(label));
    let labels = labels.map(|(label, value)| (Arc::clone(label), Arc::clone(value))).collect();
    (labels, of_hardware(&node.allocatable))
}

/// CPU, memory and devices of `all`.
fn of_hardware(all: &Resources) -> Resources {
    // Devices have names with a domain; scratch space, huge pages and places for pods tell nothing of the hardware.
    let tells = |name: &str| name == CPU || name == MEMORY || name.contains('/');
    let other = all.other.iter().filter(|(name, amount)| tells(name) && **amount > 0);
    let other = other.map(|(name, amount)| (Arc::clone(name), *amount)).collect();
    Resources { cpu_milli: all.cpu_milli, memory_bytes: all.memory_bytes, pods: 0, other }
}
