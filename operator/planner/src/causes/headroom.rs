//! Headroom: before anybody has to ask for room, the ScavengerJobs that lose least go.
//!
//! When what pods on the pool's nodes use passes a resource's `interruptThreshold`, ScavengerJobs go until
//! `headroomTarget` is reached: those that lose least together (`super::least_loss`). Pods that only wait for a node do
//! not count, and what is terminating already counts as gone.

use std::collections::BTreeMap;

use super::{
    Cause, Pool, Standing,
    least_loss::{self, Candidate},
};
use crate::{
    resources::{Amount, Resources, Share},
    values::{Headroom, Key, Reason},
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
    #[must_use]
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
/// go, until every resource that passed its threshold is at its target.
#[must_use]
pub fn choose(
    used: &Resources,
    allocatable: &Resources,
    headroom: &Headroom,
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
            "makes room before others need it: {} of {} are used, more than the pool's interruptThreshold of {}",
            Amount(excess.resource, excess.used),
            Amount(excess.resource, excess.whole),
            excess.threshold,
        ))
    };
    let chosen = least_loss::choose(&short, candidates).into_iter();
    chosen.filter_map(|sj| Some((sj.clone(), message(&sj)?))).collect()
}

/// Keeps what pods use of the pool below its `interruptThreshold`.
#[derive(Debug, Default)]
pub(crate) struct KeepHeadroom;

impl Cause for KeepHeadroom {
    fn is_idle(&self, pool: &Pool<'_>) -> bool {
        pool.settings.headroom.suffices(pool.capacity.used_by_pods(), pool.capacity.allocatable())
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        let headroom = &pool.settings.headroom;
        let mut used = pool.capacity.used_by_bound();
        if headroom.suffices(&used, pool.capacity.allocatable()) {
            return;
        }
        let mut candidates = Vec::new();
        for sj in pool.occupancy.scavenger_jobs() {
            let held = pool.held_in_pool(sj);
            match pool.loss_of(sj) {
                Some(loss) => candidates.push(Candidate { sj: sj.clone(), held, loss }),
                None if pool.standing_of(sj) == Standing::Stuck => {}
                None => used.subtract(&held),
            }
        }
        for (sj, message) in choose(&used, pool.capacity.allocatable(), headroom, candidates) {
            pool.order(&sj, Reason::Headroom, message);
        }
    }
}
