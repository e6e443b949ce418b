//! Sums over nodes, kept up node by node: what they have, what is used of it, and how far it may be filled. There is one for each
//! scope: for the pool, for its nodes with the same taints, and for each group with thresholds of its own.
//!
//! # Nodes with the same taints
//!
//! Thresholds hold for the pool, and for what a ScavengerJob can reach of it.
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
//! # Borders
//!
//! Where pods of ScavengerJobs must not be, or not for long: nodes of the pool that are closed to new pods, nodes that are about to
//! leave the pool, and nodes outside it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    node::{Entry, Scope},
    table::{Bits, Reach, Slab},
};
use crate::values::{Name, Node, Settings, Taint, resources::Resources};

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

/// The sums of every scope.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) pool: Sums,
    pub(super) taints: Groups,
    /// By the number of the group in the settings; one without nodes is not there.
    pub(super) own: BTreeMap<usize, Sums>,
}

impl Totals {
    /// A node counts in all of them from now on, or no longer.
    pub(super) fn change(&mut self, entry: &Entry, change: fn(&mut Resources, &Resources)) {
        self.pool.change(entry, Scope::Pool, change);
        if let Some(sums) = self.taints.sums_of(entry) {
            sums.change(entry, Scope::Pool, change);
        }
        if let Some(group) = own_group(entry) {
            let sums = self.own.entry(group).or_default();
            sums.change(entry, Scope::Group, change);
            if *sums == Sums::default() {
                self.own.remove(&group);
            }
        }
    }

    /// What is promised on a node now.
    pub(super) fn set_promised(&mut self, entry: &mut Entry, promised: Option<&Resources>) {
        if promised.map_or(entry.promised == Resources::default(), |promised| *promised == entry.promised) {
            return;
        }
        let before = std::mem::replace(&mut entry.promised, promised.cloned().unwrap_or_default());
        if !entry.is_in_pool() {
            return;
        }
        let own = own_group(entry).and_then(|group| self.own.get_mut(&group));
        for sums in [Some(&mut self.pool), self.taints.sums_of(entry), own].into_iter().flatten() {
            sums.promised.subtract(&before);
            sums.promised.add(&entry.promised);
        }
    }
}

/// The group with thresholds of its own in which a node counts.
pub(super) fn own_group(entry: &Entry) -> Option<usize> {
    entry.limit.as_ref()?.group
}

/// So many groups are told apart; the nodes of others count in the pool only.
const MOST: usize = 64;

/// The nodes of the pool with the same taints.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    pub(super) taints: Vec<Taint>,
    /// By their numbers.
    pub(super) nodes: Bits,
    count: usize,
    pub(super) sums: Sums,
}

/// What keeps pods off a node whatever its state is, in a fixed order.
pub(super) fn taints(node: &Node) -> Vec<Taint> {
    let lasting = node.taints.iter().filter(|taint| taint.repels() && !taint.passes());
    let mut taints: Vec<Taint> = lasting.cloned().collect();
    taints.sort_unstable();
    taints.dedup();
    taints
}

/// The nodes of the pool by their taints.
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

    /// The sums of the group in which a node counts.
    pub(super) fn sums_of(&mut self, entry: &Entry) -> Option<&mut Sums> {
        entry.group.map(|number| &mut self.groups.at_mut(number).sums)
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
            sums.change(entry, Scope::Pool, Resources::add);
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
    pub(super) fn taints(&self) -> String {
        let taint = |taint: &Taint| match &*taint.value {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        };
        self.taints.iter().map(taint).collect::<Vec<_>>().join(", ")
    }
}

/// The nodes where new pods, or any pods, of ScavengerJobs must not be; kept up to date change by change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Borders {
    /// Nodes of the pool that are closed to new pods.
    pub(super) closed: BTreeSet<Name>,
    /// Nodes of the pool that leave it at a time that is announced.
    pub(super) leaving: BTreeSet<Name>,
    /// Nodes outside the pool with pods of ScavengerJobs on them.
    pub(super) outside: BTreeSet<Name>,
}

impl Borders {
    /// Takes in what became of a node.
    pub(super) fn set(&mut self, name: &Name, entry: &Entry) {
        // Of a node that is gone nothing is known; its pods are deleted by the garbage collector.
        let outside = entry.node.is_some() && !entry.is_eligible() && !entry.scavengers.is_empty();
        let leaves = entry.is_eligible() && entry.node.as_ref().is_some_and(|node| node.until.is_some());
        let sets = [
            (&mut self.closed, entry.closed().is_some()),
            (&mut self.leaving, leaves),
            (&mut self.outside, outside),
        ];
        for (set, is_in) in sets {
            if is_in != set.contains(name) {
                if is_in {
                    set.insert(name.clone())
                } else {
                    set.remove(name)
                };
            }
        }
    }

    /// True if this is what follows from the nodes.
    pub(super) fn are_right<'a>(&self, nodes: impl Iterator<Item = (&'a Name, &'a Entry)>) -> bool {
        let mut truth = Self::default();
        for (name, entry) in nodes {
            truth.set(name, entry);
        }
        truth == *self
    }
}
