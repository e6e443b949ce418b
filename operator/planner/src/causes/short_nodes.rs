//! Nodes that are short of what their pods really use: their ScavengerJobs that lose least go, node by node. Everything that is
//! decided about the memory of a node is decided here.
//!
//! # Measured memory
//!
//! Requests say what pods may use, not what they do: an ordinary pod that grows beyond its request can fill a node that looks
//! half empty, and then the kubelet or the kernel chooses who goes. Where somebody measures (metrics.k8s.io), a node's
//! ScavengerJobs that lose least go once more than 90% of its memory is used.
//!
//! How much each of them really uses is not known: its request is what it can give back at most. So a node is relieved
//! in rounds: as many as would reach 85% go, and only a measurement from after they were gone begins the next round.
//! Until it was measured to have come down to 85%, no ScavengerJob is added to it.
//!
//! A node whose memory ends is often the one whose kubelet answers too late to be measured. So a node that drops out of
//! the measurements while others are measured stays as it was for [`KEEP`], and then takes no ScavengerJob until it is
//! measured again. Nodes that were never measured are not judged: some kubelets measure nothing.
//!
//! Where nothing at all is measured for a while (metrics-server starts again, or does not answer), that says nothing of any
//! node: those stay closed that were, and all others stay open.
//!
//! # Nodes that are counted by use
//!
//! | what the node lacks | reason | when |
//! |---|---|---|
//! | memory: expected use and what ScavengerJobs hold are above `interruptThreshold` | NodeMemoryShort | in rounds |
//! | cpu: the last sample and what ScavengerJobs hold are above it | NodeCPUShort | after `usage.linger`, in rounds |
//! | either: they are above what the pool would take for short without a threshold of its own | the same | at once |
//! | samples, for `usage.metricsGracePeriod` | NodeNotMeasured | all that were started by use, in rounds |
//! | trust: an ordinary pod was killed or evicted for its memory | OrdinaryPodKilled | all that were started by use, in rounds |
//!
//! A node that hardly has anything left is relieved at once, whatever else goes on. All others take their rounds
//! (`super::rounds`) over all nodes together: a threshold with a typing error, or the end of a metrics-server, concerns every node
//! in the same second. A round is so large that single nodes do not feel it.
//!
//! Those that lose least go, until the headroom target is reached. What an ordinary pod requests that was just bound is
//! expected of it, so a start that was planned too early is taken back as soon as both are seen on the node.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    headroom,
    least_loss::Candidate,
    pool::{Cause, Needs, Pool, Standing},
};
use crate::{
    capacity::Capacity,
    lifecycle::loss::Loss,
    node_use::Lack,
    values::{
        Headroom, Key, Name, Reason, Usage,
        resources::{Amount, CPU, MEMORY, Resources, Share},
    },
};

/// Above this share of a node's memory its ScavengerJobs go.
const THRESHOLD: f64 = 0.9;

/// Down to this share.
const TARGET: f64 = 0.85;

/// How long a measurement says something about a node that is not measured any more.
const KEEP: SignedDuration = SignedDuration::from_mins(5);

/// Why ScavengerJobs go from a node that is short of something, the most urgent first.
const SHORT: [Reason; 2] = [Reason::NodeMemoryShort, Reason::NodeCPUShort];

/// Why nothing is counted by use on a node any more.
const GIVEN_UP: [Reason; 2] = [Reason::NodeNotMeasured, Reason::OrdinaryPodKilled];

#[derive(Debug, Default)]
pub(crate) struct ShortNodes {
    pub(crate) measured: MeasuredMemory,
    /// What nodes lack that are counted by use.
    lacking: BTreeMap<Name, Vec<Lack>>,
}

impl ShortNodes {
    /// Takes in what nodes lack that are counted by use.
    pub(crate) fn set_lacking(&mut self, lacking: Vec<(Name, Vec<Lack>)>) {
        for (node, lacks) in lacking {
            if lacks.is_empty() {
                self.lacking.remove(&node);
            } else {
                self.lacking.insert(node, lacks);
            }
        }
    }

    /// Forgets what a node lacks.
    pub(crate) fn remove_node(&mut self, node: &Name) {
        self.lacking.remove(node);
    }
}

