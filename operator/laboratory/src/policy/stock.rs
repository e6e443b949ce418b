//! Plain Jobs of low priority: each is created when it is submitted. kube-scheduler places and preempts their pods, and the Job
//! controller makes another pod for each that was preempted.

use super::rule::{LOW, Policy};
use crate::{
    values::Time,
    world::{Change, Order, Start, World},
};

/// Creates everything at once.
#[derive(Debug, Default)]
pub(super) struct Stock {
    orders: Vec<Order>,
}

impl Policy for Stock {
    fn see(&mut self, change: Change, _: &World<'_>) {
        if let Change::Submitted(sj) = change {
            let start = Start { sj, number: 1, priority: LOW, allowed: None, remakes: true, least: None };
            self.orders.push(Order::Start(start));
        }
    }

    fn act(&mut self, _: &World<'_>) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn wake_at(&self) -> Option<Time> {
        None
    }
}
