//! The life of one ScavengerJob: what is to be done about it next, given what is known of it alone. Room and order
//! are decided elsewhere ([`crate::admission`]); what this returns says only whether it may be started.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use crate::{
    action::{Event, StatusWrite, Task},
    backoff, interruption,
    memory::Memory,
    priority,
    snapshot::{
        Admitted, Attempt, Child, Container, Disruption, HISTORY, Job, JobSpec, JobStatus, Name, Outcome,
        Phase, Pod, PodPhase, Reason, Settings, Waiting, WaitingReason,
    },
    starting,
    verdict::{self, ChildState, Ending, Evidence, Verdict},
    wording,
};

/// How often the message of a ScavengerJob that waits is written anew at most, if only its numbers changed.
pub const RETELL: SignedDuration = SignedDuration::from_secs(60);

/// How long a deletion may wait for pods before somebody is told: the garbage collector needs a moment to delete the
/// pods of a Job that is gone.
const DELETION_PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// How often it is looked again at pods that hold something up: their node can be lost without any of them changing.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// When a child Job is read again that no watch has shown since it was made. Watches are behind by much less, unless
/// they are stuck; and if the Job was deleted while a watch listed everything anew, none will ever show it.
const UNWATCHED_PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// What is said while `spec.suspend` holds a ScavengerJob.
const HELD_BY_SUSPEND: &str = "held by spec.suspend";

/// Everything that is known of one ScavengerJob.
#[derive(Debug)]
pub struct Known<'a> {
    /// The ScavengerJob.
    pub job: &'a Job,
    /// Its child Jobs by UID.
    pub children: &'a BTreeMap<Name, Arc<Child>>,
    /// UID of a child Job that no watch showed yet, and when an answer showed it last.
    pub unwatched_child: Option<&'a (Name, Timestamp)>,
    /// Its pods by name.
    pub pods: &'a BTreeMap<Name, Arc<Pod>>,
    /// What the pods of the active attempt showed.
    pub evidence: &'a Evidence,
    /// What this planner remembers of what it did.
    pub memory: &'a Memory,
    /// True while room is reserved for it.
    pub has_reservation: bool,
    /// A node that is gone or not ready and to which one of its pods is bound that has not ended.
    pub lost_node: Option<&'a Name>,
    /// Why the active attempt is to be interrupted, if a cause ordered it.
    pub order: Option<&'a Disruption>,
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
        return next_deleting(known, now);
    }
    if status.phase.is_finished() {
        return next_finished(known, now);
    }
    match (status.phase.is_active(), &status.attempt) {
        (true, Some(attempt)) => doubted(known, next_active(known, attempt, settings, now), now),
        _ => next_waiting(known, settings, now),
    }
}

/// Instead of waiting for news of a child Job for ever.
fn doubted(known: &Known<'_>, next: Next, now: Timestamp) -> Next {
    let (Some((uid, since)), Next::Wait(timer)) = (known.unwatched_child, &next) else { return next };
    let Some(child) = known.children.get(uid) else { return next };
    let until = later(*since, UNWATCHED_PATIENCE);
    if now < until {
        return Next::Wait(earlier(*timer, Some(until)));
    }
    Next::Do(Task::ReadChild { child: child.key.clone(), uid: uid.clone() })
}

fn delete(child: &Child) -> Task {
    Task::DeleteChild { child: child.key.clone(), uid: child.uid.clone() }
}

fn next_finished(known: &Known<'_>, now: Timestamp) -> Next {
    let status = &known.job.status;
    if let Some(child) = useless_child(known) {
        return Next::Do(delete(child));
    }
    let until = later(status.finish_time.unwrap_or(now), known.job.controls.ttl_after_finished);
    if until <= now {
        return Next::Do(Task::DeleteJob { resource_version: known.job.resource_version });
    }
    if status.observed_generation != known.job.generation {
        return Next::Do(write(known.job, status.clone(), None, None));
    }
    Next::Wait(Some(until))
}

