//! Limits of single nodes, in a pool that has groups of nodes with thresholds of their own (`values::NodeGroup`).
//!
//! Each node is then filled up to the threshold of its group, or the pool's if it is in none. One sum over the pool would not
//! do: ScavengerJobs could fill some nodes to the brim on account of others that are empty and may be filled further.
//! kube-scheduler knows none of these limits, so the planner chooses the node of each ScavengerJob that has one pod.

use crate::values::{
    Node, Settings,
    resources::{Resources, Share, Thresholds},
};

/// The limit of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnLimit {
    /// Number of its group in the settings; none if the pool's thresholds hold for it.
    pub(super) group: Option<usize>,
    /// How far it may be filled now.
    pub(super) limit: Resources,
    /// The same whatever window holds.
    pub(super) most: Resources,
}

impl OwnLimit {
    /// None if the pool's thresholds hold for all nodes together.
    pub(super) fn of(node: &Node, settings: &Settings) -> Option<Box<Self>> {
        if settings.node_groups.is_empty() {
            return None;
        }
        let group = settings.group_of(node);
        let limit = settings.start_thresholds_of(node).of(&node.allocatable);
        let most = settings.highest_thresholds_of(node).of(&node.allocatable);
        Some(Box::new(Self { group, limit, most }))
    }
}

/// The share of a resource up to which nodes may be filled, for messages: as it is set, or as it comes out over nodes with
/// different limits.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn share(thresholds: &Thresholds, limit: &Resources, all: &Resources, resource: &str) -> Share {
    match all.get(resource) {
        whole if whole <= 0 || thresholds.share(resource).of(whole) == limit.get(resource) => {
            thresholds.share(resource)
        }
        whole => Share::from_fraction(limit.get(resource) as f64 / whole as f64),
    }
}
