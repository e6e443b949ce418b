//! Rounds: how many go at once for a cause that can wait.
//!
//! A label that is removed by mistake, a threshold with a typing error or a metrics-server that is down concerns many
//! ScavengerJobs in the same second, and to mend it takes a minute. So for such a cause only a part of them goes in one
//! round. Nothing else is delayed: not what a waiting ordinary pod needs, nor a node without memory, nor a drain.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::values::{Key, Reason, later, resources::Share};

/// How many ScavengerJobs may be interrupted for one cause in one round.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// This share of those that the cause concerns.
    share: Share,
    /// So many, if the share is less.
    at_least: usize,
    /// How long a round takes.
    per: SignedDuration,
}

impl Budget {
    /// That of every cause: half of a thousand are still there after a minute of rounds.
    fn usual() -> Self {
        Self { share: Share::from_fraction(0.1), at_least: 10, per: SignedDuration::from_secs(10) }
    }

    /// How many may go in a round of a cause that concerns so many.
    fn most(&self, concerned: usize) -> usize {
        let share = self.share.of(i64::try_from(concerned).unwrap_or(i64::MAX));
        usize::try_from(share).unwrap_or(usize::MAX).max(self.at_least)
    }
}

/// The last round of each cause that can wait.
#[derive(Debug, Default)]
pub(crate) struct Rounds(BTreeMap<Reason, Round>);

#[derive(Debug)]
struct Round {
    until: Timestamp,
    /// How many went in it.
    ordered: usize,
    /// True if others had to stay.
    is_full: bool,
}

impl Rounds {
    /// True if nobody else goes for this cause before its next round.
    pub(super) fn is_full(&self, cause: &Reason, now: Timestamp) -> bool {
        self.0.get(cause).is_some_and(|round| round.is_full && now < round.until)
    }

    /// Orders these for a cause that can wait, in their order, and no more than may go in this round. The cause concerns so many
    /// ScavengerJobs in all. `order` says whether one goes because of it.
    pub(crate) fn order(
        &mut self,
        cause: &Reason,
        concerned: usize,
        these: impl IntoIterator<Item = (Key, String)>,
        now: Timestamp,
        mut order: impl FnMut(Key, String) -> bool,
    ) {
        let budget = Budget::usual();
        let fresh = || Round { until: later(now, budget.per), ordered: 0, is_full: false };
        let mut round = self.0.remove(cause).filter(|round| now < round.until).unwrap_or_else(fresh);
        for (sj, message) in these {
            if round.ordered >= budget.most(concerned) {
                round.is_full = true;
                break;
            }
            round.ordered += usize::from(order(sj, message));
        }
        self.0.insert(cause.clone(), round);
    }

    /// When the next round begins for which somebody stayed.
    pub(super) fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let full = self.0.values().filter(|round| round.is_full && now < round.until);
        full.map(|round| round.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_goes_in_a_round_and_ten_at_least() {
        for (concerned, most) in [(0, 10), (99, 10), (200, 20), (5000, 500)] {
            assert_eq!(Budget::usual().most(concerned), most, "{concerned}");
        }
    }
}
