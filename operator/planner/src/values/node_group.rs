//! Nodes with thresholds of their own.
//!
//! In a pool with groups start thresholds hold on each node, that of its group or the pool's: the planner chooses the node
//! then. Windows of time concern the nodes without a group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Filling, Name};

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
