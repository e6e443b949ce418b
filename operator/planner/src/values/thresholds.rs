//! Which thresholds hold now, and on which node.

use jiff::Timestamp;

use super::{Filling, Headroom, Name, Node, Settings};
use crate::values::resources::Thresholds;

impl Settings {
    /// The settings with the thresholds that hold at a time.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        if let Some(calendar) = &self.calendar {
            let (window, filling) = calendar.at(now);
            let (window, filling) = (window.cloned(), filling.clone());
            self.window = window;
            (self.start_thresholds, self.headroom) = (filling.start_thresholds, filling.headroom);
        }
        self
    }

    /// When other thresholds may hold; never without a calendar.
    #[must_use]
    pub fn turn_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.calendar.as_ref().and_then(|calendar| calendar.turns_at(now))
    }

    /// Up to where ScavengerJobs start when they may fill the most: what is below that can start some day.
    #[must_use]
    pub fn highest_thresholds(&self) -> &Thresholds {
        self.calendar.as_ref().map_or(&self.start_thresholds, |calendar| calendar.highest())
    }

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
