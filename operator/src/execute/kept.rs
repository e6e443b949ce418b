//! ScavengerJobs that one step of a start got back and the next one needs.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::ResourceExt;
use scavenger_schema::scavenger_job::ScavengerJob;

/// ScavengerJobs kept from one step of their start to the next. Where more start at the same time, some are read again.
/// The input of each is at most 64 KiB.
const KEPT: usize = 256;

/// By UID: what one step of a start got back and the next one needs. Losing it costs a read.
#[derive(Default)]
pub(super) struct Kept(Mutex<BTreeMap<String, ScavengerJob>>);

impl Kept {
    fn scavenger_jobs(&self) -> MutexGuard<'_, BTreeMap<String, ScavengerJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps it for the next step.
    pub(super) fn keep(&self, sj: ScavengerJob) {
        let Some(uid) = sj.uid() else { return };
        let mut scavenger_jobs = self.scavenger_jobs();
        if scavenger_jobs.len() >= KEPT {
            // Starts that came to nothing.
            scavenger_jobs.clear();
        }
        scavenger_jobs.insert(uid, sj);
    }

    /// What the step before kept, if it did.
    pub(super) fn take(&self, uid: &str) -> Option<ScavengerJob> {
        self.scavenger_jobs().remove(uid)
    }
}
