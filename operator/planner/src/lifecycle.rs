//! The life of one ScavengerJob: what is to be done about it next, given what is known of it alone. Room and order
//! are decided elsewhere ([`crate::admission`]); what this returns says only whether it may be started.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    action::{Event, StatusWrite, Task},
    interruption, priority,
    snapshot::{
        Admitted, Attempt, Child, Container, Disruption, Job, JobSpec, JobStatus, Name, Outcome, Phase, Pod,
        PodPhase, Settings, WaitReason, Waiting,
    },
    verdict::{self, ChildState, Ending, Evidence, Verdict, reason},
};

/// How many start and interruption times a status keeps.
const HISTORY: usize = 50;

/// Everything that is known of one ScavengerJob.
#[derive(Debug)]
pub struct Known<'a> {
    /// The ScavengerJob.
    pub job: &'a Job,
    /// Its child Jobs by UID.
    pub children: &'a BTreeMap<Name, Child>,
    /// Its pods by name.
    pub pods: &'a BTreeMap<Name, Pod>,
    /// What the pods of the active attempt showed.
    pub evidence: &'a Evidence,
    /// What this planner remembers of what it did.
    pub memory: &'a Memory,
    /// True while room is reserved for it.
    pub has_reservation: bool,
    /// A node that one of its pods is bound to and that is gone or not ready.
    pub lost_node: Option<&'a Name>,
    /// Why the active attempt is to be interrupted, if the planner decided so.
    pub sentence: Option<&'a Disruption>,
}

/// What the planner remembers of one ScavengerJob. Losing it costs a look at the API server, never correctness.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Answer to the last [`Task::Prepare`], while room is reserved.
    pub prepared: Option<Prepared>,
    /// Since when something that the spec refers to was found missing.
    pub missing_since: Option<Timestamp>,
    /// The attempt of which this planner knows that no child Job was made yet.
    pub may_create: Option<u32>,
    /// The attempt whose child Job was made and vanished.
    pub lost_child: Option<u32>,
    /// The attempt whose pods were listed live after its child Job was over or gone.
    pub listed: Option<u32>,
    /// True while the list that is under way asks why the Job controller made no pods.
    pub asks_why: bool,
    /// Set once it was asked live why the Job controller made no pods: its answer, if there is one.
    pub create_failure: Option<Option<String>>,
    /// UIDs of the active attempt's pods that were evicted; the watch may not show it yet.
    pub evicted: BTreeSet<Name>,
}

/// Answer to a [`Task::Prepare`].
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Pods that have not ended.
    pub pods_left: u32,
    /// Kind and name of what does not exist.
    pub missing: Vec<(String, String)>,
}

/// What is to be done about one ScavengerJob.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Something.
    Do(Task),
    /// Nothing until something is seen, or until this time.
    Wait(Option<Timestamp>),
    /// It may start as soon as there is room for it.
    Candidate,
    /// It waits for another reason than room; to be written if it is not there yet.
    Held(Waiting, Option<Timestamp>),
    /// The room that is reserved for it is of no use now: give it back and look again at this time.
    GiveBack(Waiting, Timestamp),
}

/// What is to be done next.
#[must_use]
pub fn next(known: &Known<'_>, settings: &Result<Settings, String>, now: Timestamp) -> Next {
    let status = &known.job.status;
    if known.job.deleting {
        return next_deleting(known);
    }
    if status.phase.is_finished() {
        return match useless_child(known) {
            Some(child) => Next::Do(delete(child)),
            None => Next::Wait(None),
        };
    }
    match (status.phase.is_active(), &status.attempt) {
        (true, Some(attempt)) => next_active(known, attempt, settings, now),
        _ => next_waiting(known, settings, now),
    }
}

fn delete(child: &Child) -> Task {
    Task::DeleteChild { child: child.key.clone(), uid: child.uid.clone() }
}

/// A child Job of a finished ScavengerJob that has to go because it would go on trying. The Job of an attempt that
/// really ended stays, so that its log can be read; the Job controller may be a second behind in seeing its end.
fn useless_child<'a>(known: &Known<'a>) -> Option<&'a Child> {
    let kept = known.job.status.attempt.as_ref().filter(|attempt| {
        attempt.outcome.is_some() && attempt.reason.as_deref() != Some(reason::CONTAINER_NOT_CREATED)
    });
    known.children.values().find(|child| {
        !child.deleting && !child.is_over() && kept.is_none_or(|attempt| attempt.number != child.attempt)
    })
}

