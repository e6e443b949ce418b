//! What people and programs may know of the planner: what a plan did, and how the pool stands. The pool's status,
//! `explain`, the metrics and `plan` read these values and reach no further.
//!
//! # Status writes that only inform
//!
//! They say why a ScavengerJob waits, what holds its deletion, that a change of its spec was seen, what a supervisor reported.
//! They start, stop and end nothing, so all of them come from one small budget (`Informing`): the oldest first, reports of
//! supervisors last, none for a ScavengerJob that starts, changes or goes before its turn has come.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

pub use crate::{
    causes::short_nodes::Measuring,
    queue::{QueueEntry, SharesReport, TenantReport},
    values::action::Ordered,
};
use crate::{
    facts::tracked::{Reported, Tracked, Writing},
    node_use::UsageReport,
    values::{Closed, Counts, Key, Name, Reason, Settings, Waiting, earlier, later, resources::Resources},
};

/// What the steps of one plan did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many ScavengerJobs were looked at, because something about them is new or a timer was due.
    pub looked_at: usize,
    /// Interruptions that were ordered, in the order of the causes.
    pub ordered: Vec<Ordered>,
    /// ScavengerJobs that were admitted, in their order.
    pub admitted: Vec<Key>,
    /// Of how many ScavengerJobs the status is written to say why they wait.
    pub informed: usize,
    /// How many promises were given back because the write of a start got no answer for too long.
    pub expired: u64,
}

/// How the pool stands at one moment.
#[derive(Debug)]
pub struct PoolReport<'a> {
    /// Settings in force, or why nothing is admitted.
    pub settings: Result<&'a Settings, &'a str>,
    /// What the nodes of the pool have for pods.
    pub allocatable: &'a Resources,
    /// What is used of it: by pods, by ordinary pods that wait for a node, and by starts in flight.
    pub used: Resources,
    /// What of `used` is held for ordinary pods that wait for a node.
    pub pending_requests: Resources,
    /// Up to where ScavengerJobs may fill it; nothing without settings.
    pub limit: Resources,
    /// The nodes of the pool, those included that are closed to ScavengerJobs.
    pub nodes: Vec<NodeReport<'a>>,
    /// The groups of nodes that have a threshold of their own; none if all nodes have the same taints.
    pub groups: Vec<GroupReport<'a>>,
    /// How many ScavengerJobs are where.
    pub counts: &'a Counts,
    /// Since when the ScavengerJob that has waited longest has waited for nothing but capacity; none if nobody does, or
    /// none of them can ever fit.
    pub oldest_ready: Option<Timestamp>,
    /// Since when the deletion of a ScavengerJob that takes longest is under way.
    pub longest_deletion: Option<Timestamp>,
    /// How many ScavengerJobs get next to no processor time.
    pub starved: usize,
    /// Pending ordinary pods for which nothing is interrupted because some of their constraints cannot be evaluated, with
    /// these constraints. Empty unless the operator frees capacity for pods.
    pub unsupported_pods: Vec<(&'a Key, Vec<Name>)>,
    /// Nodes of the pool that a new pod of a ScavengerJob must not go to now, and why.
    pub closed_nodes: Vec<(&'a Name, &'a Closed)>,
    /// Nodes of the pool that leave it, and when.
    pub leaving_nodes: Vec<(&'a Name, Timestamp)>,
    /// How many of them should have left it, and still have pods of ScavengerJobs.
    pub overdue_nodes: usize,
    /// Why starts go without the supervisor, one message for each namespace where it could not be started; none if the
    /// pool has no supervisor.
    pub without_supervisor: Option<Vec<&'a str>>,
    /// Whether somebody measures how much memory nodes really use.
    pub measuring_memory: Measuring,
    /// How nodes that are counted by use stand; none with accounting Requests.
    pub usage: Option<UsageReport<'a>>,
    /// Interruptions that budgets hold back, by reason.
    pub held_back: Vec<HeldBack<'a>>,
    /// How tenants stand; none if the pool says nothing of tenants.
    pub shares: Option<SharesReport>,
}

/// Interruptions for one reason that budgets hold back.
#[derive(Debug)]
pub struct HeldBack<'a> {
    /// The reason.
    pub reason: &'a Reason,
    /// The ScavengerJobs, with the messages that they would get.
    pub jobs: &'a BTreeMap<Key, String>,
    /// When the next of them may go; none if it never may as the pool is now.
    pub next: Option<Timestamp>,
}

/// A node of the pool.
#[derive(Debug)]
pub struct NodeReport<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its labels.
    pub labels: &'a BTreeMap<Name, Name>,
    /// What it has for pods.
    pub allocatable: &'a Resources,
    /// What pods on it request, and what is promised to starts in flight.
    pub used: Resources,
    /// What a ScavengerJob of one pod may take of it now, as far as the node has a say.
    pub free: Resources,
    /// True if its agent is live.
    pub has_agent: bool,
}

/// Nodes of the pool with the same taints.
#[derive(Debug)]
pub struct GroupReport<'a> {
    /// The taints as kubectl writes them, separated by commas; empty for plain nodes.
    pub taints: String,
    /// What they have for pods.
    pub allocatable: &'a Resources,
    /// What pods on them use, those included that are about to be bound there. Starts in flight are not in it.
    pub used: &'a Resources,
    /// Up to where ScavengerJobs that can go nowhere else may fill them; nothing without settings.
    pub limit: Resources,
}

