//! The walk along the queue: who starts next, for as long as there is capacity.

use std::{ops::Bound, sync::Arc};

use jiff::Timestamp;

use super::{
    Line, Queue,
    rank::{Lane, Rank, Starting, Turn},
    reservation::{Reservation, touched},
};
use crate::{
    capacity::Capacity,
    known::later,
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
    /// Its namespace is held.
    Hold,
}

/// A line whose demand fits, with the member that holds a standing reservation, or else with its first.
#[derive(Debug)]
struct Candidate {
    turn: Turn,
    lane: Lane,
    holder: Option<Arc<Rank>>,
}

/// One that may start, and what decides among several.
#[derive(Debug)]
struct Best {
    turn: Turn,
    share: i128,
    lane: Lane,
    rank: Arc<Rank>,
}

impl Best {
    /// The smallest starts.
    fn order(&self) -> (Turn, i128, &Name) {
        (self.turn, self.share, &self.rank.uid)
    }
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
        self.settle_holds(room.capacity, room.settings, room.now);
        self.decide_who_never_fits(room, &mut walk);
        // Made only if somebody fits: until then there is nothing to keep from anybody.
        let mut reservations = None;
        let mut from = None;
        while starting.has_room_for(false, room.settings) {
            let next = self.next(from, starting, &mut reservations, room, &mut walk);
            let Some((lane, rank)) = next else { break };
            let nodes = room.capacity.nodes_to_take(lane.ask);
            let demand = room.capacity.demand(lane.ask).clone();
            let sj = rank.sj();
            room.promises.admit(&sj, &demand.per_pod, nodes);
            self.remove(&sj, room.capacity);
            room.capacity.settle(room.promises);
            starting.all += 1;
            if lane.is_doubtful() {
                starting.failed += 1;
                self.failed_started = Some(room.now);
            }
            if let Some(hold) = lane.hold {
                self.holds.probe(hold, sj.clone());
            }
            if reservations.iter().flatten().any(|reservation: &Reservation| reservation.sj == sj) {
                // What was kept for it is kept no longer, or for another.
                reservations = None;
                from = None;
            } else if !lane.is_doubtful() {
                // Capacity only shrinks along the walk: one that was passed over is passed over again.
                from = Some(rank.turn);
            }
            walk.started.push((sj, demand));
        }
        for lane in std::mem::take(&mut self.untold) {
            self.tell(lane, Obstacle::Starts, &mut walk);
        }
        let behind = (Bound::Excluded(self.retold), Bound::Unbounded);
        let lines = self.lines.range(behind).chain(self.lines.range(..=self.retold));
        for (lane, line) in lines.take(RETOLD_PER_WALK) {
            self.retold = *lane;
            if line.told == Some(Obstacle::Room) {
                walk.told.extend(line.members.first().map(|rank| rank.sj()));
            }
        }
        walk
    }

    /// The first one that fits and touches no reservation, and the line it is in. Of those whose last start failed it is
    /// the one whose delay was over first, if `starting` leaves a slot to them.
    fn next(
        &mut self,
        from: Option<Turn>,
        starting: Starting,
        reservations: &mut Option<Vec<Reservation>>,
        room: &mut Room<'_>,
        walk: &mut Walk,
    ) -> Option<(Lane, Arc<Rank>)> {
        let free = room.capacity.free_row(room.promises.ledger(), room.settings);
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut failed: Vec<Candidate> = Vec::new();
        let mut passed_over: Vec<(Lane, Option<Key>)> = Vec::new();
        let mut held = Vec::new();
        let is_ahead = |turn: Turn, lane: Lane| lane.is_doubtful() || from.is_none_or(|from| from <= turn);
        for (turn, lane) in self.fronts.iter().filter(|(turn, lane)| is_ahead(*turn, *lane)) {
            if lane.hold.is_some_and(|hold| !self.holds.is_open(hold)) {
                held.push(*lane);
                continue;
            }
            if !room.capacity.fits(lane.ask, &free) {
                passed_over.push((*lane, None));
                continue;
            }
            let list = if lane.is_doubtful() { &mut failed } else { &mut candidates };
            list.push(Candidate { turn: *turn, lane: *lane, holder: None });
        }
        if reservations.is_none() && !(candidates.is_empty() && failed.is_empty()) {
            *reservations = Some(self.reservations(room));
        }
        let reservations = reservations.as_deref_mut().unwrap_or_default();
        // Who has a reservation has its turn even if others of its line come first.
        for one in reservations.iter().filter(|one| is_ahead(one.rank.turn, one.lane)) {
            if room.capacity.fits(one.lane.ask, &free) {
                let list = if one.lane.is_doubtful() { &mut failed } else { &mut candidates };
                let place = list.partition_point(|other| other.turn < one.rank.turn);
                let holder = Some(one.rank.clone());
                list.insert(place, Candidate { turn: one.rank.turn, lane: one.lane, holder });
            }
        }
        let mut again = None;
        if starting.has_room_for(true, room.settings) {
            again = self.first_of_failed(failed, reservations, &free, room, &mut passed_over);
        }
        let has_precedence = self.failed_have_precedence(room);
        let first = match again {
            Some((_, lane, rank)) if has_precedence => Some((lane, rank)),
            again => {
                let best = self.first_in_turn(&candidates, reservations, &free, room, &mut passed_over);
                let again = again.filter(|_| best.is_none() || room.settings.max_concurrent_starts > 1);
                // By their turns, as if those whose last start failed waited in the same line.
                let all = best.into_iter().chain(again.map(|(turn, lane, rank)| {
                    let share = room.capacity.dominant_share(&rank.namespace, room.promises.ledger());
                    Best { turn, share, lane, rank }
                }));
                all.min_by(|a, b| a.order().cmp(&b.order())).map(|best| (best.lane, best.rank))
            }
        };
        for lane in held {
            self.tell(lane, Obstacle::Hold, walk);
        }
        for (lane, holder) in passed_over {
            if let Some(line) = self.lines.get_mut(&lane) {
                line.kept_for = holder;
            }
            self.tell(lane, Obstacle::Room, walk);
        }
        first
    }

    /// True if those whose last start failed come before all others now. Where several may start, half of the slots is
    /// theirs. Where only one may, half of the time is: each start that fails takes as long as pods may stay
    /// unscheduled, and for as long again the others come first.
    fn failed_have_precedence(&self, room: &Room<'_>) -> bool {
        let until = |started| later(started, room.settings.pending_timeout.saturating_mul(2));
        room.settings.max_concurrent_starts == 1
            && self.failed_started.is_none_or(|started| until(started) <= room.now)
    }

    /// Of those whose last start failed, the one whose delay was over first and that touches no reservation.
    fn first_of_failed(
        &self,
        candidates: Vec<Candidate>,
        reservations: &mut [Reservation],
        free: &[i64],
        room: &mut Room<'_>,
        passed_over: &mut Vec<(Lane, Option<Key>)>,
    ) -> Option<(Turn, Lane, Arc<Rank>)> {
        let mut ranks: Vec<(Option<Timestamp>, Arc<Rank>, Lane)> = Vec::new();
        for Candidate { lane, holder, .. } in candidates {
            let head = || self.lines.get(&lane)?.members.first().cloned();
            let probes_since = lane.hold.and_then(|hold| self.holds.open_since(hold));
            ranks.extend(holder.or_else(head).map(|rank| (rank.again.max(probes_since), rank, lane)));
        }
        ranks.sort_unstable();
        for (_, rank, lane) in ranks {
            match touched(lane.ask, &rank, reservations, free, room) {
                Some(holder) => passed_over.push((lane, Some(holder))),
                None => return Some((rank.turn, lane, rank)),
            }
        }
        None
    }

    /// Of the candidates, which are in the order of their turns, the first that touches no reservation; of several that
    /// have the same turn, the one whose namespace has the smallest share.
    fn first_in_turn(
        &self,
        candidates: &[Candidate],
        reservations: &mut [Reservation],
        free: &[i64],
        room: &mut Room<'_>,
        passed_over: &mut Vec<(Lane, Option<Key>)>,
    ) -> Option<Best> {
        let mut best: Option<Best> = None;
        for Candidate { turn, lane, holder } in candidates {
            if best.as_ref().is_some_and(|best| best.turn != *turn) {
                break;
            }
            let firsts = self.lines.get(lane).filter(|_| holder.is_none()).into_iter().flat_map(Line::firsts);
            for rank in firsts.chain(holder) {
                if let Some(kept_for) = touched(lane.ask, rank, reservations, free, room) {
                    passed_over.extend(holder.is_none().then_some((*lane, Some(kept_for))));
                    continue;
                }
                let share = room.capacity.dominant_share(&rank.namespace, room.promises.ledger());
                let one = Best { turn: *turn, share, lane: *lane, rank: rank.clone() };
                if best.as_ref().is_none_or(|best| one.order() < best.order()) {
                    best = Some(one);
                }
            }
        }
        best
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
