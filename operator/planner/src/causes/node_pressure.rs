//! Node pressure: a node that reports MemoryPressure, DiskPressure or PIDPressure gives up all of its ScavengerJobs,
//! before the kubelet chooses among all pods.

use std::collections::BTreeMap;

use super::pool::{Cause, Needs, Pool};
use crate::values::{Name, Node, Reason};

/// The nodes that report a pressure condition, and which.
#[derive(Debug, Default)]
pub(crate) struct NodePressure {
    pressed: BTreeMap<Name, Name>,
}

impl NodePressure {
    /// Takes in whether a node is under pressure.
    pub(crate) fn set_node(&mut self, node: &Node) {
        match &node.pressure {
            Some(pressure) => _ = self.pressed.insert(node.name.clone(), pressure.clone()),
            None => _ = self.pressed.remove(&node.name),
        }
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&mut self, node: &Name) {
        self.pressed.remove(node);
    }
}

impl Cause for NodePressure {
    fn is_idle(&mut self, _: &Pool<'_>) -> bool {
        self.pressed.is_empty()
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        let pressed = self.pressed.iter();
        let pressed = pressed.map(|(node, pressure)| (node, format!("node {node} reports {pressure}")));
        for (_, sj, message) in pool.losers_on(pressed) {
            pool.order(&sj, Reason::NodePressure, message);
        }
    }

    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        self.pressed.keys().map(|node| (node, Needs::Everything)).collect()
    }
}
