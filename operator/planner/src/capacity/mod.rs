//! The capacity there is: nodes of the pool, what their pods occupy, and what is promised to attempts whose pods are not
//! bound yet. Kept up to date change by change; nothing here walks over all pods.
//!
//! What fits is asked a thousand times for each plan (`questions`). The answers come from an index over all nodes
//! (`index`) that [`Capacity::settle`] brings up to date. `plainly` states the same rules over the nodes as they are, and
//! tests hold the index against it (`check`).

mod admissions;
mod check;
mod index;
mod missing;
mod node;
mod nodes;
mod pending;
#[cfg(any(test, feature = "fixtures"))]
mod plainly;
pub mod promises;
mod questions;
mod state;
mod sums;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::values::{Closed, Demand, Key, Name, Node, Pod, Settings, resources::Resources};
use admissions::Labels;
use index::{Places, Placing, Whose};
use node::{Entry, Occupant};
use promises::Ledger;
use state::NodeState;
use sums::{Borders, Totals};

pub(crate) use index::Ask;
pub use node::Account;
pub(crate) use node::{compute, without_compute};
pub(crate) use nodes::Part;
pub(crate) use questions::{Size, Traits};
pub use state::NodeStanding;

/// What is on a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeLoad<'a> {
    /// The node.
    pub node: &'a Node,
    /// Requests of pods that have not ended and are bound to it, or of ordinary pods nominated for it.
    pub used: &'a Resources,
}

/// A pod of a ScavengerJob on a node.
#[derive(Debug, Clone, Copy)]
pub struct ScavengerPod<'a> {
    /// Namespace and name.
    pub key: &'a Key,
    /// UID of its ScavengerJob.
    pub owner: &'a Name,
    /// What it occupies, as kube-scheduler counts it.
    pub requests: &'a Resources,
    /// What it holds for its ScavengerJob.
    pub holds: &'a Resources,
}

/// An ordinary pod that is bound to a node or nominated for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrdinaryPod<'a> {
    pub(crate) key: &'a Key,
    pub(crate) node: &'a Name,
    pub(crate) requests: &'a Resources,
    /// Of these, what a resize would add that its node deferred.
    pub(crate) deferred_resize: Option<&'a Resources>,
    /// Of these, millicores of cores of its own.
    pub(crate) exclusive_milli: i64,
    /// When it was bound; none while it is only nominated.
    pub(crate) bound_since: Option<Timestamp>,
}

impl<'a> OrdinaryPod<'a> {
    /// A pod; none while it has no node.
    pub(crate) fn of(pod: &'a Pod) -> Option<Self> {
        Some(Self {
            key: &pod.key,
            node: pod.node.as_ref().or(pod.nominated_node.as_ref())?,
            requests: &pod.requests,
            deferred_resize: pod.deferred_resize.as_ref(),
            exclusive_milli: pod.exclusive_milli,
            bound_since: pod.bound_since(),
        })
    }
}

/// The capacity there is.
#[derive(Debug, Clone, Default)]
pub struct Capacity {
    nodes: BTreeMap<Name, Entry>,
    /// Nodes with pods of ScavengerJobs that take no more of them now: cordoned, closed, or no longer selected.
    not_open: BTreeSet<Name>,
    /// Names of nodes by their numbers.
    slots: Vec<Option<Name>>,
    vacant: Vec<usize>,
    /// What each pod occupies, and where; pods that wait for a node without being nominated for one have none.
    occupants: BTreeMap<Key, Occupant>,
    /// Those of them that are not bound yet.
    nominated: BTreeSet<Key>,
    totals: Totals,
    /// True while the planner chooses the nodes of ScavengerJobs that have one pod.
    chooses_nodes: bool,
    /// How many nodes belong to the pool whenever they are ready.
    eligible_nodes: usize,
    /// What pods of ScavengerJobs occupy, by namespace.
    namespaces: BTreeMap<Name, Resources>,
    /// Ordinary pods that wait for a node and hold capacity.
    pending: BTreeMap<Key, Ask>,
    places: Places,
    labels: Labels,
    borders: Borders,
    /// Nodes that are closed to ScavengerJobs, whether they are there or not.
    closed: BTreeMap<Name, Closed>,
    /// The epoch in which it was found out what the demands reach.
    reached: u64,
    /// Demands that other nodes let in since [`Self::take_readmitted`].
    readmitted: BTreeSet<Ask>,
    /// Nodes that changed since the index was brought up to date.
    stale: BTreeSet<Name>,
    /// Rises when something changes that an answer "never fits" depends on.
    epoch: u64,
    /// Rises when capacity may have appeared.
    version: u64,
}