impl Cause for ShortNodes {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        let nobody_stays = || SHORT.iter().chain(&GIVEN_UP).all(|reason| !pool.rounds.holds(reason));
        self.measured.is_idle() && self.lacking.is_empty() && nobody_stays()
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        self.measured.relieve(pool);
        let now = pool.now;
        let mut short: BTreeMap<Reason, Vec<Short<'_>>> = BTreeMap::new();
        let mut given_up: BTreeMap<Reason, Vec<(&Name, String)>> = BTreeMap::new();
        for (node, lacks) in &self.lacking {
            for lack in lacks {
                match lack {
                    Lack::Memory(used) => {
                        let of = Short { node, resource: MEMORY, used: *used };
                        short.entry(Reason::NodeMemoryShort).or_default().push(of);
                    }
                    Lack::Cpu(used) => {
                        let of = Short { node, resource: CPU, used: *used };
                        short.entry(Reason::NodeCPUShort).or_default().push(of);
                    }
                    Lack::Measurements(since) => {
                        let minutes = now.duration_since(*since).as_mins();
                        let message = format!("what node {node} uses was not measured for {minutes} minutes");
                        given_up.entry(Reason::NodeNotMeasured).or_default().push((node, message));
                    }
                    // Which pod it was the admin reads in the pool's status: it may be of another namespace.
                    Lack::Trust => {
                        let message =
                            format!("an ordinary pod on node {node} ran out of memory beside ScavengerJobs");
                        given_up.entry(Reason::OrdinaryPodKilled).or_default().push((node, message));
                    }
                }
            }
        }
        for reason in SHORT {
            relieve_used(&short.remove(&reason).unwrap_or_default(), &reason, pool);
        }
        for reason in GIVEN_UP {
            give_up(given_up.remove(&reason).unwrap_or_default(), &reason, pool);
        }
    }

    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        let lacks_memory = |lacks: &Vec<Lack>| lacks.iter().any(|lack| matches!(lack, Lack::Memory(_)));
        let lacking = self.lacking.iter().filter(|(_, lacks)| lacks_memory(lacks)).map(|(node, _)| node);
        self.measured.relieving.iter().chain(lacking).map(|node| (node, Needs::Everything)).collect()
    }
}

/// What was measured, and on which nodes ScavengerJobs are going because of it.
#[derive(Debug, Default)]
pub(crate) struct MeasuredMemory {
    measuring: Measuring,
    /// The nodes that were measured once.
    measured: BTreeSet<Name>,
    /// Since when each of them is missing in the measurements, in which others are.
    missing: BTreeMap<Name, Timestamp>,
    /// Nodes that used more than their share when they were measured last.
    hot: BTreeMap<Name, Usage>,
    /// Those, and those that had not come down far enough.
    short: BTreeSet<Name>,
    /// Nodes to which none may be added: those, and those that are missing for too long.
    full: BTreeSet<Name>,
    /// Nodes on which ScavengerJobs are going.
    relieving: BTreeSet<Name>,
    /// When the last of them was gone.
    relieved: BTreeMap<Name, Timestamp>,
}

/// Whether somebody measures how much memory nodes really use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Measuring {
    /// Nobody does.
    #[default]
    No,
    /// Somebody does.
    Yes,
    /// Nothing has been measured since then, although somebody should.
    NotSince(Timestamp),
}

impl MeasuredMemory {
    /// True if no ScavengerJob may be added to a node.
    pub(crate) fn is_full(&self, node: &Name) -> bool {
        self.full.contains(node)
    }

    /// Whether somebody measures how much memory nodes really use.
    pub(crate) fn measuring(&self) -> Measuring {
        self.measuring
    }

    /// Takes in what was measured, and returns the nodes that became full, or have come down far enough. An answer without any
    /// node is no answer: it says nothing of the nodes.
    pub(crate) fn set(
        &mut self,
        usage: Option<Vec<Usage>>,
        capacity: &Capacity,
        now: Timestamp,
    ) -> Vec<Name> {
        match usage.filter(|usage| !usage.is_empty()) {
            Some(usage) => self.take_in(usage, capacity, now),
            None => {
                if !matches!(self.measuring, Measuring::NotSince(_)) {
                    self.measuring = Measuring::NotSince(now);
                }
                self.missing.retain(|_, since| is_missing(since, now));
            }
        }
        for known in [&mut self.measured, &mut self.short] {
            known.retain(|node| capacity.node(node).is_some());
        }
        self.hot.retain(|node, _| self.measured.contains(node));
        let missing = self.missing.iter().filter(|(_, since)| is_missing(since, now)).map(|(node, _)| node);
        let full = self.short.iter().chain(missing).cloned().collect();
        self.change_full(full)
    }

    /// Nobody measures any more: nothing is known of any node. Returns the nodes that were full.
    pub(crate) fn forget(&mut self) -> Vec<Name> {
        let changed = self.change_full(BTreeSet::new());
        *self = Self { relieving: std::mem::take(&mut self.relieving), ..Self::default() };
        changed
    }

    fn change_full(&mut self, full: BTreeSet<Name>) -> Vec<Name> {
        let changed = self.full.symmetric_difference(&full).cloned().collect();
        // A node that was relieved and came down needs no memory of it.
        self.relieved.retain(|node, _| full.contains(node));
        self.full = full;
        changed
    }

