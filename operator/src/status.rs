//! The planner's status as the API server keeps it, and back: the one place that turns one into the other.
//!
//! A status is written as a whole (PUT with the version that was judged), so what it does not name is gone. That is what
//! becomes of fields that only a newer operator knows: this one reads the status without them, so its next write removes
//! them, and it logs nothing. They would be of no use, since this operator does not keep them up. An object that this
//! operator cannot decode at all (a phase that only a newer operator knows) is never written: reading it fails, which is
//! logged and counted as a failed action.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use scavenger_planner::values::{
    Admitted, Attempt, AttemptNode, AttemptUsage, Demand, Disruption, Figures, HISTORY, Measured, Name,
    ObservedSaves, Phase, Placement, ScavengerJobStatus, Supervised, Supervision, Waiting,
};
use scavenger_schema::{
    names,
    quantity::{format_bytes, format_milli},
    scavenger_job::{self as crd, Quantity, ScavengerJob},
};
use scavenger_specs::container_hash;
use scavenger_vocabulary::{Event, Reason, WaitingReason, condition};

use crate::pool::quantities;

/// Most bytes of arguments that are written into the status. The spec has them too, and etcd takes objects of 1.5 MiB.
const MAX_ARGS: usize = 64 << 10;

/// Most bytes of the history of attempts, for the same reason: whatever the arguments are, an attempt can be ended.
const MAX_HISTORY: usize = 256 << 10;

/// The status that replaces the one of `sj`, which has the version that was judged. An attempt that ended with this
/// write goes into the history.
pub(crate) fn replacing(
    sj: &ScavengerJob,
    new: &ScavengerJobStatus,
    ended: Option<&Attempt>,
) -> crd::ScavengerJobStatus {
    let name = sj.name_any();
    let entry = |attempt: &Attempt| to_crd_attempt(&name, attempt, RunsWith::of(sj, attempt.number));
    let history = sj.status.as_ref().map(|status| status.attempts.clone()).unwrap_or_default();
    let times = |times: &[Timestamp]| times.iter().copied().map(Time).collect();
    crd::ScavengerJobStatus {
        phase: Some(new.phase),
        observed_generation: Some(new.observed_generation),
        message: Some(new.message.clone()),
        conditions: conditions(new),
        interrupted_count: new.interrupted_count.into(),
        counted_interruptions: new.counted_interruptions.into(),
        interruptions_in_a_row: new.interruptions_in_a_row.into(),
        unknown_ends_in_a_row: new.unknown_ends_in_a_row.into(),
        out_of_memory_nodes: new.out_of_memory_nodes.iter().map(ToString::to_string).collect(),
        active_seconds: new.active_seconds,
        priority_start_over_timestamp: new.priority_start_over.map(Time),
        last_checkpoint_time: new.last_checkpoint.map(Time),
        progress: new.progress,
        usage: new.usage.as_deref().map(|usage| to_crd_usage(*usage, new.attempt.as_deref())),
        start_times: times(&new.start_times),
        interruption_times: times(&new.interruption_times),
        finish_time: new.finish_time.map(Time),
        not_before: new.not_before.map(Time),
        failed_starts: new.failed_starts.into(),
        refused_since: new.refused_since.map(Time),
        // The executor knows it.
        expected_start: None,
        started_container_hash: new.started_container.map(container_hash::text),
        attempt: new.attempt.as_deref().map(entry),
        attempts: match ended {
            Some(ended) => appended(history, entry(ended)),
            None => history,
        },
    }
}

/// What an attempt runs with, which the planner does not keep.
struct RunsWith {
    requests: BTreeMap<String, Quantity>,
    args: Vec<String>,
}

