//! Headroom: before anybody has to ask for room, the ScavengerJobs that lose least go.
//!
//! When what pods on the pool's nodes use passes a resource's `interruptThreshold`, those ScavengerJobs that hold that
//! resource go, cheapest first, until `headroomTarget` is reached. Pods that only wait for a node do not count, and
//! what is going already counts as gone. Nobody goes without whom the target is reached, too.

use super::{Cause, Pool, Standing};
use crate::{
    loss::Loss,
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

/// A ScavengerJob that may go.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The ScavengerJob.
    pub job: Key,
    /// What its pods hold on the pool's nodes, all of a gang together.
    pub held: Resources,
    /// What is lost if it goes.
    pub loss: Loss,
}

/// Who goes, and why as a sentence. `used` is without whom is going already.
#[must_use]
pub fn choose(
    used: &Resources,
    allocatable: &Resources,
    headroom: &Headroom,
    mut holders: Vec<Holder>,
) -> Vec<(Key, String)> {
    let all_excess = headroom.excess(used, allocatable);
    holders.retain(|holder| all_excess.iter().any(|excess| holder.held.get(excess.resource) > 0));
    holders.sort_by(|a, b| a.loss.cmp(&b.loss));
    let mut goes = vec![false; holders.len()];
    let mut freed = Resources::default();
    for excess in &all_excess {
        for (goes, holder) in goes.iter_mut().zip(&holders) {
            if freed.get(excess.resource) >= excess.amount {
                break;
            }
            if !*goes && holder.held.get(excess.resource) > 0 {
                *goes = true;
                freed.add(&holder.held);
            }
        }
    }
    // Somebody large who came later can make somebody small superfluous: those that lose most are spared first.
    for (goes, holder) in goes.iter_mut().zip(&holders).rev().filter(|(goes, _)| **goes) {
        let superfluous = all_excess.iter().all(|excess| {
            let held = holder.held.get(excess.resource);
            held <= 0 || freed.get(excess.resource).saturating_sub(held) >= excess.amount
        });
        if superfluous {
            *goes = false;
            freed.subtract(&holder.held);
        }
    }
    let goes = holders.into_iter().zip(goes).filter(|(_, goes)| *goes);
    goes.filter_map(|(holder, _)| {
        let excess = all_excess.iter().find(|excess| holder.held.get(excess.resource) > 0)?;
        let message = format!(
            "makes room before others need it: {} of {} are used, more than the pool's interruptThreshold of {}",
            Amount(excess.resource, excess.used),
            Amount(excess.resource, excess.whole),
            excess.threshold,
        );
        Some((holder.job, message))
    })
    .collect()
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
        let mut holders = Vec::new();
        for job in pool.occupancy.jobs() {
            let held = pool.held_in_pool(job);
            match pool.loss_of(job) {
                Some(loss) => holders.push(Holder { job: job.clone(), held, loss }),
                None if pool.standing_of(job) == Standing::Stuck => {}
                None => used.subtract(&held),
            }
        }
        for (job, message) in choose(&used, pool.capacity.allocatable(), headroom, holders) {
            pool.order(&job, Reason::Headroom, message);
        }
    }
}
