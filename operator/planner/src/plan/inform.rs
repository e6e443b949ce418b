//! The status writes that only inform: of whom, and what they say, as far as the budget goes.

use jiff::{SignedDuration, Timestamp};

use super::Planner;
use crate::{
    backoff::Wake,
    facts::tracked::{WRITE_EVERY, Writing},
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
            let mut context = Context {
                capacity: &mut self.capacity,
                promises: &mut self.promises,
                shares: &mut self.shares,
                settings,
                now,
            };
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
