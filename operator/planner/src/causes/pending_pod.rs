//! Room for a pending ordinary pod, when the operator makes it (preemption mode Operator): the node and the
//! ScavengerJobs there that lose least together.
//!
//! Served are pods that do not preempt by themselves and that kube-scheduler called unschedulable, once each: the room
//! is reserved for the pod until it is bound or gone, so neither a ScavengerJob nor another pod is promised the same.
//! A pod is served again only if its room was lost to somebody who was faster, to something that hangs, or with its
//! node. What of a pod's constraints can not be judged here leads to no interruption at all; [`PendingPods::unjudged`]
//! names such pods.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Cause, Pool, Standing};
use crate::{
    loss::Loss,
    resources::Resources,
    values::{Key, Name, Pod, PreemptionMode, Reason},
};

/// Steps of the search on one node. What is found until then is good, if not proven best; nodes have few dozen
/// ScavengerJobs, for which a few hundred steps suffice.
const MAX_STEPS: u32 = 20_000;

/// A node that takes the pod.
#[derive(Debug, Clone)]
pub struct Place {
    /// The node.
    pub node: Name,
    /// What is free there once all that is going is gone; negative if overcommitted.
    pub free: Resources,
    /// Who could be interrupted.
    pub victims: Vec<Victim>,
}

/// A ScavengerJob that could be interrupted.
#[derive(Debug, Clone)]
pub struct Victim {
    /// The ScavengerJob.
    pub job: Key,
    /// What it holds on the node.
    pub held: Resources,
    /// What is lost if it goes, with all of its pods, wherever they are.
    pub loss: Loss,
}

/// The node and the ScavengerJobs to be interrupted there that lose least together; none if nothing helps. Nobody has
/// to go if there is, or will be, a node with room.
#[must_use]
pub fn choose(requests: &Resources, places: Vec<Place>) -> Option<(Name, Vec<Key>)> {
    if let Some(place) = places.iter().find(|place| requests.exceeds(&place.free).is_none()) {
        return Some((place.node.clone(), Vec::new()));
    }
    let mut searches: Vec<(u128, Name, Search)> = places
        .into_iter()
        .filter_map(|place| {
            let search = Search::new(requests, &place.free, place.victims)?;
            Some((search.bound(0, &search.shortage), place.node, search))
        })
        .collect();
    searches.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut best: Option<(u128, Name, Vec<Key>)> = None;
    for (bound, node, search) in searches {
        // No later node can be better than its own bound.
        if best.as_ref().is_some_and(|(cost, ..)| bound >= *cost) {
            break;
        }
        let (cost, victims) = search.run();
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, node, victims));
        }
    }
    best.map(|(_, node, victims)| (node, victims))
}

/// Search for the cheapest set of victims on one node that covers what is short: branch and bound.
struct Search {
    /// What is short, of each resource that is.
    shortage: Vec<i64>,
    items: Vec<Item>,
}

struct Item {
    job: Key,
    /// Loss, and one more, so that of two equal sets the smaller one is cheaper.
    cost: u128,
    loss: Loss,
    /// Of each resource that is short.
    held: Vec<i64>,
}

impl Search {
    /// None if not even all victims together would help.
    fn new(requests: &Resources, free: &Resources, victims: Vec<Victim>) -> Option<Self> {
        let short: Vec<(&str, i64)> = requests
            .iter()
            .map(|(name, amount)| (name, amount.saturating_sub(free.get(name))))
            .filter(|(name, amount)| requests.get(name) > 0 && *amount > 0)
            .collect();
        let mut items: Vec<Item> = victims
            .into_iter()
            .map(|victim| Item {
                // More than what is short helps nobody, and would only blur the bound.
                held: short.iter().map(|(name, short)| victim.held.get(name).clamp(0, *short)).collect(),
                cost: victim.loss.amount.saturating_mul(1024).saturating_add(1),
                loss: victim.loss,
                job: victim.job,
            })
            .filter(|item| item.held.iter().any(|held| *held > 0))
            .collect();
        // Cheapest first; equal ones side by side.
        items.sort_by(|a, b| (&a.loss, &a.held).cmp(&(&b.loss, &b.held)));
        let shortage: Vec<i64> = short.into_iter().map(|(_, amount)| amount).collect();
        let search = Self { shortage, items };
        let all: Vec<usize> = (0..search.items.len()).collect();
        search.covers(&all).then_some(search)
    }

