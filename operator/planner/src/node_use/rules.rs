//! What the settings say of a node that is counted by use.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::NodeUse;
use crate::values::{Name, Node, Settings, UsageRules, resources::Share};

fn has_all(node: &Node, labels: &BTreeMap<Name, Name>) -> bool {
    labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

impl UsageRules {
    /// True if the node is counted by use, as far as its labels have a say.
    #[must_use]
    pub fn select(&self, node: &Node) -> bool {
        has_all(node, &self.node_selector)
    }

    /// True if the node's kubelet keeps whole cores for Guaranteed pods.
    pub(super) fn keeps_cores(&self, node: &Node) -> bool {
        !self.static_cpu_selector.is_empty() && has_all(node, &self.static_cpu_selector)
    }
}

impl Settings {
    /// True if the planner chooses the nodes of ScavengerJobs that have one pod.
    #[must_use]
    pub fn places_by_use(&self) -> bool {
        self.usage.as_ref().is_some_and(|rules| !rules.dry_run)
    }

    /// Above which share of the memory or cpu of a node that is counted by use ScavengerJobs go.
    #[must_use]
    pub(crate) fn interrupts_above(&self, node: &Node, resource: &str) -> Share {
        let least = self.start_thresholds_of(node).share(resource).max(Share::from_fraction(0.95));
        self.headroom_of(node).threshold(resource).unwrap_or(least)
    }
}

impl NodeUse {
    /// Millicores that the node's kubelet keeps for single pods. What these use is in what the node uses, too; how much of it
    /// that is nobody knows, so what is free is rather too little than too much.
    pub(super) fn kept_cores(&self, node: &Node, rules: &UsageRules, now: Timestamp) -> i64 {
        if rules.keeps_cores(node) { self.ordinary.kept_for(&node.name, rules.window, now) } else { 0 }
    }
}
