//! Who is informed of why it waits. Such writes help nobody to start, so only a few of them are under way at a time.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::{
    action::Task,
    known::later,
    transition,
    values::{Job, Key, Waiting},
    wording,
};

/// How often the message of a ScavengerJob that waits is written again at most, if only its numbers changed.
pub(crate) const RETELL: SignedDuration = SignedDuration::from_secs(60);

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

/// What is to be done so that a status says why its ScavengerJob waits.
#[derive(Debug)]
pub(crate) enum Telling {
    /// It says so.
    Said,
    /// It is to be written.
    Now(Task),
    /// It says so with numbers that have grown old, and was written a moment ago: to be written at this time.
    Later(Timestamp),
}

/// What is to be done so that the status says why a ScavengerJob waits. Another reason is written at once; a message of
/// which only numbers changed, much enough, is written again after [`RETELL`].
pub(crate) fn hold(job: &Job, reported: Option<Timestamp>, waiting: &Waiting, now: Timestamp) -> Telling {
    let status = &job.status;
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    if let Some(said) = said
        && status.written
        && status.observed_generation == job.generation
        && said.reason == waiting.reason
    {
        if !wording::has_grown_old(&said.message, &waiting.message) {
            return Telling::Said;
        }
        let again = later(reported.unwrap_or(now), RETELL);
        if now < again {
            return Telling::Later(again);
        }
    }
    Telling::Now(transition::hold(job, waiting.clone(), now))
}
