//! Namespaces that are blocked: a start there was refused by a quota, or because the namespace is being terminated. And claims
//! that are blocked: the scheduler places no pod that mounts them, since they have no volume.
//!
//! Of a claim that has no volume, a start learns when its pods were not placed for as long as pods may stay unscheduled. All
//! that mount it would learn the same. If the ScavengerJob mounts several claims without a volume, nobody knows which of them
//! is meant: those are blocked that mount all of them. Until the volume is there they probe as those of a namespace do.
//!
//! What one start was refused for every other would be refused for that asks for at least as much. Of a resource that pods
//! request, and of pods, a quota counts the sum over all pods. Of Jobs it counts one for each start, and of Services one for
//! each gang, however much that requests. If the quota names nothing that is known, those are blocked that ask for as much of
//! everything. These wait with the words of the refusal and take
//! no start slot. To find out when they may start, some of them probe:
//!
//! - After a refusal none does for 5 s, doubled with each further refusal up to 80 s, or until a pod of the namespace
//!   ends (a Job, if it is Jobs or Services that the quota counts).
//! - Then one probes. After each start that succeeds twice as many do at the same time; after a refusal it is one again.
//! - The namespace is blocked no longer once as many may probe as may start at the same time, or if nobody of it waits.
//!
//! A namespace is blocked, too, if admission refused the starts of three ScavengerJobs with different specs and took none in
//! between: then the rule is at fault, or what they all have in common. One probes at a time, 5 s after the last refusal, and
//! the first that is taken ends the block. Each that was refused waits out a delay of its own, so those that were not tried yet
//! come first, and whatever is wrong with the specs of some keeps the others waiting for no longer than it takes to try them.
//!
//! Probes count among those whose last start failed, so all namespaces that are blocked take at most half of the start
//! slots. ScavengerJobs that are blocked have no standing reservation and wait with the words of the refusal, whether there
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

/// Number of a namespace that is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(u64);

/// So many ScavengerJobs with different specs must be refused by admission, and none be taken, until a namespace is blocked.
const DENIED: usize = 3;

/// The namespaces that are blocked.
#[derive(Debug, Clone)]
pub(crate) struct Blocked {
    ids: BTreeMap<Scope, BlockId>,
    blocks: Timed<BlockId, Block>,
    /// The block for which each ScavengerJob probes.
    probing: BTreeMap<Key, BlockId>,
    /// The ScavengerJobs that admission refused since it took one, with their specs, by namespace.
    denied: BTreeMap<Name, BTreeMap<Name, u64>>,
    last: u64,
}

impl Default for Blocked {
    fn default() -> Self {
        // How long each takes depends on its scope, too: see `Blocked::close`.
        let rule = Rule { first: SignedDuration::ZERO, longest: SignedDuration::MAX, forgotten_after: None };
        Self {
            ids: BTreeMap::new(),
            blocks: Timed::new(rule),
            probing: BTreeMap::new(),
            denied: BTreeMap::new(),
            last: 0,
        }
    }
}

/// What is blocked of a namespace.
pub(crate) type Scope = (Name, Part);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// What a quota has nothing left for, or everything if it is being terminated.
    Namespace,
    /// What mounts a claim.
    Claim(Name),
    /// Everything, since admission refuses it.
    Denied,
}

/// Why a namespace, or a part of it, is blocked. Its time is the one until somebody may probe, and it is closed as often in a row
/// as starts were refused since one succeeded.
#[derive(Debug, Clone)]
struct Block {
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

impl Pause<Block> {
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

impl Blocked {
    /// The block over a demand of a namespace that mounts these claims.
    pub(crate) fn over(&self, namespace: &Name, demand: &Demand, claims: &[Name]) -> Option<BlockId> {
        if self.ids.is_empty() {
            return None;
        }
        let found = |part: Part| {
            let id = *self.ids.get(&(namespace.clone(), part))?;
            Some((id, &self.blocks.last(&id)?.why.covers))
        };
        let of_namespace = || found(Part::Namespace).filter(|(_, covers)| covers.covers(demand));
        let of_claims = || claims.iter().filter_map(|claim| found(Part::Claim(claim.clone())));
        let over = found(Part::Denied)
            .or_else(of_namespace)
            .or_else(|| of_claims().find(|(_, covers)| covers.mounts_all(claims)));
        over.map(|(id, _)| id)
    }

