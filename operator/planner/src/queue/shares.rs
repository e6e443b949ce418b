//! Tenants: to which of them a namespace belongs, how much each may hold, and in which order they come.
//!
//! A tenant is a namespace, or all namespaces whose label has the same value. In a pool that says nothing of tenants
//! (`Settings::sharing`) each namespace is one, and all of this decides only between ScavengerJobs that are otherwise equal.
//!
//! # Standing
//!
//! With the order FairShare tenants come in the order of their standings, the smallest first: the largest share of any of
//! the pool's resources that a tenant used ([`super::charges`]), by its weight. What it holds counts as if it held it for one
//! hour more. So where nobody used anything, the tenants take turns from the first start on, as dominant resource
//! fairness has it, and over days what they used decides.
//!
//! Standings are of a moment. Along a walk they only grow, by what starts: one that was passed over comes no earlier.
//!
//! # Nobody starves
//!
//! Let a tenant have a ScavengerJob that may start, and nothing that runs. What it used becomes less by half in each
//! half-life, and those that start in its place use more: others that hold the share d of the pool in sum, with weights
//! W in sum, used d (1 - 2^-n) after n half-lives, so one of them stands at d (1 - 2^-n) / W at least. The tenant used no
//! more than all of the pool, so it stands at 2^-n / w at most. It comes before that one after log2(1 + W / (w d)) half-lives
//! at the latest, whatever it and the others used before: with as many like it as there are, after log2(1 + their number /
//! d). From then on each start of that one comes after it. Among its own ScavengerJobs the one that has waited longest
//! comes first. This holds for a bounded number of tenants: those who can make namespaces can make tenants, unless a label
//! names them.
//!
//! Where capacity in small pieces goes to others before a large one finds enough, the standing reservation keeps it
//! ([`super::reservation`]).
//!
//! # Nobody buys rank
//!
//! What was used is the tenant's. It counts what attempts held, so it is the same for one ScavengerJob or many, after they
//! were deleted, under another name, and with less used than requested.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    charges::{Charges, decay},
    limit::Beyond,
    rank::{Lane, Rank, Turn},
};
use crate::{
    capacity::{Capacity, promises::Ledger},
    values::{
        Averages, Counted, Key, Name, Order, ScavengerJob, Settings, Sharing, Stretch, Tenant,
        resources::Resources, unit,
    },
};

/// For how long what a tenant holds counts ahead.
const AHEAD: SignedDuration = SignedDuration::from_hours(1);

/// What is left of averages below this share of the pool is nothing.
const LEAST: f64 = 1e-5;

/// So many tenants stand in the status of the pool: those that used most.
const MOST: usize = 1000;

/// The tenants, and what they used.
#[derive(Debug)]
pub struct Shares {
    /// None until the pool was seen, and while nothing is said of tenants.
    sharing: Option<Sharing>,
    /// False until the pool was seen: what may have to be counted is kept.
    is_settled: bool,
    /// True while there is a pool whose status can say what was used.
    has_pool: bool,
    /// Labels of namespaces.
    labels: BTreeMap<Name, BTreeMap<Name, Name>>,
    /// False while namespaces cannot be listed.
    labels_known: bool,
    /// Numbers of tenants, counted from 1, and their names by these.
    numbers: BTreeMap<Name, u32>,
    names: Vec<Name>,
    /// The tenant of each namespace with ScavengerJobs, and the other way round.
    of: BTreeMap<Name, u32>,
    namespaces: BTreeMap<u32, BTreeSet<Name>>,
    charges: Charges,
    /// Since when nothing is left of ScavengerJobs that are being deleted: their finalizers wait until that is counted.
    leaving: BTreeMap<Key, Timestamp>,
    /// Of each tenant, by its number, at the last look; empty unless they decide.
    standings: Vec<u64>,
    used: BTreeMap<u32, Averages>,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            sharing: None,
            is_settled: false,
            has_pool: false,
            labels: BTreeMap::new(),
            labels_known: true,
            numbers: BTreeMap::new(),
            names: vec!["".into()],
            of: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            charges: Charges::default(),
            leaving: BTreeMap::new(),
            standings: Vec::new(),
            used: BTreeMap::new(),
        }
    }
}

impl Shares {
    /// Other settings of the pool. Returns true if ScavengerJobs have to be seen again: tenants count from now on, or are
    /// others.
    pub(crate) fn set_settings(&mut self, settings: Option<&Settings>) -> bool {
        self.has_pool = settings.is_some();
        // While the pool cannot be read nothing starts, and what is known stays.
        let Some(settings) = settings else { return false };
        let sharing = settings.sharing.as_deref();
        if self.is_settled && self.sharing.as_ref() == sharing {
            return false;
        }
        self.sharing = sharing.cloned();
        self.is_settled = true;
        if self.sharing.is_none() {
            (self.charges, self.used, self.leaving) = Default::default();
            self.standings.clear();
        }
        self.sort_namespaces();
        true
    }

