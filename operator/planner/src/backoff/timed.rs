//! What is left alone for a while: until when, how often in a row, and why. One map for everything of that kind; how long it
//! takes and when it is forgotten are its rule.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::values::{Key, later};

/// How long something is left alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The first time; twice as long each time in a row.
    pub(crate) first: SignedDuration,
    /// The longest time.
    pub(crate) longest: SignedDuration,
    /// After so long without it, the next time is the first again; never if none.
    pub(crate) forgotten_after: Option<SignedDuration>,
}

impl Rule {
    /// As long each time, and never in a row.
    pub(crate) const fn always(time: SignedDuration) -> Self {
        Self { first: time, longest: time, forgotten_after: Some(SignedDuration::ZERO) }
    }
}

/// What is left alone, by key, and why: a message, or all that is known about it.
#[derive(Debug, Clone)]
pub(crate) struct Timed<K, W = String> {
    rule: Rule,
    known: BTreeMap<K, Pause<W>>,
    /// Of those that are left alone now.
    ends: BTreeSet<(Timestamp, K)>,
}

/// For how long one is left alone, and why.
#[derive(Debug, Clone)]
pub(crate) struct Pause<W = String> {
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) why: W,
    /// How often in a row.
    pub(crate) times: u32,
    /// True once its time was found to be over.
    pub(crate) is_over: bool,
    /// The ScavengerJobs that try whether it is still so.
    pub(crate) probes: BTreeSet<Key>,
}

impl<K: Ord + Clone, W> Timed<K, W> {
    pub(crate) fn new(rule: Rule) -> Self {
        Self { rule, known: BTreeMap::new(), ends: BTreeSet::new() }
    }

    /// One is left alone from now on, for as long as the rule says. `why` is told until when.
    pub(crate) fn begin(&mut self, key: K, now: Timestamp, why: impl FnOnce(Timestamp) -> W) {
        let rule = self.rule;
        let length = |times: u32| rule.first.saturating_mul(1 << (times - 1).min(10)).min(rule.longest);
        self.begin_for(key, now, length, |_, until| why(until));
    }

    /// The same for a time that depends on how often it was in a row, this time included. `why` is given the reason before.
    pub(super) fn begin_for(
        &mut self,
        key: K,
        now: Timestamp,
        length: impl FnOnce(u32) -> SignedDuration,
        why: impl FnOnce(Option<W>, Timestamp) -> W,
    ) {
        let before = self.known.remove(&key);
        let (times, probes, reason) = match before {
            None => (0, BTreeSet::new(), None),
            Some(before) => {
                self.ends.remove(&(before.until, key.clone()));
                let is_forgotten = |time| now.duration_since(before.until) >= time;
                let times =
                    if self.rule.forgotten_after.is_some_and(is_forgotten) { 0 } else { before.times };
                (times, before.probes, Some(before.why))
            }
        };
        let times = times.saturating_add(1);
        let until = later(now, length(times));
        let pause = Pause { since: now, until, why: why(reason, until), times, is_over: false, probes };
        self.put(key, pause);
    }

    /// Takes over that one is left alone until a time, unless that is known already. True if it was not.
    pub(crate) fn recall(&mut self, key: K, until: Timestamp, why: W, now: Timestamp) -> bool {
        let is_news = self.get(&key).is_none();
        if is_news {
            self.put(
                key,
                Pause { since: now, until, why, times: 1, is_over: false, probes: BTreeSet::new() },
            );
        }
        is_news
    }

    fn put(&mut self, key: K, pause: Pause<W>) {
        self.ends.insert((pause.until, key.clone()));
        self.known.insert(key, pause);
    }

    /// Forgets one, and how often it was left alone. True if it was left alone.
    pub(crate) fn end(&mut self, key: &K) -> bool {
        let Some(pause) = self.known.remove(key).filter(|pause| !pause.is_over) else { return false };
        self.ends.remove(&(pause.until, key.clone()))
    }