    /// True if one more of those that are blocked may probe.
    pub(crate) fn is_open(&self, id: BlockId) -> bool {
        self.blocks.last(&id).is_some_and(Pause::is_open)
    }

    /// Since when somebody may probe.
    pub(crate) fn open_since(&self, id: BlockId) -> Option<Timestamp> {
        self.blocks.last(&id).map(|block| block.why.open_since)
    }

    /// A ScavengerJob starts to find out whether its namespace takes it.
    pub(crate) fn probe(&mut self, id: BlockId, sj: Key) {
        if let Some(block) = self.blocks.last_mut(&id) {
            block.probes.insert(sj.clone());
            block.why.lacks_capacity = false;
            self.probing.insert(sj, id);
        }
    }

    /// True if capacity is what those that are blocked lack: nobody of them fits.
    pub(crate) fn lacks_capacity(&self, id: BlockId) -> bool {
        self.blocks.last(&id).is_some_and(|block| block.why.lacks_capacity)
    }

    /// Why those that are blocked wait.
    pub(crate) fn waiting(&self, id: BlockId) -> Option<Waiting> {
        let Block { scope: (namespace, part), waiting, .. } = &self.blocks.last(&id)?.why;
        let message = match part {
            Part::Namespace if waiting.reason == WaitingReason::NamespaceTerminating => {
                waiting.message.clone()
            }
            Part::Claim(claim) => format!(
                "PersistentVolumeClaim {:?} is not bound to a volume; one start at a time is tried, the last one was not \
                 scheduled: {}",
                &**claim, waiting.message
            ),
            Part::Denied => format!(
                "the API server refuses all starts in namespace {:?}; one start at a time is tried, the last one was \
                 refused: {}",
                &**namespace, waiting.message
            ),
            Part::Namespace => format!(
                "quota of namespace {:?} is used up; a few starts at a time are tried, the last one was refused: {}",
                &**namespace, waiting.message
            ),
        };
        Some(Waiting { reason: waiting.reason, message })
    }

    /// Ends a block, if there is one.
    pub(crate) fn end(&mut self, scope: &Scope) -> bool {
        let Some(id) = self.ids.remove(scope) else { return false };
        if scope.1 == Part::Denied {
            self.denied.remove(&scope.0);
        }
        self.blocks.end(&id);
        self.probing.retain(|_, of| *of != id);
        true
    }

    fn id_of(&mut self, scope: &Scope) -> BlockId {
        *self.ids.entry(scope.clone()).or_insert_with(|| {
            self.last += 1;
            BlockId(self.last)
        })
    }

    /// Nobody of a block, which begins if there is none, may probe for a while. If admission refuses everything, it is as long
    /// each time.
    fn close(&mut self, id: BlockId, scope: &Scope, waiting: &Waiting, now: Timestamp) {
        let counted = |refusals: u32| match scope.1 {
            Part::Denied => 1,
            Part::Namespace | Part::Claim(_) => refusals.min(MAX_COUNTED_REFUSALS),
        };
        let namespace = scope.0.clone();
        let length = |refusals: u32| backoff::after_failed_starts(counted(refusals), &namespace);
        let block = |before: Option<Block>, _| Block {
            scope: scope.clone(),
            waiting: waiting.clone(),
            covers: before.as_ref().map(|before| before.covers.clone()).unwrap_or_default(),
            open_since: before.map_or(now, |before| before.open_since),
            width: 1,
            lacks_capacity: false,
        };
        self.blocks.begin_for(id, now, length, block);
    }

    /// A ScavengerJob probes no longer. Returns the block for which it did.
    fn stop_probing(&mut self, sj: &Key) -> Option<BlockId> {
        let id = self.probing.remove(sj)?;
        if let Some(block) = self.blocks.last_mut(&id) {
            block.probes.remove(sj);
        }
        Some(id)
    }

