//! Headroom: before anybody has to ask for capacity, the ScavengerJobs that lose least go.
//!
//! When what pods on the pool's nodes use passes a resource's `interruptThreshold`, ScavengerJobs go until
//! `headroomTarget` is reached: those that lose least together (`super::least_loss`). Pods that only wait for a node do
//! not count, and what is terminating already counts as gone.
//!
//! The same holds for each group of nodes with the same taints, where there are several (`capacity::groups`): who does
//! not tolerate a taint finds nothing free on the nodes that have it. There only those go that reach no other group. Their
//! next start stays below the start threshold of that group. Others could come back to it at once.
//!
//! Nodes with thresholds of their own (`capacity::own`) count for their group alone.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    least_loss::{self, Candidate},
    pool::{Cause, PATIENCE, Pool, Standing},
};
use crate::{
    capacity::Group,
    values::{
        Demand, Headroom, Key, Reason, later,
        resources::{Amount, Resources, Share},
    },
};

impl Headroom {
    /// What has to be given back of each resource that passed its threshold.
    fn excess<'a>(&self, used: &'a Resources, allocatable: &Resources) -> Vec<Excess<'a>> {
        let passed = used.iter().filter_map(|(resource, used)| {
            let whole = allocatable.get(resource);
            let threshold = self.threshold(resource).filter(|share| used > share.of(whole))?;
            let amount = used - self.target(resource).of(whole);
            Some(Excess { resource, used, whole, threshold, amount })
        });
        passed.filter(|excess| excess.amount > 0).collect()
    }

    /// True if nothing has to be given back.
    pub fn suffices(&self, used: &Resources, allocatable: &Resources) -> bool {
        self.excess(used, allocatable).is_empty()
    }
}

struct Excess<'a> {
    resource: &'a str,
    used: i64,
    whole: i64,
    threshold: Share,
    amount: i64,
}

/// Who goes, and why as a message. `used` is without those that are terminating already. Those that lose least together
/// go, until every resource that passed its threshold is at its target. `nodes` says for the message where that is, unless
/// it is the whole pool: " on nodes without taints".
pub fn choose(
    used: &Resources,
    allocatable: &Resources,
    headroom: &Headroom,
    nodes: &str,
    candidates: Vec<Candidate>,
) -> Vec<(Key, String)> {
    let all_excess = headroom.excess(used, allocatable);
    let short: Vec<(&str, i64)> = all_excess.iter().map(|excess| (excess.resource, excess.amount)).collect();
    let held: BTreeMap<Key, Resources> =
        candidates.iter().map(|candidate| (candidate.sj.clone(), candidate.held.clone())).collect();
    let message = |sj: &Key| {
        let held = held.get(sj)?;
        let excess = all_excess.iter().find(|excess| held.get(excess.resource) > 0)?;
        Some(format!(
            "frees capacity before others need it: {} of {} are used{nodes}, more than the interruptThreshold of {}",
            Amount(excess.resource, excess.used),
            Amount(excess.resource, excess.whole),
            excess.threshold,
        ))
    };
    let chosen = least_loss::choose(&short, candidates).into_iter();
    chosen.filter_map(|sj| Some((sj.clone(), message(&sj)?))).collect()
}

/// While those that were ordered to go are still there, every ScavengerJob that runs is looked at again and again, with each
/// pod that comes or goes. Nobody waits for headroom, so this is done once in this time.
const PAUSE: SignedDuration = SignedDuration::from_secs(2);

/// Keeps what pods use of the pool below its `interruptThreshold`.
#[derive(Debug, Default)]
pub(crate) struct KeepHeadroom {
    /// The last look that found too little.
    last: Option<Look>,
    /// True if something has changed since then.
    has_news: bool,
}

/// A look at all ScavengerJobs that run.
#[derive(Debug)]
struct Look {
    /// What was there. While all of this is the same, so is what is to be done.
    stamp: (u64, u64, u64, Resources),
    /// When there may be another one.
    again: Timestamp,
}

impl Cause for KeepHeadroom {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        if suffices(pool) {
            (self.last, self.has_news) = (None, false);
            return true;
        }
        let last = self.last.as_ref();
        self.has_news = last.is_some_and(|last| last.stamp != stamp(pool));
        // Those that should have gone may be stuck by then, and others go in their place.
        let pause = if self.has_news { SignedDuration::ZERO } else { PATIENCE };
        last.is_some_and(|last| pool.now < later(last.again, pause))
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        self.last = Some(Look { stamp: stamp(pool), again: later(pool.now, PAUSE) });
        self.has_news = false;
        keep_in_pool(pool);
        let lacks = |group: &Group<'_>| !group.suffices(&pool.settings.headroom);
        let groups: Vec<(usize, String)> = pool
            .capacity
            .groups()
            .filter(lacks)
            .map(|group| (group.number, format!(" on {}", group.describe())))
            .collect();
        for (group, nodes) in groups {
            keep_in_group(pool, group, &nodes);
        }
        for group in 0..pool.settings.node_groups.len() {
            keep_in_own(pool, group);
        }
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.last.as_ref().filter(|_| self.has_news).map(|last| last.again)
    }
}

