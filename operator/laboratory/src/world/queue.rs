//! What kube-scheduler knows: pods that wait, what is free, and what is kept for whom.
//!
//! Pods of the same shape (priority, requests, where they may go) are alike: where one finds no node none of the others does.
//! So a look at the queue costs as much as there are shapes, however many pods wait.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{index::Index, pod::Allowed};
use crate::{
    chance::Chance,
    values::{Amounts, NodeId, PodId, Time},
    workload::Node,
};

/// A pod may go to this many nodes at most for each of them to be looked at.
const FEW: usize = 16;

/// What pods that are alike have in common.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) requests: Amounts,
    pub(super) priority: i32,
    pub(super) preempts: bool,
    pub(super) allowed: Where,
    /// Those that wait, by age.
    pub(super) waiting: BTreeSet<(Time, PodId)>,
}

#[derive(Debug)]
pub(super) enum Where {
    Everywhere,
    Few(Arc<Vec<NodeId>>),
    /// True at the place of each node.
    Some(Vec<bool>),
}

impl Where {
    fn admits(&self, node: NodeId) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Few(nodes) => nodes.contains(&node),
            Self::Some(nodes) => nodes[node.index()],
        }
    }
}

type Key = (Amounts, i32, bool, Allowed);

/// What kube-scheduler knows.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) index: Index,
    pub(super) chance: Chance,
    capacities: Vec<Amounts>,
    pub(super) shapes: Vec<Shape>,
    known: HashMap<Key, usize>,
    /// Shapes with pods that wait.
    pub(super) waiting: BTreeSet<usize>,
    /// Pods that nobody has looked at yet.
    pub(super) fresh: Vec<PodId>,
    /// True if something was given back since the last look.
    pub(super) freed: bool,
    pub(super) is_due: bool,
    /// Pods for which capacity is being freed, by their nodes.
    pub(super) nominated: Vec<Vec<PodId>>,
    /// All of them: the most important first, then by age.
    pub(super) by_importance: BTreeSet<(Reverse<i32>, Time, PodId)>,
    /// Bound pods by priority.
    pub(super) bound: BTreeMap<i32, usize>,
}

impl Queue {
    pub(super) fn new(nodes: &[Node], chance: Chance) -> Self {
        let capacities: Vec<Amounts> = nodes.iter().map(|node| node.capacity).collect();
        Self {
            index: Index::new(capacities.iter().copied()),
            chance,
            nominated: vec![Vec::new(); capacities.len()],
            capacities,
            shapes: Vec::new(),
            known: HashMap::new(),
            waiting: BTreeSet::new(),
            fresh: Vec::new(),
            freed: false,
            is_due: false,
            by_importance: BTreeSet::new(),
            bound: BTreeMap::new(),
        }
    }

    /// The shape of pods that are like this.
    pub(super) fn shape(
        &mut self,
        requests: Amounts,
        priority: i32,
        preempts: bool,
        allowed: &Allowed,
    ) -> usize {
        let key = (requests, priority, preempts, allowed.clone());
        if let Some(shape) = self.known.get(&key) {
            return *shape;
        }
        let place = match allowed {
            None => Where::Everywhere,
            Some(nodes) if nodes.len() <= FEW => Where::Few(nodes.clone()),
            Some(nodes) => {
                let mut some = vec![false; self.capacities.len()];
                nodes.iter().for_each(|node| some[node.index()] = true);
                Where::Some(some)
            }
        };
        self.shapes.push(Shape { requests, priority, preempts, allowed: place, waiting: BTreeSet::new() });
        self.known.insert(key, self.shapes.len() - 1);
        self.shapes.len() - 1
    }

    /// A pod joins the queue.
    pub(super) fn join(&mut self, shape: usize, created: Time, pod: PodId) {
        self.shapes[shape].waiting.insert((created, pod));
        self.waiting.insert(shape);
        self.fresh.push(pod);
    }

    pub(super) fn leave(&mut self, shape: usize, created: Time, pod: PodId) {
        let waiting = &mut self.shapes[shape].waiting;
        waiting.remove(&(created, pod));
        if waiting.is_empty() {
            self.waiting.remove(&shape);
        }
    }

    pub(super) fn preempts(&self, shape: usize) -> bool {
        self.shapes[shape].preempts
    }

    pub(super) fn admits(&self, shape: usize, node: NodeId) -> bool {
        self.shapes[shape].allowed.admits(node)
    }

    /// True if some bound pod has a lower priority.
    pub(super) fn has_lower(&self, priority: i32) -> bool {
        self.bound.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }
}
