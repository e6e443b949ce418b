//! The planner's status as the merge patch that writes it, and back from what the API server has.
//!
//! Fields that became empty are written as null, since a merge patch leaves out what it does not name; the pods' requests
//! and arguments are written once, when an attempt is made.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use scavenger_planner::snapshot::{
    Admitted, Attempt, Demand, Disruption, HISTORY, JobStatus, Name, Phase, Placement, Waiting,
};
use scavenger_schema::{names, scavenger_job as crd};
use scavenger_vocabulary::{Event, Reason, WaitingReason, condition};
use serde_json::{Value, json};

use crate::validate;

/// Most bytes of arguments that are written into the status. The spec has them too, and etcd takes objects of 1.5 MiB.
const MAX_ARGS: usize = 64 << 10;

/// Most bytes of the history of attempts, for the same reason: whatever the arguments are, an attempt can be ended.
const MAX_HISTORY: usize = 256 << 10;

/// The arguments as an attempt records them: all, or none if they are very long.
pub(crate) fn recorded_args(args: &[String]) -> Value {
    let bytes: usize = args.iter().map(String::len).sum();
    if bytes > MAX_ARGS { json!([]) } else { json!(args) }
}

/// Names what a map in a merge patch no longer has, as null: maps are merged key by key, and what is not named stays.
pub(crate) fn name_removed(new: &mut Value, old: &Value) {
    for key in old.as_object().into_iter().flat_map(|map| map.keys()) {
        if new.get(key).is_none() {
            new[key] = Value::Null;
        }
    }
}

/// The whole status except the history of attempts.
pub(crate) fn to_json(job: &str, status: &JobStatus) -> Value {
    json!({
        "phase": status.phase,
        "observedGeneration": status.observed_generation,
        "message": status.message,
        "conditions": conditions(status),
        "interruptedCount": status.interrupted_count,
        "countedInterruptions": status.counted_interruptions,
        "interruptionsInARow": status.interruptions_in_a_row,
        "unknownEndsInARow": status.unknown_ends_in_a_row,
        "activeSeconds": status.active_seconds,
        "runningPriority": status.running_priority,
        "priorityStartOverTimestamp": status.priority_start_over.map(Time),
        "lastCheckpointTime": status.last_checkpoint.map(Time),
        "startTimes": status.start_times.iter().copied().map(Time).collect::<Vec<_>>(),
        "interruptionTimes": status.interruption_times.iter().copied().map(Time).collect::<Vec<_>>(),
        "finishTime": status.finish_time.map(Time),
        "notBefore": status.not_before.map(Time),
        "failedStarts": status.failed_starts,
        "attempt": status.attempt.as_ref().map(|attempt| attempt_json(job, attempt)),
    })
}

/// One attempt, without what it runs with.
pub(crate) fn attempt_json(job: &str, attempt: &Attempt) -> Value {
    json!({
        "number": attempt.number,
        "jobName": names::child_job(job, attempt.number),
        "jobUid": attempt.child_uid,
        "generation": attempt.generation,
        "podCount": attempt.demand.pod_count,
        "priorityClassName": names::priority_class(attempt.priority_class),
        "creationTime": Time(attempt.creation_time),
        "startTime": attempt.start_time.map(Time),
        "endTime": attempt.end_time.map(Time),
        "disruption": attempt.disruption.as_ref().map(disruption_json),
        "outcome": attempt.outcome,
        "reason": attempt.reason,
        "message": attempt.message,
    })
}

fn disruption_json(disruption: &Disruption) -> Value {
    json!({
        "time": Time(disruption.time),
        "reason": disruption.reason,
        "message": disruption.message,
        "pod": disruption.pod,
    })
}

/// The history with one more attempt, the newest [`HISTORY`]. `active` is the attempt as the API server has it, with what it
/// ran with. Of a history that grows too long the oldest lose their arguments, and go if that is not enough.
pub(crate) fn appended(mut history: Vec<Value>, active: Option<Value>, ended: Value) -> Vec<Value> {
    let mut entry = active.unwrap_or_else(|| json!({}));
    if let (Some(entry), Value::Object(ended)) = (entry.as_object_mut(), ended) {
        for (field, value) in ended {
            if value.is_null() {
                entry.remove(&field);
            } else {
                entry.insert(field, value);
            }
        }
    }
    history.push(entry);
    let excess = history.len().saturating_sub(HISTORY);
    history.drain(..excess);
    shorten(&mut history);
    history
}

