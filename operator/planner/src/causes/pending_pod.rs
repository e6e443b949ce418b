//! Capacity for a pending ordinary pod, when the operator makes it (preemption mode Operator): the node and the
//! ScavengerJobs there that lose least together.
//!
//! Served are pods that do not preempt by themselves and that kube-scheduler called unschedulable, once each: the capacity
//! is reserved for the pod until it is bound or gone, so neither a ScavengerJob nor another pod is promised the same.
//! A pod is served again only if its capacity was lost to somebody who was faster, to something that hangs, or with its
//! node. Where some of a pod's constraints cannot be evaluated here nothing is interrupted; `PendingPods::unjudged`
//! names such pods.
//!
//! kube-scheduler names for each node only what it looked at first, and that is capacity: what else keeps the pod off the node it
//! says once the capacity is there. Then the pod gives the capacity back. One other node is tried for it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;

use super::{
    least_loss::{Candidate, Search},
    pool::{Cause, Needs, PATIENCE, Pool},
};
use crate::{
    capacity::Capacity,
    values::{Key, Name, Pod, PreemptionMode, Reason, later, resources::Resources},
};

/// On so many nodes capacity is made for a pod that kube-scheduler does not bind there.
const TRIES: usize = 2;

/// A node that takes the pod.
#[derive(Debug, Clone)]
pub struct CandidateNode {
    /// The node.
    pub node: Name,
    /// What is free there once all that is going is gone; negative if overcommitted.
    pub free: Resources,
    /// The ScavengerJobs there that could be interrupted.
    pub candidates: Vec<Candidate>,
}

/// The node and the ScavengerJobs to be interrupted there that lose least together; none if nothing helps. Nobody has
/// to go if there is, or will be, a node with capacity.
pub fn choose(requests: &Resources, nodes: Vec<CandidateNode>) -> Option<(Name, Vec<Key>)> {
    if let Some(node) = nodes.iter().find(|node| requests.exceeds(&node.free).is_none()) {
        return Some((node.node.clone(), Vec::new()));
    }
    let mut searches: Vec<(u128, Name, Search)> = nodes
        .into_iter()
        .filter_map(|node| {
            let short: Vec<(&str, i64)> = requests
                .iter()
                .map(|(name, amount)| (name, amount.saturating_sub(node.free.get(name))))
                .filter(|(name, amount)| requests.get(name) > 0 && *amount > 0)
                .collect();
            let search = Search::new(&short, node.candidates)?;
            Some((search.lower_bound(), node.node, search))
        })
        .collect();
    searches.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut best: Option<(u128, Name, Vec<Key>)> = None;
    for (bound, node, search) in searches {
        // No later node can be better than its own bound.
        if best.as_ref().is_some_and(|(cost, ..)| bound >= *cost) {
            break;
        }
        let (cost, scavenger_jobs) = search.run();
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, node, scavenger_jobs));
        }
    }
    best.map(|(_, node, scavenger_jobs)| (node, scavenger_jobs))
}

/// Ordinary pods that wait and do not preempt by themselves, and the capacity that is reserved for them.
#[derive(Debug, Default)]
pub(crate) struct PendingPods {
    pending: BTreeMap<Key, Pending>,
    /// Of those, the ones that were not served and for which something may help.
    unserved: BTreeSet<(Reverse<i32>, Timestamp, Key)>,
    /// What was chosen in the last plan for each pod that was looked at.
    served: Vec<Served>,
}

/// A pending ordinary pod, and what was chosen for it: the node and who goes there; none if nothing helps.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) pod: Key,
    pub(crate) choice: Option<(Name, Vec<Key>)>,
}

/// What the choice for a pod depends on.
type Stamp = (u64, u64, u64);

#[derive(Debug)]
struct Pending {
    pod: Pod,
    /// Where capacity is reserved for it.
    node: Option<Name>,
    /// In this state of the cluster nothing helped.
    hopeless: Option<Stamp>,
    /// Since when the capacity that is reserved for it has been free.
    free_since: Option<Timestamp>,
    /// Where capacity was free for it, and kube-scheduler did not bind it for another reason.
    refused_by: BTreeSet<Name>,
}

