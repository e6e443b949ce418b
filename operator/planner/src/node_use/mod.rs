//! What ordinary pods of each node really use, and what is expected of them: accounting Usage.
//!
//! ```text
//! ordinary(node) = what the node uses - what ScavengerJobs' pods on it use           (of samples of one time)
//! expected(node) = predicted peak of ordinary(node) + margin + requests of ordinary pods younger than the window
//! free(node)     = limit(node) - expected(node) - limits of ScavengerJobs' pods there
//! ```
//!
//! The predicted peak is a percentile of a histogram that forgets (`histogram.rs`), or the last sample if that is larger.
//! Until a node was measured for the whole window, what ordinary pods request is expected of them: such an estimate keeps
//! ScavengerJobs from starting, and interrupts none. A node whose last sample is too old takes none.
//!
//! Memory has one more limit: what an ordinary pod may take at once stays free. A new pod runs within a second, while the
//! last checkpoint of a ScavengerJob takes as long as its grace period.
//!
//! Of memory that ScavengerJobs may use and do not, their own predicted peak counts once they were measured for the window.
//! Of cpu it does not: they use little of it while ordinary pods are busy, because these come first.
//!
//! What is known is handed on to the next planner (`report.rs`).
//!
//! A node without memory on which an ordinary container was killed, or an ordinary pod evicted, while ScavengerJobs were there is
//! counted by requests for a day (`breaker.rs`). Where the node has an agent, that is asked first why the container was killed.
//!
//! With `usage.requireNodeAgent` ScavengerJobs start by use only on nodes whose agent is live. On other nodes they start by
//! requests. What was started there by use before stays, and is watched as before.

mod agents;
mod breaker;
mod dry_run;
mod histogram;
mod pods;
mod report;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    capacity::{Account, Capacity, ScavengerPod, compute},
    values::{
        Key, Name, Node, PodUsage, RememberedNode, Settings, Usage, UsageRules, earlier, later,
        resources::{MEMORY, Resources},
    },
};
use breaker::Breaker;
use dry_run::CpuOfNode;
use histogram::Histogram;
use pods::{OrdinaryPods, ScavengerPods};

pub use dry_run::DryRun;
pub use report::{Knowledge, UsageReport};

/// How often what is to be remembered is written down at most: the last write may be as old when a planner ends.
pub const REMEMBERED_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// What the first bucket of cpu ends at, in millicores.
const CPU_UNIT: i64 = 10;

/// What the first bucket of memory ends at, in bytes.
const MEMORY_UNIT: i64 = 8 << 20;

/// A sample says nothing about more than this before it.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);

/// What a node uses and what its pods use is subtracted from each other if it was measured within this time.
const TOGETHER: SignedDuration = SignedDuration::from_secs(30);

/// Expected use is rounded up to this part of the node, so that not each sample changes what is counted.
const GRAIN: i64 = 256;

/// What is known of the use of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeUse {
    /// The rules that hold, or held before the settings became invalid; none while nothing is counted by use.
    rules: Option<Box<UsageRules>>,
    nodes: BTreeMap<Name, Measured>,
    /// What the planner before this one knew of nodes that this one has not looked at.
    remembered: BTreeMap<Name, RememberedNode>,
    /// Samples of nodes for which those of their pods are still to come.
    samples: Vec<Usage>,
    ordinary: OrdinaryPods,
    scavengers: ScavengerPods,
    breaker: Breaker,
    /// The nodes whose agent is live.
    agents: BTreeSet<Name>,
    dry_run: DryRun,
    /// Nodes to be looked at again.
    dirty: BTreeSet<Name>,
    /// When some node is to be looked at although nothing is seen of it: `Measured::timer` of all.
    timers: BTreeSet<(Timestamp, Name)>,
}

/// What was measured of a node.
#[derive(Debug)]
struct Measured {
    cpu: Histogram,
    memory: Histogram,
    /// For how long.
    known: SignedDuration,
    last: Option<Sample>,
    /// When the last sample came, or the node was first seen.
    heard: Timestamp,
    /// Since when ordinary pods have needed processors that ScavengerJobs hold.
    busy_since: Option<Timestamp>,
    /// The last sample that the planner before this one had.
    before: Option<Timestamp>,
    /// When the node is to be looked at although nothing is seen of it.
    timer: Option<Timestamp>,
}

