//! kube-scheduler: filter by what is free, least allocated first, the queue by priority and age.
//!
//! Two things are simpler than in Kubernetes: a look places all pods that fit in no time (it places some hundred a second
//! there), and every node is scored.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use super::{
    cluster::{Event, World},
    pod::{Owner, Phase},
    queue::Where,
};
use crate::values::{Amounts, NodeId, PodId, Time};

/// A pod in the order in which the queue is looked at: priority, age.
type Turn = (i32, Reverse<(Time, PodId)>, usize);

impl World<'_> {
    /// kube-scheduler looks at the queue, once for all that happens until then.
    pub(super) fn schedule_soon(&mut self) {
        if !std::mem::replace(&mut self.queue.is_due, true) {
            let delay = self.drawn(self.delays.scheduler);
            self.after(delay, Event::Schedule);
        }
    }

    /// Places all pods that fit somewhere, and preempts for those that do not.
    pub(super) fn schedule(&mut self) {
        self.queue.is_due = false;
        let fresh = std::mem::take(&mut self.queue.fresh);
        let freed = std::mem::take(&mut self.queue.freed);
        if freed {
            self.bind_nominated();
        }
        let shapes: BTreeSet<usize> = match freed {
            true => self.queue.waiting.clone(),
            false => fresh.iter().map(|pod| self.pods[pod.index()].shape).collect(),
        };
        let mut turns: BinaryHeap<Turn> =
            shapes.into_iter().filter_map(|shape| self.turn(shape, None)).collect();
        while let Some((_, Reverse((created, pod)), shape)) = turns.pop() {
            let goes_on = match self.place_for(pod) {
                Some(node) => {
                    self.bind(pod, node);
                    true
                }
                None => self.queue.preempts(shape) && self.preempt_for(pod),
            };
            if goes_on {
                turns.extend(self.turn(shape, Some((created, pod))));
            }
        }
        for pod in fresh {
            let state = &mut self.pods[pod.index()];
            if state.phase == Phase::Pending && state.node.is_none() && !state.unschedulable {
                state.unschedulable = true;
                if matches!(state.owner, Owner::Ordinary(_)) {
                    self.asked_by_ordinary = self.asked_by_ordinary.minus(state.requests);
                }
                self.changed(pod);
            }
        }
    }

    /// The pod of a shape that is looked at next.
    fn turn(&self, shape: usize, after: Option<(Time, PodId)>) -> Option<Turn> {
        use std::ops::Bound::{Excluded, Unbounded};
        let of = &self.queue.shapes[shape];
        let next = match after {
            Some(after) => of.waiting.range((Excluded(after), Unbounded)).next(),
            None => of.waiting.first(),
        };
        Some((of.priority, Reverse(*next?), shape))
    }

    /// Pods for which capacity was freed get it, if it is there.
    fn bind_nominated(&mut self) {
        for (_, _, pod) in self.queue.by_importance.clone() {
            if let Some(node) = self.pods[pod.index()].nominated
                && self.fits_on(pod, node)
            {
                self.bind(pod, node);
            }
        }
    }

    /// What of a node a pod may take: what is free without what is kept for pods that are as important.
    pub(super) fn free_for(&self, pod: PodId, node: NodeId) -> Amounts {
        let priority = self.pods[pod.index()].priority;
        let kept = self.queue.nominated[node.index()]
            .iter()
            .filter(|other| **other != pod && self.pods[other.index()].priority >= priority);
        kept.fold(self.queue.index.free(node), |free, other| free.minus(self.pods[other.index()].requests))
    }

    /// What is free on a node, without what is kept for pods.
    #[must_use]
    pub fn free_on(&self, node: NodeId) -> Amounts {
        let kept = self.queue.nominated[node.index()].iter();
        kept.fold(self.queue.index.free(node), |free, pod| free.minus(self.pods[pod.index()].requests))
    }

    /// True if kube-scheduler preempts others for a pod.
    #[must_use]
    pub fn preempts_for(&self, pod: PodId) -> bool {
        self.queue.preempts(self.pods[pod.index()].shape)
    }

    fn fits_on(&self, pod: PodId, node: NodeId) -> bool {
        self.pods[pod.index()].requests.fits(self.free_for(pod, node))
    }

    /// The best node that takes a pod now.
    fn place_for(&self, pod: PodId) -> Option<NodeId> {
        let shape = &self.queue.shapes[self.pods[pod.index()].shape];
        match &shape.allowed {
            Where::Everywhere => self.queue.index.best(shape.requests, |node| self.fits_on(pod, node)),
            Where::Few(nodes) => {
                self.queue.index.best_of(nodes, shape.requests, |node| self.fits_on(pod, node))
            }
            Where::Some(nodes) => {
                let takes = |node: NodeId| nodes[node.index()] && self.fits_on(pod, node);
                self.queue.index.best(shape.requests, takes)
            }
        }
    }

    fn bind(&mut self, id: PodId, node: NodeId) {
        self.leave_queue(id);
        let pod = &mut self.pods[id.index()];
        let was_refused = std::mem::take(&mut pod.unschedulable);
        (pod.node, pod.bound) = (Some(node), Some(self.now));
        let (requests, owner, priority) = (pod.requests, pod.owner, pod.priority);
        self.queue.index.add(node, requests.times(-1));
        self.on_node[node.index()].push(id);
        *self.queue.bound.entry(priority).or_default() += 1;
        self.settle_tally();
        self.tally.occupy(owner, self.cpu_of(id));
        if matches!(owner, Owner::Ordinary(_)) && was_refused {
            self.asked_by_ordinary = self.asked_by_ordinary.plus(requests);
        }
        self.changed(id);
        let delay = self.drawn(self.delays.kubelet);
        self.after(delay, Event::StartContainer(id));
    }

    /// A bound pod has ended.
    pub(super) fn release(&mut self, id: PodId, node: NodeId) {
        let pod = &self.pods[id.index()];
        self.queue.index.add(node, pod.requests);
        self.on_node[node.index()].retain(|other| *other != id);
        if let Some(count) = self.queue.bound.get_mut(&pod.priority) {
            *count -= 1;
            if *count == 0 {
                self.queue.bound.remove(&pod.priority);
            }
        }
        self.queue.freed = true;
        self.schedule_soon();
    }

    /// A pod waits no longer.
    pub(super) fn leave_queue(&mut self, id: PodId) {
        self.forget_nomination(id);
        let pod = &self.pods[id.index()];
        self.queue.leave(pod.shape, pod.created, id);
    }

    /// What is free on a node, or will be, is kept for a pod.
    pub(super) fn nominate(&mut self, id: PodId, node: NodeId) {
        self.forget_nomination(id);
        let pod = &mut self.pods[id.index()];
        if pod.node.is_some() || pod.is_over() {
            return;
        }
        pod.nominated = Some(node);
        self.queue.nominated[node.index()].push(id);
        self.queue.by_importance.insert((Reverse(pod.priority), pod.created, id));
        // Maybe it is free already.
        self.queue.freed = true;
        self.changed(id);
        self.schedule_soon();
    }

    /// Nothing is kept for a pod any more.
    pub(super) fn forget_nomination(&mut self, id: PodId) {
        let pod = &mut self.pods[id.index()];
        if let Some(node) = pod.nominated.take() {
            self.queue.by_importance.remove(&(Reverse(pod.priority), pod.created, id));
            self.queue.nominated[node.index()].retain(|other| *other != id);
            self.queue.freed = true;
        }
    }

    /// Pods for which capacity of a node is kept.
    pub(super) fn nominated_to(&self, node: NodeId) -> &[PodId] {
        &self.queue.nominated[node.index()]
    }
}
