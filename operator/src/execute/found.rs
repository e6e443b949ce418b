//! What starts refer to and was found to exist a moment ago: hundreds of starts of one namespace refer to the same things.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// For so long it counts as there. Should it go meanwhile, the pod will tell.
const RECENT: Duration = Duration::from_secs(10);

/// Most that is remembered.
const MOST: usize = 4096;

/// Kind and name.
type Entry = (String, String);

/// What was found to exist, by namespace, kind and name. Losing it costs reads.
#[derive(Default)]
pub(super) struct Found(Mutex<BTreeMap<(String, Entry), Instant>>);

impl Found {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<(String, Entry), Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was just found.
    pub(super) fn note(&self, namespace: &str, entry: Entry) {
        let mut entries = self.entries();
        if entries.len() >= MOST {
            entries.retain(|_, found| found.elapsed() < RECENT);
        }
        if entries.len() < MOST {
            entries.insert((namespace.to_owned(), entry), Instant::now());
        }
    }

    /// True if it was found a moment ago.
    pub(super) fn is_recent(&self, namespace: &str, entry: &Entry) -> bool {
        let key = (namespace.to_owned(), entry.clone());
        self.entries().get(&key).is_some_and(|found| found.elapsed() < RECENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        ("ServiceAccount".to_owned(), name.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_is_looked_for_again_after_a_moment() {
        let found = Found::default();
        assert!(!found.is_recent("lab", &entry("a")));
        found.note("lab", entry("a"));
        assert!(found.is_recent("lab", &entry("a")));
        assert!(!found.is_recent("lab", &entry("b")) && !found.is_recent("other", &entry("a")));
        tokio::time::advance(RECENT).await;
        assert!(!found.is_recent("lab", &entry("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_grow_without_bound() {
        let found = Found::default();
        for number in 0..2 * MOST {
            found.note("lab", entry(&number.to_string()));
        }
        assert_eq!(found.entries().len(), MOST);
        tokio::time::advance(RECENT).await;
        found.note("lab", entry("new"));
        assert_eq!(found.entries().len(), 1);
    }
}
