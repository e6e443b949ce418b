//! What is looked at next, and when: the ScavengerJobs about which something is new, and those whose time has come.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{backoff, values::Key};

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
    /// A cause of interruptions has something to do, or what it relies on should be gone at the latest.
    Causes,
    /// Capacity that was lent and is being given back should be free at the latest.
    Loans,
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

    /// True while an action for it is under way.
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
        let delay = backoff::after_failed_actions(failures, uid);
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
