//! Who starts next: the queue of ScavengerJobs that may start, and the walk along it for as long as there is room.
//!
//! Order: those that were interrupted most come first (at most 10 counted interruptions), then those that have waited
//! longest; of several that are equal in both, the one whose namespace has the smaller share of the pool (the largest
//! share of any resource that its ScavengerJobs hold), then by UID. One that does not fit does not hold up those
//! behind it.
//!
//! ScavengerJobs with equal demands either all fit or none does, so they wait in one line, and only the head of each
//! line is looked at. What each line needs to know of the nodes is kept up by [`crate::places`], so a walk costs a few
//! comparisons for each different demand, however many ScavengerJobs and nodes there are.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use jiff::Timestamp;

use crate::{
    capacity::Capacity,
    ledger::Ledger,
    places::Ask,
    snapshot::{Demand, Job, Key, Name, Phase, Settings, WaitReason, Waiting},
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
    turn: Turn,
    namespace: Name,
    uid: Name,
    name: Name,
}

impl Rank {
    /// Rank of a ScavengerJob. It has waited since it was created, or since it was last interrupted; a withdrawn
    /// attempt costs no place.
    fn of(job: &Job) -> Self {
        let since = match job.status.phase {
            Phase::Interrupted => job.status.interruption_times.last().copied(),
            _ => None,
        };
        Self {
            turn: Turn {
                interruptions: Reverse(job.status.counted_interruptions.min(MAX_COUNTED_INTERRUPTIONS)),
                waiting_since: since.unwrap_or(job.creation_time),
            },
            namespace: job.key.namespace.clone(),
            uid: job.uid.clone(),
            name: job.key.name.clone(),
        }
    }