    /// Labels of a namespace, or none if it is gone. Returns true if tenants are others now.
    pub(crate) fn set_namespace(&mut self, name: &Name, labels: Option<BTreeMap<Name, Name>>) -> bool {
        let before = self.tenant_of(name);
        match labels {
            Some(labels) => drop(self.labels.insert(name.clone(), labels)),
            None => drop(self.labels.remove(name)),
        }
        let is_another = self.of.contains_key(name) && before != self.tenant_of(name);
        if is_another {
            self.sort_namespaces();
        }
        is_another
    }

    /// Whether namespaces can be listed.
    pub(crate) fn set_namespaces_known(&mut self, known: bool) {
        self.labels_known = known;
    }

    fn sort_namespaces(&mut self) {
        self.namespaces.clear();
        for namespace in std::mem::take(&mut self.of).into_keys() {
            self.know(&namespace);
        }
    }

    /// The tenant of a namespace.
    fn tenant_of(&self, namespace: &Name) -> Name {
        let label = self.sharing.as_ref().and_then(|sharing| sharing.label.as_ref());
        let value = label.and_then(|label| self.labels.get(namespace)?.get(label));
        value.filter(|value| !value.is_empty()).unwrap_or(namespace).clone()
    }

    fn number(&mut self, tenant: Name) -> u32 {
        *self.numbers.entry(tenant).or_insert_with_key(|tenant| {
            self.names.push(tenant.clone());
            u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn know(&mut self, namespace: &Name) {
        if self.sharing.is_some() && !self.of.contains_key(namespace) {
            let number = self.number(self.tenant_of(namespace));
            self.of.insert(namespace.clone(), number);
            self.namespaces.entry(number).or_default().insert(namespace.clone());
        }
    }

    /// True in a pool that says nothing of tenants.
    fn counts_nothing(&self) -> bool {
        self.is_settled && self.sharing.is_none()
    }

    /// Takes in a ScavengerJob: its tenant, and what its last attempt held.
    pub(crate) fn see(&mut self, sj: &ScavengerJob) {
        if self.counts_nothing() {
            return;
        }
        self.know(&sj.key.namespace);
        if let Some(attempt) = &sj.status.attempt {
            self.charges.see(&sj.key, &sj.uid, Stretch::of(attempt));
        }
    }

    /// Takes in attempts of a ScavengerJob that ended before its last one.
    pub(crate) fn see_ended(&mut self, sj: &Key, uid: &Name, ended: Vec<Stretch>) {
        if self.counts_nothing() {
            return;
        }
        for stretch in ended {
            self.charges.see(sj, uid, stretch);
        }
    }

    /// A ScavengerJob that is being deleted has no pods left.
    pub(crate) fn end(&mut self, sj: &Key, now: Timestamp) {
        if self.sharing.is_some() {
            self.leaving.entry(sj.clone()).or_insert(whole_second(now));
        }
    }

    /// A ScavengerJob is gone.
    pub(crate) fn forget(&mut self, sj: &Key) {
        self.charges.forget(sj);
        self.leaving.remove(sj);
    }

    /// False while the pool's status does not count yet what the last attempt of a ScavengerJob held.
    pub(crate) fn is_counted(&self, sj: &Key) -> bool {
        let since = || self.leaving.get(sj).copied();
        self.sharing.is_none() || !self.has_pool || self.charges.is_counted(sj, since())
    }

    /// Takes in what is written down, and returns those that wait for that.
    pub(crate) fn set_counted(&mut self, counted: Option<Counted>) -> Vec<Key> {
        if self.counts_nothing() {
            return Vec::new();
        }
        for tenant in counted.iter().flat_map(|counted| counted.used.keys()) {
            let _known = self.number(tenant.clone());
        }
        self.charges.set_counted(counted);
        self.leaving.keys().cloned().collect()
    }

    /// What holds for a tenant.
    fn rules(&self, tenant: u32) -> Tenant {
        let name = self.names.get(tenant as usize);
        let named = self.sharing.as_ref().zip(name).and_then(|(sharing, name)| sharing.tenants.get(name));
        named.cloned().unwrap_or_default()
    }

    /// The tenant of a namespace, if it is paused.
    pub(crate) fn paused(&self, namespace: &Name) -> Option<&Name> {
        let tenant = *self.of.get(namespace)?;
        self.rules(tenant).paused.then(|| &self.names[tenant as usize])
    }

    /// The name of a tenant; none for the number 0.
    pub(super) fn name_of(&self, tenant: u32) -> Option<Name> {
        self.names.get(tenant as usize).filter(|_| tenant > 0).cloned()
    }

    /// The tenant of a namespace with ScavengerJobs; none if nothing is said of tenants.
    pub(crate) fn known_tenant_of(&self, namespace: &Name) -> Option<Name> {
        self.name_of(self.lane_of(namespace))
    }

    /// The number of a namespace's tenant; 0 if nothing is said of tenants.
    pub(super) fn lane_of(&self, namespace: &Name) -> u32 {
        self.of.get(namespace).copied().unwrap_or(0)
    }

    /// What the ScavengerJobs of a tenant hold.
    fn held(&self, tenant: u32, capacity: &Capacity, ledger: &Ledger) -> Resources {
        let mut held = Resources::default();
        for namespace in self.namespaces.get(&tenant).into_iter().flatten() {
            held.add(&capacity.held_in(namespace, ledger));
        }
        held
    }

    /// The largest share of any of the pool's resources that the tenant of a namespace holds, in millionths. Of several that are equal otherwise, the one of the smallest share comes first.
    pub(super) fn share(&self, namespace: &Name, capacity: &Capacity, ledger: &Ledger) -> i128 {
        let held = match self.of.get(namespace) {
            Some(tenant) => self.held(*tenant, capacity, ledger),
            None => capacity.held_in(namespace, ledger),
        };
        capacity.dominant_share(&held)
    }

    /// Finds out how tenants stand now.
    pub(super) fn settle(&mut self, capacity: &Capacity, ledger: &Ledger, now: Timestamp) {
        self.standings.clear();
        let Some(sharing) = self.sharing.as_ref().filter(|sharing| sharing.order == Order::FairShare) else {
            return;
        };
        self.used = self.used_by(sharing.half_life, now);
        self.standings.resize(self.names.len(), 0);
        for tenant in 1..self.names.len() {
            self.stand(u32::try_from(tenant).unwrap_or(u32::MAX), capacity, ledger);
        }
    }

    fn used_by(&self, half_life: SignedDuration, now: Timestamp) -> BTreeMap<u32, Averages> {
        let number = |namespace: &Name| self.of.get(namespace).copied();
        self.charges.used(half_life, now, number, |tenant| self.numbers.get(tenant).copied())
    }

    /// Something of a tenant's started.
    pub(crate) fn stand(&mut self, tenant: u32, capacity: &Capacity, ledger: &Ledger) {
        let Some(sharing) = self.sharing.as_ref().filter(|_| !self.standings.is_empty()) else { return };
        let kept = decay(sharing.half_life, AHEAD);
        let mut ahead: Averages = self.used.get(&tenant).cloned().unwrap_or_default();
        ahead.values_mut().for_each(|average| *average *= kept);
        for (resource, amount) in self.held(tenant, capacity, ledger).iter().filter(|(_, held)| *held > 0) {
            *ahead.entry(resource.into()).or_default() += amount as f64 / unit(resource) * (1.0 - kept);
        }
        let share = dominant(&ahead, capacity.allocatable()) / self.rules(tenant).weight.number().max(1e-6);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and cut off"
        )]
        let standing = (share * 1e12) as u64;
        if let Some(known) = self.standings.get_mut(tenant as usize) {
            *known = standing;
        }
    }

    /// How the tenant of a line stands.
    fn standing(&self, tenant: u32) -> u64 {
        self.standings.get(tenant as usize).copied().unwrap_or(0)
    }

    /// How the tenant of a ScavengerJob stands.
    pub(super) fn standing_of(&self, rank: &Rank) -> u64 {
        if self.standings.is_empty() { 0 } else { self.standing(self.lane_of(&rank.namespace)) }
    }

    /// A turn in a line, with the standing of its tenant.
    pub(super) fn turn_in(&self, turn: Turn, lane: Lane) -> Turn {
        turn.standing_at(self.standing(lane.tenant))
    }

    /// The turn of a ScavengerJob, with the standing of its tenant.
    pub(super) fn turn_of(&self, rank: &Rank) -> Turn {
        rank.turn.standing_at(self.standing_of(rank))
    }

    /// How tenants stand, by their numbers; empty unless that decides.
    pub(super) fn standings(&self) -> &[u64] {
        &self.standings
    }

    /// Why a tenant may not hold this much more.
    pub(super) fn beyond(
        &self,
        tenant: u32,
        asked: &Resources,
        capacity: &Capacity,
        ledger: &Ledger,
        settings: &Settings,
    ) -> Option<Beyond> {
        let most = self.rules(tenant).max_share.filter(|_| tenant > 0)?;
        let usable = capacity.usable(settings);
        let held = self.held(tenant, capacity, ledger);
        let exceeds = |(resource, amount): &(&str, i64)| {
            *amount > 0 && held.get(resource).saturating_add(*amount) > most.of(usable.get(resource).max(0))
        };
        let (resource, asked) = asked.iter().find(exceeds)?;
        let (usable, held) = (usable.get(resource).max(0), held.get(resource));
        Some(Beyond {
            tenant: self.names[tenant as usize].clone(),
            most,
            resource: resource.into(),
            asked,
            held,
            usable,
        })
    }
}

/// The largest share of any resource.
fn dominant(averages: &Averages, whole: &Resources) -> f64 {
    let share = |(resource, average): (&Name, &f64)| match whole.get(resource) {
        whole if whole > 0 => average * unit(resource) / whole as f64,
        _ => 0.0,
    };
    averages.iter().map(share).fold(0.0, f64::max)
}

/// How a tenant stands, for people and programs that ask.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantReport {
    /// The tenant.
    pub name: Name,
    /// What holds for it.
    pub rules: Tenant,
    /// The largest share of any of the pool's resources that it holds now.
    pub share: f64,
    /// The largest share that it used.
    pub used: f64,
    /// What it used, by resource: what is to be written down.
    pub averages: Averages,
    /// ScavengerJobs that start or run.
    pub running: usize,
    /// Those that wait, for whatever reason.
    pub waiting: usize,
    /// The one of them that has waited longest, and since when.
    pub longest_waiting: Option<(Timestamp, Key)>,
}

