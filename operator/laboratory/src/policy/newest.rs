//! Newest first, as queues such as Kueue and YuniKorn do it: admission by a quota, and when ordinary pods need some of it, those
//! that started last go first.
//!
//! It has the same three thresholds as the pool: with one threshold for starts and for evictions each ordinary pod would cost
//! an eviction, which is more than a comparison should hold against it. Pods that find no node are served by kube-scheduler,
//! which preempts the newest, too.

use scavenger_planner::values::Settings;

use super::{
    quota::{Quota, interrupt_threshold, share_of},
    rule::Policy,
    youngest::Youngest,
};
use crate::{
    values::{Amounts, Time},
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
    youngest: Youngest,
}

impl Newest {
    pub(super) fn new(settings: &Settings, world: &World<'_>) -> Self {
        let capacity = world.workload.capacity();
        let target = |name: &str| {
            let headroom = &settings.headroom;
            headroom.target_overrides.get(name).copied().unwrap_or(headroom.target)
        };
        Self {
            quota: Quota::new(settings, world),
            most: share_of(capacity, |name| interrupt_threshold(settings, name)),
            target: share_of(capacity, target),
            youngest: Youngest::default(),
        }
    }
}

impl Policy for Newest {
    fn see(&mut self, change: Change, world: &World<'_>) {
        self.quota.see(change, world);
        self.youngest.see(change, world);
    }

    fn act(&mut self, world: &World<'_>) -> Vec<Order> {
        let evicted = self.youngest.beyond(self.quota.used(world), (self.most, self.target), world);
        let mut orders: Vec<Order> = evicted.into_iter().map(Order::Interrupt).collect();
        if orders.is_empty() {
            self.quota.admit(world, &mut orders);
        }
        orders
    }

    fn wake_at(&self) -> Option<Time> {
        self.quota.wake_at()
    }
}
