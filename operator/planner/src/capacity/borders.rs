//! Where pods of ScavengerJobs must not be: nodes of the pool that are closed to new pods, and nodes outside the pool.

use std::collections::BTreeSet;

use super::{Capacity, Entry, Shortage};
use crate::values::{Confinement, Name, Node, Settings};

/// So many nodes are kept out of a Job by name at most: each name is a requirement in every pod of every Job. Where more
/// are closed nothing starts, since kube-scheduler could not be kept off the others.
const MAX_CLOSED: usize = 50;

/// True if a new pod must not go to a node of the pool now, although kube-scheduler might choose it. A node that is not
/// ready or cordoned has a taint that keeps pods away, and is not closed for that.
pub(crate) fn is_closed(node: &Node) -> bool {
    node.full
}

/// The nodes where new pods, or any pods, of ScavengerJobs must not be; kept up to date change by change.
#[derive(Debug, Clone, Default)]
pub(super) struct Borders {
    /// Nodes of the pool that are closed to new pods.
    closed: BTreeSet<Name>,
    /// Nodes outside the pool with pods of ScavengerJobs on them.
    outside: BTreeSet<Name>,
}

impl Borders {
    /// Takes in what became of a node.
    pub(super) fn set(&mut self, name: &Name, entry: &Entry) {
        let closed = entry.eligible && entry.node.as_ref().is_some_and(is_closed);
        // Of a node that is gone nothing is known; its pods are deleted by the garbage collector.
        let outside = entry.node.is_some() && !entry.eligible && !entry.scavengers.is_empty();
        for (set, is_in) in [(&mut self.closed, closed), (&mut self.outside, outside)] {
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

impl Capacity {
    /// Where the pods of a new Job may go: what the pool adds to what their ScavengerJob says. A node that becomes closed
    /// between the Job and the binding of its pods is not kept off.
    ///
    /// # Errors
    /// Why no Job can be made now.
    pub(crate) fn confinement(&self, settings: &Settings) -> Result<Confinement, Shortage> {
        match self.too_many_closed() {
            None => Ok(Confinement::to_pool(settings, &self.borders.closed)),
            Some(shortage) => Err(shortage),
        }
    }

    /// Why nothing can start, if more nodes are closed to new pods than a Job can name.
    pub(super) fn too_many_closed(&self) -> Option<Shortage> {
        let closed = self.borders.closed.len();
        (closed > MAX_CLOSED).then(|| Shortage {
            resource: None,
            left: i64::try_from(self.eligible_nodes.saturating_sub(closed)).unwrap_or(i64::MAX),
            whole: i64::try_from(self.eligible_nodes).unwrap_or(i64::MAX),
            message: format!(
                "{closed} nodes of the pool are closed to new pods; pods can be kept off at most {MAX_CLOSED} by name, so \
                 none starts until fewer are closed"
            ),
        })
    }

    /// Nodes outside the pool with pods of ScavengerJobs on them. Without settings every node is outside.
    #[must_use]
    pub fn outside(&self) -> &BTreeSet<Name> {
        &self.borders.outside
    }
}
