//! Which files count as new checkpoints: a function of what was seen at one look after the other.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// A checkpoint file as one look shows it. Times are those of the file server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// When its content last changed.
    pub modified: SystemTime,
    /// Its size in bytes.
    pub size: u64,
    /// Its number on the file server: another one has the path after a rename.
    pub inode: u64,
}

/// The file server's clock at a look.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// What it shows.
    pub now: SystemTime,
    /// How long ago the look before was, by a clock that never jumps.
    pub since_last_look: Duration,
}

/// Of what the first look shows, what an earlier attempt left. The workload is not kept waiting for a look that takes long, so
/// it may have written what is not older than the look itself. Times after the end of the look are of a clock that was set
/// back.
#[must_use]
pub fn left_before(found: Vec<Found>, began: SystemTime, ended: SystemTime) -> Vec<Found> {
    found.into_iter().filter(|one| one.modified < began || one.modified > ended).collect()
}

/// Follows the checkpoint files from look to look.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Nothing this old or older is new.
    newest: Option<SystemTime>,
    /// Files that are not new although their times are later than that: the clock was set back, or they have a time in the
    /// future.
    ahead: Vec<Found>,
    /// New files of the last look, which may still be being written.
    pending: Vec<Found>,
    /// What the last look showed.
    seen: Vec<Found>,
}

impl Tracker {
    /// Starts with what an earlier attempt left, and the file server's time.
    #[must_use]
    pub fn new(before: Vec<Found>, now: SystemTime) -> Self {
        // A file with a time in the future must not hide those that follow.
        let newest = before.iter().map(|found| found.modified.min(now)).max();
        let ahead = before.iter().filter(|found| Some(found.modified) > newest).cloned().collect();
        Self { newest, ahead, pending: Vec::new(), seen: before }
    }

    /// Whether a look shows anything that the last one did not, or that waits for a second look. Otherwise there is no new
    /// checkpoint, and nobody has to ask the file server for its time.
    #[must_use]
    pub fn has_news(&self, found: &[Found]) -> bool {
        self.is_unsettled() || found.iter().any(|one| !self.seen.contains(one))
    }

    /// Takes in a look, and returns the newest checkpoint if it is new.
    ///
    /// A file counts when two looks in succession see it unchanged, or when the workload has ended: until then it may
    /// be half written. It counts, too, when another file has taken its place, as a workload does that renames each
    /// checkpoint over the one before: that one was complete. Else a checkpoint every second would never be seen twice.
    pub fn look(&mut self, found: Vec<Found>, clock: Clock, ended: bool) -> Option<Found> {
        self.follow_a_clock_that_was_set_back(clock);
        let newest = self.newest;
        let is_new =
            |one: &&Found| newest.is_none_or(|newest| one.modified > newest) && !self.ahead.contains(one);
        let fresh: Vec<Found> = found.iter().filter(is_new).cloned().collect();
        let is_replaced =
            |old: &&Found| fresh.iter().any(|one| one.path == old.path && one.inode != old.inode);
        let replaced = self.pending.iter().filter(is_replaced);
        let complete = fresh.iter().filter(|one| ended || self.pending.contains(one)).chain(replaced);
        let counted = complete.max_by_key(|one| one.modified).cloned();
        if let Some(counted) = &counted {
            if counted.modified > clock.now {
                self.remember([counted.clone()]);
            } else {
                self.newest = Some(counted.modified);
            }
        }
        let newest = self.newest;
        self.pending = fresh;
        self.pending
            .retain(|one| newest.is_none_or(|newest| one.modified > newest) && counted.as_ref() != Some(one));
        self.seen = found;
        counted
    }

    /// What was counted has later times than anything that is written from now on, and must not hide it. What is written
    /// since the last look has a time after that look.
    fn follow_a_clock_that_was_set_back(&mut self, clock: Clock) {
        /// File systems round times, some to two seconds.
        const ROUNDED: Duration = Duration::from_secs(2);
        if self.newest.is_none_or(|newest| newest <= clock.now) {
            return;
        }
        let last_look = clock.now.checked_sub(clock.since_last_look + ROUNDED);
        self.newest = Some(last_look.unwrap_or(SystemTime::UNIX_EPOCH));
        let seen: Vec<Found> = self.seen.iter().filter(|one| !self.pending.contains(one)).cloned().collect();
        self.remember(seen);
    }

    fn remember(&mut self, known: impl IntoIterator<Item = Found>) {
        /// A look shows a few of the newest files.
        const MOST: usize = 64;
        self.ahead.extend(known);
        self.ahead.sort_by(|one, other| (one.modified, &one.path).cmp(&(other.modified, &other.path)));
        self.ahead.dedup();
        self.ahead.drain(..self.ahead.len().saturating_sub(MOST));
    }

    /// Whether a file waits for another look.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        !self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Ten seconds after the look before.
    fn clock(seconds: u64) -> Clock {
        Clock { now: at(seconds), since_last_look: Duration::from_secs(10) }
    }

    fn found(name: &str, seconds: u64, size: u64) -> Found {
        Found { path: name.into(), modified: at(seconds), size, inode: 7 }
    }

    fn renamed(name: &str, seconds: u64, inode: u64) -> Found {
        Found { inode, ..found(name, seconds, 5) }
    }

    #[test]
    fn what_is_written_during_the_first_look_is_not_from_before() {
        let all = [found("old", 90, 5), found("during", 101, 5), found("future", 500, 5)];
        let before = left_before(all.to_vec(), at(100), at(104));
        assert_eq!(before, [all[0].clone(), all[2].clone()]);
        let all = all[..2].to_vec();
        let mut tracker = Tracker::new(left_before(all.clone(), at(100), at(104)), at(104));
        assert!(tracker.has_news(&all));
        assert_eq!(tracker.look(all.clone(), clock(110), true), Some(all[1].clone()));
    }