fn next_deleting(known: &Known<'_>) -> Next {
    if let Some(child) = known.children.values().find(|child| !child.deleting) {
        return Next::Do(delete(child));
    }
    let pods_left = known.pods.values().any(|pod| !pod.phase.is_terminal());
    if !known.children.is_empty() || pods_left {
        return Next::Wait(None);
    }
    if known.job.has_finalizer { Next::Do(Task::RemoveFinalizer) } else { Next::Wait(None) }
}

fn next_waiting(known: &Known<'_>, settings: &Result<Settings, String>, now: Timestamp) -> Next {
    let status = &known.job.status;
    if let Err(reason) = &known.job.spec {
        return Next::Do(fail(known, reason::INVALID_SPEC, reason.clone(), now));
    }
    // An ended attempt's Job goes; so does one that was made by an operator that never got to write it down.
    if let Some(child) = known.children.values().find(|child| !child.deleting) {
        return Next::Do(delete(child));
    }
    let pods_left = !known.children.is_empty() || known.pods.values().any(|pod| !pod.phase.is_terminal());
    if pods_left && status.not_before.is_none_or(|time| time <= now) {
        let message = "waits until the pods of the last attempt have ended".to_owned();
        return Next::Held(Waiting { reason: WaitReason::BackingOff, message }, None);
    }
    let settings = match settings {
        Ok(settings) => settings,
        Err(reason) => {
            return Next::Held(Waiting { reason: WaitReason::Paused, message: reason.clone() }, None);
        }
    };
    if settings.paused || settings.drain {
        let message = if settings.drain {
            "the ScavengerPool is being drained (spec.drain)"
        } else {
            "the ScavengerPool is paused (spec.paused)"
        };
        let waiting = Waiting { reason: WaitReason::Paused, message: message.to_owned() };
        return Next::Held(waiting, None);
    }
    // A delay after failed starts belongs to the spec that could not start; another one gets its chance at once.
    let other_spec = status.failed_starts > 0 && status.observed_generation != known.job.generation;
    if let Some(time) = status.not_before.filter(|time| *time > now && !other_spec) {
        // Whoever set the time also wrote why, unless something else was said meanwhile.
        let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.clone());
        return match said.filter(|waiting| waiting.reason != WaitReason::Paused) {
            Some(waiting) if status.observed_generation == known.job.generation => {
                Next::Held(waiting, Some(time))
            }
            _ => Next::Held(
                Waiting {
                    reason: WaitReason::BackingOff,
                    message: "waits out the delay after its last attempt".to_owned(),
                },
                Some(time),
            ),
        };
    }
    if !known.has_reservation {
        return Next::Candidate;
    }
    let Some(prepared) = &known.memory.prepared else { return Next::Do(Task::Prepare) };
    if prepared.pods_left > 0 {
        let message = format!("waits until {} pods of earlier attempts have ended", prepared.pods_left);
        let waiting = Waiting { reason: WaitReason::BackingOff, message };
        return Next::GiveBack(waiting, now + SignedDuration::from_secs(2));
    }
    if !prepared.missing.is_empty() {
        let names: Vec<String> =
            prepared.missing.iter().map(|(kind, name)| format!("{kind} {name:?}")).collect();
        let message =
            format!("{} does not exist in namespace {:?}", names.join(", "), &*known.job.key.namespace);
        let since = known.memory.missing_since.unwrap_or(now);
        let last = later(since, settings.reference_grace);
        if now >= last {
            return Next::Do(fail(known, reason::REFERENCE_MISSING, message, now));
        }
        let again = (now + SignedDuration::from_secs(2)).min(last);
        return Next::GiveBack(Waiting { reason: WaitReason::BackingOff, message }, again);
    }
    match &known.job.spec {
        Ok(spec) => Next::Do(start(known, spec, now)),
        Err(_) => Next::Wait(None),
    }
}

