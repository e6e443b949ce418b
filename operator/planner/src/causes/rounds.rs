//! Rounds: how many go at once for a cause that can wait.
//!
//! A label that is removed by mistake, a threshold with a typing error or a metrics-server that is down concerns many
//! ScavengerJobs in the same second, and to mend it takes a minute. So for such a cause only so many go in a time as the budgets
//! of the pool allow ([`Budget`]). Nothing else is delayed: not what a waiting ordinary pod needs, nor a node without memory,
//! nor a drain.
//!
//! What counts is any time as long as a budget's period, and not fixed stretches of it: at the border of two of these twice as
//! many could go. An interruption that could not wait counts as well. What statuses tell counts, too, so the next operator goes
//! on where this one ends, as far as the attempts are still the last ones of their ScavengerJobs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::values::{Budget, Key, Name, Reason, ScavengerJob, earlier, later};

/// How long it is known who would go, while nobody may: to find out takes a look at all who run.
const KNOWN_FOR: SignedDuration = SignedDuration::from_secs(10);

/// The longest time that a budget may look back.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 7);

/// UID of a ScavengerJob, and number of its attempt.
type Id = (Name, u32);

/// Who went for causes that can wait, and who would go.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// When attempts were interrupted, as long ago as any budget looks.
    spent: BTreeSet<(Timestamp, Id, Reason)>,
    /// The same attempts: each counts once, from when it was ordered, however often its status says so.
    counted: BTreeSet<Id>,
    held: BTreeMap<Reason, Held>,
}

/// Those who must stay although there is a cause for which they would go.
#[derive(Debug)]
struct Held {
    /// With the messages that they would have got.
    jobs: BTreeMap<Key, String>,
    found: Timestamp,
}

/// How many may go for a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// So many more may go now.
    pub(crate) more: usize,
    /// So many could if none had gone.
    pub(crate) most: usize,
    /// When more may go, while none may; none if nothing but another pool changes that.
    pub(crate) again: Option<Timestamp>,
}

/// True if the order of such an interruption asks how many may go. No budget names a node where an ordinary container was
/// killed, so the usual number goes there.
fn goes_in_rounds(reason: &Reason) -> bool {
    reason.is_planned() || *reason == Reason::OrdinaryPodKilled
}

/// The budgets that hold and name a reason.
fn holding<'b>(reason: &Reason, budgets: &'b [Budget], now: Timestamp) -> impl Iterator<Item = &'b Budget> {
    budgets.iter().filter(move |budget| budget.names(reason) && budget.holds(now))
}

/// How long it takes until so many have gone for a reason, from the first to the last, if nobody else goes meanwhile: by the
/// budgets that hold now and allow any. Of what none may ever go for nobody can say how long it takes.
pub(super) fn time_for(
    number: usize,
    reason: &Reason,
    budgets: &[Budget],
    running: usize,
    now: Timestamp,
) -> SignedDuration {
    let of_budget = |budget: &Budget| {
        let rounds = number.saturating_sub(1).checked_div(budget.most(running)).unwrap_or(0);
        budget.period.saturating_mul(i32::try_from(rounds).unwrap_or(i32::MAX))
    };
    let times = holding(reason, budgets, now).map(of_budget);
    times.max().unwrap_or_else(|| of_budget(&Budget::usual()))
}

impl Rounds {
    /// How many more may be interrupted now for this reason, and when others may. Of the budgets that hold and name it the
    /// smallest counts; the usual one, for this reason alone, if there is none.
    pub(crate) fn allowance(
        &self,
        reason: &Reason,
        budgets: &[Budget],
        running: usize,
        now: Timestamp,
    ) -> Allowance {
        let holding = holding(reason, budgets, now);
        let mut left: Vec<Allowance> =
            holding.map(|budget| self.left(budget, |spent| budget.names(spent), running, now)).collect();
        if left.is_empty() {
            left.push(self.left(&Budget::usual(), |spent| spent == reason, running, now));
        }
        let least = |of: fn(&Allowance) -> usize| left.iter().map(of).min().unwrap_or(0);
        let more = least(|one| one.more);
        // All that are used up must allow it again.
        let used_up = left.iter().filter(|one| one.more == 0).map(|one| one.again);
        let again = used_up.reduce(|a, b| Some(a?.max(b?))).flatten();
        // Others may hold by then.
        let naming = budgets.iter().filter(|budget| budget.names(reason));
        let turn = naming.filter_map(|budget| budget.turns_at(now)).min();
        Allowance { more, most: least(|one| one.most), again: earlier(again, turn).filter(|_| more == 0) }
    }