/// How the tenants stand.
#[derive(Debug, Clone, PartialEq)]
pub struct SharesReport {
    /// Those that are named, or have ScavengerJobs, or used something; those that used most first.
    pub tenants: Vec<TenantReport>,
    /// False while a label names tenants and namespaces cannot be listed: then each is a tenant by its own name.
    pub labels_known: bool,
    /// Up to when it counts what they used.
    pub counted_until: Timestamp,
    /// True while a deletion waits until this is written down.
    pub is_awaited: bool,
}

impl Shares {
    /// How the tenants stand; none if nothing is said of tenants.
    pub(crate) fn report<'a>(
        &self,
        scavenger_jobs: impl Iterator<Item = &'a ScavengerJob>,
        capacity: &Capacity,
        ledger: &Ledger,
        now: Timestamp,
    ) -> Option<SharesReport> {
        let sharing = self.sharing.as_ref()?;
        let now = whole_second(now);
        let mut used = self.used_by(sharing.half_life, now);
        let mut tenants: BTreeMap<Name, TenantReport> = BTreeMap::new();
        let numbered = self.names.iter().zip(0..).skip(1);
        let unseen = sharing.tenants.keys().filter(|name| !self.numbers.contains_key(*name));
        for (name, number) in numbered.chain(unseen.map(|name| (name, u32::MAX))) {
            let averages: Averages =
                used.remove(&number).unwrap_or_default().into_iter().map(round).collect();
            let held = self.held(number, capacity, ledger);
            let report = TenantReport {
                name: name.clone(),
                rules: sharing.tenants.get(name).cloned().unwrap_or_default(),
                share: capacity.dominant_share(&held) as f64 / 1e6,
                used: dominant(&averages, capacity.allocatable()),
                averages,
                running: 0,
                waiting: 0,
                longest_waiting: None,
            };
            tenants.insert(name.clone(), report);
        }
        for sj in scavenger_jobs.filter(|sj| !sj.status.phase.is_finished() && !sj.deleting) {
            let name = &self.names[self.lane_of(&sj.key.namespace) as usize];
            let Some(report) = tenants.get_mut(name) else { continue };
            if sj.status.phase.is_active() {
                report.running += 1;
                continue;
            }
            report.waiting += 1;
            let since = (sj.waiting_since(), sj.key.clone());
            report.longest_waiting = report.longest_waiting.take().into_iter().chain([since]).min();
        }
        let mut tenants: Vec<TenantReport> = tenants.into_values().collect();
        tenants.retain(|tenant| {
            let is_there = tenant.running + tenant.waiting > 0 || tenant.share > 0.0 || tenant.used >= LEAST;
            is_there || sharing.tenants.contains_key(&tenant.name)
        });
        tenants.sort_by(|a, b| b.used.total_cmp(&a.used).then_with(|| a.name.cmp(&b.name)));
        tenants.truncate(MOST);
        Some(SharesReport {
            tenants,
            labels_known: self.labels_known || sharing.label.is_none(),
            counted_until: now,
            is_awaited: self.leaving.keys().any(|sj| !self.is_counted(sj)),
        })
    }
}

/// Times are written down in whole seconds.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// A billionth is worth no digit.
fn round((resource, average): (Name, f64)) -> (Name, f64) {
    (resource, (average * 1e9).round() / 1e9)
}
