//! The verdict on an attempt: did the workload end it, or was it taken away?
//!
//! Kubernetes does not answer that by itself. A preempted container that handles SIGTERM and exits 0 makes its Job
//! Complete; a pod deleted from outside leaves a Job that looks as if the workload had failed. So what counts is
//! what the pods showed, in the order in which they showed it:
//!
//! 1. A pod with condition DisruptionTarget, or whose deletion was requested before the attempt's first container
//!    ended: taken away, whatever the exit code and whatever the Job says. What happens to a pod after its phase became
//!    Succeeded is no sign: `kubectl drain` evicts such pods, too.
//! 2. Otherwise what the main containers say. Containers that were injected beside them say nothing: neither how they end,
//!    nor that they go on. A pod that the kubelet ends or refuses for a reason of its own was taken away.
//! 3. A pod that is gone without having been seen to end was deleted from outside.
//!
//! What came first is for [`crate::facts::evidence`] to say.
//!
//! A gang has one more rule. Its pods depend on each other: if a node is lost, the peers on other nodes exit within
//! seconds, and the node itself is called not ready only after a grace period. So the exit code of one pod counts once
//! every peer has ended, or once [`NODE_GRACE`] has passed in which the nodes of all peers stayed ready.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::out_of_memory::{self, Kills};
use crate::{
    facts::evidence::Evidence,
    faults::{
        kubelet::{self, EVICTED, OUT_OF_MEMORY, POD_FAILURE_POLICY},
        supervisor,
    },
    values::{
        Attempt, AttemptUsage, Container, Disruption, Ending, Job, KillCause, Name, Outcome, Pod, PodPhase,
        Reason, later, tells_of_loss,
    },
};

/// How long after its last heartbeat a node is called not ready, and a little more: `--node-monitor-grace-period` of
/// kube-controller-manager (50 s since Kubernetes 1.32, 40 s before), `--node-monitor-period` (5 s), and 5 s for the
/// watch to show it.
const NODE_GRACE: SignedDuration = SignedDuration::from_secs(60);

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
    /// It goes on until this time at the latest. A pod of a gang failed, and by then it is known whether a node of its peers
    /// is lost, which would explain it; or the work is done, and containers that were injected go on.
    OpenUntil(Timestamp),
    /// What is known does not suffice and pods may be missing from the view: list them live.
    NeedsList,
    /// It ended.
    Ended(Ending),
}

/// What is known of an attempt that is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The attempt.
    pub attempt: &'a Attempt,
    /// What its pods showed so far.
    pub evidence: &'a Evidence,
    /// Its Job.
    pub job: JobState<'a>,
    /// Its pods.
    pub pods: &'a BTreeMap<Name, Arc<Pod>>,
    /// True if the pods come from a live list made after the Job was seen to be over or gone, so that a pod which is not
    /// among them is gone.
    pub listed: bool,
    /// A pod that has not ended, and its node, which is gone or not ready.
    pub lost: Option<(&'a Name, &'a Name)>,
    /// True if its containers cannot be started because of what it asks for, and not because of a node.
    pub is_to_blame: bool,
    /// What it was measured to use.
    pub usage: Option<&'a AttemptUsage>,
    /// Nodes on which earlier attempts were killed for memory.
    pub out_of_memory_nodes: &'a [Name],
    /// True if it ran for a whole `interruptionAfter`.
    pub made_progress: bool,
    /// Why containers were killed for memory, by the UIDs of their pods, as the agents of the nodes say.
    pub killed_by: &'a BTreeMap<Name, KillCause>,
    /// The nodes whose agent is live.
    pub node_agents: &'a BTreeSet<Name>,
    /// The time.
    pub now: Timestamp,
}

