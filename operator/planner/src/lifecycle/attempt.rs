//! What is written down of an attempt beside how it ended.
//!
//! # Hardware
//!
//! On which hardware an attempt runs: what its pods' nodes say of themselves, written down before the pods are gone.
//!
//! # Supervision
//!
//! The pool names the supervisor, a ScavengerJob may refuse it, and it needs a command to be put in front of. Where it cannot
//! be started (its image cannot be pulled, a node mounts volumes noexec) the attempt is withdrawn, and the next one starts
//! without it, as others in its namespace do for a while ([`crate::backoff::namespaces`]): what the pool adds is never a
//! user's failure.
//!
//! # Lost work
//!
//! What an attempt was worth once it has ended: how much of its run time is lost, and whether its workload saved when it was
//! told to.
//!
//! What the supervisors left when the workload had ended ([`EndReport`](crate::values::EndReport)) counts first, then what
//! they reported while it ran. Without either nothing is known, and nothing is said. An attempt that
//! is taken away is judged when its pods show it,
//! and its workload goes on for up to its grace period; what it wrote then is added to the record by one more write
//! ([`crate::lifecycle::known::Transition::Measure`]).

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::known::{Known, Next, Transition};
use crate::{
    facts::evidence::PodEnd,
    values::{
        Attempt, AttemptNode, Cpu, CpuTime, Measured, Name, Node, ObservedSaves, Outcome, Rank, Reason, Stop,
        Supervised, Supervision, later,
        resources::{CPU, MEMORY, Resources},
    },
};

/// More kinds are not told. A gang mostly has one.
const MOST_KINDS: usize = 4;

/// What tells one kind of nodes from another.
type Kind = (BTreeMap<Name, Name>, Resources);

/// The nodes of an attempt's pods, one of each kind; empty if none has a node. A node that is not seen has no resources.
pub(crate) fn hardware(known: &Known<'_>, attempt: &Attempt) -> Vec<AttemptNode> {
    let mut kinds: BTreeMap<Kind, (Name, u32)> = BTreeMap::new();
    let pods = known.pods.values().filter(|pod| pod.is_of(attempt.number));
    for name in pods.filter_map(|pod| pod.node.as_ref()) {
        let kind = known.capacity.node(name).map(|load| kind_of(load.node)).unwrap_or_default();
        let (first, pods) = kinds.entry(kind).or_insert_with(|| (Arc::clone(name), 0));
        *pods += 1;
        if name < first {
            *first = Arc::clone(name);
        }
    }
    kinds
        .into_iter()
        .take(MOST_KINDS)
        .map(|((labels, allocatable), (name, pod_count))| AttemptNode {
            requested: known.capacity.node(&name).map(|load| of_hardware(load.used)).unwrap_or_default(),
            name,
            pod_count,
            labels,
            allocatable,
        })
        .collect()
}

fn kind_of(node: &Node) -> Kind {
    let labels = node.labels.iter().filter(|(label, _)| scavenger_vocabulary::hardware::is_told_by(label));
    let labels = labels.map(|(label, value)| (Arc::clone(label), Arc::clone(value))).collect();
    (labels, of_hardware(&node.allocatable))
}

/// CPU, memory and devices of `all`.
fn of_hardware(all: &Resources) -> Resources {
    // Devices have names with a domain; scratch space, huge pages and places for pods tell nothing of the hardware.
    let tells = |name: &str| name == CPU || name == MEMORY || name.contains('/');
    let other = all.other.iter().filter(|(name, amount)| tells(name) && **amount > 0);
    let other = other.map(|(name, amount)| (Arc::clone(name), *amount)).collect();
    Resources { cpu_milli: all.cpu_milli, memory_bytes: all.memory_bytes, pods: 0, other }
}

