//! A node that left the pool: its labels do not match the pool's selector any more, or it has a taint that the pool does
//! not tolerate, or the pool changed. Or one that leaves it at a time that an admin has announced. Its ScavengerJobs are given
//! back, those that lose least first.
//!
//! A label that is removed by mistake, or a typing error in the pool's selector or in a time, must not cost everything at once. So
//! nobody goes before a node has been outside for a minute, or its time has been known for one, and then they go in rounds
//! (`super::rounds`). A cordoned node is still in the pool: cordoned means no new pods, and the drain of a node evicts on its
//! own.
//!
//! A node whose time is announced is to be empty by then. So its ScavengerJobs begin to go as long before as the rounds take that
//! its ScavengerJobs need, and those of the nodes that leave before it, and the last one takes to stop. From then on nothing
//! starts on any of these nodes: who goes would come back, and there would be more to clear than was counted. What budgets hold
//! back beyond that time goes as soon as they allow it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::pool::{Cause, PATIENCE, Pool};
use crate::values::{FOR_A_CHECKPOINT, Key, Name, Node, Reason, Settings, later};

/// How long a node is outside, or its time is known, before anybody there is interrupted.
pub(crate) const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// How often it is counted who has to go until a node leaves.
const COUNT_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// The nodes that left the pool with pods of ScavengerJobs on them, and those that leave it.
#[derive(Debug, Default)]
pub(crate) struct LeftPool {
    /// When this planner first found each outside the pool.
    since: BTreeMap<Name, Timestamp>,
    announced: BTreeMap<Name, Announced>,
    /// When it was counted last who has to go from these.
    counted: Option<Timestamp>,
    /// Nodes about which something else is to be said than before: whether they take ScavengerJobs.
    changed: BTreeSet<Name>,
    /// When a node has been outside for long enough, or its ScavengerJobs begin to go.
    wake_at: Option<Timestamp>,
}

/// A node that leaves the pool.
#[derive(Debug)]
struct Announced {
    until: Timestamp,
    /// When this planner first heard of that time.
    heard: Timestamp,
    /// When its ScavengerJobs have to begin to go.
    begins: Timestamp,
    /// True once nothing starts there: it had to be begun with this node, or with one that leaves later.
    is_closed: bool,
    /// True once its ScavengerJobs go. With each that has gone the rest could wait longer; but they go on.
    has_begun: bool,
}

impl Announced {
    /// When the first of its ScavengerJobs may go.
    fn due(&self) -> Timestamp {
        self.begins.max(later(self.heard, GRACE))
    }
}

impl LeftPool {
    /// When a node was first found outside the pool with pods of ScavengerJobs on it.
    pub(crate) fn since(&self) -> impl Iterator<Item = (&Name, Timestamp)> {
        self.since.iter().map(|(node, since)| (node, *since))
    }

    /// True if nothing starts on a node that leaves at this time, since it is being cleared, or one that leaves later.
    pub(crate) fn closes(&self, node: &Name, until: Timestamp) -> bool {
        self.announced.get(node).is_some_and(|one| one.until == until && one.is_closed)
    }

