//! What people ask of the queue: who is where, what decides that, and why a ScavengerJob waits.

use jiff::Timestamp;

use super::{Context, Obstacle, Queue};
use crate::{
    capacity::{Capacity, promises::Ledger},
    values::{Demand, Explanation, Key, Shortage, Waiting, WaitingReason},
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
    /// The largest share of any of the pool's resources that its namespace blocks, in millionths: of equals the one of
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

    /// Why a ScavengerJob in the queue waits, as far as the last walk found out.
    pub fn waiting(&self, sj: &Key, context: &mut Context<'_>, starting: usize) -> Option<Explanation> {
        let (lane, rank) = self.places.get(sj)?;
        let line = self.lines.get(lane)?;
        if line.never
            && let Some(shortage) = context.capacity.never_fits(lane.ask, context.settings)
        {
            return Some(lacks(WaitingReason::NeverFits, shortage));
        }
        let lacks_capacity =
            |block| line.reported == Some(Obstacle::Capacity) && self.blocked.lacks_capacity(block);
        if let Some(block) = lane.block.filter(|block| !lacks_capacity(*block))
            && let Some(waiting) = self.blocked.waiting(block)
        {
            return Some(waiting.into());
        }
        if line.members.first() != Some(rank) {
            let message = "queued behind other ScavengerJobs that request the same resources".to_owned();
            return Some(Waiting { reason: WaitingReason::BehindInQueue, message }.into());
        }
        Some(match line.reported {
            Some(Obstacle::Capacity) if line.kept_for.is_some() => {
                let holder = line.kept_for.as_ref().map_or_else(String::new, Key::to_string);
                let message = format!(
                    "the capacity that is left is reserved for {holder}, which has waited longer than reserveAfter"
                );
                Waiting { reason: WaitingReason::NoCapacity, message }.into()
            }
            Some(Obstacle::Capacity) => {
                let shortage =
                    context.capacity.shortage(lane.ask, context.promises.ledger(), context.settings);
                lacks(WaitingReason::NoCapacity, shortage)
            }
            _ => {
                let message = format!(
                    "waits for a start slot: {starting} of {} are taken (maxConcurrentStarts{})",
                    context.settings.max_concurrent_starts,
                    if lane.failed { "; half of them for ScavengerJobs whose last start failed" } else { "" }
                );
                Waiting { reason: WaitingReason::BehindInQueue, message }.into()
            }
        })
    }
}

fn lacks(reason: WaitingReason, shortage: Shortage) -> Explanation {
    Explanation { waiting: Waiting { reason, message: shortage.message.clone() }, shortage: Some(shortage) }
}
