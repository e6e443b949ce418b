//! The queue as a list, for people who ask: who is where, and what decides that.

use jiff::Timestamp;

use super::Queue;
use crate::{
    capacity::{Capacity, promises::Ledger},
    values::{Demand, Key},
};

/// A ScavengerJob in the queue, with the parts of its rank in the order in which they decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry<'a> {
    /// The ScavengerJob.
    pub sj: Key,
    /// Interruptions that advance it: the more, the earlier its turn.
    pub interruptions: u32,
    /// Since when it waits: its creation, or its last interruption.
    pub waiting_since: Timestamp,
    /// The largest share of any of the pool's resources that its namespace holds, in millionths: of equals the one of
    /// the smaller share comes first.
    pub namespace_share: i128,
    /// Since when nothing but capacity keeps it.
    pub ready_since: Timestamp,
    /// True if its last start failed: then it takes one of the start slots for such ScavengerJobs.
    pub last_start_failed: bool,
    /// What it requests.
    pub demand: &'a Demand,
}

impl Queue {
    /// Since when the one that has waited longest has waited for nothing but capacity, of those that can ever fit.
    pub(crate) fn oldest_ready(&self) -> Option<Timestamp> {
        let lines = self.lines.values().filter(|line| !line.never);
        lines.filter_map(|line| line.ages.first()).map(|(since, _)| *since).min()
    }

    /// Everyone in the queue, first those whose turn is first. Sorts the whole queue: for people who ask.
    pub(crate) fn in_order<'a>(&'a self, capacity: &'a Capacity, ledger: &Ledger) -> Vec<QueueEntry<'a>> {
        let mut members: Vec<_> = self.places.values().collect();
        members.sort_by_cached_key(|(_, rank)| {
            (rank.turn, capacity.dominant_share(&rank.namespace, ledger), rank.uid.clone())
        });
        members
            .into_iter()
            .map(|(lane, rank)| QueueEntry {
                sj: rank.sj(),
                interruptions: rank.turn.interruptions.0,
                waiting_since: rank.turn.waiting_since,
                namespace_share: capacity.dominant_share(&rank.namespace, ledger),
                ready_since: rank.ready_since,
                last_start_failed: lane.failed,
                demand: capacity.demand(lane.ask),
            })
            .collect()
    }
}
