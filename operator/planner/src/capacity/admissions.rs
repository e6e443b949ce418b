//! Which nodes let which placements in, kept up node by node. Demands that may go to the same nodes share a placement.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    named::Namings,
    slab::{Bits, Slab},
    view::{VIEWS, View},
};
use crate::values::{Node, Placement};

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