impl RunsWith {
    /// What the status has recorded of this attempt. An attempt that is not in the status yet runs with the spec.
    fn of(sj: &ScavengerJob, number: u32) -> Self {
        let recorded = sj.status.as_ref().and_then(|status| status.attempt.as_ref());
        match recorded.filter(|attempt| attempt.number == i64::from(number)) {
            Some(attempt) => Self { requests: attempt.requests.clone(), args: attempt.args.clone() },
            None => Self {
                requests: sj.spec.resources.requests.clone(),
                args: recorded_args(&sj.spec.args).to_vec(),
            },
        }
    }
}

/// The arguments as an attempt records them: all, or none if they are very long.
fn recorded_args(args: &[String]) -> &[String] {
    let bytes: usize = args.iter().map(String::len).sum();
    if bytes > MAX_ARGS { &[] } else { args }
}

fn to_crd_attempt(sj: &str, attempt: &Attempt, runs_with: RunsWith) -> crd::Attempt {
    crd::Attempt {
        number: attempt.number.into(),
        job_name: names::job(sj, attempt.number),
        job_uid: attempt.job_uid.as_deref().map(str::to_owned),
        generation: attempt.generation,
        requests: runs_with.requests,
        pod_count: i32::try_from(attempt.demand.pod_count).unwrap_or(i32::MAX),
        args: runs_with.args,
        priority_class_name: names::priority_class(attempt.priority_class),
        creation_time: Time(attempt.creation_time),
        start_time: attempt.start_time.map(Time),
        end_time: attempt.end_time.map(Time),
        disruption: attempt.disruption.as_ref().map(|disruption| crd::Disruption {
            time: Time(disruption.time),
            reason: disruption.reason.clone(),
            message: disruption.message.clone(),
            pod: disruption.pod.to_string(),
        }),
        outcome: attempt.outcome,
        reason: attempt.reason.clone(),
        message: attempt.message.clone(),
        nodes: attempt.nodes.iter().map(to_crd_node).collect(),
        supervised: attempt.supervised,
        accounting: attempt.accounting,
        node_name: attempt.node.as_deref().map(str::to_owned),
        last_checkpoint_time: attempt.measured.last_checkpoint.map(Time),
        worked_seconds: attempt.measured.worked.map(|span| span.as_secs()),
        lost_seconds: attempt.measured.lost.map(|span| span.as_secs()),
        expected_lost_seconds: attempt.measured.expected.map(|span| span.as_secs()),
        answered_sigterm: attempt.measured.answered_sigterm,
    }
}

/// The history with one more attempt, the newest [`HISTORY`]; one that is there already is replaced. Of a history that grows too long the oldest attempts lose
/// their arguments, and go if that is not enough.
fn appended(mut history: Vec<crd::Attempt>, ended: crd::Attempt) -> Vec<crd::Attempt> {
    history.retain(|attempt| attempt.number != ended.number);
    history.push(ended);
    let excess = history.len().saturating_sub(HISTORY);
    history.drain(..excess);
    shorten(&mut history);
    history
}

/// Down to [`MAX_HISTORY`]; the newest entry stays as it is.
fn shorten(history: &mut Vec<crd::Attempt>) {
    let mut excess = history.iter().map(length).sum::<usize>().saturating_sub(MAX_HISTORY);
    let older = history.len().saturating_sub(1);
    for entry in &mut history[..older] {
        if excess == 0 {
            return;
        }
        let before = length(entry);
        entry.args.clear();
        excess = excess.saturating_sub(before - length(entry));
    }
    let mut gone = 0;
    while excess > 0 && gone < older {
        excess = excess.saturating_sub(length(&history[gone]));
        gone += 1;
    }
    history.drain(..gone);
}

/// Bytes of an entry of the history as it is written.
fn length(entry: &crd::Attempt) -> usize {
    serde_json::to_vec(entry).map_or(0, |text| text.len())
}

