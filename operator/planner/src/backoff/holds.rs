//! Namespaces that are held: a start there was refused by a quota, or because the namespace is being terminated. And claims
//! that are held: the scheduler places no pod that mounts them, since they have no volume.
//!
//! Of a claim that has no volume, a start learns when its pods were not placed for as long as pods may stay unscheduled. All
//! that mount it would learn the same. If the ScavengerJob mounts several claims without a volume, nobody knows which of them
//! is meant: those are held that mount all of them. Until the volume is there they probe as those of a namespace do.
//!
//! What one start was refused for every other would be refused for that asks for at least as much. Of a resource that pods
//! request, and of pods, a quota counts the sum over all pods. Of Jobs it counts one for each start, and of Services one for
//! each gang, however much that requests. If the quota names nothing that is known, those are held that ask for as much of
//! everything. These wait with the words of the refusal and take
//! no start slot. To find out when they may start, some of them probe:
//!
//! - After a refusal none does for 5 s, doubled with each further refusal up to 80 s, or until a pod of the namespace
//!   ends (a Job, if it is Jobs or Services that the quota counts).
//! - Then one probes. After each start that succeeds twice as many do at the same time; after a refusal it is one again.
//! - The namespace is held no longer once as many may probe as may start at the same time, or if nobody of it waits.
//!
//! A namespace is held, too, if admission refused the starts of three ScavengerJobs with different specs and took none in
//! between: then the rule is at fault, or what they all have in common. One probes at a time, 5 s after the last refusal, and
//! the first that is taken ends the hold. Each that was refused waits out a delay of its own, so those that were not tried yet
//! come first, and whatever is wrong with the specs of some keeps the others waiting for no longer than it takes to try them.
//!
//! Probes count among those whose last start failed, so all namespaces that are held take at most half of the start
//! slots. ScavengerJobs that are held have no standing reservation and wait with the words of the refusal, whether there
//! is capacity for them or not: else their reason would change each time that capacity comes or goes. Only if none of them
//! fits for a minute in which one may probe, capacity is what they lack. After each further refusal it takes twice as long,
//! up to 16 minutes. All of this is forgotten with a restart and learnt again by the first starts that are refused.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::timed::{Pause, Rule, Timed};
use crate::{
    backoff,
    faults::refusal,
    values::{Demand, Key, Name, Waiting, WaitingReason, later, resources::Resources},
};

/// How a quota names Jobs.
const JOBS: &str = "jobs.batch";

/// How a quota names Services.
const SERVICES: &str = "services";

/// Refusals beyond so many in a row do not lengthen the time until somebody probes.
const MAX_COUNTED_REFUSALS: u32 = 5;

/// How long nobody may fit, after the first refusal, until capacity is what a namespace lacks.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// Number of a namespace that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HoldId(u64);

/// So many ScavengerJobs with different specs must be refused by admission, and none be taken, until a namespace is held.
const DENIED: usize = 3;

/// The namespaces that are held.
#[derive(Debug, Clone)]
pub(crate) struct Holds {
    ids: BTreeMap<Scope, HoldId>,
    holds: Timed<HoldId, Hold>,
    /// The hold for which each ScavengerJob probes.
    probing: BTreeMap<Key, HoldId>,
    /// The ScavengerJobs that admission refused since it took one, with their specs, by namespace.
    denied: BTreeMap<Name, BTreeMap<Name, u64>>,
    last: u64,
}

impl Default for Holds {
    fn default() -> Self {
        // How long each takes depends on its scope, too: see `Holds::close`.
        let rule = Rule { first: SignedDuration::ZERO, longest: SignedDuration::MAX, forgotten_after: None };
        Self {
            ids: BTreeMap::new(),
            holds: Timed::new(rule),
            probing: BTreeMap::new(),
            denied: BTreeMap::new(),
            last: 0,
        }
    }
}

/// What is held of a namespace.
pub(crate) type Scope = (Name, Held);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// What a quota has no room for, or everything if it is being terminated.
    Namespace,
    /// What mounts a claim.
    Claim(Name),
    /// Everything, since admission refuses it.
    Denied,
}

