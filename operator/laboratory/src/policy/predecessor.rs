//! The rule of the predecessor, which was written in Go: fixed thresholds, a margin of one standard deviation, and kills without a
//! grace period.
//!
//! Known of it are these three properties alone. docs/contributing/laboratory.md says what is assumed beyond them.

use std::collections::VecDeque;

use scavenger_planner::values::Settings;

use super::{
    quota::{Quota, interrupt_threshold, share_of},
    rule::Policy,
    youngest::Youngest,
};
use crate::{
    values::{Amounts, MINUTE, SECOND, Time},
    world::{Change, Order, World},
};

/// How often it looks at the cluster.
const EVERY: Time = 10 * SECOND;

/// So many looks the standard deviation is taken from: those of five minutes.
const LOOKS: usize = (5 * MINUTE / EVERY) as usize;

/// Fixed thresholds with a margin; those that started last are killed.
#[derive(Debug)]
pub(super) struct Predecessor {
    quota: Quota,
    /// Above this, less the margin, somebody is killed.
    most: Amounts,
    youngest: Youngest,
    /// What ordinary pods asked for at the last looks.
    looks: VecDeque<Amounts>,
    next_look: Time,
}

impl Predecessor {
    pub(super) fn new(settings: &Settings, world: &World<'_>) -> Self {
        Self {
            quota: Quota::new(settings, world),
            most: share_of(world.workload.capacity(), |name| interrupt_threshold(settings, name)),
            youngest: Youngest::default(),
            looks: VecDeque::new(),
            next_look: 0,
        }
    }
}

/// By how much each resource deviates from its mean.
fn deviation(looks: &VecDeque<Amounts>) -> Amounts {
    let number = looks.len().max(1) as f64;
    let of = |amount: fn(&Amounts) -> i64| {
        let mean = looks.iter().map(|look| amount(look) as f64).sum::<f64>() / number;
        let squares = looks.iter().map(|look| (amount(look) as f64 - mean).powi(2));
        (squares.sum::<f64>() / number).sqrt().round() as i64
    };
    Amounts {
        cpu: of(|look| look.cpu),
        memory: of(|look| look.memory),
        pods: of(|look| look.pods),
        gpus: of(|look| look.gpus),
    }
}

impl Policy for Predecessor {
    fn see(&mut self, change: Change, world: &World<'_>) {
        self.quota.see(change, world);
        self.youngest.see(change, world);
    }

    fn act(&mut self, world: &World<'_>) -> Vec<Order> {
        if world.now < self.next_look {
            return Vec::new();
        }
        self.next_look = world.now + EVERY;
        if self.looks.len() == LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(world.asked_by_ordinary);
        let margin = deviation(&self.looks);
        let limit = self.most.minus(margin);
        let killed = self.youngest.beyond(self.quota.used(world), (limit, limit), world);
        let mut orders: Vec<Order> = killed.into_iter().map(Order::Kill).collect();
        if orders.is_empty() {
            self.quota.admit_below(margin, world, &mut orders);
        }
        orders
    }

    fn wake_at(&self) -> Option<Time> {
        Some(self.next_look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_the_standard_deviation_of_each_resource() {
        let looks = [2, 4, 4, 4, 5, 5, 7, 9].map(|cpu| Amounts { cpu, memory: 7, pods: 0, gpus: 0 });
        assert_eq!(deviation(&looks.into()), Amounts { cpu: 2, memory: 0, pods: 0, gpus: 0 });
        assert_eq!(deviation(&VecDeque::new()), Amounts::default());
    }
}
