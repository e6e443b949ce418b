//! What each cause of interruptions is, what it looks at, and how it gives its orders.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    least_loss::Candidate,
    rounds::{self, Allowance, Rounds},
};
use crate::{
    capacity::{Capacity, ScavengerPod, promises::Promises, without_compute},
    facts::{
        seen::Seen,
        tracked::{Attachments, Tracked},
    },
    lifecycle::loss::Loss,
    values::{
        Demand, Key, Name, Pod, Reason, Settings, action::Ordered, earlier, later, resources::Resources,
    },
};

/// One cause for which ScavengerJobs must go.
pub(crate) trait Cause {
    /// True if there is nothing to do. Most plans end here.
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool;

    /// Orders the interruption of those that must go.
    fn order(&mut self, pool: &mut Pool<'_>);

    /// Nodes where this cause counts on what is terminating, and what it needs of them: the planner looks again when that
    /// should be gone, and no checkpoint of a ScavengerJob that holds it is waited for. So a cause that can wait names
    /// none.
    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        Vec::new()
    }

    /// When there may be something to do although nothing is seen until then.
    fn wake_at(&self) -> Option<Timestamp> {
        None
    }
}

/// What a cause needs of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// The resources of which more is requested than the node has: a ScavengerJob that holds none of these is in nobody's
    /// way.
    WhatIsShort,
    /// Whatever ScavengerJobs hold there.
    Everything,
}

/// What the causes look at, and the orders they give.
pub(crate) struct Pool<'a> {
    pub(crate) seen: &'a mut Seen,
    pub(crate) capacity: &'a mut Capacity,
    pub(crate) promises: &'a mut Promises,
    pub(crate) occupancy: &'a Occupancy,
    pub(crate) rounds: &'a mut Rounds,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
    /// Interruptions that were ordered so far.
    pub(crate) ordered: Vec<Ordered>,
    /// ScavengerJobs that are not waited for any more.
    pub(crate) hurried: Vec<Key>,
}

/// How a ScavengerJob holds its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It stays unless it is interrupted.
    Stays,
    /// It is giving its capacity back, by this time at the latest.
    Terminating(Timestamp),
    /// It should have given its capacity back long ago, and nobody knows when it will.
    Stuck,
}

/// How long what is terminating may take beyond the grace period of its pods, or until their deletion is requested. A
/// deletion takes a second and the kubelet a few more to clean up; what takes longer is stuck (a mount that does not
/// answer, a webhook that refuses every eviction), nobody knows for how long. Nothing waits for capacity that comes back
/// so late, however it was promised.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

