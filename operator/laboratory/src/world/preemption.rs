//! Preemption by the rules of kube-scheduler: on each node the pods of lower priority that have to go, and then the node.
//!
//! There are no PodDisruptionBudgets, which it asks about first.

use std::cmp::Reverse;

use super::{cluster::World, pod::Disruption};
use crate::values::{NodeId, PodId, Time};

/// It stops looking once it has so many hundredths of the nodes that help, and this many at least.
const ENOUGH_PERCENT: usize = 10;
/// See [`ENOUGH_PERCENT`].
const ENOUGH: usize = 100;

/// What it adds to each priority before it sums them up, so that more pods are more, whatever their priority is.
const OFFSET: i64 = i32::MAX as i64 + 1;

/// A node on which preemption helps, and the pods that have to go there, the most important first.
#[derive(Debug)]
struct Candidate {
    node: NodeId,
    victims: Vec<PodId>,
}

impl World<'_> {
    /// Preempts for a pod that fits nowhere. False if others of its shape need not be looked at, since nothing helps.
    pub(super) fn preempt_for(&mut self, id: PodId) -> bool {
        let priority = self.pods[id.index()].priority;
        if !self.queue.has_lower(priority) {
            return false;
        }
        if self.waits_for_victims(id) {
            return true;
        }
        self.forget_nomination(id);
        let candidates = self.candidates(id);
        let Some(Candidate { node, victims }) = candidates.into_iter().min_by_key(|one| self.rank(one))
        else {
            return false;
        };
        for victim in victims {
            self.delete_pod(victim, Disruption::Preempted);
        }
        // Less important ones that hoped for the same node look for another.
        let lower =
            self.nominated_to(node).iter().filter(|other| self.pods[other.index()].priority < priority);
        for other in lower.copied().collect::<Vec<_>>() {
            self.forget_nomination(other);
        }
        self.nominate(id, node);
        true
    }

    /// True while pods are ending on the node that a pod was nominated to: it does not preempt again.
    fn waits_for_victims(&self, id: PodId) -> bool {
        let pod = &self.pods[id.index()];
        pod.nominated.is_some_and(|node| {
            self.on_node[node.index()].iter().any(|other| {
                let other = &self.pods[other.index()];
                other.deleted.is_some() && other.priority < pod.priority
            })
        })
    }

    /// Nodes on which it helps, beginning anywhere.
    fn candidates(&mut self, id: PodId) -> Vec<Candidate> {
        let nodes = self.on_node.len();
        let enough = (nodes * ENOUGH_PERCENT / 100).max(ENOUGH);
        let first = usize::try_from(self.queue.chance.below(Time::try_from(nodes).unwrap_or(1))).unwrap_or(0);
        let all = (first..nodes).chain(0..first).map(NodeId::at);
        let helps = |node: NodeId| Some(Candidate { node, victims: self.victims_on(id, node)? });
        all.filter_map(helps).take(enough).collect()
    }

    /// The pods that have to go from a node, the most important first; none if it does not help. All of lower priority go, and
    /// come back as long as the pod still fits: those of higher priority first, then those that started earlier.
    fn victims_on(&self, id: PodId, node: NodeId) -> Option<Vec<PodId>> {
        let pod = &self.pods[id.index()];
        if !self.queue.admits(pod.shape, node) {
            return None;
        }
        let lower = self.on_node[node.index()].iter().copied();
        let mut lower: Vec<PodId> =
            lower.filter(|other| self.pods[other.index()].priority < pod.priority).collect();
        let mut free = self.free_for(id, node);
        for other in &lower {
            free = free.plus(self.pods[other.index()].requests);
        }
        if lower.is_empty() || !pod.requests.fits(free) {
            return None;
        }
        lower.sort_by_key(|other| {
            let other = &self.pods[other.index()];
            (Reverse(other.priority), other.started.unwrap_or(self.now))
        });
        lower.retain(|other| {
            let left = free.minus(self.pods[other.index()].requests);
            let is_spared = pod.requests.fits(left);
            if is_spared {
                free = left;
            }
            !is_spared
        });
        Some(lower)
    }

    /// The order of nodes: the lowest priority of the most important victim, the smallest sum of priorities, the fewest victims,
    /// the latest start among the most important victims.
    fn rank(&self, candidate: &Candidate) -> (i64, i64, usize, Reverse<Time>) {
        let priority = |pod: &PodId| i64::from(self.pods[pod.index()].priority);
        let highest = candidate.victims.iter().map(priority).max().unwrap_or(i64::MIN);
        let sum = candidate.victims.iter().map(|pod| priority(pod) + OFFSET).sum();
        let most_important = candidate.victims.iter().filter(|pod| priority(pod) == highest);
        let earliest = most_important.map(|pod| self.pods[pod.index()].started.unwrap_or(self.now)).min();
        (highest, sum, candidate.victims.len(), Reverse(earliest.unwrap_or(self.now)))
    }
}
