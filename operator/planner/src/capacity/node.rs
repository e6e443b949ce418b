//! A node and what is on it, and what of that counts.
//!
//! # By what pods request, or by what ordinary pods really use
//!
//! A node that is counted by use has an [`Account`], which [`crate::node_use`] makes from samples. Its cpu and memory are
//! then filled up to a limit of its own with what ordinary pods are expected to use and with what ScavengerJobs hold: their
//! limits, since their pods request next to nothing. Everything else (devices, scratch space, pods) is counted by requests
//! as on any node, for kube-scheduler binds by these.
//!
//! kube-scheduler counts requests on such a node, too. So the pods that it places by requests, those of a gang for example,
//! must find capacity by both.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
};

use jiff::Timestamp;

use super::{state::NodeState, table::FreeByView};
use crate::values::{
    Closed, Key, Name, Node, Settings,
    resources::{PODS, Resources},
};

/// A node and what is on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) node: Option<Node>,
    /// How it stands.
    pub(super) state: NodeState,
    /// Requests of non-terminal pods bound to it, or nominated for it.
    pub(super) used: Resources,
    /// Those of them that belong to no ScavengerJob.
    pub(super) ordinary: Resources,
    /// What pods of ScavengerJobs on it hold beyond what they request.
    pub(super) beyond: Resources,
    /// How it is counted by use; none if it is counted by requests.
    pub(super) account: Option<Box<Account>>,
    /// Pods of ScavengerJobs on it that have not ended.
    pub(super) scavengers: BTreeSet<Key>,
    /// What is promised on it, as its group counts it.
    pub(super) promised: Resources,
    /// Number of its group; none if it does not belong to the pool, or there are too many groups.
    pub(super) group: Option<usize>,
    /// Its number in the index.
    pub(super) slot: usize,
    /// True if its labels or taints are not in the index yet.
    pub(super) relabelled: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Occupant {
    pub(super) node: Name,
    pub(super) requests: Resources,
    /// What it holds, if that is more.
    pub(super) holds: Option<Box<Resources>>,
    /// See [`Pod::exclusive_milli`](crate::values::Pod::exclusive_milli).
    pub(super) exclusive_milli: i64,
    /// UID of its ScavengerJob, if it belongs to one.
    pub(super) owner: Option<Name>,
    /// When it was bound; none while it is only nominated for the node.
    pub(super) bound_since: Option<Timestamp>,
    /// See [`Pod::deferred_resize`](crate::values::Pod::deferred_resize).
    pub(super) deferred_resize: Option<Box<Resources>>,
}

impl Occupant {
    /// True if it takes the same in the same place.
    pub(super) fn takes_what(&self, other: &Self) -> bool {
        let taken = |one: &Self| (one.node.clone(), one.owner.clone(), one.exclusive_milli);
        taken(self) == taken(other) && self.requests == other.requests && self.holds == other.holds
    }

    pub(super) fn holds(&self) -> &Resources {
        self.holds.as_deref().unwrap_or(&self.requests)
    }

    /// What it holds beyond what it requests.
    pub(super) fn beyond(&self) -> Resources {
        self.holds.as_ref().map(|holds| holds.minus(&self.requests)).unwrap_or_default()
    }
}

/// Nodes over which there are sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The pool, or its nodes with the same taints.
    Pool,
    /// A group with thresholds of its own.
    Group,
}

/// What is asked of a node is mostly how it stands.
impl Deref for Entry {
    type Target = NodeState;

    fn deref(&self) -> &NodeState {
        &self.state
    }
}

impl Entry {
    /// Decides again how it stands.
    pub(super) fn judge(&mut self, settings: Option<&Settings>, closed: Option<&Closed>) {
        let node = self.node.as_ref();
        self.state = node.map(|node| NodeState::of(node, settings, closed)).unwrap_or_default();
    }

    pub(super) fn new(slot: usize) -> Self {
        Self { slot, ..Self::default() }
    }

    /// True if its group has thresholds of its own.
    pub(super) fn is_in_own_group(&self) -> bool {
        self.limit.as_ref().is_some_and(|own| own.group.is_some())
    }

