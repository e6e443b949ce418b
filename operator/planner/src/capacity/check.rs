//! Holds what [`Capacity`] keeps up change by change against what it is made from.

use std::collections::BTreeMap;

use super::{
    Capacity,
    node::Scope,
    sums::{Sums, own_group},
};
use crate::values::{Name, resources::Resources};

#[cfg(any(test, feature = "fixtures"))]
use crate::capacity::node::Entry;
#[cfg(any(test, feature = "fixtures"))]
use crate::capacity::promises::Ledger;
#[cfg(any(test, feature = "fixtures"))]
use crate::capacity::questions::place;
#[cfg(any(test, feature = "fixtures"))]
use crate::capacity::table::View;

impl Capacity {
    /// Compares the sums with the pods and nodes that they are made from.
    ///
    /// # Errors
    /// What differs.
    pub(crate) fn check_totals(&self) -> Result<(), String> {
        let mut on_nodes: BTreeMap<&Name, (Resources, Resources, Resources)> = BTreeMap::new();
        for occupant in self.occupants.values() {
            let (used, ordinary, beyond) = on_nodes.entry(&occupant.node).or_default();
            used.add(&occupant.requests);
            beyond.add(&occupant.beyond());
            if occupant.owner.is_none() {
                ordinary.add(&occupant.requests);
            }
        }
        let (mut pool, mut own): (Sums, BTreeMap<usize, Sums>) = (Sums::default(), BTreeMap::new());
        for (name, entry) in &self.nodes {
            let (used_there, ordinary_there, beyond_there) = on_nodes.remove(name).unwrap_or_default();
            if (&used_there, &ordinary_there, &beyond_there) != (&entry.used, &entry.ordinary, &entry.beyond)
            {
                return Err(format!("{} are used on node {name} instead of {used_there}", entry.used));
            }
            pool.change(entry, Scope::Pool, Resources::add);
            if let Some(group) = own_group(entry) {
                own.entry(group).or_default().change(entry, Scope::Group, Resources::add);
            }
        }
        self.totals.taints.check(self.nodes.values())?;
        if !self.borders.are_right(self.nodes.iter()) {
            return Err(
                "the nodes that are closed, or outside the pool, differ from what they are made from"
                    .to_owned(),
            );
        }
        if !on_nodes.is_empty() {
            return Err(format!("nodes with pods that are not known: {}", on_nodes.len()));
        }
        own.retain(|_, sums| *sums != Sums::default());
        if own != self.totals.own {
            return Err(
                "the sums of groups with limits of their own differ from those of their nodes".to_owned()
            );
        }
        let known = &self.totals.pool;
        if pool != *known {
            return Err(format!(
                "the pool has {} with {} used instead of {} with {}, or another of its sums differs",
                known.allocatable, known.used, pool.allocatable, pool.used
            ));
        }
        Ok(())
    }

    /// Makes a sum differ from what it is made from.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self) {
        self.totals.pool.used.cpu_milli += 1;
    }

    /// Checks the index against what it is made from.
    ///
    /// # Errors
    /// What differs.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn check_index(&self, ledger: &Ledger) -> Result<(), String> {
        if !self.stale.is_empty() {
            return Err(format!("nodes that are not in the index: {}", self.stale.len()));
        }
        let mut namespaces: BTreeMap<Name, Resources> = BTreeMap::new();
        for (key, occupant) in self.occupants.iter().filter(|(_, occupant)| occupant.owner.is_some()) {
            namespaces.entry(key.namespace.clone()).or_default().add(occupant.holds());
            if !self.nodes.get(&occupant.node).is_some_and(|entry| entry.scavengers.contains(key)) {
                return Err(format!("{key} is not on the list of node {}", occupant.node));
            }
        }
        let is_listed = |entry: &Entry| !entry.is_open() && !entry.scavengers.is_empty();
        if !self.nodes.iter().filter(|(_, entry)| is_listed(entry)).map(|(name, _)| name).eq(&self.not_open) {
            return Err(format!("nodes with ScavengerJobs that take no more are not {:?}", self.not_open));
        }
        if namespaces != self.namespaces {
            return Err(format!("namespaces occupy {:?} instead of {namespaces:?}", self.namespaces));
        }
        if !self.labels.are_right(&self.nodes) {
            return Err("labels differ from those of the nodes".to_owned());
        }
        let takeable = self.takeable();
        if self.places.takeable().is_some_and(|known| *known != takeable) {
            return Err(format!(
                "{:?} are taken to be pending instead of {takeable}",
                self.places.takeable()
            ));
        }
        let (mut eligible, mut ordinary) = (Resources::default(), Resources::default());
        for entry in self.nodes.values().filter(|entry| entry.is_eligible()) {
            let Some(node) = &entry.node else { return Err("a node that is gone is eligible".to_owned()) };
            eligible.add(&node.allocatable);
            if entry.is_in_pool() {
                ordinary.add(&entry.counted_ordinary());
            }
        }
        if eligible != self.totals.pool.eligible || ordinary != self.totals.pool.ordinary {
            return Err("totals differ from those of the nodes".to_owned());
        }
        for (demand, table, counts) in self.places.counts() {
            for view in View::ALL {
                let Some(count) = counts[view as usize] else { continue };
                let mut truth = 0;
                for (name, entry) in &self.nodes {
                    let Some(node) = &entry.node else { continue };
                    let rows = table.rows(view);
                    let rooms = entry.free_by_view(ledger.promised(name), self.chooses_nodes);
                    let room = rooms.into_iter().nth(rows).flatten();
                    truth +=
                        room.map_or(0, |room| match place(demand, view, std::iter::once((node, room))) {
                            Ok(_) => u64::from(demand.units().1),
                            Err(placed) => u64::from(placed),
                        });
                }
                if count != truth {
                    return Err(format!(
                        "{count} places are known for {demand:?} in {view:?} instead of {truth}"
                    ));
                }
            }
        }
        Ok(())
    }
}