/// Judges an attempt.
pub fn judge(case: &Case<'_>) -> Verdict {
    let Case { attempt, evidence, job, .. } = *case;
    // What the planner decided is no evidence: the workload may have come to its end first.
    let over = match job {
        JobState::There(job) => job.over_since,
        JobState::Unseen | JobState::Gone => None,
    };
    let written = attempt.disruption.as_ref().filter(|disruption| !disruption.reason.is_operators_decision());
    if let Some(disruption) = written.or(evidence.disruption(over)) {
        return Verdict::Ended(interrupted(attempt, evidence, disruption.clone()));
    }
    if let Some(verdict) = of_success(case) {
        return verdict;
    }
    if let JobState::There(job) = job
        && job.failed.as_ref().is_some_and(|(reason, _)| reason == POD_FAILURE_POLICY)
    {
        // Our only rule there is DisruptionTarget; the pod that had it may be gone already.
        let (_, message) = job.failed.clone().unwrap_or_default();
        return Verdict::Ended(interrupted(
            attempt,
            evidence,
            lost(attempt, Reason::DisruptionTarget, &message, &job.key.name),
        ));
    }
    of_tie(case, over).or_else(|| of_failures(case)).unwrap_or_else(|| of_job(case))
}

/// Nobody can say whether a deletion of this attempt or its end came first. `over` is since when its Job is over.
fn of_tie(case: &Case<'_>, over: Option<Timestamp>) -> Option<Verdict> {
    let Case { attempt, evidence, pods, .. } = *case;
    // The kubelet may say that a container ended before it says that its pod did.
    let has_ended = |pod: &Arc<Pod>| pod.phase.is_terminal() || failure(case, pod).is_some();
    if !evidence.tie(over) || !pods.values().any(has_ended) {
        return None;
    }
    // That a node is lost explains the end as well as anything.
    let (reason, message) = match case.lost.filter(|_| attempt.demand.pod_count > 1) {
        Some((pod, node)) => (Reason::NodeFailure, format!("node {node} of pod {pod} is gone or not ready")),
        None => (
            Reason::Unknown,
            "a pod was deleted at about the time at which a container ended; what came first is not known"
                .to_owned(),
        ),
    };
    Some(Verdict::Ended(Ending::new(taken_away(attempt, evidence), reason, message)))
}

/// Pods of the attempt failed: the one that tells most about the cause decides.
fn of_failures(case: &Case<'_>) -> Option<Verdict> {
    let Case { attempt, evidence, pods, .. } = *case;
    let failures = pods.values().filter_map(|pod| failure(case, pod));
    // Its peers failed because of it, and it may be gone by now: of a Job that failed, pods that are left are deleted.
    let failures = failures.chain(evidence.lost_by_node().map(lost_by_node));
    let (_, ending) = failures.min_by_key(|(rank, _)| *rank)?;
    let kills = Kills {
        before: case.out_of_memory_nodes,
        made_progress: case.made_progress,
        unmarked: out_of_memory::is_unmarked(pods.values(), attempt),
        cause: out_of_memory::cause(pods.values(), attempt, case.killed_by),
    };
    let (killed_by, agents) = (case.killed_by, case.node_agents);
    if ending.reason == Reason::OOMKilled
        && out_of_memory::may_be_explained(pods.values(), attempt, killed_by, agents)
    {
        let until = later(evidence.failure_seen().unwrap_or(case.now), KillCause::ANSWERED_WITHIN);
        if case.now < until {
            return Some(Verdict::OpenUntil(until));
        }
    }
    let mut ending = out_of_memory::judge(attempt, case.usage, kills, ending);
    if ending.outcome == Outcome::Interrupted {
        // The kubelet may not know any more whether the container that it lost had started.
        ending.outcome = taken_away(attempt, evidence);
    } else if ending.reason == Reason::ContainerFailed && attempt.demand.pod_count > 1 {
        match peers(case) {
            Peers::Lost(pod, node) => {
                ending.outcome = taken_away(attempt, evidence);
                ending.reason = Reason::NodeFailure;
                ending.message =
                    format!("node {node} of pod {pod} is gone or not ready, and {}", ending.message);
            }
            Peers::MayBeLost(until) => return Some(Verdict::OpenUntil(until)),
            Peers::Ended | Peers::OnReadyNodes if evidence.lacks(pods, attempt.demand.pod_count) => {
                // Peers fail when one of them is taken away; whether one was, nobody has seen.
                ending.outcome = taken_away(attempt, evidence);
                ending.reason = Reason::Unknown;
                ending.message.push_str(", but another pod is gone, and what came first is not known");
            }
            Peers::Ended | Peers::OnReadyNodes => {}
        }
    }
    Some(Verdict::Ended(ending))
}

