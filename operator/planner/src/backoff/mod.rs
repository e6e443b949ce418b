//! When something is looked at or tried again: the ScavengerJobs about which something is new, those whose time has come, and how
//! long to wait before the next attempt. Each wait is longer by up to a quarter that depends on the ScavengerJob and on how often
//! it waited, so that many which were stopped together do not come back together.

pub(crate) mod blocked;
pub(crate) mod namespaces;
pub(crate) mod needs;
pub(crate) mod start_failures;
pub(crate) mod timed;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::values::{Key, WaitingReason};

/// Longest wait after an interruption, unless the pool asks for more.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// Interruptions older than this do not lengthen the wait.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);

/// The wait after an interruption at `now`, the newest of `times`: `least`, doubled with each interruption before it
/// within the last hour, at most 10 minutes. Of those, only `in_a_row` count (this one included): an attempt that ran
/// for a whole `interruptionAfter` made progress, and what was before it is forgotten.
pub fn after_interruption(
    times: &[Timestamp],
    in_a_row: u32,
    least: SignedDuration,
    uid: &str,
    now: Timestamp,
) -> SignedDuration {
    let recent = times.iter().filter(|time| now.duration_since(**time) < MEMORY).count();
    let doublings = recent.min(in_a_row as usize).saturating_sub(1);
    let mut wait = least;
    for _ in 0..doublings {
        if wait >= LONGEST {
            break;
        }
        wait = wait.saturating_mul(2);
    }
    spread(wait.min(LONGEST.max(least)), uid, in_a_row)
}

/// The wait after `failed_starts` withdrawals in a row: 5 s, doubled each time, at most 10 minutes.
pub fn after_failed_starts(failed_starts: u32, uid: &str) -> SignedDuration {
    let base = 5_000_i64.saturating_mul(1 << failed_starts.saturating_sub(1).min(10)).min(600_000);
    spread(SignedDuration::from_millis(base), uid, failed_starts)
}

/// The wait after `failures` actions in a row that failed: 200 ms, doubled each time, at most 25 s.
pub fn after_failed_actions(failures: u32, uid: &str) -> SignedDuration {
    spread(SignedDuration::from_millis(100 << failures.min(8)), uid, failures)
}

/// A wait, and up to a quarter of it more, so that many which failed together do not come back together.
fn spread(wait: SignedDuration, uid: &str, count: u32) -> SignedDuration {
    // FNV-1a, folded with the count: spread, not secrecy. Short, and the same with every release of Rust.
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ u64::from(count), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of similar UIDs are similar.
    let part = i32::try_from(hash >> 33 & 1023).expect("a number below 1024 should fit");
    wait.saturating_add(wait / 4 / 1024 * part)
}

/// True if nothing of its namespace that asks for as much, or that mounts the same claims, can start when a start is
/// withdrawn for this reason.
pub(crate) fn blocks_others(reason: WaitingReason) -> bool {
    matches!(
        reason,
        WaitingReason::QuotaExceeded | WaitingReason::NamespaceTerminating | WaitingReason::VolumeUnbound
    )
}

/// Which ScavengerJobs are looked at by the next plan.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    due: BTreeSet<Key>,
    timers: BTreeSet<(Timestamp, Key)>,
    wakes: BTreeMap<Wake, Timestamp>,
}

/// What else the planner wakes up for although nothing is seen until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    /// The pool's calendar may give other thresholds.
    Calendar,
    /// Nodes are to be counted again by what they use.
    NodeUse,
    /// A node on which containers could not be started is tried again.
    ClosedNodes,
    /// Of the time until a node leaves the pool so little is left that fewer ScavengerJobs start there, or that they are to save.
    LeavingNodes,
    /// A ScavengerJob may go to nodes again that it was kept off.
    AvoidedNodes,
    /// A cause of interruptions has something to do, or what it relies on should be gone at the latest.
    Causes,
    /// A namespace or a claim for which starts were refused may be tried again.
    Refusals,
    /// The budget allows the next write of a status that only informs.
    Informing,
}