impl Pool<'_> {
    /// Orders the interruption of a ScavengerJob's active attempt. False if it has none, or if that was decided before.
    pub(crate) fn order(&mut self, sj: &Key, reason: Reason, message: String) -> bool {
        let order = Ordered { sj: sj.clone(), reason, message };
        let Some(tracked) = self.seen.get_mut(sj) else { return false };
        let is_new = tracked.order_interruption(&order, self.now);
        if is_new {
            self.rounds.note(tracked.sj(), &order.reason, self.now, Some(&self.settings.budgets));
            self.rounds.let_go(sj);
            self.ordered.push(order);
        }
        is_new
    }

    /// How many more may go now for a cause that can wait.
    pub(super) fn allowance(&self, cause: &Reason) -> Allowance {
        self.rounds.allowance(cause, &self.settings.budgets, self.occupancy.len(), self.now)
    }

    /// How long it takes until so many have gone for a cause that can wait.
    pub(super) fn time_for(&self, number: usize, cause: &Reason) -> SignedDuration {
        rounds::time_for(number, cause, &self.settings.budgets, self.occupancy.len(), self.now)
    }

    /// True if nobody goes now for a cause that can wait, and it is known who would.
    pub(super) fn waits(&self, cause: &Reason) -> bool {
        self.rounds.knows(cause, self.now) && self.allowance(cause).more == 0
    }

    /// When the first of those may go who must stay now.
    pub(super) fn next_round(&self) -> Option<Timestamp> {
        let held = self.rounds.held().map(|(cause, _)| self.allowance(cause).again);
        held.fold(None, earlier)
    }

    /// Orders the interruption of these for a cause that can wait, in their order, and of no more than may go now.
    pub(super) fn order_in_rounds(&mut self, cause: &Reason, these: impl IntoIterator<Item = (Key, String)>) {
        let mut more = self.allowance(cause).more;
        for (sj, message) in these {
            if more > 0 {
                more -= usize::from(self.order(&sj, cause.clone(), message));
            } else {
                self.rounds.hold(cause, sj, message, self.now);
            }
        }
    }

    /// What is lost if a ScavengerJob is interrupted; none if it is terminating anyway.
    pub(super) fn loss_of(&self, sj: &Key) -> Option<Loss> {
        let (tracked, attachments) = self.seen.get(sj).zip(self.seen.attachments(sj))?;
        let stays = !is_terminating(tracked, attachments);
        stays.then(|| Loss::of(tracked.sj(), &self.settings.weights, self.settings.priority_steps, self.now))
    }

    /// True if its attempt has run for less than the pool's `minimumRun`: others go first, unless somebody waits.
    pub(super) fn is_young(&self, sj: &Key) -> bool {
        let minimum = self.settings.minimum_run;
        let attempt = self.seen.get(sj).and_then(|tracked| tracked.sj().status.active_attempt());
        let has_run_for = |start| later(start, minimum) <= self.now;
        !minimum.is_zero() && attempt.is_some_and(|attempt| !attempt.start_time.is_some_and(has_run_for))
    }

    /// How a ScavengerJob holds its capacity.
    pub(super) fn standing_of(&self, sj: &Key) -> Standing {
        match self.seen.get(sj).zip(self.seen.attachments(sj)) {
            Some((tracked, attachments)) => standing(tracked, attachments, self.now),
            None => Standing::Stuck,
        }
    }

    /// The ScavengerJobs that have pods on a node, and what these occupy there, as kube-scheduler counts it.
    pub(super) fn scavenger_jobs_on(&self, node: &Name) -> BTreeMap<&Key, Resources> {
        self.sums_on(node, |sum: &mut Resources, pod| sum.add(pod.requests))
    }

    /// The same ScavengerJobs, and what their pods hold there for them.
    pub(super) fn holders_on(&self, node: &Name) -> BTreeMap<&Key, Resources> {
        self.sums_on(node, |sum: &mut Resources, pod| sum.add(pod.holds))
    }

    /// The ScavengerJobs that have pods on a node, each with what `add` makes of these.
    pub(super) fn sums_on<T: Default>(
        &self,
        node: &Name,
        add: impl Fn(&mut T, &ScavengerPod<'_>),
    ) -> BTreeMap<&Key, T> {
        let mut scavenger_jobs: BTreeMap<&Key, T> = BTreeMap::new();
        for pod in self.capacity.scavenger_pods(node) {
            // Anybody may write a foreign UID onto a pod of their own; in another namespace it belongs to nobody.
            if let Some(sj) = self.seen.key_of(pod.owner, &pod.key.namespace) {
                add(scavenger_jobs.entry(sj).or_default(), &pod);
            }
        }
        scavenger_jobs
    }

    /// The ScavengerJobs that have pods on these nodes and stay, each once, those that lose least first, with the message of the
    /// node.
    pub(crate) fn losers_on<'n>(
        &self,
        nodes: impl Iterator<Item = (&'n Name, String)>,
    ) -> Vec<(Loss, Key, String)> {
        let mut losers: Vec<(Loss, Key, String)> = Vec::new();
        for (node, message) in nodes {
            for sj in self.scavenger_jobs_on(node).into_keys() {
                losers.extend(self.loss_of(sj).map(|loss| (loss, sj.clone(), message.clone())));
            }
        }
        losers.sort();
        // One that has pods on several of them goes once.
        losers.dedup_by(|a, b| a.1 == b.1);
        losers
    }

    /// Those of these ScavengerJobs that could be interrupted, with what they hold.
    pub(crate) fn candidates(&self, holders: BTreeMap<&Key, Resources>) -> Vec<Candidate> {
        let candidate = |(sj, held): (&Key, Resources)| {
            Some(Candidate { loss: self.loss_of(sj)?, sj: sj.clone(), held, is_young: false })
        };
        holders.into_iter().filter_map(candidate).collect()
    }

    /// What is left on a node once all that is terminating is gone, and the ScavengerJobs there that stay, with what they
    /// hold there; none if there is no such node.
    pub(super) fn left_on(&self, node: &Name) -> Option<(Resources, BTreeMap<&Key, Resources>)> {
        let mut free = self.free_on(node)?;
        let mut scavenger_jobs = self.scavenger_jobs_on(node);
        scavenger_jobs.retain(|sj, held| {
            let standing = self.standing_of(sj);
            if matches!(standing, Standing::Terminating(_)) {
                free.add(held);
            }
            standing == Standing::Stays
        });
        Some((free, scavenger_jobs))
    }

    /// What a ScavengerJob's pods hold on some nodes, without cpu and memory of those that are counted by use: these are
    /// looked after one by one.
    pub(super) fn held_on(&self, sj: &Key, counts: impl Fn(&Name) -> bool) -> Resources {
        let mut held = Resources::default();
        let pods = self.seen.attachments(sj).into_iter().flat_map(Attachments::bound);
        for (node, pod) in pods.filter(|(node, _)| counts(node)) {
            match self.capacity.account(node) {
                // The cause `node_use` looks after the cpu and memory of that node.
                Some(_) => held.add(&without_compute(&pod.requests)),
                None => held.add(&pod.requests),
            }
        }
        held
    }

    /// What a ScavengerJob asks for, if that can be read.
    pub(super) fn demand_of(&self, sj: &Key) -> Option<Arc<Demand>> {
        Some(self.seen.get(sj)?.sj().spec.as_ref().ok()?.demand.clone())
    }

    /// Waits no longer for checkpoints of those whose interruption is decided, and who hold what is needed of these nodes.
    pub(super) fn hurry(&mut self, nodes: &BTreeMap<Name, Needs>) {
        let in_the_way: BTreeSet<Key> =
            nodes.iter().flat_map(|(node, needs)| self.in_the_way(node, *needs)).cloned().collect();
        for sj in in_the_way {
            let Some(tracked) = self.seen.get_mut(&sj) else { continue };
            let attempt = tracked.sj().status.active_attempt();
            let decided = attempt.filter(|attempt| attempt.decided().is_some());
            let number = decided.map(|attempt| attempt.number);
            if number.is_some() && tracked.memory.hurried != number {
                tracked.memory.hurried = number;
                self.hurried.push(sj);
            }
        }
    }

    /// Those who hold what is needed of a node.
    fn in_the_way(&self, node: &Name, needs: Needs) -> Vec<&Key> {
        let mut scavenger_jobs = self.scavenger_jobs_on(node);
        if needs == Needs::WhatIsShort {
            let free = self.free_on(node).unwrap_or_default();
            scavenger_jobs
                .retain(|_, held| held.iter().any(|(name, amount)| amount > 0 && free.get(name) < 0));
        }
        scavenger_jobs.into_keys().collect()
    }

    /// What is free on a node while all that is terminating is still there, negative if overcommitted; none if there is no
    /// such node.
    pub(super) fn free_on(&self, node: &Name) -> Option<Resources> {
        let load = self.capacity.node(node)?;
        let mut free = load.node.allocatable.minus(load.used);
        if let Some(promised) = self.promises.ledger().promised(node) {
            free.subtract(promised);
        }
        Some(free)
    }

    /// When the first of what is terminating on these nodes should be gone at the latest.
    pub(super) fn last_release(&self, nodes: &BTreeMap<Name, Needs>) -> Option<Timestamp> {
        let scavenger_jobs = nodes.keys().flat_map(|node| self.scavenger_jobs_on(node).into_keys());
        let until = scavenger_jobs.filter_map(|sj| match self.standing_of(sj) {
            Standing::Terminating(until) => Some(until),
            Standing::Stays | Standing::Stuck => None,
        });
        until.min()
    }
}

