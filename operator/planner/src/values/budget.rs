//! Budgets for interruptions: how many ScavengerJobs may be interrupted in a time for causes that can wait.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Reason, Schedule, resources::Share};

/// How many ScavengerJobs may be interrupted in a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// For these reasons together; for every planned one if empty.
    pub reasons: Vec<Reason>,
    /// This share of the ScavengerJobs that hold capacity.
    pub share: Share,
    /// So many, if the share is less.
    pub at_least: usize,
    /// In any time of this length.
    pub period: SignedDuration,
    /// When it holds; always if none.
    pub schedule: Option<Schedule>,
}

impl Budget {
    /// What holds for a reason that no budget of the pool names at the time, for each such reason separately. Half of a
    /// thousand are still there after a minute.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            reasons: Vec::new(),
            share: Share::from_fraction(0.1),
            at_least: 10,
            period: SignedDuration::from_secs(10),
            schedule: None,
        }
    }

    /// How many may go while so many hold capacity.
    pub(crate) fn most(&self, running: usize) -> usize {
        let share = self.share.of(i64::try_from(running).unwrap_or(i64::MAX));
        usize::try_from(share).unwrap_or(usize::MAX).max(self.at_least)
    }

    /// True if interruptions for this reason are taken from it.
    pub(crate) fn names(&self, reason: &Reason) -> bool {
        if self.reasons.is_empty() { reason.is_planned() } else { self.reasons.contains(reason) }
    }

    /// True while it holds.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        self.schedule.as_ref().is_none_or(|schedule| schedule.is_open(now))
    }

    /// When it begins or ceases to hold next.
    pub(crate) fn turns_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.schedule.as_ref()?.turns_at(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_may_go_and_ten_at_least() {
        for (running, most) in [(0, 10), (99, 10), (200, 20), (5000, 500)] {
            assert_eq!(Budget::usual().most(running), most, "{running}");
        }
    }
}
