//! Nobody runs ScavengerJobs: what others are compared with.

use super::rule::Policy;
use crate::{
    values::Time,
    world::{Change, Order, World},
};

/// Does nothing.
#[derive(Debug)]
pub(super) struct Nobody;

impl Policy for Nobody {
    fn see(&mut self, _: Change, _: &World<'_>) {}

    fn act(&mut self, _: &World<'_>) -> Vec<Order> {
        Vec::new()
    }

    fn wake_at(&self) -> Option<Time> {
        None
    }
}
