//! The verdict on an attempt: did the workload end it, or was it taken away?
//!
//! Kubernetes does not answer that by itself. A preempted container that handles SIGTERM and exits 0 makes its Job
//! Complete; a pod deleted from outside leaves a Job that looks as if the workload had failed. So what counts is
//! what the pods showed, in the order in which they showed it:
//!
//! 1. A pod with condition DisruptionTarget, or whose deletion was requested before the attempt's first container
//!    ended: taken away, whatever the exit code and whatever the Job says.
//! 2. Otherwise what the containers say.
//! 3. A pod that is gone without having been seen to end was deleted from outside.
//!
//! The order of "deletion requested" and "container ended" is that of the pod versions which show each: one watch
//! gives one order. Where a single version is the first to show both (the watch was interrupted), the stamps decide.
//! They have whole seconds, so a tie is no evidence.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{Attempt, Child, Container, DELETED, Disruption, Name, Outcome, Pod, PodPhase};

/// What the pods of an attempt showed so far. Kept while the planner runs; what matters of it after a restart is
/// written into the status ([`Attempt::disruption`]) or shows again in the pods.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// First sign that the attempt was taken away.
    pub disruption: Option<Disruption>,
    /// True once a container had started.
    pub container_started: bool,
    /// Earliest stamp of a container's end, once one had ended; none inside if the kubelet gave no stamp.
    first_end: Option<Option<Timestamp>>,
    /// True if a deletion and an end can not be put in order.
    pub tie: bool,
    /// Pods that were seen since the pod watch last listed them anew: only among their versions is there an order.
    ordered: BTreeMap<Name, u64>,
}

impl Evidence {
    /// Takes in one version of a pod of the attempt. `epoch` rises whenever the pod watch lists everything anew.
    pub fn note(&mut self, pod: &Pod, epoch: u64, now: Timestamp) {
        self.container_started |= pod.container.has_started();
        let own_end = match &pod.container {
            Container::Ended { time, .. } => Some(*time),
            _ => None,
        };
        let ordered = self.ordered.insert(pod.key.name.clone(), epoch) == Some(epoch);
        if self.disruption.is_none() {
            if let Some((reason, message)) = &pod.disruption_target {
                self.disruption = Some(disruption(now, reason, message, pod));
            } else if let Some(requested) = pod.deletion_requested {
                // The end that the deletion has to come before.
                let end = match (ordered, self.first_end) {
                    // An earlier version of the watch showed an end already: the deletion came later.
                    (true, Some(_)) => Some(Some(Timestamp::MIN)),
                    (true, None) => own_end,
                    (false, seen) => earliest(seen, own_end),
                };
                match end {
                    None => self.disruption = Some(disruption(now, DELETED, "the pod was deleted", pod)),
                    Some(Some(end)) if requested < end => {
                        self.disruption = Some(disruption(now, DELETED, "the pod was deleted", pod));
                    }
                    Some(Some(end)) if requested > end => {}
                    // The same second, or no stamp at all.
                    Some(_) => self.tie = true,
                }
            }
        }
        self.first_end = earliest(self.first_end, own_end);
    }
}

fn earliest(a: Option<Option<Timestamp>>, b: Option<Option<Timestamp>>) -> Option<Option<Timestamp>> {
    match (a, b) {
        (Some(Some(a)), Some(Some(b))) => Some(Some(a.min(b))),
        (Some(a), Some(b)) => Some(a.or(b)),
        (a, b) => a.or(b),
    }
}

fn disruption(time: Timestamp, reason: &str, message: &str, pod: &Pod) -> Disruption {
    Disruption { time, reason: reason.to_owned(), message: message.to_owned(), pod: pod.key.name.clone() }
}

/// What is known about the child Job of the active attempt.
#[derive(Debug, Clone, Copy)]
pub enum ChildState<'a> {
    /// It was not created yet, or not seen yet.
    Unseen,
    /// It is there.
    There(&'a Child),
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

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The sign that it was taken away, if it was.
    pub disruption: Option<Disruption>,
}

