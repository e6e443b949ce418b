//! Who starts next: the queue of ScavengerJobs that may start, and the walk along it for as long as there is capacity.
//!
//! Order: those that were interrupted most come first (at most 10 counted interruptions), then those that have waited
//! longest; of several that are equal in both, the one whose tenant has the smaller share of the pool (the largest
//! share of any resource that its ScavengerJobs hold), then by UID. One that does not fit does not hold up those
//! behind it. With the order FairShare, of those that were never interrupted those come first whose tenant used least for its
//! weight ([`shares`]).
//!
//! Nobody starves: who has waited long gets a standing reservation ([`reservation`]).
//! A namespace in which a start was refused by a quota is held ([`crate::backoff::blocked`]), and so is a claim without a volume:
//! those that ask for as much, or mount it, wait in lines of their own.
//!
//! A start that fails holds its place among those that start for as long as pods may stay unscheduled. Those whose last
//! start failed may take half of these places, and try again in the order in which their delays were over, so however
//! many there are that never get to run, they keep neither the others waiting nor each other. For capacity they keep their
//! turn.
//!
//! ScavengerJobs with equal demands either all fit or none does, so they wait in one line (and those of them whose last
//! start failed in another), and only the head of each line is looked at. What each line needs to know of the nodes is
//! kept up by `places`, so a walk costs a few comparisons for each different demand that may fit below the threshold
//! ([`rank::Fronts`]), however many ScavengerJobs and nodes there are.

mod charges;
mod limit;
mod lines;
mod rank;
mod reservation;
mod shares;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    backoff::blocked::Blocked,
    capacity::{Capacity, Traits, promises::Promises},
    values::{Demand, Key, Name, ScavengerJob, Settings},
};
use limit::Beyond;
use rank::{Age, Fronts, Lane, Rank};

pub use lines::QueueEntry;
pub use rank::Starting;
pub use shares::{Shares, SharesReport, TenantReport};
pub use walk::Started;

/// The ScavengerJobs that may start, in lines of equal demand.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    lines: BTreeMap<Lane, Line>,
    /// A rank is large, so its line holds the same copy.
    places: BTreeMap<Key, (Lane, Arc<Rank>)>,
    /// The heads of all lines that can fit at all.
    fronts: Fronts,
    /// Lines about which it is not known yet whether they can ever fit.
    new: BTreeSet<Lane>,
    /// Lines that can fit and whose head does not say yet why it waits.
    unreported: BTreeSet<Lane>,
    /// The line whose head was looked at again last.
    looked_at: Lane,
    /// Epoch of the capacity in which it was last decided who never fits.
    epoch: u64,
    /// Namespaces and claims for which a start was refused.
    blocked: Blocked,
    /// When one whose last start failed was last started.
    failed_started: Option<Timestamp>,
    /// True if somebody may have come since [`Self::take_changed`].
    changed: bool,
}

#[derive(Debug, Clone, Default)]
struct Line {
    members: BTreeSet<Arc<Rank>>,
    /// The members, longest waiting first.
    ages: BTreeSet<Age>,
    /// How its head is found.
    traits: Traits,
    /// True if its demand can never fit.
    never: bool,
    /// Why its head waits, as far as its status says.
    reported: Option<Obstacle>,
    /// For whom the capacity is kept that its head does not get.
    kept_for: Option<Key>,
}

/// Why the head of a line does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Capacity,
    /// As many start as may at the same time.
    Starts,
    /// Its namespace is held.
    Blocked,
    /// Its tenant holds as much as it may.
    Tenant,
}

/// What is walked through and what is taken from.
pub struct Context<'a> {
    /// The nodes.
    pub capacity: &'a mut Capacity,
    /// What is in flight.
    pub promises: &'a mut Promises,
    /// The tenants.
    pub shares: &'a mut Shares,
    /// Settings of the pool.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
}

