//! Which placements may admit a node: the other way round than in [`super::labels`]. When a node changes, only these have to
//! be looked at, however many others name nodes of their own.

use std::collections::{BTreeMap, BTreeSet};

use crate::values::{Name, Named, Node, Placement};

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

    /// All placements that may admit a node.
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