/// A child Job of a finished ScavengerJob that has to go because it would go on trying. The Job of an attempt that
/// really ended stays, so that its log can be read; the Job controller may be a second behind in seeing its end.
fn useless_child<'a>(known: &Known<'a>) -> Option<&'a Child> {
    let kept = known.job.status.attempt.as_ref().filter(|attempt| {
        attempt.outcome.is_some() && attempt.reason.as_ref().is_some_and(Reason::job_ends_on_its_own)
    });
    known.children.values().map(|child| &**child).find(|child| {
        !child.deleting && !child.is_over() && kept.is_none_or(|attempt| attempt.number != child.attempt)
    })
}

fn next_deleting(known: &Known<'_>, now: Timestamp) -> Next {
    if let Some(child) = known.children.values().find(|child| !child.deleting) {
        return Next::Do(delete(child));
    }
    if !known.children.is_empty() || first_pod_left(known).is_some() {
        return told_what_holds_its_deletion(known, now);
    }
    if known.job.has_finalizer { Next::Do(Task::RemoveFinalizer) } else { Next::Wait(None) }
}

fn first_pod_left<'a>(known: &Known<'a>) -> Option<&'a Pod> {
    known.pods.values().find(|pod| !pod.phase.is_terminal()).map(|pod| &**pod)
}

/// A pod on a node that does not answer, or one that nobody deletes, can hold a deletion for ever. Whoever wonders looks
/// at the message.
fn told_what_holds_its_deletion(known: &Known<'_>, now: Timestamp) -> Next {
    let orphan = || {
        let mut left = known.pods.values().filter(|pod| !pod.phase.is_terminal());
        left.find(|pod| pod.deletion_requested.is_none())
    };
    let message = if let Some((pod, node)) = pod_on_lost_node(known) {
        format!("its deletion waits for pod {pod} on node {node}, which is gone or not ready")
    } else if let (true, Some(pod)) = (known.children.is_empty(), orphan()) {
        format!("its deletion waits for pod {}, whose Job is gone: delete the pod", pod.key.name)
    } else {
        return Next::Wait(Some(later(now, LOOK_AGAIN)));
    };
    if known.job.status.message == message {
        return Next::Wait(Some(later(now, LOOK_AGAIN)));
    }
    let until = later(known.memory.deleting_since.unwrap_or(now), DELETION_PATIENCE);
    if now < until {
        return Next::Wait(Some(until));
    }
    Next::Do(write(known.job, JobStatus { message, ..known.job.status.clone() }, None, None))
}

/// Names of a pod that has not ended and of its node, which is gone or not ready.
fn pod_on_lost_node<'a>(known: &Known<'a>) -> Option<(&'a Name, &'a Name)> {
    let node = known.lost_node?;
    let mut pods = known.pods.values().filter(|pod| !pod.phase.is_terminal());
    pods.find(|pod| pod.node.as_ref() == Some(node)).map(|pod| (&pod.key.name, node))
}

/// Why the next attempt waits for what is left of the last one: two must never run at once.
fn waits_for_the_last_attempt(known: &Known<'_>) -> Waiting {
    if let Some((pod, node)) = pod_on_lost_node(known) {
        let message = format!(
            "pod {pod} of its last attempt is on node {node}, which is gone or not ready; the next attempt waits until \
             the node is back or removed"
        );
        return Waiting { reason: WaitingReason::NodeUnreachable, message };
    }
    let message = match first_pod_left(known) {
        Some(pod) if known.children.is_empty() && pod.deletion_requested.is_none() => {
            format!("waits for pod {} of its last attempt, whose Job is gone: delete the pod", pod.key.name)
        }
        Some(pod) => format!("waits until pod {} of its last attempt has ended", pod.key.name),
        None => "waits until the Job of its last attempt is gone".to_owned(),
    };
    Waiting { reason: WaitingReason::BackingOff, message }
}

