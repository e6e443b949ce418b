//! Why a ScavengerJob in the queue waits.

use super::{Obstacle, Queue, Room};
use crate::values::{Explanation, Key, Shortage, Waiting, WaitingReason};

impl Queue {
    /// Why a ScavengerJob in the queue waits, as far as the last walk found out.
    pub fn waiting(&self, sj: &Key, room: &mut Room<'_>, starting: usize) -> Option<Explanation> {
        let (lane, rank) = self.places.get(sj)?;
        let line = self.lines.get(lane)?;
        if line.never
            && let Some(shortage) = room.capacity.never_fits(lane.ask, room.settings)
        {
            return Some(lacks(WaitingReason::NeverFits, shortage));
        }
        let lacks_room = |hold| line.told == Some(Obstacle::Room) && self.holds.lacks_capacity(hold);
        if let Some(hold) = lane.hold.filter(|hold| !lacks_room(*hold))
            && let Some(waiting) = self.holds.waiting(hold)
        {
            return Some(waiting.into());
        }
        if line.members.first() != Some(rank) {
            let message = "queued behind other ScavengerJobs that request the same resources".to_owned();
            return Some(Waiting { reason: WaitingReason::BehindInQueue, message }.into());
        }
        Some(match line.told {
            Some(Obstacle::Room) if line.kept_for.is_some() => {
                let holder = line.kept_for.as_ref().map_or_else(String::new, Key::to_string);
                let message = format!(
                    "the capacity that is left is reserved for {holder}, which has waited longer than reserveAfter"
                );
                Waiting { reason: WaitingReason::NoCapacity, message }.into()
            }
            Some(Obstacle::Room) => {
                let shortage = room.capacity.shortage(lane.ask, room.promises.ledger(), room.settings);
                lacks(WaitingReason::NoCapacity, shortage)
            }
            _ => {
                let message = format!(
                    "waits for a start slot: {starting} of {} are taken (maxConcurrentStarts{})",
                    room.settings.max_concurrent_starts,
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
