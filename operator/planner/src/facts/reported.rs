//! What the status of a ScavengerJob was last written to say, and whether that is to be written again.

use jiff::{SignedDuration, Timestamp};

use crate::values::{Explanation, ScavengerJob, Shortage, later};

/// How often the message of a ScavengerJob that waits is written again at most, if only its numbers changed.
pub(crate) const RETELL: SignedDuration = SignedDuration::from_secs(60);

/// What the status of a ScavengerJob was last written to say.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// When its status was last written by this planner, or first found to have grown old.
    pub(crate) time: Option<Timestamp>,
    /// The shortage that it tells.
    shortage: Option<Box<Shortage>>,
    /// Whether it has only reports to tell, and since when it is to be told something.
    pub(crate) due: Option<(bool, Timestamp)>,
}

impl Reported {
    /// A status is written that says this.
    pub(crate) fn note(&mut self, why: &Explanation) {
        self.shortage = why.shortage.clone().map(Box::new);
    }

    /// Another attempt: what was written was about the one before.
    pub(crate) fn forget(&mut self) {
        (self.time, self.shortage) = (None, None);
    }
}

/// What is to be done so that a status says why its ScavengerJob waits.
#[derive(Debug)]
pub(crate) enum Telling {
    /// It says so.
    Said,
    /// It is to be written as soon as the budget allows; see [`Reported::note`].
    Due,
    /// It says so with numbers that have grown old, and was written a moment ago: to be written at this time.
    Later(Timestamp),
}

/// What is to be done so that the status says why a ScavengerJob waits. Another reason is written soon. Another
/// message for the same reason is written at most every [`RETELL`], and not at all for numbers that hardly changed.
pub(crate) fn hold(sj: &ScavengerJob, reported: &mut Reported, why: &Explanation, now: Timestamp) -> Telling {
    let status = &sj.status;
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    if let Some(said) = said
        && status.written
        && status.observed_generation == sj.generation
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
    Telling::Due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, sj},
        values::{Admitted, Waiting, WaitingReason},
    };

    fn why(resource: &str, left: i64) -> Explanation {
        let message = format!("needs 3 {resource}, but only {left} are left");
        let shortage =
            Shortage { resource: Some(resource.to_owned()), left, whole: 100, message: message.clone() };
        Explanation {
            waiting: Waiting { reason: WaitingReason::NoCapacity, message },
            shortage: Some(shortage),
        }
    }

    #[test]
    fn only_another_shortage_and_numbers_that_changed_much_are_news() {
        let mut sj = sj("a");
        let mut reported = Reported::default();
        let first = why("cpu", 8);
        let Telling::Due = hold(&sj, &mut reported, &first, at(0)) else { panic!("nothing was said yet") };
        reported.note(&first);
        sj.status.written = true;
        sj.status.observed_generation = sj.generation;
        sj.status.admitted = Some(Admitted { waiting: Some(first.waiting), since: at(0) });
        reported.time = Some(at(0));
        let mut after = |why: Explanation, second: i64| match hold(&sj, &mut reported, &why, at(second)) {
            Telling::Said => "said",
            Telling::Later(time) if time == at(60) => "later",
            Telling::Later(_) => "at another time",
            Telling::Due => "now",
        };
        assert_eq!(after(why("cpu", 8), 5), "said");
        assert_eq!(after(why("cpu", 6), 5), "said", "a quarter less");
        assert_eq!(after(why("cpu", 5), 5), "later");
        assert_eq!(after(why("memory", 8), 5), "later");
        assert_eq!(after(why("cpu", 6), 90), "said");
        assert_eq!(after(why("cpu", 5), 90), "now");
    }
}