    /// What is left of one budget, which is spent for such reasons.
    fn left(
        &self,
        budget: &Budget,
        is_spent_for: impl Fn(&Reason) -> bool,
        running: usize,
        now: Timestamp,
    ) -> Allowance {
        let most = budget.most(running);
        let since = self.spent.iter().rev().take_while(|(time, ..)| later(*time, budget.period) > now);
        let mut times: Vec<Timestamp> =
            since.filter(|(.., reason)| is_spent_for(reason)).map(|(time, ..)| *time).collect();
        times.reverse();
        let more = most.saturating_sub(times.len());
        // So many must be long enough ago that one less than the most is left.
        let again = times.len().checked_sub(most).and_then(|too_many| times.get(too_many));
        Allowance { more, most, again: again.map(|time| later(*time, budget.period)) }
    }

    /// Takes in that the last attempt of a ScavengerJob was interrupted, or that its status says so.
    pub(crate) fn note(
        &mut self,
        sj: &ScavengerJob,
        reason: &Reason,
        time: Timestamp,
        budgets: Option<&[Budget]>,
    ) {
        let Some(attempt) = sj.status.attempt.as_ref().filter(|_| goes_in_rounds(reason)) else { return };
        let id = (sj.uid.clone(), attempt.number);
        if !self.counted.insert(id.clone()) {
            return;
        }
        self.spent.insert((time, id, reason.clone()));
        let longest = budgets.map_or(LONGEST, |budgets| {
            budgets.iter().map(|budget| budget.period).fold(Budget::usual().period, SignedDuration::max)
        });
        let newest = self.spent.last().map_or(time, |(time, ..)| *time);
        while let Some((time, id, _)) = self.spent.first()
            && later(*time, longest) < newest
        {
            self.counted.remove(id);
            self.spent.pop_first();
        }
    }

    /// Somebody must stay who would go.
    pub(crate) fn hold(&mut self, reason: &Reason, sj: Key, message: String, now: Timestamp) {
        let fresh = || Held { jobs: BTreeMap::new(), found: now };
        self.held.entry(reason.clone()).or_insert_with(fresh).jobs.insert(sj, message);
    }

    /// One goes, for whatever reason, and does not stay.
    pub(crate) fn let_go(&mut self, sj: &Key) {
        self.held.retain(|_, held| {
            held.jobs.remove(sj);
            !held.jobs.is_empty()
        });
    }

    /// It is found out once more who must stay.
    pub(crate) fn release(&mut self, reason: &Reason) {
        self.held.remove(reason);
    }

    /// True if somebody must stay.
    pub(crate) fn holds(&self, reason: &Reason) -> bool {
        self.held.contains_key(reason)
    }

    /// True if it is known who must stay, and there is no need to find out again.
    pub(super) fn knows(&self, reason: &Reason, now: Timestamp) -> bool {
        self.held.get(reason).is_some_and(|held| now < later(held.found, KNOWN_FOR))
    }

    /// Those who must stay, by reason, with the messages that they would have got.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Reason, &BTreeMap<Key, String>)> {
        self.held.iter().map(|(reason, held)| (reason, &held.jobs))
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;

    use super::*;
    use crate::{
        fixtures::{at, budget, daily, sj},
        values::Attempt,
    };

    /// So many are interrupted at a time.
    fn spend(rounds: &mut Rounds, number: usize, reason: &Reason, second: i64) {
        for _ in 0..number {
            let mut sj = sj(&format!("job{}", rounds.counted.len()));
            let demand = sj.spec.as_ref().unwrap().demand.clone();
            sj.status.attempt = Some(Box::new(Attempt::first(demand, at(0))));
            for _ in 0..2 {
                // Its status says so, too, and may be older than the order.
                rounds.note(&sj, reason, at(second), Some(&[budget(1, 3600)]));
            }
        }
    }

