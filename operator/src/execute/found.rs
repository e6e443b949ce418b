//! What starts refer to and was found to exist a moment ago: hundreds of starts of one namespace refer to the same things.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scavenger_planner::values::Access;
use tokio::time::Instant;

/// For so long it counts as there. Should it go meanwhile, the pod will tell.
const RECENT: Duration = Duration::from_secs(10);

/// Most that is remembered.
const MOST: usize = 4096;

/// Kind and name.
type Entry = (String, String);

/// When something was found; of a claim that has no volume yet, how many will be able to mount that at a time.
type Finding = (Instant, Option<Access>);

/// What was found to exist, by namespace, kind and name. Losing it costs reads.
#[derive(Default)]
pub(super) struct Found(Mutex<BTreeMap<(String, Entry), Finding>>);

impl Found {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<(String, Entry), Finding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was just found.
    pub(super) fn note(&self, namespace: &str, entry: Entry, access: Option<Access>) {
        let mut entries = self.entries();
        if entries.len() >= MOST {
            entries.retain(|_, (found, _)| found.elapsed() < RECENT);
        }
        if entries.len() < MOST {
            entries.insert((namespace.to_owned(), entry), (Instant::now(), access));
        }
    }

    /// What was noted of it, if it was found a moment ago.
    pub(super) fn recent(&self, namespace: &str, entry: &Entry) -> Option<Option<Access>> {
        let key = (namespace.to_owned(), entry.clone());
        let entries = self.entries();
        let (_, access) = entries.get(&key).filter(|(found, _)| found.elapsed() < RECENT)?;
        Some(*access)
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
        assert_eq!(found.recent("lab", &entry("a")), None);
        found.note("lab", entry("a"), None);
        found.note("lab", entry("claim"), Some(Access::OneNode));
        assert_eq!(found.recent("lab", &entry("a")), Some(None));
        assert_eq!(found.recent("lab", &entry("claim")), Some(Some(Access::OneNode)));
        assert!(found.recent("lab", &entry("b")).is_none() && found.recent("other", &entry("a")).is_none());
        tokio::time::advance(RECENT).await;
        assert_eq!(found.recent("lab", &entry("a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_grow_without_bound() {
        let found = Found::default();
        for number in 0..2 * MOST {
            found.note("lab", entry(&number.to_string()), None);
        }
        assert_eq!(found.entries().len(), MOST);
        tokio::time::advance(RECENT).await;
        found.note("lab", entry("new"), None);
        assert_eq!(found.entries().len(), 1);
    }
}
