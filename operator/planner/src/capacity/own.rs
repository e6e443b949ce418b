//! Limits of single nodes, in a pool that has groups of nodes with thresholds of their own (`values::NodeGroup`).
//!
//! Each node is then filled up to the threshold of its group, or the pool's if it is in none. One sum over the pool would not
//! do: ScavengerJobs could fill some nodes to the brim on account of others that are empty and may be filled further.
//! kube-scheduler knows none of these limits, so the planner chooses the node of each ScavengerJob that has one pod.

use std::collections::BTreeMap;

use super::{Capacity, Entry, account::without_compute, groups::Sums};
use crate::values::{
    Name, Node, Settings,
    resources::{Resources, Share, Thresholds},
};

/// The limit of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnLimit {
    /// Number of its group in the settings; none if the pool's thresholds hold for it.
    pub(super) group: Option<usize>,
    /// How far it may be filled now.
    pub(super) limit: Resources,
    /// The same whatever window holds.
    pub(super) most: Resources,
}

impl OwnLimit {
    /// None if the pool's thresholds hold for all nodes together.
    pub(super) fn of(node: &Node, settings: &Settings) -> Option<Box<Self>> {
        if settings.node_groups.is_empty() {
            return None;
        }
        let group = settings.group_of(node);
        let limit = settings.start_thresholds_of(node).of(&node.allocatable);
        let most = settings.highest_thresholds_of(node).of(&node.allocatable);
        Some(Box::new(Self { group, limit, most }))
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
        if let Some((node, own)) = entry.node.as_ref().zip(entry.own.as_ref()) {
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

/// The share of a resource up to which nodes may be filled, for messages: as it is set, or as it comes out over nodes with
/// different limits.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn share(thresholds: &Thresholds, limit: &Resources, all: &Resources, resource: &str) -> Share {
    match all.get(resource) {
        whole if whole <= 0 || thresholds.share(resource).of(whole) == limit.get(resource) => {
            thresholds.share(resource)
        }
        whole => Share::from_fraction(limit.get(resource) as f64 / whole as f64),
    }
}

/// What the nodes of a group have and use, as its headroom counts it: without cpu and memory of a node that is counted by
/// use, which is looked after by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OfGroup {
    allocatable: Resources,
    used: Resources,
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
pub(super) struct OwnGroups(BTreeMap<usize, OfGroup>);

impl OwnGroups {
    pub(super) fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        let Some(group) = entry.own.as_ref().and_then(|own| own.group) else { return };
        let of_group = self.0.entry(group).or_default();
        of_group.change(entry, change);
        if *of_group == OfGroup::default() {
            self.0.remove(&group);
        }
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

impl Capacity {
    /// How far ScavengerJobs may fill the pool now.
    #[must_use]
    pub fn limit(&self, settings: &Settings) -> Resources {
        self.own.limit(settings, &self.allocatable)
    }

    /// The groups with what their nodes have and what pods use of it, as the headroom of a group counts it.
    pub(crate) fn own_groups(&self) -> impl Iterator<Item = (usize, &Resources, &Resources)> {
        self.own_groups.0.iter().map(|(number, group)| (*number, &group.allocatable, &group.used))
    }

    /// What pods use of a group that are bound to its nodes.
    pub(crate) fn used_by_bound_in_own(&self, group: usize) -> Resources {
        let mut used = self.own_groups.0.get(&group).map(|group| group.used.clone()).unwrap_or_default();
        for occupant in self.nominated.iter().filter_map(|pod| self.occupants.get(pod)) {
            if self.is_in_own(&occupant.node, group) {
                let by_use = self.account(&occupant.node).is_some();
                let requests = &occupant.requests;
                used.subtract(&if by_use { without_compute(requests) } else { requests.clone() });
            }
        }
        used
    }

    /// True if the node is of this group, and takes pods now.
    pub(crate) fn is_in_own(&self, node: &Name, group: usize) -> bool {
        let entry = self.nodes.get(node).filter(|entry| entry.in_pool);
        entry.and_then(|entry| entry.own.as_ref()).is_some_and(|own| own.group == Some(group))
    }

    /// True if nodes have limits of their own: then kube-scheduler, which knows none, never chooses.
    pub(crate) fn has_limits_of_nodes(&self) -> bool {
        self.own_eligible != Own::default()
    }

    /// Checks that what was promised is within the limits of nodes, where pods that are bound leave that to choose.
    ///
    /// # Errors
    /// What is beyond the limit of which node.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn check_limits_of_nodes(
        &self,
        ledger: &crate::capacity::ledger::Ledger,
    ) -> Result<(), String> {
        for (name, entry) in &self.nodes {
            let Some((own, promised)) = entry.own.as_ref().zip(ledger.promised(name)) else { continue };
            // By use the account has the limit of cpu and memory.
            if entry.account.is_some() {
                continue;
            }
            let used = entry.used.plus(promised);
            let beyond = promised
                .iter()
                .find(|(resource, amount)| *amount > 0 && used.get(resource) > own.limit.get(resource));
            if let Some((resource, _)) = beyond {
                return Err(format!(
                    "{} {resource} of node {name} are used or promised, beyond its limit of {}",
                    used.get(resource),
                    own.limit.get(resource)
                ));
            }
        }
        Ok(())
    }
}
