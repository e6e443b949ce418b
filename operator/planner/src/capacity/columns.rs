//! Which column of the index holds which resource. Only resources that a node has get one: anybody may write any name
//! into a pod, and a column costs an amount for each node.

use std::{collections::BTreeMap, sync::Arc};

use crate::values::resources::{CPU, MEMORY, PODS, Resources};

/// Columns of cpu, memory and pods, which every node has, and of extended resources after them.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    extended: BTreeMap<Arc<str>, usize>,
}

/// Columns of the resources that every node has.
const COMMON: usize = 3;

impl Columns {
    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        COMMON + self.extended.len()
    }

    /// True for the column of an extended resource.
    pub(super) fn is_extended(column: usize) -> bool {
        column >= COMMON
    }

    /// A node has this resource. True if its column is new: the last one.
    pub(super) fn add(&mut self, name: &Arc<str>) -> bool {
        if self.extended.contains_key(name) {
            return false;
        }
        self.extended.insert(name.clone(), self.width());
        true
    }

    pub(super) fn of(&self, name: &str) -> Option<usize> {
        match name {
            CPU => Some(0),
            MEMORY => Some(1),
            PODS => Some(2),
            _ => self.extended.get(name).copied(),
        }
    }

    /// Columns and amounts of what a pod asks for; none if it asks for a resource that no node has.
    pub(super) fn amounts(&self, per_pod: &Resources) -> Option<Vec<(usize, i64)>> {
        let asks_for = per_pod.iter().filter(|(_, amount)| *amount > 0);
        asks_for.map(|(name, amount)| Some((self.of(name)?, amount))).collect()
    }

    /// Writes amounts in the order of the columns. What has no column is on no node.
    pub(super) fn fill(&self, row: &mut [i64], resources: &Resources) {
        row[..COMMON].copy_from_slice(&[resources.cpu_milli, resources.memory_bytes, resources.pods]);
        for (name, amount) in &resources.other {
            if let Some(column) = self.extended.get(name) {
                row[*column] = *amount;
            }
        }
    }
}