impl PoolReport<'_> {
    /// What is left below the threshold; negative where more is used.
    #[must_use]
    pub fn free(&self) -> Resources {
        self.limit.minus(&self.used)
    }
}

/// The budget: one write in this time, five a second.
const ONE_IN: SignedDuration = SignedDuration::from_millis(200);

/// What a quiet time saves up: a second's worth.
const SAVED: SignedDuration = SignedDuration::from_millis(800);

/// Whose status is to be written, and the budget for it.
#[derive(Debug, Default)]
pub(crate) struct Informing {
    /// By whether they have only reports to write, and by the time since when their status does not say what it should.
    due: BTreeSet<(bool, Timestamp, Key)>,
    /// When what was spent so far would have been paid, at an even pace.
    paid: Timestamp,
}

impl Informing {
    /// The status of a ScavengerJob may not say why it waits.
    pub(crate) fn add(&mut self, key: &Key, reported: &mut Reported, now: Timestamp) {
        let since = match reported.due {
            Some((false, since)) => since,
            _ => now,
        };
        self.remove(key, reported);
        reported.due = Some((false, since));
        self.due.insert((false, since, key.clone()));
    }

    /// The status does not tell what the supervisor of a ScavengerJob reported: it is written once nothing else
    /// is to be written about anybody.
    pub(crate) fn add_last(&mut self, key: &Key, reported: &mut Reported, now: Timestamp) {
        let (last, since) = *reported.due.get_or_insert((true, now));
        self.due.insert((last, since, key.clone()));
    }

    /// A ScavengerJob does not wait any longer, or its status says why.
    pub(crate) fn remove(&mut self, key: &Key, reported: &mut Reported) {
        if let Some((last, since)) = reported.due.take() {
            self.due.remove(&(last, since, key.clone()));
        }
    }

    /// A ScavengerJob waits for this, and is looked at again at this time. Returns when that is, should its status say so only
    /// later.
    pub(crate) fn wait(
        &mut self,
        key: &Key,
        tracked: &mut Tracked,
        waiting: Waiting,
        timer: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        match tracked.writing_of(&waiting.into(), now) {
            Writing::Done => timer,
            Writing::Due => {
                self.add(key, &mut tracked.reported, now);
                timer
            }
            Writing::NotBefore(again) => earlier(timer, Some(again)),
        }
    }

    /// Whose turn it is, if the budget allows a write now.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Key> {
        let (_, _, key) = self.due.first()?;
        (now >= self.allowed()).then(|| key.clone())
    }

    /// A write was made.
    pub(crate) fn spend(&mut self, now: Timestamp) {
        self.paid = later(self.paid.max(now), ONE_IN);
    }

    /// When the next status can be written; none if there is none to be written.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        (!self.due.is_empty()).then(|| self.allowed())
    }

    fn allowed(&self) -> Timestamp {
        self.paid.saturating_sub(SAVED).unwrap_or(Timestamp::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, key, millis};

    #[test]
    fn five_are_told_at_once_and_then_five_a_second_the_oldest_first() {
        let mut informing = Informing::default();
        let mut reported: Vec<Reported> = (0..20).map(|_| Reported::default()).collect();
        let name = |number: usize| key(&format!("job{:02}", 19 - number));
        for (number, reported) in reported.iter_mut().enumerate() {
            informing.add(&name(number), reported, at(0) + millis(i64::try_from(number).unwrap()));
        }
        let mut told = |informing: &mut Informing, now: Timestamp| {
            let mut told = Vec::new();
            while let Some(key) = informing.next(now) {
                let number = (0..20).find(|number| name(*number) == key).unwrap();
                informing.remove(&key, &mut reported[number]);
                informing.spend(now);
                told.push(number);
            }
            told
        };
        assert_eq!(told(&mut informing, at(1)), [0, 1, 2, 3, 4]);
        assert!(told(&mut informing, at(1)).is_empty());
        assert_eq!(informing.wake_at(), Some(at(1) + millis(200)));
        assert_eq!(told(&mut informing, at(1) + millis(200)), [5]);
        assert_eq!(told(&mut informing, at(2)), [6, 7, 8, 9]);
        assert_eq!(told(&mut informing, at(100)), [10, 11, 12, 13, 14]);
    }

    #[test]
    fn reports_wait_until_nothing_else_is_to_be_told() {
        let mut informing = Informing::default();
        let mut reported = [Reported::default(), Reported::default()];
        let (runs, waits) = (key("runs"), key("waits"));
        informing.add_last(&runs, &mut reported[0], at(0));
        informing.add(&waits, &mut reported[1], at(5));
        assert_eq!(informing.next(at(5)), Some(waits.clone()));
        // It has something else to tell now, since later than the other.
        informing.add(&runs, &mut reported[0], at(6));
        assert_eq!(informing.next(at(6)), Some(waits.clone()));
        informing.remove(&waits, &mut reported[1]);
        // What is told is told with everything else.
        informing.add_last(&runs, &mut reported[0], at(7));
        assert_eq!(informing.next(at(7)), Some(runs.clone()));
        informing.remove(&runs, &mut reported[0]);
        assert_eq!(informing.next(at(8)), None);
    }
}
