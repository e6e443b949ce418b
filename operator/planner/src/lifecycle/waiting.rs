//! A ScavengerJob without an active attempt: what it waits for, and what is prepared before it starts.

use jiff::SignedDuration;

use super::{
    active,
    known::Known,
    leftovers,
    next::{Next, Transition},
};
use crate::{
    facts::volumes::ClaimHold,
    values::{Reason, Settings, Waiting, WaitingReason, action::Task, time::later},
};

/// How often it is looked again at pods that hold something up: their node can be lost without any of them changing.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(60);

/// How often it is looked again at a claim that a start in flight is about to mount: the start may fail.
const CLAIM_AGAIN: SignedDuration = SignedDuration::from_secs(15);

/// How often it is looked again for something that the spec refers to and that is missing.
const REFERENCE_AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// The same of something that has been missing for long.
const LONGEST_REFERENCE_AGAIN: SignedDuration = SignedDuration::from_mins(2);

/// What is next for a ScavengerJob that has no active attempt.
#[must_use]
pub fn next(known: &Known<'_>) -> Next {
    let (now, status) = (known.now, &known.sj.status);
    if let Err(message) = &known.sj.spec {
        return Next::Change(Transition::fail(Reason::InvalidSpec, message.clone()));
    }
    // An ended attempt's Job goes; so does one that was made by an operator that never got to write it down.
    if let Some(job) = known.jobs.values().find(|job| !job.deleting) {
        return Next::Do(Task::delete(job));
    }
    // Whatever it waits for: nothing that was interrupted works on.
    if let Some(next) = leftovers::next_of_orphans(known) {
        return match next {
            Next::Wait(timer) => Next::Held(leftovers::holds_next_attempt(known), timer),
            next => next,
        };
    }
    if let Some(deadline) = known.sj.controls.active_deadline.map(|deadline| deadline.as_secs())
        && status.active_seconds >= deadline
    {
        return Next::Change(Transition::fail(Reason::DeadlineExceeded, active::deadline_message(deadline)));
    }
    if known.sj.controls.suspend {
        let message = active::HELD_BY_SUSPEND.to_owned();
        return Next::Held(Waiting { reason: WaitingReason::Suspended, message }, None);
    }
    let pods_may_come = leftovers::pods_may_come_until(known);
    let anything_left = !known.jobs.is_empty() || known.first_pod_left().is_some() || pods_may_come.is_some();
    if anything_left && status.not_before.is_none_or(|time| time <= now) {
        let again = pods_may_come.unwrap_or_else(|| later(now, LOOK_AGAIN));
        return Next::Held(leftovers::holds_next_attempt(known), Some(again));
    }
    let settings = match known.settings {
        Ok(settings) => settings,
        Err(message) => {
            let waiting = Waiting { reason: WaitingReason::Paused, message: message.to_owned() };
            return Next::Held(waiting, None);
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
    let other_spec = status.failed_starts > 0 && status.observed_generation != known.sj.generation;
    if let Some(time) = status.not_before.filter(|time| *time > now && !other_spec) {
        // The reason was written together with the time, unless something else was said meanwhile.
        let said = status.admitted.as_ref().and_then(|admitted| admitted.waiting.clone());
        let passed = [WaitingReason::Paused, WaitingReason::Suspended];
        return match said.filter(|waiting| !passed.contains(&waiting.reason)) {
            Some(waiting) if status.observed_generation == known.sj.generation => {
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
    if let Some(other) = known.folder_user {
        let message = format!("waits for ScavengerJob {:?}, which works in the same folder", &*other.name);
        let waiting = Waiting { reason: WaitingReason::FolderInUse, message };
        return match known.has_reservation {
            true => Next::GiveBack(waiting, now + SignedDuration::from_secs(2)),
            false => Next::Held(waiting, None),
        };
    }
    if let Some(hold) = &known.claim_hold {
        let (reason, message, again) = match hold {
            ClaimHold::InUse(message) => {
                (WaitingReason::VolumeInUse, message.clone(), Some(later(now, CLAIM_AGAIN)))
            }
            // It is looked at when they can be listed, or when its volume shows.
            ClaimHold::Unknown(claim) => {
                let message = format!(
                    "the volume of PersistentVolumeClaim {:?} is not known; waits until the operator can list \
                     PersistentVolumes",
                    &**claim
                );
                (WaitingReason::VolumeUnknown, message, None)
            }
        };
        return Next::Held(Waiting { reason, message }, again);
    }
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
        let waiting = Waiting { reason: WaitingReason::BackingOff, message };
        return Next::GiveBack(waiting, now + SignedDuration::from_secs(2));
    }
    if let Some(pod) = &prepared.folder_pod {
        let message = format!(
            "waits until pod {pod} of another ScavengerJob, which works in the same folder, has ended"
        );
        let waiting = Waiting { reason: WaitingReason::FolderInUse, message };
        return Next::GiveBack(waiting, now + SignedDuration::from_secs(2));
    }
    if !prepared.missing.is_empty() {
        return of_missing(known, &prepared.missing, settings);
    }
    Next::Change(Transition::Start)
}

/// The spec refers to something that does not exist: kind and name of each.
fn of_missing(known: &Known<'_>, missing: &[(String, String)], settings: &Settings) -> Next {
    let now = known.now;
    let names: Vec<String> = missing.iter().map(|(kind, name)| format!("{kind} {name:?}")).collect();
    let message = format!("{} does not exist in namespace {:?}", names.join(", "), &*known.sj.key.namespace);
    let since = known.memory.missing_since.unwrap_or(now);
    let last = later(since, settings.reference_grace);
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