/// Whether an attempt that is decided on now runs under the supervisor, and why; none where nobody asks.
pub(crate) fn supervision(known: &Known<'_>) -> Option<Supervised> {
    let pool = known.settings.ok()?.supervisor.as_ref();
    let wish = known.sj.spec.as_ref().ok()?.supervision;
    let because = |why: Supervision, message: String| Some(Supervised { why, message, since: known.now });
    let Some(pool) = pool else {
        let message = "the ScavengerPool names no supervisor (spec.supervisor)".to_owned();
        return (wish.enabled == Some(true)).then(|| because(Supervision::NotInPool, message)).flatten();
    };
    match wish.enabled {
        Some(false) => {
            return because(Supervision::SwitchedOff, "spec.supervisor.enabled is false".to_owned());
        }
        None if !pool.by_default => {
            let message = "spec.supervisor.default of the ScavengerPool is Off; set spec.supervisor.enabled";
            return because(Supervision::SwitchedOff, message.to_owned());
        }
        _ => {}
    }
    if !wish.has_command {
        let message = "the supervisor needs spec.command, since it cannot know the image's ENTRYPOINT";
        return because(Supervision::NoCommand, message.to_owned());
    }
    let last = known.sj.status.attempt.as_ref();
    if let Some(failed) = last.filter(|attempt| attempt.reason == Some(Reason::SupervisorNotStarted)) {
        return because(Supervision::NotStarted, failed.message.clone().unwrap_or_default());
    }
    if let Some(message) = known.no_supervisor {
        return because(Supervision::NotStarted, message.to_owned());
    }
    because(Supervision::Supervised, String::new())
}

/// True if an attempt that is decided on now runs under the supervisor.
pub(crate) fn is_supervised(known: &Known<'_>) -> bool {
    supervision(known).is_some_and(|supervised| supervised.why == Supervision::Supervised)
}

/// What is known now of the work of an attempt that has ended, and what it showed about SIGTERM; none while a pod that
/// counts may still report, or if nothing can be known.
pub(crate) fn work_of_ended(
    known: &Known<'_>,
    attempt: &Attempt,
) -> Option<(Measured, Option<ObservedSaves>)> {
    let (start, end) = (attempt.start_time?, attempt.end_time?);
    let spec = known.sj.spec.as_ref().ok()?;
    if !attempt.supervised || attempt.outcome.is_none_or(|outcome| outcome == Outcome::Withdrawn) {
        return None;
    }
    let rank = spec.supervision.rank;
    let of_attempt =
        |pod: &&std::sync::Arc<crate::values::Pod>| pod.is_of(attempt.number) && rank.counts(pod.index);
    let still_ends = known.pods.values().filter(of_attempt).any(|pod| !pod.phase.is_terminal());
    if still_ends {
        return None;
    }
    let ends: Vec<&PodEnd> = known.evidence.ends().filter(|end| rank.counts(end.index)).collect();
    let last_checkpoint = last_checkpoint(known, attempt, rank, &ends, start);
    let has_reported = |end: &&PodEnd| end.report.is_some_and(|report| report.stop != Stop::Unknown);
    let is_known = spec.supervision.names_checkpoint && !ends.is_empty() && ends.iter().all(has_reported);
    let ran = end.duration_since(start).max(SignedDuration::ZERO);
    let worked = worked(known, attempt, ran, |cpu| cpu.total);
    let lost = match (attempt.outcome, last_checkpoint) {
        (Some(Outcome::Completed), _) => Some(SignedDuration::ZERO),
        (_, Some(checkpoint)) => Some(end.duration_since(checkpoint).clamp(SignedDuration::ZERO, ran)),
        (_, None) => is_known.then_some(ran),
    };
    let lost =
        lost.map(|lost| self::worked(known, attempt, lost, |cpu| cpu.since_checkpoint).unwrap_or(lost));
    let answered_sigterm = answered(&ends);
    let measured = Measured { last_checkpoint, worked, lost, answered_sigterm, ..attempt.measured };
    let saves = observed_saves(known, attempt, &measured, &ends, ran);
    Some((measured, saves))
}

