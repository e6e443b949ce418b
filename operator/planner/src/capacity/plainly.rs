//! What fits, stated plainly over the nodes as they are: the tests hold the index against it.

use super::{
    Capacity,
    index::View,
    questions::{Shortage, not_placed, place},
};
use crate::{
    ledger::Ledger,
    values::{Demand, Name, Settings},
};

impl Capacity {
    /// Why a demand would not fit even if nothing else ran and every node of the pool were ready; none if it would.
    /// Nodes that are not usable at the moment count here: that a node restarts is no reason to give up.
    #[must_use]
    pub fn never_fits_plainly(&self, demand: &Demand, settings: &Settings) -> Option<Shortage> {
        if let Some(shortage) = self.exceeds_pool(demand, settings) {
            return Some(shortage);
        }
        let nodes =
            self.nodes.values().filter(|entry| entry.eligible).filter_map(|entry| entry.node.as_ref());
        if self.eligible_nodes == 0 {
            return None;
        }
        let rooms = nodes.map(|node| (node, node.allocatable.clone()));
        place(demand, View::Empty, rooms).err().map(|placed| self.never_placed(demand, placed))
    }

    fn never_placed(&self, demand: &Demand, placed: u32) -> Shortage {
        not_placed(demand, placed, self.suitable(demand), "even if nothing else ran")
    }

    /// Nodes for the pods of a demand in the room there is now, or why there is none.
    ///
    /// # Errors
    /// `Shortage` naming the threshold or the nodes.
    pub fn fit(&self, demand: &Demand, ledger: &Ledger, settings: &Settings) -> Result<Vec<Name>, Shortage> {
        if let Some(shortage) = self.too_many_closed().or_else(|| self.exceeds_free(demand, ledger, settings))
        {
            return Err(shortage);
        }
        self.nodes_for(demand, ledger)
            .map_err(|placed| not_placed(demand, placed, self.suitable(demand), "now"))
    }

    fn suitable(&self, demand: &Demand) -> usize {
        let nodes = self.nodes.values().filter(|entry| entry.eligible);
        let nodes = nodes.filter_map(|entry| entry.node.as_ref());
        nodes.filter(|node| View::Empty.admits(&demand.placement, node)).count()
    }
}
