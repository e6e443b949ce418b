//! A ScavengerJob without an active attempt: what it waits for, and what is prepared before it starts.
//!
//! # What is left of earlier attempts
//!
//! Neither the next attempt nor the end of a deletion may meet it: a pod that has not ended, a pod whose Job is gone, and a pod
//! that the Job controller may still create.

use jiff::{SignedDuration, Timestamp};

use super::{
    active,
    known::{Known, Next, Transition},
};
use crate::{
    facts::{runtime_classes::Class, tracked::NoJob, volumes::ClaimWait},
    values::{Key, Name, Pod, Reason, Waiting, WaitingReason, action::Task, later},
};

/// How often it is looked again at pods that hold something up: their node can be lost without any of them changing.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// How often it is looked again at a claim that a start in flight is about to mount: the start may fail.
const CLAIM_AGAIN: SignedDuration = SignedDuration::from_secs(15);

/// How often it is looked again for something that the spec refers to and that is missing.
const REFERENCE_AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// The same of something that has been missing for long.
const LONGEST_REFERENCE_AGAIN: SignedDuration = SignedDuration::from_mins(2);

/// What keeps it from starting apart from capacity, in the order in which it is asked: the first that has an answer decides.
const STEPS: [fn(&Known<'_>) -> Option<Next>; 8] = [
    of_invalid_spec,
    of_leftovers,
    of_controls,
    of_pods_left,
    of_pool,
    of_delay,
    of_runtime_class,
    of_others,
];

/// What is next for a ScavengerJob that has no active attempt.
pub fn next(known: &Known<'_>) -> Next {
    STEPS.iter().find_map(|step| step(known)).unwrap_or_else(|| to_start(known))
}

fn not_ready(reason: WaitingReason, message: &str, again: Option<Timestamp>) -> Option<Next> {
    Some(Next::NotReady(Waiting { reason, message: message.to_owned() }, again))
}

fn of_invalid_spec(known: &Known<'_>) -> Option<Next> {
    let message = known.sj.spec.as_ref().err()?;
    Some(Next::Change(Transition::fail(Reason::InvalidSpec, message.clone())))
}

/// Jobs and pods of earlier attempts that have to go.
fn of_leftovers(known: &Known<'_>) -> Option<Next> {
    // An ended attempt's Job goes; so does one that was made by an operator that never got to write it down.
    if let Some(job) = known.jobs.values().find(|job| !job.deleting) {
        return Some(Next::Do(Task::delete(job)));
    }
    // Whatever it waits for: nothing that was interrupted works on.
    Some(match next_of_orphans(known)? {
        Next::Wait(timer) => Next::NotReady(holds_next_attempt(known), timer),
        next => next,
    })
}

/// What of its spec may change at any time.
fn of_controls(known: &Known<'_>) -> Option<Next> {
    if let Some(deadline) = known.sj.controls.active_deadline.map(|deadline| deadline.as_secs())
        && known.sj.status.active_seconds >= deadline
    {
        let message = active::deadline_message(deadline);
        return Some(Next::Change(Transition::fail(Reason::DeadlineExceeded, message)));
    }
    let suspended = || not_ready(WaitingReason::Suspended, active::HELD_BY_SUSPEND, None);
    known.sj.controls.suspend.then(suspended).flatten()
}

/// Pods of earlier attempts that are about to end, or may still come.
fn of_pods_left(known: &Known<'_>) -> Option<Next> {
    let pods_may_come = pods_may_come_until(known);
    let anything_left = !known.jobs.is_empty() || known.first_pod_left().is_some() || pods_may_come.is_some();
    if !anything_left || known.sj.status.not_before.is_some_and(|time| time > known.now) {
        return None;
    }
    let again = pods_may_come.unwrap_or_else(|| later(known.now, LOOK_AGAIN));
    Some(Next::NotReady(holds_next_attempt(known), Some(again)))
}

fn of_pool(known: &Known<'_>) -> Option<Next> {
    if let Some(tenant) = known.paused_tenant
        && known.settings.is_ok_and(|settings| !settings.drain && !settings.paused)
    {
        let message = format!("tenant {tenant} is paused (spec.tenants of the ScavengerPool)");
        return not_ready(WaitingReason::Paused, &message, None);
    }
    let message = match known.settings {
        Err(message) => message,
        Ok(settings) if settings.drain => "the ScavengerPool is being drained (spec.drain)",
        Ok(settings) if settings.paused => "the ScavengerPool is paused (spec.paused)",
        Ok(_) => return None,
    };
    not_ready(WaitingReason::Paused, message, None)
}

/// The delay after its last attempt.
fn of_delay(known: &Known<'_>) -> Option<Next> {
    let (sj, status) = (known.sj, &known.sj.status);
    // A delay after failed starts belongs to the spec that could not start; another one gets its chance at once.
    let other_spec = status.failed_starts > 0 && status.observed_generation != sj.generation;
    let time = status.not_before.filter(|time| *time > known.now && !other_spec)?;
    // The reason was written together with the time, unless something else was said meanwhile.
    let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.clone());
    let passed = [WaitingReason::Paused, WaitingReason::Suspended];
    match said.filter(|waiting| !passed.contains(&waiting.reason)) {
        Some(waiting) if status.observed_generation == sj.generation => {
            Some(Next::NotReady(waiting, Some(time)))
        }
        _ => not_ready(WaitingReason::BackingOff, "waits out the delay after its last attempt", Some(time)),
    }
}

