//! Capacity for an ordinary pod that is to grow in place, where its node has not enough left: the kubelet defers the
//! resize until other pods of that node end, and kube-scheduler preempts nobody for it. So the operator makes the
//! capacity, whatever the preemption mode is: of the ScavengerJobs on the node those that lose least together go.
//!
//! What the resize adds is part of what the pod requests, so no ScavengerJob takes it meanwhile. Nothing is interrupted
//! for a resize that all ScavengerJobs of the node together could not serve.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;

use super::{
    least_loss::{Candidate, Search},
    pool::{Cause, Needs, Pool},
};
use crate::values::{Key, Name, Pod, Reason, resources::Resources};

/// Ordinary pods whose resize their node deferred.
#[derive(Debug, Default)]
pub(crate) struct PendingResizes {
    resizes: BTreeMap<Key, Resize>,
}

/// A resize that a node deferred.
#[derive(Debug, Clone)]
pub struct Resize {
    /// The pod.
    pub pod: Key,
    /// Its node.
    pub node: Name,
    /// What it adds to what the pod has.
    pub more: Resources,
    /// Priority of the pod.
    pub priority: i32,
    /// When the pod was created.
    pub creation_time: Timestamp,
}

impl PendingResizes {
    /// Takes in a version of an ordinary pod.
    pub(crate) fn note(&mut self, pod: &Pod) {
        let lives = !pod.phase.is_terminal() && pod.deletion_requested.is_none();
        match (&pod.deferred_resize, &pod.node) {
            (Some(more), Some(node)) if lives => {
                let resize = Resize {
                    pod: pod.key.clone(),
                    node: node.clone(),
                    more: more.clone(),
                    priority: pod.priority,
                    creation_time: pod.creation_time,
                };
                self.resizes.insert(pod.key.clone(), resize);
            }
            _ => self.forget(&pod.key),
        }
    }

    pub(crate) fn forget(&mut self, pod: &Key) {
        self.resizes.remove(pod);
    }
}

/// Who goes for the resizes that one node deferred, and for which pod: pods of the highest priority first, then those
/// that were created first. `free` is what the node has left, without what the resizes add, once all that is terminating
/// is gone.
pub fn choose(
    mut free: Resources,
    mut resizes: Vec<Resize>,
    mut candidates: Vec<Candidate>,
) -> Vec<(Key, Key)> {
    resizes.sort_by(|a, b| {
        (Reverse(a.priority), a.creation_time, &a.pod).cmp(&(Reverse(b.priority), b.creation_time, &b.pod))
    });
    let mut chosen = Vec::new();
    for resize in resizes {
        let lacks = |(name, amount): (&'_ str, i64)| (name.to_owned(), amount.saturating_sub(free.get(name)));
        let asks_for = resize.more.iter().filter(|(_, amount)| *amount > 0);
        let short: Vec<(String, i64)> = asks_for.map(lacks).filter(|(_, amount)| *amount > 0).collect();
        if !short.is_empty() {
            let short: Vec<(&str, i64)> = short.iter().map(|(name, amount)| (&**name, *amount)).collect();
            let Some(search) = Search::new(&short, candidates.clone()) else { continue };
            for sj in search.run().1 {
                if let Some(index) = candidates.iter().position(|candidate| candidate.sj == sj) {
                    free.add(&candidates.swap_remove(index).held);
                }
                chosen.push((sj, resize.pod.clone()));
            }
        }
        free.subtract(&resize.more);
    }
    chosen
}

impl Cause for PendingResizes {
    fn is_idle(&mut self, _: &Pool<'_>) -> bool {
        self.resizes.is_empty()
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        for node in self.nodes() {
            let resizes = self.resizes.values().filter(|resize| resize.node == *node);
            let resizes: Vec<Resize> = resizes.cloned().collect();
            let Some((mut free, staying)) = pool.left_on(node) else { continue };
            for resize in &resizes {
                free.add(&resize.more);
            }
            let candidates = pool.candidates(staying);
            for (sj, pod) in choose(free, resizes, candidates) {
                let message = format!("frees capacity for the resize of pod {pod} on node {node}");
                pool.order(&sj, Reason::PreemptedByOperator, message);
            }
        }
    }

    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        self.nodes().into_iter().map(|node| (node, Needs::WhatIsShort)).collect()
    }
}

impl PendingResizes {
    fn nodes(&self) -> BTreeSet<&Name> {
        self.resizes.values().map(|resize| &resize.node).collect()
    }
}
