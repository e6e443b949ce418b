//! Which files count as new checkpoints: a function of what was seen at one look after the other.

use std::{path::PathBuf, time::SystemTime};

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

/// Follows the checkpoint files from look to look.
#[derive(Debug, Default)]
pub struct Tracker {
    /// What was there when the workload started.
    before: Vec<Found>,
    /// Nothing this old or older is new.
    newest: Option<SystemTime>,
    /// New files of the last look, which may still be being written.
    pending: Vec<Found>,
}

impl Tracker {
    /// Starts with what an earlier attempt left, and the file server's time.
    #[must_use]
    pub fn new(before: Vec<Found>, now: SystemTime) -> Self {
        // A file with a time in the future must not hide those that follow.
        let newest = before.iter().map(|found| found.modified.min(now)).max();
        Self { before, newest, pending: Vec::new() }
    }

    /// Takes in a look, and returns the newest checkpoint if it is new.
    ///
    /// A file counts when two looks in succession see it unchanged, or when the workload has ended: until then it may
    /// be half written. It counts, too, when another file has taken its place, as a workload does that renames each
    /// checkpoint over the one before: that one was complete. Else a checkpoint every second would never be seen twice.
    pub fn look(&mut self, found: Vec<Found>, ended: bool) -> Option<Found> {
        let newest = self.newest;
        let is_new =
            |one: &Found| newest.is_none_or(|newest| one.modified > newest) && !self.before.contains(one);
        let fresh: Vec<Found> = found.into_iter().filter(|one| is_new(one)).collect();
        let is_replaced =
            |old: &&Found| fresh.iter().any(|one| one.path == old.path && one.inode != old.inode);
        let replaced = self.pending.iter().filter(is_replaced);
        let complete = fresh.iter().filter(|one| ended || self.pending.contains(one)).chain(replaced);
        let counted = complete.max_by_key(|one| one.modified).cloned();
        if let Some(counted) = &counted {
            self.newest = Some(counted.modified);
        }
        let newest = self.newest;
        self.pending = fresh;
        self.pending.retain(|one| newest.is_none_or(|newest| one.modified > newest));
        counted
    }

    /// Whether a file waits for another look.
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        !self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn found(name: &str, seconds: u64, size: u64) -> Found {
        Found { path: name.into(), modified: at(seconds), size, inode: 7 }
    }

    fn renamed(name: &str, seconds: u64, inode: u64) -> Found {
        Found { inode, ..found(name, seconds, 5) }
    }

    #[test]
    fn a_file_that_is_renamed_over_at_every_look_counts() {
        let mut tracker = Tracker::new(vec![renamed("a", 90, 1)], at(100));
        assert_eq!(tracker.look(vec![renamed("a", 101, 2)], false), None);
        assert_eq!(tracker.look(vec![renamed("a", 102, 3)], false), Some(renamed("a", 101, 2)));
        assert_eq!(tracker.look(vec![renamed("a", 103, 2)], false), Some(renamed("a", 102, 3)));
        assert_eq!(tracker.look(vec![renamed("a", 103, 2)], false), Some(renamed("a", 103, 2)));
        // What is written in place may be half written at each look.
        assert_eq!(tracker.look(vec![renamed("a", 104, 2)], false), None);
        assert_eq!(tracker.look(vec![renamed("a", 105, 2)], false), None);
    }

    #[test]
    fn a_file_counts_when_it_no_longer_changes() {
        let mut tracker = Tracker::new(vec![], at(100));
        assert_eq!(tracker.look(vec![found("a", 110, 5)], false), None);
        assert!(tracker.is_unsettled());
        assert_eq!(tracker.look(vec![found("a", 111, 9)], false), None);
        assert_eq!(tracker.look(vec![found("a", 111, 9)], false), Some(found("a", 111, 9)));
        assert!(!tracker.is_unsettled());
        assert_eq!(tracker.look(vec![found("a", 111, 9)], false), None);
    }

    #[test]
    fn what_was_there_before_is_not_new() {
        let mut tracker = Tracker::new(vec![found("a", 90, 5)], at(100));
        assert_eq!(tracker.look(vec![found("a", 90, 5)], true), None);
        // A copy that kept its time is older than the newest.
        assert_eq!(tracker.look(vec![found("b", 80, 5)], true), None);
        assert_eq!(tracker.look(vec![found("a", 101, 5)], true), Some(found("a", 101, 5)));
    }

    #[test]
    fn a_time_in_the_future_hides_nothing() {
        let future = found("a", 100_000, 5);
        let mut tracker = Tracker::new(vec![future.clone()], at(100));
        assert_eq!(tracker.look(vec![future.clone()], true), None);
        let look = vec![future, found("b", 120, 5)];
        assert_eq!(tracker.look(look, true), Some(found("b", 120, 5)));
    }

    #[test]
    fn a_half_written_file_does_not_hide_a_complete_one() {
        let mut tracker = Tracker::new(vec![], at(100));
        assert_eq!(tracker.look(vec![found("a", 110, 5)], false), None);
        let look = vec![found("a", 110, 5), found("b", 112, 1)];
        assert_eq!(tracker.look(look, false), Some(found("a", 110, 5)));
        assert_eq!(tracker.look(vec![found("b", 113, 5)], true), Some(found("b", 113, 5)));
    }
}