    fn covers(&self, chosen: &[usize]) -> bool {
        self.shortage.iter().enumerate().all(|(resource, short)| {
            let held = chosen.iter().map(|item| i128::from(self.items[*item].held[resource]));
            held.sum::<i128>() >= i128::from(*short)
        })
    }

    fn cost(&self, chosen: &[usize]) -> u128 {
        chosen.iter().fold(0, |sum, item| sum.saturating_add(self.items[*item].cost))
    }

    /// Least cost at which the items from `from` on could cover `short`, if parts of them could be taken: the dearest
    /// of the single resources. [`u128::MAX`] if they can not.
    fn bound(&self, from: usize, short: &[i64]) -> u128 {
        let of_resource = |resource: usize| {
            let mut short = u128::try_from(short[resource]).unwrap_or(0);
            // The price of one unit is rounded down, so the sum is never more than the truth.
            let holding = self.items[from..].iter().filter_map(|item| {
                let held = u128::try_from(item.held[resource]).ok().filter(|held| *held > 0)?;
                Some((item.cost / held, held))
            });
            let mut holding: Vec<(u128, u128)> = holding.collect();
            holding.sort_unstable();
            let mut least = 0_u128;
            for (price, held) in holding {
                let taken = held.min(short);
                least = least.saturating_add(price.saturating_mul(taken));
                short -= taken;
            }
            if short > 0 { u128::MAX } else { least }
        };
        (0..self.shortage.len()).map(of_resource).max().unwrap_or(0)
    }

    /// Takes the cheapest until they suffice, and spares whoever is superfluous then, the dearest first.
    fn greedy(&self) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        for item in 0..self.items.len() {
            if self.covers(&chosen) {
                break;
            }
            chosen.push(item);
        }
        for item in chosen.clone().into_iter().rev() {
            let without: Vec<usize> = chosen.iter().copied().filter(|other| *other != item).collect();
            if self.covers(&without) {
                chosen = without;
            }
        }
        chosen
    }

    fn run(&self) -> (u128, Vec<Key>) {
        let first = self.greedy();
        let mut state = State { cost: self.cost(&first), chosen: first, path: Vec::new(), steps: 0 };
        self.descend(0, 0, &self.shortage, &mut state);
        (state.cost, state.chosen.iter().map(|item| self.items[*item].job.clone()).collect())
    }

    fn descend(&self, from: usize, cost: u128, short: &[i64], best: &mut State) {
        best.steps += 1;
        if short.iter().all(|short| *short <= 0) {
            if cost < best.cost {
                best.cost = cost;
                best.chosen.clone_from(&best.path);
            }
            return;
        }
        if best.steps > MAX_STEPS || cost.saturating_add(self.bound(from, short)) >= best.cost {
            return;
        }
        let Some(item) = self.items.get(from) else { return };
        let left: Vec<i64> =
            short.iter().zip(&item.held).map(|(short, held)| short.saturating_sub(*held)).collect();
        best.path.push(from);
        self.descend(from + 1, cost.saturating_add(item.cost), &left, best);
        best.path.pop();
        // Without this one, another that is the same would only be the same again.
        let alike = |other: &&Item| other.cost == item.cost && other.held == item.held;
        let next = from + self.items[from..].iter().take_while(alike).count();
        self.descend(next, cost, short, best);
    }
}

struct State {
    cost: u128,
    chosen: Vec<usize>,
    path: Vec<usize>,
    steps: u32,
}

