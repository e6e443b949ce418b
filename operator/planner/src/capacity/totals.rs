//! The sums over nodes of every scope, kept up node by node: of the pool, of its nodes with the same taints, and of each group
//! with thresholds of its own.

use std::collections::BTreeMap;

use super::{
    groups::Groups,
    node::{Entry, Scope},
    sums::Sums,
};
use crate::values::resources::Resources;

/// See the module.
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
