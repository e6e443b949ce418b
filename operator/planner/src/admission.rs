//! Who starts next: the queue of ScavengerJobs that may start, and the walk along it for as long as there is room.
//!
//! Order: those that were interrupted most come first (at most 10 counted interruptions), then those that have waited
//! longest; of several that are equal in both, the one whose namespace has the smaller share of the pool (the largest
//! share of any resource that its ScavengerJobs hold), then by UID. One that does not fit does not hold up those
//! behind it.
//!
//! Nobody starves: who has waited for the pool's `reserveAfter` (since it was created or last interrupted, or since the delay
//! after a withdrawn start was over) and would fit if no ScavengerJob were there gets a standing reservation. There is
//! one for each kind of demand (the set of extended resources it asks for); of several of a kind the one that has
//! waited longest has it. It binds those behind its holder in the order above, and those created after its holder began
//! to wait: these could have been interrupted only because they were let past before, so that does not put them ahead
//! again. Who is bound may start only if it does not touch the reservation:
//!
//! - below the threshold there must be room for it and for the holder, in every resource that both ask for;
//! - the holder's nodes are those where least has to end before its pods fit beside ordinary ones. On each of them at
//!   which the scheduler could put pods of the one that is bound, the holder must fit beside these, too.
//!
//! So of what the holder needs nothing is taken any more by those that came later, and each ScavengerJob that ends gives
//! it more: it starts as soon as those that were there before it, which are finite in number, are through. Ordinary pods
//! are never held up, and who can not fit beside them reserves nothing. All of this follows from what statuses say,
//! so it outlives a restart. Slurm and Maui keep room for the head of the queue in the same way (EASY backfill); there
//! users promise when their jobs end, here nobody does, so nothing may be lent out of the reservation.
//!
//! A start that fails holds its place among those that start for as long as pods may stay unscheduled. Those whose last
//! start failed may take half of these places, and try again in the order in which their delays were over, so however
//! many there are that never get to run, they keep neither the others waiting nor each other. For room they keep their
//! turn.
//!
//! ScavengerJobs with equal demands either all fit or none does, so they wait in one line (and those of them whose last
//! start failed in another), and only the head of each line is looked at. What each line needs to know of the nodes is
//! kept up by `places`, so a walk costs a few comparisons for each different demand, however many ScavengerJobs and
//! nodes there are.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    capacity::Capacity,
    places::Ask,
    promises::Promises,
    values::{Demand, Job, Key, Name, Phase, Settings, Waiting, WaitingReason},
};

/// More interruptions than this do not advance any further.
const MAX_COUNTED_INTERRUPTIONS: u32 = 10;

/// So many heads of lines are told anew at each walk, in turn, what they wait for: the numbers in it change, and to
/// look at all of them each time would cost more than the walk.
const RETOLD_PER_WALK: usize = 8;

/// What is looked at first to put ScavengerJobs in order; the smallest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    interruptions: Reverse<u32>,
    waiting_since: Timestamp,
}

/// Place in a line; the smallest comes first. Equal turns lie side by side, sorted by namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// When the delay after its last start was over, if that failed.
    again: Option<Timestamp>,
    turn: Turn,
    namespace: Name,
    uid: Name,
    name: Name,
    created: Timestamp,
    /// Since when nothing but room has been lacking.
    ready_since: Timestamp,
}

impl Rank {
    /// Rank of a ScavengerJob. It has waited since it was created, or since it was last interrupted; a withdrawn
    /// attempt costs no place.
    fn of(job: &Job) -> Self {
        let since = match job.status.phase {
            Phase::Interrupted => job.status.interruption_times.last().copied(),
            _ => None,
        };
        let waiting_since = since.unwrap_or(job.creation_time);
        let ready_since = job.status.not_before.map_or(waiting_since, |time| time.max(waiting_since));
        Self {
            again: (job.status.failed_starts > 0).then_some(ready_since),
            turn: Turn {
                interruptions: Reverse(job.status.counted_interruptions.min(MAX_COUNTED_INTERRUPTIONS)),
                waiting_since,
            },
            namespace: job.key.namespace.clone(),
            uid: job.uid.clone(),
            name: job.key.name.clone(),
            created: job.creation_time,
            ready_since,
        }
    }

