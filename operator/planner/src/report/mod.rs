//! What people and programs may know of the planner: what a plan did, and how the pool stands. The pool's status,
//! `explain`, the metrics and `plan` read these values and reach no further.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use crate::{causes::short_nodes::Measuring, queue::QueueEntry, values::action::Ordered};
use crate::{
    node_use::UsageReport,
    values::{Counts, Key, Name, Settings, resources::Resources},
};

/// What the steps of one plan did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many ScavengerJobs were looked at, because something about them is new or a timer was due.
    pub looked_at: usize,
    /// Interruptions that were ordered, in the order of the causes.
    pub ordered: Vec<Ordered>,
    /// ScavengerJobs that were admitted, in their order.
    pub admitted: Vec<Key>,
    /// Of how many ScavengerJobs the status is written to say why they wait.
    pub informed: usize,
    /// How many promises were given back because the write of a start got no answer for too long.
    pub expired: u64,
}

/// How the pool stands at one moment.
#[derive(Debug)]
pub struct PoolReport<'a> {
    /// Settings in force, or why nothing is admitted.
    pub settings: Result<&'a Settings, &'a str>,
    /// What the nodes of the pool have for pods.
    pub allocatable: &'a Resources,
    /// What is used of it: by pods, by ordinary pods that wait for a node, and by starts in flight.
    pub used: Resources,
    /// What of `used` is held for ordinary pods that wait for a node.
    pub pending_requests: Resources,
    /// Up to where ScavengerJobs may fill it; nothing without settings.
    pub limit: Resources,
    /// The nodes of the pool, those included that are closed to ScavengerJobs.
    pub nodes: Vec<NodeReport<'a>>,
    /// The groups of nodes that have a threshold of their own; none if all nodes have the same taints.
    pub groups: Vec<GroupReport<'a>>,
    /// How many ScavengerJobs are where.
    pub counts: &'a Counts,
    /// Since when the ScavengerJob that has waited longest has waited for nothing but capacity; none if nobody does, or
    /// none of them can ever fit.
    pub oldest_ready: Option<Timestamp>,
    /// Since when the deletion of a ScavengerJob that takes longest is under way.
    pub longest_deletion: Option<Timestamp>,
    /// Pending ordinary pods for which nothing is interrupted because some of their constraints cannot be evaluated, with
    /// these constraints. Empty unless the operator frees capacity for pods.
    pub unsupported_pods: Vec<(&'a Key, &'a [Name])>,
    /// Nodes that a new pod of a ScavengerJob must not go to now.
    pub nodes_to_avoid: &'a BTreeSet<Name>,
    /// Those of them that take no ScavengerJobs for a while because containers could not be started there, and why.
    pub closed_nodes: Vec<(&'a Name, &'a str)>,
    /// Why starts go without the supervisor, one message for each namespace where it could not be started; none if the
    /// pool has no supervisor.
    pub without_supervisor: Option<Vec<&'a str>>,
    /// Whether somebody measures how much memory nodes really use.
    pub measuring_memory: Measuring,
    /// How nodes that are counted by use stand; none with accounting Requests.
    pub usage: Option<UsageReport<'a>>,
}

/// A node of the pool.
#[derive(Debug)]
pub struct NodeReport<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its labels.
    pub labels: &'a BTreeMap<Name, Name>,
    /// What it has for pods.
    pub allocatable: &'a Resources,
    /// What pods on it request, and what is promised to starts in flight.
    pub used: Resources,
    /// What a ScavengerJob of one pod may take of it now, as far as the node has a say.
    pub free: Resources,
}

/// Nodes of the pool with the same taints.
#[derive(Debug)]
pub struct GroupReport<'a> {
    /// The taints as kubectl writes them, separated by commas; empty for plain nodes.
    pub taints: String,
    /// What they have for pods.
    pub allocatable: &'a Resources,
    /// What pods on them use, those included that are about to be bound there. Starts in flight are not in it.
    pub used: &'a Resources,
    /// Up to where ScavengerJobs that can go nowhere else may fill them; nothing without settings.
    pub limit: Resources,
}

impl PoolReport<'_> {
    /// What is left below the threshold; negative where more is used.
    #[must_use]
    pub fn free(&self) -> Resources {
        self.limit.minus(&self.used)
    }
}