/// What the Job says of an attempt whose pods do not explain how it ended.
fn of_job(case: &Case<'_>) -> Verdict {
    let Case { attempt, evidence, job, pods, listed, .. } = *case;
    let deleted = |what: &str, object: &Name| {
        let disruption = lost(attempt, Reason::Deleted, what, object);
        Verdict::Ended(interrupted(attempt, evidence, disruption))
    };
    match job {
        JobState::Unseen => Verdict::Open,
        // A Complete Job whose pods have all been seen to succeed really is complete.
        JobState::There(job)
            if job.complete && evidence.succeeded(pods) >= attempt.demand.pod_count as usize =>
        {
            Verdict::Ended(completed(pods))
        }
        JobState::There(job) if !job.deleting && !job.is_over() => Verdict::Open,
        _ if !listed => Verdict::NeedsList,
        // Pods of a Job that is over or gone end by themselves; the next version of one of them continues here.
        _ if pods.values().any(|pod| !pod.phase.is_terminal())
            && !matches!(job, JobState::There(c) if c.deleting) =>
        {
            Verdict::Open
        }
        JobState::There(job) if job.deleting => deleted("its Job was deleted", &job.key.name),
        JobState::There(job) => deleted("a pod was deleted from outside", &job.key.name),
        JobState::Gone => deleted("its Job was deleted", &"".into()),
    }
}

/// An attempt whose main containers have all ended with exit code 0. Usually its Job says so a moment later. The Job fails if
/// a container that was injected beside a main one failed, and never ends while one goes on: that is waited for, but not
/// for long.
fn of_success(case: &Case<'_>) -> Option<Verdict> {
    let Case { attempt, evidence, job, pods, now, .. } = *case;
    if evidence.main_succeeded() < attempt.demand.pod_count as usize {
        return None;
    }
    let is_over = match job {
        JobState::Unseen => false,
        JobState::There(job) => job.is_over() || job.deleting,
        JobState::Gone => true,
    };
    match pods.values().filter_map(|pod| evidence.outlives_main(pod)).max() {
        _ if is_over => Some(Verdict::Ended(completed(pods))),
        Some(until) if now < until => Some(Verdict::OpenUntil(until)),
        Some(_) => Some(Verdict::Ended(completed(pods))),
        None => None,
    }
}

fn completed(pods: &BTreeMap<Name, Arc<Pod>>) -> Ending {
    Ending::new(Outcome::Completed, Reason::Completed, completion_message(pods))
}

/// How the peers of a pod that failed stand.
enum Peers<'a> {
    /// Every one of them has ended, so none was lost with its node.
    Ended,
    /// Their nodes were ready for long enough.
    OnReadyNodes,
    /// A node of theirs may be lost; if it is, that shows by this time.
    MayBeLost(Timestamp),
    /// This one is on this node, which is lost.
    Lost(&'a Name, &'a Name),
}

fn peers<'a>(case: &Case<'a>) -> Peers<'a> {
    if let Some((pod, node)) = case.lost {
        return Peers::Lost(pod, node);
    }
    let has_ended =
        |pod: &Arc<Pod>| pod.phase.is_terminal() || matches!(pod.container, Container::Ended { .. });
    // Only a kubelet that is there says that a container has ended.
    if case.pods.values().all(has_ended) {
        return Peers::Ended;
    }
    // By the planner's own clock: that of a node may be wrong, and a planner that was started again has to look for as long.
    let until = later(case.evidence.failure_seen().unwrap_or(case.now), NODE_GRACE);
    if case.now < until { Peers::MayBeLost(until) } else { Peers::OnReadyNodes }
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