    /// Ends the time of one, which stays known, with the next look.
    pub(super) fn hasten(&mut self, key: &K) {
        if let Some(pause) = self.known.get_mut(key).filter(|pause| !pause.is_over) {
            self.ends.remove(&(pause.until, key.clone()));
            pause.until = Timestamp::MIN;
            self.ends.insert((pause.until, key.clone()));
        }
    }

    /// Forgets how often one was left alone in a row. Its time goes on.
    pub(super) fn forget_times(&mut self, key: &K) {
        if let Some(pause) = self.known.get_mut(key) {
            pause.times = 0;
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.ends.clear();
    }

    /// Those whose time is over; how often it was in a row stays known.
    pub(crate) fn take_over(&mut self, now: Timestamp) -> BTreeSet<K> {
        let mut over = BTreeSet::new();
        while let Some((until, _)) = self.ends.first()
            && *until <= now
            && let Some((_, key)) = self.ends.pop_first()
        {
            match self.rule.forgotten_after {
                Some(SignedDuration::ZERO) => _ = self.known.remove(&key),
                _ => {
                    if let Some(pause) = self.known.get_mut(&key) {
                        pause.is_over = true;
                    }
                }
            }
            over.insert(key);
        }
        over
    }

    /// When the first time is over.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// For how long one is left alone, unless that was found to be over.
    pub(crate) fn get(&self, key: &K) -> Option<&Pause<W>> {
        self.last(key).filter(|pause| !pause.is_over)
    }

    /// The last time that one was left alone, over or not.
    pub(crate) fn last(&self, key: &K) -> Option<&Pause<W>> {
        self.known.get(key)
    }

    /// The same, to be changed.
    pub(super) fn last_mut(&mut self, key: &K) -> Option<&mut Pause<W>> {
        self.known.get_mut(key)
    }

    /// All that are left alone, unless that was found to be over.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Pause<W>)> {
        self.all().filter(|(_, pause)| !pause.is_over)
    }

    /// All that were left alone and are not forgotten.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&K, &Pause<W>)> {
        self.known.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, seconds};

    fn timed(forgotten_after: Option<SignedDuration>) -> Timed<&'static str> {
        Timed::new(Rule { first: seconds(10), longest: seconds(35), forgotten_after })
    }

    #[test]
    fn it_takes_twice_as_long_each_time_in_a_row_until_it_is_forgotten() {
        let mut timed = timed(Some(seconds(100)));
        let mut now = 0;
        for time in [10, 20, 35, 35] {
            timed.begin("a", at(now), |until| format!("until {until}"));
            assert_eq!(timed.wake_at(), Some(at(now + time)));
            assert!(timed.take_over(at(now + time - 1)).is_empty());
            now += time;
            assert_eq!(timed.take_over(at(now)), ["a"].into());
            assert!(timed.get(&"a").is_none() && timed.last(&"a").is_some());
        }
        timed.begin("a", at(now + 100), |_| String::new());
        assert_eq!(timed.wake_at(), Some(at(now + 110)), "the first time again");
        assert!(timed.end(&"a"));
        assert_eq!((timed.wake_at(), timed.iter().count()), (None, 0));
    }

    #[test]
    fn where_nothing_is_forgotten_only_an_end_begins_the_count_again() {
        let mut timed = timed(None);
        for (now, until) in [(0, 10), (5, 25), (10_000, 10_035)] {
            timed.begin("a", at(now), |_| String::new());
            assert_eq!(timed.wake_at(), Some(at(until)), "the newest counts alone");
        }
        timed.forget_times(&"a");
        timed.begin("a", at(20_000), |_| String::new());
        assert_eq!(timed.wake_at(), Some(at(20_010)));
        assert!(!timed.recall("a", at(99_999), String::new(), at(20_001)));
        timed.end(&"a");
        assert!(timed.recall("a", at(99_999), String::new(), at(20_001)));
    }
}
