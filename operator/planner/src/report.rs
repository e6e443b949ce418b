//! What people and programs may know of the planner: what a plan did, and how the pool stands. The pool's status,
//! `explain`, the metrics and `plan` read these values and reach no further.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{
    Planner,
    causes::left_pool,
    node_use::UsageReport,
    priority,
    resources::Resources,
    values::{Counts, Key, Name, PreemptionMode, RememberedUse, Settings},
};
pub use crate::{action::Ordered, causes::measured_memory::Measuring, queue::QueueEntry};

/// What the steps of one plan did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many ScavengerJobs were looked at, because something about them is new or a timer was due.
    pub looked_at: usize,
    /// Interruptions that were ordered, in the order of the causes.
    pub ordered: Vec<Ordered>,
    /// ScavengerJobs that were admitted, in their order.
    pub admitted: Vec<Key>,
    /// How many ScavengerJobs are told why they wait, by a write of their status.
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
    /// these constraints. Empty unless the operator makes room for pods.
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

impl Planner {
    /// How the pool stands. Looks at every node: for the pool's status and for people who ask.
    #[must_use]
    pub fn pool_report(&self, now: Timestamp) -> PoolReport<'_> {
        let ledger = self.promises.ledger();
        let settings = self.settings.as_ref().map_err(String::as_str);
        let allocatable = self.capacity.allocatable();
        let nodes = self.capacity.pool_nodes().map(|(node, _)| {
            let free = self.capacity.free_for_one_pod(&node.name, ledger);
            let used = self.capacity.taken_of(&node.name, ledger);
            NodeReport { name: &node.name, labels: &node.labels, allocatable: &node.allocatable, used, free }
        });
        let groups = self.capacity.groups().map(|group| GroupReport {
            taints: group.taints(),
            allocatable: group.allocatable,
            used: group.used,
            limit: settings.map(|pool| group.limit(pool)).unwrap_or_default(),
        });
        let serves = settings.is_ok_and(|pool| pool.preemption_mode == PreemptionMode::Operator);
        let unsupported = self.causes.pending_pods.unjudged();
        // May look at every node for each pending pod, so once.
        let pending_requests = self.capacity.held_for_pending();
        PoolReport {
            settings,
            allocatable,
            used: self.capacity.used_without_pending(ledger).plus(&pending_requests),
            pending_requests,
            limit: settings.map(|pool| self.capacity.limit(pool)).unwrap_or_default(),
            nodes: nodes.collect(),
            groups: groups.collect(),
            counts: self.seen.counts(),
            oldest_ready: self.queue.oldest_ready(),
            longest_deletion: self.seen.longest_deletion(),
            unsupported_pods: unsupported.filter(|_| serves).collect(),
            nodes_to_avoid: self.capacity.nodes_to_avoid(),
            closed_nodes: self.start_failures.closed().collect(),
            without_supervisor: settings
                .ok()
                .and_then(|settings| settings.supervisor.as_ref())
                .map(|_| self.supervisors.held().collect()),
            measuring_memory: self.causes.measured_memory.measuring(),
            usage: settings.ok().and_then(|settings| self.node_use.report(settings, &self.capacity, now)),
        }
    }

    /// Why a ScavengerJob is interrupted soon although it is not its turn: one of its pods is on a node that left the pool.
    #[must_use]
    pub fn node_that_left(&self, sj: &Key) -> Option<String> {
        let settings = self.settings.as_ref().ok()?;
        let mut bound = self.seen.attachments(sj)?.bound();
        let (node, _) = bound.find(|(node, _)| self.capacity.outside().contains(*node))?;
        let why = left_pool::message(self.capacity.node(node)?.node, settings);
        let grace = left_pool::GRACE.as_secs();
        Some(format!("{why}; interrupted in turn, once the node was outside for {grace} s"))
    }

    /// Namespaces of ScavengerJobs that may run under the supervisor: its pods there need to know whom to trust. None if the
    /// pool has no supervisor. Costs one look for each namespace.
    #[must_use]
    pub fn supervised_namespaces(&self) -> Vec<&Name> {
        match self.settings.as_ref().ok().and_then(|settings| settings.supervisor.as_ref()) {
            Some(_) => self.seen.namespaces().collect(),
            None => Vec::new(),
        }
    }

    /// UIDs of the pods that are asked for a checkpoint, each with the time after which one answers.
    pub fn asked_for_checkpoint(&self) -> impl Iterator<Item = (&Name, Timestamp)> {
        self.asked.values().flat_map(|request| request.pods.iter().map(|pod| (pod, request.since)))
    }

    /// What is known of the use of nodes, for the planner after this one; none if nothing is counted by use.
    #[must_use]
    pub fn remembered_use(&self) -> Option<RememberedUse> {
        let rules = self.settings.as_ref().ok()?.usage.as_deref()?;
        Some(RememberedUse { by_requests: self.by_requests.remember(), ..self.node_use.remember(rules) })
    }

    /// The last checkpoint that is known of the ScavengerJob of whose active attempt this is a pod; none for any other pod.
    #[must_use]
    pub fn checkpoint_of(&self, pod: &Key, uid: &Name) -> Option<Timestamp> {
        let (key, _) = self.seen.reporter(pod, uid)?;
        self.seen.get(&key)?.sj().status.last_checkpoint
    }

    /// How many are before a ScavengerJob in the queue of those that may start, and how many there are; none if it is
    /// not in it. Walks over the whole queue: for people who ask.
    #[must_use]
    pub fn place_in_queue(&self, sj: &Key) -> Option<(usize, usize)> {
        self.queue.place(sj)
    }

    /// The queue of those that may start, in its order. Sorts the whole queue: for people who ask.
    #[must_use]
    pub fn queue(&self) -> Vec<QueueEntry<'_>> {
        self.queue.in_order(&self.capacity, self.promises.ledger())
    }

    /// Ordinary pods that wait for a node and hold capacity of the pool, and what they request. Looks at every node for each
    /// of them: for people who ask.
    pub fn pods_that_hold_capacity(&self) -> impl Iterator<Item = (&Key, &Resources)> {
        self.capacity.holders()
    }

    /// The step of a ScavengerJob's running priority, and how many steps there are; none unless it runs.
    #[must_use]
    pub fn running_priority(&self, sj: &Key, now: Timestamp) -> Option<(i32, i32)> {
        let settings = self.settings.as_ref().ok()?;
        Some((priority::level(self.seen.get(sj)?.sj(), settings, now)?, settings.priority_steps))
    }
}
