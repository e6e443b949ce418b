//! Which nodes let which placements in, kept up node by node. Demands that may go to the same nodes share a placement.
//!
//! [`Labels`] knows which nodes have a label, by its value. Where a placement names a few nodes, as the node affinity of a local
//! volume or of a DaemonSet's pod does, only these have to be looked at to find out which of them admit it.
//!
//! [`Namings`] knows the other way round which placements may admit a node. When a node changes, only these have to
//! be looked at, however many others name nodes of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    node::Entry,
    table::{Bits, Slab, VIEWS, View},
};
use crate::values::{Name, Named, Node, Placement};

/// Every placement that somebody waits with, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Admissions {
    all: Slab<Admission>,
    numbers: BTreeMap<Placement, usize>,
    namings: Namings,
    /// Those that other nodes let in, once they are ready, since [`Self::take_readmitted`].
    readmitted: BTreeSet<usize>,
}

/// Which nodes let a placement in.
#[derive(Debug, Clone)]
struct Admission {
    placement: Placement,
    users: usize,
    /// In each view.
    nodes: [Bits; VIEWS],
}

/// Placements for which a node has changed, by number, and whether it lets them in now, in each view.
pub(super) type Changes = BTreeMap<usize, [bool; VIEWS]>;

impl Admissions {
    /// One more demand has this placement. `candidates` gives all nodes that may let it in, with their numbers.
    pub(super) fn add_user<'a>(
        &mut self,
        placement: &Placement,
        candidates: impl FnOnce(&Placement) -> Vec<(usize, &'a Node)>,
    ) -> usize {
        let number = match self.numbers.get(placement) {
            Some(number) => *number,
            None => {
                let nodes = nodes_of(placement, candidates(placement));
                let number = self.all.add(Admission { placement: placement.clone(), users: 0, nodes });
                self.numbers.insert(placement.clone(), number);
                self.namings.add(number, placement);
                number
            }
        };
        self.all.at_mut(number).users += 1;
        number
    }

    /// One demand less has it.
    pub(super) fn remove_user(&mut self, number: usize) {
        let admission = self.all.at_mut(number);
        admission.users -= 1;
        if admission.users == 0 {
            let Admission { placement, .. } = self.all.remove(number);
            self.numbers.remove(&placement);
            self.namings.remove(number, &placement);
        }
    }

    /// The nodes that let a placement in.
    pub(super) fn nodes(&self, number: usize, view: View) -> &Bits {
        &self.all.at(number).nodes[view as usize]
    }

    /// What is different once a node is as it is now; none if it is gone.
    pub(super) fn changes(&self, slot: usize, node: Option<&Node>) -> Changes {
        let is_let_in = |one: &Admission| one.nodes.iter().any(|nodes| nodes.get(slot));
        let all = self.all.items.iter().enumerate();
        let was_let_in = all.filter(|(_, one)| one.as_ref().is_some_and(is_let_in)).map(|(number, _)| number);
        let may_be_let_in = node.into_iter().flat_map(|node| self.namings.that_may_admit(node));
        let mut changes = Changes::new();
        for number in was_let_in.chain(may_be_let_in) {
            let Admission { placement, nodes, .. } = self.all.at(number);
            let admits = node.map_or([false; VIEWS], |node| View::all_admit(placement, node));
            if View::ALL.iter().any(|view| nodes[*view as usize].get(slot) != admits[*view as usize]) {
                changes.insert(number, admits);
            }
        }
        changes
    }

    /// Takes in what [`Self::changes`] found.
    pub(super) fn set(&mut self, slot: usize, changes: Changes) {
        for (number, admits) in changes {
            let nodes = &mut self.all.at_mut(number).nodes;
            let empty = View::Empty as usize;
            if nodes[empty].get(slot) != admits[empty] {
                self.readmitted.insert(number);
            }
            nodes.iter_mut().zip(admits).for_each(|(nodes, admits)| nodes.set(slot, admits));
        }
    }

    /// Finds out of every placement which nodes let it in.
    pub(super) fn begin_again<'a>(
        &mut self,
        mut candidates: impl FnMut(&Placement) -> Vec<(usize, &'a Node)>,
    ) {
        for admission in self.all.items.iter_mut().flatten() {
            admission.nodes = nodes_of(&admission.placement, candidates(&admission.placement));
        }
    }

    /// Placements that other nodes let in, once they are ready, since this was called last.
    pub(super) fn take_readmitted(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.readmitted)
    }
}

/// Those of the candidates that let a placement in, in each view.
fn nodes_of(placement: &Placement, candidates: Vec<(usize, &Node)>) -> [Bits; VIEWS] {
    let mut nodes: [Bits; VIEWS] = Default::default();
    for (slot, node) in candidates {
        let admits = View::all_admit(placement, node);
        for (nodes, admits) in nodes.iter_mut().zip(admits).filter(|(_, admits)| *admits) {
            nodes.set(slot, admits);
        }
    }
    nodes
}

/// Anybody may write any key into a nodeSelector, and each costs a number for every node that has it. Beyond so many all
/// are forgotten, and found out again when a placement names them.
const MOST_KEYS: usize = 64;

/// Numbers of nodes by the value of a label, for the keys that placements have named.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels {
    keys: BTreeMap<Name, BTreeMap<Name, BTreeSet<usize>>>,
}