/// Reasons of verdicts that are no reason of a pod's condition.
pub mod reason {
    /// The workload ended with success.
    pub const COMPLETED: &str = "Completed";
    /// The node failed under the pod, or refused it.
    pub const NODE_FAILURE: &str = "NodeFailure";
    /// A container ended by itself with an exit code other than 0.
    pub const CONTAINER_FAILED: &str = "ContainerFailed";
    /// A container used more memory than its limit.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// The kubelet evicted the pod for exceeding a limit of its own.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// Whether the workload or the cluster ended it is not known.
    pub const UNKNOWN: &str = "Unknown";
}

/// Judges an attempt. `pods` are those of this attempt; `listed` says that they come from a live list made after the
/// child Job was seen to be over or gone, so that a pod which is not among them is gone.
#[must_use]
pub fn judge(
    attempt: &Attempt,
    evidence: &Evidence,
    child: ChildState<'_>,
    pods: &BTreeMap<Name, Pod>,
    listed: bool,
) -> Verdict {
    if let Some(disruption) = attempt.disruption.as_ref().or(evidence.disruption.as_ref()) {
        return Verdict::Ended(interrupted(attempt, evidence, disruption.clone()));
    }
    if let ChildState::There(child) = child
        && child.failed.as_ref().is_some_and(|(reason, _)| reason == "PodFailurePolicy")
    {
        // Our only rule there is DisruptionTarget; the pod that had it may be gone already.
        let (_, message) = child.failed.clone().unwrap_or_default();
        return Verdict::Ended(interrupted(
            attempt,
            evidence,
            lost(attempt, "DisruptionTarget", &message, &child.key.name),
        ));
    }
    if evidence.tie && pods.values().any(|pod| pod.phase.is_terminal()) {
        return Verdict::Ended(Ending {
            outcome: Outcome::Interrupted,
            reason: reason::UNKNOWN.to_owned(),
            message:
                "a pod was deleted in the second in which a container ended; what came first is not known"
                    .to_owned(),
            disruption: None,
        });
    }
    if let Some(ending) =
        pods.values().filter_map(failure).min_by_key(|(rank, _)| *rank).map(|(_, ending)| ending)
    {
        return Verdict::Ended(ending);
    }
    let succeeded = pods.values().filter(|pod| pod.phase == PodPhase::Succeeded).count();
    let needed = attempt.demand.pod_count as usize;
    match child {
        ChildState::Unseen => Verdict::Open,
        // A Complete Job whose succeeded pods are all there really is complete.
        ChildState::There(child) if child.complete && succeeded >= needed => Verdict::Ended(Ending {
            outcome: Outcome::Completed,
            reason: reason::COMPLETED.to_owned(),
            message: completion_message(pods),
            disruption: None,
        }),
        ChildState::There(child) if !child.deleting && !child.is_over() => Verdict::Open,
        _ if !listed => Verdict::NeedsList,
        // Pods of a Job that is over or gone end by themselves; the next version of one of them continues here.
        _ if pods.values().any(|pod| !pod.phase.is_terminal())
            && !matches!(child, ChildState::There(c) if c.deleting) =>
        {
            Verdict::Open
        }
        ChildState::There(child) => {
            let what = if child.deleting { "its Job was deleted" } else { "a pod was deleted from outside" };
            Verdict::Ended(interrupted(attempt, evidence, lost(attempt, DELETED, what, &child.key.name)))
        }
        ChildState::Gone => Verdict::Ended(interrupted(
            attempt,
            evidence,
            lost(attempt, DELETED, "its Job was deleted", &"".into()),
        )),
    }
}