fn next_waiting(known: &Known<'_>, settings: &Result<Settings, String>, now: Timestamp) -> Next {
    let status = &known.job.status;
    if let Err(message) = &known.job.spec {
        return Next::Do(fail(known, Reason::InvalidSpec, message.clone(), now));
    }
    // An ended attempt's Job goes; so does one that was made by an operator that never got to write it down.
    if let Some(child) = known.children.values().find(|child| !child.deleting) {
        return Next::Do(delete(child));
    }
    if let Some(deadline) = known.job.controls.active_deadline.map(|deadline| deadline.as_secs())
        && status.active_seconds >= deadline
    {
        return Next::Do(fail(known, Reason::DeadlineExceeded, deadline_message(deadline), now));
    }
    if known.job.controls.suspend {
        let message = HELD_BY_SUSPEND.to_owned();
        return Next::Held(Waiting { reason: WaitingReason::Suspended, message }, None);
    }
    let anything_left = !known.children.is_empty() || first_pod_left(known).is_some();
    if anything_left && status.not_before.is_none_or(|time| time <= now) {
        return Next::Held(waits_for_the_last_attempt(known), Some(later(now, LOOK_AGAIN)));
    }
    let settings = match settings {
        Ok(settings) => settings,
        Err(reason) => {
            return Next::Held(Waiting { reason: WaitingReason::Paused, message: reason.clone() }, None);
        }
    };
    if settings.paused || settings.drain {
        let message = if settings.drain {
            "the ScavengerPool is being drained (spec.drain)"
        } else {
            "the ScavengerPool is paused (spec.paused)"
        };
        let waiting = Waiting { reason: WaitingReason::Paused, message: message.to_owned() };
        return Next::Held(waiting, None);
    }
    // A delay after failed starts belongs to the spec that could not start; another one gets its chance at once.
    let other_spec = status.failed_starts > 0 && status.observed_generation != known.job.generation;
    if let Some(time) = status.not_before.filter(|time| *time > now && !other_spec) {
        // Whoever set the time also wrote why, unless something else was said meanwhile.
        let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.clone());
        let passed = [WaitingReason::Paused, WaitingReason::Suspended];
        return match said.filter(|waiting| !passed.contains(&waiting.reason)) {
            Some(waiting) if status.observed_generation == known.job.generation => {
                Next::Held(waiting, Some(time))
            }
            _ => Next::Held(
                Waiting {
                    reason: WaitingReason::BackingOff,
                    message: "waits out the delay after its last attempt".to_owned(),
                },
                Some(time),
            ),
        };
    }
    if !known.has_reservation {
        return Next::Candidate;
    }
    let Some(prepared) = &known.memory.prepared else {
        return Next::Do(Task::Prepare { resource_version: known.job.resource_version });
    };
    if prepared.pods_left > 0 {
        let message = format!("waits until {} pods of earlier attempts have ended", prepared.pods_left);
        let waiting = Waiting { reason: WaitingReason::BackingOff, message };
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
            return Next::Do(fail(known, Reason::ReferenceMissing, message, now));
        }
        let again = (now + SignedDuration::from_secs(2)).min(last);
        return Next::GiveBack(Waiting { reason: WaitingReason::BackingOff, message }, again);
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
    let pods: BTreeMap<Name, Arc<Pod>> = known
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
    // Only now: an end that has shown is not talked away.
    if known.job.controls.suspend {
        return Next::Do(suspend(known, attempt, settings, now));
    }
    let deadline = match ran_out(known, attempt, now) {
        Ok(deadline) => deadline,
        Err(ending) => return Next::Do(finish(known, attempt, *ending, now)),
    };
    let Some(child) = child else {
        return if matches!(state, ChildState::Gone) {
            starting::next_of_orphans(known, attempt, &pods, settings, now)
        } else if let Some(next) = starting::next_of_refused(known, attempt, settings, now) {
            next
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
        Phase::Starting => starting::next(known, attempt, child, &pods, settings, now),
        _ => match next_running(known, settings, now) {
            Next::Wait(timer) => Next::Wait(earlier(timer, deadline)),
            next => next,
        },
    }
}