    fn job(&self) -> Key {
        Key { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

/// The ScavengerJobs that may start, in lines of equal demand.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    lines: BTreeMap<Ask, Line>,
    places: BTreeMap<Key, (Ask, Rank)>,
    /// Turns of the heads of all lines that can fit at all.
    fronts: BTreeSet<(Turn, Ask)>,
    /// Lines about which it is not known yet whether they can ever fit.
    new: BTreeSet<Ask>,
    /// Lines that can fit and whose head was not told yet why it waits.
    untold: BTreeSet<Ask>,
    /// The line that is told anew next.
    retold: Ask,
    /// Epoch of the capacity in which it was last decided who never fits.
    epoch: u64,
}

#[derive(Debug, Clone, Default)]
struct Line {
    members: BTreeSet<Rank>,
    /// True if its demand can never fit.
    never: bool,
    /// Why its head waits, as far as the head was told.
    told: Option<Obstacle>,
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
    pub ledger: &'a mut Ledger,
    /// Settings of the pool.
    pub settings: &'a Settings,
}

impl Queue {
    /// Puts a ScavengerJob into its line, or moves it.
    pub fn insert(&mut self, job: &Job, demand: &Demand, capacity: &mut Capacity) {
        let rank = Rank::of(job);
        match self.places.get(&job.key) {
            Some((ask, old_rank)) if capacity.demand(*ask) == demand && *old_rank == rank => return,
            Some(_) => self.remove(&job.key, capacity),
            None => {}
        }
        let ask = capacity.ask(demand);
        if !self.lines.contains_key(&ask) {
            self.new.insert(ask);
        }
        self.change_line(ask, |members| _ = members.insert(rank.clone()));
        self.places.insert(job.key.clone(), (ask, rank));
    }

    /// Takes a ScavengerJob out.
    pub fn remove(&mut self, job: &Key, capacity: &mut Capacity) {
        let Some((ask, rank)) = self.places.remove(job) else { return };
        self.change_line(ask, |members| _ = members.remove(&rank));
        capacity.forget(ask);
    }

    /// Changes who is in a line and keeps up what is known of its head.
    fn change_line(&mut self, ask: Ask, change: impl FnOnce(&mut BTreeSet<Rank>)) {
        let line = self.lines.entry(ask).or_default();
        let before = line.members.first().cloned();
        change(&mut line.members);
        let after = line.members.first();
        if before.as_ref() == after {
            return;
        }
        line.told = None;
        if let Some(before) = &before {
            self.fronts.remove(&(before.turn, ask));
        }
        match after {
            Some(after) if !line.never && !self.new.contains(&ask) => {
                self.fronts.insert((after.turn, ask));
                self.untold.insert(ask);
            }
            Some(_) => {}
            None => {
                self.lines.remove(&ask);
                self.new.remove(&ask);
                self.untold.remove(&ask);
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
    pub fn walk(&mut self, room: &mut Room<'_>, mut starting: usize) -> Walk {
        let mut walk = Walk::default();
        room.capacity.settle(room.ledger);
        self.decide_who_never_fits(room, &mut walk);
        let mut from = None;
        while starting < room.settings.max_concurrent_starts {
            let Some((ask, rank)) = self.next(from, room, &mut walk) else { break };
            let nodes = room.capacity.nodes_asked(ask);
            let demand = room.capacity.demand(ask).clone();
            let job = rank.job();
            room.ledger.reserve(&job, &demand.per_pod, nodes.into_iter().map(Some).collect());
            self.remove(&job, room.capacity);
            room.capacity.settle(room.ledger);
            walk.started.push((job, demand));
            starting += 1;
            // Room only shrinks along the walk: whoever was passed over is passed over again.
            from = Some(rank.turn);
        }
        for ask in std::mem::take(&mut self.untold) {
            self.tell(ask, Obstacle::Starts, &mut walk);
        }
        let lines = self.lines.range(self.retold..).chain(self.lines.range(..self.retold));
        for (ask, line) in lines.take(RETOLD_PER_WALK) {
            self.retold = ask.next();
            if line.told == Some(Obstacle::Room) {
                walk.told.extend(line.members.first().map(Rank::job));
            }
        }
        walk
    }

    /// The first one that fits, and the line it is in.
    fn next(&mut self, from: Option<Turn>, room: &mut Room<'_>, walk: &mut Walk) -> Option<(Ask, Rank)> {
        let free = room.capacity.free_row(room.ledger, room.settings);
        let start = from.map_or(Bound::Unbounded, |turn| Bound::Included((turn, Ask::FIRST)));
        let mut best: Option<(Turn, i128, Name, Ask, Rank)> = None;
        let mut without_room = Vec::new();
        for (turn, ask) in self.fronts.range((start, Bound::Unbounded)) {
            if best.as_ref().is_some_and(|best| best.0 != *turn) {
                break;
            }
            if !room.capacity.fits_asked(*ask, &free) {
                without_room.push(*ask);
                continue;
            }
            for rank in self.lines.get(ask).into_iter().flat_map(Line::firsts) {
                let share = room.capacity.dominant_share(&rank.namespace, room.ledger);
                if best.as_ref().is_none_or(|best| (share, &rank.uid) < (best.1, &best.2)) {
                    best = Some((*turn, share, rank.uid.clone(), *ask, rank.clone()));
                }
            }
        }
        for ask in without_room {
            self.tell(ask, Obstacle::Room, walk);
        }
        best.map(|(_, _, _, ask, rank)| (ask, rank))
    }

    fn tell(&mut self, ask: Ask, obstacle: Obstacle, walk: &mut Walk) {
        let Some(line) = self.lines.get_mut(&ask) else { return };
        if line.told == Some(obstacle) {
            return;
        }
        line.told = Some(obstacle);
        self.untold.remove(&ask);
        walk.told.extend(line.members.first().map(Rank::job));
    }

    /// Finds out of new lines, and of all if nodes came, went or changed, whether they can ever fit.
    fn decide_who_never_fits(&mut self, room: &mut Room<'_>, walk: &mut Walk) {
        let new = std::mem::take(&mut self.new);
        let epoch = room.capacity.epoch();
        let all = std::mem::replace(&mut self.epoch, epoch) != epoch;
        let asks: Vec<Ask> =
            if all { self.lines.keys().copied().collect() } else { new.iter().copied().collect() };
        for ask in asks {
            let never = room.capacity.never_fits_asked(ask, room.settings);
            let Some(line) = self.lines.get_mut(&ask) else { continue };
            let (is_new, never) = (new.contains(&ask), never.is_some());
            if !is_new && line.never == never {
                continue;
            }
            line.never = never;
            line.told = None;
            let Some(head) = line.members.first() else { continue };
            if never {
                self.fronts.remove(&(head.turn, ask));
                self.untold.remove(&ask);
            } else {
                self.fronts.insert((head.turn, ask));
                self.untold.insert(ask);
            }
            if !is_new {
                walk.told.extend(line.members.iter().map(Rank::job));
            }
        }
    }

    /// Why a ScavengerJob in the queue waits, as far as the last walk found out.
    pub fn waiting(&self, job: &Key, room: &mut Room<'_>, starting: usize) -> Option<Waiting> {
        let (ask, rank) = self.places.get(job)?;
        let line = self.lines.get(ask)?;
        if line.never
            && let Some(shortage) = room.capacity.never_fits_asked(*ask, room.settings)
        {
            return Some(Waiting { reason: WaitReason::NeverFits, message: shortage.message });
        }
        if line.members.first() != Some(rank) {
            let before = line.members.len().saturating_sub(1);
            let message = format!("waits in line with {before} others that ask for the same");
            return Some(Waiting { reason: WaitReason::BehindInQueue, message });
        }
        Some(match line.told {
            Some(Obstacle::Room) => {
                let shortage = room.capacity.shortage_asked(*ask, room.ledger, room.settings);
                Waiting { reason: WaitReason::NoRoom, message: shortage.message }
            }
            _ => {
                let message = format!(
                    "waits for its turn: {starting} others are starting (the pool's maxConcurrentStarts)"
                );
                Waiting { reason: WaitReason::BehindInQueue, message }
            }
        })
    }

    /// Checks what is kept up against what it is made from.
    ///
    /// # Errors
    /// What differs.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn check(&self, capacity: &Capacity) -> Result<(), String> {
        let mut lines: BTreeMap<Ask, BTreeSet<Rank>> = BTreeMap::new();
        for (ask, rank) in self.places.values() {
            lines.entry(*ask).or_default().insert(rank.clone());
        }
        let known: BTreeMap<Ask, BTreeSet<Rank>> =
            self.lines.iter().map(|(ask, line)| (*ask, line.members.clone())).collect();
        if lines != known {
            return Err("lines differ from the places of their members".to_owned());
        }
        let fronts: BTreeSet<(Turn, Ask)> = self
            .lines
            .iter()
            .filter(|(ask, line)| !line.never && !self.new.contains(ask))
            .filter_map(|(ask, line)| Some((line.members.first()?.turn, *ask)))
            .collect();
        if fronts != self.fronts {
            return Err("fronts differ from the heads of the lines".to_owned());
        }
        let mut demands: Vec<&Demand> = self.lines.keys().map(|ask| capacity.demand(*ask)).collect();
        demands.sort_unstable();
        if demands.windows(2).any(|two| two[0] == two[1]) {
            return Err("two lines have the same demand".to_owned());
        }
        Ok(())
    }

    /// [`Capacity::never_fits`] of every line, by what the last walk decided.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn never(&self) -> impl Iterator<Item = (Ask, bool)> {
        self.lines.iter().filter(|(ask, _)| !self.new.contains(ask)).map(|(ask, line)| (*ask, line.never))
    }
}

impl Line {
    /// Of those that have the turn of the head, the first of each namespace.
    fn firsts(&self) -> impl Iterator<Item = &Rank> {
        let mut next = self.members.first();
        std::iter::from_fn(move || {
            let rank = next?;
            let empty: Name = Name::from("");
            // Names of namespaces hold no NUL: nothing lies between a namespace and its name with one behind it.
            let behind = Rank {
                turn: rank.turn,
                namespace: format!("{}\0", rank.namespace).into(),
                uid: empty.clone(),
                name: empty,
            };
            next = self.members.range(behind..).next().filter(|after| after.turn == rank.turn);
            Some(rank)
        })
    }
}