    /// How many more may go, and when others may, in a pool of so many.
    fn left(rounds: &Rounds, reason: &Reason, budgets: &[Budget], second: i64) -> (usize, Option<i64>) {
        let allowance = rounds.allowance(reason, budgets, 1000, at(second));
        (allowance.more, allowance.again.map(|time| time.duration_since(at(0)).as_secs()))
    }

    #[test]
    fn any_time_of_the_period_counts() {
        let (mut rounds, budgets) = (Rounds::default(), [budget(3, 10)]);
        spend(&mut rounds, 1, &Reason::Headroom, 0);
        spend(&mut rounds, 2, &Reason::NodeLeftPool, 9);
        for (second, expected) in
            [(9, (0, Some(10))), (10, (1, None)), (18, (1, None)), (19, (3, None)), (1000, (3, None))]
        {
            assert_eq!(left(&rounds, &Reason::NodeCPUShort, &budgets, second), expected, "{second}");
        }
        // Of more than may go, so many must be long enough ago that one may.
        assert_eq!(left(&rounds, &Reason::Headroom, &[budget(1, 10)], 10), (0, Some(19)));
        assert_eq!(left(&rounds, &Reason::Headroom, &[budget(0, 10)], 10), (0, None));
    }

    #[test]
    fn the_smallest_budget_that_names_the_reason_and_holds_counts() {
        let mut rounds = Rounds::default();
        spend(&mut rounds, 5, &Reason::Headroom, 0);
        let of_headroom = Budget { reasons: vec![Reason::Headroom], ..budget(5, 60) };
        let all = budget(20, 10);
        let night = Budget { schedule: Some(daily(time(20, 0, 0, 0), time(6, 0, 0, 0))), ..budget(0, 10) };
        let budgets = [all, of_headroom, night];
        // The model begins at eight in the morning.
        assert_eq!(left(&rounds, &Reason::Headroom, &budgets, 0), (0, Some(60)));
        assert_eq!(left(&rounds, &Reason::NodeLeftPool, &budgets, 0), (15, None));
        let evening = 12 * 3600;
        assert_eq!(left(&rounds, &Reason::Headroom, &budgets, evening - 1), (5, None));
        assert_eq!(left(&rounds, &Reason::Headroom, &budgets, evening), (0, Some(evening + 10 * 3600)));
    }

    #[test]
    fn a_reason_that_no_budget_names_has_the_usual_one_for_itself() {
        let mut rounds = Rounds::default();
        spend(&mut rounds, 100, &Reason::Headroom, 0);
        let other = Budget { reasons: vec![Reason::NodeCPUShort], ..budget(0, 10) };
        for budgets in [&[][..], &[other]] {
            assert_eq!(left(&rounds, &Reason::Headroom, budgets, 0), (0, Some(10)));
            assert_eq!(left(&rounds, &Reason::NodeLeftPool, budgets, 0), (100, None));
        }
        // Nobody can budget that.
        assert_eq!(left(&rounds, &Reason::OrdinaryPodKilled, &[budget(0, 10)], 0), (100, None));
    }

    #[test]
    fn many_take_as_many_rounds_as_the_slowest_budget_needs() {
        let night = Budget { schedule: Some(daily(time(20, 0, 0, 0), time(6, 0, 0, 0))), ..budget(1, 3600) };
        let few = Budget { reasons: vec![Reason::Headroom], ..budget(1, 3600) };
        let budgets = [budget(4, 60), budget(100, 10), budget(0, 10), night, few];
        let time = |number, budgets: &[Budget]| {
            time_for(number, &Reason::NodeLeftPool, budgets, 50, at(0)).as_secs()
        };
        for (number, seconds) in [(0, 0), (1, 0), (4, 0), (5, 60), (8, 60), (9, 120)] {
            assert_eq!(time(number, &budgets), seconds, "{number}");
        }
        assert_eq!([time(10, &[]), time(11, &[])], [0, 10], "what is usual");
    }

    #[test]
    fn what_is_older_than_every_period_is_forgotten() {
        let mut rounds = Rounds::default();
        spend(&mut rounds, 10, &Reason::Headroom, 0);
        spend(&mut rounds, 1, &Reason::Headroom, 3600);
        assert_eq!(rounds.spent.len(), 11);
        spend(&mut rounds, 1, &Reason::Headroom, 3601);
        assert_eq!((rounds.spent.len(), rounds.counted.len()), (2, 2));
    }
}
