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

use std::collections::BTreeMap;

use super::{
    node::{Entry, Scope},
    slab::{Bits, Reach, Slab},
    sums::Sums,
};
use crate::values::{Node, Taint, resources::Resources};

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
