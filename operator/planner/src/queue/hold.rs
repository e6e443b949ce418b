//! Namespaces that are held: a start there was refused by a quota, or because the namespace is being terminated.
//!
//! What one start was refused for every other would be refused for that asks for at least as much: in one of the
//! resources that the quota named, or in all of them if it named none. These wait with the words of the refusal and take
//! no start slot. To find out when they may start, some of them probe:
//!
//! - After a refusal none does for 5 s, doubled with each further refusal up to 80 s, or until a pod of the namespace
//!   ends (a Job, if it is Jobs that the quota counts).
//! - Then one probes. After each start that succeeds twice as many do at the same time; after a refusal it is one again.
//! - The namespace is held no longer once as many may probe as may start at the same time, or if nobody who is held
//!   would fit anyway.
//!
//! Probes count among those whose last start failed, so all namespaces that are held take at most half of the start
//! slots. Who is held has no standing reservation: capacity is not what it lacks. All of this is forgotten with a restart
//! and learnt again by the first starts that are refused.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Queue, rank::Lane, walk::Obstacle};
use crate::{
    backoff,
    capacity::Capacity,
    known::later,
    refusal,
    resources::Resources,
    values::{Demand, Key, Name, Settings, Waiting, WaitingReason},
};

/// Refusals beyond so many in a row do not lengthen the time until somebody probes.
const MAX_COUNTED_REFUSALS: u32 = 5;

/// How long a namespace stays held in which somebody may probe and nobody fits.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Number of a namespace that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HoldId(u64);

/// The namespaces that are held.
#[derive(Debug, Clone, Default)]
pub(super) struct Holds {
    ids: BTreeMap<Name, HoldId>,
    holds: BTreeMap<HoldId, Hold>,
    last: u64,
}

/// One namespace that is held.
#[derive(Debug, Clone)]
struct Hold {
    namespace: Name,
    /// The newest refusal.
    waiting: Waiting,
    covers: Covers,
    /// Refusals since a start succeeded.
    refusals: u32,
    /// When somebody may probe; none if somebody may.
    again: Option<Timestamp>,
    /// Since when somebody may probe.
    open_since: Timestamp,
    /// So many may probe at the same time.
    width: usize,
    /// Those that do.
    probes: BTreeSet<Key>,
}

/// Which demands a refusal speaks of.
#[derive(Debug, Clone, Default, PartialEq)]
struct Covers {
    /// Every demand: Jobs are counted, or the namespace is being terminated.
    everything: bool,
    /// Those that ask for as much of one of these.
    least: BTreeMap<Name, i64>,
    /// Those that ask for as much of everything as one of these.
    whole: Vec<Resources>,
}

impl Covers {
    fn covers(&self, demand: &Demand) -> bool {
        let total = demand.total();
        let as_much = |least: &Resources| least.iter().all(|(name, amount)| total.get(name) >= amount);
        self.everything
            || self.least.iter().any(|(name, amount)| total.get(name) >= *amount)
            || self.whole.iter().any(as_much)
    }

    /// Takes in a refusal of this demand.
    fn take_in(&mut self, waiting: &Waiting, demand: &Demand) {
        let total = demand.total();
        let named = refusal::resources_of_quota(&waiting.message);
        if waiting.reason == WaitingReason::NamespaceTerminating || named.iter().any(|name| is_of_jobs(name))
        {
            self.everything = true;
        }
        for (name, amount) in named.into_iter().map(|name| (name, total.get(name))) {
            if amount <= 0 {
                continue;
            }
            let least = self.least.entry(name.into()).or_insert(amount);
            *least = amount.min(*least);
        }
        if !self.covers(demand) {
            self.whole.push(total);
        }
    }
}

fn is_of_jobs(resource: &str) -> bool {
    resource.starts_with("count/jobs")
}

impl Hold {
    fn is_open(&self) -> bool {
        self.again.is_none() && self.probes.len() < self.width
    }

    fn close(&mut self, now: Timestamp) {
        self.refusals = self.refusals.saturating_add(1);
        self.width = 1;
        let counted = self.refusals.min(MAX_COUNTED_REFUSALS);
        self.again = Some(later(now, backoff::after_failed_starts(counted, &self.namespace)));
    }
}

impl Holds {
    /// The hold over a demand of a namespace.
    pub(super) fn over(&self, namespace: &Name, demand: &Demand) -> Option<HoldId> {
        let id = *self.ids.get(namespace)?;
        self.holds.get(&id)?.covers.covers(demand).then_some(id)
    }

    /// True if one more of those that are held may probe.
    pub(super) fn is_open(&self, id: HoldId) -> bool {
        self.holds.get(&id).is_some_and(Hold::is_open)
    }

    /// Since when somebody may probe.
    pub(super) fn open_since(&self, id: HoldId) -> Option<Timestamp> {
        self.holds.get(&id).map(|hold| hold.open_since)
    }

    /// A ScavengerJob starts to find out whether its namespace takes it.
    pub(super) fn probe(&mut self, id: HoldId, sj: Key) {
        if let Some(hold) = self.holds.get_mut(&id) {
            hold.probes.insert(sj);
        }
    }

    /// Why those that are held wait.
    pub(super) fn waiting(&self, id: HoldId) -> Option<Waiting> {
        let Hold { namespace, waiting, .. } = self.holds.get(&id)?;
        let message = match waiting.reason {
            WaitingReason::NamespaceTerminating => waiting.message.clone(),
            _ => format!(
                "quota of namespace {:?} is used up; a few starts at a time are tried, the last one was refused: {}",
                &**namespace, waiting.message
            ),
        };
        Some(Waiting { reason: waiting.reason, message })
    }

