//! How an attempt is interrupted, whatever the cause ([`crate::causes`]).
//!
//! An interruption takes four steps, each of which may be the last one before a crash:
//!
//! 1. The reason is written into the status, as the active attempt's disruption. From then on the attempt is going,
//!    whoever plans next.
//! 2. If there is time and the workload can be asked for a checkpoint, it is asked. It has 30 seconds to write one.
//! 3. One of its pods is evicted ([`Task::Interrupt`]): the same path as for anybody else who evicts. That is enough for a
//!    gang: the attempt ends when it shows, and its Job goes with all pods; if no operator works by then, the Job's
//!    podFailurePolicy does the same. If nothing shows for 5 seconds the others are evicted as well.
//! 4. The pods show it, and the attempt ends as any other that was taken away, with the reason of step 1.
//!
//! A workload that ends before step 3 has come to its own end. A gang of which one pod failed has not ended before it is
//! judged ([`crate::lifecycle::verdict`]), which takes up to a minute: what was decided about it is carried out meanwhile, and it
//! is not asked for a checkpoint, which its pods write together.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    known::{Known, Next, Transition},
    verdict,
};
use crate::values::{
    Attempt, CheckpointRequest, Disruption, Ending, Name, Pod, Reason, action::Task, earlier, later,
};

/// How long the eviction of one pod of a gang may show nothing.
const PATIENCE: SignedDuration = SignedDuration::from_secs(5);

/// What comes next for an attempt that the pods do not show to have ended: none if nobody wants to interrupt it.
pub fn next(known: &Known<'_>, attempt: &Attempt, pods: &BTreeMap<Name, Arc<Pod>>) -> Option<Next> {
    let Some(decided) = attempt.decided() else {
        return Some(Next::Change(Transition::OrderInterruption(known.order.cloned()?)));
    };
    let there = || {
        let pods = pods.values().filter(|pod| pod.is_evictable());
        pods.filter(|pod| !known.memory.evicted.contains_key(&pod.uid))
    };
    if let Some(any) = there().next() {
        let named = |pod: &Arc<Pod>| (pod.key.clone(), pod.uid.clone());
        let first = pods.values().filter_map(|pod| known.memory.evicted.get(&pod.uid)).min();
        if first.is_none()
            && let Some(until) = waits_for_checkpoint(known, attempt, decided)
        {
            let pods = pods.values().map(|pod| pod.uid.clone()).collect();
            return Some(Next::Ask(CheckpointRequest { pods, since: decided.time }, until));
        }
        return Some(match first.map(|time| later(*time, PATIENCE)) {
            // On a node that does not answer nothing would show it.
            None => {
                let answers =
                    |pod: &&Arc<Pod>| pod.node.as_ref().is_none_or(|node| known.capacity.is_ready(node));
                Next::Do(Task::Interrupt { pods: vec![named(there().find(answers).unwrap_or(any))] })
            }
            Some(until) if known.now < until => Next::Wait(Some(until)),
            Some(_) => Next::Do(Task::Interrupt { pods: there().map(named).collect() }),
        });
    }
    if !pods.is_empty() {
        // Their next versions end the attempt.
        return Some(Next::Wait(None));
    }
    // There is nothing to evict; should the Job be there and make pods yet, it goes with them.
    let outcome = verdict::taken_away(attempt, known.evidence);
    let ending = Ending::new(outcome, decided.reason.clone(), decided.message.clone());
    Some(Next::Change(Transition::End(ending)))
}

/// Until when a workload is waited for that is asked for a checkpoint before its interruption. None if it is not asked: nobody
/// waits that long for a reason that leaves no time, for one that saves when it is stopped, or for one that has not
/// reported; none once it has answered or a pod of it failed, and none once somebody who cannot wait counts on its capacity
/// ([`crate::causes::pool::Cause::relies_on`]).
fn waits_for_checkpoint(known: &Known<'_>, attempt: &Attempt, decided: &Disruption) -> Option<Timestamp> {
    let until = known.sj.evicted_by(decided);
    let is_waited_for = owes_checkpoint(known, attempt, decided.time)
        && known.memory.hurried != Some(attempt.number)
        && known.now < until;
    is_waited_for.then_some(until)
}