/// Down to [`MAX_HISTORY`]; the newest entry stays as it is.
fn shorten(history: &mut Vec<Value>) {
    let length = |entry: &Value| entry.to_string().len();
    let mut excess = history.iter().map(length).sum::<usize>().saturating_sub(MAX_HISTORY);
    let older = history.len().saturating_sub(1);
    for entry in &mut history[..older] {
        if excess == 0 {
            return;
        }
        let before = length(entry);
        if entry.as_object_mut().is_some_and(|entry| entry.remove("args").is_some()) {
            excess = excess.saturating_sub(before - length(entry));
        }
    }
    let mut gone = 0;
    while excess > 0 && gone < older {
        excess = excess.saturating_sub(length(&history[gone]));
        gone += 1;
    }
    history.drain(..gone);
}

fn conditions(status: &JobStatus) -> Vec<Value> {
    let entry = |kind: &str, value: bool, reason: &str, message: &str, since: Timestamp| {
        json!({
            "type": kind,
            "status": if value { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastTransitionTime": Time(since),
            "observedGeneration": status.observed_generation,
        })
    };
    let mut conditions = Vec::new();
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

/// The planner's status of a ScavengerJob, as the API server has it.
pub(crate) fn from_crd(status: Option<&crd::ScavengerJobStatus>) -> JobStatus {
    let Some(status) = status else { return JobStatus::default() };
    let condition = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    let admitted = condition(condition::ADMITTED).map(|condition| Admitted {
        waiting: (condition.status == "False").then(|| Waiting {
            reason: WaitingReason::from_name(&condition.reason).unwrap_or(WaitingReason::BackingOff),
            message: condition.message.clone(),
        }),
        since: condition.last_transition_time.0,
    });
    let times = |times: &[Time]| times.iter().map(|time| time.0).collect();
    JobStatus {
        written: status.phase.is_some(),
        phase: status.phase.unwrap_or_default(),
        observed_generation: status.observed_generation.unwrap_or(0),
        message: status.message.clone().unwrap_or_default(),
        admitted,
        interrupted_count: clamped(status.interrupted_count),
        counted_interruptions: clamped(status.counted_interruptions),
        interruptions_in_a_row: clamped(status.interruptions_in_a_row),
        unknown_ends_in_a_row: clamped(status.unknown_ends_in_a_row),
        active_seconds: status.active_seconds.max(0),
        running_priority: status.running_priority,
        priority_start_over: status.priority_start_over_timestamp.as_ref().map(|time| time.0),
        last_checkpoint: status.last_checkpoint_time.as_ref().map(|time| time.0),
        start_times: times(&status.start_times),
        interruption_times: times(&status.interruption_times),
        failure: condition(condition::FAILED)
            .filter(|condition| condition.status == "True")
            .map(|condition| Reason::from_name(&condition.reason)),
        finish_time: status.finish_time.as_ref().map(|time| time.0),
        not_before: status.not_before.as_ref().map(|time| time.0),
        failed_starts: clamped(status.failed_starts),
        attempt: status.attempt.as_ref().map(|ended| Box::new(attempt(ended))),
    }
}

fn clamped(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn attempt(attempt: &crd::Attempt) -> Attempt {
    // Written by the operator from a spec that was checked; an amount that cannot be read counts as none.
    let mut per_pod = validate::resources("requests", &attempt.requests).unwrap_or_default();
    per_pod.pods = 1;
    let class = attempt.priority_class_name.rsplit('-').next().and_then(|number| number.parse().ok());
    Attempt {
        number: clamped(attempt.number),
        child_uid: attempt.job_uid.as_deref().map(Name::from),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_map_lost_is_named() {
        let mut new = json!({ "cpu": "1" });
        name_removed(&mut new, &json!({ "cpu": "2", "nvidia.com/gpu": "1" }));
        assert_eq!(new, json!({ "cpu": "1", "nvidia.com/gpu": null }));
        let mut absent = Value::Null;
        name_removed(&mut absent, &Value::Null);
        assert_eq!(absent, Value::Null);
    }

    #[test]
    fn the_history_keeps_what_an_attempt_ran_with_and_the_newest_fifty() {
        let history = (1..=50).map(|number| json!({ "number": number })).collect();
        let active = json!({ "number": 51, "args": ["a"], "disruption": null, "outcome": "Failed" });
        let ended = json!({ "number": 51, "outcome": "Interrupted", "message": null });
        let history = appended(history, Some(active), ended);
        assert_eq!(history.len(), 50);
        assert_eq!(history[0]["number"], 2);
        assert_eq!(
            history[49],
            json!({ "number": 51, "args": ["a"], "disruption": null, "outcome": "Interrupted" })
        );
    }

    #[test]
    fn whatever_the_arguments_are_the_history_stays_short_enough_to_be_written() {
        let script = "x".repeat(32 << 10);
        let entry = |number: u32, message: usize| {
            let message = "m".repeat(message);
            json!({ "number": number, "args": ["-c", script], "outcome": "Interrupted", "message": message })
        };
        let grown = |message: usize| {
            (1..=200).fold(Vec::new(), |history, number| {
                appended(history, Some(entry(number, message)), json!({}))
            })
        };
        let bytes = |history: &[Value]| history.iter().map(|entry| entry.to_string().len()).sum::<usize>();
        let history = grown(10);
        assert_eq!(
            (history.len(), history[0]["number"].as_u64()),
            (50, Some(151)),
            "what became of them is kept"
        );
        let with_args = history.iter().filter(|entry| entry["args"][1] == script.as_str()).count();
        assert_eq!(with_args, 7, "the newest, as many as fit into 256 KiB");
        assert!(history[49]["args"].is_array());
        assert!(bytes(&history) <= MAX_HISTORY, "{}", bytes(&history));

        let history = grown(10 << 10);
        assert!(bytes(&history) <= MAX_HISTORY, "{}", bytes(&history));
        assert!(history.len() > 15, "{}", history.len());
        assert_eq!(history.last().unwrap(), &entry(200, 10 << 10));
    }

    #[test]
    fn arguments_are_recorded_unless_they_are_very_long() {
        let args = vec!["-c".to_owned(), "x".repeat(60_000)];
        assert_eq!(recorded_args(&args), json!(args));
        assert_eq!(recorded_args(&[args.clone(), args].concat()), json!([]));
    }

    /// What the API server has after a status was written, and with it the requests of the attempt.
    fn stored(status: &JobStatus) -> crd::ScavengerJobStatus {
        let mut written = to_json("job", status);
        if status.attempt.is_some() {
            written["attempt"]["requests"] = json!({ "cpu": "500m", "memory": "1Gi" });
        }
        serde_json::from_value(written).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back() {
        use scavenger_planner::{resources::Resources, snapshot::Outcome};

        assert_eq!(from_crd(None), JobStatus::default());
        let first = JobStatus { written: true, ..JobStatus::default() };
        assert_eq!(from_crd(Some(&stored(&first))), first);

        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let per_pod = Resources { cpu_milli: 500, memory_bytes: 1 << 30, pods: 1, ..Resources::default() };
        let attempt = Attempt {
            number: 3,
            child_uid: Some("child".into()),
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
            ..Attempt::first(Demand { per_pod, pod_count: 2, placement: Placement::default() }.into(), at(10))
        };
        let waiting = Waiting { reason: WaitingReason::NoRoom, message: "it waits".to_owned() };
        let full = JobStatus {
            written: true,
            phase: Phase::Interrupted,
            observed_generation: 2,
            message: "it waits".to_owned(),
            admitted: Some(Admitted { waiting: Some(waiting), since: at(31) }),
            interrupted_count: 7,
            counted_interruptions: 4,
            interruptions_in_a_row: 2,
            unknown_ends_in_a_row: 1,
            active_seconds: 600,
            running_priority: Some(3),
            priority_start_over: Some(at(25)),
            last_checkpoint: Some(at(26)),
            start_times: vec![at(1), at(20)],
            interruption_times: vec![at(2), at(30)],
            failure: None,
            finish_time: None,
            not_before: Some(at(40)),
            failed_starts: 5,
            attempt: Some(Box::new(attempt)),
        };
        assert_eq!(from_crd(Some(&stored(&full))), full);

        let started = Some(Admitted { waiting: None, since: at(31) });
        let running = JobStatus { phase: Phase::Running, admitted: started, ..full.clone() };
        assert_eq!(from_crd(Some(&stored(&running))), running);
        for reason in Reason::ALL {
            let failed = JobStatus {
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