/// A RuntimeClass that is not there or cannot be known, and one with which the pool or the API server takes no pods. It
/// is looked at again when the class or the pool changes.
fn of_runtime_class(known: &Known<'_>) -> Option<Next> {
    let refused = |message: &str| not_ready(WaitingReason::Refused, message, None);
    let (class, spec) = match known.runtime_class? {
        Class::There(class) => (class, known.sj.spec.as_ref().ok()?),
        Class::Missing(name) => {
            return refused(&format!("RuntimeClass {:?} does not exist; waits until it does", &**name));
        }
        Class::Unknown(name) => {
            return refused(&format!(
                "RuntimeClass {:?} is not known; waits until the operator can list RuntimeClasses",
                &**name
            ));
        }
    };
    let own = &spec.runtime.as_ref()?.own.placement;
    if let Some(key) = class.contradicts(own) {
        return refused(&format!(
            "spec.nodeSelector asks for another value of {key} than RuntimeClass {:?} does",
            &*class.name
        ));
    }
    refused(&known.settings.ok()?.refuses(class)?)
}

/// Others that work in its folder, or with its volume.
fn of_others(known: &Known<'_>) -> Option<Next> {
    if let Some(other) = known.folder_user {
        let message = format!("waits for ScavengerJob {:?}, which works in the same folder", &*other.name);
        return match known.has_reservation {
            true => Some(give_back(known, WaitingReason::FolderInUse, message)),
            false => not_ready(WaitingReason::FolderInUse, &message, None),
        };
    }
    match known.claim_wait.as_ref()? {
        ClaimWait::InUse(message) => {
            not_ready(WaitingReason::VolumeInUse, message, Some(later(known.now, CLAIM_AGAIN)))
        }
        // It is looked at when they can be listed, or when its volume shows.
        ClaimWait::Unknown(claim) => {
            let message = format!(
                "the volume of PersistentVolumeClaim {:?} is not known; waits until the operator can list \
                 PersistentVolumes",
                &**claim
            );
            not_ready(WaitingReason::VolumeUnknown, &message, None)
        }
    }
}

/// The capacity that is reserved for it is of no use for a moment.
fn give_back(known: &Known<'_>, reason: WaitingReason, message: String) -> Next {
    Next::GiveBack(Waiting { reason, message }, known.now + SignedDuration::from_secs(2))
}

/// Nothing but capacity keeps it from starting; what is prepared once capacity is reserved.
fn to_start(known: &Known<'_>) -> Next {
    if !known.has_reservation {
        return Next::Candidate;
    }
    let Some(prepared) = &known.memory.prepared else {
        return Next::Do(Task::Prepare { resource_version: known.sj.resource_version });
    };
    if prepared.pods_left > 0 {
        let message = match prepared.pods_left {
            1 => "waits until 1 pod of an earlier attempt has ended".to_owned(),
            left => format!("waits until {left} pods of earlier attempts have ended"),
        };
        return give_back(known, WaitingReason::BackingOff, message);
    }
    if let Some(pod) = &prepared.folder_pod {
        let message = format!(
            "waits until pod {pod} of another ScavengerJob, which works in the same folder, has ended"
        );
        return give_back(known, WaitingReason::FolderInUse, message);
    }
    if !prepared.missing.is_empty() {
        return of_missing(known, &prepared.missing);
    }
    Next::Change(Transition::Start)
}

/// The spec refers to something that does not exist: kind and name of each.
fn of_missing(known: &Known<'_>, missing: &[(String, String)]) -> Next {
    let now = known.now;
    let names: Vec<String> = missing.iter().map(|(kind, name)| format!("{kind} {name:?}")).collect();
    let message = format!("{} does not exist in namespace {:?}", names.join(", "), &*known.sj.key.namespace);
    let since = known.memory.missing_since.unwrap_or(now);
    let grace = known.settings.map_or(SignedDuration::ZERO, |settings| settings.reference_grace);
    let last = later(since, grace);
    let again = if known.has_run {
        // It was there when a container ran with this spec, so it is not misspelt: it may be made again.
        later(now, now.duration_since(since).clamp(REFERENCE_AGAIN, LONGEST_REFERENCE_AGAIN))
    } else if now >= last {
        return Next::Change(Transition::fail(Reason::ReferenceMissing, message));
    } else {
        later(now, REFERENCE_AGAIN).min(last)
    };
    Next::GiveBack(Waiting { reason: WaitingReason::BackingOff, message }, again)
}

