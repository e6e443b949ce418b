//! The start of an attempt: what can keep its pods from running, and whose fault that is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    known::{Known, Next, Transition},
    verdict,
};
use crate::{
    backoff::start_failures::Doubt,
    faults::{
        Fault, kubelet,
        refusal::{self, Refusal},
        scheduler, supervisor,
    },
    values::{
        Accounting, Attempt, ByUse, Confinement, Container, Job, Key, Name, Phase, Placement, Pod, Reason,
        Settings, WaitingReason, action::Task, later,
    },
};

/// A container that is not created for this part of the pool's startDeadline, because of an error, is not waited for
/// any longer if the node is most likely to blame, or if it is that of the supervisor.
const PATIENCE: i32 = 4;

/// How often the events of pods that do not start are read.
const READ_EVENTS_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Longest grace period of pods that are counted by use, where the pool has no say any more.
const SHORT_GRACE: SignedDuration = SignedDuration::from_secs(30);

/// Pods of a gang whose events are read at once; those of the others tell hardly more.
const READ_EVENTS_OF: usize = 10;

/// Its Job is made, for the nodes of the pool. Without settings (the pool was deleted meanwhile) no node belongs to it,
/// and the Job waits until there is a pool again.
pub(super) fn create_job(known: &Known<'_>, attempt: &Attempt) -> Next {
    let Ok(settings) = known.settings else { return Next::Wait(None) };
    let placement = known.sj.spec.as_ref().ok().map(|spec| &spec.demand.placement);
    let attached = placement.and_then(Placement::attached_to);
    if attached.is_some_and(<[Name]>::is_empty) {
        let message = "volumes of its claims are attached to different nodes".to_owned();
        return Next::Change(Transition::withdraw(WaitingReason::NoCapacity, message));
    }
    let confinement = match chosen_nodes(known, attempt, placement) {
        Ok(None) => {
            let attached = attached.unwrap_or_default().to_vec();
            let kept_off = placement.into_iter().flat_map(|placement| known.capacity.kept_off(placement));
            Confinement { attached, ..Confinement::to_pool(settings, kept_off) }
        }
        // They were chosen with the volumes in mind, and no other node has to be named.
        Ok(Some(attached)) => Confinement { attached, ..Confinement::to_pool(settings, []) },
        Err(message) => return Next::Change(Transition::withdraw(WaitingReason::NoCapacity, message)),
    };
    Next::Do(Task::CreateJob {
        attempt: attempt.number,
        priority_class: attempt.priority_class,
        confinement: confinement.into(),
        supervisor: settings.supervisor.clone().filter(|_| attempt.supervised).map(Box::new),
        by_use: (attempt.accounting == Accounting::Usage).then(|| ByUse {
            grace_period: settings.usage.as_ref().map_or(SHORT_GRACE, |rules| rules.grace_period),
        }),
    })
}

/// The nodes that the Job of an attempt must name: the one that the planner chose, or those on which its capacity is promised
/// where too many others are closed to it. None where kube-scheduler chooses.
///
/// # Errors
/// A message that says which of them takes no pods now, or that there are none.
fn chosen_nodes(
    known: &Known<'_>,
    attempt: &Attempt,
    placement: Option<&Placement>,
) -> Result<Option<Vec<Name>>, String> {
    let nodes: Vec<Name> = match &attempt.node {
        Some(node) => vec![node.clone()],
        None if placement.is_some_and(|placement| known.capacity.are_too_many(placement)) => {
            known.promised_nodes.iter().copied().cloned().collect()
        }
        None => return Ok(None),
    };
    let kept_off: BTreeSet<&Name> =
        placement.into_iter().flat_map(|placement| known.capacity.kept_off(placement)).collect();
    let takes_pods = |node: &Name| known.capacity.is_in_pool(node) && !kept_off.contains(node);
    match nodes.iter().find(|node| !takes_pods(node)) {
        Some(node) => Err(format!("node {node}, which was chosen for it, takes no new pods now")),
        // After a restart, if there was no capacity for it any more.
        None if nodes.is_empty() => Err("no node that takes new pods now has capacity for it".to_owned()),
        None => Ok(Some(nodes)),
    }
}

/// The Job is gone and its pods are not: whoever deleted it left them alone. They go on; if they never get to
/// run, the attempt must not hold its place forever.
pub(super) fn next_of_orphans(known: &Known<'_>, attempt: &Attempt, pods: &BTreeMap<Name, Arc<Pod>>) -> Next {
    let waits = pods.values().any(|pod| !pod.phase.is_terminal() && !pod.container.has_started());
    match known.settings {
        Ok(settings) if waits && known.sj.status.phase == Phase::Starting => {
            let until = later(attempt.creation_time, settings.pending_timeout);
            if known.now < until {
                return Next::Wait(Some(until));
            }
            let message = "its Job was deleted before its pods ran".to_owned();
            Next::Change(Transition::withdraw(WaitingReason::Unscheduled, message))
        }
        _ => Next::Wait(None),
    }
}

