//! Which nodes have a label, by its value. Where a placement names a few nodes, as the node affinity of a local volume or
//! of a DaemonSet's pod does, only these have to be looked at to find out which of them admit it.

use std::collections::{BTreeMap, BTreeSet};

use super::node::Entry;
use crate::values::{Name, Named, Node, Placement};

/// Anybody may write any key into a nodeSelector, and each costs a number for every node that has it. Beyond so many all
/// are forgotten, and found out again when a placement names them.
const MOST_KEYS: usize = 64;

/// Numbers of nodes by the value of a label, for the keys that placements have named.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels {
    keys: BTreeMap<Name, BTreeMap<Name, BTreeSet<usize>>>,
}

impl Labels {
    /// A node has other labels, came or went.
    pub(super) fn change(&mut self, slot: usize, before: Option<&Node>, after: Option<&Node>) {
        for (key, values) in &mut self.keys {
            let value = |node: Option<&Node>| node.and_then(|node| node.labels.get(key)).cloned();
            let (before, after) = (value(before), value(after));
            if before == after {
                continue;
            }
            if let Some(before) = before
                && let Some(slots) = values.get_mut(&before)
            {
                slots.remove(&slot);
                if slots.is_empty() {
                    values.remove(&before);
                }
            }
            if let Some(after) = after {
                values.entry(after).or_default().insert(slot);
            }
        }
    }

    /// All nodes that may admit a placement, with their numbers: those that have what its narrowest requirement names.
    pub(super) fn candidates<'a>(
        &mut self,
        placement: &Placement,
        nodes: &'a BTreeMap<Name, Entry>,
        names: &[Option<Name>],
    ) -> Vec<(usize, &'a Node)> {
        let requirements: Vec<Vec<Named<'_>>> = placement.requirements().collect();
        for named in requirements.iter().flatten() {
            if let Named::Label(key, _) = named {
                self.learn(key, nodes);
            }
        }
        let all = |list: Vec<Named<'_>>| {
            let mut slots: BTreeSet<usize> = BTreeSet::new();
            for named in list {
                match named {
                    // Keys are forgotten while others are found out, if a placement names too many.
                    Named::Label(key, value) => {
                        slots.extend(self.keys.get(key)?.get(value).into_iter().flatten());
                    }
                    Named::Node(name) => slots.extend(nodes.get(name).map(|entry| entry.slot)),
                }
            }
            Some(slots)
        };
        let node = |entry: &'a Entry| Some((entry.slot, entry.node.as_ref()?));
        match requirements.into_iter().filter_map(all).min_by_key(BTreeSet::len) {
            Some(narrowest) => {
                let names = narrowest.into_iter().filter_map(|slot| names.get(slot)?.as_ref());
                names.filter_map(|name| nodes.get(name).and_then(node)).collect()
            }
            None => nodes.values().filter_map(node).collect(),
        }
    }

    /// Finds out which nodes have a label of this key, if that is not known.
    fn learn(&mut self, key: &Name, nodes: &BTreeMap<Name, Entry>) {
        if self.keys.contains_key(key) {
            return;
        }
        if self.keys.len() >= MOST_KEYS {
            self.keys.clear();
        }
        let mut values: BTreeMap<Name, BTreeSet<usize>> = BTreeMap::new();
        for entry in nodes.values() {
            if let Some(value) = entry.node.as_ref().and_then(|node| node.labels.get(key)) {
                values.entry(value.clone()).or_default().insert(entry.slot);
            }
        }
        self.keys.insert(key.clone(), values);
    }

    /// True if this is what follows from the nodes.
    #[cfg(any(test, feature = "fixtures"))]
    pub(super) fn are_right(&self, nodes: &BTreeMap<Name, Entry>) -> bool {
        let mut truth = Self::default();
        self.keys.keys().for_each(|key| truth.learn(key, nodes));
        self.keys == truth.keys
    }
}