/// What ordinary pods of a node used together: at least this. A ScavengerJob's pod that has just started or ended may be in
/// what was measured of the node or not, so they may have used more.
#[derive(Debug, Clone, Copy)]
struct Sample {
    time: Timestamp,
    cpu_milli: i64,
    memory_bytes: i64,
    /// What they used at most: millicores and bytes. It keeps others from starting, and interrupts nobody.
    most: (i64, i64),
}

/// What a node that is counted by use lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Memory: what ordinary pods are expected to use, in bytes.
    Memory(i64),
    /// Processors: what ordinary pods use, in millicores.
    Cpu(i64),
    /// Measurements, since this time.
    Measurements(Timestamp),
    /// The right to be counted by use: an ordinary pod was killed or evicted.
    Trust,
}

impl Measured {
    fn new(half_life: SignedDuration, now: Timestamp) -> Self {
        Self {
            cpu: Histogram::new(CPU_UNIT, half_life, now),
            memory: Histogram::new(MEMORY_UNIT, half_life, now),
            known: SignedDuration::ZERO,
            last: None,
            heard: now,
            busy_since: None,
            before: None,
            timer: None,
        }
    }

    /// Takes in a sample; one that is not newer than the last says nothing.
    fn add(&mut self, sample: Sample, rules: &UsageRules, now: Timestamp) -> bool {
        let since = self.last.map(|last| sample.time.duration_since(last.time));
        if since.is_some_and(|since| since <= SignedDuration::ZERO) {
            return false;
        }
        // What happened in a long gap nobody knows.
        let change_of_planner = self.before.take().map(|before| sample.time.duration_since(before));
        if since.is_some_and(|since| since > rules.oldest_metrics)
            || change_of_planner
                .is_some_and(|gap| gap > rules.oldest_metrics.saturating_add(REMEMBERED_EVERY))
        {
            self.known = SignedDuration::ZERO;
        }
        self.known = self.known.saturating_add(since.unwrap_or_default().min(LONGEST));
        self.cpu.add(sample.cpu_milli, sample.time, rules.half_life);
        self.memory.add(sample.memory_bytes, sample.time, rules.half_life);
        self.last = Some(sample);
        self.heard = sample.time.min(now);
        true
    }

    fn knowledge(&self, rules: &UsageRules, now: Timestamp) -> Knowledge {
        if self.last.is_none() || now.duration_since(self.heard) > rules.oldest_metrics {
            Knowledge::Unmeasured
        } else if self.known >= rules.window {
            Knowledge::Known
        } else {
            Knowledge::Estimated
        }
    }

    /// What the pods are expected to use that were measured, if they used this at last.
    fn peak(&self, rules: &UsageRules, last: (i64, i64)) -> Resources {
        let peak = |histogram: &Histogram, last: i64| {
            let peak = histogram.percentile(rules.percentile).max(last);
            peak.saturating_add(rules.margin.of(peak))
        };
        Resources {
            cpu_milli: peak(&self.cpu, last.0),
            memory_bytes: peak(&self.memory, last.1),
            ..Resources::default()
        }
    }
}

impl NodeUse {
    /// Other settings: every node is looked at again. While they are invalid everything that is known stays, and is measured on:
    /// an error that is mended in a moment must not cost what took hours to learn.
    pub(crate) fn set_settings(&mut self, settings: Option<&Settings>, capacity: &Capacity) {
        self.dirty.extend(capacity.nodes().map(|node| node.name.clone()));
        let Some(settings) = settings else { return };
        self.rules.clone_from(&settings.usage);
        if !self.is_on() {
            self.ordinary.clear();
            self.scavengers.clear();
            self.nodes.clear();
            self.timers.clear();
            self.breaker.forget_samples();
            self.dry_run = DryRun::default();
        } else {
            if settings.places_by_use() {
                self.dry_run = DryRun::default();
            }
            self.ordinary.begin(capacity.ordinary_pods());
        }
    }