/// How a failed pod ended, with a rank: what tells most about the cause comes first. A container that could not be started
/// is the node's fault unless its ScavengerJob is to blame. None for a pod whose main container did not fail.
fn failure(case: &Case<'_>, pod: &Pod) -> Option<(u8, Ending)> {
    let ended = match &pod.container {
        _ if case.evidence.has_succeeded(&pod.key.name) => return None,
        Container::Ended { exit_code, reason, message, started, .. } if *exit_code != 0 => {
            Some((*exit_code, reason.as_str(), message.as_str(), *started))
        }
        // Another container of it failed, if any.
        Container::Ended { started: true, .. } if pod.status_reason.is_none() => return None,
        _ if pod.phase == PodPhase::Failed => None,
        _ => return None,
    };
    let failed = |rank: u8, reason: Reason, message: String| {
        let ending = Ending { outcome: Outcome::Failed, reason, message, disruption: None };
        Some((rank, ending))
    };
    if let Some(why) = supervisor::not_started(pod) {
        let message = supervisor::message(pod, &why);
        return Some((0, Ending::new(Outcome::Withdrawn, Reason::SupervisorNotStarted, message)));
    }
    let node_failure = |message: String| Some((NODE_FAILURE, by_node(Outcome::Interrupted, message)));
    if let Some((reason, message)) = pod.status_reason.as_ref().filter(|_| pod.phase == PodPhase::Failed) {
        return Some(by_kubelet(case, pod, reason, message));
    }
    let name = &pod.key.name;
    match ended {
        Some((_, OUT_OF_MEMORY, message, _)) => failed(
            0,
            Reason::OOMKilled,
            format!(
                "pod {name} used more memory than its limit and was killed; ask for more memory{}",
                colon(message)
            ),
        ),
        _ if pod.was_lost_by_node() => Some(lost_by_node(name)),
        // It was deleted, and then lost: who deleted it decides.
        Some((_, reason, _, _)) if tells_of_loss(reason) => None,
        Some((exit_code, _, message, true)) => failed(
            2,
            Reason::ContainerFailed,
            format!("pod {name} exited with code {exit_code}{}", colon(message)),
        ),
        // The container was created, but could not be started, and its command is the reason wherever it is tried.
        Some((_, kubelet_reason, message, false))
            if case.is_to_blame && kubelet::names_a_bad_command(message) =>
        {
            failed(
                2,
                Reason::ContainerNotCreated,
                format!("pod {name} could not be started: {kubelet_reason}{}", colon(message)),
            )
        }
        Some((_, kubelet_reason, message, false)) => node_failure(format!(
            "node {} could not start pod {name}: {kubelet_reason}{}",
            pod.node.as_deref().unwrap_or_default(),
            colon(message)
        )),
        None => {
            let why = pod.failed_init.as_deref().map(colon).unwrap_or_default();
            let message = format!("pod {name} failed before its main container was started{why}");
            Some((NODE_FAILURE, by_node(taken_from(case, pod), message)))
        }
    }
}

/// The end of a pod that the kubelet ended, or refused, for a reason of its own. It may know nothing of the containers any
/// more, so what was seen before tells whether the pod had run.
fn by_kubelet(case: &Case<'_>, pod: &Pod, reason: &str, message: &str) -> (u8, Ending) {
    let name = &pod.key.name;
    if reason == EVICTED && kubelet::is_own_limit(pod, message) {
        let message = format!("pod {name} was evicted by the kubelet{}", colon(message));
        return (0, Ending::failed(Reason::LimitExceeded, message));
    }
    let outcome = taken_from(case, pod);
    let did = if outcome == Outcome::Interrupted { "ended" } else { "refused" };
    let node = pod.node.as_deref().unwrap_or_default();
    let message = format!("node {node} {did} pod {name}: {reason}{}", colon(message));
    // A pod can be the cause of an eviction.
    let reason = if reason == EVICTED { Reason::TerminationByKubelet } else { Reason::NodeFailure };
    (NODE_FAILURE, Ending::new(outcome, reason, message))
}

/// The outcome of an attempt from which the node takes this pod, if the pod alone is looked at.
fn taken_from(case: &Case<'_>, pod: &Pod) -> Outcome {
    let had_started = case.evidence.has_started(&pod.key.name) || case.attempt.start_time.is_some();
    if had_started { Outcome::Interrupted } else { Outcome::Withdrawn }
}

/// The rank of an end that the node is to blame for: before a container that failed, since peers fail when a node takes
/// one of them down.
const NODE_FAILURE: u8 = 1;

fn by_node(outcome: Outcome, message: String) -> Ending {
    Ending { outcome, reason: Reason::NodeFailure, message, disruption: None }
}

/// The end of a pod that the kubelet lost track of: the node went down under it.
fn lost_by_node(pod: &Name) -> (u8, Ending) {
    (NODE_FAILURE, by_node(Outcome::Interrupted, format!("the node lost pod {pod}")))
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
    said.unwrap_or("the workload succeeded").to_owned()
}