/// The Job is refused for a reason that may pass. It is tried for as long as pods may stay unscheduled, and not
/// longer: others could start in its place. In a namespace that is being terminated it is not tried again.
pub(super) fn next_of_refused(known: &Known<'_>) -> Option<Next> {
    let (since, message) = known.memory.not_made.as_ref()?;
    let settings = known.settings.ok()?;
    if known.sj.status.phase == Phase::Starting && refusal::judge(message) == Refusal::Terminating {
        return Some(Next::Change(Transition::withdraw(
            WaitingReason::NamespaceTerminating,
            message.clone(),
        )));
    }
    if known.sj.status.phase != Phase::Starting || known.now < later(*since, settings.pending_timeout) {
        return None;
    }
    Some(Next::Change(Transition::withdraw(WaitingReason::Unscheduled, message.clone())))
}

/// Admission refuses the Job or its pods. The rule may be wrong as well as the ScavengerJob, so it is tried again,
/// and fails once each start was refused for the pool's `refusalGrace`.
pub(crate) fn denied(known: &Known<'_>, message: String) -> Transition {
    let since = known.sj.status.refused_since.unwrap_or(known.now);
    match known.settings {
        Ok(settings) if later(since, settings.refusal_grace) <= known.now => {
            let message = format!("{message}; each start has been refused since {since:.0}");
            Transition::fail(Reason::Refused, message)
        }
        _ => Transition::withdraw(WaitingReason::Refused, message),
    }
}

/// True if this sentence refuses an attempt only because its pods request next to nothing, as accounting Usage makes them.
pub(crate) fn must_request(attempt: &Attempt, sentence: &str) -> bool {
    attempt.accounting == Accounting::Usage && refusal::is_of_small_requests(sentence)
}

/// Since when the pods of an attempt could have come. Between the decision to start and its Job there may be as long as
/// the operator was away.
fn began(attempt: &Attempt, job: &Job) -> Timestamp {
    attempt.creation_time.max(job.creation_time)
}

/// What is to be done next about an attempt that starts and whose Job is there.
pub(crate) fn next(known: &Known<'_>, attempt: &Attempt, job: &Job, pods: &BTreeMap<Name, Arc<Pod>>) -> Next {
    match of_job(known, attempt, job, pods) {
        Next::Change(Transition::Withdraw(mut ending, waiting)) => {
            // Of a gang some pods may have run while others found no node: what they did is lost, and is said so.
            ending.outcome = verdict::taken_away(attempt, known.evidence);
            Next::Change(Transition::Withdraw(ending, waiting))
        }
        next => next,
    }
}

fn of_job(known: &Known<'_>, attempt: &Attempt, job: &Job, pods: &BTreeMap<Name, Arc<Pod>>) -> Next {
    let now = known.now;
    // Without settings (the pool was deleted meanwhile) nothing is withdrawn.
    let Ok(settings) = known.settings else { return Next::Wait(None) };
    let unscheduled_until = later(began(attempt, job), settings.pending_timeout);
    let created_until = later(began(attempt, job), settings.start_deadline);
    if let Some((pod, why)) = pods.values().find_map(|pod| Some((pod, supervisor::not_started(pod)?))) {
        let message = supervisor::message(pod, &why);
        return Next::Change(Transition::give_up(Reason::SupervisorNotStarted, message));
    }
    if let Some((pod, why)) = pods.values().find_map(|pod| Some((pod, supervisor::not_created(pod)?))) {
        return of_missing_supervisor(known, (attempt, job, settings), pod, &why);
    }
    if pods.len() < attempt.demand.pod_count as usize && !job.is_over() {
        return of_missing_pods(known, attempt, job, settings);
    }
    if let Some(unbound) = pods.values().find(|pod| pod.node.is_none() && !pod.phase.is_terminal()) {
        if now < unscheduled_until {
            return Next::Wait(Some(unscheduled_until));
        }
        let message = unbound.unschedulable.clone();
        let message = message.unwrap_or_else(|| "the scheduler has not placed its pods".to_owned());
        let reason = match scheduler::is_claim_unbound(&message) {
            true => WaitingReason::VolumeUnbound,
            false => WaitingReason::Unscheduled,
        };
        return Next::Change(Transition::withdraw(reason, message));
    }
    if pods.values().all(|pod| pod.phase.is_terminal() || pod.container.has_started()) {
        // All have started or even ended; the Job will say so.
        return Next::Wait(None);
    }
    let quarter = later(began(attempt, job), settings.start_deadline / PATIENCE);
    let uncreated = pods.values().find(|pod| !pod.phase.is_terminal() && waits_for_creation(pod));
    let given_up_at = match (known.doubt, uncreated.map(|pod| whose(known, pod).0)) {
        (_, Some(Fault::Own)) | (Doubt::None, _) | (Doubt::OthersStart, None) => created_until,
        (Doubt::StartsNothing, Some(_)) => now,
        (Doubt::StartsNothing, None) | (Doubt::OthersStart, Some(_)) => quarter,
    };
    if now < given_up_at {
        // By then others may have shown that it is the node.
        let again = if uncreated.is_some() && now < quarter { quarter } else { given_up_at };
        return Next::Wait(Some(again));
    }
    // A node that is gone cannot start anything and may be gone for longer than the deadline: not the workload's fault.
    if let Some(node) = known.lost_node {
        let message = format!("node {node} is not ready; its pods did not start there");
        return Next::Change(Transition::withdraw(WaitingReason::Unscheduled, message));
    }
    match uncreated {
        Some(pod) => of_uncreated(known, pod),
        None => of_silent_pods(known, pods, given_up_at),
    }
}