    /// True if nodes are counted by use, or would be as soon as the settings are valid again.
    pub(crate) fn is_on(&self) -> bool {
        self.rules.is_some()
    }

    /// Something about a node changed, or about what is on it.
    pub(crate) fn touch(&mut self, node: &Name) {
        self.dirty.insert(node.clone());
    }

    /// A node is gone.
    pub(crate) fn forget_node(&mut self, node: &Name) {
        self.set_timer(node, None);
        self.nodes.remove(node);
        self.remembered.remove(node);
        self.dirty.remove(node);
        self.dry_run.forget(node);
        self.breaker.forget_node(node);
        self.scavengers.forget_node(node);
    }

    /// A pod of a ScavengerJob has ended, or is gone: what it held on its node.
    pub(crate) fn left(&mut self, pod: &Key, node: &Name, held: &Resources, now: Timestamp) {
        self.scavengers.left(pod, node, held, now);
        self.dirty.insert(node.clone());
    }

    /// A pod is gone.
    pub(crate) fn forget_pod(&mut self, pod: &Key) {
        self.breaker.forget(pod);
        self.scavengers.forget(pod);
        self.dirty.extend(self.ordinary.remove(pod));
    }

    /// Samples of nodes, for which those of pods come next; none if nobody measures.
    pub(crate) fn set_nodes(&mut self, usage: Option<&[Usage]>) {
        self.samples = usage.unwrap_or_default().to_vec();
    }

    /// Samples of ScavengerJobs' pods: what is left of what the nodes use is what ordinary pods use.
    pub(crate) fn set_pods(&mut self, usage: &[PodUsage], capacity: &Capacity, now: Timestamp) {
        let samples = std::mem::take(&mut self.samples);
        let Some(rules) = self.rules.clone() else { return };
        let rules = &*rules;
        let of_pods: BTreeMap<&Key, &PodUsage> = usage.iter().map(|usage| (&usage.pod, usage)).collect();
        for sample in samples {
            if sample.cpu_milli < 0
                || sample.memory_bytes < 0
                || sample.time > later(now, LONGEST)
                || capacity.node(&sample.node).is_none()
            {
                continue;
            }
            let (mut least, mut most) =
                ((sample.cpu_milli, sample.memory_bytes), (sample.cpu_milli, sample.memory_bytes));
            for pod in capacity.scavenger_pods(&sample.node) {
                let used = of_pods.get(pod.key);
                let used = used.filter(|used| used.time.duration_since(sample.time).abs() <= TOGETHER);
                if let Some(used) = used {
                    self.scavengers.add(pod.key, used);
                    most = (most.0 - used.cpu_milli.max(0), most.1 - used.memory_bytes.max(0));
                }
                // A pod is measured a little later than its node, the first time. What it may use it may use already.
                let (cpu, memory) = used.map_or((pod.holds.cpu_milli, pod.holds.memory_bytes), |used| {
                    (used.cpu_milli.max(0), used.memory_bytes.max(0))
                });
                least = (least.0 - cpu, least.1 - memory);
            }
            // What has just ended may be in the sample yet.
            let left = self.scavengers.left_since(&sample.node, sample.time, TOGETHER);
            let ordinary = Sample {
                time: sample.time,
                cpu_milli: (least.0 - left.cpu_milli).max(0),
                memory_bytes: (least.1 - left.memory_bytes).max(0),
                most: (most.0.max(0), most.1.max(0)),
            };
            if self.measured(&sample.node, rules, now).add(ordinary, rules, now) {
                self.breaker.measured(&sample.node, sample.time, sample.memory_bytes);
                if capacity.is_shared_by_use(&sample.node) {
                    self.breaker.shared(&sample.node, now);
                }
                self.dirty.insert(sample.node);
            }
        }
    }

