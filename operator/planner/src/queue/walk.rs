//! The walk along the queue: who starts next, for as long as there is capacity.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Line, Queue,
    rank::{Lane, Rank, Starting, Turn},
    reservation::{Reservation, touched},
};
use crate::{
    capacity::Capacity,
    promises::Promises,
    values::{Demand, Key, Name, Settings},
};

/// So many heads of lines are looked at again at each walk, in turn, for what they wait for: its numbers change, and to
/// look at all of them each time would cost more than the walk.
const RETOLD_PER_WALK: usize = 8;

/// Why the head of a line does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    Room,
    /// As many start as may at the same time.
    Starts,
}

/// What became of one walk along the queue.
#[derive(Debug, Default)]
pub struct Walk {
    /// Those that start, and what room was reserved for.
    pub started: Vec<(Key, Demand)>,
    /// Those that wait for another reason than they were told, and some whose reason may have other numbers by now;
    /// [`Queue::waiting`] says for which.
    pub told: Vec<Key>,
}

/// What is walked through and what is taken from.
pub struct Room<'a> {
    /// The nodes.
    pub capacity: &'a mut Capacity,
    /// What is in flight.
    pub promises: &'a mut Promises,
    /// Settings of the pool.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
}

impl Queue {
    /// Walks along the queue and starts whom there is room for. Room is reserved in the ledger at once, so that the
    /// next one sees what is left. `starting` ScavengerJobs are starting already.
    pub fn walk(&mut self, room: &mut Room<'_>, mut starting: Starting) -> Walk {
        let mut walk = Walk::default();
        room.capacity.settle(room.promises);
        self.decide_who_never_fits(room, &mut walk);
        // Made only if somebody fits: until then there is nothing to keep from anybody.
        let mut reservations = None;
        let mut from = None;
        while starting.has_room_for(false, room.settings) {
            let may_fail = starting.has_room_for(true, room.settings);
            let next = self.next(from, may_fail, &mut reservations, room, &mut walk);
            let Some((lane, rank)) = next else { break };
            let nodes = room.capacity.nodes_to_take(lane.ask);
            let demand = room.capacity.demand(lane.ask).clone();
            let sj = rank.sj();
            room.promises.admit(&sj, &demand.per_pod, nodes);
            self.remove(&sj, room.capacity);
            room.capacity.settle(room.promises);
            starting.all += 1;
            starting.failed += usize::from(lane.failed);
            if reservations.iter().flatten().any(|reservation: &Reservation| reservation.sj == sj) {
                // What was kept for it is kept no longer, or for another.
                reservations = None;
                from = None;
            } else if !lane.failed {
                // Capacity only shrinks along the walk: one that was passed over is passed over again.
                from = Some(rank.turn);
            }
            walk.started.push((sj, demand));
        }
        for lane in std::mem::take(&mut self.untold) {
            self.tell(lane, Obstacle::Starts, &mut walk);
        }
        let lines = self.lines.range(self.retold..).chain(self.lines.range(..self.retold));
        for (lane, line) in lines.take(RETOLD_PER_WALK) {
            self.retold = lane.next();
            if line.told == Some(Obstacle::Room) {
                walk.told.extend(line.members.first().map(|rank| rank.sj()));
            }
        }
        walk
    }