impl Context<'_> {
    /// Why the tenant of a line may not hold what its members ask for.
    fn beyond(&self, lane: Lane) -> Option<Beyond> {
        if lane.tenant == 0 {
            return None;
        }
        let Self { capacity, promises, shares, settings, .. } = self;
        let asked = capacity.demand(lane.ask).total();
        shares.beyond(lane.tenant, &asked, capacity, promises.ledger(), settings)
    }

    /// [`Shares::share`].
    fn share(&self, namespace: &Name) -> i128 {
        self.shares.share(namespace, self.capacity, self.promises.ledger())
    }
}

impl Queue {
    /// Puts a ScavengerJob into its line, or moves it.
    pub fn insert(&mut self, sj: &ScavengerJob, demand: &Demand, capacity: &mut Capacity, shares: &Shares) {
        self.changed = true;
        let rank = Rank::of(sj);
        match self.places.get(&sj.key) {
            Some((lane, old_rank)) if capacity.demand(lane.ask) == demand && **old_rank == rank => return,
            Some(_) => self.remove(&sj.key, capacity),
            None => {}
        }
        let block = self.blocked.over(&sj.key.namespace, demand, &rank.claims);
        let lane = Lane {
            ask: capacity.ask(demand),
            failed: rank.again.is_some(),
            block,
            tenant: shares.lane_of(&sj.key.namespace),
        };
        self.join(lane, Arc::new(rank), &sj.key);
    }

    /// True if somebody may have come since this was called last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Takes a ScavengerJob out.
    pub fn remove(&mut self, sj: &Key, capacity: &mut Capacity) {
        if let Some((lane, _)) = self.leave(sj) {
            capacity.forget(lane.ask);
        }
    }

    /// Moves a ScavengerJob into another line of those that ask for the same.
    fn move_to(&mut self, sj: &Key, to: Lane) {
        let Some((_, rank)) = self.leave(sj) else { return };
        self.changed = true;
        self.join(to, rank, sj);
    }

    /// Tenants are others now.
    pub(crate) fn sort_by_tenant(&mut self, shares: &Shares) {
        let tenant = |(sj, (lane, _)): (&Key, &(Lane, Arc<Rank>))| {
            let tenant = shares.lane_of(&sj.namespace);
            (tenant != lane.tenant).then(|| (sj.clone(), Lane { tenant, ..*lane }))
        };
        let moves: Vec<(Key, Lane)> = self.places.iter().filter_map(tenant).collect();
        for (sj, to) in moves {
            self.move_to(&sj, to);
        }
    }

    fn join(&mut self, lane: Lane, rank: Arc<Rank>, sj: &Key) {
        if !self.lines.contains_key(&lane) {
            self.new.insert(lane);
        }
        self.change_line(lane, |line| {
            line.ages.insert((rank.ready_since, sj.clone()));
            line.members.insert(rank.clone());
        });
        self.places.insert(sj.clone(), (lane, rank));
    }

    fn leave(&mut self, sj: &Key) -> Option<(Lane, Arc<Rank>)> {
        let (lane, rank) = self.places.remove(sj)?;
        self.change_line(lane, |line| {
            line.ages.remove(&(rank.ready_since, sj.clone()));
            line.members.remove(&rank);
        });
        Some((lane, rank))
    }

    /// Changes who is in a line and keeps up what is known of its head.
    fn change_line(&mut self, lane: Lane, change: impl FnOnce(&mut Line)) {
        let line = self.lines.entry(lane).or_default();
        let (before, oldest) = (line.members.first().cloned(), line.ages.first().cloned());
        change(line);
        let is_front = !line.never && !self.new.contains(&lane);
        if is_front && oldest.as_ref() != line.ages.first() {
            self.fronts.change_age(line.traits, oldest.as_ref(), line.ages.first(), lane);
        }
        let after = line.members.first();
        if before.as_ref() == after {
            return;
        }
        line.reported = None;
        if let Some(before) = &before {
            self.fronts.remove(before.turn, lane, line.traits);
        }
        match after {
            Some(after) if is_front => {
                self.fronts.insert(after.turn, lane, line.traits);
                self.unreported.insert(lane);
            }
            Some(_) => {}
            None => {
                self.lines.remove(&lane);
                self.new.remove(&lane);
                self.unreported.remove(&lane);
            }
        }
    }