/// The part of the agenda that belongs to one ScavengerJob.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// True while an action for it is under way: until its answer comes nothing else is done about it.
    under_way: bool,
    timer: Option<Timestamp>,
    pause: Option<Pause>,
}

/// A wait that is not part of the ScavengerJob's own life.
#[derive(Debug, Clone, Copy)]
struct Pause {
    /// Failed actions in a row; 0 if the pause was asked for.
    failures: u32,
    until: Timestamp,
    /// True after a conflict: the version that caused it ends the pause.
    ends_with_change: bool,
}

impl Agenda {
    /// The next plan looks at a ScavengerJob.
    pub(crate) fn add(&mut self, key: Key) {
        self.due.insert(key);
    }

    /// The next plan looks at all of these.
    pub(crate) fn add_all<'a>(&mut self, keys: impl Iterator<Item = &'a Key>) {
        self.due.extend(keys.cloned());
    }

    /// Puts those on the agenda whose time has come.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while let Some((time, _)) = self.timers.first()
            && *time <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            self.due.insert(key);
        }
    }

    /// The next one to be looked at.
    pub(crate) fn next(&mut self) -> Option<Key> {
        self.due.pop_first()
    }

    /// Wakes the planner up for this at a time, instead of at the time set before.
    pub(crate) fn set_wake(&mut self, wake: Wake, time: Option<Timestamp>) {
        match time {
            Some(time) => _ = self.wakes.insert(wake, time),
            None => _ = self.wakes.remove(&wake),
        }
    }

    /// True if the time has come that was set for this.
    pub(crate) fn is_due(&self, wake: Wake, now: Timestamp) -> bool {
        self.wakes.get(&wake).is_some_and(|time| *time <= now)
    }

    /// When to plan again if nothing is seen until then.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let timers = self.timers.first().map(|(time, _)| time);
        timers.into_iter().chain(self.wakes.values()).min().copied()
    }

    /// Looks at a ScavengerJob again at this time, instead of at the time set before.
    pub(crate) fn set_timer(&mut self, key: &Key, turn: &mut Turn, time: Option<Timestamp>) {
        if turn.timer == time {
            return;
        }
        if let Some(old) = turn.timer.take() {
            self.timers.remove(&(old, key.clone()));
        }
        if let Some(time) = time {
            turn.timer = Some(time);
            self.timers.insert((time, key.clone()));
        }
    }

    /// Forgets a ScavengerJob that is gone.
    pub(crate) fn forget(&mut self, key: &Key, turn: &mut Turn) {
        self.set_timer(key, turn, None);
        self.due.remove(key);
    }

    /// Every timer, for the check against those of the ScavengerJobs.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn timers(&self) -> &BTreeSet<(Timestamp, Key)> {
        &self.timers
    }
}

