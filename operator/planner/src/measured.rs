//! Measured memory. Requests say what pods may use, not what they do: an owner's pod that grows beyond its request can
//! fill a node that looks half empty, and then the kubelet or the kernel chooses who goes. Where somebody measures
//! (metrics.k8s.io), a node's ScavengerJobs that lose least go once more than 90% of its memory is used.
//!
//! How much each of them really uses is not known: its request is what it can give back at most. So a node is relieved
//! in rounds: as many as would reach 85% go, and only a measurement from after they were gone begins the next round.
//! Until it was measured to have come down to 85%, no ScavengerJob is added to it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{
    Planner,
    action::Action,
    headroom::{self, Headroom, Holder},
    interruption::Standing,
    resources::{Amount, MEMORY, Resources, Share},
    snapshot::{Key, Name, Node, Reason, Settings, Usage},
};

/// Above this share of a node's memory its ScavengerJobs go.
const THRESHOLD: f64 = 0.9;

/// Down to this share.
const TARGET: f64 = 0.85;

/// What was measured, and on which nodes ScavengerJobs are going because of it.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// True if somebody measures.
    any: bool,
    /// Nodes that use more than their share.
    hot: BTreeMap<Name, Usage>,
    /// Nodes to which none may be added: those, and those that have not come down far enough yet.
    full: BTreeSet<Name>,
    /// Nodes on which ScavengerJobs are going.
    relieving: BTreeSet<Name>,
    /// When the last of them was gone.
    relieved: BTreeMap<Name, Timestamp>,
}

impl Measured {
    /// True if no ScavengerJob may be added to a node.
    pub(crate) fn is_full(&self, node: &Name) -> bool {
        self.full.contains(node)
    }

    /// Nodes on which ScavengerJobs are going.
    pub(crate) fn relieving(&self) -> impl Iterator<Item = &Name> {
        self.relieving.iter()
    }

    /// True if there is nothing to do on any node.
    pub(crate) fn is_idle(&self) -> bool {
        self.hot.is_empty() && self.relieving.is_empty()
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

impl Planner {
    /// True if somebody measures how much memory nodes really use.
    #[must_use]
    pub fn measures_memory(&self) -> bool {
        self.measured.any
    }

    pub(super) fn set_usage(&mut self, usage: Option<Vec<Usage>>) {
        self.measured.any = usage.is_some();
        let target = Share::from_fraction(TARGET);
        let (limits, mut hot, mut full) = (limits(), BTreeMap::new(), BTreeSet::new());
        for usage in usage.into_iter().flatten() {
            let Some(room) = self.capacity.node(&usage.node) else { continue };
            let whole = room.node.allocatable.memory_bytes;
            let is_hot = !limits.suffices(&memory(usage.memory_bytes), &memory(whole));
            if is_hot || (self.measured.is_full(&usage.node) && usage.memory_bytes > target.of(whole)) {
                full.insert(usage.node.clone());
            }
            if is_hot {
                hot.insert(usage.node.clone(), usage);
            }
        }
        let changed: Vec<Name> = self.measured.full.symmetric_difference(&full).cloned().collect();
        for name in changed {
            let node = self.capacity.node(&name).map(|room| room.node.clone());
            if let Some(node) = node {
                let node = Node { full: full.contains(&name), ..node };
                self.capacity.set_node(node, self.settings.as_ref().ok());
            }
        }
        // A node that was relieved and came down needs no memory of it.
        self.measured.relieved.retain(|node, _| full.contains(node));
        (self.measured.hot, self.measured.full) = (hot, full);
    }

    /// Interrupts those that lose least on nodes that use too much memory.
    pub(crate) fn relieve_memory(&mut self, settings: &Settings, now: Timestamp, actions: &mut Vec<Action>) {
        if self.measured.is_idle() {
            return;
        }
        let nodes: BTreeSet<Name> =
            self.measured.hot.keys().chain(&self.measured.relieving).cloned().collect();
        for node in nodes {
            let jobs: Vec<(Key, Resources)> =
                self.jobs_on(&node).into_iter().map(|(job, held)| (job.clone(), held)).collect();
            let holders: Vec<Holder> = jobs
                .iter()
                .filter_map(|(job, held)| {
                    let loss = self.loss_of(job, settings, now)?;
                    Some(Holder { job: job.clone(), held: memory(held.memory_bytes), loss })
                })
                .collect();
            let goes = |job: &Key| matches!(self.standing_of(job, settings.drain, now), Standing::Goes(_));
            if jobs.iter().any(|(job, _)| goes(job)) {
                // Somebody is going already, for whatever reason.
                self.measured.relieving.insert(node);
                continue;
            }
            if self.measured.relieving.remove(&node) {
                self.measured.relieved.insert(node.clone(), now);
            }
            self.relieve_node(&node, holders, now, actions);
        }
    }

    fn relieve_node(&mut self, node: &Name, holders: Vec<Holder>, now: Timestamp, actions: &mut Vec<Action>) {
        let Some(usage) = self.measured.hot.get(node) else { return };
        if self.measured.relieved.get(node).is_some_and(|relieved| usage.time <= *relieved) {
            return;
        }
        let used = usage.memory_bytes;
        let Some(whole) = self.capacity.node(node).map(|room| room.node.allocatable.memory_bytes) else {
            return;
        };
        let message = format!(
            "node {node} uses {} of its {}, as measured: more than {}",
            Amount(MEMORY, used),
            Amount(MEMORY, whole),
            Share::from_fraction(THRESHOLD),
        );
        for (job, _) in headroom::choose(&memory(used), &memory(whole), &limits(), holders) {
            self.measured.relieving.insert(node.clone());
            self.sentence(&job, Reason::NodePressure, message.clone(), now, actions);
        }
    }
}
