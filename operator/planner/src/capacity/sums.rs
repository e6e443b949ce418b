//! Sums over nodes: what they have, what is used of it, and how far it may be filled.

use std::collections::BTreeMap;

use super::{account::without_compute, node::Entry};
use crate::values::{Settings, resources::Resources};

/// What nodes have, and what is used of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Of all nodes, ready or not.
    pub(super) eligible: Resources,
    /// What follows is of the nodes that take pods now.
    pub(super) allocatable: Resources,
    pub(super) used: Resources,
    pub(super) ordinary: Resources,
    /// What is promised on them to attempts whose pods are not bound yet, as of the last time that was looked at.
    pub(super) promised: Resources,
    /// Of `allocatable` and `used`, cpu and memory of nodes that are counted by use.
    pub(super) by_use: (Resources, Resources),
    /// Of nodes with limits of their own: of all that take pods now, and of all.
    pub(super) own: Own,
    pub(super) own_eligible: Own,
}

impl Sums {
    pub(super) fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        let Some(node) = entry.node.as_ref().filter(|_| entry.eligible) else { return };
        change(&mut self.eligible, &node.allocatable);
        self.own_eligible.change(entry, change);
        if entry.in_pool {
            self.own.change(entry, change);
            change(&mut self.allocatable, &node.allocatable);
            change(&mut self.used, &entry.counted());
            change(&mut self.ordinary, &entry.counted_ordinary());
            change(&mut self.promised, &entry.promised);
            if let Some((whole, used)) = entry.by_use() {
                change(&mut self.by_use.0, &whole);
                change(&mut self.by_use.1, &used);
            }
        }
    }

    /// A node counts, without what is promised on it.
    #[cfg(any(test, feature = "fixtures"))]
    pub(super) fn add_node(&mut self, entry: &Entry) {
        let promised = self.promised.clone();
        self.change(entry, Resources::add);
        self.promised = promised;
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.eligible.add(&more.eligible);
        self.allocatable.add(&more.allocatable);
        self.used.add(&more.used);
        self.ordinary.add(&more.ordinary);
        self.promised.add(&more.promised);
        self.by_use.0.add(&more.by_use.0);
        self.by_use.1.add(&more.by_use.1);
        self.own.add(&more.own);
        self.own_eligible.add(&more.own_eligible);
    }
}

impl Sums {
    /// How far ScavengerJobs may fill these nodes now.
    pub(super) fn limit(&self, settings: &Settings) -> Resources {
        self.own.limit(settings, &self.allocatable)
    }

    /// How far they may fill them at best.
    pub(super) fn highest_limit(&self, settings: &Settings) -> Resources {
        self.own_eligible.most(settings, &self.eligible)
    }
}

/// Sums over nodes with limits of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// What they have.
    whole: Resources,
    /// How far they may be filled now, and at best.
    limit: Resources,
    most: Resources,
}

impl Own {
    pub(super) fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        if let Some((node, own)) = entry.node.as_ref().zip(entry.limit.as_ref()) {
            change(&mut self.whole, &node.allocatable);
            change(&mut self.limit, &own.limit);
            change(&mut self.most, &own.most);
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.whole.add(&more.whole);
        self.limit.add(&more.limit);
        self.most.add(&more.most);
    }

    /// How far nodes may be filled now that have `all` together.
    pub(super) fn limit(&self, settings: &Settings, all: &Resources) -> Resources {
        if self.is_empty() { settings.start_thresholds.of(all) } else { self.limit.clone() }
    }

    /// The same at best.
    pub(super) fn most(&self, settings: &Settings, all: &Resources) -> Resources {
        if self.is_empty() { settings.highest_thresholds().of(all) } else { self.most.clone() }
    }

    fn is_empty(&self) -> bool {
        self.whole == Resources::default()
    }
}

/// What the nodes of a group have and use, as its headroom counts it: without cpu and memory of a node that is counted by
/// use, which is looked after by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OfGroup {
    pub(super) allocatable: Resources,
    pub(super) used: Resources,
}

impl OfGroup {
    fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        let Some(node) = entry.node.as_ref().filter(|_| entry.in_pool) else { return };
        let counts = |amounts: &Resources| match entry.account {
            Some(_) => without_compute(amounts),
            None => amounts.clone(),
        };
        change(&mut self.allocatable, &counts(&node.allocatable));
        change(&mut self.used, &counts(&entry.used));
    }
}

/// [`OfGroup`] of each group, by its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnGroups(pub(super) BTreeMap<usize, OfGroup>);

impl OwnGroups {
    pub(super) fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        let Some(group) = entry.limit.as_ref().and_then(|own| own.group) else { return };
        let of_group = self.0.entry(group).or_default();
        of_group.change(entry, change);
        if *of_group == OfGroup::default() {
            self.0.remove(&group);
        }
    }
}
