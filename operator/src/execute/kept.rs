//! ScavengerJobs that one step of a start got back and the next one needs.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::ResourceExt;
use scavenger_schema::scavenger_job::ScavengerJob;

/// Most that is kept, in bytes of JSON: thousands of starts at the same time. One has 4 KB, and up to 400 with long input
/// and a long history.
const MOST: usize = 32 << 20;

/// By UID: what one step of a start got back and the next one needs. Losing it costs a read.
#[derive(Default)]
pub(super) struct Kept(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    scavenger_jobs: BTreeMap<String, Entry>,
    /// UIDs by the order in which they came, for the oldest to go first: of starts that came to nothing.
    order: BTreeMap<u64, String>,
    next: u64,
    bytes: usize,
}

struct Entry {
    sj: ScavengerJob,
    number: u64,
    bytes: usize,
}

impl Kept {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps it for the next step.
    pub(super) fn keep(&self, sj: ScavengerJob) {
        let (Some(uid), Ok(json)) = (sj.uid(), serde_json::to_vec(&sj)) else { return };
        let bytes = json.len();
        let mut entries = self.entries();
        entries.take(&uid);
        let number = entries.next;
        entries.next += 1;
        entries.bytes += bytes;
        entries.order.insert(number, uid.clone());
        entries.scavenger_jobs.insert(uid, Entry { sj, number, bytes });
        while entries.bytes > MOST
            && let Some((_, oldest)) = entries.order.first_key_value()
        {
            let oldest = oldest.clone();
            entries.take(&oldest);
        }
    }

    /// What the step before kept, if it did.
    pub(super) fn take(&self, uid: &str) -> Option<ScavengerJob> {
        self.entries().take(uid)
    }
}

impl Entries {
    fn take(&mut self, uid: &str) -> Option<ScavengerJob> {
        let Entry { sj, number, bytes } = self.scavenger_jobs.remove(uid)?;
        self.order.remove(&number);
        self.bytes -= bytes;
        Some(sj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sj(uid: usize, input: usize) -> ScavengerJob {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
            "metadata": { "name": "a", "namespace": "lab", "uid": uid.to_string() },
            "spec": {
                "image": "counter", "interruptionAfter": "10m", "args": ["a".repeat(input)],
                "resources": { "requests": { "cpu": "1", "memory": "1Gi" } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_thousand_are_kept_each_for_one_step() {
        let kept = Kept::default();
        for uid in 0..1000 {
            kept.keep(sj(uid, 4000));
            kept.keep(sj(uid, 4000));
        }
        for uid in 0..1000 {
            assert_eq!(kept.take(&uid.to_string()).and_then(|sj| sj.uid()), Some(uid.to_string()));
            assert!(kept.take(&uid.to_string()).is_none());
        }
        let entries = kept.entries();
        assert_eq!((entries.bytes, entries.order.len()), (0, 0));
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let kept = Kept::default();
        for uid in 0..100 {
            kept.keep(sj(uid, 1 << 20));
        }
        assert!(kept.entries().bytes <= MOST);
        assert!(kept.take("0").is_none() && kept.take("99").is_some());
    }
}
