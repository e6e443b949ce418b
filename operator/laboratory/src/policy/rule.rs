//! What a policy is.

use std::collections::BTreeMap;

use crate::{
    values::Time,
    world::{Change, Order, World},
};

/// A rule by which ScavengerJobs start and stop.
pub trait Policy {
    /// Takes in what changed. What it is told later it must not know before: it may look at the world, and must delay itself
    /// what it sees late.
    fn see(&mut self, change: Change, world: &World<'_>);

    /// Says what is to be done now.
    fn act(&mut self, world: &World<'_>) -> Vec<Order>;

    /// When it wants to act although nothing changes.
    fn wake_at(&self) -> Option<Time>;

    /// How often it ordered an interruption, by reason; nothing if it has one reason only.
    fn ordered(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

/// Priority of pods of ScavengerJobs, where all have the same.
pub(super) const LOW: i32 = -1000;