impl Pending {
    /// True if ScavengerJobs may be interrupted for it. Of a reason that came up once a node had capacity for it nobody knows whether
    /// other nodes have the same; while some still lack capacity, one of them may do.
    fn may_be_served(&self) -> bool {
        let refused = &self.pod.refused;
        let may_help = match self.refused_by.len() {
            0 => refused.unjudged.is_none(),
            tries => tries < TRIES && refused.lacks_capacity,
        };
        self.node.is_none() && self.pod.unjudged.is_empty() && may_help
    }

    /// When kube-scheduler has had the time to bind it: it looks again within ten seconds of the end of other pods.
    fn refused_at(&self) -> Option<Timestamp> {
        self.pod.refused.unjudged.as_ref()?;
        Some(later(self.free_since?, PATIENCE))
    }

    /// What nobody can judge of it, if it waits because of that.
    fn unjudged(&self) -> Vec<Name> {
        if self.node.is_some() || self.may_be_served() {
            return Vec::new();
        }
        let mut unjudged = self.pod.unjudged.clone();
        unjudged.extend(self.pod.refused.unjudged.clone());
        unjudged.extend(
            self.refused_by.iter().map(|node| format!("not bound to node {node}, which had capacity").into()),
        );
        unjudged
    }
}

impl PendingPods {
    /// Takes in a version of an ordinary pod, and returns the node where capacity is reserved for it, which is to be
    /// counted as one that the pod is nominated for.
    pub(crate) fn note(&mut self, pod: &Pod) -> Option<Name> {
        let waits = pod.node.is_none()
            && pod.nominated_node.is_none()
            && !pod.phase.is_terminal()
            && pod.deletion_requested.is_none()
            && !pod.gated
            && !pod.preempts;
        let old = self.take(&pod.key).filter(|old| old.pod.uid == pod.uid);
        let new = match old {
            None => Pending {
                pod: pod.clone(),
                node: None,
                hopeless: None,
                free_since: None,
                refused_by: BTreeSet::new(),
            },
            Some(old) => {
                let hopeless = old.hopeless.filter(|_| old.pod.unschedulable == pod.unschedulable);
                Pending { pod: pod.clone(), hopeless, ..old }
            }
        };
        // Once served, it waits for its capacity, whatever its condition says.
        if !waits || (new.node.is_none() && pod.unschedulable.is_none()) {
            return None;
        }
        let node = new.node.clone();
        if new.may_be_served() {
            self.unserved.insert(place(pod));
        }
        self.pending.insert(pod.key.clone(), new);
        node
    }