fn conditions(status: &ScavengerJobStatus) -> Vec<Condition> {
    let entry = |kind: &str, value: bool, reason: &str, message: &str, since: Timestamp| Condition {
        type_: kind.to_owned(),
        status: if value { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(since),
        observed_generation: Some(status.observed_generation),
    };
    let mut conditions = supervision(status, entry);
    if let Some(admitted) = &status.admitted {
        conditions.push(match &admitted.waiting {
            Some(waiting) => {
                entry(condition::ADMITTED, false, waiting.reason.name(), &waiting.message, admitted.since)
            }
            None => entry(condition::ADMITTED, true, Event::Started.name(), "", admitted.since),
        });
    }
    match (status.phase, status.finish_time) {
        (Phase::Completed, Some(time)) => {
            conditions.push(entry(
                condition::COMPLETE,
                true,
                Reason::Completed.name(),
                &status.message,
                time,
            ));
        }
        (Phase::Failed, Some(time)) => {
            // Not that of the attempt, which may be an older one, interrupted for another reason.
            let reason = status.failure.as_ref().map_or(Phase::Failed.name(), Reason::name);
            conditions.push(entry(condition::FAILED, true, reason, &status.message, time));
        }
        _ => {}
    }
    conditions
}

/// Conditions Supervised, SavesOnSigterm and Starved.
fn supervision(
    status: &ScavengerJobStatus,
    entry: impl Fn(&str, bool, &str, &str, Timestamp) -> Condition,
) -> Vec<Condition> {
    let supervised = status.supervised.as_ref().map(|supervised| {
        let is_supervised = supervised.why == Supervision::Supervised;
        entry(
            condition::SUPERVISED,
            is_supervised,
            supervised.why.name(),
            &supervised.message,
            supervised.since,
        )
    });
    let saves = status.observed_saves.as_ref().map(|observed| {
        let reason = if observed.saves { "CheckpointWritten" } else { "NoCheckpoint" };
        entry(condition::SAVES_ON_SIGTERM, observed.saves, reason, &observed.message, observed.since)
    });
    let starved = status
        .starved_since
        .map(|since| entry(condition::STARVED, true, "NoProcessorTime", ScavengerJobStatus::STARVED, since));
    supervised.into_iter().chain(saves).chain(starved).collect()
}

/// The planner's status of a ScavengerJob, as the API server has it.
pub(crate) fn from_crd(status: Option<&crd::ScavengerJobStatus>) -> ScavengerJobStatus {
    let Some(status) = status else { return ScavengerJobStatus::default() };
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let admitted = condition(condition::ADMITTED).map(|condition| Admitted {
        waiting: (condition.status == "False").then(|| Waiting {
            reason: WaitingReason::from_name(&condition.reason).unwrap_or(WaitingReason::BackingOff),
            message: condition.message.clone(),
        }),
        since: condition.last_transition_time.0,
    });
    let times = |times: &[Time]| times.iter().map(|time| time.0).collect();
    ScavengerJobStatus {
        written: status.phase.is_some(),
        phase: status.phase.unwrap_or_default(),
        observed_generation: status.observed_generation.unwrap_or(0),
        message: status.message.clone().unwrap_or_default(),
        admitted,
        interrupted_count: clamped(status.interrupted_count),
        counted_interruptions: clamped(status.counted_interruptions),
        interruptions_in_a_row: clamped(status.interruptions_in_a_row),
        unknown_ends_in_a_row: clamped(status.unknown_ends_in_a_row),
        out_of_memory_nodes: status.out_of_memory_nodes.iter().map(|node| node.as_str().into()).collect(),
        active_seconds: status.active_seconds.max(0),
        priority_start_over: status.priority_start_over_timestamp.as_ref().map(|time| time.0),
        last_checkpoint: status.last_checkpoint_time.as_ref().map(|time| time.0),
        progress: status.progress,
        usage: status.usage.as_ref().map(|read| usage(read).into()),
        supervised: condition(condition::SUPERVISED).and_then(|condition| {
            Some(Supervised {
                why: Supervision::from_name(&condition.reason)?,
                message: condition.message.clone(),
                since: condition.last_transition_time.0,
            })
        }),
        observed_saves: condition(condition::SAVES_ON_SIGTERM).map(|condition| ObservedSaves {
            saves: condition.status == "True",
            message: condition.message.clone(),
            since: condition.last_transition_time.0,
        }),
        starved_since: condition(condition::STARVED)
            .filter(|condition| condition.status == "True")
            .map(|condition| condition.last_transition_time.0),
        cpu_share: None,
        start_times: times(&status.start_times),
        interruption_times: times(&status.interruption_times),
        failure: condition(condition::FAILED)
            .filter(|condition| condition.status == "True")
            .map(|condition| Reason::from_name(&condition.reason)),
        finish_time: status.finish_time.as_ref().map(|time| time.0),
        not_before: status.not_before.as_ref().map(|time| time.0),
        failed_starts: clamped(status.failed_starts),
        refused_since: status.refused_since.as_ref().map(|time| time.0),
        started_container: status.started_container_hash.as_deref().and_then(container_hash::parse),
        attempt: status.attempt.as_ref().map(|ended| Box::new(attempt(ended))),
    }
}

/// Memory in whole MiB, since bytes can be read by nobody.
fn to_crd_usage(usage: AttemptUsage, attempt: Option<&Attempt>) -> crd::Usage {
    let cpu = |milli: i64| Quantity(format_milli(milli));
    let memory = |bytes: i64| Quantity(format_bytes(bytes.saturating_add((1 << 20) - 1) >> 20 << 20));
    crd::Usage {
        attempt: usage.attempt.into(),
        measured_seconds: usage.measured.as_secs(),
        cpu_mean: cpu(usage.cpu.mean),
        cpu_peak: cpu(usage.cpu.peak),
        memory_mean: memory(usage.memory.mean),
        memory_peak: memory(usage.memory.peak),
        message: attempt.and_then(|attempt| usage.advice(attempt)),
    }
}

/// Written by the operator; an amount that cannot be read counts as none.
fn usage(usage: &crd::Usage) -> AttemptUsage {
    let figures = |mean: i64, peak: i64| Figures { mean: mean.max(0), peak: peak.max(0) };
    AttemptUsage {
        attempt: clamped(usage.attempt),
        measured: SignedDuration::from_secs(usage.measured_seconds.max(0)),
        cpu: figures(usage.cpu_mean.milli().unwrap_or(0), usage.cpu_peak.milli().unwrap_or(0)),
        memory: figures(usage.memory_mean.units().unwrap_or(0), usage.memory_peak.units().unwrap_or(0)),
    }
}

fn clamped(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// An attempt as the planner sees it.
pub(crate) fn attempt(attempt: &crd::Attempt) -> Attempt {
    // Written by the operator from a spec that was checked; an amount that cannot be read counts as none.
    let mut per_pod = scavenger_specs::resources("requests", &attempt.requests).unwrap_or_default();
    per_pod.pods = 1;
    let class = attempt.priority_class_name.rsplit('-').next().and_then(|number| number.parse().ok());
    Attempt {
        number: clamped(attempt.number),
        job_uid: attempt.job_uid.as_deref().map(Name::from),
        generation: attempt.generation,
        demand: Demand {
            per_pod,
            pod_count: clamped(i64::from(attempt.pod_count)),
            placement: Placement::default(),
        }
        .into(),
        priority_class: class.unwrap_or(0),
        creation_time: attempt.creation_time.0,
        start_time: attempt.start_time.as_ref().map(|time| time.0),
        end_time: attempt.end_time.as_ref().map(|time| time.0),
        disruption: attempt.disruption.as_ref().map(|disruption| Disruption {
            time: disruption.time.0,
            reason: disruption.reason.clone(),
            message: disruption.message.clone(),
            pod: disruption.pod.as_str().into(),
        }),
        outcome: attempt.outcome,
        reason: attempt.reason.clone(),
        message: attempt.message.clone(),
        supervised: attempt.supervised,
        accounting: attempt.accounting,
        node: attempt.node_name.as_deref().map(Name::from),
        measured: Measured {
            last_checkpoint: attempt.last_checkpoint_time.as_ref().map(|time| time.0),
            worked: attempt.worked_seconds.map(SignedDuration::from_secs),
            lost: attempt.lost_seconds.map(SignedDuration::from_secs),
            expected: attempt.expected_lost_seconds.map(SignedDuration::from_secs),
            answered_sigterm: attempt.answered_sigterm,
        },
        nodes: attempt.nodes.iter().map(node).collect(),
    }
}

fn to_crd_node(node: &AttemptNode) -> crd::AttemptNode {
    let texts = node.labels.iter().map(|(label, value)| (label.to_string(), value.to_string()));
    let some = |resources: &scavenger_planner::resources::Resources| {
        let mut some = quantities(resources);
        some.retain(|name, _| resources.get(name) > 0);
        some
    };
    crd::AttemptNode {
        name: node.name.to_string(),
        pod_count: i32::try_from(node.pod_count).unwrap_or(i32::MAX),
        labels: texts.collect(),
        allocatable: some(&node.allocatable),
        requested: some(&node.requested),
    }
}

fn node(node: &crd::AttemptNode) -> AttemptNode {
    let names = node.labels.iter().map(|(label, value)| (label.as_str().into(), value.as_str().into()));
    AttemptNode {
        name: node.name.as_str().into(),
        pod_count: clamped(i64::from(node.pod_count)),
        labels: names.collect(),
        allocatable: scavenger_specs::resources("allocatable", &node.allocatable).unwrap_or_default(),
        requested: scavenger_specs::resources("requested", &node.requested).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use scavenger_planner::{
        resources::Resources,
        values::{Accounting, Outcome},
    };
    use serde_json::json;

    use super::*;

    /// A ScavengerJob with such a spec and status.
    fn sj(args: &[String], status: Option<crd::ScavengerJobStatus>) -> ScavengerJob {
        let spec = json!({
            "image": "counter", "args": args, "interruptionAfter": "10m",
            "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } },
        });
        let mut sj = ScavengerJob::new("job", serde_json::from_value(spec).unwrap());
        sj.status = status;
        sj
    }

    /// An attempt as the history keeps it.
    fn entry(number: i64, args: &[String], message: &str) -> crd::Attempt {
        serde_json::from_value(json!({
            "number": number, "jobName": format!("job-{number}"), "generation": 1, "podCount": 1,
            "requests": { "cpu": "2", "nvidia.com/gpu": "1" }, "args": args, "outcome": "Interrupted",
            "priorityClassName": "scavenger-0", "creationTime": "2026-01-01T00:00:00Z", "message": message,
        }))
        .unwrap()
    }

    fn demand(cpu_milli: i64) -> Arc<Demand> {
        let per_pod = Resources { cpu_milli, memory_bytes: 1 << 30, pods: 1, ..Resources::default() };
        Demand { per_pod, pod_count: 1, placement: Placement::default() }.into()
    }

    #[test]
    fn an_attempt_keeps_what_it_runs_with_and_the_next_one_runs_with_the_spec() {
        let old = ["old".to_owned()];
        let new = ["new".to_owned()];
        let last = entry(1, &old, "it runs");
        let stored = crd::ScavengerJobStatus { attempt: Some(last.clone()), ..Default::default() };
        let sj = sj(&new, Some(stored));
        let first = Attempt::first(demand(500), Timestamp::UNIX_EPOCH);
        let of = |attempt: &Attempt| {
            let status = ScavengerJobStatus {
                attempt: Some(Box::new(attempt.clone())),
                ..ScavengerJobStatus::default()
            };
            replacing(&sj, &status, None).attempt.unwrap()
        };
        assert_eq!((of(&first).requests, of(&first).args), (last.requests.clone(), old.to_vec()));
        let second = Attempt { number: 2, ..first.clone() };
        // A map is replaced: nothing is left of the GPU.
        assert_eq!(of(&second).requests, sj.spec.resources.requests);
        assert_eq!(of(&second).args, new);

        let ended = Attempt { outcome: Some(Outcome::Interrupted), ..first };
        let history = replacing(&sj, &ScavengerJobStatus::default(), Some(&ended)).attempts;
        assert_eq!(history.len(), 1);
        assert_eq!((&history[0].requests, &history[0].args), (&last.requests, &old.to_vec()));
        assert_eq!(history[0].outcome, Some(Outcome::Interrupted));
    }

    #[test]
    fn a_write_that_ends_nothing_keeps_the_history_and_the_newest_fifty_are_kept() {
        let history: Vec<_> = (1..=50).map(|number| entry(number, &[], "")).collect();
        let stored = crd::ScavengerJobStatus { attempts: history.clone(), ..Default::default() };
        let sj = sj(&[], Some(stored));
        assert_eq!(replacing(&sj, &ScavengerJobStatus::default(), None).attempts, history);
        let ended = Attempt { number: 51, ..Attempt::first(demand(500), Timestamp::UNIX_EPOCH) };
        let longer = replacing(&sj, &ScavengerJobStatus::default(), Some(&ended)).attempts;
        assert_eq!((longer.len(), longer[0].number, longer[49].number), (50, 2, 51));
    }

    #[test]
    fn what_became_empty_is_gone() {
        let at = Some(Timestamp::UNIX_EPOCH);
        let full = ScavengerJobStatus { not_before: at, finish_time: at, ..Default::default() };
        let sj = sj(&[], Some(replacing(&sj(&[], None), &full, None)));
        assert!(sj.status.as_ref().unwrap().not_before.is_some());
        let written = serde_json::to_value(replacing(&sj, &ScavengerJobStatus::default(), None)).unwrap();
        let named: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(!named.contains(&"notBefore") && !named.contains(&"finishTime"), "{named:?}");
        assert!(written.as_object().unwrap().values().all(|value| !value.is_null()), "{written}");
    }

    #[test]
    fn whatever_the_arguments_are_the_history_stays_short_enough_to_be_written() {
        let args = ["-c".to_owned(), "x".repeat(32 << 10)];
        let grown = |message: usize| {
            (1..=200).fold(Vec::new(), |history, number| {
                appended(history, entry(number, &args, &"m".repeat(message)))
            })
        };
        let bytes = |history: &[crd::Attempt]| history.iter().map(length).sum::<usize>();
        let history = grown(10);
        assert_eq!((history.len(), history[0].number), (50, 151), "what became of them is kept");
        let with_args = history.iter().filter(|entry| entry.args == args).count();
        assert_eq!(with_args, 7, "the newest, as many as fit into 256 KiB");
        assert!(!history[49].args.is_empty());
        assert!(bytes(&history) <= MAX_HISTORY, "{}", bytes(&history));

        let history = grown(10 << 10);
        assert!(bytes(&history) <= MAX_HISTORY, "{}", bytes(&history));
        assert!(history.len() > 15, "{}", history.len());
        assert_eq!(history.last().unwrap(), &entry(200, &args, &"m".repeat(10 << 10)));
    }

    #[test]
    fn arguments_are_recorded_unless_they_are_very_long() {
        let args = vec!["-c".to_owned(), "x".repeat(60_000)];
        assert_eq!(recorded_args(&args), args);
        assert!(recorded_args(&[args.clone(), args].concat()).is_empty());
    }

    /// What the API server has after a status was written.
    fn stored(status: &ScavengerJobStatus) -> crd::ScavengerJobStatus {
        let written = replacing(&sj(&[], None), status, None);
        serde_json::from_value(serde_json::to_value(written).unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(from_crd(None), ScavengerJobStatus::default());
        let first = ScavengerJobStatus { written: true, ..ScavengerJobStatus::default() };
        assert_eq!(from_crd(Some(&stored(&first))), first);

        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let per_pod = Resources { cpu_milli: 500, memory_bytes: 1 << 30, pods: 1, ..Resources::default() };
        let attempt = Attempt {
            number: 3,
            job_uid: Some("child".into()),
            generation: 2,
            priority_class: 4,
            start_time: Some(at(20)),
            end_time: Some(at(30)),
            disruption: Some(Disruption {
                time: at(29),
                reason: Reason::Other("Foreign".into()),
                message: "because".to_owned(),
                pod: "job-3-0".into(),
            }),
            outcome: Some(Outcome::Interrupted),
            reason: Some(Reason::EvictionByEvictionAPI),
            message: Some("evicted (pod job-3-0)".to_owned()),
            supervised: true,
            accounting: Accounting::Usage,
            node: Some("n1".into()),
            measured: Measured {
                last_checkpoint: Some(at(26)),
                worked: Some(SignedDuration::from_secs(50)),
                lost: Some(SignedDuration::from_secs(4)),
                expected: Some(SignedDuration::from_secs(20)),
                answered_sigterm: Some(false),
            },
            nodes: vec![AttemptNode {
                name: "worker-1".into(),
                pod_count: 2,
                labels: [("kubernetes.io/arch".into(), "amd64".into())].into(),
                allocatable: Resources {
                    cpu_milli: 7900,
                    memory_bytes: 61 << 30,
                    other: [("nvidia.com/gpu".into(), 1)].into(),
                    ..Resources::default()
                },
                requested: Resources { cpu_milli: 3000, memory_bytes: 8 << 30, ..Resources::default() },
            }],
            ..Attempt::first(Demand { per_pod, pod_count: 2, placement: Placement::default() }.into(), at(10))
        };
        let waiting = Waiting { reason: WaitingReason::NoCapacity, message: "it waits".to_owned() };
        let full = ScavengerJobStatus {
            written: true,
            phase: Phase::Interrupted,
            observed_generation: 2,
            message: "it waits".to_owned(),
            admitted: Some(Admitted { waiting: Some(waiting), since: at(31) }),
            interrupted_count: 7,
            counted_interruptions: 4,
            interruptions_in_a_row: 2,
            unknown_ends_in_a_row: 1,
            out_of_memory_nodes: vec!["n7".into()],
            active_seconds: 600,
            priority_start_over: Some(at(25)),
            last_checkpoint: Some(at(26)),
            progress: Some(0.25),
            usage: Some(
                AttemptUsage {
                    attempt: 3,
                    measured: SignedDuration::from_secs(75),
                    cpu: Figures { mean: 700, peak: 1900 },
                    memory: Figures { mean: 100 << 20, peak: 3 << 30 },
                }
                .into(),
            ),
            supervised: Some(Supervised {
                why: Supervision::NoCommand,
                message: "no command".to_owned(),
                since: at(10),
            }),
            observed_saves: Some(ObservedSaves {
                saves: false,
                message: "attempt 2 wrote none".to_owned(),
                since: at(9),
            }),
            starved_since: Some(at(24)),
            cpu_share: None,
            start_times: vec![at(1), at(20)],
            interruption_times: vec![at(2), at(30)],
            failure: None,
            finish_time: None,
            not_before: Some(at(40)),
            failed_starts: 5,
            refused_since: Some(at(35)),
            started_container: Some(0xfedc_ba98_7654_3210),
            attempt: Some(Box::new(attempt)),
        };
        assert_eq!(from_crd(Some(&stored(&full))), full);

        let started = Some(Admitted { waiting: None, since: at(31) });
        let running = ScavengerJobStatus { phase: Phase::Running, admitted: started, ..full.clone() };
        assert_eq!(from_crd(Some(&stored(&running))), running);
        for reason in Reason::ALL {
            let failed = ScavengerJobStatus {
                phase: Phase::Failed,
                // The condition has a reason of its own, whatever the message begins with.
                message: format!("it failed: {reason}"),
                admitted: None,
                failure: Some(reason),
                finish_time: Some(at(50)),
                ..full.clone()
            };
            assert_eq!(from_crd(Some(&stored(&failed))), failed);
        }
    }
}
