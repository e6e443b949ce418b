//! Nodes with thresholds of their own.
//!
//! In a pool with groups start thresholds hold on each node, that of its group or the pool's: the planner chooses the node
//! then. Windows of time concern the nodes without a group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Filling, Headroom, Name, Node, Settings};
use crate::values::resources::Thresholds;

/// Nodes with thresholds of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGroup {
    /// What people call it.
    pub name: Name,
    /// Labels that each of its nodes has.
    pub node_selector: BTreeMap<Name, Name>,
    /// What holds on them.
    pub filling: Filling,
}

impl Settings {
    /// The number of the group of a node: the first one whose labels it has; none if the pool's thresholds hold for it.
    #[must_use]
    pub fn group_of(&self, node: &Node) -> Option<usize> {
        let has = |(key, value): (&Name, &Name)| node.labels.get(key) == Some(value);
        self.node_groups.iter().position(|group| group.node_selector.iter().all(has))
    }

    fn filling_of(&self, node: &Node) -> Option<&Filling> {
        Some(&self.node_groups[self.group_of(node)?].filling)
    }

    /// Up to where ScavengerJobs may fill a node now.
    #[must_use]
    pub fn start_thresholds_of(&self, node: &Node) -> &Thresholds {
        self.filling_of(node).map_or(&self.start_thresholds, |filling| &filling.start_thresholds)
    }

    /// Up to where ScavengerJobs may fill a node when they may fill it the most.
    #[must_use]
    pub fn highest_thresholds_of(&self, node: &Node) -> &Thresholds {
        self.filling_of(node).map_or_else(|| self.highest_thresholds(), |filling| &filling.start_thresholds)
    }

    /// When ScavengerJobs go from a node, or from those like it.
    #[must_use]
    pub fn headroom_of(&self, node: &Node) -> &Headroom {
        self.filling_of(node).map_or(&self.headroom, |filling| &filling.headroom)
    }

    /// True if the planner chooses the nodes of ScavengerJobs that have one pod, and not kube-scheduler: by what is really
    /// used, or because nodes have limits of their own.
    #[must_use]
    pub fn chooses_nodes(&self) -> bool {
        self.places_by_use() || !self.node_groups.is_empty()
    }
}
