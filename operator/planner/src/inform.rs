//! Who is informed of why it waits. Such writes help nobody to start, so only a few of them are under way at a time.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::{
    action::Task,
    capacity::Shortage,
    known::later,
    transition,
    values::{Job, Key, Waiting},
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

/// Why a ScavengerJob waits, as its status is to say it.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The reason and the message.
    pub waiting: Waiting,
    /// The shortage whose numbers the message tells, if it does.
    pub shortage: Option<Shortage>,
}

impl From<Waiting> for Explanation {
    fn from(waiting: Waiting) -> Self {
        Self { waiting, shortage: None }
    }
}

/// What the status of a ScavengerJob was last written to say.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// When its status was last written by this planner, or first found to have grown old.
    pub(crate) time: Option<Timestamp>,
    /// The shortage that it tells.
    shortage: Option<Box<Shortage>>,
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

/// What is to be done so that the status says why a ScavengerJob waits. Another reason is written at once. Another
/// message for the same reason is written at most every [`RETELL`], and not at all for numbers that hardly changed.
pub(crate) fn hold(job: &Job, reported: &mut Reported, why: &Explanation, now: Timestamp) -> Telling {
    let status = &job.status;
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    if let Some(said) = said
        && status.written
        && status.observed_generation == job.generation
        && said.reason == why.waiting.reason
    {
        let is_news = match (&why.shortage, &reported.shortage) {
            (Some(new), Some(old)) => new.is_news_after(old),
            // After a restart: what was written for the same reason is taken for the shortage there is now.
            (Some(new), None) if reported.time.is_none() => {
                reported.shortage = Some(Box::new(new.clone()));
                false
            }
            _ => true,
        };
        if said.message == why.waiting.message || !is_news {
            return Telling::Said;
        }
        let again = later(*reported.time.get_or_insert(now), RETELL);
        if now < again {
            return Telling::Later(again);
        }
    }
    reported.shortage = why.shortage.clone().map(Box::new);
    Telling::Now(transition::hold(job, why.waiting.clone(), now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, job},
        values::{Admitted, WaitingReason},
    };

    fn why(resource: &str, left: i64) -> Explanation {
        let message = format!("needs 3 {resource}, but only {left} are left");
        let shortage =
            Shortage { resource: Some(resource.to_owned()), left, whole: 100, message: message.clone() };
        Explanation { waiting: Waiting { reason: WaitingReason::NoRoom, message }, shortage: Some(shortage) }
    }

    #[test]
    fn only_another_shortage_and_numbers_that_changed_much_are_news() {
        let mut job = job("a");
        let mut reported = Reported::default();
        let first = why("cpu", 8);
        let Telling::Now(_) = hold(&job, &mut reported, &first, at(0)) else {
            panic!("nothing was said yet")
        };
        job.status.written = true;
        job.status.observed_generation = job.generation;
        job.status.admitted = Some(Admitted { waiting: Some(first.waiting), since: at(0) });
        reported.time = Some(at(0));
        let mut after = |why: Explanation, second: i64| match hold(&job, &mut reported, &why, at(second)) {
            Telling::Said => "said",
            Telling::Later(time) if time == at(60) => "later",
            Telling::Later(_) => "at another time",
            Telling::Now(_) => "now",
        };
        assert_eq!(after(why("cpu", 8), 5), "said");
        assert_eq!(after(why("cpu", 6), 5), "said", "a quarter less");
        assert_eq!(after(why("cpu", 5), 5), "later");
        assert_eq!(after(why("memory", 8), 5), "later");
        assert_eq!(after(why("cpu", 6), 90), "said");
        assert_eq!(after(why("cpu", 5), 90), "now");
    }
}
