//! Groups of nodes: those of the pool with the same taints. Thresholds hold for the pool, and for what a ScavengerJob can
//! reach of it.
//!
//! A pool with plain nodes and tainted ones (GPUs, spot instances) is not one capacity: who does not tolerate the taint
//! has the plain nodes alone. Counted over the whole pool, ScavengerJobs would fill these to the brim while the tainted
//! ones stand empty, and an ordinary pod would find nothing free where it can go. So a start must stay below the threshold
//! in the pool, and in the groups together that the ScavengerJob can *reach*: those with a node that lets it in (node
//! selector, affinity, tolerations), and which have every extended resource that it asks for. What it reaches may be all
//! groups: then the pool's own threshold says it all. Headroom is kept in the same way (`causes::headroom`).
//!
//! Who can reach several groups is counted over all of them: where kube-scheduler puts it is not decided here. It prefers
//! nodes with more that is free, so it fills a group beyond the threshold only if it is told to pack.
//!
//! Everything is kept up change by change, as in the pool's own sums.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Ask, Capacity, Entry,
    own::Own,
    slab::{Bits, Slab},
};
use crate::values::{Demand, Headroom, Name, Node, Settings, Taint, resources::Resources};

/// A set of groups by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reach(u64);

impl Reach {
    pub(super) fn contains(self, group: usize) -> bool {
        self.0 >> group & 1 == 1
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn add(&mut self, group: usize) {
        self.0 |= 1 << group;
    }
}

/// So many groups are told apart; the nodes of others count in the pool only.
const MOST: usize = 64;

/// The nodes of the pool with the same taints.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    taints: Vec<Taint>,
    /// By their numbers.
    pub(super) nodes: Bits,
    count: usize,
    pub(super) sums: Sums,
}

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
    fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
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

    fn add(&mut self, more: &Self) {
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

/// What keeps pods off a node whatever its state is, in a fixed order.
pub(super) fn taints(node: &Node) -> Vec<Taint> {
    let lasting = node.taints.iter().filter(|taint| taint.repels() && !taint.passes());
    let mut taints: Vec<Taint> = lasting.cloned().collect();
    taints.sort_unstable();
    taints.dedup();
    taints
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    numbers: BTreeMap<Vec<Taint>, usize>,
    groups: Slab<Nodes>,
}

impl Groups {
    /// The group of a node of the pool, which is made if it is the first one; none if there are too many.
    pub(super) fn number_of(&mut self, node: &Node) -> Option<usize> {
        let taints = taints(node);
        if let Some(number) = self.numbers.get(&taints) {
            return Some(*number);
        }
        if self.numbers.len() == MOST {
            return None;
        }
        let number = self.groups.add(Nodes { taints: taints.clone(), ..Nodes::default() });
        self.numbers.insert(taints, number);
        Some(number)
    }

    /// The node counts in its group.
    pub(super) fn add(&mut self, entry: &Entry) {
        if let Some(number) = entry.group {
            self.groups.at_mut(number).sums.change(entry, Resources::add);
        }
    }

    /// The node counts in its group no longer, until it does again.
    pub(super) fn subtract(&mut self, entry: &Entry) {
        if let Some(number) = entry.group {
            self.groups.at_mut(number).sums.change(entry, Resources::subtract);
        }
    }

    /// The node of this number is in another group than before. A group without nodes goes.
    pub(super) fn moved(&mut self, slot: usize, from: Option<usize>, to: Option<usize>) {
        if let Some(number) = to {
            let group = self.groups.at_mut(number);
            group.nodes.set(slot, true);
            group.count += 1;
        }
        if let Some(number) = from {
            let group = self.groups.at_mut(number);
            group.nodes.set(slot, false);
            group.count -= 1;
            if group.count == 0 {
                let group = self.groups.remove(number);
                self.numbers.remove(&group.taints);
            }
        }
    }

    /// What is promised on a node now.
    pub(super) fn set_promised(&mut self, entry: &mut Entry, promised: Option<&Resources>) {
        if promised.map_or(entry.promised == Resources::default(), |promised| *promised == entry.promised) {
            return;
        }
        self.subtract(entry);
        entry.promised = promised.cloned().unwrap_or_default();
        self.add(entry);
    }

    /// Compares the groups with the nodes that they are made from.
    ///
    /// # Errors
    /// What differs.
    pub(super) fn check<'a>(&self, nodes: impl Iterator<Item = &'a Entry>) -> Result<(), String> {
        let mut truth: BTreeMap<usize, (usize, Sums)> = BTreeMap::new();
        for entry in nodes {
            let Some(number) = entry.group else { continue };
            let is_there = self.groups.items.get(number).is_some_and(|group| {
                let of_node = entry.node.as_ref().map(taints);
                group.as_ref().is_some_and(|group| {
                    Some(&group.taints) == of_node.as_ref() && group.nodes.get(entry.slot)
                })
            });
            if !is_there {
                return Err(format!("a node counts in group {number}, which is not its own"));
            }
            let (count, sums) = truth.entry(number).or_default();
            *count += 1;
            sums.change(entry, Resources::add);
        }
        let known = self.iter().map(|(number, group)| (number, (group.count, group.sums.clone())));
        if known.collect::<BTreeMap<_, _>>() != truth {
            return Err("the sums of the groups of nodes differ from those of their nodes".to_owned());
        }
        Ok(())
    }

    /// Every group with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Nodes)> {
        self.groups.items.iter().enumerate().filter_map(|(number, group)| Some((number, group.as_ref()?)))
    }

    /// True if there are several groups, so that one does not say what the pool does.
    pub(super) fn are_several(&self) -> bool {
        self.numbers.len() > 1
    }

    /// All groups.
    pub(super) fn all(&self) -> Reach {
        let mut all = Reach::default();
        self.iter().for_each(|(number, _)| all.add(number));
        all
    }

    /// The sums over all groups of a set.
    pub(super) fn sums(&self, reach: Reach) -> Sums {
        let mut sums = Sums::default();
        self.iter()
            .filter(|(number, _)| reach.contains(*number))
            .for_each(|(_, group)| sums.add(&group.sums));
        sums
    }
}