/// When the run time of an attempt will be used up, if it is limited.
fn ran_out(known: &Known<'_>, attempt: &Attempt, now: Timestamp) -> Result<Option<Timestamp>, Box<Ending>> {
    let (Some(deadline), Some(started)) = (known.job.controls.active_deadline, attempt.start_time) else {
        return Ok(None);
    };
    let before = SignedDuration::from_secs(known.job.status.active_seconds);
    let until = later(started, deadline.saturating_sub(before).max(SignedDuration::ZERO));
    if now < until {
        return Ok(Some(until));
    }
    Err(Box::new(Ending {
        outcome: Outcome::Failed,
        reason: Reason::DeadlineExceeded,
        message: deadline_message(deadline.as_secs()),
        disruption: None,
    }))
}

fn deadline_message(deadline: i64) -> String {
    format!("it ran for spec.activeDeadlineSeconds ({deadline} s) in all")
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

/// Stops an attempt because the spec asks for it: the status first, then its Job goes as that of any attempt that ended.
fn suspend(
    known: &Known<'_>,
    attempt: &Attempt,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Task {
    let ending = Ending {
        outcome: verdict::taken_away(attempt, known.evidence),
        reason: Reason::Suspended,
        message: HELD_BY_SUSPEND.to_owned(),
        disruption: None,
    };
    let waiting = Waiting { reason: WaitingReason::Suspended, message: HELD_BY_SUSPEND.to_owned() };
    match ending.outcome {
        Outcome::Interrupted => interrupt(known, attempt, &ending, waiting, settings, now),
        _ => set_back(known, attempt, &ending, waiting, now),
    }
}

/// `time` after `duration`; what a status says may be absurd, and must not end the planner.
pub(crate) fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

fn next_running(known: &Known<'_>, settings: &Result<Settings, String>, now: Timestamp) -> Next {
    let status = &known.job.status;
    let (Ok(settings), Ok(spec)) = (settings, &known.job.spec) else { return Next::Wait(None) };
    let started = priority::stretch_began(status).unwrap_or(now);
    let step = priority::step(started, spec.interruption_after, settings.priority_steps, now);
    let attempt_began = status.active_attempt().and_then(|attempt| attempt.start_time);
    let reported = status.last_checkpoint.filter(|time| Some(*time) > attempt_began);
    let start_over =
        step.started_over.or(status.priority_start_over.filter(|time| *time >= started)).or(reported);
    // Stored stamps have whole seconds.
    let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
    if status.running_priority == Some(step.level)
        && second(status.priority_start_over) == second(start_over)
        && status.observed_generation == known.job.generation
    {
        return Next::Wait(Some(step.until));
    }
    let mut status = status.clone();
    status.running_priority = Some(step.level);
    status.priority_start_over = start_over;
    Next::Do(write(known.job, status, None, None))
}

/// The write of a status.
#[must_use]
pub fn write(job: &Job, mut status: JobStatus, ended: Option<Attempt>, event: Option<Event>) -> Task {
    status.written = true;
    status.observed_generation = job.generation;
    Task::WriteStatus(Box::new(StatusWrite { resource_version: job.resource_version, status, ended, event }))
}

/// What is to be done so that a status says why its ScavengerJob waits.
#[derive(Debug)]
pub enum Telling {
    /// It says so.
    Said,
    /// It is to be written.
    Now(Task),
    /// It says so with numbers that have grown old, and was written a moment ago: to be written at this time.
    Later(Timestamp),
}

/// What is to be done so that the status says why a ScavengerJob waits. Another reason is written at once; a message of
/// which only numbers changed, much enough, is written again after [`RETELL`].
#[must_use]
pub fn hold(job: &Job, reported: Option<Timestamp>, waiting: &Waiting, now: Timestamp) -> Telling {
    let status = &job.status;
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref());
    if let Some(said) = said
        && status.written
        && status.observed_generation == job.generation
        && said.reason == waiting.reason
    {
        if !wording::has_grown_old(&said.message, &waiting.message) {
            return Telling::Said;
        }
        let again = later(reported.unwrap_or(now), RETELL);
        if now < again {
            return Telling::Later(again);
        }
    }
    let mut status = status.clone();
    set_waiting(&mut status, waiting.clone(), now);
    Telling::Now(write(job, status, None, None))
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
    status.attempt = Some(Box::new(Attempt {
        number,
        generation: known.job.generation,
        priority_class: status.counted_interruptions,
        ..Attempt::first(spec.demand.clone(), now)
    }));
    write(known.job, status, None, Some(Event::Started))
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
    let child_uid = Some(child.uid.clone());
    status.attempt = Some(Box::new(Attempt { child_uid, start_time: Some(now), ..attempt.clone() }));
    write(known.job, status, None, Some(Event::Running))
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
        disruption.time = ended_at(known, attempt, ending.outcome, now);
    }
    if ending.reason == Reason::Unknown && known.job.status.unknown_ends_in_a_row > 0 {
        // One further attempt was made already.
        ending.outcome = Outcome::Failed;
        ending.message.push_str("; the attempt before it ended in the same way");
    }
    match ending.outcome {
        Outcome::Completed | Outcome::Failed => finish(known, attempt, ending, now),
        Outcome::Interrupted => {
            let message = format!("attempt {} was interrupted: {}", attempt.number, ending.message);
            let waiting = Waiting { reason: WaitingReason::BackingOff, message };
            interrupt(known, attempt, &ending, waiting, settings, now)
        }
        Outcome::Withdrawn => {
            let waiting = Waiting { reason: WaitingReason::BackingOff, message: ending.message.clone() };
            set_back(known, attempt, &ending, waiting, now)
        }
    }
}

