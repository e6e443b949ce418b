//! Who is informed of why it waits. Such writes help nobody to start, so only a few of them are under way at a time.

use std::collections::BTreeSet;

use crate::snapshot::Key;

/// Most status writes under way that only tell a newcomer of the queue why it waits. The heads of lines are not limited.
const AT_ONCE: usize = 16;

/// Who is still to be informed.
#[derive(Debug, Default)]
pub(crate) struct Informing {
    /// Newcomers of the queue whose status does not say yet why they wait.
    newcomers: BTreeSet<Key>,
    /// ScavengerJobs whose status is being written for that.
    under_way: BTreeSet<Key>,
}

impl Informing {
    /// A ScavengerJob came into the queue.
    pub(crate) fn add(&mut self, key: &Key) {
        self.newcomers.insert(key.clone());
    }

    /// A ScavengerJob left the queue, or is informed.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.newcomers.remove(key);
    }

    /// The next one to be informed: many start before their turn to be informed has come.
    pub(crate) fn next(&mut self) -> Option<Key> {
        if self.under_way.len() < AT_ONCE { self.newcomers.pop_first() } else { None }
    }

    /// Its status is being written.
    pub(crate) fn begins(&mut self, key: &Key) {
        self.under_way.insert(key.clone());
    }

    /// Whatever was under way was answered.
    pub(crate) fn answered(&mut self, key: &Key) {
        self.under_way.remove(key);
    }

    /// Forgets a ScavengerJob that is gone.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.newcomers.remove(key);
        self.under_way.remove(key);
    }
}
