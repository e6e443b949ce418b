//! Who starts next: the queue of ScavengerJobs that may start, and the walk along it for as long as there is room.
//!
//! Order: those that were interrupted most come first (at most 10 counted interruptions), then those that have waited
//! longest, then by UID. One that does not fit does not hold up those behind it.
//!
//! ScavengerJobs with equal demands either all fit or none does, so they wait in one line, and only the head of each
//! line is looked at. The walk costs as many steps as there are different demands, not as there are ScavengerJobs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;

use crate::{
    capacity::{Capacity, Shortage},
    ledger::Ledger,
    snapshot::{Demand, Job, Key, Name, Phase, Settings, WaitReason, Waiting},
};

/// More interruptions than this do not advance any further.
const MAX_COUNTED_INTERRUPTIONS: u32 = 10;

/// Place in the queue; the smallest comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    interruptions: Reverse<u32>,
    waiting_since: Timestamp,
    uid: Name,
    /// The ScavengerJob.
    pub job: Key,
}

impl Rank {
    /// Rank of a ScavengerJob. It has waited since it was created, or since it was last interrupted; a withdrawn
    /// attempt costs no place.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let since = match job.status.phase {
            Phase::Interrupted => job.status.interruption_times.last().copied(),
            _ => None,
        };
        Self {
            interruptions: Reverse(job.status.counted_interruptions.min(MAX_COUNTED_INTERRUPTIONS)),
            waiting_since: since.unwrap_or(job.creation_time),
            uid: job.uid.clone(),
            job: job.key.clone(),
        }
    }
}

/// The ScavengerJobs that may start, in lines of equal demand.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    lines: BTreeMap<Demand, Line>,
    places: BTreeMap<Key, (Demand, Rank)>,
}

#[derive(Debug, Clone, Default)]
struct Line {
    members: BTreeSet<Rank>,
    /// Answer of [`Capacity::never_fits`] and the epoch it was given in.
    never: Option<(u64, Option<Shortage>)>,
}

/// What became of one walk along the queue.
#[derive(Debug, Default)]
pub struct Walk {
    /// Those that start, and what room was reserved for.
    pub started: Vec<(Key, Demand)>,
    /// Heads of lines that do not start, and why.
    pub heads: Vec<(Key, Waiting)>,
}

impl Queue {
    /// Puts a ScavengerJob into its line, or moves it.
    pub fn insert(&mut self, job: &Job, demand: &Demand) {
        let rank = Rank::of(job);
        match self.places.get(&job.key) {
            Some((old_demand, old_rank)) if old_demand == demand && *old_rank == rank => return,
            Some(_) => self.remove(&job.key),
            None => {}
        }
        self.lines.entry(demand.clone()).or_default().members.insert(rank.clone());
        self.places.insert(job.key.clone(), (demand.clone(), rank));
    }

    /// Takes a ScavengerJob out.
    pub fn remove(&mut self, job: &Key) {
        let Some((demand, rank)) = self.places.remove(job) else { return };
        if let Some(line) = self.lines.get_mut(&demand) {
            line.members.remove(&rank);
            if line.members.is_empty() {
                self.lines.remove(&demand);
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

    /// How many are before a ScavengerJob, and how many there are. Walks over the whole queue: for people who ask.
    #[must_use]
    pub fn place(&self, job: &Key) -> Option<(usize, usize)> {
        let (_, own) = self.places.get(job)?;
        let before = self.places.values().filter(|(_, rank)| rank < own).count();
        Some((before, self.places.len()))
    }

    /// True if nobody is before this ScavengerJob in its own line.
    #[must_use]
    pub fn is_head(&self, job: &Key) -> bool {
        self.places
            .get(job)
            .and_then(|(demand, rank)| Some(self.lines.get(demand)?.members.first()? == rank))
            .unwrap_or(false)
    }

    /// Why a ScavengerJob in the queue can never start, if that is so.
    pub fn never_fits(&mut self, job: &Key, capacity: &Capacity, settings: &Settings) -> Option<Waiting> {
        let (demand, _) = self.places.get(job)?;
        let line = self.lines.get_mut(demand)?;
        let epoch = capacity.epoch();
        if line.never.as_ref().is_none_or(|(then, _)| *then != epoch) {
            line.never = Some((epoch, capacity.never_fits(demand, settings)));
        }
        let shortage = line.never.as_ref().and_then(|(_, answer)| answer.as_ref())?;
        Some(Waiting { reason: WaitReason::NeverFits, message: shortage.message.clone() })
    }

    /// Walks along the queue and starts whom there is room for. Room is reserved in the ledger at once, so that the
    /// next one sees what is left. `starting` ScavengerJobs are starting already.
    pub fn walk(
        &mut self,
        capacity: &Capacity,
        ledger: &mut Ledger,
        settings: &Settings,
        mut starting: usize,
    ) -> Walk {
        let mut walk = Walk::default();
        let epoch = capacity.epoch();
        let mut heads: BTreeSet<(Rank, Demand)> = BTreeSet::new();
        for (demand, line) in &mut self.lines {
            if line.never.as_ref().is_none_or(|(then, _)| *then != epoch) {
                line.never = Some((epoch, capacity.never_fits(demand, settings)));
            }
            let never = line.never.as_ref().is_some_and(|(_, answer)| answer.is_some());
            if let (false, Some(head)) = (never, line.members.first()) {
                heads.insert((head.clone(), demand.clone()));
            }
        }
        while let Some((rank, demand)) = heads.pop_first() {
            if starting >= settings.max_concurrent_starts {
                let message = format!(
                    "waits for its turn: {starting} others are starting (the pool's maxConcurrentStarts)"
                );
                walk.heads.push((rank.job, Waiting { reason: WaitReason::BehindInQueue, message }));
                continue;
            }
            match capacity.fit(&demand, ledger, settings) {
                Ok(nodes) => {
                    let places = nodes.into_iter().map(Some).collect();
                    ledger.reserve(&rank.job, &demand.per_pod, places);
                    self.remove(&rank.job);
                    starting += 1;
                    if let Some(next) = self.lines.get(&demand).and_then(|line| line.members.first()) {
                        heads.insert((next.clone(), demand.clone()));
                    }
                    walk.started.push((rank.job, demand));
                }
                Err(shortage) => {
                    walk.heads
                        .push((rank.job, Waiting { reason: WaitReason::NoRoom, message: shortage.message }));
                }
            }
        }
        walk
    }

    /// Reason of someone who is not at the head of its line.
    #[must_use]
    pub fn behind(&self, job: &Key) -> Waiting {
        let before = self.places.get(job).map_or(0, |(demand, _)| {
            self.lines.get(demand).map_or(0, |line| line.members.len().saturating_sub(1))
        });
        Waiting {
            reason: WaitReason::BehindInQueue,
            message: format!("waits in line with {before} others that ask for the same"),
        }
    }
}