/// When an attempt ended of which that is found out now; see [`Evidence::end_time`].
fn ended_at(known: &Known<'_>, attempt: &Attempt, outcome: Outcome, now: Timestamp) -> Timestamp {
    let child = known.children.values().find(|child| child.attempt == attempt.number);
    known.evidence.end_time(attempt, child.map(|child| &**child), outcome, now)
}

/// The attempt as it goes into the history. One of which a container ran, and which ended before all of its pods were
/// seen to run together, started, as far as anyone saw, when it ended.
fn ended(
    known: &Known<'_>,
    status: &mut JobStatus,
    attempt: &Attempt,
    ending: &Ending,
    end: Timestamp,
) -> Attempt {
    let ran = known.evidence.container_started && ending.outcome != Outcome::Withdrawn;
    if attempt.start_time.is_none() && ran {
        push(&mut status.start_times, end);
    }
    status.active_seconds = status.active_seconds.saturating_add(run_time(attempt, end).as_secs());
    if ending.reason == Reason::Unknown {
        status.unknown_ends_in_a_row = status.unknown_ends_in_a_row.saturating_add(1);
    } else if ending.outcome != Outcome::Withdrawn {
        status.unknown_ends_in_a_row = 0;
    }
    Attempt {
        start_time: attempt.start_time.or(ran.then_some(end)),
        end_time: Some(end),
        disruption: attempt.disruption.clone().or_else(|| ending.disruption.clone()),
        outcome: Some(ending.outcome),
        reason: Some(ending.reason.clone()),
        message: Some(ending.message.clone()),
        ..attempt.clone()
    }
}

/// How long all pods of an attempt ran until `end`.
fn run_time(attempt: &Attempt, end: Timestamp) -> SignedDuration {
    attempt
        .start_time
        .map_or(SignedDuration::ZERO, |started| end.duration_since(started))
        .max(SignedDuration::ZERO)
}

