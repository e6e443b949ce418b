//! Headroom: before anybody has to ask for capacity, the ScavengerJobs that lose least go.
//!
//! When what pods on the pool's nodes use passes a resource's `interruptThreshold`, ScavengerJobs go until
//! `headroomTarget` is reached: those that lose least together (`super::least_loss`). Pods that only wait for a node do
//! not count, and what is terminating already counts as gone. A threshold with a typing error, or a zone that is away, would
//! cost everything at once: so they go in rounds (`super::rounds`).
//!
//! The same holds for each group of nodes with the same taints, where there are several (`capacity::sums`): who does
//! not tolerate a taint finds nothing free on the nodes that have it. There only those go that reach no other group. Their
//! next start stays below the start threshold of that group. Others could come back to it at once.
//!
//! Nodes with thresholds of their own (`capacity::state`) count for their group alone.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    least_loss::{self, Candidate},
    pool::{Cause, PATIENCE, Pool, Standing},
};
use crate::{
    capacity::Part,
    values::{
        Demand, Headroom, Key, Reason, Settings, later,
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
            return !pool.rounds.holds(&Reason::Headroom);
        }
        if pool.waits(&Reason::Headroom) {
            self.has_news = false;
            return true;
        }
        let last = self.last.as_ref();
        self.has_news = last.is_some_and(|last| last.stamp != stamp(pool));
        // Those that should have gone may be stuck by then, and others go in their place.
        let pause = if self.has_news { SignedDuration::ZERO } else { PATIENCE };
        last.is_some_and(|last| pool.now < later(last.again, pause))
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        pool.rounds.release(&Reason::Headroom);
        self.last = Some(Look { stamp: stamp(pool), again: later(pool.now, PAUSE) });
        self.has_news = false;
        for part in parts(pool).collect::<Vec<_>>() {
            keep_in(pool, part);
        }
        if pool.rounds.holds(&Reason::Headroom) {
            // With the next round there is something to do, whatever changes until then.
            self.last = None;
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

/// The pool, the nodes of each group with the same taints, and each group with thresholds of its own.
fn parts(pool: &Pool<'_>) -> impl Iterator<Item = Part> {
    let taints = pool.capacity.groups().map(|group| Part::Taints(group.number));
    let own = (0..pool.settings.node_groups.len()).map(Part::Own);
    [Part::Pool].into_iter().chain(taints).chain(own)
}

/// Which headroom holds for a part.
fn headroom_of(settings: &Settings, part: Part) -> &Headroom {
    match part {
        Part::Own(group) => &settings.node_groups[group].filling.headroom,
        Part::Pool | Part::Taints(_) => &settings.headroom,
    }
}

/// The part for a message; nothing for the whole pool.
fn name(pool: &Pool<'_>, part: Part) -> String {
    match part {
        Part::Pool => String::new(),
        Part::Taints(number) => {
            let group = pool.capacity.groups().find(|group| group.number == number);
            group.map(|group| format!(" on {}", group.describe())).unwrap_or_default()
        }
        Part::Own(group) => format!(" on the nodes of group {}", pool.settings.node_groups[group].name),
    }
}

/// True if there is enough headroom while all that is terminating is still there.
fn suffices(pool: &Pool<'_>) -> bool {
    parts(pool).all(|part| {
        let headroom = headroom_of(pool.settings, part);
        pool.capacity.headroom(part).is_none_or(|(whole, taken)| headroom.suffices(taken, whole))
    })
}

fn keep_in(pool: &mut Pool<'_>, part: Part) {
    let headroom = headroom_of(pool.settings, part);
    let Some(whole) = pool.capacity.headroom(part).map(|(whole, _)| whole.clone()) else { return };
    let mut used = pool.capacity.headroom_of_bound(part);
    if headroom.suffices(&used, &whole) {
        return;
    }
    let mut candidates = Vec::new();
    for sj in pool.occupancy.scavenger_jobs() {
        let held = pool.held_on(sj, |node| pool.capacity.is_in(node, part));
        if held == Resources::default() {
            continue;
        }
        match pool.loss_of(sj) {
            Some(loss) => {
                let is_young = pool.is_young(sj);
                candidates.push(Candidate { sj: sj.clone(), held, loss, is_young });
            }
            None if pool.standing_of(sj) == Standing::Stuck => {}
            None => used.subtract(&held),
        }
    }
    if headroom.suffices(&used, &whole) {
        return;
    }
    // Of a group with thresholds of its own all may go: none is started there again beyond the group's start threshold, whatever
    // it reaches.
    if let Part::Taints(group) = part {
        let demands: Vec<Option<Arc<Demand>>> =
            candidates.iter().map(|one| pool.demand_of(&one.sj)).collect();
        let mut stays_there = pool.capacity.reach_only(&demands, group).into_iter();
        candidates.retain(|_| stays_there.next().unwrap_or(false));
    }
    let chosen = choose(&used, &whole, headroom, &name(pool, part), candidates);
    pool.order_in_rounds(&Reason::Headroom, chosen);
}