    fn take_in(&mut self, usage: Vec<Usage>, capacity: &Capacity, now: Timestamp) {
        self.measuring = Measuring::Yes;
        let mut missing: BTreeMap<Name, Timestamp> = BTreeMap::new();
        for node in &self.measured {
            missing.insert(node.clone(), self.missing.get(node).copied().unwrap_or(now));
        }
        let target = Share::from_fraction(TARGET);
        let limits = limits(Share::from_fraction(THRESHOLD), target);
        for usage in usage {
            let Some(load) = capacity.node(&usage.node) else { continue };
            let node = usage.node.clone();
            let whole = load.node.allocatable.memory_bytes;
            let is_hot = !limits.suffices(&only(MEMORY, usage.memory_bytes), &only(MEMORY, whole));
            let is_short = is_hot || (self.is_full(&node) && usage.memory_bytes > target.of(whole));
            match is_hot {
                true => self.hot.insert(node.clone(), usage),
                false => self.hot.remove(&node),
            };
            match is_short {
                true => self.short.insert(node.clone()),
                false => self.short.remove(&node),
            };
            missing.remove(&node);
            self.measured.insert(node);
        }
        missing.retain(|node, _| capacity.node(node).is_some());
        self.missing = missing;
    }
}

/// True if a node that is missing since then is missing for too long.
fn is_missing(since: &Timestamp, now: Timestamp) -> bool {
    now.duration_since(*since) > KEEP
}

/// Above which share of a resource of one node ScavengerJobs go, and down to which.
fn limits(threshold: Share, target: Share) -> Headroom {
    Headroom {
        interrupt_threshold: Some(threshold),
        interrupt_threshold_overrides: BTreeMap::new(),
        target,
        target_overrides: BTreeMap::new(),
    }
}

/// An amount of cpu or memory.
fn only(resource: &str, amount: i64) -> Resources {
    match resource {
        CPU => Resources { cpu_milli: amount, ..Resources::default() },
        _ => Resources { memory_bytes: amount, ..Resources::default() },
    }
}

impl MeasuredMemory {
    fn is_idle(&self) -> bool {
        self.hot.is_empty() && self.relieving.is_empty()
    }

    fn relieve(&mut self, pool: &mut Pool<'_>) {
        let nodes: BTreeSet<Name> = self.hot.keys().chain(&self.relieving).cloned().collect();
        for node in nodes {
            let scavenger_jobs: Vec<(Key, Resources)> =
                pool.holders_on(&node).into_iter().map(|(sj, held)| (sj.clone(), held)).collect();
            let is_terminating = |sj: &Key| matches!(pool.standing_of(sj), Standing::Terminating(_));
            if scavenger_jobs.iter().any(|(sj, _)| is_terminating(sj)) {
                // Somebody terminates already, for whatever reason.
                self.relieving.insert(node);
                continue;
            }
            if self.relieving.remove(&node) {
                self.relieved.insert(node.clone(), pool.now);
            }
            self.relieve_node(&node, scavenger_jobs, pool);
        }
    }

    fn relieve_node(&mut self, node: &Name, scavenger_jobs: Vec<(Key, Resources)>, pool: &mut Pool<'_>) {
        let Some(usage) = self.hot.get(node) else { return };
        if self.relieved.get(node).is_some_and(|relieved| usage.time <= *relieved) {
            return;
        }
        let used = usage.memory_bytes;
        let Some(whole) = pool.capacity.node(node).map(|load| load.node.allocatable.memory_bytes) else {
            return;
        };
        let candidates = scavenger_jobs.into_iter().filter_map(|(sj, held)| {
            let loss = pool.loss_of(&sj)?;
            Some(Candidate { sj, held: only(MEMORY, held.memory_bytes), loss, is_young: false })
        });
        let candidates = candidates.collect();
        let threshold = Share::from_fraction(THRESHOLD);
        let message = format!(
            "node {node} uses {} of its {}, as measured: more than {threshold}",
            Amount(MEMORY, used),
            Amount(MEMORY, whole),
        );
        let limits = limits(threshold, Share::from_fraction(TARGET));
        let (used, whole) = (only(MEMORY, used), only(MEMORY, whole));
        let chosen = headroom::choose(&used, &whole, &limits, "", candidates);
        for (sj, _) in &chosen {
            pool.order(sj, Reason::NodePressure, message.clone());
        }
        if !chosen.is_empty() {
            self.relieving.insert(node.clone());
        }
    }
}

/// A node where ordinary pods use so much of a resource that ScavengerJobs must go.
struct Short<'a> {
    node: &'a Name,
    resource: &'static str,
    used: i64,
}