impl Labels {
    /// A node has other labels, came or went.
    pub(super) fn change(&mut self, slot: usize, before: Option<&Node>, after: Option<&Node>) {
        for (key, values) in &mut self.keys {
            let value = |node: Option<&Node>| node.and_then(|node| node.labels.get(key)).cloned();
            let (before, after) = (value(before), value(after));
            if before == after {
                continue;
            }
            if let Some(before) = before
                && let Some(slots) = values.get_mut(&before)
            {
                slots.remove(&slot);
                if slots.is_empty() {
                    values.remove(&before);
                }
            }
            if let Some(after) = after {
                values.entry(after).or_default().insert(slot);
            }
        }
    }

    /// All nodes that may admit a placement, with their numbers: those that have what its narrowest requirement names.
    pub(super) fn candidates<'a>(
        &mut self,
        placement: &Placement,
        nodes: &'a BTreeMap<Name, Entry>,
        names: &[Option<Name>],
    ) -> Vec<(usize, &'a Node)> {
        let requirements: Vec<Vec<Named<'_>>> = placement.requirements().collect();
        for named in requirements.iter().flatten() {
            if let Named::Label(key, _) = named {
                self.learn(key, nodes);
            }
        }
        let all = |list: Vec<Named<'_>>| {
            let mut slots: BTreeSet<usize> = BTreeSet::new();
            for named in list {
                match named {
                    // Keys are forgotten while others are found out, if a placement names too many.
                    Named::Label(key, value) => {
                        slots.extend(self.keys.get(key)?.get(value).into_iter().flatten());
                    }
                    Named::Node(name) => slots.extend(nodes.get(name).map(|entry| entry.slot)),
                }
            }
            Some(slots)
        };
        let node = |entry: &'a Entry| Some((entry.slot, entry.node.as_ref()?));
        match requirements.into_iter().filter_map(all).min_by_key(BTreeSet::len) {
            Some(narrowest) => {
                let names = narrowest.into_iter().filter_map(|slot| names.get(slot)?.as_ref());
                names.filter_map(|name| nodes.get(name).and_then(node)).collect()
            }
            None => nodes.values().filter_map(node).collect(),
        }
    }

    /// Finds out which nodes have a label of this key, if that is not known.
    fn learn(&mut self, key: &Name, nodes: &BTreeMap<Name, Entry>) {
        if self.keys.contains_key(key) {
            return;
        }
        if self.keys.len() >= MOST_KEYS {
            self.keys.clear();
        }
        let mut values: BTreeMap<Name, BTreeSet<usize>> = BTreeMap::new();
        for entry in nodes.values() {
            if let Some(value) = entry.node.as_ref().and_then(|node| node.labels.get(key)) {
                values.entry(value.clone()).or_default().insert(entry.slot);
            }
        }
        self.keys.insert(key.clone(), values);
    }

    /// True if this is what follows from the nodes.
    #[cfg(any(test, feature = "fixtures"))]
    pub(super) fn are_right(&self, nodes: &BTreeMap<Name, Entry>) -> bool {
        let mut truth = Self::default();
        self.keys.keys().for_each(|key| truth.learn(key, nodes));
        self.keys == truth.keys
    }
}

/// Numbers of placements by what one of their requirements names. A node that has none of it they do not admit.
#[derive(Debug, Clone, Default)]
pub(super) struct Namings {
    labels: BTreeMap<Name, BTreeMap<Name, BTreeSet<usize>>>,
    nodes: BTreeMap<Name, BTreeSet<usize>>,
    /// Those that name nothing: every node may be meant.
    others: BTreeSet<usize>,
}

impl Namings {
    /// Takes in a placement, under the requirement that distinguishes it best from those that are there.
    pub(super) fn add(&mut self, number: usize, placement: &Placement) {
        let requirements = placement.requirements();
        let shared = |list: &Vec<Named<'_>>| list.iter().map(|named| self.named_by(*named)).sum::<usize>();
        let Some(list) = requirements.min_by_key(shared) else {
            self.others.insert(number);
            return;
        };
        for named in list {
            match named {
                Named::Label(key, value) => {
                    let values = self.labels.entry(key.clone()).or_default();
                    values.entry(value.clone()).or_default().insert(number);
                }
                Named::Node(name) => _ = self.nodes.entry(name.clone()).or_default().insert(number),
            }
        }
    }

    /// Forgets a placement.
    pub(super) fn remove(&mut self, number: usize, placement: &Placement) {
        self.others.remove(&number);
        for named in placement.requirements().flatten() {
            match named {
                Named::Label(key, value) => {
                    let Some(values) = self.labels.get_mut(key) else { continue };
                    take_out(values, value, number);
                    if values.is_empty() {
                        self.labels.remove(key);
                    }
                }
                Named::Node(name) => take_out(&mut self.nodes, name, number),
            }
        }
    }

    pub(super) fn that_may_admit(&self, node: &Node) -> impl Iterator<Item = usize> {
        let by_label = node.labels.iter().filter_map(|(key, value)| self.labels.get(key)?.get(value));
        by_label.chain(self.nodes.get(&node.name)).chain([&self.others]).flatten().copied()
    }

    fn named_by(&self, named: Named<'_>) -> usize {
        let numbers = match named {
            Named::Label(key, value) => self.labels.get(key).and_then(|values| values.get(value)),
            Named::Node(name) => self.nodes.get(name),
        };
        numbers.map_or(0, BTreeSet::len)
    }
}

/// Takes a number out of a list, and the list, once it is empty.
fn take_out(lists: &mut BTreeMap<Name, BTreeSet<usize>>, name: &Name, number: usize) {
    if let Some(numbers) = lists.get_mut(name) {
        numbers.remove(&number);
        if numbers.is_empty() {
            lists.remove(name);
        }
    }
}