/// The init container that brings the supervisor is not created. A registry that does not answer at once is waited for.
/// Then the start is given up: if the supervisor started on other nodes, because of this node, and the next one goes
/// with it again. But whatever the pool adds never keeps a ScavengerJob from running, so it goes with it once.
fn of_missing_supervisor(
    known: &Known<'_>,
    (attempt, job, settings): (&Attempt, &Job, &Settings),
    pod: &Pod,
    why: &str,
) -> Next {
    let until = later(began(attempt, job), settings.start_deadline / PATIENCE);
    if known.now < until && known.doubt != Doubt::StartsNothing {
        return Next::Wait(Some(until));
    }
    if known.doubt != Doubt::None && known.sj.status.failed_starts == 0 {
        let message = format!("pod {}: init container of the supervisor: {why}", pod.key.name);
        return Next::Change(Transition::give_up(Reason::ContainerNotCreated, message));
    }
    let message = supervisor::message(pod, why);
    Next::Change(Transition::give_up(Reason::SupervisorNotStarted, message))
}

fn waits_for_creation(pod: &Pod) -> bool {
    matches!(&pod.container, Container::Waiting(Some((reason, _))) if kubelet::is_creation_error(reason))
}

/// Whose fault it is that the container of a pod is not created, and the reason and the message by which the kubelet
/// says so.
fn whose<'a>(known: &Known<'a>, pod: &'a Pod) -> (Fault, &'a str, &'a str) {
    let Container::Waiting(Some((reason, message))) = &pod.container else { return (Fault::Cluster, "", "") };
    let (reason, message) = match known.evidence.not_created() {
        Some(said) if kubelet::only_backs_off(reason, message) => said,
        _ => (reason.as_str(), message.as_str()),
    };
    let fault = match (&known.sj.spec, known.is_to_blame) {
        (_, true) if kubelet::names_a_bad_command(message) => Fault::Own,
        (Ok(spec), _) => kubelet::fault(spec, reason, message),
        (Err(_), _) => Fault::Cluster,
    };
    // Other nodes get the image, or this one starts nothing at all.
    let is_of_node = fault == Fault::Own && known.doubt != Doubt::None && kubelet::is_of_image(reason);
    (if is_of_node { Fault::Node } else { fault }, reason, message)
}

/// Where a pod is, for a message.
fn on_node(pod: Option<&Pod>) -> String {
    let node = pod.and_then(|pod| pod.node.as_ref());
    node.map(|node| format!(" on node {node}")).unwrap_or_default()
}

/// A pod whose container was not created in time, and the kubelet says why.
fn of_uncreated(known: &Known<'_>, pod: &Pod) -> Next {
    let (fault, reason, message) = whose(known, pod);
    let node = if fault == Fault::Node { on_node(Some(pod)) } else { String::new() };
    let said = format!("pod {}{node}: {reason}: {message}", pod.key.name);
    Next::Change(match fault {
        Fault::Own => {
            let remedy = kubelet::remedy(reason, message).map(|remedy| format!("; {remedy}"));
            not_created(known, said + &remedy.unwrap_or_default())
        }
        Fault::Node | Fault::Cluster | Fault::Passing => {
            Transition::give_up(Reason::ContainerNotCreated, said)
        }
    })
}

/// A container that is not created because of something that the spec names. Once a container has run with it, it was there:
/// a login that is out of date is renewed, and what was deleted is made again.
fn not_created(known: &Known<'_>, said: String) -> Transition {
    if known.has_run {
        let said = format!("{said}; a container has run with the same spec, so it is tried again");
        return Transition::give_up(Reason::ContainerNotCreated, said);
    }
    Transition::fail(Reason::ContainerNotCreated, said)
}