    #[test]
    fn a_file_that_is_renamed_over_at_every_look_counts() {
        let mut tracker = Tracker::new(vec![renamed("a", 90, 1)], at(100));
        assert_eq!(tracker.look(vec![renamed("a", 101, 2)], clock(200), false), None);
        assert_eq!(tracker.look(vec![renamed("a", 102, 3)], clock(200), false), Some(renamed("a", 101, 2)));
        assert_eq!(tracker.look(vec![renamed("a", 103, 2)], clock(200), false), Some(renamed("a", 102, 3)));
        assert_eq!(tracker.look(vec![renamed("a", 103, 2)], clock(200), false), Some(renamed("a", 103, 2)));
        // What is written in place may be half written at each look.
        assert_eq!(tracker.look(vec![renamed("a", 104, 2)], clock(200), false), None);
        assert_eq!(tracker.look(vec![renamed("a", 105, 2)], clock(200), false), None);
    }

    #[test]
    fn a_file_counts_when_it_no_longer_changes() {
        let mut tracker = Tracker::new(vec![], at(100));
        assert_eq!(tracker.look(vec![found("a", 110, 5)], clock(200), false), None);
        assert!(tracker.is_unsettled());
        assert_eq!(tracker.look(vec![found("a", 111, 9)], clock(200), false), None);
        assert_eq!(tracker.look(vec![found("a", 111, 9)], clock(200), false), Some(found("a", 111, 9)));
        assert!(!tracker.is_unsettled());
        assert_eq!(tracker.look(vec![found("a", 111, 9)], clock(200), false), None);
    }

    #[test]
    fn what_was_there_before_is_not_new() {
        let mut tracker = Tracker::new(vec![found("a", 90, 5)], at(100));
        assert_eq!(tracker.look(vec![found("a", 90, 5)], clock(200), true), None);
        // A copy that kept its time is older than the newest.
        assert_eq!(tracker.look(vec![found("b", 80, 5)], clock(200), true), None);
        assert_eq!(tracker.look(vec![found("a", 101, 5)], clock(200), true), Some(found("a", 101, 5)));
    }

    #[test]
    fn a_time_in_the_future_hides_nothing() {
        let future = found("a", 100_000, 5);
        let mut tracker = Tracker::new(vec![future.clone()], at(100));
        assert_eq!(tracker.look(vec![future.clone()], clock(200), true), None);
        let look = vec![future, found("b", 120, 5)];
        assert_eq!(tracker.look(look, clock(200), true), Some(found("b", 120, 5)));
    }

    #[test]
    fn a_half_written_file_does_not_hide_a_complete_one() {
        let mut tracker = Tracker::new(vec![], at(100));
        assert_eq!(tracker.look(vec![found("a", 110, 5)], clock(200), false), None);
        let look = vec![found("a", 110, 5), found("b", 112, 1)];
        assert_eq!(tracker.look(look, clock(200), false), Some(found("a", 110, 5)));
        assert_eq!(tracker.look(vec![found("b", 113, 5)], clock(200), true), Some(found("b", 113, 5)));
    }

    #[test]
    fn a_clock_that_is_set_back_hides_nothing() {
        // Files of an hour and of long ago; the workload writes one more.
        let old = || vec![found("x", 100, 5), found("y", 4_000, 5)];
        let mut tracker = Tracker::new(old(), at(4_100));
        let look = |more: &[Found]| [old(), more.to_vec()].concat();
        let last = found("a", 4_200, 5);
        assert_eq!(tracker.look(look(std::slice::from_ref(&last)), clock(4_201), false), None);
        let counted = tracker.look(look(std::slice::from_ref(&last)), clock(4_211), false);
        assert_eq!(counted, Some(last.clone()));
        // An hour back: what is known is not new, and what follows is.
        assert_eq!(tracker.look(look(std::slice::from_ref(&last)), clock(620), true), None);
        let next = found("b", 625, 5);
        let both = || look(&[last.clone(), next.clone()]);
        assert_eq!(tracker.look(both(), clock(631), false), None);
        assert_eq!(tracker.look(both(), clock(641), false), Some(next.clone()));
        assert_eq!(tracker.look(both(), clock(651), false), None);
        // In place, at the path of the last one.
        let over = found("a", 655, 6);
        let look = || look(&[over.clone(), next.clone()]);
        assert_eq!(tracker.look(look(), clock(661), false), None);
        assert_eq!(tracker.look(look(), clock(671), false), Some(over.clone()));
        // The clock shows the old times again.
        assert_eq!(tracker.look(look(), clock(4_300), true), None);
    }

    #[test]
    fn a_file_that_counts_with_a_time_in_the_future_hides_nothing() {
        let mut tracker = Tracker::new(vec![], at(100));
        let future = || found("a", 100_000, 5);
        assert_eq!(tracker.look(vec![future()], clock(110), false), None);
        // Beside another that is not complete yet.
        let both = || vec![found("b", 115, 5), future()];
        assert_eq!(tracker.look(both(), clock(120), false), Some(future()));
        assert_eq!(tracker.look(both(), clock(130), false), Some(found("b", 115, 5)));
        assert_eq!(tracker.look(both(), clock(140), true), None);
        assert!(!tracker.has_news(&both()) && tracker.has_news(&[found("c", 1, 1)]));
    }
}