/// Ordinary pods that wait and do not preempt by themselves, and the room that is reserved for them.
#[derive(Debug, Default)]
pub(crate) struct PendingPods {
    pending: BTreeMap<Key, Pending>,
    /// Of those, the ones that were not served and for which something may help.
    unserved: BTreeSet<(Reverse<i32>, jiff::Timestamp, Key)>,
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
    /// Where room is reserved for it.
    node: Option<Name>,
    /// In this state of the cluster nothing helped.
    hopeless: Option<Stamp>,
}

impl PendingPods {
    /// Takes in a version of an ordinary pod, and returns the node where room is reserved for it, which is to be
    /// counted as one that the pod is nominated for.
    #[must_use]
    pub(crate) fn note(&mut self, pod: &Pod) -> Option<Name> {
        let waits = pod.node.is_none()
            && pod.nominated_node.is_none()
            && !pod.phase.is_terminal()
            && pod.deletion_requested.is_none()
            && !pod.gated
            && !pod.preempts;
        let old = self.pending.get(&pod.key).filter(|old| old.pod.uid == pod.uid);
        let node = old.and_then(|old| old.node.clone());
        let hopeless =
            old.filter(|old| old.pod.unschedulable == pod.unschedulable).and_then(|old| old.hopeless);
        self.forget(&pod.key);
        // Once served, it waits for its room, whatever its condition says.
        if !waits || (node.is_none() && pod.unschedulable.is_none()) {
            return None;
        }
        if node.is_none() && pod.unjudged.is_empty() {
            self.unserved.insert(place(pod));
        }
        self.pending.insert(pod.key.clone(), Pending { pod: pod.clone(), node: node.clone(), hopeless });
        node
    }

