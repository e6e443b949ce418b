//! Working folders: two ScavengerJobs that name the same one never work at the same time.
//!
//! A folder is the value of a label on the ScavengerJob (`scavenger.dev/folder`), in its namespace. Whose pods are alive,
//! whose attempt is active, or who is promised capacity, uses it; all others wait.

use std::collections::BTreeMap;

use crate::values::{Key, Name};

/// How far a ScavengerJob has come with its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Not at all.
    None,
    /// Capacity is promised to it, and it is being prepared.
    Promised,
    /// An attempt is active, or pods of it are left.
    Active,
}

/// Which ScavengerJobs name which folder, and who uses it.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    /// By namespace and folder; for most folders this is one.
    named_by: BTreeMap<(Name, Name), BTreeMap<Key, Use>>,
    folder_of: BTreeMap<Key, Name>,
}

impl Folders {
    /// Takes in how far a ScavengerJob has come with its folder. Returns those for which that makes a difference.
    pub(crate) fn set(&mut self, key: &Key, folder: Option<&Name>, uses: Use) -> Vec<Key> {
        let mut others = Vec::new();
        if self.folder_of.get(key) != folder {
            others = self.forget(key);
        }
        let Some(folder) = folder else { return others };
        self.folder_of.insert(key.clone(), folder.clone());
        let all = self.named_by.entry((key.namespace.clone(), folder.clone())).or_default();
        if all.insert(key.clone(), uses).is_none_or(|before| before != uses) {
            others.extend(all.keys().filter(|other| *other != key).cloned());
        }
        others
    }

    /// Forgets a ScavengerJob that is gone. Returns those that may go on.
    pub(crate) fn forget(&mut self, key: &Key) -> Vec<Key> {
        let Some(folder) = self.folder_of.remove(key) else { return Vec::new() };
        let folder = (key.namespace.clone(), folder);
        let Some(all) = self.named_by.get_mut(&folder) else { return Vec::new() };
        all.remove(key);
        let others = all.keys().cloned().collect();
        if all.is_empty() {
            self.named_by.remove(&folder);
        }
        others
    }

    /// The ScavengerJob for which this one waits, because it names the same folder.
    pub(crate) fn user_beside(&self, key: &Key) -> Option<&Key> {
        let all = self.named_by.get(&(key.namespace.clone(), self.folder_of.get(key)?.clone()))?;
        let own = all.get(key)?;
        let waits_for = |uses: Use| match uses {
            Use::None => false,
            Use::Promised => *own == Use::None,
            Use::Active => *own != Use::Active,
        };
        all.iter().find(|(other, uses)| *other != key && waits_for(**uses)).map(|(other, _)| other)
    }
}