    /// Brings how nodes are counted up to date, and says what those lack that changed. To be called before anybody is
    /// interrupted or started.
    pub(crate) fn follow(
        &mut self,
        settings: &Settings,
        capacity: &mut Capacity,
        now: Timestamp,
    ) -> Vec<(Name, Vec<Lack>)> {
        let due = self.timers.iter().take_while(|(time, _)| *time <= now);
        self.dirty.extend(due.map(|(_, name)| name.clone()));
        self.dirty.extend(self.breaker.close(now));
        self.dirty.extend(self.breaker.judge(settings, |name| Some(capacity.node(name)?.node), now));
        let mut lacking = Vec::new();
        for name in std::mem::take(&mut self.dirty) {
            self.set_timer(&name, None);
            let rules = settings.usage.as_deref();
            let node = rules.and_then(|rules| Some((rules, capacity.node(&name)?.node.clone())));
            let lacks = node.and_then(|(rules, node)| {
                let counts = settings.include(&node) && rules.select(&node) && !self.breaker.is_open(&name);
                let counts = counts && (self.may_start(&name, rules) || capacity.is_shared_by_use(&name));
                counts.then(|| self.look(&node, settings, rules, capacity, now))
            });
            if lacks.is_none() {
                capacity.set_account(&name, None);
                self.dry_run.forget(&name);
            }
            let harm = self.breaker.is_open(&name).then(|| vec![Lack::Trust]);
            lacking.push((name, lacks.or(harm).unwrap_or_default()));
        }
        lacking
    }