fn next_active(
    known: &Known<'_>,
    attempt: &Attempt,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Next {
    // A Job that was made after all, when its creation had long been given up: two attempts must never meet.
    if let Some(stray) =
        known.children.values().find(|child| child.attempt != attempt.number && !child.deleting)
    {
        return Next::Do(delete(stray));
    }
    let child = known.children.values().find(|child| child.attempt == attempt.number);
    let state = match child {
        Some(child) => ChildState::There(child),
        // Once its UID was written down, or its pods were seen, the child Job must have been there.
        None if attempt.child_uid.is_some() || known.memory.lost_child == Some(attempt.number) => {
            ChildState::Gone
        }
        None => ChildState::Unseen,
    };
    let pods: BTreeMap<Name, Pod> = known
        .pods
        .iter()
        .filter(|(_, pod)| pod.owner.as_ref().is_some_and(|(_, number)| *number == attempt.number))
        .map(|(name, pod)| (name.clone(), pod.clone()))
        .collect();
    let listed = known.memory.listed == Some(attempt.number);
    match verdict::judge(attempt, known.evidence, state, &pods, listed) {
        Verdict::Ended(ending) => {
            let (attempt, ending) = interruption::explained(attempt, ending);
            return Next::Do(end(known, &attempt, ending, settings, now));
        }
        Verdict::NeedsList => return Next::Do(Task::ListPods { child: None }),
        Verdict::Open => {}
    }
    if let Some(next) = interruption::next(known, attempt, &pods, settings, now) {
        return next;
    }
    let Some(child) = child else {
        return if matches!(state, ChildState::Gone) {
            next_orphaned(known, attempt, &pods, settings, now)
        } else if known.memory.may_create == Some(attempt.number) {
            Next::Do(Task::CreateChild { attempt: attempt.number, priority_class: attempt.priority_class })
        } else {
            // A restarted operator can not know whether the Job was made and deleted while it was away.
            Next::Do(Task::ListPods { child: None })
        };
    };
    let all = attempt.demand.pod_count as usize;
    let up = pods
        .values()
        .filter(|pod| pod.phase == PodPhase::Running && pod.container == Container::Running)
        .count();
    let ended = pods.values().filter(|pod| pod.phase == PodPhase::Succeeded).count();
    match known.job.status.phase {
        // A short workload may have ended before all of its pods were seen to run at the same time.
        Phase::Starting if up + ended >= all && up > 0 => Next::Do(running(known, attempt, child, now)),
        Phase::Starting => next_starting(known, attempt, child, &pods, settings, now),
        _ => next_running(known, settings, now),
    }
}

/// The child Job is gone and its pods are not: whoever deleted it left them alone. They go on; if they never get to
/// run, the attempt must not hold its place for ever.
fn next_orphaned(
    known: &Known<'_>,
    attempt: &Attempt,
    pods: &BTreeMap<Name, Pod>,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Next {
    let waits = pods.values().any(|pod| !pod.phase.is_terminal() && !pod.container.has_started());
    match settings {
        Ok(settings) if waits && known.job.status.phase == Phase::Starting => {
            let until = later(attempt.creation_time, settings.pending_timeout);
            if now < until {
                return Next::Wait(Some(until));
            }
            let message = "its Job was deleted before its pods ran".to_owned();
            let waiting = Waiting { reason: WaitReason::Unscheduled, message };
            Next::Do(withdraw(known, attempt, waiting, now))
        }
        _ => Next::Wait(None),
    }
}

fn next_starting(
    known: &Known<'_>,
    attempt: &Attempt,
    child: &Child,
    pods: &BTreeMap<Name, Pod>,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Next {
    // Without settings (the pool was deleted meanwhile) nothing is withdrawn.
    let Ok(settings) = settings else { return Next::Wait(None) };
    let unscheduled_until = later(attempt.creation_time, settings.pending_timeout);
    let created_until = later(attempt.creation_time, settings.start_deadline);
    let unbound = pods.values().find(|pod| pod.node.is_none() && !pod.phase.is_terminal());
    let missing_pods = pods.len() < attempt.demand.pod_count as usize && !child.is_over();
    if unbound.is_some() || missing_pods {
        if now < unscheduled_until {
            return Next::Wait(Some(unscheduled_until));
        }
        if unbound.is_none() && known.memory.create_failure.is_none() {
            return Next::Do(Task::ListPods { child: Some(child.key.clone()) });
        }
        let message = match (unbound, &known.memory.create_failure) {
            (Some(pod), _) => pod
                .unschedulable
                .clone()
                .unwrap_or_else(|| "the scheduler has not placed its pods".to_owned()),
            (None, Some(Some(failure))) => failure.clone(),
            (None, _) => "the Job controller has not made its pods".to_owned(),
        };
        let reason = if message.contains("exceeded quota") {
            WaitReason::QuotaExceeded
        } else {
            WaitReason::Unscheduled
        };
        return Next::Do(withdraw(known, attempt, Waiting { reason, message }, now));
    }
    if pods.values().all(|pod| pod.phase.is_terminal() || pod.container.has_started()) {
        // All have started or even ended; the Job will say so.
        return Next::Wait(None);
    }
    let stuck = pods.values().find_map(|pod| match &pod.container {
        Container::Waiting(Some((reason, message))) if is_creation_error(reason) => {
            Some(format!("pod {}: {reason}: {message}", pod.key.name))
        }
        _ => None,
    });
    if now < created_until {
        return Next::Wait(Some(created_until));
    }
    // A node that is gone can not start anything and may be gone for longer than the deadline: not the workload's fault.
    if let Some(node) = known.lost_node {
        let message = format!("node {node} is not ready; its pods did not start there");
        return Next::Do(withdraw(known, attempt, Waiting { reason: WaitReason::Unscheduled, message }, now));
    }
    // A pod that is bound, says nothing and does not run (a volume that does not mount) gets the same time.
    let message = stuck.unwrap_or_else(|| {
        "its pods were placed but did not start within the pool's startDeadline; see their events".to_owned()
    });
    let ending = Ending {
        outcome: Outcome::Failed,
        reason: reason::CONTAINER_NOT_CREATED.to_owned(),
        message,
        disruption: None,
    };
    Next::Do(finish(known, attempt, ending, now))
}

/// `time` after `duration`; what a status says may be absurd, and must not end the planner.
fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// Reasons with which the kubelet says that it can not create a container.
fn is_creation_error(reason: &str) -> bool {
    matches!(
        reason,
        "CreateContainerConfigError"
            | "CreateContainerError"
            | "ErrImagePull"
            | "ErrImageNeverPull"
            | "ImagePullBackOff"
            | "ImageInspectError"
            | "InvalidImageName"
            | "RunContainerError"
    )
}

fn next_running(known: &Known<'_>, settings: &Result<Settings, String>, now: Timestamp) -> Next {
    let status = &known.job.status;
    let (Ok(settings), Ok(spec)) = (settings, &known.job.spec) else { return Next::Wait(None) };
    let started = priority::stretch_began(status).unwrap_or(now);
    let step = priority::step(started, spec.interruption_after, settings.priority_steps, now);
    let start_over = step.started_over.or(status.priority_start_over.filter(|time| *time >= started));
    // Stored stamps have whole seconds.
    let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
    if status.running_priority == Some(step.level) && second(status.priority_start_over) == second(start_over)
    {
        return Next::Wait(Some(step.until));
    }
    let mut status = status.clone();
    status.running_priority = Some(step.level);
    status.priority_start_over = start_over;
    Next::Do(write(known, status, None, None))
}

/// The write of a status.
#[must_use]
pub fn write(known: &Known<'_>, mut status: JobStatus, ended: Option<Attempt>, event: Option<Event>) -> Task {
    status.written = true;
    status.observed_generation = known.job.generation;
    Task::WriteStatus(Box::new(StatusWrite {
        resource_version: known.job.resource_version,
        status,
        ended,
        event,
    }))
}

/// Status of a ScavengerJob that waits, unless it says so already.
#[must_use]
pub fn hold(known: &Known<'_>, waiting: &Waiting, now: Timestamp) -> Option<Task> {
    let status = &known.job.status;
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    // The message tells numbers of the moment; only another reason is worth a write.
    if status.written
        && status.observed_generation == known.job.generation
        && said.map(|w| w.reason) == Some(waiting.reason)
    {
        return None;
    }
    let mut status = status.clone();
    set_waiting(&mut status, waiting.clone(), now);
    Some(write(known, status, None, None))
}

fn set_waiting(status: &mut JobStatus, waiting: Waiting, now: Timestamp) {
    status.message.clone_from(&waiting.message);
    let since = match &status.admitted {
        Some(Admitted { waiting: Some(_), since }) => *since,
        _ => now,
    };
    status.admitted = Some(Admitted { waiting: Some(waiting), since });
    status.running_priority = None;
}

fn start(known: &Known<'_>, spec: &JobSpec, now: Timestamp) -> Task {
    let mut status = known.job.status.clone();
    let number = status.attempt.as_ref().map_or(0, |attempt| attempt.number).saturating_add(1);
    status.phase = Phase::Starting;
    status.message = format!("attempt {number} is starting");
    status.admitted = Some(Admitted { waiting: None, since: now });
    status.not_before = None;
    status.attempt = Some(Attempt {
        number,
        child_uid: None,
        generation: known.job.generation,
        demand: spec.demand.clone(),
        priority_class: status.interrupted_count,
        creation_time: now,
        start_time: None,
        end_time: None,
        disruption: None,
        outcome: None,
        reason: None,
        message: None,
    });
    write(known, status, None, Some(Event::Started))
}

fn running(known: &Known<'_>, attempt: &Attempt, child: &Child, now: Timestamp) -> Task {
    let mut status = known.job.status.clone();
    status.phase = Phase::Running;
    status.message = format!("attempt {} is running", attempt.number);
    status.failed_starts = 0;
    status.running_priority = Some(1);
    // That of an earlier attempt says nothing about this one.
    status.priority_start_over = None;
    push(&mut status.start_times, now);
    status.attempt =
        Some(Attempt { child_uid: Some(child.uid.clone()), start_time: Some(now), ..attempt.clone() });
    write(known, status, None, Some(Event::Running))
}

fn push(history: &mut Vec<Timestamp>, time: Timestamp) {
    history.push(time);
    let excess = history.len().saturating_sub(HISTORY);
    history.drain(..excess);
}

/// The status that follows from an ending: the one place where an outcome becomes a phase.
#[must_use]
pub fn end(
    known: &Known<'_>,
    attempt: &Attempt,
    mut ending: Ending,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Task {
    if attempt.disruption.is_none()
        && let Some(disruption) = &mut ending.disruption
    {
        disruption.time = now;
    }
    match ending.outcome {
        Outcome::Completed | Outcome::Failed => finish(known, attempt, ending, now),
        Outcome::Interrupted => interrupt(known, attempt, &ending, settings, now),
        Outcome::Withdrawn => {
            let waiting = Waiting { reason: WaitReason::BackingOff, message: ending.message.clone() };
            set_back(known, attempt, &ending, waiting, now)
        }
    }
}

/// The attempt as it goes into the history. One of which a container ran, and which ended before all of its pods were
/// seen to run together, started, as far as anyone saw, when it ended.
fn ended(
    known: &Known<'_>,
    status: &mut JobStatus,
    attempt: &Attempt,
    ending: &Ending,
    now: Timestamp,
) -> Attempt {
    let ran = known.evidence.container_started && ending.outcome != Outcome::Withdrawn;
    if attempt.start_time.is_none() && ran {
        push(&mut status.start_times, now);
    }
    Attempt {
        start_time: attempt.start_time.or(ran.then_some(now)),
        end_time: Some(now),
        disruption: attempt.disruption.clone().or_else(|| ending.disruption.clone()),
        outcome: Some(ending.outcome),
        reason: Some(ending.reason.clone()),
        message: Some(ending.message.clone()),
        ..attempt.clone()
    }
}

fn interrupt(
    known: &Known<'_>,
    attempt: &Attempt,
    ending: &Ending,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Task {
    let mut status = known.job.status.clone();
    let attempt = ended(known, &mut status, attempt, ending, now);
    let message = format!("attempt {} was interrupted: {}", attempt.number, ending.message);
    let backoff = settings.as_ref().map_or(SignedDuration::ZERO, |settings| settings.interruption_backoff);
    status.phase = Phase::Interrupted;
    status.interrupted_count = status.interrupted_count.saturating_add(1);
    push(&mut status.interruption_times, now);
    status.not_before = Some(later(now, backoff));
    status.failed_starts = 0;
    status.attempt = Some(attempt.clone());
    set_waiting(&mut status, Waiting { reason: WaitReason::BackingOff, message }, now);
    write(known, status, Some(attempt), Some(Event::Interrupted))
}

fn withdraw(known: &Known<'_>, attempt: &Attempt, waiting: Waiting, now: Timestamp) -> Task {
    let ending = Ending {
        outcome: Outcome::Withdrawn,
        reason: waiting.reason.name().to_owned(),
        message: waiting.message.clone(),
        disruption: None,
    };
    set_back(known, attempt, &ending, waiting, now)
}

/// Back to where it was before the attempt: waiting, or interrupted if it had run.
fn set_back(known: &Known<'_>, attempt: &Attempt, ending: &Ending, waiting: Waiting, now: Timestamp) -> Task {
    let mut status = known.job.status.clone();
    let attempt = ended(known, &mut status, attempt, ending, now);
    status.phase = if status.interrupted_count > 0 { Phase::Interrupted } else { Phase::Waiting };
    status.failed_starts = status.failed_starts.saturating_add(1);
    status.not_before = Some(now + verdict::start_delay(status.failed_starts, &known.job.uid));
    status.attempt = Some(attempt.clone());
    set_waiting(&mut status, waiting, now);
    write(known, status, Some(attempt), Some(Event::Withdrawn))
}

fn finish(known: &Known<'_>, attempt: &Attempt, ending: Ending, now: Timestamp) -> Task {
    let mut status = known.job.status.clone();
    let attempt = ended(known, &mut status, attempt, &ending, now);
    let completed = ending.outcome == Outcome::Completed;
    status.phase = if completed { Phase::Completed } else { Phase::Failed };
    status.message =
        if completed { ending.message } else { format!("{}: {}", ending.reason, ending.message) };
    status.finish_time = Some(now);
    status.running_priority = None;
    status.admitted = None;
    status.not_before = None;
    status.attempt = Some(attempt.clone());
    write(known, status, Some(attempt), Some(if completed { Event::Completed } else { Event::Failed }))
}

/// Failed without an attempt, or because an attempt could not even be made.
#[must_use]
pub fn fail(known: &Known<'_>, reason: &str, message: String, now: Timestamp) -> Task {
    let ending = Ending { outcome: Outcome::Failed, reason: reason.to_owned(), message, disruption: None };
    match &known.job.status.attempt {
        Some(attempt) if known.job.status.phase.is_active() => finish(known, attempt, ending, now),
        _ => {
            let mut status = known.job.status.clone();
            status.phase = Phase::Failed;
            status.message = format!("{reason}: {}", ending.message);
            status.finish_time = Some(now);
            status.running_priority = None;
            status.admitted = None;
            status.not_before = None;
            write(known, status, None, Some(Event::Failed))
        }
    }
}

/// An attempt that could not be made because a quota is used up.
#[must_use]
pub fn quota_exceeded(known: &Known<'_>, message: String, now: Timestamp) -> Option<Task> {
    let attempt = known.job.status.attempt.as_ref().filter(|_| known.job.status.phase.is_active())?;
    Some(withdraw(known, attempt, Waiting { reason: WaitReason::QuotaExceeded, message }, now))
}

/// How many pods of an attempt that has ended may still be bound to a node: its Job may not have been deleted yet, and
/// kube-scheduler may be about to place a pod.
#[must_use]
pub fn lingering_pods(
    attempt: &Attempt,
    children: &BTreeMap<Name, Child>,
    pods: &BTreeMap<Name, Pod>,
) -> (Vec<Name>, usize) {
    let (seen, left) = expected_pods(attempt, pods);
    let child = children.values().find(|child| child.attempt == attempt.number);
    if child.is_some_and(|child| !child.deleting && !child.is_over()) {
        return (seen, left);
    }
    let unbound = pods.values().filter(|pod| pod.node.is_none() && !pod.phase.is_terminal());
    (seen, unbound.count())
}

/// The nodes on which pods of the active attempt turned up (or had turned up before they ended), and how many of its
/// pods are still to be expected.
#[must_use]
pub fn expected_pods(attempt: &Attempt, pods: &BTreeMap<Name, Pod>) -> (Vec<Name>, usize) {
    let mut seen = Vec::new();
    let mut arrived = 0_usize;
    for pod in pods.values() {
        if pod.owner.as_ref().is_some_and(|(_, number)| *number == attempt.number)
            && (pod.node.is_some() || pod.phase.is_terminal())
        {
            arrived += 1;
            seen.extend(pod.node.clone());
        }
    }
    (seen, (attempt.demand.pod_count as usize).saturating_sub(arrived))
}
