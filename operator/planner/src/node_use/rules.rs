//! What the settings say of a node that is counted by use.

use crate::{
    resources::Share,
    values::{Node, Settings, UsageRules},
};

impl UsageRules {
    /// True if the node is counted by use, as far as its labels have a say.
    #[must_use]
    pub fn select(&self, node: &Node) -> bool {
        self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
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