/// The part of a time that the attempt worked: what it got of the processor time that it could use, as the supervisors that
/// left a message counted it. Of a gang the pod counts that got least, for which the others wait.
fn worked(
    known: &Known<'_>,
    attempt: &Attempt,
    time: SignedDuration,
    counted: impl Fn(Cpu) -> CpuTime,
) -> Option<SignedDuration> {
    let requested = attempt.demand.per_pod.cpu_milli;
    let shares =
        known.evidence.ends().filter_map(|end| Some(counted(end.report?.cpu?).share(time, requested)));
    Some(shares.min()?.of_time(time))
}

/// What is to be added to the record of the last attempt, whose pods have ended since it was made.
pub(super) fn next_measured(known: &Known<'_>) -> Option<Next> {
    let attempt = known.sj.status.attempt.as_ref()?;
    if attempt.measured.says_something() {
        return None;
    }
    let (measured, saves) = work_of_ended(known, attempt)?;
    measured.says_something().then_some(Next::Change(Transition::Measure(measured, saves)))
}

/// The newest checkpoint that counts, within the attempt.
fn last_checkpoint(
    known: &Known<'_>,
    attempt: &Attempt,
    rank: Rank,
    ends: &[&PodEnd],
    start: Timestamp,
) -> Option<Timestamp> {
    let at_end = || ends.iter().filter_map(|end| end.report?.checkpoint);
    let all_have_one = at_end().count() >= attempt.demand.pod_count as usize;
    let at_end = match rank {
        Rank::Oldest if !all_have_one => None,
        _ => at_end().min(),
    };
    let at_end = at_end.map(|checkpoint| checkpoint.max(start));
    // What was reported while it ran, and is on record, is of this attempt if it is not from before it.
    at_end.max(known.sj.status.last_checkpoint.filter(|checkpoint| *checkpoint >= start))
}

/// Whether the pods that count wrote a checkpoint after they were told to stop: none if one was not told, or nobody saw.
fn answered(ends: &[&PodEnd]) -> Option<bool> {
    let stops = || ends.iter().map(|end| end.report.map(|report| report.stop));
    if stops().any(|stop| stop == Some(Stop::Unanswered)) {
        return Some(false);
    }
    (!ends.is_empty() && stops().all(|stop| stop == Some(Stop::Answered))).then_some(true)
}

/// What an attempt showed about a workload that promises to save when it is told to stop. One that ran for no longer than its
/// restart, that was killed before its grace period was over, or that had a checkpoint younger than its interval shows
/// nothing.
fn observed_saves(
    known: &Known<'_>,
    attempt: &Attempt,
    measured: &Measured,
    ends: &[&PodEnd],
    ran: SignedDuration,
) -> Option<ObservedSaves> {
    let spec = known.sj.spec.as_ref().ok().filter(|spec| spec.saves_on_sigterm)?;
    let number = attempt.number;
    let observed = |saves, message| Some(ObservedSaves { saves, message, since: known.now });
    match measured.answered_sigterm? {
        true if known.sj.saves_on_sigterm() => None,
        true => observed(true, format!("attempt {number} wrote a checkpoint after SIGTERM")),
        false => {
            let had_its_time = ends.iter().all(|end| end.had_its_grace);
            let end = attempt.end_time?;
            let is_old = |checkpoint| later(checkpoint, spec.checkpoint_every()) < end;
            if ran <= spec.restart || !had_its_time || !measured.last_checkpoint.is_none_or(is_old) {
                return None;
            }
            let message = format!(
                "attempt {number} got SIGTERM and wrote no checkpoint; until an attempt writes one it counts as a workload \
                 that does not save when it is stopped (spec.checkpoint.savesOnSigterm)"
            );
            if known.sj.saves_on_sigterm() { observed(false, message) } else { None }
        }
    }
}
