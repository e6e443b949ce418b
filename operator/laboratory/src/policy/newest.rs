//! Newest first, as queues such as Kueue and YuniKorn do it: admission by a quota, and when ordinary pods need some of it, those
//! that started last go first.
//!
//! It has the same three thresholds as the pool: with one threshold for starts and for evictions each ordinary pod would cost
//! an eviction, which is more than a comparison should hold against it. Pods that find no node are served by kube-scheduler,
//! which preempts the newest, too.

use std::collections::BTreeSet;

use scavenger_planner::{
    resources::Share,
    values::{Headroom, Settings},
};

use super::{
    quota::{Quota, share_of},
    rule::Policy,
};
use crate::{
    values::{Amounts, AttemptId, GPU, Time},
    world::{Change, Order, World},
};

/// A quota; those that started last go first.
#[derive(Debug)]
pub(super) struct Newest {
    quota: Quota,
    /// Above this somebody goes.
    most: Amounts,
    /// Down to this.
    target: Amounts,
    /// Attempts by when they began.
    active: BTreeSet<AttemptId>,
    known: usize,
}

impl Newest {
    pub(super) fn new(settings: &Settings, world: &World<'_>) -> Self {
        let Headroom { interrupt_threshold, interrupt_threshold_overrides, target, target_overrides } =
            &settings.headroom;
        let capacity = world.workload.capacity();
        let most = |name: &str| {
            let default = interrupt_threshold.filter(|_| name != GPU);
            interrupt_threshold_overrides.get(name).copied().or(default).unwrap_or(Share::ONE)
        };
        Self {
            quota: Quota::new(settings, world),
            most: share_of(capacity, most),
            target: share_of(capacity, |name| target_overrides.get(name).copied().unwrap_or(*target)),
            active: BTreeSet::new(),
            known: 0,
        }
    }

    /// Those that started last go until the target is met.
    fn evict(&mut self, world: &World<'_>, orders: &mut Vec<Order>) {
        // What is going is given back already.
        let is_going = |attempt: &AttemptId| {
            let attempt = &world.attempts[attempt.index()];
            attempt.pods.iter().any(|pod| world.pods[pod.index()].deleted.is_some())
        };
        let demand = |attempt: &AttemptId| {
            let spec = world.spec_of(*attempt);
            spec.requests.times(i64::from(spec.pods))
        };
        let going = self.active.iter().filter(|attempt| is_going(attempt)).map(demand);
        let mut used = going.fold(self.quota.used(world), Amounts::minus);
        let is_above =
            |used: Amounts, limit: Amounts| used.each().into_iter().zip(limit.each()).any(|(a, b)| a > b);
        if !is_above(used, self.most) {
            return;
        }
        let staying = self.active.iter().rev().filter(|attempt| !is_going(attempt));
        for attempt in staying {
            if !is_above(used, self.target) {
                break;
            }
            let pods = world.attempts[attempt.index()].pods.clone();
            // One that has no pods yet is left alone: it goes when it has some.
            if !pods.is_empty() {
                used = used.minus(demand(attempt));
                orders.push(Order::Interrupt(pods));
            }
        }
    }
}

impl Policy for Newest {
    fn see(&mut self, change: Change, world: &World<'_>) {
        self.quota.see(change, world);
        while self.known < world.attempts.len() {
            self.active.insert(AttemptId::at(self.known));
            self.known += 1;
        }
        if let Change::Over(attempt) = change {
            self.active.remove(&attempt);
        }
    }

    fn act(&mut self, world: &World<'_>) -> Vec<Order> {
        let mut orders = Vec::new();
        self.evict(world, &mut orders);
        if orders.is_empty() {
            self.quota.admit(world, &mut orders);
        }
        orders
    }

    fn wake_at(&self) -> Option<Time> {
        self.quota.wake_at()
    }
}