impl Capacity {
    /// Takes in a node.
    pub fn set_node(&mut self, node: Node, settings: Option<&Settings>) {
        let name = node.name.clone();
        let known = self.nodes.get(&name).and_then(|entry| entry.node.as_ref());
        // Most of what is seen of nodes is their heartbeat.
        if known == Some(&node) {
            return;
        }
        let state = NodeState::of(&node, settings, self.closed.get(&name));
        let was_eligible = self.nodes.get(&name).is_some_and(|entry| entry.is_eligible());
        // Whether a node is ready has no say in "never fits". Other labels concern only those whom it lets in now, or no
        // longer; see `take_readmitted`.
        let same = |known: &Node| {
            let lasting =
                |node: &Node| node.taints.iter().filter(|taint| !taint.passes()).cloned().collect::<Vec<_>>();
            (&known.allocatable, lasting(known)) == (&node.allocatable, lasting(&node))
        };
        if state.is_eligible() != was_eligible || !known.is_some_and(same) {
            self.epoch += 1;
        }
        let admits_others =
            known.is_none_or(|known| (&known.labels, &known.taints) != (&node.labels, &node.taints));
        self.version += 1;
        let mut before = None;
        self.change_node(&name, |entry| {
            entry.state = state;
            entry.group = None;
            entry.relabelled |= admits_others;
            before = entry.node.replace(node);
        });
        self.relabel(&name, before.as_ref());
    }

    fn relabel(&mut self, name: &Name, before: Option<&Node>) {
        if let Some(entry) = self.nodes.get(name) {
            self.labels.change(entry.slot, before, entry.node.as_ref());
        }
    }

    /// Takes a node away. Pods that are still bound to it keep their entry until they go.
    pub fn remove_node(&mut self, name: &Name) {
        if self.nodes.get(name).is_none_or(|entry| entry.node.is_none()) {
            return;
        }
        self.epoch += 1;
        self.version += 1;
        let mut before = None;
        self.change_node(name, |entry| {
            entry.state = NodeState::default();
            entry.group = None;
            entry.relabelled = true;
            before = entry.node.take();
        });
        self.relabel(name, before.as_ref());
    }

    /// Closes a node to ScavengerJobs, or opens it. Other pods go there all the same.
    pub(crate) fn set_closed(&mut self, name: &Name, closed: Option<&Closed>, settings: Option<&Settings>) {
        let before = match closed.cloned() {
            Some(why) => self.closed.insert(name.clone(), why),
            None => self.closed.remove(name),
        };
        if closed == before.as_ref() || self.node(name).is_none() {
            return;
        }
        // Another reason alone makes no difference to anybody who waits.
        self.version += u64::from(closed.is_some() != before.is_some());
        self.change_node(name, |entry| entry.judge(settings, closed));
    }

    /// Changes what is known of a node and keeps up the totals. An entry that says nothing any longer goes.
    fn change_node(&mut self, name: &Name, change: impl FnOnce(&mut Entry)) {
        if !self.nodes.contains_key(name) {
            let slot = self.vacant.pop().unwrap_or(self.slots.len());
            if slot == self.slots.len() {
                self.slots.push(None);
            }
            self.slots[slot] = Some(name.clone());
            self.nodes.insert(name.clone(), Entry::new(slot));
        }
        let Some(entry) = self.nodes.get_mut(name) else { return };
        let group = entry.group;
        self.totals.change(entry, Resources::subtract);
        self.eligible_nodes -= usize::from(entry.is_eligible());
        change(entry);
        self.eligible_nodes += usize::from(entry.is_eligible());
        if entry.group.is_none()
            && let Some(node) = entry.node.as_ref().filter(|_| entry.is_eligible())
        {
            entry.group = self.totals.taints.number_of(node);
        }
        self.totals.change(entry, Resources::add);
        if entry.group != group {
            self.totals.taints.moved(entry.slot, group, entry.group);
        }
        self.borders.set(name, entry);
        if entry.is_open() || entry.scavengers.is_empty() {
            self.not_open.remove(name);
        } else {
            self.not_open.insert(name.clone());
        }
        self.stale.insert(name.clone());
    }

    /// Other settings of the pool: which nodes belong to it is decided again.
    pub fn set_settings(&mut self, settings: Option<&Settings>) {
        self.chooses_nodes = settings.is_some_and(Settings::chooses_nodes);
        self.places.set_placing(match settings {
            Some(settings) if settings.places_by_use() => Placing::Usage,
            Some(settings) if settings.chooses_nodes() => Placing::NodeLimits,
            _ => Placing::Scheduler,
        });
        let names: Vec<Name> = self.nodes.keys().cloned().collect();
        for name in names {
            let closed = self.closed.get(&name).cloned();
            self.change_node(&name, |entry| {
                entry.judge(settings, closed.as_ref());
                entry.group = None;
            });
        }
        self.epoch += 1;
        self.version += 1;
    }

