//! Of whom the status is written, and what it says: as far as the budget goes.
//!
//! Status writes that only inform: why a ScavengerJob waits, what holds its deletion, that a change of its spec was seen,
//! what a supervisor reported. They start, stop and end nothing, so all of them come from one small budget: the oldest
//! first, reports of supervisors last, none for a ScavengerJob that starts, changes or goes before its turn has come.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::Planner;
use crate::{
    backoff::Wake,
    facts::tracked::{Reported, WRITE_EVERY, Writing},
    lifecycle::{self, known::Next, transition},
    queue::Context,
    values::{
        Explanation, Key, WaitingReason,
        action::{Action, Task},
        later,
    },
};

/// How long it counts why the last start could not be made: by then the next one was tried, or capacity is what is lacking.
const COUNTS: SignedDuration = SignedDuration::from_secs(30);

/// What a status is to say and does not say yet.
enum News {
    /// Why its ScavengerJob waits.
    Waits(Explanation),
    /// Something else, and the write that says it.
    Other(Task),
}

impl Planner {
    /// Tells those whose turn has come why they wait, as far as the budget goes, and says how many these were.
    pub(super) fn inform(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> usize {
        let before = actions.len();
        while let Some(key) = self.informing.next(now) {
            let news = self.explain(&key, now);
            let Some(tracked) = self.seen.get_mut(&key) else { break };
            self.informing.remove(&key, &mut tracked.reported);
            // What is under way may change the reason; its answer brings the ScavengerJob back on the agenda.
            let why = match news.filter(|_| !tracked.turn.is_under_way()) {
                Some(News::Waits(why)) => why,
                Some(News::Other(write)) => {
                    self.informing.spend(now);
                    self.dispatch(&key, write, actions);
                    continue;
                }
                None => continue,
            };
            match tracked.writing_of(&why, now) {
                // The walk reports only what is new about a line, so the figures of its head are looked at again by the clock.
                Writing::Done if why.waiting.reason == WaitingReason::NoCapacity => {
                    self.agenda.set_timer(&key, &mut tracked.turn, Some(now + WRITE_EVERY));
                }
                Writing::Done => {}
                Writing::Due => {
                    tracked.reported.note(&why);
                    let task = transition::wait(tracked.sj(), why.waiting, now);
                    self.informing.spend(now);
                    self.dispatch(&key, task, actions);
                }
                Writing::NotBefore(time) => self.agenda.set_timer(&key, &mut tracked.turn, Some(time)),
            }
        }
        self.agenda.set_wake(Wake::Informing, self.informing.wake_at());
        actions.len() - before
    }

    /// What the status of a ScavengerJob is to say that it does not say yet.
    fn explain(&mut self, key: &Key, now: Timestamp) -> Option<News> {
        // What its last start met with is more than that others come first.
        let given_back = self.seen.get(key).and_then(|tracked| tracked.memory.given_back.as_ref());
        if let Some((why, since)) = given_back
            && now < later(*since, COUNTS)
        {
            return Some(News::Waits(why.clone().into()));
        }
        if let Ok(settings) = &self.settings {
            let starting = self.promises.starting().len();
            let mut context =
                Context { capacity: &mut self.capacity, promises: &mut self.promises, settings, now };
            if let Some(why) = self.queue.waiting(key, &mut context, starting) {
                return Some(News::Waits(why));
            }
        }
        let known = self.known(key, now)?;
        match lifecycle::next(&known) {
            Next::NotReady(waiting, _) => Some(News::Waits(waiting.into())),
            Next::Inform(transition, _) => Some(News::Other(transition::apply(&known, transition))),
            _ => None,
        }
    }
}

/// The budget: one write in this time, five a second.
const ONE_IN: SignedDuration = SignedDuration::from_millis(200);

/// What a quiet time saves up: a second's worth.
const SAVED: SignedDuration = SignedDuration::from_millis(800);

/// Whose status is to be written, and the budget for it.
#[derive(Debug, Default)]
pub(crate) struct Informing {
    /// By whether they have only reports to write, and by the time since when their status does not say what it should.
    due: BTreeSet<(bool, Timestamp, Key)>,
    /// When what was spent so far would have been paid, at an even pace.
    paid: Timestamp,
}

impl Informing {
    /// The status of a ScavengerJob may not say why it waits.
    pub(crate) fn add(&mut self, key: &Key, reported: &mut Reported, now: Timestamp) {
        let since = match reported.due {
            Some((false, since)) => since,
            _ => now,
        };
        self.remove(key, reported);
        reported.due = Some((false, since));
        self.due.insert((false, since, key.clone()));
    }

