//! How an attempt is interrupted, whatever the cause ([`crate::causes`]).
//!
//! An interruption takes three steps, each of which may be the last one before a crash:
//!
//! 1. The reason is written into the status, as the active attempt's disruption. From then on the attempt is going,
//!    whoever plans next.
//! 2. Its pods are evicted ([`Task::Interrupt`]): the same path as for anybody else who evicts.
//! 3. The pods show it, and the attempt ends as any other that was taken away, with the reason of step 1.
//!
//! A workload that ends by itself before step 2 has ended by itself.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{
    action::Task,
    lifecycle::{self, Known, Next},
    snapshot::{Attempt, Disruption, Key, Name, Outcome, Pod, Reason, Settings},
    verdict::{self, Ending},
};

/// True for a disruption that the planner decided, and that no pod may show yet.
#[must_use]
pub fn is_decision(disruption: &Disruption) -> bool {
    disruption.reason.is_operators_decision()
}

/// A decision to interrupt.
#[must_use]
pub fn decision(reason: Reason, message: String, now: Timestamp) -> Disruption {
    Disruption { time: now, reason, message, pod: "".into() }
}

/// The decision about the active attempt that is written down already.
pub(crate) fn decided(attempt: &Attempt) -> Option<&Disruption> {
    attempt.disruption.as_ref().filter(|disruption| is_decision(disruption))
}

/// What comes next for an attempt that the pods do not show to have ended: none if nobody wants to interrupt it.
#[must_use]
pub fn next(
    known: &Known<'_>,
    attempt: &Attempt,
    pods: &BTreeMap<Name, Arc<Pod>>,
    settings: &Result<Settings, String>,
    now: Timestamp,
) -> Option<Next> {
    let Some(decided) = decided(attempt) else {
        let decision = known.order.cloned()?;
        let mut status = known.job.status.clone();
        status.message = format!("attempt {} is being interrupted: {}", attempt.number, decision.message);
        status.attempt = Some(Box::new(Attempt { disruption: Some(decision), ..attempt.clone() }));
        return Some(Next::Do(lifecycle::write(known.job, status, None, None)));
    };
    let there: Vec<(Key, Name)> = pods
        .values()
        .filter(|pod| pod.is_evictable())
        .filter(|pod| !known.memory.evicted.contains(&pod.uid))
        .map(|pod| (pod.key.clone(), pod.uid.clone()))
        .collect();
    if !there.is_empty() {
        return Some(Next::Do(Task::Interrupt { pods: there }));
    }
    if !pods.is_empty() {
        // Their next versions end the attempt.
        return Some(Next::Wait(None));
    }
    // There is nothing to evict; should the Job be there and make pods yet, it goes with them.
    let ending = Ending {
        outcome: verdict::taken_away(attempt, known.evidence),
        reason: decided.reason.clone(),
        message: decided.message.clone(),
        disruption: None,
    };
    Some(Next::Do(lifecycle::end(known, attempt, ending, settings, now)))
}

/// An ending in the light of what was decided before: the reason of an interruption is the planner's own, and a
/// workload that came to its end first was not interrupted.
#[must_use]
pub fn explained(attempt: &Attempt, mut ending: Ending) -> (Attempt, Ending) {
    let mut attempt = attempt.clone();
    if let Some(decided) = decided(&attempt) {
        if matches!(ending.outcome, Outcome::Interrupted | Outcome::Withdrawn) {
            ending.reason.clone_from(&decided.reason);
            ending.message.clone_from(&decided.message);
        } else {
            attempt.disruption = None;
        }
    }
    (attempt, ending)
}