/// The Job controller has not made all pods. If somebody refuses them, only its events tell; they are read a quarter of
/// `pendingTimeout` after the start, and again at its end.
fn of_missing_pods(known: &Known<'_>, attempt: &Attempt, job: &Job, settings: &Settings) -> Next {
    let now = known.now;
    let first = later(began(attempt, job), settings.pending_timeout / 4);
    let last = later(began(attempt, job), settings.pending_timeout);
    let ask = Task::ListPods { job: Some((job.key.clone(), job.uid.clone())) };
    let withdrawn =
        |reason: WaitingReason, message: &str| Next::Change(Transition::withdraw(reason, message.to_owned()));
    let Some(failure) = &known.memory.create_failure else {
        return if now < first { Next::Wait(Some(first)) } else { Next::Do(ask) };
    };
    let Some(message) = &failure.said else {
        return match now < last {
            true => Next::Wait(Some(last)),
            false if failure.asked < last => Next::Do(ask),
            false => withdrawn(WaitingReason::Unscheduled, "the Job controller has not made its pods"),
        };
    };
    match refusal::judge(message) {
        Refusal::Quota => withdrawn(WaitingReason::QuotaExceeded, message),
        Refusal::Terminating => withdrawn(WaitingReason::NamespaceTerminating, message),
        // Looked up again before the next start, which gives it the time that any reference has.
        Refusal::Reference => Next::Change(Transition::give_up(Reason::ReferenceMissing, message.clone())),
        // By requests its pods would be taken: nothing is wrong with what it asks for.
        Refusal::Denied if must_request(attempt, message) => {
            let why = "a LimitRange of the namespace refuses pods that request next to nothing, as accounting Usage makes \
                       them; its ScavengerJobs are counted by requests";
            Next::Change(Transition::give_up(Reason::Refused, format!("{why}: {message}")))
        }
        Refusal::Denied => Next::Change(denied(known, message.clone())),
        Refusal::Passing if now < last => Next::Wait(Some(last)),
        Refusal::Passing => withdrawn(WaitingReason::Unscheduled, message),
    }
}

/// Pods that were placed, do not start, and whose containers show no error: a large image is being pulled, or a volume
/// does not mount. Only the newest event of each tells which.
fn of_silent_pods(known: &Known<'_>, pods: &BTreeMap<Name, Arc<Pod>>, created_until: Timestamp) -> Next {
    let silent: Vec<(Key, Name)> = pods
        .values()
        .filter(|pod| pod.waits())
        .map(|pod| (pod.key.clone(), pod.uid.clone()))
        .take(READ_EVENTS_OF)
        .collect();
    let read = known.memory.pod_events.as_ref().filter(|(time, _)| *time >= created_until);
    let Some((time, events)) = read else { return Next::Do(Task::ReadPodEvents { pods: silent }) };
    // A pod that runs by now has nothing to complain of any more.
    let events: Vec<_> =
        events.iter().filter(|(pod, _)| silent.iter().any(|(key, _)| key.name == *pod)).collect();
    if events.is_empty() {
        return Next::Do(Task::ReadPodEvents { pods: silent });
    }
    let withdrawn = |message: String| Next::Change(Transition::give_up(Reason::NodeFailure, message));
    for (pod, event) in events {
        let node = on_node(pods.get(pod).map(|pod| &**pod));
        let Some(event) = event else {
            return withdrawn(format!(
                "pod {pod}{node} did not start within the pool's startDeadline; its events give no reason"
            ));
        };
        // Those of an init container that was injected: the main one does not show why it waits, however long that is.
        let is_shown = *time < later(created_until, READ_EVENTS_EVERY)
            && kubelet::is_shown_by_container(&event.reason, &event.message);
        if !event.warning || is_shown || kubelet::is_note(&event.reason) {
            continue;
        }
        let container =
            event.other_container.as_ref().map(|name| format!(", container {name}")).unwrap_or_default();
        let message = format!("pod {pod}{node}{container}: {}: {}", event.reason, event.message);
        // Only what the spec names and nobody has is its own fault. A volume may be attached to the node that it was on
        // before (which takes minutes after that is lost) or where somebody else mounts it; a driver may not be up yet.
        return match &known.sj.spec {
            Ok(spec) if event.other_container.is_none() && kubelet::is_missing(spec, &event.message) => {
                Next::Change(not_created(known, message))
            }
            _ => withdrawn(message),
        };
    }
    let again = later(*time, READ_EVENTS_EVERY);
    if known.now < again { Next::Wait(Some(again)) } else { Next::Do(Task::ReadPodEvents { pods: silent }) }
}