    /// Everyone in the queue, in no useful order.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.places.keys()
    }

    /// True if a ScavengerJob is in the queue.
    pub(crate) fn contains(&self, sj: &Key) -> bool {
        self.places.contains_key(sj)
    }

    /// How many are before a ScavengerJob, not counting those whose turn is the same, and how many there are. Walks over
    /// the whole queue: for people who ask.
    pub fn place(&self, sj: &Key, shares: &Shares) -> Option<(usize, usize)> {
        let (_, own) = self.places.get(sj)?;
        let own = shares.turn_of(own);
        let before = self.places.values().filter(|(_, rank)| shares.turn_of(rank) < own).count();
        Some((before, self.places.len()))
    }

    /// Checks what is kept up against what it is made from.
    ///
    /// # Errors
    /// What differs.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn check(&self, capacity: &Capacity, shares: &Shares) -> Result<(), String> {
        let mut lines: BTreeMap<Lane, BTreeSet<Arc<Rank>>> = BTreeMap::new();
        for (lane, rank) in self.places.values() {
            lines.entry(*lane).or_default().insert(rank.clone());
        }
        let known: BTreeMap<Lane, BTreeSet<Arc<Rank>>> =
            self.lines.iter().map(|(lane, line)| (*lane, line.members.clone())).collect();
        for line in self.lines.values() {
            let ages: BTreeSet<Age> = line.members.iter().map(|rank| (rank.ready_since, rank.sj())).collect();
            if ages != line.ages {
                return Err("ages differ from those of the members".to_owned());
            }
        }
        if lines != known {
            return Err("lines differ from the places of their members".to_owned());
        }
        let mut fronts = Fronts::default();
        for (lane, line) in self.lines.iter().filter(|(lane, line)| !line.never && !self.new.contains(lane)) {
            let Some(head) = line.members.first() else { return Err("a line is empty".to_owned()) };
            fronts.insert(head.turn, *lane, line.traits);
            fronts.change_age(line.traits, None, line.ages.first(), *lane);
            fronts.set_settled(head.turn, *lane, line.is_settled());
            let traits = capacity.traits(lane.ask);
            if line.traits.size != traits.size || self.epoch == capacity.epoch() && line.traits != traits {
                return Err("a line is looked for by what it does not ask for".to_owned());
            }
        }
        if fronts != self.fronts {
            return Err("fronts differ from the heads of the lines".to_owned());
        }
        let asks: BTreeSet<_> = self.lines.keys().map(|lane| lane.ask).collect();
        let mut demands: Vec<&Demand> = asks.into_iter().map(|ask| capacity.demand(ask)).collect();
        demands.sort_unstable();
        if demands.windows(2).any(|two| two[0] == two[1]) {
            return Err("two lines have the same demand".to_owned());
        }
        let apart = |(lane, line): (&Lane, &Line)| {
            line.members.iter().all(|rank| rank.again.is_some() == lane.failed)
        };
        if !self.lines.iter().all(apart) {
            return Err("a line holds members of different kinds".to_owned());
        }
        if self.places.iter().any(|(sj, (lane, _))| lane.tenant != shares.lane_of(&sj.namespace)) {
            return Err("a ScavengerJob waits in a line of another tenant".to_owned());
        }
        let is_held = |(sj, (lane, rank)): (&Key, &(Lane, Arc<Rank>))| {
            lane.block == self.blocked.over(&sj.namespace, capacity.demand(lane.ask), &rank.claims)
        };
        if !self.places.iter().all(is_held) {
            return Err("a ScavengerJob is held and its namespace is not, or the other way round".to_owned());
        }
        Ok(())
    }

    /// [`Capacity::never_fits`] of every line, by what the last walk decided.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn never(&self) -> impl Iterator<Item = (crate::capacity::Ask, bool)> {
        let known = self.lines.iter().filter(|(lane, _)| !self.new.contains(lane));
        known.map(|(lane, line)| (lane.ask, line.never))
    }
}