impl Short<'_> {
    /// Those that lose least, until the node is down to the target, if it is above the threshold. What is terminating, or goes
    /// because of another node, counts as gone. Of memory comes back what was counted of a pod: what it holds without what it was
    /// not expected to use.
    fn victims(
        &self,
        (threshold, target): (Share, Share),
        going: &BTreeSet<Key>,
        pool: &Pool<'_>,
    ) -> Vec<(Loss, Key, String)> {
        let (node, resource) = (self.node, self.resource);
        let Some(load) = pool.capacity.node(node) else { return Vec::new() };
        let whole = load.node.allocatable.get(resource);
        let mut held = 0_i64;
        let mut candidates = Vec::new();
        for (sj, holds) in pool.counted_on(node, resource) {
            if going.contains(sj) || matches!(pool.standing_of(sj), Standing::Terminating(_)) {
                continue;
            }
            held = held.saturating_add(holds);
            if let Some(loss) = pool.loss_of(sj).filter(|_| holds > 0) {
                let is_young = pool.is_young(sj);
                candidates.push(Candidate { sj: sj.clone(), held: only(resource, holds), loss, is_young });
            }
        }
        let message = format!(
            "ordinary pods of node {node} use {} and ScavengerJobs hold {} of its {}: more than {threshold}",
            Amount(resource, self.used),
            Amount(resource, held),
            Amount(resource, whole),
        );
        let taken = only(resource, self.used.saturating_add(held));
        let chosen =
            headroom::choose(&taken, &only(resource, whole), &limits(threshold, target), "", candidates);
        let with_loss = |(sj, _): (Key, _)| Some((pool.loss_of(&sj)?, sj, message.clone()));
        chosen.into_iter().filter_map(with_loss).collect()
    }
}

/// Orders the interruption of those that lose least on these nodes, down to the headroom target: in rounds, for it may be the
/// threshold that is wrong. Who must stay until the next round goes all the same where hardly anything is left.
fn relieve_used(nodes: &[Short<'_>], reason: &Reason, pool: &mut Pool<'_>) {
    let threshold = |short: &Short<'_>, pool: &Pool<'_>| {
        let node = pool.capacity.node(short.node)?.node;
        let threshold = pool.settings.interrupts_above(node, short.resource);
        let target = pool.settings.headroom_of(node).target(short.resource).min(threshold);
        Some((threshold, target, pool.settings.runs_short_above(node, short.resource)))
    };
    if nodes.is_empty() || !pool.waits(reason) {
        pool.rounds.release(reason);
        let (mut victims, mut going) = (Vec::new(), BTreeSet::new());
        for short in nodes {
            let Some((threshold, target, _)) = threshold(short, pool) else { continue };
            let of_node = short.victims((threshold, target), &going, pool);
            going.extend(of_node.iter().map(|(_, sj, _)| sj.clone()));
            victims.extend(of_node);
        }
        victims.sort();
        let in_order = victims.into_iter().map(|(_, sj, message)| (sj, message));
        pool.order_in_rounds(reason, in_order);
    }
    if !pool.rounds.holds(reason) {
        return;
    }
    for short in nodes {
        let Some((threshold, _, end)) = threshold(short, pool) else { continue };
        let end = end.max(threshold);
        for (_, sj, message) in short.victims((end, end), &BTreeSet::new(), pool) {
            pool.order(&sj, reason.clone(), message);
        }
    }
}

/// Gives up what was counted by use on these nodes: all that was started so goes in rounds, those that lose least first.
fn give_up(nodes: Vec<(&Name, String)>, reason: &Reason, pool: &mut Pool<'_>) {
    if !nodes.is_empty() && pool.waits(reason) {
        return;
    }
    pool.rounds.release(reason);
    let mut holders = Vec::new();
    for (node, message) in nodes {
        for sj in pool.started_by_use_on(node) {
            holders.extend(pool.loss_of(sj).map(|loss| (loss, sj.clone(), message.clone())));
        }
    }
    holders.sort();
    let in_order = holders.into_iter().map(|(_, sj, message)| (sj, message));
    pool.order_in_rounds(reason, in_order);
}

impl Pool<'_> {
    /// What is counted of a resource for each ScavengerJob on a node.
    fn counted_on(&self, node: &Name, resource: &str) -> BTreeMap<&Key, i64> {
        let spares =
            self.capacity.account(node).filter(|_| resource == MEMORY).map(|account| &account.spares);
        self.sums_on(node, |counted: &mut i64, pod| {
            let spares = spares.and_then(|spares| spares.get(pod.key)).copied().unwrap_or(0);
            *counted += pod.holds.get(resource) - spares;
        })
    }

    /// The ScavengerJobs on a node that were started by what is used.
    fn started_by_use_on(&self, node: &Name) -> Vec<&Key> {
        let pods = self.capacity.scavenger_pods(node).filter(|pod| pod.holds != pod.requests);
        pods.filter_map(|pod| self.seen.key_of(pod.owner, &pod.key.namespace)).collect()
    }
}