/// How a ScavengerJob holds its capacity.
pub(crate) fn standing(tracked: &Tracked, attachments: &Attachments, now: Timestamp) -> Standing {
    if !is_terminating(tracked, attachments) {
        return Standing::Stays;
    }
    let attempt = tracked.sj().status.attempt.as_deref();
    let decided = tracked.order.as_ref().map(|order| &order.1);
    let decided = decided.or(attempt.and_then(|attempt| attempt.disruption.as_ref()));
    let ended = attempt.and_then(|attempt| attempt.end_time);
    let decided = decided.map(|decided| tracked.sj().evicted_by(decided));
    let since = decided.max(ended).max(tracked.memory.deleting_since);
    let due = |pod: &Pod| pod.due().or(since).unwrap_or(now);
    let last = attachments.bound().map(|(_, pod)| due(pod)).max();
    match later(last.unwrap_or(now), PATIENCE) {
        until if until > now => Standing::Terminating(until),
        _ => Standing::Stuck,
    }
}

/// True if nobody has to be interrupted to make the ScavengerJob give its capacity back.
fn is_terminating(tracked: &Tracked, attachments: &Attachments) -> bool {
    let Some(attempt) = tracked.sj().status.active_attempt() else { return true };
    tracked.sj().deleting
        || tracked.ordered().is_some()
        || attempt.disruption.is_some()
        || attachments.pods.values().any(|pod| {
            pod.is_of(attempt.number) && (pod.deletion_requested.is_some() || pod.disruption_target.is_some())
        })
}

/// Which ScavengerJobs hold capacity on which nodes; kept up to date change by change.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    nodes: BTreeMap<Key, BTreeSet<Name>>,
    version: u64,
}

impl Occupancy {
    /// Takes in on which nodes a ScavengerJob's pods are.
    pub(crate) fn set(&mut self, sj: &Key, nodes: BTreeSet<Name>) {
        let changed = if nodes.is_empty() {
            self.nodes.remove(sj).is_some()
        } else if self.nodes.get(sj) == Some(&nodes) {
            false
        } else {
            self.nodes.insert(sj.clone(), nodes);
            true
        };
        self.version += u64::from(changed);
    }

    /// ScavengerJobs with pods on nodes.
    pub(crate) fn scavenger_jobs(&self) -> impl Iterator<Item = &Key> {
        self.nodes.keys()
    }

    /// How many these are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Rises with every change of who is where.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}