    /// What ordinary pods take of the node.
    pub(super) fn counted_ordinary(&self) -> Resources {
        match &self.account {
            None => self.ordinary.clone(),
            Some(account) => with_compute(&self.ordinary, &account.expected),
        }
    }

    /// What all pods take of the node.
    pub(super) fn counted(&self) -> Resources {
        let mut counted = self.used.plus(&self.beyond);
        if let Some(account) = &self.account {
            counted.subtract(&compute(&self.ordinary));
            counted.add(&account.expected);
            counted.memory_bytes -= account.spares.values().sum::<i64>();
        }
        counted
    }

    /// What the headroom of a scope looks at, of what the node has (`whole`) and of what is taken of it (`counted`); none if it
    /// looks at nothing of the node. The cpu and memory of a node that is counted by use are looked after node by node, and what
    /// ScavengerJobs hold beyond what they request is in nobody's way. A node in a group with thresholds of its own has
    /// headroom in its group alone.
    pub(super) fn in_headroom<'a>(
        &'a self,
        scope: Scope,
        whole: &'a Resources,
        counted: &'a Resources,
    ) -> Option<(Cow<'a, Resources>, Cow<'a, Resources>)> {
        let taken = match scope {
            Scope::Pool if self.is_in_own_group() => return None,
            Scope::Pool => counted,
            Scope::Group => &self.used,
        };
        Some(match &self.account {
            Some(_) => (Cow::Owned(without_compute(whole)), Cow::Owned(without_compute(taken))),
            None if scope == Scope::Group || self.beyond == Resources::default() => {
                (Cow::Borrowed(whole), Cow::Borrowed(taken))
            }
            None => (Cow::Borrowed(whole), Cow::Owned(taken.minus(&compute(&self.beyond)))),
        })
    }

    /// What is free in each view of each table.
    pub(super) fn free_by_view(&self, promised: Option<&Resources>, by_use: bool) -> FreeByView {
        let Some(node) = &self.node else { return Default::default() };
        let left = |whole: &Resources, taken: &Resources| {
            let mut free = whole.minus(taken);
            if let Some(promised) = promised {
                free.subtract(promised);
            }
            free
        };
        // As far as it may be filled at all.
        let fillable = self.limit.as_ref().map_or(&node.allocatable, |own| &own.limit);
        let most = self.limit.as_ref().map_or(&node.allocatable, |own| &own.most);
        let without = self.is_open().then(|| fillable.minus(&self.ordinary));
        let now = self.is_open().then(|| left(fillable, &self.used.plus(&self.beyond)));
        if !by_use && self.account.is_none() {
            let empty = self.is_eligible().then(|| node.allocatable.clone());
            return [now, without, empty, None, None, None, None];
        }
        // What ordinary pods wait for may take the whole node.
        let for_ordinary = self.is_open().then(|| node.allocatable.minus(&self.ordinary));
        let Some(account) = &self.account else {
            // Only ScavengerJobs are asked whether they ever fit: gangs, too, stay below what the node may be filled to.
            let empty = self.is_eligible().then(|| most.clone());
            return [now.clone(), without.clone(), empty.clone(), now, without, empty, for_ordinary];
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
        let empty =
            self.is_eligible().then(|| most_pods(with_compute(most, &account.most), account.most_pods));
        let both = now.zip(by_use_now.as_ref()).map(|(now, by_use)| smaller(&now, by_use));
        let both_without =
            without.zip(by_use_without.as_ref()).map(|(without, by_use)| smaller(&without, by_use));
        let (by_use_now, by_use_without) = match account.starts {
            true => (by_use_now, by_use_without),
            false => (both.clone(), both_without.clone()),
        };
        [both, both_without, empty.clone(), by_use_now, by_use_without, empty, for_ordinary]
    }
}

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
    /// False where ScavengerJobs start by requests, although what was started by use before is still there. What starts must
    /// find capacity by both.
    pub starts: bool,
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
pub(super) fn with_compute(amounts: &Resources, compute: &Resources) -> Resources {
    Resources { cpu_milli: compute.cpu_milli, memory_bytes: compute.memory_bytes, ..amounts.clone() }
}

/// The smaller of both, resource by resource of the first.
pub(super) fn smaller(one: &Resources, other: &Resources) -> Resources {
    one.map(|name, amount| amount.min(other.get(name)))
}
