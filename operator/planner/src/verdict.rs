//! The verdict on an attempt: did the workload end it, or was it taken away?
//!
//! Kubernetes does not answer that by itself. A preempted container that handles SIGTERM and exits 0 makes its Job
//! Complete; a pod deleted from outside leaves a Job that looks as if the workload had failed. So what counts is
//! what the pods showed, in the order in which they showed it:
//!
//! 1. A pod with condition DisruptionTarget, or whose deletion was requested before the attempt's first container
//!    ended: taken away, whatever the exit code and whatever the Job says. What happens to a pod after its phase became
//!    Succeeded is no sign: `kubectl drain` evicts such pods, too.
//! 2. Otherwise what the containers say.
//! 3. A pod that is gone without having been seen to end was deleted from outside.
//!
//! The order of "deletion requested" and "container ended" is that of the pod versions which show each: one watch
//! gives one order. Where a single version is the first to show both (the watch was interrupted), the stamps decide.
//! They have whole seconds, so a tie is no evidence; and once no grace period is left, the stamp of a deletion may be later
//! than the request ([`Pod::deletion_forced`]), so that it tells nothing unless it is earlier than the end.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;

use crate::{
    next::Ending,
    values::{Attempt, Container, Disruption, Job, Name, Outcome, Pod, PodPhase, Reason},
};

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
    /// True if a pod's own deletion and end can not be put in order.
    own_tie: bool,
    /// True once a container had ended without success. Only after such an end does the Job controller delete pods
    /// itself: if one pod of a gang is done, nobody but somebody outside deletes the others.
    failed: bool,
    /// Earliest stamp of such an end among those whose place before or after `stamped` only their stamps can tell;
    /// none inside if the kubelet gave no stamp.
    stamped_failure: Option<Option<Timestamp>>,
    /// Earliest stamp with which a pod that ran was taken away, or ended without success.
    first_sign: Option<Timestamp>,
    /// Latest stamp of a container's end.
    last_end: Option<Timestamp>,
    pods: BTreeMap<Name, Seen>,
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
    ended: bool,
    deleted: bool,
    /// True if its phase was Succeeded before anybody wanted it gone. That is final, and true whatever comes later.
    succeeded: bool,
}