impl Turn {
    /// To be called when its ScavengerJob is looked at: a timer that has rung is no timer any more.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.timer.take_if(|time| *time <= now);
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// When it is looked at again.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn timer(&self) -> Option<Timestamp> {
        self.timer
    }

    /// An action begins.
    pub(crate) fn act(&mut self) {
        self.under_way = true;
    }

    /// The action was answered.
    pub(crate) fn answered(&mut self) {
        self.under_way = false;
    }

    /// The action succeeded: a pause after failures is over, one that was asked for is not.
    pub(crate) fn succeeded(&mut self) {
        self.pause.take_if(|pause| pause.failures > 0);
    }

    /// The action for the ScavengerJob of this UID failed at `time`. After a conflict the version that caused it ends the
    /// pause.
    pub(crate) fn failed(&mut self, time: Timestamp, is_conflict: bool, uid: &str) {
        let failures = self.pause.map_or(0, |pause| pause.failures).saturating_add(1);
        let delay = after_failed_actions(failures, uid);
        self.pause = Some(Pause { failures, until: time + delay, ends_with_change: is_conflict });
    }

    /// Nothing is done about it until this time.
    pub(crate) fn pause_until(&mut self, until: Timestamp) {
        self.pause = Some(Pause { failures: 0, until, ends_with_change: false });
    }

    /// Another version of the ScavengerJob was seen.
    pub(crate) fn changed(&mut self) {
        self.pause.take_if(|pause| pause.ends_with_change);
    }

    /// Until when nothing is done about it, if it is paused.
    pub(crate) fn paused_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.pause.map(|pause| pause.until).filter(|until| *until > now)
    }

    /// True if it is, or was, paused.
    pub(crate) fn has_pause(&self) -> bool {
        self.pause.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn wait(times: &[i64], in_a_row: u32, least: i64) -> i64 {
        let times: Vec<Timestamp> = times.iter().copied().map(at).collect();
        let now = times.last().copied().unwrap();
        // The one of this UID and count waits longer by nothing, or nearly so.
        let waits = (0..1000).map(|uid| {
            after_interruption(&times, in_a_row, SignedDuration::from_secs(least), &uid.to_string(), now)
        });
        waits.min().unwrap().as_secs()
    }

    #[test]
    fn it_doubles_with_each_interruption_up_to_ten_minutes() {
        let times: Vec<i64> = (0..8).map(|number| number * 60).collect();
        let waits: Vec<i64> =
            (1..=8).map(|count| wait(&times[..count], u32::try_from(count).unwrap(), 30)).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600, 600]);
    }

    #[test]
    fn what_is_an_hour_old_or_was_followed_by_progress_does_not_count() {
        assert_eq!(wait(&[0, 3599], 2, 30), 60);
        assert_eq!(wait(&[0, 3600], 2, 30), 30);
        assert_eq!(wait(&[0, 10, 20], 1, 30), 30);
    }

    #[test]
    fn a_pool_may_ask_for_none_or_for_more_than_ten_minutes() {
        assert_eq!(wait(&[0, 10, 20], 3, 0), 0);
        assert_eq!(wait(&[0, 10, 20], 3, 900), 900);
    }

    #[test]
    fn those_that_are_interrupted_together_come_back_apart() {
        let least = SignedDuration::from_secs(30);
        let wait = |uid: usize| after_interruption(&[at(0)], 1, least, &format!("uid-{uid}"), at(0));
        let mut a_second: BTreeMap<i64, usize> = BTreeMap::new();
        for uid in 0..800 {
            let wait = wait(uid);
            assert!(wait >= least && wait <= least * 5 / 4, "{wait}");
            *a_second.entry(wait.as_secs()).or_default() += 1;
        }
        assert!(a_second.values().all(|count| *count < 200), "{a_second:?}");
        let again = after_interruption(&[at(0)], 2, least, "uid-1", at(0));
        assert_ne!(wait(1), again, "the next time it is another quarter");
    }

    #[test]
    fn failed_starts_are_spread_by_their_uid_and_never_earlier_than_the_base() {
        for (count, base) in [(1, 5), (2, 10), (8, 600), (100, 600)] {
            let waits: Vec<SignedDuration> =
                (0..50).map(|uid| after_failed_starts(count, &format!("uid-{uid}"))).collect();
            let base = SignedDuration::from_secs(base);
            assert!(waits.iter().all(|wait| *wait >= base && *wait < base * 5 / 4), "{waits:?}");
            assert!(waits.iter().max() > waits.iter().min());
        }
    }

    #[test]
    fn failed_actions_are_spread_as_well() {
        for (count, base) in [(1, 200), (2, 400), (8, 25_600), (100, 25_600)] {
            let waits: Vec<SignedDuration> =
                (0..50).map(|uid| after_failed_actions(count, &format!("uid-{uid}"))).collect();
            let base = SignedDuration::from_millis(base);
            assert!(waits.iter().all(|wait| *wait >= base && *wait < base * 5 / 4), "{waits:?}");
            assert!(waits.iter().max() > waits.iter().min());
        }
    }
}