    fn of_mut(&mut self, namespace: &Name) -> Option<&mut Hold> {
        self.holds.get_mut(self.ids.get(namespace)?)
    }
}

/// True if nothing of its namespace that asks for as much can start when a start is withdrawn for this reason.
#[must_use]
pub(crate) fn is_of_namespace(reason: WaitingReason) -> bool {
    matches!(reason, WaitingReason::QuotaExceeded | WaitingReason::NamespaceTerminating)
}

impl Queue {
    /// A start with this demand was refused, for a reason that holds its namespace.
    pub(crate) fn refuse(
        &mut self,
        sj: &Key,
        demand: &Demand,
        waiting: &Waiting,
        capacity: &Capacity,
        now: Timestamp,
    ) {
        let namespace = &sj.namespace;
        let id = *self.holds.ids.entry(namespace.clone()).or_insert_with(|| {
            self.holds.last += 1;
            HoldId(self.holds.last)
        });
        let hold = self.holds.holds.entry(id).or_insert_with(|| Hold {
            namespace: namespace.clone(),
            waiting: waiting.clone(),
            covers: Covers::default(),
            refusals: 0,
            again: None,
            open_since: now,
            width: 1,
            probes: BTreeSet::new(),
        });
        // Of several that started before anybody knew, each is refused.
        if hold.probes.remove(sj) || hold.again.is_none() {
            hold.close(now);
        }
        hold.waiting = waiting.clone();
        let before = hold.covers.clone();
        hold.covers.take_in(waiting, demand);
        if hold.covers != before {
            self.sort_by_hold(namespace, capacity);
        }
        self.changed = true;
    }

    /// A pod of a namespace ended, or a Job of it is gone: what it took of a quota is free.
    pub(crate) fn freed(&mut self, namespace: &Name, is_job: bool) {
        let Some(hold) = self.holds.of_mut(namespace) else { return };
        let is_quota = hold.waiting.reason == WaitingReason::QuotaExceeded;
        if is_quota && hold.covers.everything == is_job && hold.again.is_some() {
            hold.again = Some(Timestamp::MIN);
            self.changed = true;
        }
    }

    /// The ScavengerJobs that start to find out whether their namespace takes them.
    pub(crate) fn probes(&self) -> impl Iterator<Item = &Key> {
        self.holds.holds.values().flat_map(|hold| &hold.probes)
    }

    /// True if a ScavengerJob starts to find out whether its namespace takes it.
    pub(crate) fn is_probe(&self, sj: &Key) -> bool {
        let hold = self.holds.ids.get(&sj.namespace).and_then(|id| self.holds.holds.get(id));
        hold.is_some_and(|hold| hold.probes.contains(sj))
    }

    /// A probe is over without a refusal; `was_taken` if all of its pods were made.
    pub(crate) fn probed(&mut self, sj: &Key, was_taken: bool, now: Timestamp) {
        let Some(hold) = self.holds.of_mut(&sj.namespace) else { return };
        if hold.probes.remove(sj) && was_taken && hold.again.is_none() {
            hold.refusals = 0;
            hold.width = hold.width.saturating_mul(2);
            hold.open_since = now;
        }
        self.changed = true;
    }

    /// True if somebody may probe now who could not when this was settled last.
    pub(crate) fn opens(&self, now: Timestamp) -> bool {
        self.holds.holds.values().any(|hold| hold.again.is_some_and(|again| again <= now))
    }

    /// When somebody may probe next.
    pub(crate) fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.holds.holds.values().filter_map(|hold| hold.again).filter(|again| *again > now).min()
    }

    /// Opens the holds whose time has come, and ends those that are of no use any more.
    pub(super) fn settle_holds(&mut self, capacity: &Capacity, settings: &Settings, now: Timestamp) {
        let mut over: Vec<Name> = Vec::new();
        for (id, hold) in &mut self.holds.holds {
            if hold.again.is_some_and(|again| again <= now) {
                hold.again = None;
                hold.open_since = now;
            }
            let is_old = hold.again.is_none() && later(hold.open_since, PATIENCE) <= now;
            let nobody_fits = || {
                let mut lines = self.lines.iter().filter(|(lane, _)| lane.hold == Some(*id));
                lines.all(|(_, line)| line.never || line.told == Some(Obstacle::Room))
            };
            if hold.width > settings.max_concurrent_starts
                || hold.probes.is_empty() && is_old && nobody_fits()
            {
                over.push(hold.namespace.clone());
            }
        }
        for namespace in over {
            if let Some(id) = self.holds.ids.remove(&namespace) {
                self.holds.holds.remove(&id);
            }
            self.sort_by_hold(&namespace, capacity);
        }
    }

    /// Moves those of a namespace into the lines of those that are held, or out of them.
    fn sort_by_hold(&mut self, namespace: &Name, capacity: &Capacity) {
        let first = Key { namespace: namespace.clone(), name: "".into() };
        let members = self.places.range(first..).take_while(|(sj, _)| sj.namespace == *namespace);
        let members: Vec<(Key, Lane)> = members.map(|(sj, (lane, _))| (sj.clone(), *lane)).collect();
        let mut moves: BTreeMap<Lane, Lane> = BTreeMap::new();
        for (sj, lane) in members {
            let to = *moves.entry(lane).or_insert_with(|| {
                // All of a line ask for the same.
                Lane { hold: self.holds.over(namespace, capacity.demand(lane.ask)), ..lane }
            });
            if to != lane {
                self.move_to(&sj, to);
            }
        }
    }
}
