//! What is looked at on a node, and for whom.

use crate::values::{Node, Placement, resources::Resources};

/// What is looked at on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// What is free now.
    Now,
    /// What would be free if no ScavengerJob were there.
    WithoutScavengers,
    /// The whole node, as it is when it is ready and not cordoned.
    Empty,
}

impl View {
    pub(crate) const ALL: [Self; VIEWS] = [Self::Now, Self::WithoutScavengers, Self::Empty];

    /// True if pods of a placement may go to a node.
    pub(crate) fn admits(self, placement: &Placement, node: &Node) -> bool {
        match self {
            Self::Now | Self::WithoutScavengers => placement.admits(node),
            Self::Empty => placement.admits_when_ready(node),
        }
    }

    /// The same in each view. What a node does not admit when it is ready it admits in no view.
    pub(super) fn all_admit(placement: &Placement, node: &Node) -> [bool; VIEWS] {
        let empty = placement.admits_when_ready(node);
        let now = empty && placement.admits(node);
        [now, now, empty]
    }
}

/// For whom what is free on a node is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// For those that kube-scheduler places by what they request. On nodes that are counted by use, both must suffice.
    Requests,
    /// For those that the planner places by what is really used, or that must stay below limits of nodes. Empty while there
    /// are neither.
    Usage,
}

/// Rows of all tables.
pub(super) const TABLES: usize = 2 * VIEWS;
pub(super) const VIEWS: usize = 3;

/// What is free on one node in each view of each table; none if the node does not count there.
pub(crate) type Rooms = [Option<Resources>; TABLES];
