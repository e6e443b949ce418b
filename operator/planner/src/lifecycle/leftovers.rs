//! What is left of earlier attempts. Neither the next attempt nor the end of a deletion may meet it: a pod that has not
//! ended, a pod whose Job is gone, and a pod that the Job controller may still create.

use jiff::{SignedDuration, Timestamp};

use super::known::{Known, Next};
use crate::{
    facts::tracked::NoJob,
    values::{Key, Name, Pod, Waiting, WaitingReason, action::Task, later},
};

/// How long the Job controller may still create the pods of a Job that is gone: its view of Jobs is its own watch's, and
/// its work waits in a queue. If it is later than this, the live list of pods before every start finds what it created
/// until then.
pub(crate) const JOB_CONTROLLER_PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// A pod whose Job is gone is evicted once two live reads, this long apart, say so. The garbage collector takes the pods
/// of a Job that was deleted in the background in less.
const ORPHAN_PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// Until when the Job controller may create pods of the last attempt. None if they were all there: it creates no second
/// ones, since the Job's `backoffLimit` is 0.
pub(crate) fn pods_may_come_until(known: &Known<'_>) -> Option<Timestamp> {
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
pub(crate) fn next_of_orphans(known: &Known<'_>) -> Option<Next> {
    let orphans = orphans(known).filter(|pod| !known.memory.evicted.contains_key(&pod.uid));
    let orphans: Vec<&Pod> = orphans.collect();
    let (_, attempt) = orphans.first()?.owner.as_ref()?;
    let look = Next::Do(Task::LookForJob { attempt: *attempt });
    let Some(NoJob { first, last, .. }) = known.memory.no_job.filter(|read| read.attempt == *attempt) else {
        return Some(look);
    };
    if last.duration_since(first) >= ORPHAN_PATIENCE {
        let of_attempt = |pod: &&Pod| pod.owner.as_ref().is_some_and(|(_, number)| number == attempt);
        let pods: Vec<(Key, Name)> =
            orphans.into_iter().filter(of_attempt).map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
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
pub(crate) fn holds_next_attempt(known: &Known<'_>) -> Waiting {
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
pub(crate) fn holds_deletion(known: &Known<'_>) -> Option<String> {
    let (pod, node) = known.pod_on_lost_node()?;
    Some(format!("its deletion waits for pod {pod} on node {node}, which is gone or not ready"))
}