    /// Nodes that are closed for that reason since this was called last.
    pub(crate) fn take_changed(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    fn follow_outside(&mut self, pool: &Pool<'_>) {
        let outside = pool.capacity.outside();
        self.since.retain(|node, _| outside.contains(node));
        for node in outside {
            self.since.entry(node.clone()).or_insert(pool.now);
        }
    }

    fn follow_announced(&mut self, pool: &Pool<'_>) {
        let now = pool.now;
        let leaving: BTreeMap<&Name, Timestamp> = pool.capacity.leaving().collect();
        let known = self.announced.iter().map(|(node, one)| (node, one.until));
        let is_counted = self.counted.is_some_and(|time| now < later(time, COUNT_EVERY));
        if is_counted && leaving.iter().map(|(node, until)| (*node, *until)).eq(known) {
            return;
        }
        self.counted = Some(now);
        let mut in_order: Vec<(Timestamp, &Name)> =
            leaving.into_iter().map(|(node, until)| (until, node)).collect();
        in_order.sort_unstable();
        let (mut before, mut number) = (std::mem::take(&mut self.announced), 0);
        for (until, node) in in_order {
            let there = pool.scavenger_jobs_on(node);
            number += there.len();
            let specs = there.keys().filter_map(|sj| pool.seen.get(sj)?.sj().spec.as_ref().ok());
            let grace = specs.map(|spec| spec.grace_period).max().unwrap_or_default();
            let last = FOR_A_CHECKPOINT.saturating_add(grace).saturating_add(PATIENCE);
            let takes = last.saturating_add(pool.time_for(number, &Reason::NodeLeftPool));
            let known = before.remove(node).filter(|known| known.until == until);
            let fresh = Announced { until, heard: now, begins: until, is_closed: false, has_begun: false };
            let one = Announced { begins: later(until, -takes), ..known.unwrap_or(fresh) };
            self.announced.insert(node.clone(), one);
        }
    }

    /// Begins with the nodes whose time it is, and closes those with which it has to be begun and those that leave before one of
    /// them.
    fn begin(&mut self, now: Timestamp) {
        self.announced.values_mut().for_each(|one| one.has_begun |= one.due() <= now);
        let begun = self.announced.values().filter(|one| one.is_closed || one.begins <= now);
        let Some(last) = begun.map(|one| one.until).max() else { return };
        for (node, one) in self.announced.iter_mut().filter(|(_, one)| one.until <= last && !one.is_closed) {
            one.is_closed = true;
            self.changed.insert(node.clone());
        }
    }

    /// The nodes from which ScavengerJobs go now, by the time until which they are in the pool: the first one goes first. Those
    /// that left it have none.
    fn due(&self, pool: &Pool<'_>) -> BTreeMap<Option<Timestamp>, Vec<(Name, String)>> {
        let mut due: BTreeMap<Option<Timestamp>, Vec<(Name, String)>> = BTreeMap::new();
        for (name, _) in self.since.iter().filter(|(_, since)| later(**since, GRACE) <= pool.now) {
            let Some(load) = pool.capacity.node(name) else { continue };
            due.entry(None).or_default().push((name.clone(), message(load.node, pool.settings)));
        }
        for (name, one) in self.announced.iter().filter(|(_, one)| one.has_begun) {
            let message = message_before(name, one.until);
            due.entry(Some(one.until)).or_default().push((name.clone(), message));
        }
        due
    }
}

/// Why a node is outside, as a message.
pub(crate) fn message(node: &Node, settings: &Settings) -> String {
    let why = settings.lacks(node).map_or_else(String::new, |why| format!(": {why}"));
    format!("node {} does not belong to the pool any more{why}", node.name)
}

/// Why ScavengerJobs go from a node that is still in the pool.
pub(crate) fn message_before(node: &Name, until: Timestamp) -> String {
    format!("node {node} is in the pool until {until:.0}")
}

impl Cause for LeftPool {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        self.since.is_empty()
            && self.announced.is_empty()
            && pool.capacity.outside().is_empty()
            && pool.capacity.leaving().next().is_none()
            && !pool.rounds.holds(&Reason::NodeLeftPool)
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        let now = pool.now;
        self.follow_outside(pool);
        self.follow_announced(pool);
        self.begin(now);
        let outside = self.since.values().map(|since| later(*since, GRACE));
        let announced = self.announced.values().flat_map(|one| [one.begins, one.due()]);
        self.wake_at = outside.chain(announced).filter(|time| *time > now).min();
        let are_any = !self.since.is_empty() || !self.announced.is_empty();
        if are_any && pool.waits(&Reason::NodeLeftPool) {
            return;
        }
        pool.rounds.release(&Reason::NodeLeftPool);
        let mut in_order: Vec<(Key, String)> = Vec::new();
        for nodes in self.due(pool).into_values() {
            let losers = pool.losers_on(nodes.iter().map(|(node, message)| (node, message.clone())));
            in_order.extend(losers.into_iter().map(|(_, sj, message)| (sj, message)));
        }
        pool.order_in_rounds(&Reason::NodeLeftPool, in_order);
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }
}
