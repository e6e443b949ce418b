//! Where pods of ScavengerJobs must not be: nodes of the pool that are closed to new pods, and nodes outside the pool.

use std::collections::BTreeSet;

use super::node::Entry;
use crate::values::Name;

/// The nodes where new pods, or any pods, of ScavengerJobs must not be; kept up to date change by change.
#[derive(Debug, Clone, Default)]
pub(super) struct Borders {
    /// Nodes of the pool that are closed to new pods.
    pub(super) closed: BTreeSet<Name>,
    /// Nodes outside the pool with pods of ScavengerJobs on them.
    pub(super) outside: BTreeSet<Name>,
}

impl Borders {
    /// Takes in what became of a node.
    pub(super) fn set(&mut self, name: &Name, entry: &Entry) {
        // Of a node that is gone nothing is known; its pods are deleted by the garbage collector.
        let outside = entry.node.is_some() && !entry.is_eligible() && !entry.scavengers.is_empty();
        for (set, is_in) in [(&mut self.closed, entry.closed().is_some()), (&mut self.outside, outside)] {
            if is_in != set.contains(name) {
                if is_in {
                    set.insert(name.clone())
                } else {
                    set.remove(name)
                };
            }
        }
    }

    /// True if this is what follows from the nodes.
    pub(super) fn are_right<'a>(&self, nodes: impl Iterator<Item = (&'a Name, &'a Entry)>) -> bool {
        let mut truth = Self::default();
        for (name, entry) in nodes {
            truth.set(name, entry);
        }
        (truth.closed, truth.outside) == (self.closed.clone(), self.outside.clone())
    }
}
