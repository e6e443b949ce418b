//! What fits, stated plainly over the nodes as they are: the tests hold the index against it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Capacity,
    node::Entry,
    promises::Ledger,
    questions::{self, KeptOff, OF_PART, WHERE, place},
    sums::{self, Sums},
    table::View,
};
use crate::values::{Demand, Name, Node, Placement, Settings, Shortage, Taint, resources::Resources};

impl Capacity {
    /// Why a demand would not fit even if nothing else ran and every node of the pool were ready; none if it would.
    /// Nodes that are not usable at the moment count here: that a node restarts is no reason to give up.
    pub fn never_fits_plainly(&self, demand: &Demand, settings: &Settings) -> Option<Shortage> {
        let part = self.part_plainly(demand, &Ledger::default());
        let exceeds_part = |(sums, _): &(Sums, _)| {
            questions::exceeds_all(demand, (&sums.eligible, &sums.own_eligible), WHERE, settings)
        };
        let shortage = self.exceeds_pool(demand, settings).or_else(|| part.as_ref().and_then(exceeds_part));
        if shortage.is_some() {
            return shortage;
        }
        if self.eligible_nodes == 0 {
            return None;
        }
        let rows = self.places.rows(demand, View::Empty);
        let rooms = self.nodes.values().filter_map(|entry| {
            let rooms = entry.free_by_view(None, self.chooses_nodes);
            Some((entry.node.as_ref()?, rooms.into_iter().nth(rows).flatten()?))
        });
        place(demand, View::Empty, rooms).err().map(|placed| self.never_placed(demand, placed))
    }

    fn never_placed(&self, demand: &Demand, placed: u32) -> Shortage {
        self.not_placed(demand, placed, self.suitable(demand), KeptOff::default(), "even if nothing else ran")
    }

    /// Nodes for the pods of a demand in the capacity there is now, or why there is none.
    ///
    /// # Errors
    /// `Shortage` naming the threshold or the nodes.
    pub fn fit(&self, demand: &Demand, ledger: &Ledger, settings: &Settings) -> Result<Vec<Name>, Shortage> {
        self.exceeds_free(demand, ledger, settings).map_or(Ok(()), Err)?;
        if let Some((sums, takeable)) = self.part_plainly(demand, ledger) {
            let free = questions::free_in(&sums, Some(&takeable), settings);
            let left = (&sums.allocatable, &sums.own);
            let shortage = self.exceeds_left(demand, &free, left, OF_PART, settings);
            shortage.map_or(Ok(()), Err)?;
        }
        self.nodes_for(demand, ledger).map_err(|placed| {
            self.not_placed(demand, placed, self.suitable(demand), self.kept_off_by(demand), "now")
        })
    }

    /// Checks that no more is used of what a demand reaches than its threshold, in what it asks for itself.
    ///
    /// # Errors
    /// What is beyond it.
    pub(crate) fn check_part(
        &self,
        demand: &Demand,
        ledger: &Ledger,
        settings: &Settings,
    ) -> Result<(), String> {
        let Some((sums, takeable)) = self.part_plainly(demand, ledger) else { return Ok(()) };
        let free = questions::free_in(&sums, Some(&takeable), settings);
        let asked = demand.total();
        let mut asked = asked.iter().filter(|(_, amount)| *amount > 0);
        match asked.find(|(name, _)| free.get(name) < 0) {
            Some((name, _)) => {
                Err(format!("{} {name} are beyond the threshold where it can go", -free.get(name)))
            }
            None => Ok(()),
        }
    }

    /// The sums of what a demand reaches, if that is not the whole pool, and what pending pods are about to take there.
    fn part_plainly(&self, demand: &Demand, ledger: &Ledger) -> Option<(Sums, Resources)> {
        let mut groups: BTreeMap<Vec<Taint>, Vec<(&Name, &Entry)>> = BTreeMap::new();
        for (name, entry) in self.nodes.iter().filter(|(_, entry)| entry.is_eligible()) {
            if let Some(node) = &entry.node {
                groups.entry(sums::taints(node)).or_default().push((name, entry));
            }
        }
        let reached = |per_pod: &Resources, placement: &Placement| -> BTreeSet<&Vec<Taint>> {
            let lets_in = |node: &Node| View::Empty.admits(placement, node);
            let is_reached = |nodes: &[(&Name, &Entry)]| {
                let nodes = || nodes.iter().filter_map(|(_, entry)| entry.node.as_ref());
                let mut extended = per_pod.other.iter().filter(|(_, amount)| **amount > 0);
                nodes().any(lets_in)
                    && extended.all(|(name, _)| nodes().any(|node| node.allocatable.get(name) > 0))
            };
            groups.iter().filter(|(_, nodes)| is_reached(nodes)).map(|(taints, _)| taints).collect()
        };
        let reach = reached(&demand.per_pod, &demand.placement);
        if reach.is_empty() || reach.len() == groups.len() {
            return None;
        }
        let mut sums = Sums::default();
        for (name, entry) in reach.iter().flat_map(|taints| &groups[*taints]) {
            sums.add_node(entry);
            if let Some(promised) = ledger.promised(name).filter(|_| entry.is_in_pool()) {
                sums.promised.add(promised);
            }
        }
        let mut takeable = Resources::default();
        for (_, requests, placement) in self.pending() {
            let there = reached(requests, placement);
            if !there.is_empty() && there.is_subset(&reach) && self.is_takeable(requests, placement) {
                takeable.add(requests);
            }
        }
        Some((sums, takeable))
    }

    fn suitable(&self, demand: &Demand) -> usize {
        let nodes = self.nodes.values().filter(|entry| entry.is_eligible());
        let nodes = nodes.filter_map(|entry| entry.node.as_ref());
        nodes.filter(|node| View::Empty.admits(&demand.placement, node)).count()
    }
}