    /// Forgets a pod.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.take(key);
    }

    fn take(&mut self, key: &Key) -> Option<Pending> {
        let pending = self.pending.remove(key)?;
        self.unserved.remove(&place(&pending.pod));
        Some(pending)
    }

    /// What was chosen in the last plan for each pod that was looked at.
    pub(crate) fn take_served(&mut self) -> Vec<Served> {
        std::mem::take(&mut self.served)
    }

    /// Pods for which nothing is interrupted because not all of their constraints can be judged, and which those are. A
    /// device that no node has is one: where a driver offers it, only kube-scheduler knows.
    pub(crate) fn unjudged<'a>(
        &'a self,
        capacity: &'a Capacity,
    ) -> impl Iterator<Item = (&'a Key, Vec<Name>)> {
        let unjudged = self.pending.iter().map(|(key, pending)| {
            let mut unjudged = pending.unjudged();
            let missing = capacity.on_no_node(&pending.pod.requests).filter(|_| pending.node.is_none());
            unjudged
                .extend(missing.map(|name| format!("{name}, which no node has in its allocatable").into()));
            (key, unjudged)
        });
        unjudged.filter(|(_, unjudged)| !unjudged.is_empty())
    }

    /// Pods to be served: highest priority first, then who was created first. Those for which nothing helped are not
    /// among them until something changed.
    fn unserved(&self, stamp: Stamp) -> impl Iterator<Item = &Pod> {
        let pods = self.unserved.iter().filter_map(|(.., key)| self.pending.get(key));
        pods.filter(move |pending| pending.hopeless != Some(stamp)).map(|pending| &pending.pod)
    }

    /// Remembers that nothing helps a pod in this state of the cluster.
    fn nothing_helps(&mut self, key: &Key, stamp: Stamp) {
        if let Some(pending) = self.pending.get_mut(key) {
            pending.hopeless = Some(stamp);
        }
    }

    /// Reserves capacity for a pod on a node, and returns it as the capacity is to be counted.
    fn reserve(&mut self, pod: Pod, node: &Name) -> Pod {
        self.unserved.remove(&place(&pod));
        if let Some(pending) = self.pending.get_mut(&pod.key) {
            pending.node = Some(node.clone());
        }
        Pod { nominated_node: Some(node.clone()), ..pod }
    }

    /// Every pod that has capacity reserved, as it is counted.
    fn reserved(&self) -> Vec<Pod> {
        let pending = self.pending.values().filter(|pending| pending.node.is_some());
        pending.map(|pending| Pod { nominated_node: pending.node.clone(), ..pending.pod.clone() }).collect()
    }

    /// Gives up the capacity that is reserved for a pod; it may be served again.
    fn release(&mut self, key: &Key) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        pending.free_since = None;
        if pending.node.take().is_some() && pending.may_be_served() {
            self.unserved.insert(place(&pending.pod));
        }
    }

    /// Gives up what is reserved for pods in vain: capacity that is lost, and capacity that kube-scheduler does not use.
    fn release_vain(&mut self, pool: &mut Pool<'_>) {
        for pod in self.reserved() {
            let Some(pending) = self.pending.get_mut(&pod.key) else { continue };
            pending.free_since = pending.free_since.or(Some(pool.now)).filter(|_| pool.is_free_for(&pod));
            let is_refused = pending.refused_at().is_some_and(|time| time <= pool.now);
            if is_refused {
                pending.refused_by.extend(pod.nominated_node.clone());
            }
            if is_refused || !pool.is_kept(&pod) {
                self.release(&pod.key);
                pool.capacity.set_pod(&Pod { nominated_node: None, ..pod });
            }
        }
    }

    /// Gives up all of it, and returns the pods as they are to be counted.
    fn release_all(&mut self) -> Vec<Pod> {
        let reserved = self.reserved();
        for pod in &reserved {
            self.release(&pod.key);
        }
        reserved.into_iter().map(|pod| Pod { nominated_node: None, ..pod }).collect()
    }
}

fn place(pod: &Pod) -> (Reverse<i32>, jiff::Timestamp, Key) {
    (Reverse(pod.priority), pod.creation_time, pod.key.clone())
}

impl Cause for PendingPods {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        match pool.settings.preemption_mode {
            PreemptionMode::Operator => self.pending.is_empty(),
            // Another mode was in force before.
            PreemptionMode::Scheduler => self.pending.values().all(|pending| pending.node.is_none()),
        }
    }

    /// Reserves capacity for every pod that was not served yet and can be helped, and orders the interruption of those that
    /// are in the way.
    fn order(&mut self, pool: &mut Pool<'_>) {
        self.served.clear();
        if pool.settings.preemption_mode != PreemptionMode::Operator {
            for pod in self.release_all() {
                pool.capacity.set_pod(&pod);
            }
            return;
        }
        self.release_vain(pool);
        pool.capacity.settle(pool.promises.ledger_mut());
        let stamp = (pool.capacity.epoch(), pool.capacity.version(), pool.occupancy.version());
        let mut hopeless = BTreeSet::new();
        // Most of those that cannot be served are too large for every node, which is known without a look at any.
        let mut may_be_helped = |pod: &Pod| match pool.capacity.may_be_helped(pod) {
            true => Ok(pod.clone()),
            false => Err(pod.key.clone()),
        };
        let unserved: Vec<Result<Pod, Key>> = self.unserved(stamp).map(&mut may_be_helped).collect();
        for pod in unserved {
            let pod = match pod {
                Ok(pod) => pod,
                Err(pod) => {
                    self.served.push(Served { pod, choice: None });
                    continue;
                }
            };
            let shape = (pod.requests.clone(), pod.placement.clone());
            let refused_by = self.pending.get(&pod.key).map(|pending| pending.refused_by.clone());
            let refused_by = refused_by.unwrap_or_default();
            let choice = if hopeless.contains(&shape) {
                None
            } else {
                choose(&pod.requests, pool.candidate_nodes(&pod, &refused_by))
            };
            self.served.push(Served { pod: pod.key.clone(), choice: choice.clone() });
            let Some((node, victims)) = choice else {
                if refused_by.is_empty() {
                    hopeless.insert(shape);
                }
                self.nothing_helps(&pod.key, stamp);
                continue;
            };
            let pod = self.reserve(pod, &node);
            pool.capacity.set_pod(&pod);
            for sj in victims {
                let message = message(&sj, &pod, &node);
                pool.order(&sj, Reason::PreemptedByOperator, message);
            }
        }
    }

    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        let nodes = self.pending.values().filter_map(|pending| pending.node.as_ref());
        nodes.map(|node| (node, Needs::WhatIsShort)).collect()
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.pending.values().filter_map(Pending::refused_at).min()
    }
}