    /// The first one that fits and touches no reservation, and the line it is in. Of those whose last start failed it is
    /// the one whose delay was over first, if `failed` says that one of them may start.
    fn next(
        &mut self,
        from: Option<Turn>,
        failed: bool,
        reservations: &mut Option<Vec<Reservation>>,
        room: &mut Room<'_>,
        walk: &mut Walk,
    ) -> Option<(Lane, Arc<Rank>)> {
        let free = room.capacity.free_row(room.promises.ledger(), room.settings);
        let mut candidates: Vec<(Turn, Lane, Option<Arc<Rank>>)> = Vec::new();
        let mut passed_over: Vec<(Lane, Option<Key>)> = Vec::new();
        let is_ahead = |turn: Turn, lane: Lane| lane.failed || from.is_none_or(|from| from <= turn);
        for (turn, lane) in self.fronts.iter().filter(|(turn, lane)| is_ahead(*turn, *lane)) {
            if room.capacity.fits(lane.ask, &free) {
                candidates.push((*turn, *lane, None));
            } else {
                passed_over.push((*lane, None));
            }
        }
        if reservations.is_none() && !candidates.is_empty() {
            *reservations = Some(self.reservations(room));
        }
        let reservations = reservations.as_deref_mut().unwrap_or_default();
        // Who has a reservation has its turn even if others of its line come first.
        for one in reservations.iter().filter(|one| is_ahead(one.rank.turn, one.lane)) {
            if room.capacity.fits(one.lane.ask, &free) {
                let place = candidates.partition_point(|(turn, ..)| *turn < one.rank.turn);
                candidates.insert(place, (one.rank.turn, one.lane, Some(one.rank.clone())));
            }
        }
        // Of those whose last start failed one stays, the first that touches no reservation. Where only one ScavengerJob
        // may start at a time there is no half for them, so all others go first.
        let again = |lane: &Lane, alone: &Option<Arc<Rank>>| {
            let rank = alone.as_ref().or_else(|| self.lines.get(lane)?.members.first())?;
            Some((rank.again?, rank.clone()))
        };
        let mut agains: Vec<(Timestamp, Arc<Rank>, Lane)> = candidates
            .iter()
            .filter_map(|(_, lane, alone)| again(lane, alone).map(|(time, rank)| (time, rank, *lane)))
            .collect();
        agains.sort_unstable();
        let alone_counts = room.settings.max_concurrent_starts == 1;
        let may_fail = failed && !(alone_counts && agains.len() < candidates.len());
        let first = agains.into_iter().filter(|_| may_fail).find_map(|(_, rank, lane)| {
            let holder = touched(lane.ask, &rank, reservations, &free, room);
            passed_over.extend(holder.as_ref().map(|holder| (lane, Some(holder.clone()))));
            holder.is_none().then_some(rank)
        });
        candidates.retain(|(_, lane, alone)| again(lane, alone).is_none_or(|(_, rank)| Some(rank) == first));
        let mut best: Option<(Turn, i128, Lane, Arc<Rank>)> = None;
        for (turn, lane, alone) in &candidates {
            if best.as_ref().is_some_and(|best| best.0 != *turn) {
                break;
            }
            let firsts = self.lines.get(lane).filter(|_| alone.is_none()).into_iter().flat_map(Line::firsts);
            for rank in firsts.chain(alone) {
                if let Some(holder) = touched(lane.ask, rank, reservations, &free, room) {
                    passed_over.extend(alone.is_none().then_some((*lane, Some(holder))));
                    continue;
                }
                let share = room.capacity.dominant_share(&rank.namespace, room.promises.ledger());
                if best.as_ref().is_none_or(|best| (share, &rank.uid) < (best.1, &best.3.uid)) {
                    best = Some((*turn, share, *lane, rank.clone()));
                }
            }
        }
        for (lane, holder) in passed_over {
            if let Some(line) = self.lines.get_mut(&lane) {
                line.kept_for = holder;
            }
            self.tell(lane, Obstacle::Room, walk);
        }
        best.map(|(_, _, lane, rank)| (lane, rank))
    }

    fn tell(&mut self, lane: Lane, obstacle: Obstacle, walk: &mut Walk) {
        let Some(line) = self.lines.get_mut(&lane) else { return };
        if line.told == Some(obstacle) {
            return;
        }
        line.told = Some(obstacle);
        self.untold.remove(&lane);
        walk.told.extend(line.members.first().map(|rank| rank.sj()));
    }

    /// Finds out of new lines, and of all if nodes came, went or changed, whether they can ever fit.
    fn decide_who_never_fits(&mut self, room: &mut Room<'_>, walk: &mut Walk) {
        let new = std::mem::take(&mut self.new);
        let epoch = room.capacity.epoch();
        let all = std::mem::replace(&mut self.epoch, epoch) != epoch;
        let lanes: Vec<Lane> =
            if all { self.lines.keys().copied().collect() } else { new.iter().copied().collect() };
        for lane in lanes {
            let never = room.capacity.never_fits(lane.ask, room.settings);
            let Some(line) = self.lines.get_mut(&lane) else { continue };
            let (is_new, never) = (new.contains(&lane), never.is_some());
            if !is_new && line.never == never {
                continue;
            }
            line.never = never;
            line.told = None;
            let Some(head) = line.members.first() else { continue };
            if never {
                self.fronts.remove(&(head.turn, lane));
                self.untold.remove(&lane);
            } else {
                self.fronts.insert((head.turn, lane));
                self.untold.insert(lane);
            }
            if !is_new {
                walk.told.extend(line.members.iter().map(|rank| rank.sj()));
            }
        }
    }
}

impl Line {
    /// Of those that have the turn of the head, the first of each namespace.
    fn firsts(&self) -> impl Iterator<Item = &Arc<Rank>> {
        let mut next = self.members.first();
        std::iter::from_fn(move || {
            let rank = next?;
            let empty: Name = Name::from("");
            // Names of namespaces hold no NUL: nothing lies between a namespace and its name with one behind it.
            let behind = Rank {
                again: rank.again,
                turn: rank.turn,
                namespace: format!("{}\0", rank.namespace).into(),
                uid: empty.clone(),
                name: empty,
                created: Timestamp::MIN,
                ready_since: Timestamp::MIN,
            };
            let alike = |after: &&Arc<Rank>| (after.again, after.turn) == (rank.again, rank.turn);
            next = self.members.range::<Rank, _>(behind..).next().filter(alike);
            Some(rank)
        })
    }
}