    /// When some node is to be looked at although nothing is seen of it.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        earlier(self.timers.first().map(|(time, _)| *time), self.breaker.wake_at())
    }

    /// Counts a node by use.
    fn look(
        &mut self,
        node: &Node,
        settings: &Settings,
        rules: &UsageRules,
        capacity: &mut Capacity,
        now: Timestamp,
    ) -> Vec<Lack> {
        let name = &node.name;
        self.measured(name, rules, now);
        let account = self.account(node, settings, rules, capacity, now);
        let Some(measured) = self.nodes.get(name) else { return Vec::new() };
        let (heard, knowledge) = (measured.heard, measured.knowledge(rules, now));
        let mut timer = self.ordinary.ripens_at(name, rules.window, now);
        for age in [rules.oldest_metrics, rules.metrics_grace] {
            // A moment later it is older.
            let old = later(heard, age.saturating_add(SignedDuration::from_millis(1)));
            timer = earlier(timer, Some(old).filter(|old| *old > now));
        }
        if rules.dry_run {
            let cpu = CpuOfNode {
                limit: settings.start_thresholds_of(node).of(&node.allocatable).cpu_milli,
                ordinary: capacity.requested_by_ordinary(name).cpu_milli,
                used: measured.last.map_or(0, |last| last.cpu_milli),
                held: capacity.scavenger_pods(name).map(|pod| pod.holds.cpu_milli).sum(),
            };
            self.dry_run.follow(node, &account, cpu, settings, rules.linger, now);
            capacity.set_account(name, None);
            self.set_timer(name, timer);
            return Vec::new();
        }
        let expected = account.expected.clone();
        capacity.set_account(name, Some(account));
        let mut lacks = Vec::new();
        if now.duration_since(heard) > rules.metrics_grace {
            lacks.push(Lack::Measurements(heard));
        }
        let taken = capacity.counted_on(name);
        // An estimate interrupts nobody.
        let last = measured.last.filter(|_| knowledge == Knowledge::Known);
        let held = taken.minus(&expected);
        if let Some(last) = last.filter(|_| held.memory_bytes > 0) {
            // What is certain counts: not what may have been a ScavengerJob's.
            let young = self.ordinary.younger_than(name, rules.window, now);
            let certain = measured.peak(rules, (last.cpu_milli, last.memory_bytes)).plus(&young).memory_bytes;
            let limit = settings.interrupts_above(node, MEMORY).of(node.allocatable.memory_bytes);
            if held.memory_bytes.saturating_add(certain) > limit {
                lacks.push(Lack::Memory(certain));
            }
        }
        let held = held.cpu_milli;
        let limit =
            settings.interrupts_above(node, crate::values::resources::CPU).of(node.allocatable.cpu_milli);
        let is_too_much = |used: i64| held > 0 && held.saturating_add(used) > limit;
        // Cores that are kept for somebody are not there for others, whoever uses them.
        let kept = self.kept_cores(node, rules, now);
        let certain = last.map(|last| last.cpu_milli.max(kept)).filter(|used| is_too_much(*used));
        let Some(measured) = self.nodes.get_mut(name) else { return lacks };
        // What is certain begins and decides; what is possible goes on. For a while after a ScavengerJob ended nobody knows
        // how much of a sample was its own, and a node that lacks processors does not begin to wait again for that.
        if let Some(used) = certain {
            let since = *measured.busy_since.get_or_insert(now);
            let until = later(since, rules.linger);
            if until <= now {
                lacks.push(Lack::Cpu(used));
            } else {
                timer = earlier(timer, Some(until));
            }
        } else if last.is_none_or(|last| !is_too_much(last.most.0)) {
            measured.busy_since = None;
        }
        self.set_timer(name, timer);
        lacks
    }

    fn set_timer(&mut self, node: &Name, time: Option<Timestamp>) {
        let Some(measured) = self.nodes.get_mut(node) else { return };
        if let Some(before) = std::mem::replace(&mut measured.timer, time) {
            self.timers.remove(&(before, node.clone()));
        }
        if let Some(time) = time {
            self.timers.insert((time, node.clone()));
        }
    }

    /// How a node is counted.
    pub(crate) fn account(
        &self,
        node: &Node,
        settings: &Settings,
        rules: &UsageRules,
        capacity: &Capacity,
        now: Timestamp,
    ) -> Account {
        let whole = compute(&node.allocatable);
        // Whether a demand ever fits must not depend on the window that holds now.
        let most = settings.highest_thresholds_of(node).of(&whole);
        let requested = compute(&capacity.requested_by_ordinary(&node.name));
        let measured = self.nodes.get(&node.name);
        let knowledge = measured.map_or(Knowledge::Unmeasured, |one| one.knowledge(rules, now));
        let used = measured.and_then(|one| one.last).map_or(0, |last| last.memory_bytes);
        let mut expected = match (knowledge, measured) {
            (Knowledge::Known, Some(measured)) => {
                let last = measured.last.map_or((0, 0), |last| last.most);
                let mut expected = measured.peak(rules, last);
                expected.add(&self.ordinary.younger_than(&node.name, rules.window, now));
                expected.cpu_milli += self.kept_cores(node, rules, now);
                expected
            }
            (_, Some(measured)) => {
                let last = measured.last.map_or((0, 0), |last| last.most);
                Resources {
                    cpu_milli: requested.cpu_milli.max(last.0),
                    memory_bytes: requested.memory_bytes.max(last.1),
                    ..Resources::default()
                }
            }
            (_, None) => requested.clone(),
        };
        expected = expected.map(|name, amount| {
            let grain = (whole.get(name) / GRAIN).max(1);
            amount.saturating_add(grain - 1) / grain * grain
        });
        let spares = |pod: ScavengerPod<'_>| (pod.key.clone(), self.scavengers.spares(&pod, rules));
        let spares =
            capacity.scavenger_pods(&node.name).map(spares).filter(|(_, spares)| *spares > 0).collect();
        // What one ordinary pod may take at once.
        let reserve =
            self.ordinary.largest_memory(&node.name).min(requested.memory_bytes.saturating_sub(used)).max(0);
        let mut limit = settings.start_thresholds_of(node).of(&whole);
        limit.memory_bytes = limit.memory_bytes.min(whole.memory_bytes - reserve);
        let most_pods = i64::from(rules.most_pods_per_node);
        let starts = self.may_start(&node.name, rules);
        Account { expected, spares, limit, most, most_pods, open: knowledge != Knowledge::Unmeasured, starts }
    }

    /// Millicores that the node's kubelet keeps for single pods. What these use is in what the node uses, too; how much of it
    /// that is nobody knows, so what is free is rather too little than too much.
    fn kept_cores(&self, node: &Node, rules: &UsageRules, now: Timestamp) -> i64 {
        if rules.keeps_cores(node) { self.ordinary.kept_for(&node.name, rules.window, now) } else { 0 }
    }
}