fn interrupt(
    known: &Known<'_>,
    attempt: &Attempt,
    ending: &Ending,
    waiting: Waiting,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Task {
    let mut status = known.job.status.clone();
    let end = ended_at(known, attempt, ending.outcome, now);
    let made_progress =
        known.job.spec.as_ref().is_ok_and(|spec| run_time(attempt, end) >= spec.interruption_after);
    let attempt = ended(known, &mut status, attempt, ending, end);
    status.phase = Phase::Interrupted;
    status.interrupted_count = status.interrupted_count.saturating_add(1);
    if ending.reason.advances_in_queue() {
        status.counted_interruptions = status.counted_interruptions.saturating_add(1);
    }
    status.interruptions_in_a_row =
        if made_progress { 1 } else { status.interruptions_in_a_row.saturating_add(1) };
    push(&mut status.interruption_times, end);
    let least = settings.as_ref().map_or(SignedDuration::ZERO, |settings| settings.interruption_backoff);
    let in_a_row = status.interruptions_in_a_row;
    let wait = backoff::after_interruption(&status.interruption_times, in_a_row, least, now);
    status.not_before = Some(later(now, wait));
    status.failed_starts = 0;
    status.attempt = Some(Box::new(attempt.clone()));
    set_waiting(&mut status, waiting, now);
    write(known.job, status, Some(attempt), Some(Event::Interrupted))
}

pub(crate) fn withdraw(known: &Known<'_>, attempt: &Attempt, waiting: Waiting, now: Timestamp) -> Task {
    let ending = Ending {
        outcome: Outcome::Withdrawn,
        reason: waiting.reason.into(),
        message: waiting.message.clone(),
        disruption: None,
    };
    set_back(known, attempt, &ending, waiting, now)
}

/// Back to where it was before the attempt: waiting, or interrupted if it had run.
pub(crate) fn set_back(
    known: &Known<'_>,
    attempt: &Attempt,
    ending: &Ending,
    waiting: Waiting,
    now: Timestamp,
) -> Task {
    let mut status = known.job.status.clone();
    let end = ended_at(known, attempt, ending.outcome, now);
    let attempt = ended(known, &mut status, attempt, ending, end);
    status.phase = if status.interrupted_count > 0 { Phase::Interrupted } else { Phase::Waiting };
    // Whoever suspends it before it runs has not found out that it can not start.
    if waiting.reason != WaitingReason::Suspended {
        status.failed_starts = status.failed_starts.saturating_add(1);
        let wait = backoff::after_failed_starts(status.failed_starts, &known.job.uid);
        status.not_before = Some(later(now, wait));
    }
    status.attempt = Some(Box::new(attempt.clone()));
    set_waiting(&mut status, waiting, now);
    write(known.job, status, Some(attempt), Some(Event::Withdrawn))
}

pub(crate) fn finish(known: &Known<'_>, attempt: &Attempt, ending: Ending, now: Timestamp) -> Task {
    let mut status = known.job.status.clone();
    let end = ended_at(known, attempt, ending.outcome, now);
    let attempt = ended(known, &mut status, attempt, &ending, end);
    let completed = ending.outcome == Outcome::Completed;
    status.phase = if completed { Phase::Completed } else { Phase::Failed };
    status.failure = (!completed).then(|| ending.reason.clone());
    status.message =
        if completed { ending.message } else { format!("{}: {}", ending.reason, ending.message) };
    status.finish_time = Some(now);
    status.running_priority = None;
    status.admitted = None;
    status.not_before = None;
    status.attempt = Some(Box::new(attempt.clone()));
    write(known.job, status, Some(attempt), Some(if completed { Event::Completed } else { Event::Failed }))
}

/// Failed without an attempt, or because an attempt could not even be made.
#[must_use]
pub fn fail(known: &Known<'_>, reason: Reason, message: String, now: Timestamp) -> Task {
    let ending = Ending { outcome: Outcome::Failed, reason, message, disruption: None };
    match &known.job.status.attempt {
        Some(attempt) if known.job.status.phase.is_active() => finish(known, attempt, ending, now),
        _ => {
            let mut status = known.job.status.clone();
            status.phase = Phase::Failed;
            status.message = format!("{}: {}", ending.reason, ending.message);
            status.failure = Some(ending.reason);
            status.finish_time = Some(now);
            status.running_priority = None;
            status.admitted = None;
            status.not_before = None;
            write(known.job, status, None, Some(Event::Failed))
        }
    }
}

/// An attempt that could not be made because a quota is used up.
#[must_use]
pub fn quota_exceeded(known: &Known<'_>, message: String, now: Timestamp) -> Option<Task> {
    let attempt = known.job.status.attempt.as_ref().filter(|_| known.job.status.phase.is_active())?;
    Some(withdraw(known, attempt, Waiting { reason: WaitingReason::QuotaExceeded, message }, now))
}
