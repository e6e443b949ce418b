//! What the pods of an attempt showed, and what of it came first.
//!
//! The order of "deletion requested" and "container ended" is that of the pod versions which show each: one watch
//! gives one order. Where a single version is the first to show both (the watch was interrupted), the stamps decide.
//! The API server stamps a deletion and the node stamps an end, by clocks that may differ by [`CLOCKS`], so what is closer
//! together than that is a tie, which is no evidence; and once no grace period is left, the stamp of a deletion may be later
//! than the request ([`Pod::deletion_forced`]), so that it tells nothing unless it is earlier than the end.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    faults::kubelet::{self, OUT_OF_MEMORY},
    values::{
        Attempt, Container, Disruption, EndReport, Job, Name, Outcome, Pod, PodPhase, Reason, later,
        tells_of_loss,
    },
};

/// How far the clocks of the API server and of a node may be apart.
const CLOCKS: SignedDuration = SignedDuration::from_secs(5);

/// A container that was killed this long before its grace period was over had all of it: stamps have whole seconds.
const STAMPS: SignedDuration = SignedDuration::from_secs(2);

/// How long containers that were injected beside `main` may go on when that has ended: so long they may send the last lines
/// of a log. It is the grace period that Kubernetes gives a pod that does not say.
const AFTER_MAIN: SignedDuration = SignedDuration::from_secs(30);

/// What the pods of an attempt showed so far. Kept while the planner runs; what matters of it after a restart is
/// written into the status ([`Attempt::disruption`]) or shows again in the pods.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// First sign that the attempt was taken away, if it is certain.
    certain: Option<Disruption>,
    /// A deletion of which only its stamp tells whether it came first, with that stamp.
    stamped: Option<(Timestamp, Disruption)>,
    /// True if a deletion of which only its stamp tells may have been requested before that stamp.
    stamped_late: bool,
    /// True once a container had started.
    pub container_started: bool,
    /// When this planner first saw that.
    started_at: Option<Timestamp>,
    /// True if a pod's own deletion and end cannot be put in order, and the deletion may have been requested earlier than
    /// its stamp says.
    own_tie: bool,
    /// Earliest stamp of a deletion that cannot be put in order with the pod's own end, with the stamp of that end.
    own_tie_at: Option<(Timestamp, Option<Timestamp>)>,
    /// True once a container had ended without success. Only after such an end does the Job controller delete pods
    /// itself: if one pod of a gang is done, nobody but somebody outside deletes the others.
    failed: bool,
    /// Earliest stamp of such an end among those whose place before or after `stamped` only their stamps can tell;
    /// none inside if the kubelet gave no stamp.
    stamped_failure: Option<Option<Timestamp>>,
    /// Earliest stamp with which a pod that ran was taken away, or ended without success.
    first_sign: Option<Timestamp>,
    /// When this planner first saw such an end. The clock of a node has no say in it.
    failure_seen: Option<Timestamp>,
    /// The first pod that the kubelet lost track of.
    lost_by_node: Option<Name>,
    /// Latest stamp of a container's end.
    last_end: Option<Timestamp>,
    /// Why a container could not be created, in words that say more than to wait: reason and message.
    not_created: Option<(String, String)>,
    pods: BTreeMap<Name, Seen>,
    /// How the pods that run under the supervisor were deleted and ended.
    ends: BTreeMap<Name, PodEnd>,
    /// The epoch in which this planner made the attempt itself, and so saw its pods from the first one on.
    since: Option<u64>,
    /// The newest epoch in which a pod was seen.
    epoch: u64,
    /// Live lists of this attempt's pods so far: each begins an epoch of its own.
    lists: u64,
    /// resourceVersion of the newest of these lists.
    listed: u64,
}

/// How a pod was last seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Only among versions of one epoch is there an order.
    epoch: u64,
    /// True once its main container had started.
    started: bool,
    /// When this planner first saw that its main container had ended. The clock of a node has no say in it.
    ended: Option<Timestamp>,
    deleted: bool,
    /// True if its main container had ended with exit code 0 before anybody wanted the pod gone. That is final, and true
    /// whatever comes later.
    succeeded: bool,
}

/// How a pod that runs under the supervisor ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodEnd {
    /// Its index in its Job.
    pub(crate) index: Option<u32>,
    /// What its supervisor left.
    pub(crate) report: Option<EndReport>,
    /// True unless it was killed before its own grace period was over.
    pub(crate) had_its_grace: bool,
    /// When its deletion was requested, while a grace period was left.
    deleted: Option<Timestamp>,
    ended: bool,
}

