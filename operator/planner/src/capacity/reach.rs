//! Which part of the pool a demand reaches, and how that part stands ([`super::groups`]).

use std::sync::Arc;

use super::{Capacity, groups::Nodes, index::Ask, node::Entry, slab::Reach, sums::Sums};
use crate::values::{Demand, Headroom, Name, Settings, resources::Resources};

impl Capacity {
    /// Finds out what a demand reaches.
    pub(crate) fn set_reach(&mut self, ask: Ask) {
        let mut reach = Reach::default();
        if self.totals.taints.are_several() {
            for (number, group) in self.totals.taints.iter() {
                if self.places.lets_in_some_of(ask, &group.nodes)
                    && group.has_all_that(&self.places.demand(ask).per_pod)
                {
                    reach.add(number);
                }
            }
        }
        let is_whole = reach.is_empty() || reach == self.totals.taints.all();
        self.places.set_reach(ask, reach, is_whole);
    }

    /// Finds it out for every demand, after nodes or settings have changed.
    pub(super) fn reach_anew(&mut self) {
        if !self.totals.taints.are_several() && !self.places.has_parts() {
            return;
        }
        self.places.forget_reaches();
        for ask in self.places.all_asks() {
            self.set_reach(ask);
        }
    }

    /// The sums of what a demand reaches, if that is not the whole pool, and what pending pods are about to take there.
    pub(super) fn part_of(&self, ask: Ask) -> Option<(Sums, Option<&Resources>)> {
        let (part, reach) = self.places.part_reached(ask)?;
        Some((self.totals.taints.sums(reach), self.places.takeable_in(part)))
    }

    /// Amounts of the pool, and the same of each part of it, for [`Self::is_within`].
    pub(super) fn row_of_parts(&self, pool: &Resources, part: impl Fn(Sums) -> Resources) -> Vec<i64> {
        self.places.row_of_parts(pool, |number, reach| {
            let mut amounts = part(self.totals.taints.sums(reach));
            if let Some(takeable) = self.places.takeable_in(number) {
                amounts.subtract(takeable);
            }
            amounts
        })
    }

    /// Amounts on a node, as a row of the pool and of each part of it.
    pub(super) fn parts_with(&self, node: &Entry, amounts: &Resources) -> Vec<i64> {
        self.places.row_of_parts(amounts, |_, reach| match node.group {
            Some(group) if reach.contains(group) => amounts.clone(),
            _ => Resources::default(),
        })
    }

    /// The groups, if there are several.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let groups = self.totals.taints.iter().filter(|_| self.totals.taints.are_several());
        groups.map(|(number, nodes)| Group {
            number,
            nodes,
            allocatable: &nodes.sums.allocatable,
            used: &nodes.sums.used,
        })
    }

    /// What a group's nodes have for pods, without cpu and memory of nodes that are counted by use; none if there is no such
    /// group.
    pub(crate) fn allocatable_in(&self, group: usize) -> Option<Resources> {
        let group = self.groups().find(|one| one.number == group)?;
        Some(group.nodes.sums.headroom.0.clone())
    }

    /// The same of what pods use that are bound to them.
    pub(crate) fn used_by_bound_in(&self, group: usize) -> Resources {
        let there = self.groups().find(|one| one.number == group);
        let mut used = there.map(|group| group.nodes.sums.headroom.1.clone()).unwrap_or_default();
        for occupant in self.nominated.iter().filter_map(|pod| self.occupants.get(pod)) {
            if self.is_in_group(&occupant.node, group) {
                used.subtract(&self.counted_of(occupant));
            }
        }
        used
    }

    /// True if the node is of this group, and takes pods now.
    pub(crate) fn is_in_group(&self, node: &Name, group: usize) -> bool {
        self.nodes.get(node).is_some_and(|entry| entry.is_in_pool() && entry.group == Some(group))
    }

    /// For each demand whether it reaches this group and no other.
    pub(crate) fn reach_only(&mut self, demands: &[Option<Arc<Demand>>], group: usize) -> Vec<bool> {
        // All at once: who may go where is found out once for those that are alike.
        let asks: Vec<Option<Ask>> = demands.iter().map(|demand| Some(self.ask(demand.as_ref()?))).collect();
        let mut only = Reach::default();
        only.add(group);
        let reaches_only = |ask: &Option<Ask>| {
            ask.and_then(|ask| self.places.part_reached(ask)).is_some_and(|(_, reach)| reach == only)
        };
        let answers = asks.iter().map(reaches_only).collect();
        asks.into_iter().flatten().for_each(|ask| self.forget(ask));
        answers
    }
}

/// Nodes of the pool with the same taints, and what pods use of them, those included that are not bound yet.
pub(crate) struct Group<'a> {
    pub(crate) number: usize,
    nodes: &'a Nodes,
    pub(crate) allocatable: &'a Resources,
    pub(crate) used: &'a Resources,
}

impl Group<'_> {
    /// True if nothing has to be given back for its headroom.
    pub(crate) fn suffices(&self, headroom: &Headroom) -> bool {
        let (whole, taken) = &self.nodes.sums.headroom;
        headroom.suffices(taken, whole)
    }

    /// How far ScavengerJobs that reach nothing else may fill it now.
    pub(crate) fn limit(&self, settings: &Settings) -> Resources {
        self.nodes.sums.limit(settings)
    }

    /// The taints as kubectl writes them, separated by commas; empty for plain nodes.
    pub(crate) fn taints(&self) -> String {
        self.nodes.taints()
    }

    /// The nodes, for a message: "nodes with taint nvidia.com/gpu:NoSchedule".
    pub(crate) fn describe(&self) -> String {
        match self.taints() {
            taints if taints.is_empty() => "nodes without taints".to_owned(),
            taints => format!("nodes with taint {taints}"),
        }
    }
}