/// Versions rise when capacity is given back, not when it is taken, so what is used is part of it.
fn stamp(pool: &Pool<'_>) -> (u64, u64, u64, Resources) {
    let capacity = &pool.capacity;
    (capacity.epoch(), capacity.version(), pool.occupancy.version(), capacity.used_by_pods().clone())
}

/// True if there is enough headroom while all that is terminating is still there.
fn suffices(pool: &Pool<'_>) -> bool {
    let headroom = &pool.settings.headroom;
    let (allocatable, used) = pool.capacity.headroom();
    let mut own = pool.capacity.own_groups();
    headroom.suffices(used, allocatable)
        && pool.capacity.groups().all(|group| group.suffices(headroom))
        && own.all(|(group, whole, used)| {
            let group = pool.settings.node_groups.get(group);
            group.is_none_or(|group| group.filling.headroom.suffices(used, whole))
        })
}

/// A group with thresholds of its own. All of its ScavengerJobs may go: none is started there again beyond the group's start
/// threshold, whatever it reaches.
fn keep_in_own(pool: &mut Pool<'_>, group: usize) {
    let Some(rules) = pool.settings.node_groups.get(group) else { return };
    let own = pool.capacity.own_groups().find(|(number, ..)| *number == group);
    let Some(allocatable) = own.map(|(_, whole, _)| whole.clone()) else { return };
    let mut used = pool.capacity.used_by_bound_in_own(group);
    let mut candidates = Vec::new();
    for sj in pool.occupancy.scavenger_jobs() {
        let held = pool.held_on(sj, |node| pool.capacity.is_in_own(node, group));
        if held == Resources::default() {
            continue;
        }
        match pool.loss_of(sj) {
            Some(loss) => candidates.push(Candidate { sj: sj.clone(), held, loss }),
            None if pool.standing_of(sj) == Standing::Stuck => {}
            None => used.subtract(&held),
        }
    }
    let nodes = format!(" on the nodes of group {}", rules.name);
    for (sj, message) in choose(&used, &allocatable, &rules.filling.headroom, &nodes, candidates) {
        pool.order(&sj, Reason::Headroom, message);
    }
}

fn keep_in_pool(pool: &mut Pool<'_>) {
    let headroom = &pool.settings.headroom;
    let allocatable = pool.capacity.headroom().0.clone();
    let mut used = pool.capacity.headroom_of_bound();
    if headroom.suffices(&used, &allocatable) {
        return;
    }
    let mut staying = Vec::new();
    for sj in pool.occupancy.scavenger_jobs() {
        match pool.standing_of(sj) {
            Standing::Stays => staying.push(sj),
            Standing::Terminating(_) => used.subtract(&pool.held_in_pool(sj)),
            Standing::Stuck => {}
        }
    }
    if headroom.suffices(&used, &allocatable) {
        return;
    }
    let candidate =
        |sj: &Key| Some(Candidate { sj: sj.clone(), held: pool.held_in_pool(sj), loss: pool.loss_of(sj)? });
    let candidates = staying.into_iter().filter_map(candidate).collect();
    for (sj, message) in choose(&used, &allocatable, headroom, "", candidates) {
        pool.order(&sj, Reason::Headroom, message);
    }
}

fn keep_in_group(pool: &mut Pool<'_>, group: usize, nodes: &str) {
    let headroom = &pool.settings.headroom;
    let mut used = pool.capacity.used_by_bound_in(group);
    let mut there = Vec::new();
    for sj in pool.occupancy.scavenger_jobs() {
        let held = pool.held_on(sj, |node| pool.capacity.is_in_group(node, group));
        if held == Resources::default() {
            continue;
        }
        match pool.loss_of(sj) {
            Some(loss) => there.push(Candidate { sj: sj.clone(), held, loss }),
            None if pool.standing_of(sj) == Standing::Stuck => {}
            None => used.subtract(&held),
        }
    }
    let Some(allocatable) = pool.capacity.allocatable_in(group) else { return };
    if headroom.suffices(&used, &allocatable) {
        return;
    }
    let demands: Vec<Option<Arc<Demand>>> = there.iter().map(|one| pool.demand_of(&one.sj)).collect();
    let stays_there = pool.capacity.reach_only(&demands, group);
    let candidates =
        there.into_iter().zip(stays_there).filter(|(_, stays)| *stays).map(|(one, _)| one).collect();
    for (sj, message) in choose(&used, &allocatable, headroom, nodes, candidates) {
        pool.order(&sj, Reason::Headroom, message);
    }
}
