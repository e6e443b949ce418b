//! What questions about measured systems are answered from, kept from one question to the next.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Residual, View};

/// Most systems that are kept; then all are forgotten.
const MOST: usize = 4096;

/// The runs nearest to a system, and what they say.
pub(super) type Near = (Vec<Residual>, View);

/// A system on a machine, and the owner who asks if that matters.
pub(super) type Key = (u64, u64, Option<u64>);

/// A memory of answers. It follows from the runs alone, so copies start empty and it decides no comparison.
#[derive(Debug, Default)]
pub(super) struct Prepared(RwLock<HashMap<Key, Arc<Near>>>);

impl Prepared {
    /// What is remembered under `key`, else what `make` makes.
    pub(super) fn get(&self, key: Key, make: impl FnOnce() -> Near) -> Arc<Near> {
        // A panic while the lock was held leaves a map that is whole: entries are only put in.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).map(Arc::clone);
        known.unwrap_or_else(|| {
            let near = Arc::new(make());
            let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if entries.len() >= MOST {
                entries.clear();
            }
            entries.insert(key, Arc::clone(&near));
            near
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
    use super::*;

    fn near(weight: f64) -> Near {
        let view = View { directions: Vec::new(), inverse: Vec::new(), weights: vec![weight], surprise: 1.0 };
        (Vec::new(), view)
    }

    #[test]
    fn an_answer_is_made_once_for_each_who_asks() {
        let prepared = Prepared::default();
        assert_eq!(prepared.get((1, 1, None), || near(1.0)).1.weights, [1.0]);
        assert_eq!(prepared.get((1, 1, None), || near(2.0)).1.weights, [1.0]);
        assert_eq!(prepared.get((1, 1, Some(7)), || near(3.0)).1.weights, [3.0]);
        assert_eq!(prepared.clone().get((1, 1, None), || near(4.0)).1.weights, [4.0]);
    }

    #[test]
    fn the_memory_is_bounded() {
        let prepared = Prepared::default();
        for system in 0..=MOST as u64 {
            prepared.get((system, 0, None), || near(0.0));
        }
        assert!(prepared.0.read().expect("nothing panics here").len() <= MOST);
    }
}