/// Why a namespace, or a part of it, is held. Its time is the one until somebody may probe, and it is closed as often in a row
/// as starts were refused since one succeeded.
#[derive(Debug, Clone)]
struct Hold {
    scope: Scope,
    /// The newest refusal.
    waiting: Waiting,
    covers: Covers,
    /// Since when somebody may probe.
    open_since: Timestamp,
    /// So many may probe at the same time.
    width: usize,
    /// True if nobody of it fits, for so long that capacity is what it lacks.
    lacks_capacity: bool,
}

/// Which demands a refusal speaks of.
#[derive(Debug, Clone, Default, PartialEq)]
struct Covers {
    /// Every demand: Jobs are counted, or the namespace is being terminated.
    everything: bool,
    /// Every gang: Services are counted, of which each gang has one.
    gangs: bool,
    /// Those that ask for as much of one of these.
    least: BTreeMap<Name, i64>,
    /// Those that ask for as much of everything as one of these.
    whole: Vec<Resources>,
    /// Those that mount all of these claims, which have no volume.
    claims: Vec<Name>,
}

impl Covers {
    fn mounts_all(&self, claims: &[Name]) -> bool {
        !self.claims.is_empty() && self.claims.iter().all(|claim| claims.contains(claim))
    }

    fn covers(&self, demand: &Demand) -> bool {
        let total = demand.total();
        let as_much = |least: &Resources| least.iter().all(|(name, amount)| total.get(name) >= amount);
        self.everything
            || self.gangs && demand.pod_count > 1
            || self.least.iter().any(|(name, amount)| total.get(name) >= *amount)
            || self.whole.iter().any(as_much)
    }