    fn job(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// Number of a line: what its members ask for, and whether their last start failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    ask: Ask,
    failed: bool,
}

impl Lane {
    /// The one behind this.
    fn next(self) -> Self {
        if self.failed { Self { ask: self.ask.next(), failed: false } } else { Self { failed: true, ..self } }
    }
}

/// How many start already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Starting {
    /// All of them.
    pub all: usize,
    /// Those of them whose last start failed.
    pub failed: usize,
}

impl Starting {
    /// True if one more of these may start.
    fn has_room_for(self, failed: bool, settings: &Settings) -> bool {
        let most = settings.max_concurrent_starts;
        self.all < most && (!failed || self.failed < (most / 2).max(1))
    }
}

/// The ScavengerJobs that may start, in lines of equal demand.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    lines: BTreeMap<Lane, Line>,
    /// A rank is large, so its line holds the same copy.
    places: BTreeMap<Key, (Lane, Arc<Rank>)>,
    /// Turns of the heads of all lines that can fit at all.
    fronts: BTreeSet<(Turn, Lane)>,
    /// Lines about which it is not known yet whether they can ever fit.
    new: BTreeSet<Lane>,
    /// Lines that can fit and whose head was not told yet why it waits.
    untold: BTreeSet<Lane>,
    /// The line that is told anew next.
    retold: Lane,
    /// Epoch of the capacity in which it was last decided who never fits.
    epoch: u64,
    /// True if somebody may have come since [`Self::take_changed`].
    changed: bool,
}

#[derive(Debug, Clone, Default)]
struct Line {
    members: BTreeSet<Arc<Rank>>,
    /// The members, longest waiting first.
    ages: BTreeSet<(Timestamp, Key)>,
    /// True if its demand can never fit.
    never: bool,
    /// Why its head waits, as far as the head was told.
    told: Option<Obstacle>,
    /// For whom the room is kept that its head does not get.
    kept_for: Option<Key>,
}

/// A standing reservation.
#[derive(Debug)]
struct Reservation {
    lane: Lane,
    rank: Arc<Rank>,
    job: Key,
    /// Nodes where room is kept, with the number of pods on each, once somebody wanted to know.
    nodes: Option<Vec<(usize, u32)>>,
}

impl Reservation {
    fn binds(&self, other: &Rank) -> bool {
        other.uid != self.rank.uid
            && (other.turn > self.rank.turn || other.created > self.rank.turn.waiting_since)
    }
}