    /// Takes a pod away.
    pub fn remove_pod(&mut self, key: &Key) {
        self.occupy(key, None);
        self.nominated.remove(key);
        self.set_pending(key, None);
    }

    fn occupy(&mut self, key: &Key, occupant: Option<Occupant>) {
        match (self.occupants.get_mut(key), &occupant) {
            (None, None) => return,
            (Some(old), Some(new)) if old.takes_what(new) => return old.clone_from(new),
            _ => {}
        }
        if let Some(old) = self.occupants.remove(key) {
            self.change_node(&old.node, |entry| {
                entry.used.subtract(&old.requests);
                if old.owner.is_none() {
                    entry.ordinary.subtract(&old.requests);
                } else {
                    entry.beyond.subtract(&old.beyond());
                    entry.scavengers.remove(key);
                }
            });
            if old.owner.is_some()
                && let Some(amount) = self.namespaces.get_mut(&key.namespace)
            {
                amount.subtract(old.holds());
                if *amount == Resources::default() {
                    self.namespaces.remove(&key.namespace);
                }
            }
            self.version += 1;
        }
        if let Some(new) = occupant {
            // A pod may be seen before its node.
            self.change_node(&new.node, |entry| {
                entry.used.add(&new.requests);
                if new.owner.is_none() {
                    entry.ordinary.add(&new.requests);
                } else {
                    entry.beyond.add(&new.beyond());
                    entry.scavengers.insert(key.clone());
                }
            });
            if new.owner.is_some() {
                self.namespaces.entry(key.namespace.clone()).or_default().add(new.holds());
            }
            self.occupants.insert(key.clone(), new);
        }
    }

    /// Brings the index up to date with everything that was seen, and with what `ledger` promises. To be called with
    /// the same ledger always.
    pub(crate) fn settle(&mut self, ledger: &mut Ledger) {
        self.stale.extend(ledger.take_touched());
        let stale = std::mem::take(&mut self.stale);
        // A rebuild, or other settings.
        let begins_again = stale.len() > 100 && stale.len() * 4 > self.nodes.len();
        if begins_again {
            let Self { nodes, slots, labels, places, .. } = self;
            places.begin_again(|placement| labels.candidates(placement, nodes, slots));
            // Nobody says which demands other nodes let in now.
            let is_relabelled = |name: &Name| self.nodes.get(name).is_some_and(|entry| entry.relabelled);
            self.epoch += u64::from(stale.iter().any(is_relabelled));
        }
        for name in stale {
            // Promised on a node that is gone.
            let Some(entry) = self.nodes.get_mut(&name) else { continue };
            let promised = ledger.promised(&name);
            self.totals.set_promised(entry, promised);
            let free = entry.free_by_view(promised, self.chooses_nodes);
            let relabelled = std::mem::take(&mut entry.relabelled) && !begins_again;
            let (slot, gone) = (entry.slot, entry.node.is_none() && entry.used == Resources::default());
            self.places.set_node(slot, relabelled.then_some(entry.node.as_ref()), &free);
            if gone {
                self.nodes.remove(&name);
                self.slots[slot] = None;
                self.vacant.push(slot);
            }
        }
        let readmitted = self.places.take_readmitted();
        if self.reached != self.epoch || !readmitted.is_empty() {
            self.reached = self.epoch;
            self.reach_anew();
        }
        self.readmitted.extend(readmitted);
        self.places.settle();
    }

    /// Somebody waits with a demand.
    pub(crate) fn ask(&mut self, demand: &Demand) -> Ask {
        self.ask_for(demand, Whose::ScavengerJobs)
    }

    fn ask_for(&mut self, demand: &Demand, whose: Whose) -> Ask {
        let Self { nodes, slots, labels, places, .. } = self;
        let ask = places.add_user(demand, whose, |placement| labels.candidates(placement, nodes, slots));
        self.set_reach(ask);
        ask
    }

    /// The waiting is over.
    pub(crate) fn forget(&mut self, ask: Ask) {
        self.places.remove_user(ask);
    }

    /// The demand that somebody waits with.
    pub(crate) fn demand(&self, ask: Ask) -> &Demand {
        self.places.demand(ask)
    }

    /// The copy of a node's name that is there already, if it is.
    pub(crate) fn shared_name(&self, name: &Name) -> Option<&Name> {
        self.nodes.get_key_value(name).map(|(name, _)| name)
    }