impl Nodes {
    /// True if some node has each extended resource that a pod asks for.
    pub(super) fn has_all_that(&self, per_pod: &Resources) -> bool {
        per_pod.other.iter().all(|(name, amount)| *amount <= 0 || self.sums.eligible.get(name) > 0)
    }

    /// The taints as kubectl writes them, separated by commas.
    fn taints(&self) -> String {
        let taint = |taint: &Taint| match &*taint.value {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        };
        self.taints.iter().map(taint).collect::<Vec<_>>().join(", ")
    }
}

impl Capacity {
    /// Finds out what a demand reaches.
    pub(crate) fn set_reach(&mut self, ask: Ask) {
        let mut reach = Reach::default();
        if self.groups.are_several() {
            for (number, group) in self.groups.iter() {
                if self.places.lets_in_some_of(ask, &group.nodes)
                    && group.has_all_that(&self.places.demand(ask).per_pod)
                {
                    reach.add(number);
                }
            }
        }
        let is_whole = reach.is_empty() || reach == self.groups.all();
        self.places.set_reach(ask, reach, is_whole);
    }

    /// Finds it out for every demand, after nodes or settings have changed.
    pub(super) fn reach_anew(&mut self) {
        if !self.groups.are_several() && !self.places.has_parts() {
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
        Some((self.groups.sums(reach), self.places.takeable_in(part)))
    }

    /// Amounts of the pool, and the same of each part of it, for [`Self::is_within`].
    pub(super) fn row_of_parts(&self, pool: &Resources, part: impl Fn(Sums) -> Resources) -> Vec<i64> {
        self.places.row_of_parts(pool, |number, reach| {
            let mut amounts = part(self.groups.sums(reach));
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
        let groups = self.groups.iter().filter(|_| self.groups.are_several());
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
        Some(group.allocatable.minus(&group.nodes.sums.by_use.0))
    }

    /// The same of what pods use that are bound to them.
    pub(crate) fn used_by_bound_in(&self, group: usize) -> Resources {
        let there = self.groups().find(|one| one.number == group);
        let by_requests = |group: Group<'_>| group.used.minus(&group.nodes.sums.by_use.1);
        let mut used = there.map(by_requests).unwrap_or_default();
        for occupant in self.nominated.iter().filter_map(|pod| self.occupants.get(pod)) {
            if self.is_in_group(&occupant.node, group) {
                used.subtract(&self.counted_of(occupant));
            }
        }
        used
    }

    /// True if the node is of this group, and takes pods now.
    pub(crate) fn is_in_group(&self, node: &Name, group: usize) -> bool {
        self.nodes.get(node).is_some_and(|entry| entry.in_pool && entry.group == Some(group))
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
        let (whole, used) = &self.nodes.sums.by_use;
        headroom.suffices(&self.used.minus(used), &self.allocatable.minus(whole))
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