/// True if a workload can write a checkpoint that is worth something, and has written none since this time.
fn owes_checkpoint(known: &Known<'_>, attempt: &Attempt, since: Timestamp) -> bool {
    let last = known.sj.status.last_checkpoint;
    // A planner that has just begun was sent no report yet; the one before it was, if there is a checkpoint.
    let has_reported = last.is_some_and(|time| attempt.start_time.is_some_and(|start| time >= start));
    attempt.supervised
        && attempt.start_time.is_some()
        && (known.is_heard || has_reported)
        && known.evidence.failure_seen().is_none()
        && !known.sj.saves_on_sigterm()
        && last.is_none_or(|checkpoint| checkpoint <= since)
}

/// The checkpoint that a workload is asked for although nobody interrupts it: its node leaves the pool soon, and takes it along
/// if it is still there then.
pub(crate) fn request_before_its_node_leaves(known: &Known<'_>) -> Option<CheckpointRequest> {
    let (attempt, since) = known.sj.status.active_attempt().zip(known.saves_from)?;
    let can_be_asked = known.sj.spec.as_ref().is_ok_and(|spec| spec.supervision.can_be_asked);
    let is_asked = can_be_asked && !known.sj.deleting && owes_checkpoint(known, attempt, since);
    let pods = known.pods.values().filter(|pod| pod.is_of(attempt.number));
    is_asked.then(|| CheckpointRequest { pods: pods.map(|pod| pod.uid.clone()).collect(), since })
}

/// An ending in the light of what was decided before: the reason of an interruption is the planner's own.
pub fn explained(attempt: &Attempt, mut ending: Ending) -> Ending {
    if let Some(decided) = attempt.decided().filter(|_| ending.is_taken_away()) {
        ending.reason.clone_from(&decided.reason);
        ending.message.clone_from(&decided.message);
    }
    ending
}

/// Deletes pods again that were deleted with a longer grace period than their own, once their own is over, instead of
/// waiting for them: else anybody could hold capacity for a week with a deletion.
pub(crate) fn hurried(known: &Known<'_>, next: Next) -> Next {
    let outstaying = known.pods.values().filter(|pod| !known.memory.deleted_again.contains(&pod.uid));
    let outstaying = outstaying.filter_map(|pod| Some((pod.outstays()?, pod)));
    let over: Vec<_> = outstaying
        .clone()
        .filter(|(time, _)| *time <= known.now)
        .map(|(_, pod)| (pod.key.clone(), pod.uid.clone(), pod.grace_period))
        .collect();
    let first = outstaying.map(|(time, _)| time).min();
    match next {
        Next::Wait(_) | Next::NotReady(..) if !over.is_empty() => Next::Do(Task::DeleteAgain { pods: over }),
        Next::Wait(timer) => Next::Wait(earlier(timer, first)),
        Next::NotReady(waiting, timer) => Next::NotReady(waiting, earlier(timer, first)),
        next => next,
    }
}

/// True if an interruption advances its ScavengerJob in the queue and raises its PriorityClass.
///
/// Users may evict their own pods (the role `edit` allows it), and such an eviction looks like one by `kubectl drain`. But
/// only administrators close nodes, and whoever drains a node closes it first. So an eviction counts if the operator
/// decided it, which gives the ending the operator's own reason, or if the pod's node was taken away: it is cordoned, tainted,
/// not ready or gone. Pressure does not count: the pod may fill the node's disk while it terminates. A limit on how often an
/// eviction counts would only have set the price of a better place.
pub fn counts(known: &Known<'_>, ending: &Ending) -> bool {
    if ending.reason != Reason::EvictionByEvictionAPI {
        return ending.reason.advances_in_queue();
    }
    let pod = ending.disruption.as_ref().and_then(|disruption| known.pods.get(&disruption.pod));
    let node = pod.and_then(|pod| pod.node.as_ref());
    node.is_some_and(|node| known.capacity.is_taken_away(node))
}