    /// The status does not tell what the supervisor of a ScavengerJob reported: it is written once nothing else
    /// is to be written about anybody.
    pub(super) fn add_last(&mut self, key: &Key, reported: &mut Reported, now: Timestamp) {
        let (last, since) = *reported.due.get_or_insert((true, now));
        self.due.insert((last, since, key.clone()));
    }

    /// A ScavengerJob does not wait any longer, or its status says why.
    pub(crate) fn remove(&mut self, key: &Key, reported: &mut Reported) {
        if let Some((last, since)) = reported.due.take() {
            self.due.remove(&(last, since, key.clone()));
        }
    }

    /// Whose turn it is, if the budget allows a write now.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Key> {
        let (_, _, key) = self.due.first()?;
        (now >= self.allowed()).then(|| key.clone())
    }

    /// A write was made.
    pub(super) fn spend(&mut self, now: Timestamp) {
        self.paid = later(self.paid.max(now), ONE_IN);
    }

    /// When the next status can be written; none if there is none to be written.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        (!self.due.is_empty()).then(|| self.allowed())
    }

    fn allowed(&self) -> Timestamp {
        self.paid.saturating_sub(SAVED).unwrap_or(Timestamp::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, key, millis};

    #[test]
    fn five_are_told_at_once_and_then_five_a_second_the_oldest_first() {
        let mut informing = Informing::default();
        let mut reported: Vec<Reported> = (0..20).map(|_| Reported::default()).collect();
        let name = |number: usize| key(&format!("job{:02}", 19 - number));
        for (number, reported) in reported.iter_mut().enumerate() {
            informing.add(&name(number), reported, at(0) + millis(i64::try_from(number).unwrap()));
        }
        let mut told = |informing: &mut Informing, now: Timestamp| {
            let mut told = Vec::new();
            while let Some(key) = informing.next(now) {
                let number = (0..20).find(|number| name(*number) == key).unwrap();
                informing.remove(&key, &mut reported[number]);
                informing.spend(now);
                told.push(number);
            }
            told
        };
        assert_eq!(told(&mut informing, at(1)), [0, 1, 2, 3, 4]);
        assert!(told(&mut informing, at(1)).is_empty());
        assert_eq!(informing.wake_at(), Some(at(1) + millis(200)));
        assert_eq!(told(&mut informing, at(1) + millis(200)), [5]);
        assert_eq!(told(&mut informing, at(2)), [6, 7, 8, 9]);
        assert_eq!(told(&mut informing, at(100)), [10, 11, 12, 13, 14]);
    }

    #[test]
    fn reports_wait_until_nothing_else_is_to_be_told() {
        let mut informing = Informing::default();
        let mut reported = [Reported::default(), Reported::default()];
        let (runs, waits) = (key("runs"), key("waits"));
        informing.add_last(&runs, &mut reported[0], at(0));
        informing.add(&waits, &mut reported[1], at(5));
        assert_eq!(informing.next(at(5)), Some(waits.clone()));
        // It has something else to tell now, since later than the other.
        informing.add(&runs, &mut reported[0], at(6));
        assert_eq!(informing.next(at(6)), Some(waits.clone()));
        informing.remove(&waits, &mut reported[1]);
        // What is told is told with everything else.
        informing.add_last(&runs, &mut reported[0], at(7));
        assert_eq!(informing.next(at(7)), Some(runs.clone()));
        informing.remove(&runs, &mut reported[0]);
        assert_eq!(informing.next(at(8)), None);
    }
}