/// How long the Job controller may still create the pods of a Job that is gone: its view of Jobs is its own watch's, and
/// its work waits in a queue. If it is later than this, the live list of pods before every start finds what it created
/// until then.
pub(super) const JOB_CONTROLLER_PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// A pod whose Job is gone is evicted once two live reads, this long apart, say so. The garbage collector takes the pods
/// of a Job that was deleted in the background in less.
const ORPHAN_PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// Until when the Job controller may create pods of the last attempt. None if they were all there: it creates no second
/// ones, since the Job's `backoffLimit` is 0.
pub(super) fn pods_may_come_until(known: &Known<'_>) -> Option<Timestamp> {
    let attempt = known.sj.status.attempt.as_ref().filter(|attempt| attempt.start_time.is_none())?;
    let was_made = !known.jobs.is_empty() || known.memory.lost_job == Some(attempt.number);
    let ended = match attempt.end_time {
        _ if known.evidence.pods_seen() >= attempt.demand.pod_count as usize => return None,
        Some(time) => time,
        // Its Job was never created, and this planner is the one that would have created it.
        None if known.memory.may_create == Some(attempt.number) && !was_made => return None,
        None => known.memory.deleting_since?,
    };
    Some(later(ended, JOB_CONTROLLER_PATIENCE)).filter(|until| known.now < *until)
}

/// What is to be done about pods whose Job is gone and which nobody deletes, as `kubectl delete job --cascade=orphan`
/// leaves them. None if there are none, or if they are being evicted.
pub(super) fn next_of_orphans(known: &Known<'_>) -> Option<Next> {
    let orphans = orphans(known).filter(|pod| !known.memory.evicted.contains_key(&pod.uid));
    let orphans: Vec<&Pod> = orphans.collect();
    let (_, attempt) = orphans.first()?.owner.as_ref()?;
    let look = Next::Do(Task::LookForJob { attempt: *attempt });
    let Some(NoJob { first, last, .. }) = known.memory.no_job.filter(|read| read.attempt == *attempt) else {
        return Some(look);
    };
    if last.duration_since(first) >= ORPHAN_PATIENCE {
        let pods: Vec<(Key, Name)> = orphans
            .into_iter()
            .filter(|pod| pod.is_of(*attempt))
            .map(|pod| (pod.key.clone(), pod.uid.clone()))
            .collect();
        return Some(Next::Do(Task::Interrupt { pods }));
    }
    let again = later(first, ORPHAN_PATIENCE);
    Some(if known.now < again { Next::Wait(Some(again)) } else { look })
}

/// Pods that have not ended, whose Job is gone, and which nobody deletes.
fn orphans<'a>(known: &Known<'a>) -> impl Iterator<Item = &'a Pod> {
    let jobs = known.jobs;
    let has_job = move |number: u32| jobs.values().any(|job| job.attempt == number);
    let left = known.pods.values().filter(|pod| !pod.phase.is_terminal() && pod.deletion_requested.is_none());
    left.filter(move |pod| pod.owner.as_ref().is_some_and(|(_, number)| !has_job(*number))).map(|pod| &**pod)
}

/// Why the next attempt waits for what is left of the last one: two must never run at once.
pub(super) fn holds_next_attempt(known: &Known<'_>) -> Waiting {
    let backing_off = |message| Waiting { reason: WaitingReason::BackingOff, message };
    if let Some((pod, node)) = known.pod_on_lost_node() {
        let message = format!(
            "pod {pod} of its last attempt is on node {node}, which is gone or not ready; the next attempt waits until \
             the node is back or removed"
        );
        return Waiting { reason: WaitingReason::NodeUnreachable, message };
    }
    backing_off(match (orphans(known).next(), known.first_pod_left()) {
        (Some(pod), _) => format!("evicts pod {} of its last attempt, whose Job is gone", pod.key.name),
        (_, Some(pod)) => format!("waits until pod {} of its last attempt has ended", pod.key.name),
        _ if !known.jobs.is_empty() => "waits until the Job of its last attempt is gone".to_owned(),
        _ => "waits until the Job controller creates no more pods of its last attempt".to_owned(),
    })
}

/// What holds its deletion, as far as a person can do something about it.
pub(super) fn holds_deletion(known: &Known<'_>) -> Option<String> {
    let (pod, node) = known.pod_on_lost_node()?;
    Some(format!("its deletion waits for pod {pod} on node {node}, which is gone or not ready"))
}
