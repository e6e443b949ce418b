//! How a node is counted: by what pods request, or by what ordinary pods really use.
//!
//! A node that is counted by use has an [`Account`], which [`crate::node_use`] makes from samples. Its cpu and memory are
//! then filled up to a limit of its own with what ordinary pods are expected to use and with what ScavengerJobs hold: their
//! limits, since their pods request next to nothing. Everything else (devices, scratch space, pods) is counted by requests
//! as on any node, for kube-scheduler binds by these.
//!
//! kube-scheduler counts requests on such a node, too. So the pods that it places by requests, those of a gang for example,
//! must find capacity by both.

use std::collections::BTreeMap;

use super::{
    Capacity, Entry, Occupant,
    index::{Rooms, Table, View},
};
use crate::{
    capacity::ledger::Ledger,
    values::{
        Demand, Key, Name,
        resources::{PODS, Resources},
    },
};

/// How the cpu and memory of a node are counted by use. The amounts are of cpu and memory alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// What ordinary pods are expected to use at most.
    pub expected: Resources,
    /// Bytes of memory that pods of ScavengerJobs hold and are not expected to use.
    pub spares: BTreeMap<Key, i64>,
    /// How far the node may be filled now.
    pub limit: Resources,
    /// How far it may be filled at best, whatever ordinary pods use and whatever window holds.
    pub most: Resources,
    /// How many pods of ScavengerJobs may be there.
    pub most_pods: i64,
    /// False while nothing may be added, since nobody knows what the node uses now.
    pub open: bool,
}

/// Cpu and memory of `amounts`, and nothing else.
pub(crate) fn compute(amounts: &Resources) -> Resources {
    Resources { cpu_milli: amounts.cpu_milli, memory_bytes: amounts.memory_bytes, ..Resources::default() }
}

/// `amounts` without cpu and memory.
pub(crate) fn without_compute(amounts: &Resources) -> Resources {
    amounts.minus(&compute(amounts))
}

/// `amounts` with other amounts of cpu and memory.
fn with_compute(amounts: &Resources, compute: &Resources) -> Resources {
    Resources { cpu_milli: compute.cpu_milli, memory_bytes: compute.memory_bytes, ..amounts.clone() }
}

/// The smaller of both, resource by resource of the first.
fn smaller(one: &Resources, other: &Resources) -> Resources {
    one.map(|name, amount| amount.min(other.get(name)))
}

impl Entry {
    /// True if its group has thresholds of its own.
    fn is_in_own_group(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.group.is_some())
    }

    /// What ordinary pods take of the node.
    pub(super) fn counted_ordinary(&self) -> Resources {
        match &self.account {
            None => self.ordinary.clone(),
            Some(account) => with_compute(&self.ordinary, &account.expected),
        }
    }

    /// What all pods take of the node.
    pub(crate) fn counted(&self) -> Resources {
        let mut counted = self.used.plus(&self.beyond);
        if let Some(account) = &self.account {
            counted.subtract(&compute(&self.ordinary));
            counted.add(&account.expected);
            counted.memory_bytes -= account.spares.values().sum::<i64>();
        }
        counted
    }

    /// The cpu and memory that the pool's headroom does not look at, of what the node has and of what is taken of it: all of
    /// a node that is counted by use, and what ScavengerJobs hold beyond what they request. That is in nobody's way. Of a node
    /// in a group with thresholds of its own it looks at nothing: the group has headroom of its own.
    pub(super) fn by_use(&self) -> Option<(Resources, Resources)> {
        let node = self.node.as_ref()?;
        if self.is_in_own_group() {
            return Some((node.allocatable.clone(), self.counted()));
        }
        match &self.account {
            Some(_) => Some((compute(&node.allocatable), compute(&self.counted()))),
            None if self.beyond == Resources::default() => None,
            None => Some((Resources::default(), compute(&self.beyond))),
        }
    }

    /// What is free in each view of each table.
    pub(super) fn rooms(&self, promised: Option<&Resources>, by_use: bool) -> Rooms {
        let Some(node) = &self.node else { return Default::default() };
        let left = |whole: &Resources, taken: &Resources| {
            let mut free = whole.minus(taken);
            if let Some(promised) = promised {
                free.subtract(promised);
            }
            free
        };
        // As far as it may be filled at all: what ordinary pods wait for may take the whole node.
        let fillable = self.own.as_ref().map_or(&node.allocatable, |own| &own.limit);
        let most = self.own.as_ref().map_or(&node.allocatable, |own| &own.most);
        let without = self.is_open().then(|| node.allocatable.minus(&self.ordinary));
        let now = self.is_open().then(|| left(fillable, &self.used.plus(&self.beyond)));
        let Some(account) = &self.account else {
            if !by_use {
                let empty = self.eligible.then(|| node.allocatable.clone());
                return [now, without, empty, None, None, None];
            }
            // Only ScavengerJobs are asked whether they ever fit: gangs, too, stay below what the node may be filled to.
            let empty = self.eligible.then(|| most.clone());
            let chosen_without = self.is_open().then(|| fillable.minus(&self.ordinary));
            return [now.clone(), without, empty.clone(), now, chosen_without, empty];
        };
        let most_pods = |mut free: Resources, most: i64| {
            free.pods = free.pods.min(most);
            free
        };
        let limit = with_compute(fillable, &account.limit);
        let there = i64::try_from(self.scavengers.len()).unwrap_or(i64::MAX);
        let promised_pods = promised.map_or(0, |promised| promised.get(PODS));
        let pods_left = account.most_pods - there - promised_pods;
        let by_use_now = self
            .is_open()
            .then(|| most_pods(left(&limit, &self.counted()), pods_left))
            .filter(|_| account.open);
        let by_use_without =
            self.is_open().then(|| most_pods(limit.minus(&self.counted_ordinary()), account.most_pods));
        let empty = self.eligible.then(|| most_pods(with_compute(most, &account.most), account.most_pods));
        let both = now.zip(by_use_now.as_ref()).map(|(now, by_use)| smaller(&now, by_use));
        [both, without, empty.clone(), by_use_now, by_use_without, empty]
    }
}

