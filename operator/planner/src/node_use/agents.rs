//! The agents of nodes: where they are live, and what they say about ordinary containers that were killed for memory.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::NodeUse;
use crate::values::{KillReport, Name, Pod, UsageRules};

impl NodeUse {
    /// The agents of these nodes are live.
    pub(crate) fn set_agents(&mut self, nodes: BTreeSet<Name>) {
        let before = std::mem::replace(&mut self.agents, nodes);
        self.dirty.extend(before.symmetric_difference(&self.agents).cloned());
    }

    /// The nodes whose agent is live.
    pub(crate) fn agents(&self) -> &BTreeSet<Name> {
        &self.agents
    }

    /// The agent of a node says why an ordinary container was killed.
    pub(crate) fn see_kill(&mut self, kill: &KillReport) {
        self.breaker.explain(kill);
    }

    /// Takes in a version of an ordinary pod. `is_shared` says whether ScavengerJobs are on its node.
    pub(crate) fn see_ordinary(&mut self, pod: &Pod, is_shared: bool, now: Timestamp) {
        let has_agent = pod.node.as_ref().is_some_and(|node| self.agents.contains(node));
        self.dirty.extend(self.breaker.see(pod, is_shared, has_agent, now));
        if pod.phase.is_terminal() {
            self.dirty.extend(self.ordinary.remove(&pod.key));
        } else {
            self.dirty.extend(self.ordinary.set(pod, now));
        }
    }

    /// True if ScavengerJobs may start on a node by use, as far as its agent has a say.
    pub(super) fn may_start(&self, node: &Name, rules: &UsageRules) -> bool {
        !rules.require_node_agent || self.agents.contains(node)
    }
}
