//! A node that left the pool: its labels do not match the pool's selector any more, or it has a taint that the pool does
//! not tolerate, or the pool changed. Its ScavengerJobs are given back, those that lose least first.
//!
//! A label that is removed by mistake, or a typing error in the pool's selector, must not cost everything at once. So nobody
//! goes before a node has been outside for a minute, and then they go in rounds (`super::rounds`). A cordoned node is still in
//! the pool: cordoned means no new pods, and the drain of a node evicts on its own.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::pool::{Cause, Pool};
use crate::values::{Name, Node, Reason, Settings, later};

/// How long a node is outside before anybody there is interrupted.
pub(crate) const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The nodes that left the pool with pods of ScavengerJobs on them.
#[derive(Debug, Default)]
pub(crate) struct LeftPool {
    /// When this planner first found each outside the pool.
    since: BTreeMap<Name, Timestamp>,
    /// When a node has been outside for long enough.
    wake_at: Option<Timestamp>,
}

impl LeftPool {
    /// When a node was first found outside the pool with pods of ScavengerJobs on it.
    pub(crate) fn since(&self) -> impl Iterator<Item = (&Name, Timestamp)> {
        self.since.iter().map(|(node, since)| (node, *since))
    }
}

/// Why a node is outside, as a message.
pub(crate) fn message(node: &Node, settings: &Settings) -> String {
    let why = settings.lacks(node).map_or_else(String::new, |why| format!(": {why}"));
    format!("node {} does not belong to the pool any more{why}", node.name)
}

impl Cause for LeftPool {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        self.since.is_empty()
            && pool.capacity.outside().is_empty()
            && !pool.rounds.holds(&Reason::NodeLeftPool)
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        let (now, outside) = (pool.now, pool.capacity.outside());
        self.since.retain(|node, _| outside.contains(node));
        for node in outside {
            self.since.entry(node.clone()).or_insert(now);
        }
        self.wake_at = self.since.values().map(|since| later(*since, GRACE)).filter(|time| *time > now).min();
        if !self.since.is_empty() && pool.waits(&Reason::NodeLeftPool) {
            return;
        }
        pool.rounds.release(&Reason::NodeLeftPool);
        let due = self.since.iter().filter(|(_, since)| later(**since, GRACE) <= now);
        let nodes = due.filter_map(|(name, _)| {
            let node = pool.capacity.node(name)?.node;
            Some((name, message(node, pool.settings)))
        });
        let holders = pool.losers_on(nodes);
        let in_order = holders.into_iter().map(|(_, sj, message)| (sj, message));
        pool.order_in_rounds(&Reason::NodeLeftPool, in_order);
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }
}
