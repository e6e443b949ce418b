//! Nodes that are in the pool until a time that an admin has announced, and which ScavengerJobs may start there yet: those that can
//! save before ([`ScavengerJob::saves_within`]). What that takes is rounded up to one of a few times ([`STEPS`]), so that it is
//! found out at a few moments alone where others may go, however many wait.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::{ASKED_BEFORE, Name, ScavengerJob, later};

/// In minutes. What takes longer than the longest starts on no node that leaves.
const STEPS: [i64; 15] = [5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440];

fn step(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// The nodes that leave.
#[derive(Debug, Default)]
pub(crate) struct LeavingNodes(BTreeMap<Name, Left>);

/// What is left of the time of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    until: Timestamp,
    /// So many of the steps are shorter than that.
    steps: usize,
    /// True once its workloads are to save.
    asks: bool,
}

impl Left {
    fn at(now: Timestamp, until: Timestamp) -> Self {
        let left = until.duration_since(now);
        let steps = STEPS.iter().take_while(|minutes| step(**minutes) < left).count();
        Self { until, steps, asks: left <= ASKED_BEFORE }
    }

    /// When something else holds.
    fn turns_at(&self) -> Option<Timestamp> {
        let longest = self.steps.checked_sub(1).and_then(|last| STEPS.get(last));
        let before = longest.map_or(ASKED_BEFORE, |minutes| step(*minutes));
        (!self.asks).then(|| later(self.until, -before))
    }
}

impl LeavingNodes {
    /// Takes in which nodes leave, and that time has passed. Returns those about which something else holds.
    pub(super) fn follow<'a>(
        &mut self,
        leaving: impl Iterator<Item = (&'a Name, Timestamp)>,
        now: Timestamp,
    ) -> Vec<Name> {
        let mut before = std::mem::take(&mut self.0);
        let mut changed = Vec::new();
        for (node, until) in leaving {
            let left = Left::at(now, until);
            if before.remove(node) != Some(left) {
                changed.push(node.clone());
            }
            self.0.insert(node.clone(), left);
        }
        changed.extend(before.into_keys());
        changed
    }

    /// The nodes on which a ScavengerJob could not save if it started now.
    pub(crate) fn avoided_by(&self, sj: &ScavengerJob) -> impl Iterator<Item = &Name> {
        // Few nodes leave, and mostly none.
        let within = if self.0.is_empty() { SignedDuration::ZERO } else { sj.saves_within() };
        let needs = STEPS.iter().take_while(|minutes| step(**minutes) < within).count();
        self.0.iter().filter(move |(_, left)| left.steps <= needs).map(|(node, _)| node)
    }

    /// True if a node leaves so soon that nothing can save there before.
    pub(crate) fn takes_none(&self, node: &Name) -> bool {
        self.0.get(node).is_some_and(|left| left.steps == 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When something else holds about a node.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.0.values().filter_map(Left::turns_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, seconds, sj};

    /// One that starts again within a minute, and saves first after so many seconds.
    fn saves_after(time: i64) -> ScavengerJob {
        sj("a").interruptible_after(seconds(time))
    }

    fn follow(leaving: &mut LeavingNodes, until: Option<i64>, now: i64) -> Vec<Name> {
        let node = Name::from("n1");
        leaving.follow(until.map(|until| (&node, at(until))).into_iter(), at(now))
    }

    #[test]
    fn only_what_can_save_before_starts_there() {
        let mut leaving = LeavingNodes::default();
        let avoids = |leaving: &LeavingNodes, time| leaving.avoided_by(&saves_after(time)).count() == 1;
        follow(&mut leaving, Some(3601), 0);
        // A minute to start, and two for the last checkpoint.
        for (time, avoided) in [(60, false), (57 * 60, false), (57 * 60 + 1, true), (100_000, true)] {
            assert_eq!(avoids(&leaving, time), avoided, "{time}");
        }
        follow(&mut leaving, Some(100_000), 0);
        assert!(
            !avoids(&leaving, 86_400 - 180) && avoids(&leaving, 86_400),
            "a day at most, however far off"
        );
        follow(&mut leaving, None, 0);
        assert!(!avoids(&leaving, 100_000));
    }

    #[test]
    fn it_changes_at_the_steps_alone() {
        let mut leaving = LeavingNodes::default();
        assert_eq!((follow(&mut leaving, Some(7200), 0).len(), leaving.wake_at()), (1, Some(at(1800))));
        let mut now = 0;
        let mut changes = Vec::new();
        while let Some(time) = leaving.wake_at() {
            now = time.duration_since(at(0)).as_secs();
            assert!(follow(&mut leaving, Some(7200), now - 1).is_empty(), "{now}");
            assert_eq!(follow(&mut leaving, Some(7200), now).len(), 1, "{now}");
            changes.push((7200 - now) / 60);
        }
        assert_eq!(changes, [90, 60, 45, 30, 20, 15, 10, 5, 2]);
        assert!(leaving.takes_none(&"n1".into()));
        assert!(follow(&mut leaving, Some(7200), now + 100_000).is_empty());
        assert_eq!(follow(&mut leaving, None, now + 100_001), [Name::from("n1")]);
    }
}
