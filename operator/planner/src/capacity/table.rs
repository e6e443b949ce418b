//! What the index is made of: what is looked at on a node and for whom, which column holds which resource, a set of numbers, and a
//! store by number. Only resources that a node has get a column: anybody may write any name into a pod, and a column costs an
//! amount for each node.

use std::{collections::BTreeMap, sync::Arc};

use crate::values::{
    Node, Placement,
    resources::{CPU, MEMORY, PODS, Resources},
};

/// What is looked at on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// What is free now.
    Now,
    /// What would be free if no ScavengerJob were there.
    WithoutScavengers,
    /// The whole node, as it is when it is ready and not cordoned.
    Empty,
}

impl View {
    pub(super) const ALL: [Self; VIEWS] = [Self::Now, Self::WithoutScavengers, Self::Empty];

    /// True if pods of a placement may go to a node.
    pub(crate) fn admits(self, placement: &Placement, node: &Node) -> bool {
        match self {
            Self::Now | Self::WithoutScavengers => placement.admits(node),
            Self::Empty => placement.admits_when_ready(node),
        }
    }

    /// The same in each view. What a node does not admit when it is ready it admits in no view.
    pub(super) fn all_admit(placement: &Placement, node: &Node) -> [bool; VIEWS] {
        let empty = placement.admits_when_ready(node);
        let now = empty && placement.admits(node);
        [now, now, empty]
    }
}

/// For whom what is free on a node is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// For those that kube-scheduler places by what they request. On nodes that are counted by use, both must suffice.
    Requests,
    /// For those that the planner places by what is really used, or that must stay below limits of nodes. Empty while there
    /// are neither.
    Usage,
    /// For ordinary pods, whatever they really use and whatever limits nodes have: without ScavengerJobs alone. Empty while
    /// `Usage` is, for `Requests` says the same then.
    Ordinary,
}

impl Table {
    /// Where its rows are.
    pub(super) fn rows(self, view: View) -> usize {
        match self {
            Self::Requests | Self::Usage => self as usize * VIEWS + view as usize,
            Self::Ordinary => ORDINARY,
        }
    }
}

/// Where the rows of [`Table::Ordinary`] are.
const ORDINARY: usize = 2 * VIEWS;
/// Rows of all tables.
pub(super) const TABLES: usize = ORDINARY + 1;
pub(super) const VIEWS: usize = 3;

/// What is free on one node in each view of each table; none if the node does not count there.
pub(crate) type FreeByView = [Option<Resources>; TABLES];

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

/// A set of small numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn get(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) fn set(&mut self, number: usize, value: bool) {
        let word = number / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let bit = 1 << (number % 64);
        if value {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(mine, theirs)| mine & theirs != 0)
    }

    pub(super) fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(mine, theirs)| (mine & theirs).count_ones() as usize).sum()
    }

    /// The numbers that are in both, the smallest first. Costs nothing for 64 numbers of which none is in both.
    pub(super) fn both(&self, other: &Self) -> impl Iterator<Item = usize> {
        self.0.iter().zip(&other.0).enumerate().flat_map(|(word, (mine, theirs))| {
            let mut left = mine & theirs;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                // The lowest bit that is set goes.
                left &= left.checked_sub(1)?;
                Some(word * 64 + bit)
            })
        })
    }
}

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

/// Values under numbers that stay the same.
#[derive(Debug, Clone)]
pub(super) struct Slab<T> {
    /// By their numbers; none where a number is vacant.
    pub(super) items: Vec<Option<T>>,
    vacant: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn add(&mut self, item: T) -> usize {
        match self.vacant.pop() {
            Some(number) => {
                self.items[number] = Some(item);
                number
            }
            None => {
                self.items.push(Some(item));
                self.items.len() - 1
            }
        }
    }

    pub(super) fn at(&self, number: usize) -> &T {
        self.items[number].as_ref().expect("a number should be used only while its item is there")
    }

    pub(super) fn at_mut(&mut self, number: usize) -> &mut T {
        self.items[number].as_mut().expect("a number should be used only while its item is there")
    }

    pub(super) fn remove(&mut self, number: usize) -> T {
        let item = self.items[number].take().expect("a number should be used only while its item is there");
        self.vacant.push(number);
        item
    }
}