    /// Takes in a refusal of this demand.
    fn take_in(&mut self, waiting: &Waiting, demand: &Demand) {
        let total = demand.total();
        let named = refusal::resources_of_quota(&waiting.message);
        if waiting.reason == WaitingReason::NamespaceTerminating || named.contains(&JOBS) {
            self.everything = true;
        }
        self.gangs |= named.contains(&SERVICES) && demand.pod_count > 1;
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

impl Pause<Hold> {
    fn is_open(&self) -> bool {
        self.is_over && self.probes.len() < self.why.width
    }

    /// Until when nobody may fit without capacity being what is lacking; none while nobody may probe, or somebody does.
    fn patient_until(&self) -> Option<Timestamp> {
        let doublings = self.times.clamp(1, MAX_COUNTED_REFUSALS) - 1;
        let waits = self.is_over && self.probes.is_empty();
        waits.then(|| later(self.why.open_since, PATIENCE.saturating_mul(1 << doublings)))
    }

    /// When something changes although nothing is seen until then.
    fn turns_at(&self) -> Option<Timestamp> {
        match self.is_over {
            false => Some(self.until),
            true => self.patient_until().filter(|_| !self.why.lacks_capacity),
        }
    }
}

impl Holds {
    /// The hold over a demand of a namespace that mounts these claims.
    pub(crate) fn over(&self, namespace: &Name, demand: &Demand, claims: &[Name]) -> Option<HoldId> {
        if self.ids.is_empty() {
            return None;
        }
        let found = |held: Held| {
            let id = *self.ids.get(&(namespace.clone(), held))?;
            Some((id, &self.holds.last(&id)?.why.covers))
        };
        let of_namespace = || found(Held::Namespace).filter(|(_, covers)| covers.covers(demand));
        let of_claims = || claims.iter().filter_map(|claim| found(Held::Claim(claim.clone())));
        let over = found(Held::Denied)
            .or_else(of_namespace)
            .or_else(|| of_claims().find(|(_, covers)| covers.mounts_all(claims)));
        over.map(|(id, _)| id)
    }

    /// True if one more of those that are held may probe.
    pub(crate) fn is_open(&self, id: HoldId) -> bool {
        self.holds.last(&id).is_some_and(Pause::is_open)
    }

    /// Since when somebody may probe.
    pub(crate) fn open_since(&self, id: HoldId) -> Option<Timestamp> {
        self.holds.last(&id).map(|hold| hold.why.open_since)
    }

    /// A ScavengerJob starts to find out whether its namespace takes it.
    pub(crate) fn probe(&mut self, id: HoldId, sj: Key) {
        if let Some(hold) = self.holds.last_mut(&id) {
            hold.probes.insert(sj.clone());
            hold.why.lacks_capacity = false;
            self.probing.insert(sj, id);
        }
    }

    /// True if capacity is what those that are held lack: nobody of them fits.
    pub(crate) fn lacks_capacity(&self, id: HoldId) -> bool {
        self.holds.last(&id).is_some_and(|hold| hold.why.lacks_capacity)
    }

    /// Why those that are held wait.
    pub(crate) fn waiting(&self, id: HoldId) -> Option<Waiting> {
        let Hold { scope: (namespace, held), waiting, .. } = &self.holds.last(&id)?.why;
        let message = match held {
            Held::Namespace if waiting.reason == WaitingReason::NamespaceTerminating => {
                waiting.message.clone()
            }
            Held::Claim(claim) => format!(
                "PersistentVolumeClaim {:?} is not bound to a volume; one start at a time is tried, the last one was not \
                 scheduled: {}",
                &**claim, waiting.message
            ),
            Held::Denied => format!(
                "the API server refuses all starts in namespace {:?}; one start at a time is tried, the last one was \
                 refused: {}",
                &**namespace, waiting.message
            ),
            Held::Namespace => format!(
                "quota of namespace {:?} is used up; a few starts at a time are tried, the last one was refused: {}",
                &**namespace, waiting.message
            ),
        };
        Some(Waiting { reason: waiting.reason, message })
    }

    /// Ends a hold, if there is one.
    pub(crate) fn end(&mut self, scope: &Scope) -> bool {
        let Some(id) = self.ids.remove(scope) else { return false };
        if scope.1 == Held::Denied {
            self.denied.remove(&scope.0);
        }
        self.holds.end(&id);
        self.probing.retain(|_, of| *of != id);
        true
    }

    fn id_of(&mut self, scope: &Scope) -> HoldId {
        *self.ids.entry(scope.clone()).or_insert_with(|| {
            self.last += 1;
            HoldId(self.last)
        })
    }

    /// Nobody of a hold, which begins if there is none, may probe for a while. If admission refuses everything, it is as long
    /// each time.
    fn close(&mut self, id: HoldId, scope: Scope, waiting: &Waiting, now: Timestamp) {
        let counted = |refusals: u32| match scope.1 {
            Held::Denied => 1,
            Held::Namespace | Held::Claim(_) => refusals.min(MAX_COUNTED_REFUSALS),
        };
        let namespace = scope.0.clone();
        let length = |refusals: u32| backoff::after_failed_starts(counted(refusals), &namespace);
        let hold = |before: Option<Hold>, _| Hold {
            scope: scope.clone(),
            waiting: waiting.clone(),
            covers: before.as_ref().map(|before| before.covers.clone()).unwrap_or_default(),
            open_since: before.map_or(now, |before| before.open_since),
            width: 1,
            lacks_capacity: false,
        };
        self.holds.begin_for(id, now, length, hold);
    }

    /// A ScavengerJob probes no longer. Returns the hold for which it did.
    fn stop_probing(&mut self, sj: &Key) -> Option<HoldId> {
        let id = self.probing.remove(sj)?;
        if let Some(hold) = self.holds.last_mut(&id) {
            hold.probes.remove(sj);
        }
        Some(id)
    }

    /// A start with this demand was refused, for a reason that holds its namespace, or the claims without a volume that it
    /// mounts. True if other demands are held than before.
    pub(crate) fn refuse(
        &mut self,
        sj: &Key,
        (demand, claims): (&Demand, &[Name]),
        waiting: &Waiting,
        now: Timestamp,
    ) -> bool {
        let is_of_claim = waiting.reason == WaitingReason::VolumeUnbound;
        let held = claims.first().filter(|_| is_of_claim).cloned().map_or(Held::Namespace, Held::Claim);
        let probed = self.stop_probing(sj);
        let scope = (sj.namespace.clone(), held);
        let id = self.id_of(&scope);
        // Of several that started before anybody knew, each is refused.
        if probed == Some(id) || self.holds.get(&id).is_none() {
            self.close(id, scope, waiting, now);
        }
        let Some(Pause { why: hold, .. }) = self.holds.last_mut(&id) else { return false };
        hold.waiting = waiting.clone();
        let before = hold.covers.clone();
        match is_of_claim {
            true if hold.covers.claims.is_empty() => hold.covers.claims = claims.to_vec(),
            true => hold.covers.claims.retain(|claim| claims.contains(claim)),
            false => hold.covers.take_in(waiting, demand),
        }
        hold.covers != before
    }

    /// Admission refused the start of a ScavengerJob with this spec. True if its namespace is held for that.
    pub(crate) fn deny(&mut self, sj: &Key, spec_hash: u64, waiting: &Waiting, now: Timestamp) -> bool {
        self.stop_probing(sj);
        let denied = self.denied.entry(sj.namespace.clone()).or_default();
        denied.insert(sj.name.clone(), spec_hash);
        let specs: BTreeSet<u64> = denied.values().copied().collect();
        let is_held = specs.len() >= DENIED;
        if is_held {
            let scope = (sj.namespace.clone(), Held::Denied);
            let id = self.id_of(&scope);
            self.close(id, scope, waiting, now);
        }
        is_held
    }

    /// A ScavengerJob is gone: that admission refused it says nothing any more.
    pub(crate) fn forget_denied(&mut self, sj: &Key) {
        if let Some(denied) = self.denied.get_mut(&sj.namespace) {
            denied.remove(&sj.name);
            if denied.is_empty() {
                self.denied.remove(&sj.namespace);
            }
        }
    }

    /// Admission took all that a start of a namespace needs. True if the namespace was held.
    pub(crate) fn taken(&mut self, namespace: &Name) -> bool {
        self.denied.remove(namespace);
        self.end(&(namespace.clone(), Held::Denied))
    }

    /// A pod of a namespace ended, or a Job of it is gone: what it took of a quota is free. True if one may probe for that.
    pub(crate) fn freed(&mut self, namespace: &Name, is_job: bool) -> bool {
        let Some(id) = self.ids.get(&(namespace.clone(), Held::Namespace)) else { return false };
        let is_of_use = |hold: &Hold| {
            let counts_jobs = hold.covers.everything || hold.covers.gangs;
            hold.waiting.reason == WaitingReason::QuotaExceeded && counts_jobs == is_job
        };
        let is_news = self.holds.get(id).is_some_and(|hold| is_of_use(&hold.why));
        if is_news {
            self.holds.hasten(id);
        }
        is_news
    }

    /// A claim has a volume now. True if it was held.
    pub(crate) fn bound(&mut self, claim: &Key) -> bool {
        self.end(&(claim.namespace.clone(), Held::Claim(claim.name.clone())))
    }

    /// Those that probe.
    pub(crate) fn probes(&self) -> impl Iterator<Item = &Key> {
        self.probing.keys()
    }

    /// True if a ScavengerJob probes.
    pub(crate) fn is_probe(&self, sj: &Key) -> bool {
        self.probing.contains_key(sj)
    }

    /// A probe is over without a refusal; `was_taken` if all of its pods were made. False if it was no probe.
    pub(crate) fn probed(&mut self, sj: &Key, was_taken: bool, now: Timestamp) -> bool {
        let hold = self.probing.remove(sj).and_then(|id| self.holds.last_mut(&id));
        let Some(hold) = hold else { return false };
        if hold.probes.remove(sj) && was_taken && hold.is_over {
            hold.times = 0;
            hold.why.width = hold.why.width.saturating_mul(2);
            hold.why.open_since = now;
        }
        true
    }

    /// When something of a hold changes although nothing is seen until then, of each of them.
    pub(crate) fn turns(&self) -> impl Iterator<Item = Timestamp> {
        self.holds.all().filter_map(|(_, hold)| hold.turns_at())
    }

    /// Opens the holds whose time has come. Returns those that are of no use any more, and those that lack capacity from now
    /// on. `most` may start at the same time, and `is_waited_for` says whether somebody of a hold waits.
    pub(crate) fn settle(
        &mut self,
        most: usize,
        is_waited_for: impl Fn(HoldId) -> bool,
        now: Timestamp,
    ) -> (Vec<Scope>, Vec<HoldId>) {
        for id in self.holds.take_over(now) {
            if let Some(hold) = self.holds.last_mut(&id) {
                hold.why.open_since = now;
            }
        }
        let (mut over, mut lacking) = (Vec::new(), Vec::new());
        for (id, hold) in self.holds.all() {
            let is_tired = hold.patient_until().is_some_and(|until| until <= now);
            if hold.why.width > most || is_tired && !is_waited_for(*id) {
                over.push(hold.why.scope.clone());
            } else if is_tired && !hold.why.lacks_capacity {
                lacking.push(*id);
            }
        }
        for id in &lacking {
            if let Some(hold) = self.holds.last_mut(id) {
                hold.why.lacks_capacity = true;
            }
        }
        (over, lacking)
    }
}