/// Behind this a message has the UID of the pod for which a ScavengerJob went.
const UID: &str = " (UID ";

/// Why a ScavengerJob goes. Its user need not see pods of other namespaces: of them it is told what kube-scheduler tells those that
/// it preempts, and the priority.
fn message(sj: &Key, pod: &Pod, node: &Name) -> String {
    let (name, uid, priority) = (&pod.key, &pod.uid, pod.priority);
    match name.namespace == sj.namespace {
        true => format!("frees capacity for pod {name} on node {node}"),
        false => {
            format!("frees capacity for an ordinary pod with priority {priority} on node {node}{UID}{uid})")
        }
    }
}

/// The UID of the pod for which a ScavengerJob went, in the message that says so without its name.
#[must_use]
pub fn uid_of_preemptor(message: &str) -> Option<&str> {
    message.strip_prefix("frees capacity for an ordinary pod ")?.rsplit_once(UID)?.1.strip_suffix(')')
}

impl Pool<'_> {
    /// True if the capacity that is reserved for a pod is there already: nothing holds it any more.
    fn is_free_for(&self, pod: &Pod) -> bool {
        let free = pod.nominated_node.as_ref().and_then(|node| self.free_on(node));
        free.is_some_and(|free| pod.requests.exceeds(&free.plus(&pod.requests)).is_none())
    }

    /// True if the capacity that is reserved for a pod is there, or will be when all that is going is gone. Somebody else
    /// may have been faster, what was going may hang, or the node went.
    fn is_kept(&self, pod: &Pod) -> bool {
        let Some(node) = &pod.nominated_node else { return false };
        // What it uses itself is part of what is used.
        self.free_for(node, pod)
            .is_some_and(|(free, _)| pod.requests.exceeds(&free.plus(&pod.requests)).is_none())
    }

    /// The nodes that would take a pod, with what is free there and who could be interrupted; without those that did not.
    fn candidate_nodes(&self, pod: &Pod, refused_by: &BTreeSet<Name>) -> Vec<CandidateNode> {
        let mut nodes = Vec::new();
        for node in self.capacity.nodes().filter(|node| !refused_by.contains(&node.name)) {
            let Some((free, staying)) = self.free_for(&node.name, pod) else { continue };
            let fits = pod.requests.exceeds(&free).is_none();
            let mut candidate = CandidateNode { node: node.name.clone(), free, candidates: Vec::new() };
            if fits {
                // Nobody has to go.
                return vec![candidate];
            }
            candidate.candidates = self.candidates(staying);
            nodes.push(candidate);
        }
        nodes
    }

    /// What is free on a node that takes this pod, once all that is going is gone, and the ScavengerJobs there that
    /// stay, with what they hold there.
    fn free_for(&self, node: &Name, pod: &Pod) -> Option<(Resources, BTreeMap<&Key, Resources>)> {
        let load = self.capacity.node(node).filter(|load| load.node.usable)?;
        if !pod.placement.admits(load.node) {
            return None;
        }
        self.left_on(node)
    }
}