/// A disruption that no pod in view shows. The time is that of the attempt's start, replaced by whoever writes it.
fn lost(attempt: &Attempt, reason: &str, message: &str, object: &Name) -> Disruption {
    Disruption {
        time: attempt.start_time.unwrap_or(attempt.creation_time),
        reason: reason.to_owned(),
        message: message.to_owned(),
        pod: object.clone(),
    }
}

fn interrupted(attempt: &Attempt, evidence: &Evidence, disruption: Disruption) -> Ending {
    let by = match &*disruption.reason {
        "PreemptionByScheduler" => "preempted by the scheduler for a pod of higher priority",
        "EvictionByEvictionAPI" => "evicted",
        "DeletionByTaintManager" => "evicted because of a taint of its node",
        "DeletionByPodGC" => "removed because its node is gone",
        "TerminationByKubelet" => "terminated by the kubelet",
        DELETED => &*disruption.message,
        other => other,
    };
    let started = evidence.container_started || attempt.start_time.is_some();
    let outcome = if started { Outcome::Interrupted } else { Outcome::Withdrawn };
    let whose = if disruption.reason == DELETED || disruption.pod.is_empty() {
        String::new()
    } else {
        format!(" (pod {})", disruption.pod)
    };
    Ending {
        outcome,
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
    let failed = |rank: u8, reason: &str, message: String| {
        let ending =
            Ending { outcome: Outcome::Failed, reason: reason.to_owned(), message, disruption: None };
        Some((rank, ending))
    };
    let node_failure = |outcome: Outcome, message: String| {
        let ending = Ending { outcome, reason: reason::NODE_FAILURE.to_owned(), message, disruption: None };
        Some((3, ending))
    };
    let (status_reason, status_message) =
        pod.status_reason.as_ref().map_or(("", ""), |(reason, message)| (reason, message));
    let name = &pod.key.name;
    match ended {
        // Over a limit of its own (ephemeral storage, say): without DisruptionTarget, that is the workload's fault.
        _ if status_reason == "Evicted" => failed(
            0,
            reason::LIMIT_EXCEEDED,
            format!("pod {name} was evicted by the kubelet: {status_message}"),
        ),
        Some((_, "OOMKilled", _, _)) => failed(
            0,
            reason::OOM_KILLED,
            format!("pod {name} used more memory than its limit and was killed; ask for more memory"),
        ),
        // The kubelet lost track of the container: the node went down under it.
        Some((_, "ContainerStatusUnknown" | "Unknown", _, _)) => {
            node_failure(Outcome::Interrupted, format!("the node lost pod {name}"))
        }
        Some((exit_code, _, message, true)) => failed(
            1,
            reason::CONTAINER_FAILED,
            format!("pod {name} exited with code {exit_code}{}", colon(message)),
        ),
        // The container was created, but could not be started: a command that does not exist.
        Some((exit_code, kubelet_reason, message, false)) if exit_code != 0 => failed(
            1,
            reason::CONTAINER_FAILED,
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
fn completion_message(pods: &BTreeMap<Name, Pod>) -> String {
    let said = pods.values().find_map(|pod| match &pod.container {
        Container::Ended { message, .. } if !message.trim().is_empty() => Some(message.trim()),
        _ => None,
    });
    said.unwrap_or("the workload ended with success").to_owned()
}

/// How long to wait before attempt after `failed_starts` withdrawals in a row: 5 s, doubled each time, at most
/// 10 minutes, plus up to a quarter that depends on the ScavengerJob, so that many which failed together do not come
/// back together.
#[must_use]
pub fn start_delay(failed_starts: u32, uid: &str) -> SignedDuration {
    let base = 5_000_i64.saturating_mul(1 << failed_starts.saturating_sub(1).min(10)).min(600_000);
    // FNV-1a, folded with the count: spread, not secrecy.
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ u64::from(failed_starts), |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let quarter = base / 4;
    let jitter = i64::try_from(hash % 1000).expect("a number below 1000 should fit") * quarter / 1000;
    SignedDuration::from_millis(base + jitter)
}