    /// A start with this demand was refused, for a reason that blocks its namespace, or the claims without a volume that it
    /// mounts. True if other demands are blocked than before.
    pub(crate) fn refuse(
        &mut self,
        sj: &Key,
        (demand, claims): (&Demand, &[Name]),
        waiting: &Waiting,
        now: Timestamp,
    ) -> bool {
        let is_of_claim = waiting.reason == WaitingReason::VolumeUnbound;
        let part = claims.first().filter(|_| is_of_claim).cloned().map_or(Part::Namespace, Part::Claim);
        let probed = self.stop_probing(sj);
        let scope = (sj.namespace.clone(), part);
        let id = self.id_of(&scope);
        // Of several that started before anybody knew, each is refused.
        if probed == Some(id) || self.blocks.get(&id).is_none() {
            self.close(id, &scope, waiting, now);
        }
        let Some(Pause { why: block, .. }) = self.blocks.last_mut(&id) else { return false };
        block.waiting = waiting.clone();
        let before = block.covers.clone();
        match is_of_claim {
            true if block.covers.claims.is_empty() => block.covers.claims = claims.to_vec(),
            true => block.covers.claims.retain(|claim| claims.contains(claim)),
            false => block.covers.take_in(waiting, demand),
        }
        block.covers != before
    }

    /// Admission refused the start of a ScavengerJob with this spec. True if its namespace is blocked for that.
    pub(crate) fn deny(&mut self, sj: &Key, spec_hash: u64, waiting: &Waiting, now: Timestamp) -> bool {
        self.stop_probing(sj);
        let denied = self.denied.entry(sj.namespace.clone()).or_default();
        denied.insert(sj.name.clone(), spec_hash);
        let specs: BTreeSet<u64> = denied.values().copied().collect();
        let is_held = specs.len() >= DENIED;
        if is_held {
            let scope = (sj.namespace.clone(), Part::Denied);
            let id = self.id_of(&scope);
            self.close(id, &scope, waiting, now);
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

    /// Admission took all that a start of a namespace needs. True if the namespace was blocked.
    pub(crate) fn taken(&mut self, namespace: &Name) -> bool {
        self.denied.remove(namespace);
        self.end(&(namespace.clone(), Part::Denied))
    }

    /// A pod of a namespace ended, or a Job of it is gone: what it took of a quota is free. True if one may probe for that.
    pub(crate) fn freed(&mut self, namespace: &Name, is_job: bool) -> bool {
        let Some(id) = self.ids.get(&(namespace.clone(), Part::Namespace)) else { return false };
        let is_of_use = |block: &Block| {
            let counts_jobs = block.covers.everything || block.covers.gangs;
            block.waiting.reason == WaitingReason::QuotaExceeded && counts_jobs == is_job
        };
        let is_news = self.blocks.get(id).is_some_and(|block| is_of_use(&block.why));
        if is_news {
            self.blocks.hasten(id);
        }
        is_news
    }

    /// A claim has a volume now. True if it was blocked.
    pub(crate) fn bound(&mut self, claim: &Key) -> bool {
        self.end(&(claim.namespace.clone(), Part::Claim(claim.name.clone())))
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
        let block = self.probing.remove(sj).and_then(|id| self.blocks.last_mut(&id));
        let Some(block) = block else { return false };
        if block.probes.remove(sj) && was_taken && block.is_over {
            block.times = 0;
            block.why.width = block.why.width.saturating_mul(2);
            block.why.open_since = now;
        }
        true
    }

    /// When something of a block changes although nothing is seen until then, of each of them.
    pub(crate) fn turns(&self) -> impl Iterator<Item = Timestamp> {
        self.blocks.all().filter_map(|(_, block)| block.turns_at())
    }

    /// Opens the blocks whose time has come. Returns those that are of no use any more, and those that lack capacity from now
    /// on. `most` may start at the same time, and `is_waited_for` says whether somebody of a block waits.
    pub(crate) fn settle(
        &mut self,
        most: usize,
        is_waited_for: impl Fn(BlockId) -> bool,
        now: Timestamp,
    ) -> (Vec<Scope>, Vec<BlockId>) {
        for id in self.blocks.take_over(now) {
            if let Some(block) = self.blocks.last_mut(&id) {
                block.why.open_since = now;
            }
        }
        let (mut over, mut lacking) = (Vec::new(), Vec::new());
        for (id, block) in self.blocks.all() {
            let is_tired = block.patient_until().is_some_and(|until| until <= now);
            if block.why.width > most || is_tired && !is_waited_for(*id) {
                over.push(block.why.scope.clone());
            } else if is_tired && !block.why.lacks_capacity {
                lacking.push(*id);
            }
        }
        for id in &lacking {
            if let Some(block) = self.blocks.last_mut(id) {
                block.why.lacks_capacity = true;
            }
        }
        (over, lacking)
    }
}
