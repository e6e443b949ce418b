//! What the submitter sees of a ScavengerJob and of the pool, as plain values. Read once, at the border.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use scavenger_schema::quantity;
use scavenger_schema::reasons::condition;
use scavenger_schema::scavenger_job::{Attempt, Outcome, Phase, ScavengerJob};
use scavenger_schema::scavenger_pool::ScavengerPool;
use scavenger_schema::simulation::{
    AttemptOutcome, GromacsToTune, LABEL_MANAGED_BY, LABEL_QUEUE, LABEL_ROW, LadderRung,
};
use scavenger_schema::{names, tuning};

use crate::manifest::rung_of;

/// A ScavengerJob as far as a row needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// UID.
    pub uid: String,
    /// Version that a replacement must name.
    pub resource_version: String,
    /// True if it was made for this row of this queue.
    pub ours: bool,
    /// True while it is being deleted.
    pub deleting: bool,
    /// Where it is; Waiting until the operator has said anything.
    pub phase: Phase,
    /// True if the status speaks of the spec that is there now, not of the one before.
    pub judged: bool,
    /// Why it waits.
    pub waiting_reason: Option<String>,
    /// Why it failed, one word.
    pub failure_reason: Option<String>,
    /// The operator's sentence.
    pub message: Option<String>,
    /// The configuration that its spec asks for.
    pub rung: Option<i32>,
    /// True if it ever ran.
    pub has_run: bool,
    /// When it ended.
    pub finish_time: Option<Timestamp>,
    /// Its attempts in ascending order, the active one included.
    pub attempts: Vec<AttemptView>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptView {
    /// Number, counted from 1.
    pub number: i32,
    /// Configuration it runs with; none if it is none of the ladder's.
    pub rung: Option<i32>,
    /// CPU, millicores.
    pub cpu_millicores: Option<i32>,
    /// Memory, bytes.
    pub memory_bytes: Option<i64>,
    /// GPUs.
    pub gpus: Option<i32>,
    /// Arguments.
    pub args: Vec<String>,
    /// When it was decided.
    pub creation_time: Timestamp,
    /// When it ran.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How.
    pub outcome: Option<AttemptOutcome>,
    /// Why, one word.
    pub reason: Option<String>,
    /// Why, one sentence, with the container's last words.
    pub message: Option<String>,
}

impl JobView {
    /// Reads a ScavengerJob of `row` in the queue `queue_id`.
    #[must_use]
    pub fn new(job: &ScavengerJob, row: &GromacsToTune, ladder: &[LadderRung], queue_id: &str) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let labels = job.labels();
        let is = |label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
        let reason_of = |kind: &str, value: &str| {
            status
                .conditions
                .iter()
                .find(|found| found.type_ == kind && found.status == value)
                .map(|found| found.reason.clone())
        };
        let mut attempts: Vec<AttemptView> = status
            .attempts
            .iter()
            .chain(status.attempt.as_ref())
            .map(|attempt| AttemptView::new(attempt, row, ladder))
            .collect();
        // The last attempt may stand in both places; the later one, the active, is dropped.
        attempts.sort_by_key(|attempt| (attempt.number, attempt.outcome.is_none()));
        attempts.dedup_by_key(|attempt| attempt.number);
        Self {
            uid: job.uid().unwrap_or_default(),
            resource_version: job.resource_version().unwrap_or_default(),
            ours: is(LABEL_MANAGED_BY, names::SUBMITTER)
                && is(LABEL_ROW, &row.id.to_string())
                && is(LABEL_QUEUE, queue_id),
            deleting: job.metadata.deletion_timestamp.is_some(),
            phase: status.phase.unwrap_or(Phase::Waiting),
            judged: status.observed_generation.is_some()
                && status.observed_generation == job.metadata.generation,
            waiting_reason: reason_of(condition::ADMITTED, "False"),
            failure_reason: reason_of(condition::FAILED, "True"),
            message: status.message.clone().filter(|message| !message.is_empty()),
            rung: rung_of(row, ladder, &job.spec.resources.requests, &job.spec.args),
            has_run: status.interrupted_count > 0 || !status.start_times.is_empty(),
            finish_time: status.finish_time.as_ref().map(|time| time.0),
            attempts,
        }
    }

    /// The last attempt.
    #[must_use]
    pub fn last_attempt(&self) -> Option<&AttemptView> {
        self.attempts.last()
    }

    /// True if a replacement of its spec is allowed.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Interrupted)
    }
}

impl AttemptView {
    fn new(attempt: &Attempt, row: &GromacsToTune, ladder: &[LadderRung]) -> Self {
        let request = |name: &str| attempt.requests.get(name);
        Self {
            number: i32::try_from(attempt.number).unwrap_or(i32::MAX),
            rung: rung_of(row, ladder, &attempt.requests, &attempt.args),
            cpu_millicores: request("cpu").and_then(|cpu| cpu.milli().ok()?.try_into().ok()),
            memory_bytes: request("memory").and_then(|memory| memory.units().ok()),
            gpus: request("nvidia.com/gpu").map_or(Some(0), |gpus| gpus.units().ok()?.try_into().ok()),
            args: attempt.args.clone(),
            creation_time: attempt.creation_time.0,
            start_time: attempt.start_time.as_ref().map(|time| time.0),
            end_time: attempt.end_time.as_ref().map(|time| time.0),
            outcome: attempt.outcome.map(|outcome| match outcome {
                Outcome::Completed => AttemptOutcome::Completed,
                Outcome::Failed => AttemptOutcome::Failed,
                Outcome::Interrupted => AttemptOutcome::Interrupted,
                Outcome::Withdrawn => AttemptOutcome::Withdrawn,
            }),
            reason: attempt.reason.clone(),
            message: attempt.message.clone().filter(|message| !message.is_empty()),
        }
    }
}

/// The pool as far as a row needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolView {
    /// How long an attempt may stay unscheduled.
    pub pending_timeout: Duration,
    /// Nodes for the tuner.
    pub nodes: Vec<tuning::NodeShape>,
}

impl PoolView {
    /// Reads the pool; shapes that can not be read, or that have no room for any pod, are left out.
    #[must_use]
    pub fn new(pool: &ScavengerPool) -> Self {
        let shapes = pool.status.as_ref().map(|status| status.node_shapes.as_slice()).unwrap_or_default();
        Self {
            pending_timeout: pool.spec.pending_timeout.into(),
            nodes: shapes
                .iter()
                .filter_map(|shape| {
                    Some(tuning::NodeShape {
                        count: u32::try_from(shape.count).ok().filter(|count| *count > 0)?,
                        allocatable: resources(&shape.allocatable)
                            .filter(|room| room.cpu_millicores > 0 && room.memory_bytes > 0)?,
                        largest_free: resources(&shape.largest_free),
                        labels: shape.labels.clone(),
                    })
                })
                .collect(),
        }
    }
}

fn resources(
    list: &std::collections::BTreeMap<String, scavenger_schema::scavenger_job::Quantity>,
) -> Option<tuning::Resources> {
    Some(tuning::Resources {
        cpu_millicores: quantity::parse_milli(&list.get("cpu")?.0).ok()?.try_into().ok()?,
        memory_bytes: quantity::parse_units(&list.get("memory")?.0).ok()?.try_into().ok()?,
        gpus: list
            .get("nvidia.com/gpu")
            .and_then(|gpus| quantity::parse_units(&gpus.0).ok()?.try_into().ok())
            .unwrap_or(0),
    })
}