    /// Demands that may have another answer of [`Self::never_fits`] since this was called last, in the same epoch:
    /// nodes have other labels, and let their pods in now, or no longer.
    pub(crate) fn take_readmitted(&mut self) -> BTreeSet<Ask> {
        std::mem::take(&mut self.readmitted)
    }

    /// Rises when any answer of `Self::never_fits` may have changed.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Rises when capacity may have appeared.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What the pool's nodes have for pods.
    pub fn allocatable(&self) -> &Resources {
        &self.totals.pool.allocatable
    }

    /// What is used or promised: bound pods, pending ordinary pods that hold capacity and would fit some node of the pool
    /// if no ScavengerJob were there, and what is in flight.
    pub fn used(&self, ledger: &Ledger) -> Resources {
        self.used_without_pending(ledger).plus(&self.held_for_pending())
    }

    /// What is held for ordinary pods that wait for a node and would fit some node of the pool.
    pub fn held_for_pending(&self) -> Resources {
        match self.places.takeable().filter(|_| self.stale.is_empty()) {
            Some(takeable) => takeable.clone(),
            None => self.takeable(),
        }
    }

    /// [`Self::used`] without pods that wait for a node.
    pub fn used_without_pending(&self, ledger: &Ledger) -> Resources {
        self.totals.pool.used.plus(ledger.total())
    }

    /// What pods use of the pool's nodes that are bound to them, or nominated for them.
    pub fn used_by_pods(&self) -> &Resources {
        &self.totals.pool.used
    }

    /// True if the node belongs to the pool now, and takes new pods: it is not cordoned, gone, or tainted beyond what the pool
    /// tolerates.
    pub fn is_in_pool(&self, name: &Name) -> bool {
        self.nodes.get(name).is_some_and(|entry| entry.is_in_pool())
    }

    /// True if a node is gone, not ready, cordoned, or tainted beyond what the pool tolerates: what no pod on it brings about.
    pub fn is_taken_away(&self, name: &Name) -> bool {
        let is_there = |entry: &Entry| {
            entry.is_eligible() && entry.node.as_ref().is_some_and(Node::is_open_but_for_pressure)
        };
        !self.nodes.get(name).is_some_and(is_there)
    }

    /// Every node, whether it belongs to the pool or not.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter_map(|entry| entry.node.as_ref())
    }

    /// True if the node is there and ready, whether it is cordoned or belongs to the pool or not.
    pub fn is_ready(&self, name: &Name) -> bool {
        self.nodes.get(name).and_then(|entry| entry.node.as_ref()).is_some_and(|node| node.ready)
    }

    /// Ordinary pods that are bound to a node or nominated for one.
    pub(crate) fn ordinary_pods(&self) -> impl Iterator<Item = OrdinaryPod<'_>> {
        let ordinary = self.occupants.iter().filter(|(_, occupant)| occupant.owner.is_none());
        ordinary.map(|(key, occupant)| OrdinaryPod {
            key,
            node: &occupant.node,
            requests: &occupant.requests,
            deferred_resize: occupant.deferred_resize.as_deref(),
            exclusive_milli: occupant.exclusive_milli,
            bound_since: occupant.bound_since,
        })
    }

    /// True if a pod occupies capacity on a node.
    pub(crate) fn is_occupied_by(&self, pod: &Key) -> bool {
        self.occupants.contains_key(pod)
    }

    /// Nodes of the pool, those included that take nothing now.
    pub(crate) fn all_pool_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|entry| entry.is_eligible()).filter_map(|entry| entry.node.as_ref())
    }

    /// Nodes of the pool, those included that are closed to ScavengerJobs, with what pods use on each.
    pub fn pool_nodes(&self) -> impl Iterator<Item = (&Node, &Resources)> {
        self.nodes
            .values()
            .filter(|entry| entry.is_in_pool())
            .filter_map(|entry| Some((entry.node.as_ref()?, &entry.used)))
    }

    /// A node and what is on it, whether it belongs to the pool or not.
    pub fn node(&self, name: &Name) -> Option<NodeLoad<'_>> {
        let entry = self.nodes.get(name)?;
        let node = entry.node.as_ref()?;
        Some(NodeLoad { node, used: &entry.used })
    }

    /// Pods of ScavengerJobs on a node that have not ended.
    pub fn scavenger_pods(&self, node: &Name) -> impl Iterator<Item = ScavengerPod<'_>> {
        self.nodes.get(node).into_iter().flat_map(|entry| &entry.scavengers).filter_map(|key| {
            let occupant = self.occupants.get(key)?;
            Some(ScavengerPod {
                key,
                owner: occupant.owner.as_ref()?,
                requests: &occupant.requests,
                holds: occupant.holds(),
            })
        })
    }
}