/// Why the head of a line does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
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
    /// Puts a ScavengerJob into its line, or moves it.
    pub fn insert(&mut self, job: &Job, demand: &Demand, capacity: &mut Capacity) {
        self.changed = true;
        let rank = Rank::of(job);
        match self.places.get(&job.key) {
            Some((lane, old_rank)) if capacity.demand(lane.ask) == demand && **old_rank == rank => return,
            Some(_) => self.remove(&job.key, capacity),
            None => {}
        }
        let lane = Lane { ask: capacity.ask(demand), failed: rank.again.is_some() };
        let rank = Arc::new(rank);
        if !self.lines.contains_key(&lane) {
            self.new.insert(lane);
        }
        self.change_line(lane, |line| {
            line.ages.insert((rank.ready_since, job.key.clone()));
            line.members.insert(rank.clone());
        });
        self.places.insert(job.key.clone(), (lane, rank));
    }

    /// True if somebody may have come since this was called last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Takes a ScavengerJob out.
    pub fn remove(&mut self, job: &Key, capacity: &mut Capacity) {
        let Some((lane, rank)) = self.places.remove(job) else { return };
        self.change_line(lane, |line| {
            line.ages.remove(&(rank.ready_since, job.clone()));
            line.members.remove(&rank);
        });
        capacity.forget(lane.ask);
    }

    /// Changes who is in a line and keeps up what is known of its head.
    fn change_line(&mut self, lane: Lane, change: impl FnOnce(&mut Line)) {
        let line = self.lines.entry(lane).or_default();
        let before = line.members.first().cloned();
        change(line);
        let after = line.members.first();
        if before.as_ref() == after {
            return;
        }
        line.told = None;
        if let Some(before) = &before {
            self.fronts.remove(&(before.turn, lane));
        }
        match after {
            Some(after) if !line.never && !self.new.contains(&lane) => {
                self.fronts.insert((after.turn, lane));
                self.untold.insert(lane);
            }
            Some(_) => {}
            None => {
                self.lines.remove(&lane);
                self.new.remove(&lane);
                self.untold.remove(&lane);
            }
        }
    }

    /// True if the ScavengerJob is in the queue.
    #[must_use]
    pub fn contains(&self, job: &Key) -> bool {
        self.places.contains_key(job)
    }

    /// Everyone in the queue, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.places.keys()
    }

    /// How many are before a ScavengerJob, not counting those whose turn is the same, and how many there are. Walks over
    /// the whole queue: for people who ask.
    #[must_use]
    pub fn place(&self, job: &Key) -> Option<(usize, usize)> {
        let (_, own) = self.places.get(job)?;
        let before = self.places.values().filter(|(_, rank)| rank.turn < own.turn).count();
        Some((before, self.places.len()))
    }

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
            let nodes = room.capacity.nodes_asked(lane.ask);
            let demand = room.capacity.demand(lane.ask).clone();
            let job = rank.job();
            room.promises.admit(&job, &demand.per_pod, nodes);
            self.remove(&job, room.capacity);
            room.capacity.settle(room.promises);
            starting.all += 1;
            starting.failed += usize::from(lane.failed);
            if reservations.iter().flatten().any(|reservation: &Reservation| reservation.job == job) {
                // What was kept for it is kept no longer, or for another.
                reservations = None;
                from = None;
            } else if !lane.failed {
                // Room only shrinks along the walk: whoever was passed over is passed over again.
                from = Some(rank.turn);
            }
            walk.started.push((job, demand));
        }
        for lane in std::mem::take(&mut self.untold) {
            self.tell(lane, Obstacle::Starts, &mut walk);
        }
        let lines = self.lines.range(self.retold..).chain(self.lines.range(..self.retold));
        for (lane, line) in lines.take(RETOLD_PER_WALK) {
            self.retold = lane.next();
            if line.told == Some(Obstacle::Room) {
                walk.told.extend(line.members.first().map(|rank| rank.job()));
            }
        }
        walk
    }

    /// Who has a standing reservation now, longest waiting first.
    fn reservations(&self, room: &mut Room<'_>) -> Vec<Reservation> {
        let due = room.now.saturating_sub(room.settings.reserve_after).unwrap_or(Timestamp::MIN);
        let without_scavengers = room.capacity.free_row_without_scavengers(room.settings);
        let mut oldest: BTreeMap<u64, (&(Timestamp, Key), Lane)> = BTreeMap::new();
        for (_, lane) in &self.fronts {
            let Some(age) = self.lines.get(lane).and_then(|line| line.ages.first()) else { continue };
            if age.0 > due || !room.capacity.fits_without_scavengers(lane.ask, &without_scavengers) {
                continue;
            }
            let kind = room.capacity.kind(lane.ask);
            if oldest.get(&kind).is_none_or(|(other, _)| age < *other) {
                oldest.insert(kind, (age, *lane));
            }
        }
        let mut oldest: Vec<(&(Timestamp, Key), Lane)> = oldest.into_values().collect();
        oldest.sort_unstable();
        let reservation = |((_, job), lane): (&(Timestamp, Key), Lane)| {
            let (_, rank) = self.places.get(job)?;
            Some(Reservation { lane, rank: rank.clone(), job: job.clone(), nodes: None })
        };
        oldest.into_iter().filter_map(reservation).collect()
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
            if room.capacity.fits_asked(lane.ask, &free) {
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
            if room.capacity.fits_asked(one.lane.ask, &free) {
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
        walk.told.extend(line.members.first().map(|rank| rank.job()));
    }

    /// Finds out of new lines, and of all if nodes came, went or changed, whether they can ever fit.
    fn decide_who_never_fits(&mut self, room: &mut Room<'_>, walk: &mut Walk) {
        let new = std::mem::take(&mut self.new);
        let epoch = room.capacity.epoch();
        let all = std::mem::replace(&mut self.epoch, epoch) != epoch;
        let lanes: Vec<Lane> =
            if all { self.lines.keys().copied().collect() } else { new.iter().copied().collect() };
        for lane in lanes {
            let never = room.capacity.never_fits_asked(lane.ask, room.settings);
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
                walk.told.extend(line.members.iter().map(|rank| rank.job()));
            }
        }
    }

    /// Why a ScavengerJob in the queue waits, as far as the last walk found out.
    pub fn waiting(&self, job: &Key, room: &mut Room<'_>, starting: usize) -> Option<Waiting> {
        let (lane, rank) = self.places.get(job)?;
        let line = self.lines.get(lane)?;
        if line.never
            && let Some(shortage) = room.capacity.never_fits_asked(lane.ask, room.settings)
        {
            return Some(Waiting { reason: WaitingReason::NeverFits, message: shortage.message });
        }
        if line.members.first() != Some(rank) {
            let before = line.members.len().saturating_sub(1);
            let message = format!("waits in line with {before} others that ask for the same");
            return Some(Waiting { reason: WaitingReason::BehindInQueue, message });
        }
        Some(match line.told {
            Some(Obstacle::Room) if line.kept_for.is_some() => {
                let holder = line.kept_for.as_ref().map_or_else(String::new, Key::to_string);
                let message = format!("the room that is left is kept for {holder}, which has waited long");
                Waiting { reason: WaitingReason::NoRoom, message }
            }
            Some(Obstacle::Room) => {
                let shortage = room.capacity.shortage_asked(lane.ask, room.promises.ledger(), room.settings);
                Waiting { reason: WaitingReason::NoRoom, message: shortage.message }
            }
            _ => {
                let message = format!(
                    "waits for its turn: {starting} others are starting (the pool's maxConcurrentStarts{})",
                    if lane.failed { "; half of it for those whose last start failed" } else { "" }
                );
                Waiting { reason: WaitingReason::BehindInQueue, message }
            }
        })
    }

    /// Checks what is kept up against what it is made from.
    ///
    /// # Errors
    /// What differs.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn check(&self, capacity: &Capacity) -> Result<(), String> {
        let mut lines: BTreeMap<Lane, BTreeSet<Arc<Rank>>> = BTreeMap::new();
        for (lane, rank) in self.places.values() {
            lines.entry(*lane).or_default().insert(rank.clone());
        }
        let known: BTreeMap<Lane, BTreeSet<Arc<Rank>>> =
            self.lines.iter().map(|(lane, line)| (*lane, line.members.clone())).collect();
        for line in self.lines.values() {
            let ages: BTreeSet<(Timestamp, Key)> =
                line.members.iter().map(|rank| (rank.ready_since, rank.job())).collect();
            if ages != line.ages {
                return Err("ages differ from those of the members".to_owned());
            }
        }
        if lines != known {
            return Err("lines differ from the places of their members".to_owned());
        }
        let fronts: BTreeSet<(Turn, Lane)> = self
            .lines
            .iter()
            .filter(|(lane, line)| !line.never && !self.new.contains(lane))
            .filter_map(|(lane, line)| Some((line.members.first()?.turn, *lane)))
            .collect();
        if fronts != self.fronts {
            return Err("fronts differ from the heads of the lines".to_owned());
        }
        let asks: BTreeSet<Ask> = self.lines.keys().map(|lane| lane.ask).collect();
        let mut demands: Vec<&Demand> = asks.into_iter().map(|ask| capacity.demand(ask)).collect();
        demands.sort_unstable();
        if demands.windows(2).any(|two| two[0] == two[1]) {
            return Err("two lines have the same demand".to_owned());
        }
        let apart = |(lane, line): (&Lane, &Line)| {
            line.members.iter().all(|rank| rank.again.is_some() == lane.failed)
        };
        if !self.lines.iter().all(apart) {
            return Err("a line holds both those whose last start failed and others".to_owned());
        }
        Ok(())
    }

    /// [`Capacity::never_fits`] of every line, by what the last walk decided.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn never(&self) -> impl Iterator<Item = (Ask, bool)> {
        let known = self.lines.iter().filter(|(lane, _)| !self.new.contains(lane));
        known.map(|(lane, line)| (lane.ask, line.never))
    }
}

/// Whose reservation a ScavengerJob would touch if it started now.
fn touched(
    ask: Ask,
    rank: &Rank,
    reservations: &mut [Reservation],
    free: &[i64],
    room: &mut Room<'_>,
) -> Option<Key> {
    let mut kept = Vec::new();
    for reservation in reservations.iter_mut().filter(|reservation| reservation.binds(rank)) {
        kept.push(reservation.lane.ask);
        if room.capacity.takes_from(ask, &kept, free) {
            return Some(reservation.job.clone());
        }
        let nodes =
            reservation.nodes.get_or_insert_with(|| room.capacity.nodes_to_keep(reservation.lane.ask));
        if room.capacity.takes_from_nodes(ask, reservation.lane.ask, nodes) {
            return Some(reservation.job.clone());
        }
    }
    None
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
