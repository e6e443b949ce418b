//! Measured memory. Requests say what pods may use, not what they do: an owner's pod that grows beyond its request can
//! fill a node that looks half empty, and then the kubelet or the kernel chooses who goes. Where somebody measures
//! (metrics.k8s.io), a node's ScavengerJobs that lose least go once more than 90% of its memory is used.
//!
//! How much each of them really uses is not known: its request is what it can give back at most. So a node is relieved
//! in rounds: as many as would reach 85% go, and only a measurement from after they were gone begins the next round.
//! Until it was measured to have come down to 85%, no ScavengerJob is added to it.
//!
//! A node whose memory ends is often the one whose kubelet answers too late to be measured. So a node that drops out of
//! the measurements stays as it was for [`KEEP`], and then takes no ScavengerJob until it is measured again. Nodes that
//! were never measured are not judged: some kubelets measure nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Cause, Needs, Pool, Standing, headroom, least_loss::Candidate};
use crate::{
    capacity::Capacity,
    resources::{Amount, MEMORY, Resources, Share},
    values::{Headroom, Key, Name, Reason, Usage},
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
    /// True if somebody measures.
    any: bool,
    /// When each node was in the measurements last.
    measured: BTreeMap<Name, Timestamp>,
    /// Nodes that use more than their share.
    hot: BTreeMap<Name, Usage>,
    /// Nodes to which none may be added: those, and those that have not come down far enough yet.
    full: BTreeSet<Name>,
    /// Nodes on which ScavengerJobs are going.
    relieving: BTreeSet<Name>,
    /// When the last of them was gone.
    relieved: BTreeMap<Name, Timestamp>,
}

impl MeasuredMemory {
    /// True if no ScavengerJob may be added to a node.
    pub(crate) fn is_full(&self, node: &Name) -> bool {
        self.full.contains(node)
    }

    /// True if somebody measures how much memory nodes really use.
    pub(crate) fn is_measured(&self) -> bool {
        self.any
    }

    /// Takes in what was measured, and returns the nodes that became full, or have come down far enough.
    pub(crate) fn set(
        &mut self,
        usage: Option<Vec<Usage>>,
        capacity: &Capacity,
        now: Timestamp,
    ) -> Vec<(Name, bool)> {
        self.any = usage.is_some();
        let (mut hot, mut full) = match &usage {
            Some(_) => (self.hot.clone(), self.full.clone()),
            None => Default::default(),
        };
        if usage.is_none() {
            self.measured.clear();
        }
        let target = Share::from_fraction(TARGET);
        let limits = limits();
        for usage in usage.into_iter().flatten() {
            let Some(room) = capacity.node(&usage.node) else { continue };
            let whole = room.node.allocatable.memory_bytes;
            let is_hot = !limits.suffices(&memory(usage.memory_bytes), &memory(whole));
            let is_full = is_hot || (self.is_full(&usage.node) && usage.memory_bytes > target.of(whole));
            self.measured.insert(usage.node.clone(), now);
            hot.remove(&usage.node);
            full.remove(&usage.node);
            if is_full {
                full.insert(usage.node.clone());
            }
            if is_hot {
                hot.insert(usage.node.clone(), usage);
            }
        }
        self.measured.retain(|node, _| capacity.node(node).is_some());
        let is_there = |node: &Name| self.measured.contains_key(node);
        hot.retain(|node, _| is_there(node));
        full.retain(is_there);
        for (node, measured) in &self.measured {
            if now.duration_since(*measured) > KEEP {
                full.insert(node.clone());
            }
        }
        let changed = self.full.symmetric_difference(&full);
        let changed = changed.map(|name| (name.clone(), full.contains(name))).collect();
        // A node that was relieved and came down needs no memory of it.
        self.relieved.retain(|node, _| full.contains(node));
        (self.hot, self.full) = (hot, full);
        changed
    }
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
