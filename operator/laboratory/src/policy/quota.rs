//! Admission by a quota over the whole pool, first come first served: what `newest` and `predecessor` have in common.
//!
//! ScavengerJobs start while what all pods ask for stays below the start threshold of the pool. One that does not fit lets
//! smaller ones pass. One that was interrupted keeps its place, and waits as long as the pool says.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use scavenger_planner::{resources::Share, values::Settings};

use super::rule::LOW;
use crate::{
    values::{Amounts, GPU, SjId, Time},
    world::{Change, Order, Start, World},
};

/// The queue and what is used of the quota.
#[derive(Debug)]
pub(super) struct Quota {
    limit: Amounts,
    used: Amounts,
    backoff: Time,
    /// Those that wait, by what they ask for in all, and in the order of their submission.
    waiting: BTreeMap<Amounts, BTreeSet<SjId>>,
    backing_off: BTreeSet<(Time, SjId)>,
    attempts: HashMap<SjId, u32>,
}

/// So much of everything.
pub(super) fn share_of(capacity: Amounts, share: impl Fn(&str) -> Share) -> Amounts {
    Amounts {
        cpu: share("cpu").of(capacity.cpu),
        memory: share("memory").of(capacity.memory),
        pods: share("pods").of(capacity.pods),
        gpus: share(GPU).of(capacity.gpus),
    }
}

/// Above which part of a resource somebody goes; of devices all of it unless the pool says otherwise.
pub(super) fn interrupt_threshold(settings: &Settings, name: &str) -> Share {
    let headroom = &settings.headroom;
    let default = headroom.interrupt_threshold.filter(|_| name != GPU);
    headroom.interrupt_threshold_overrides.get(name).copied().or(default).unwrap_or(Share::ONE)
}

impl Quota {
    pub(super) fn new(settings: &Settings, world: &World<'_>) -> Self {
        Self {
            limit: share_of(world.workload.capacity(), |name| settings.start_thresholds.share(name)),
            used: Amounts::default(),
            backoff: Time::try_from(settings.interruption_backoff.as_millis()).unwrap_or(0),
            waiting: BTreeMap::new(),
            backing_off: BTreeSet::new(),
            attempts: HashMap::new(),
        }
    }

    /// What ScavengerJobs and ordinary pods ask for, without pods that kube-scheduler has refused: they may never get a node.
    pub(super) fn used(&self, world: &World<'_>) -> Amounts {
        self.used.plus(world.asked_by_ordinary)
    }

    fn demand(world: &World<'_>, sj: SjId) -> Amounts {
        let spec = &world.workload.scavengers[sj.index()];
        spec.requests.times(i64::from(spec.pods))
    }

    pub(super) fn see(&mut self, change: Change, world: &World<'_>) {
        match change {
            Change::Submitted(sj) => self.join(sj, world),
            Change::Over(attempt) => {
                let sj = world.attempts[attempt.index()].start.sj;
                self.used = self.used.minus(Self::demand(world, sj));
                if world.scavengers[sj.index()].finished.is_none() {
                    self.backing_off.insert((world.now + self.backoff, sj));
                }
            }
            Change::Pod(_) | Change::PodGone(_) | Change::Job(_) => {}
        }
    }

    fn join(&mut self, sj: SjId, world: &World<'_>) {
        self.waiting.entry(Self::demand(world, sj)).or_default().insert(sj);
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.backing_off.first().map(|(time, _)| *time)
    }

    /// Starts whom there is quota for.
    pub(super) fn admit(&mut self, world: &World<'_>, orders: &mut Vec<Order>) {
        self.admit_below(Amounts::default(), world, orders);
    }

    /// Starts whom there is quota for while so much of it is left alone.
    pub(super) fn admit_below(&mut self, margin: Amounts, world: &World<'_>, orders: &mut Vec<Order>) {
        while let Some((time, sj)) = self.backing_off.first().copied().filter(|(time, _)| *time <= world.now)
        {
            self.backing_off.remove(&(time, sj));
            self.join(sj, world);
        }
        let used = self.used(world);
        let mut left = self.limit.minus(used).minus(margin);
        // First come first served among all demands that fit.
        while let Some((sj, demand)) = self
            .waiting
            .iter()
            .filter(|(demand, _)| demand.fits(left))
            .filter_map(|(demand, all)| Some((*all.first()?, *demand)))
            .min()
        {
            left = left.minus(demand);
            self.used = self.used.plus(demand);
            if let Some(all) = self.waiting.get_mut(&demand) {
                all.remove(&sj);
            }
            let number = self.attempts.entry(sj).or_default();
            *number += 1;
            let start =
                Start { sj, number: *number, priority: LOW, allowed: None, remakes: false, least: None };
            orders.push(Order::Start(start));
        }
        self.waiting.retain(|_, all| !all.is_empty());
    }
}
