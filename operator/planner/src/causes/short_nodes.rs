//! Measured memory. Requests say what pods may use, not what they do: an owner's pod that grows beyond its request can
//! fill a node that looks half empty, and then the kubelet or the kernel chooses who goes. Where somebody measures
//! (metrics.k8s.io), a node's ScavengerJobs that lose least go once more than 90% of its memory is used.
//!
//! How much each of them really uses is not known: its request is what it can give back at most. So a node is relieved
//! in rounds: as many as would reach 85% go, and only a measurement from after they were gone begins the next round.
//! Until it was measured to have come down to 85%, no ScavengerJob is added to it.
//!
//! A node whose memory ends is often the one whose kubelet answers too late to be measured. So a node that drops out of
//! the measurements while others are measured stays as it was for [`KEEP`], and then takes no ScavengerJob until it is
//! measured again. Nodes that were never measured are not judged: some kubelets measure nothing.
//!
//! Where nothing at all is measured for a while (metrics-server starts again, or hangs), that says nothing of any node: those
//! stay closed that were, and all others stay open.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    headroom,
    least_loss::Candidate,
    pool::{Cause, Needs, Pool, Standing},
};
use crate::{
    capacity::Capacity,
    values::{
        Headroom, Key, Name, Reason, Usage,
        resources::{Amount, MEMORY, Resources, Share},
    },
};

/// Above this share of a node's memory its ScavengerJobs go.
const THRESHOLD: f64 = 0.9;

/// Down to this share.
const TARGET: f64 = 0.85;

/// How long a measurement says something about a node that is not measured any more.
const KEEP: SignedDuration = SignedDuration::from_mins(5);

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
        let limits = limits();
        for usage in usage {
            let Some(room) = capacity.node(&usage.node) else { continue };
            let node = usage.node.clone();
            let whole = room.node.allocatable.memory_bytes;
            let is_hot = !limits.suffices(&memory(usage.memory_bytes), &memory(whole));
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

fn limits() -> Headroom {
    Headroom {
        interrupt_threshold: Some(Share::from_fraction(THRESHOLD)),
        interrupt_threshold_overrides: BTreeMap::new(),
        target: Share::from_fraction(TARGET),
        target_overrides: BTreeMap::new(),
    }
}

fn memory(bytes: i64) -> Resources {
    Resources { memory_bytes: bytes, ..Resources::default() }
}

impl Cause for MeasuredMemory {
    fn is_idle(&mut self, _: &Pool<'_>) -> bool {
        self.hot.is_empty() && self.relieving.is_empty()
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
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

    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        self.relieving.iter().map(|node| (node, Needs::Everything)).collect()
    }
}

impl MeasuredMemory {
    fn relieve_node(&mut self, node: &Name, scavenger_jobs: Vec<(Key, Resources)>, pool: &mut Pool<'_>) {
        let Some(usage) = self.hot.get(node) else { return };
        if self.relieved.get(node).is_some_and(|relieved| usage.time <= *relieved) {
            return;
        }
        let used = usage.memory_bytes;
        let Some(whole) = pool.capacity.node(node).map(|room| room.node.allocatable.memory_bytes) else {
            return;
        };
        let candidates = scavenger_jobs.into_iter().filter_map(|(sj, held)| {
            let loss = pool.loss_of(&sj)?;
            Some(Candidate { sj, held: memory(held.memory_bytes), loss })
        });
        let message = format!(
            "node {node} uses {} of its {}, as measured: more than {}",
            Amount(MEMORY, used),
            Amount(MEMORY, whole),
            Share::from_fraction(THRESHOLD),
        );
        for (sj, _) in headroom::choose(&memory(used), &memory(whole), &limits(), "", candidates.collect()) {
            self.relieving.insert(node.clone());
            pool.order(&sj, Reason::NodePressure, message.clone());
        }
    }
}