impl Evidence {
    /// That of an attempt that showed nothing.
    pub(crate) fn none() -> &'static Self {
        static NONE: LazyLock<Evidence> = LazyLock::new(Evidence::default);
        &NONE
    }

    /// Evidence of an attempt that has no pods yet.
    pub fn from_the_start(epoch: u64) -> Self {
        Self { since: Some(epoch), epoch, ..Self::default() }
    }

    /// How many different pods were ever seen.
    pub fn pods_seen(&self) -> usize {
        self.pods.len()
    }

    /// When this planner first saw that a container had started.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// When this planner first saw that a container had ended without success.
    pub(crate) fn failure_seen(&self) -> Option<Timestamp> {
        self.failure_seen
    }

    /// The first pod that the kubelet lost track of, because its node went down.
    pub(crate) fn lost_by_node(&self) -> Option<&Name> {
        self.lost_by_node.as_ref()
    }

    /// Why a container could not be created, in the last words that said more than to wait: reason and message.
    pub(crate) fn not_created(&self) -> Option<(&str, &str)> {
        self.not_created.as_ref().map(|(reason, message)| (reason.as_str(), message.as_str()))
    }

    /// How the pods ended that run under the supervisor.
    pub(crate) fn ends(&self) -> impl Iterator<Item = &PodEnd> {
        self.ends.values().filter(|end| end.ended)
    }

    fn note_end(&mut self, pod: &Pod) {
        let known = self.ends.entry(pod.key.name.clone()).or_default();
        known.index = pod.index;
        if !pod.deletion_forced {
            known.deleted = known.deleted.or(pod.deletion_requested);
        }
        if let Container::Ended { exit_code, reason, time, .. } = &pod.container {
            known.ended = true;
            known.report = pod.end_report.or(known.report);
            known.had_its_grace = had_its_grace(*exit_code, reason, *time, known.deleted, pod.grace_period);
        }
    }

    /// A live list of the attempt's pods follows, of this resourceVersion: it skips versions, so there is no order among
    /// what it shows.
    pub fn relisted(&mut self, resource_version: u64) {
        self.lists += 1;
        self.listed = self.listed.max(resource_version);
    }

    /// Takes in one version of a pod of the attempt. `epoch` rises whenever the pod watch lists everything again.
    pub fn note(&mut self, pod: &Pod, epoch: u64, now: Timestamp) {
        if pod.container.has_started() {
            self.container_started = true;
            self.started_at.get_or_insert(now);
        }
        if pod.supervisor.is_some() {
            self.note_end(pod);
        }
        if let Container::Waiting(Some((reason, message))) = &pod.container
            && kubelet::is_creation_error(reason)
            && !kubelet::only_backs_off(reason, message)
        {
            self.not_created = Some((reason.clone(), message.clone()));
        }
        let epoch = epoch + self.lists;
        self.epoch = self.epoch.max(epoch);
        let own_end = match &pod.container {
            Container::Ended { time, .. } => Some(*time),
            _ => None,
        };
        let seen_before = self.pods.get(&pod.key.name);
        let had_succeeded = seen_before.is_some_and(|before| before.succeeded);
        let seen = Seen {
            epoch,
            started: pod.container.has_started() || seen_before.is_some_and(|before| before.started),
            ended: seen_before.and_then(|before| before.ended).or_else(|| own_end.map(|_| now)),
            deleted: pod.deletion_requested.is_some(),
            succeeded: had_succeeded || succeeds(pod),
        };
        // A watch that was behind shows after the list what came before it: no order with what the list showed either.
        let is_news = pod.resource_version > self.listed;
        let before =
            self.pods.insert(pod.key.name.clone(), seen).filter(|before| is_news && before.epoch == epoch);
        if seen.succeeded {
            self.last_end = self.last_end.max(own_end.flatten());
            return;
        }
        self.note_stamps(pod);
        if let Some((reason, message)) = &pod.disruption_target {
            let time = pod.disrupted_since.unwrap_or(now);
            self.certain.get_or_insert_with(|| disruption(time, Reason::from_name(reason), message, pod));
        } else if let Some(requested) = pod.deletion_requested {
            let deleted = || disruption(requested, Reason::Deleted, "the pod was deleted", pod);
            match (before, own_end) {
                // What the watch showed earlier came earlier: an end, or this very deletion.
                (Some(before), _) if before.ended.is_some() || before.deleted => {}
                (Some(_), _) if self.failed => {}
                (Some(_), None) => _ = self.certain.get_or_insert_with(deleted),
                // One version is the first to show its deletion and its end: the stamps decide.
                (_, Some(Some(end))) if requested > later(end, CLOCKS) && !pod.deletion_forced => {}
                (_, Some(end)) if end.is_none_or(|end| later(requested, CLOCKS) >= end) => {
                    self.own_tie |= pod.deletion_forced;
                    self.own_tie_at = self.own_tie_at.into_iter().chain([(requested, end)]).min();
                }
                _ => {
                    self.stamped_late |= pod.deletion_forced;
                    if self.stamped.as_ref().is_none_or(|(earliest, _)| requested < *earliest) {
                        self.stamped = Some((requested, deleted()));
                    }
                }
            }
        }
        // That another container of the pod failed is no failure.
        let failed = matches!(&pod.container, Container::Ended { exit_code, .. } if *exit_code != 0);
        if failed {
            self.failure_seen.get_or_insert(now);
        }
        if pod.was_lost_by_node() {
            self.lost_by_node.get_or_insert_with(|| pod.key.name.clone());
        }
        if failed && before.is_none_or(|before| before.ended.is_none()) {
            self.failed = true;
            // After a deletion that was listed, an end that the watch shows as news came later.
            if before.is_none() || self.stamped.is_none() {
                self.stamped_failure = earliest(self.stamped_failure, own_end);
            }
        }
    }

    fn note_stamps(&mut self, pod: &Pod) {
        let (end, success) = match &pod.container {
            Container::Ended { time, exit_code, .. } => (*time, *exit_code == 0),
            _ => (None, false),
        };
        // What is deleted when it has ended was not taken away.
        let taken = pod.disrupted_since.into_iter().chain(pod.deletion_requested);
        let taken = taken.filter(|taken| end.is_none_or(|end| *taken <= end));
        self.first_sign = self.first_sign.into_iter().chain(taken).chain(end.filter(|_| !success)).min();
        self.last_end = self.last_end.max(end);
    }

    /// When the attempt ended, by the stamps of its pods and its Job: whoever sees it may come hours later. Never before
    /// the attempt began nor after `now`, which it is if nothing tells.
    pub fn end_time(
        &self,
        attempt: &Attempt,
        job: Option<&Job>,
        outcome: Outcome,
        now: Timestamp,
    ) -> Timestamp {
        let over = job.and_then(|job| job.over_since);
        let told = match outcome {
            // All of its pods had to end.
            Outcome::Completed => self.last_end.or(over),
            _ => self.first_sign.into_iter().chain(over).min(),
        };
        told.unwrap_or(now).max(attempt.start_time.unwrap_or(attempt.creation_time)).min(now)
    }

    /// First sign that the attempt was taken away. `over` is since when its Job is over.
    pub fn disruption(&self, over: Option<Timestamp>) -> Option<&Disruption> {
        self.certain.as_ref().or_else(|| {
            let (requested, disruption) = self.stamped_before(over)?;
            match self.stamped_failure {
                None => Some(disruption),
                Some(end) => end.filter(|end| later(*requested, CLOCKS) < *end).map(|_| disruption),
            }
        })
    }

    /// True if a deletion and an end cannot be put in order: they are too close together, there is no stamp at all, or one
    /// that may be late. `over` is since when its Job is over.
    pub fn tie(&self, over: Option<Timestamp>) -> bool {
        let stamped = self.stamped_before(over).zip(self.stamped_failure);
        let is_tie = |requested: Timestamp, end: Timestamp| {
            end.duration_since(requested).abs() <= CLOCKS || (self.stamped_late && end < requested)
        };
        // A deletion in the second in which the Job was over may have been the Job controller's. If its pod ended in that
        // second, too, somebody else may have deleted it first, so that its peers failed.
        let is_others = |(requested, end): (Timestamp, Option<Timestamp>)| {
            over.is_none_or(|over| requested < over || requested == over && end.is_none_or(|end| end <= over))
        };
        self.own_tie
            || self.own_tie_at.is_some_and(is_others)
            || stamped.is_some_and(|((requested, _), end)| end.is_none_or(|end| is_tie(*requested, end)))
    }

    /// The deletion of which only its stamp tells, unless the Job was over by then: of a Job that is over, the Job
    /// controller deletes the pods that are left. A pod that somebody else deletes has to end before its Job is over.
    fn stamped_before(&self, over: Option<Timestamp>) -> Option<&(Timestamp, Disruption)> {
        let is_before = |requested: Timestamp| over.is_none_or(|over| requested < over);
        self.stamped.as_ref().filter(|(requested, _)| self.stamped_late || is_before(*requested))
    }

    /// Pods that have succeeded, those that somebody removed since included.
    pub(crate) fn succeeded(&self, pods: &BTreeMap<Name, Arc<Pod>>) -> usize {
        let there = pods.values().filter(|pod| pod.phase == PodPhase::Succeeded);
        let there = there.filter(|pod| !self.has_succeeded(&pod.key.name)).count();
        there + self.main_succeeded()
    }

    /// Pods whose main container had ended with exit code 0 before anybody wanted them gone.
    pub(crate) fn main_succeeded(&self) -> usize {
        self.pods.values().filter(|seen| seen.succeeded).count()
    }

    /// True if the main container of a pod had ended with exit code 0 before anybody wanted the pod gone.
    pub(crate) fn has_succeeded(&self, pod: &Name) -> bool {
        self.pods.get(pod).is_some_and(|seen| seen.succeeded)
    }

    /// True if the main container of a pod was seen to have started.
    pub(crate) fn has_started(&self, pod: &Name) -> bool {
        self.pods.get(pod).is_some_and(|seen| seen.started)
    }

    /// Until when a pod may go on whose main container has ended: others were injected beside it. None if the main container
    /// runs, or the whole pod has ended.
    pub(crate) fn outlives_main(&self, pod: &Pod) -> Option<Timestamp> {
        let ended = self.pods.get(&pod.key.name)?.ended.filter(|_| !pod.phase.is_terminal())?;
        Some(later(ended, AFTER_MAIN))
    }

    /// True if a pod of the gang is gone, or may be gone, without having been seen to end or to be deleted.
    pub(crate) fn lacks(&self, pods: &BTreeMap<Name, Arc<Pod>>, pod_count: u32) -> bool {
        let vanished = self
            .pods
            .iter()
            .any(|(name, seen)| seen.ended.is_none() && !seen.deleted && !pods.contains_key(name));
        // Seen from the start by one unbroken watch, a pod that never showed was not made yet.
        let unbroken = self.since == Some(self.epoch);
        vanished || (!unbroken && self.pods.len() < pod_count as usize)
    }
}

