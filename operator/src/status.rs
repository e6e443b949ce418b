//! The planner's status as the merge patch that writes it. Fields that became empty are written as null, since a merge
//! patch leaves out what it does not name; the pods' requests and arguments are written once, when an attempt is made.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use scavenger_planner::snapshot::{Attempt, Disruption, HISTORY, JobStatus, Phase};
use scavenger_schema::names;
use scavenger_vocabulary::{Event, Reason, condition};
use serde_json::{Value, json};

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
}
