//! What is known of the systems that were asked about, kept from one question to the next.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::About;

/// Most systems that are kept; then all are forgotten.
const MOST: usize = 4096;

/// A system on a machine with a build, and the owner who asks if that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Class of the processor beside a GPU.
    pub(super) host: &'static str,
    pub(super) system: u64,
    /// Bits of the logarithm of the atoms and of the doubts: systems of the same key have the same, up to chance.
    pub(super) atoms: u64,
    pub(super) machine: u64,
    pub(super) build: u64,
    pub(super) owner: Option<u64>,
}

/// A memory of answers. It follows from the runs alone, so copies start empty and it decides no comparison.
#[derive(Debug, Default)]
pub(super) struct Prepared(RwLock<HashMap<Key, Arc<About>>>);

impl Prepared {
    /// What is remembered under `key`, else what `make` makes.
    pub(super) fn get(&self, key: Key, make: impl FnOnce() -> About) -> Arc<About> {
        // A panic while the lock was held leaves a map that is whole: entries are only put in.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).map(Arc::clone);
        known.unwrap_or_else(|| {
            let about = Arc::new(make());
            let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if entries.len() >= MOST {
                entries.clear();
            }
            entries.insert(key, Arc::clone(&about));
            about
        })
    }
}

impl Clone for Prepared {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Prepared {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::Known;
    use super::super::kernel::DIMENSIONS;
    use super::*;
    use crate::performance::Part;

    fn about(known: Known) -> About {
        let theta = [0.0; DIMENSIONS];
        About { known, theta, factors: [1.0; Part::COUNT], covariance: [theta; DIMENSIONS] }
    }

    fn key(system: u64, owner: Option<u64>) -> Key {
        Key { host: "", system, atoms: 0, machine: 1, build: 1, owner }
    }

    #[test]
    fn an_answer_is_made_once_for_each_who_asks() {
        let prepared = Prepared::default();
        let asked = |key: Key, made: Known| prepared.get(key, || about(made)).known();
        assert_eq!(asked(key(1, None), Known::Class), Known::Class);
        assert_eq!(asked(key(1, None), Known::Machine), Known::Class);
        assert_eq!(asked(key(1, Some(7)), Known::System), Known::System);
        assert_eq!(asked(Key { build: 2, ..key(1, None) }, Known::Machine), Known::Machine);
        let copy = prepared.clone();
        assert_eq!(copy.get(key(1, None), || about(Known::System)).known(), Known::System);
    }

    #[test]
    fn the_memory_is_bounded() {
        let prepared = Prepared::default();
        for system in 0..=MOST as u64 {
            prepared.get(key(system, None), || about(Known::Class));
        }
        assert!(prepared.0.read().expect("nothing panics here").len() <= MOST);
    }
}