impl Evidence {
    /// That of an attempt that showed nothing.
    pub(crate) fn none() -> &'static Self {
        static NONE: LazyLock<Evidence> = LazyLock::new(Evidence::default);
        &NONE
    }

    /// Evidence of an attempt that has no pods yet.
    #[must_use]
    pub fn from_the_start(epoch: u64) -> Self {
        Self { since: Some(epoch), epoch, ..Self::default() }
    }

    /// How many different pods were ever seen.
    #[must_use]
    pub fn pods_seen(&self) -> usize {
        self.pods.len()
    }

    /// A live list of the attempt's pods follows, of this resourceVersion: it skips versions, so there is no order among
    /// what it shows.
    pub fn relisted(&mut self, resource_version: u64) {
        self.lists += 1;
        self.listed = self.listed.max(resource_version);
    }

    /// Takes in one version of a pod of the attempt. `epoch` rises whenever the pod watch lists everything anew.
    pub fn note(&mut self, pod: &Pod, epoch: u64, now: Timestamp) {
        self.container_started |= pod.container.has_started();
        let epoch = epoch + self.lists;
        self.epoch = self.epoch.max(epoch);
        let own_end = match &pod.container {
            Container::Ended { time, .. } => Some(*time),
            _ => None,
        };
        let deleted = pod.deletion_requested.is_some();
        let had_succeeded = self.pods.get(&pod.key.name).is_some_and(|before| before.succeeded);
        let succeeds = pod.phase == PodPhase::Succeeded && !deleted && pod.disruption_target.is_none();
        let seen = Seen { epoch, ended: own_end.is_some(), deleted, succeeded: had_succeeded || succeeds };
        // A watch that was behind shows after the list what came before it: no order with what the list showed either.
        let is_news = pod.resource_version > self.listed;
        let before =
            self.pods.insert(pod.key.name.clone(), seen).filter(|before| is_news && before.epoch == epoch);
        if had_succeeded {
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
                (Some(before), _) if before.ended || before.deleted => {}
                (Some(_), _) if self.failed => {}
                (Some(_), None) => _ = self.certain.get_or_insert_with(deleted),
                // One version is the first to show its deletion and its end: the stamps decide.
                (_, Some(Some(end))) if requested > end && !pod.deletion_forced => {}
                (_, Some(end)) if end.is_none_or(|end| requested >= end) => self.own_tie = true,
                _ => {
                    self.stamped_late |= pod.deletion_forced;
                    if self.stamped.as_ref().is_none_or(|(earliest, _)| requested < *earliest) {
                        self.stamped = Some((requested, deleted()));
                    }
                }
            }
        }
        let failed = match &pod.container {
            Container::Ended { exit_code, .. } => *exit_code != 0 || pod.phase == PodPhase::Failed,
            _ => false,
        };
        if failed && !before.is_some_and(|before| before.ended) {
            self.failed = true;
            // After a deletion that was listed, an end that the watch shows as news came later.
            if before.is_none() || self.stamped.is_none() {
                self.stamped_failure = earliest(self.stamped_failure, own_end);
            }
        }
    }

    fn note_stamps(&mut self, pod: &Pod) {
        let (end, success) = match &pod.container {
            Container::Ended { time, exit_code, .. } => {
                (*time, *exit_code == 0 && pod.phase != PodPhase::Failed)
            }
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
    #[must_use]
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

    /// First sign that the attempt was taken away.
    #[must_use]
    pub fn disruption(&self) -> Option<&Disruption> {
        self.certain.as_ref().or_else(|| {
            let (requested, disruption) = self.stamped.as_ref()?;
            match self.stamped_failure {
                None => Some(disruption),
                Some(end) => end.filter(|end| requested < end).map(|_| disruption),
            }
        })
    }

    /// True if a deletion and an end can not be put in order: the same second, no stamp at all, or one that may be late.
    #[must_use]
    pub fn tie(&self) -> bool {
        let stamped = self.stamped.as_ref().zip(self.stamped_failure);
        let is_tie =
            |requested: Timestamp, end: Timestamp| end == requested || (self.stamped_late && end < requested);
        self.own_tie
            || stamped.is_some_and(|((requested, _), end)| end.is_none_or(|end| is_tie(*requested, end)))
    }

    /// Pods that have succeeded, those that somebody removed since included.
    fn succeeded(&self, pods: &BTreeMap<Name, Arc<Pod>>) -> usize {
        let there = pods.values().filter(|pod| pod.phase == PodPhase::Succeeded).count();
        there + self.pods.iter().filter(|(name, seen)| seen.succeeded && !pods.contains_key(*name)).count()
    }

    /// True if a pod of the gang is gone, or may be gone, without having been seen to end or to be deleted.
    fn lacks(&self, pods: &BTreeMap<Name, Arc<Pod>>, pod_count: u32) -> bool {
        let vanished =
            self.pods.iter().any(|(name, seen)| !seen.ended && !seen.deleted && !pods.contains_key(name));
        // Seen from the start by one unbroken watch, a pod that never showed was not made yet.
        let unbroken = self.since == Some(self.epoch);
        vanished || (!unbroken && self.pods.len() < pod_count as usize)
    }
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

/// What is known about the Job of the active attempt.
#[derive(Debug, Clone, Copy)]
pub enum JobState<'a> {
    /// It was not created yet, or not seen yet.
    Unseen,
    /// It is there.
    There(&'a Job),
    /// It was there and is gone.
    Gone,
}

/// How an attempt stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It goes on, or what is known does not suffice yet and more will come by itself.
    Open,
    /// What is known does not suffice and pods may be missing from the view: list them live.
    NeedsList,
    /// It ended.
    Ended(Ending),
}

/// Judges an attempt. `pods` are those of this attempt; `listed` says that they come from a live list made after the
/// Job was seen to be over or gone, so that a pod which is not among them is gone.
#[must_use]
pub fn judge(
    attempt: &Attempt,
    evidence: &Evidence,
    job: JobState<'_>,
    pods: &BTreeMap<Name, Arc<Pod>>,
    listed: bool,
) -> Verdict {
    // What the planner decided is no evidence: the workload may have come to its end first.
    let written = attempt.disruption.as_ref().filter(|disruption| !disruption.reason.is_operators_decision());
    if let Some(disruption) = written.or(evidence.disruption()) {
        return Verdict::Ended(interrupted(attempt, evidence, disruption.clone()));
    }
    if let JobState::There(job) = job
        && job.failed.as_ref().is_some_and(|(reason, _)| reason == "PodFailurePolicy")
    {
        // Our only rule there is DisruptionTarget; the pod that had it may be gone already.
        let (_, message) = job.failed.clone().unwrap_or_default();
        return Verdict::Ended(interrupted(
            attempt,
            evidence,
            lost(attempt, Reason::DisruptionTarget, &message, &job.key.name),
        ));
    }
    // The kubelet may say that a container ended before it says that its pod did.
    let has_ended = |pod: &Arc<Pod>| pod.phase.is_terminal() || failure(pod).is_some();
    if evidence.tie() && pods.values().any(has_ended) {
        return Verdict::Ended(Ending {
            outcome: taken_away(attempt, evidence),
            reason: Reason::Unknown,
            message:
                "a pod was deleted in the second in which a container ended; what came first is not known"
                    .to_owned(),
            disruption: None,
        });
    }
    if let Some(mut ending) =
        pods.values().filter_map(|pod| failure(pod)).min_by_key(|(rank, _)| *rank).map(|(_, ending)| ending)
    {
        if ending.outcome == Outcome::Interrupted {
            // The kubelet may not know any more whether the container that it lost had started.
            ending.outcome = taken_away(attempt, evidence);
        } else if ending.reason == Reason::ContainerFailed && evidence.lacks(pods, attempt.demand.pod_count) {
            // Peers fail when one of them is taken away; whether one was, nobody has seen.
            ending.outcome = taken_away(attempt, evidence);
            ending.reason = Reason::Unknown;
            ending.message.push_str(", but another pod is gone, and what came first is not known");
        }
        return Verdict::Ended(ending);
    }
    let succeeded = evidence.succeeded(pods);
    let needed = attempt.demand.pod_count as usize;
    match job {
        JobState::Unseen => Verdict::Open,
        // A Complete Job whose pods have all been seen to succeed really is complete.
        JobState::There(job) if job.complete && succeeded >= needed => Verdict::Ended(Ending {
            outcome: Outcome::Completed,
            reason: Reason::Completed,
            message: completion_message(pods),
            disruption: None,
        }),
        JobState::There(job) if !job.deleting && !job.is_over() => Verdict::Open,
        _ if !listed => Verdict::NeedsList,
        // Pods of a Job that is over or gone end by themselves; the next version of one of them continues here.
        _ if pods.values().any(|pod| !pod.phase.is_terminal())
            && !matches!(job, JobState::There(c) if c.deleting) =>
        {
            Verdict::Open
        }
        JobState::There(job) => {
            let what = if job.deleting { "its Job was deleted" } else { "a pod was deleted from outside" };
            Verdict::Ended(interrupted(
                attempt,
                evidence,
                lost(attempt, Reason::Deleted, what, &job.key.name),
            ))
        }
        JobState::Gone => Verdict::Ended(interrupted(
            attempt,
            evidence,
            lost(attempt, Reason::Deleted, "its Job was deleted", &"".into()),
        )),
    }
}

/// A disruption that no pod in view shows. The time is that of the attempt's start, replaced by whoever writes it.
fn lost(attempt: &Attempt, reason: Reason, message: &str, object: &Name) -> Disruption {
    Disruption {
        time: attempt.start_time.unwrap_or(attempt.creation_time),
        reason,
        message: message.to_owned(),
        pod: object.clone(),
    }
}

/// What it is called if it was taken away: an interruption only if there was something to interrupt.
#[must_use]
pub fn taken_away(attempt: &Attempt, evidence: &Evidence) -> Outcome {
    let started = evidence.container_started || attempt.start_time.is_some();
    if started { Outcome::Interrupted } else { Outcome::Withdrawn }
}

fn interrupted(attempt: &Attempt, evidence: &Evidence, disruption: Disruption) -> Ending {
    let by = match &disruption.reason {
        Reason::PreemptionByScheduler => "preempted by the scheduler for a pod of higher priority",
        Reason::EvictionByEvictionAPI => "evicted",
        Reason::DeletionByTaintManager => "evicted because of a taint of its node",
        Reason::DeletionByPodGC => "removed because its node is gone",
        Reason::TerminationByKubelet => "terminated by the kubelet",
        Reason::Deleted | Reason::DisruptionTarget => &*disruption.message,
        other => other.name(),
    };
    let of_pod = !matches!(disruption.reason, Reason::Deleted | Reason::DisruptionTarget);
    let whose = if !of_pod || disruption.pod.is_empty() {
        String::new()
    } else {
        format!(" (pod {})", disruption.pod)
    };
    Ending {
        outcome: taken_away(attempt, evidence),
        reason: disruption.reason.clone(),
        message: format!("{by}{whose}"),
        disruption: Some(disruption),
    }
}

/// How a failed pod ended, with a rank: what tells most about the cause comes first.
fn failure(pod: &Pod) -> Option<(u8, Ending)> {
    let ended = match &pod.container {
        Container::Ended { exit_code, reason, message, started, .. }
            if *exit_code != 0 || pod.phase == PodPhase::Failed =>
        {
            Some((*exit_code, reason.as_str(), message.as_str(), *started))
        }
        _ if pod.phase == PodPhase::Failed => None,
        _ => return None,
    };
    let failed = |rank: u8, reason: Reason, message: String| {
        let ending = Ending { outcome: Outcome::Failed, reason, message, disruption: None };
        Some((rank, ending))
    };
    let node_failure = |outcome: Outcome, message: String| {
        let ending = Ending { outcome, reason: Reason::NodeFailure, message, disruption: None };
        // Before a container that failed: peers fail when a node takes one of them down.
        Some((1, ending))
    };
    let (status_reason, status_message) =
        pod.status_reason.as_ref().map_or(("", ""), |(reason, message)| (reason, message));
    let name = &pod.key.name;
    match ended {
        // Over a limit of its own (ephemeral storage, say): without DisruptionTarget, that is the workload's fault.
        _ if status_reason == "Evicted" => failed(
            0,
            Reason::LimitExceeded,
            format!("pod {name} was evicted by the kubelet: {status_message}"),
        ),
        Some((_, "OOMKilled", message, _)) => failed(
            0,
            Reason::OOMKilled,
            format!(
                "pod {name} used more memory than its limit and was killed; ask for more memory{}",
                colon(message)
            ),
        ),
        // The kubelet lost track of the container: the node went down under it.
        Some((_, "ContainerStatusUnknown" | "Unknown", _, _)) => {
            node_failure(Outcome::Interrupted, format!("the node lost pod {name}"))
        }
        Some((exit_code, _, message, true)) => failed(
            2,
            Reason::ContainerFailed,
            format!("pod {name} exited with code {exit_code}{}", colon(message)),
        ),
        // The container was created, but could not be started: a command that does not exist.
        Some((exit_code, kubelet_reason, message, false)) if exit_code != 0 => failed(
            2,
            Reason::ContainerFailed,
            format!("pod {name} could not be started: {kubelet_reason}{}", colon(message)),
        ),
        // Failed without any container: the kubelet refused the pod (OutOfcpu, NodeAffinity, ...).
        _ => node_failure(
            Outcome::Withdrawn,
            format!("the node refused pod {name}: {status_reason}{}", colon(status_message)),
        ),
    }
}

fn colon(message: &str) -> String {
    let message = message.trim();
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// What the first pod's container left as its termination message.
fn completion_message(pods: &BTreeMap<Name, Arc<Pod>>) -> String {
    let said = pods.values().find_map(|pod| match &pod.container {
        Container::Ended { message, .. } if !message.trim().is_empty() => Some(message.trim()),
        _ => None,
    });
    said.unwrap_or("the workload ended with success").to_owned()
}