    /// Forgets a pod.
    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some(pending) = self.pending.remove(key) {
            self.unserved.remove(&place(&pending.pod));
        }
    }

    /// What was chosen in the last plan for each pod that was looked at.
    pub(crate) fn take_served(&mut self) -> Vec<Served> {
        std::mem::take(&mut self.served)
    }

    /// Pods for which nothing is interrupted because not all of their constraints can be judged, and which those are.
    pub(crate) fn unjudged(&self) -> impl Iterator<Item = (&Key, &[Name])> {
        self.pending
            .iter()
            .filter(|(_, pending)| pending.node.is_none() && !pending.pod.unjudged.is_empty())
            .map(|(key, pending)| (key, pending.pod.unjudged.as_slice()))
    }

    /// Pods to be served: highest priority first, then who was created first. Those for which nothing helped are not
    /// among them until something changed.
    fn unserved(&self, stamp: Stamp) -> Vec<Pod> {
        let pods = self.unserved.iter().filter_map(|(.., key)| self.pending.get(key));
        pods.filter(|pending| pending.hopeless != Some(stamp)).map(|pending| pending.pod.clone()).collect()
    }

    /// Remembers that nothing helps a pod in this state of the cluster.
    fn nothing_helps(&mut self, key: &Key, stamp: Stamp) {
        if let Some(pending) = self.pending.get_mut(key) {
            pending.hopeless = Some(stamp);
        }
    }

    /// Reserves room for a pod on a node, and returns it as the room is to be counted.
    fn reserve(&mut self, pod: Pod, node: &Name) -> Pod {
        self.unserved.remove(&place(&pod));
        if let Some(pending) = self.pending.get_mut(&pod.key) {
            pending.node = Some(node.clone());
        }
        Pod { nominated_node: Some(node.clone()), ..pod }
    }

    /// Every pod that has room reserved, as it is counted.
    fn reserved(&self) -> Vec<Pod> {
        let pending = self.pending.values().filter(|pending| pending.node.is_some());
        pending.map(|pending| Pod { nominated_node: pending.node.clone(), ..pending.pod.clone() }).collect()
    }

    /// Gives up the room that is reserved for a pod; it may be served again.
    fn release(&mut self, key: &Key) {
        let Some(pending) = self.pending.get_mut(key) else { return };
        if pending.node.take().is_some() && pending.pod.unjudged.is_empty() {
            self.unserved.insert(place(&pending.pod));
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
    fn is_idle(&self, pool: &Pool<'_>) -> bool {
        match pool.settings.preemption_mode {
            PreemptionMode::Operator => self.pending.is_empty(),
            // Another mode was in force before.
            PreemptionMode::Scheduler => self.pending.values().all(|pending| pending.node.is_none()),
        }
    }

    /// Reserves room for every pod that was not served yet and can be helped, and orders the interruption of those that
    /// are in the way.
    fn order(&mut self, pool: &mut Pool<'_>) {
        self.served.clear();
        if pool.settings.preemption_mode != PreemptionMode::Operator {
            for pod in self.release_all() {
                pool.capacity.set_pod(&pod);
            }
            return;
        }
        for pod in self.reserved() {
            if !pool.is_kept(&pod) {
                self.release(&pod.key);
                pool.capacity.set_pod(&Pod { nominated_node: None, ..pod });
            }
        }
        let stamp = (pool.capacity.epoch(), pool.capacity.version(), pool.occupancy.version());
        let mut hopeless = BTreeSet::new();
        for pod in self.unserved(stamp) {
            let shape = (pod.requests.clone(), pod.placement.clone());
            let choice =
                if hopeless.contains(&shape) { None } else { choose(&pod.requests, pool.places(&pod)) };
            self.served.push(Served { pod: pod.key.clone(), choice: choice.clone() });
            let Some((node, victims)) = choice else {
                hopeless.insert(shape);
                self.nothing_helps(&pod.key, stamp);
                continue;
            };
            let pod = self.reserve(pod, &node);
            pool.capacity.set_pod(&pod);
            for job in victims {
                let message = format!("makes room for pod {} on node {node}", pod.uid);
                pool.order(&job, Reason::PreemptedByOperator, message);
            }
        }
    }

    fn relies_on(&self) -> Vec<&Name> {
        self.pending.values().filter_map(|pending| pending.node.as_ref()).collect()
    }
}

impl Pool<'_> {
    /// True if the room that is reserved for a pod is there, or will be when all that is going is gone. Somebody else
    /// may have been faster, what was going may hang, or the node went.
    fn is_kept(&self, pod: &Pod) -> bool {
        let Some(node) = &pod.nominated_node else { return false };
        // What it uses itself is part of what is used.
        self.room_on(node, pod)
            .is_some_and(|(free, _)| pod.requests.exceeds(&free.plus(&pod.requests)).is_none())
    }

    /// The nodes that would take a pod, with what is free there and who could be interrupted.
    fn places(&self, pod: &Pod) -> Vec<Place> {
        let mut places = Vec::new();
        for node in self.capacity.nodes() {
            let Some((free, staying)) = self.room_on(&node.name, pod) else { continue };
            let fits = pod.requests.exceeds(&free).is_none();
            let mut place = Place { node: node.name.clone(), free, victims: Vec::new() };
            if fits {
                // Nobody has to go.
                return vec![place];
            }
            let victims = staying.into_iter().filter_map(|(job, held)| {
                let loss = self.loss_of(job)?;
                Some(Victim { job: job.clone(), held, loss })
            });
            place.victims = victims.collect();
            places.push(place);
        }
        places
    }

    /// What is free on a node that takes this pod, once all that is going is gone, and the ScavengerJobs there that
    /// stay, with what they hold there.
    fn room_on(&self, node: &Name, pod: &Pod) -> Option<(Resources, BTreeMap<&Key, Resources>)> {
        let room = self.capacity.node(node).filter(|room| room.node.usable)?;
        if !pod.placement.admits(room.node) {
            return None;
        }
        let mut free = room.node.allocatable.minus(room.used);
        if let Some(promised) = self.promises.ledger().promised(node) {
            free.subtract(promised);
        }
        let mut jobs = self.jobs_on(node);
        jobs.retain(|job, held| {
            let standing = self.standing_of(job);
            if matches!(standing, Standing::Terminating(_)) {
                free.add(held);
            }
            standing == Standing::Stays
        });
        Some((free, jobs))
    }
}
