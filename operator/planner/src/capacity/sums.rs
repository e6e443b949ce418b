//! Sums over nodes: what they have, what is used of it, and how far it may be filled.

use super::node::{Entry, Scope};
use crate::values::{Settings, resources::Resources};

/// What nodes have, what is used of it, and how far they may be filled.
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
    /// Of `allocatable` and `used`, what the headroom of these nodes looks at.
    pub(super) headroom: (Resources, Resources),
    /// Of nodes with limits of their own: of all that take pods now, and of all.
    pub(super) own: Own,
    pub(super) own_eligible: Own,
}

impl Sums {
    /// A node counts, or counts no longer.
    pub(super) fn change(&mut self, entry: &Entry, scope: Scope, change: fn(&mut Resources, &Resources)) {
        let Some(node) = entry.node.as_ref().filter(|_| entry.is_eligible()) else { return };
        change(&mut self.eligible, &node.allocatable);
        self.own_eligible.change(entry, change);
        if !entry.is_in_pool() {
            return;
        }
        let counted = entry.counted();
        self.own.change(entry, change);
        change(&mut self.allocatable, &node.allocatable);
        change(&mut self.used, &counted);
        change(&mut self.ordinary, &entry.counted_ordinary());
        change(&mut self.promised, &entry.promised);
        if let Some((whole, taken)) = entry.in_headroom(scope, &node.allocatable, &counted) {
            change(&mut self.headroom.0, &whole);
            change(&mut self.headroom.1, &taken);
        }
    }

    /// A node counts, without what is promised on it.
    #[cfg(any(test, feature = "fixtures"))]
    pub(super) fn add_node(&mut self, entry: &Entry) {
        let promised = self.promised.clone();
        self.change(entry, Scope::Pool, Resources::add);
        self.promised = promised;
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.eligible.add(&more.eligible);
        self.allocatable.add(&more.allocatable);
        self.used.add(&more.used);
        self.ordinary.add(&more.ordinary);
        self.promised.add(&more.promised);
        self.headroom.0.add(&more.headroom.0);
        self.headroom.1.add(&more.headroom.1);
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