impl Capacity {
    /// Takes in how a node is counted.
    pub(crate) fn set_account(&mut self, node: &Name, account: Option<Account>) {
        let known = self.nodes.get(node).map(|entry| entry.account.as_deref());
        if known.is_none_or(|known| known == account.as_ref()) {
            return;
        }
        // Something else may never fit now, or fit after all.
        let at_best =
            |account: Option<&Account>| account.map(|account| (account.most.clone(), account.most_pods));
        let is_other_at_best = at_best(known.flatten()) != at_best(account.as_ref());
        self.change_node(node, |entry| entry.account = account.map(Box::new));
        self.version += 1;
        self.epoch += u64::from(is_other_at_best);
    }

    /// How a node is counted by use; none if it is counted by requests.
    pub(crate) fn account(&self, node: &Name) -> Option<&Account> {
        self.nodes.get(node)?.account.as_deref()
    }

    /// The node on which a pod of a ScavengerJob is, and what it holds there.
    pub(crate) fn held_by(&self, pod: &Key) -> Option<(&Name, &Resources)> {
        let occupant = self.occupants.get(pod).filter(|occupant| occupant.owner.is_some())?;
        Some((&occupant.node, occupant.holds()))
    }

    /// True if a pod is on a node whose ScavengerJob was started by what is used.
    pub(crate) fn is_shared_by_use(&self, node: &Name) -> bool {
        self.scavenger_pods(node).any(|pod| pod.holds != pod.requests)
    }

    /// What ordinary pods request on a node.
    pub(crate) fn requested_by_ordinary(&self, node: &Name) -> Resources {
        self.nodes.get(node).map(|entry| entry.ordinary.clone()).unwrap_or_default()
    }

    /// What a ScavengerJob of one pod may take of a node of the pool.
    pub(crate) fn free_for_one_pod(&self, node: &Name, ledger: &Ledger) -> Resources {
        let Some(entry) = self.nodes.get(node) else { return Resources::default() };
        let view = if self.chooses_nodes { Table::Usage } else { Table::Requests } as usize * View::ALL.len();
        let rooms = entry.rooms(ledger.promised(node), self.chooses_nodes);
        rooms.into_iter().nth(view + View::Now as usize).flatten().unwrap_or_default()
    }

    /// What pods on a node request, and what is promised on it.
    pub(crate) fn taken_of(&self, node: &Name, ledger: &Ledger) -> Resources {
        let mut used = self.nodes.get(node).map(|entry| entry.used.clone()).unwrap_or_default();
        if let Some(promised) = ledger.promised(node) {
            used.add(promised);
        }
        used
    }

    /// What all pods take of a node, as it is counted.
    pub(crate) fn counted_on(&self, node: &Name) -> Resources {
        self.nodes.get(node).map(Entry::counted).unwrap_or_default()
    }

    /// True if the planner chooses the node for a ScavengerJob, and not kube-scheduler: by what is really used, because nodes
    /// have limits of their own, or because nothing but the name of a node keeps a gang together.
    pub(crate) fn chooses_node(&self, demand: &Demand) -> bool {
        demand.placement.one_node || self.chooses_nodes && demand.may_go_by_use()
    }

    /// What the pool has, and what pods use of it that are bound to its nodes, without cpu and memory of the nodes that are
    /// counted by use: these are looked after one by one.
    pub(crate) fn counted_by_requests(&self, used: &Resources) -> (Resources, Resources) {
        let (whole, taken) = &self.by_use;
        (self.allocatable.minus(whole), used.minus(taken))
    }

    /// What an occupant adds to what is counted on its node.
    pub(super) fn counted_of(&self, occupant: &Occupant) -> Resources {
        // Headroom of the pool looks at nothing of it.
        if self.nodes.get(&occupant.node).is_some_and(Entry::is_in_own_group) {
            return Resources::default();
        }
        let by_use = occupant.owner.is_none() && self.account(&occupant.node).is_some();
        match by_use {
            true => without_compute(&occupant.requests),
            false => occupant.holds().clone(),
        }
    }
}