/// True if a pod shows that its main container ended with exit code 0 before anybody wanted the pod gone. What was injected
/// beside it may run on and be deleted later.
fn succeeds(pod: &Pod) -> bool {
    let Container::Ended { exit_code: 0, started: true, time, .. } = &pod.container else {
        return false;
    };
    let taken = pod.deletion_requested.into_iter().chain(pod.disrupted_since);
    let is_wanted_gone = pod.deletion_requested.is_some() || pod.disruption_target.is_some();
    let came_later = |taken: Timestamp| time.is_some_and(|end| taken > later(end, CLOCKS));
    let is_known = pod.disruption_target.is_none() || pod.disrupted_since.is_some();
    let ended_first =
        !is_wanted_gone || is_known && !pod.deletion_forced && taken.min().is_some_and(came_later);
    // A reason is the kubelet's own for ending the pod.
    pod.status_reason.is_none() && ended_first
}

fn earliest(a: Option<Option<Timestamp>>, b: Option<Option<Timestamp>>) -> Option<Option<Timestamp>> {
    match (a, b) {
        (Some(Some(a)), Some(Some(b))) => Some(Some(a.min(b))),
        (Some(a), Some(b)) => Some(a.or(b)),
        (a, b) => a.or(b),
    }
}

fn disruption(time: Timestamp, reason: Reason, message: &str, pod: &Pod) -> Disruption {
    Disruption { time, reason, message: message.to_owned(), pod: pod.key.name.clone() }
}

/// True if a container that ended so had its whole grace period, or ended before it was over without being killed.
fn had_its_grace(
    exit_code: i32,
    reason: &str,
    ended: Option<Timestamp>,
    deleted: Option<Timestamp>,
    grace: SignedDuration,
) -> bool {
    if exit_code != 137 {
        return !tells_of_loss(reason);
    }
    // What a limit of memory kills is no end of a grace period.
    let (Some(ended), Some(deleted)) = (ended, deleted) else { return false };
    reason != OUT_OF_MEMORY && later(ended, STAMPS) >= later(deleted, grace)
}
