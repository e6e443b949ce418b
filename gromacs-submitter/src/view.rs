//! What the submitter sees of a ScavengerJob and of the pool, as plain values. Read once, at the border.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use scavenger_schema::quantity;
use scavenger_schema::scavenger_job::{Attempt, AttemptNode, Quantity, ScavengerJob};
use scavenger_schema::scavenger_pool::{Limits, ScavengerPool};
use scavenger_schema::simulation::{
    GromacsToTune, LABEL_MANAGED_BY, LABEL_QUEUE, LABEL_ROW, LadderRung, LadderSettings,
};
use scavenger_schema::supervisor::Switch;
use scavenger_schema::{bounds, names, tuning};
use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason, condition};

use crate::cluster::without_nul;
use crate::ladder_settings;
use crate::manifest::Configurations;
use crate::suspension;

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
    /// Why it waits; none also for a reason that is not known here.
    pub waiting_reason: Option<WaitingReason>,
    /// Why it failed.
    pub failure_reason: Option<Reason>,
    /// The operator's sentence.
    pub message: Option<String>,
    /// The configuration that its spec asks for.
    pub rung: Option<i32>,
    /// True if it ever ran.
    pub has_run: bool,
    /// True if its spec says that it shall not run.
    pub suspended: bool,
    /// True if the submitter has suspended it, to go on with another configuration.
    pub suspended_to_grow: bool,
    /// Since when it waits, for whatever reason; none while an attempt is active.
    pub waiting_since: Option<Timestamp>,
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
    /// True if the ScavengerJob was given a configuration after this attempt was decided, also the same one again.
    pub is_superseded: bool,
    /// CPU, millicores.
    pub cpu_millicores: Option<i32>,
    /// Memory, bytes.
    pub memory_bytes: Option<i64>,
    /// GPUs.
    pub gpus: Option<i32>,
    /// Where it ran, if the operator says so, and if that is one kind of node.
    pub node: Option<NodeView>,
    /// Arguments.
    pub args: Vec<String>,
    /// When it was decided.
    pub creation_time: Timestamp,
    /// When it ran.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How.
    pub outcome: Option<Outcome>,
    /// Why.
    pub reason: Option<Reason>,
    /// Why, one sentence, with the container's last words.
    pub message: Option<String>,
    /// Seconds that it ran after its last checkpoint, if its supervisor measured that.
    pub lost_seconds: Option<i64>,
}

impl JobView {
    /// Reads a ScavengerJob of `row` in the queue `queue_id`.
    #[must_use]
    pub fn new(job: &ScavengerJob, row: &GromacsToTune, ladder: &[LadderRung], queue_id: &str) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let configurations = Configurations::of(job);
        let generation = job.metadata.generation.unwrap_or(1);
        let labels = job.labels();
        let is = |label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
        let reason_of = |kind: &str, value: &str| {
            status
                .conditions
                .iter()
                .find(|found| found.type_ == kind && found.status == value)
                .map(|found| found.reason.as_str())
        };
        let mut attempts: Vec<AttemptView> = status
            .attempts
            .iter()
            .chain(status.attempt.as_ref())
            .map(|attempt| AttemptView::new(attempt, &configurations, ladder))
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
            waiting_reason: reason_of(condition::ADMITTED, "False").and_then(WaitingReason::from_name),
            failure_reason: reason_of(condition::FAILED, "True").map(Reason::from_name),
            message: said(status.message.clone()),
            rung: configurations.rung(generation, ladder, &job.spec.resources.requests),
            has_run: status.interrupted_count > 0 || !status.start_times.is_empty(),
            suspended: job.spec.suspend,
            suspended_to_grow: suspension::is_ours(job),
            waiting_since: status
                .conditions
                .iter()
                .find(|found| found.type_ == condition::ADMITTED && found.status == "False")
                .map(|found| found.last_transition_time.0),
            finish_time: status.finish_time.as_ref().map(|time| time.0),
            attempts,
        }
    }

    /// The last attempt.
    #[must_use]
    pub fn last_attempt(&self) -> Option<&AttemptView> {
        self.attempts.last()
    }

    /// True if an attempt after the number `recorded` has ended.
    #[must_use]
    pub fn has_ended_since(&self, recorded: i32) -> bool {
        self.attempts.iter().any(|attempt| attempt.number > recorded && attempt.outcome.is_some())
    }

    /// True if a replacement of its spec is allowed.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Interrupted)
    }
}

impl AttemptView {
    fn new(attempt: &Attempt, configurations: &Configurations, ladder: &[LadderRung]) -> Self {
        let request = |name: &str| attempt.requests.get(name);
        Self {
            number: i32::try_from(attempt.number).unwrap_or(i32::MAX),
            rung: configurations.rung(attempt.generation, ladder, &attempt.requests),
            is_superseded: configurations.have_changed_since(attempt.generation),
            cpu_millicores: request("cpu").and_then(|cpu| cpu.milli().ok()?.try_into().ok()),
            memory_bytes: request("memory").and_then(|memory| memory.units().ok()),
            gpus: request("nvidia.com/gpu").map_or(Some(0), |gpus| gpus.units().ok()?.try_into().ok()),
            node: NodeView::new(&attempt.nodes),
            args: attempt.args.clone(),
            creation_time: attempt.creation_time.0,
            start_time: attempt.start_time.as_ref().map(|time| time.0),
            end_time: attempt.end_time.as_ref().map(|time| time.0),
            outcome: attempt.outcome,
            reason: attempt.reason.clone(),
            message: said(attempt.message.clone()),
            lost_seconds: attempt.lost_seconds,
        }
    }
}

/// The node of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// Labels that tell which hardware it is.
    pub labels: BTreeMap<String, String>,
}

impl NodeView {
    /// None also for a node that the operator did not see, of which nothing is known.
    fn new(nodes: &[AttemptNode]) -> Option<Self> {
        match nodes {
            [node] if !node.allocatable.is_empty() => {
                Some(Self { name: node.name.clone(), labels: node.labels.clone() })
            }
            _ => None,
        }
    }
}

/// A message, if it says anything, as Postgres can hold it.
fn said(message: Option<String>) -> Option<String> {
    message.map(without_nul).filter(|message| !message.is_empty())
}

/// Why ScavengerJobs wait that would take room if there were more.
const WAITS_FOR_ROOM: [WaitingReason; 3] =
    [WaitingReason::NoCapacity, WaitingReason::Unscheduled, WaitingReason::BehindInQueue];

/// The pool as far as a row needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolView {
    /// How long an attempt may stay unscheduled.
    pub pending_timeout: Duration,
    /// Nodes for the tuner. What is free on them is bounded by what the threshold leaves.
    pub nodes: Vec<tuning::NodeShape>,
    /// What a ScavengerJob may ask for.
    pub limits: PoolLimits,
    /// When the operator last wrote down what is free.
    pub update_time: Option<Timestamp>,
    /// How far its clock is ahead of that by which `update_time` is, as far as is known.
    pub operator_ahead: SignedDuration,
    /// True if workloads run under the supervisor unless they refuse it.
    pub supervises: bool,
    /// Keys of the taints that ScavengerJobs may tolerate.
    pub tolerated_taints: Vec<String>,
    /// How many ScavengerJobs wait for room, or behind others that do.
    pub waiting_for_room: i32,
    /// The prices that its weights set.
    pub ladder_settings: LadderSettings,
}

/// What a ScavengerJob may ask for, as far as a row needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLimits {
    /// Shortest `interruptionAfter`.
    pub min_interruption_after: Duration,
    /// Longest `interruptionAfter`.
    pub max_interruption_after: Duration,
    /// Longest grace period, seconds.
    pub max_grace_seconds: i64,
    /// Most CPU, millicores.
    pub max_cpu_millicores: Option<u32>,
    /// Most memory, bytes.
    pub max_memory_bytes: Option<u64>,
    /// Most GPUs.
    pub max_gpus: Option<u32>,
}

impl PoolView {
    /// Reads the pool; shapes that cannot be read, or that have no room for any pod, are left out.
    #[must_use]
    pub fn new(pool: &ScavengerPool) -> Self {
        let status = pool.status.clone().unwrap_or_default();
        let under_threshold = resources(&status.free);
        let nodes = status.node_shapes.iter().filter_map(|shape| {
            Some(tuning::NodeShape {
                count: u32::try_from(shape.count).ok().filter(|count| *count > 0)?,
                allocatable: resources(&shape.allocatable)
                    .filter(|room| room.cpu_millicores > 0 && room.memory_bytes > 0)?,
                largest_free: resources(&shape.largest_free)
                    .map(|free| under_threshold.map_or(free, |room| smaller(free, room))),
                labels: shape.labels.clone(),
            })
        });
        Self {
            pending_timeout: pool.spec.pending_timeout.into(),
            waiting_for_room: WAITS_FOR_ROOM
                .iter()
                .filter_map(|reason| status.queue.waiting_by_reason.get(reason.name()))
                .sum(),
            nodes: nodes.collect(),
            ladder_settings: ladder_settings::of_pool(&pool.spec.weights),
            limits: PoolLimits::new(&pool.spec.limits),
            tolerated_taints: pool.spec.tolerated_taints.clone(),
            update_time: status.update_time.map(|time| time.0),
            operator_ahead: SignedDuration::ZERO,
            supervises: pool
                .spec
                .supervisor
                .as_ref()
                .is_some_and(|supervisor| supervisor.default == Switch::On),
        }
    }

    /// The pool as far as the row may run there.
    #[must_use]
    pub fn of_row(mut self, row: &GromacsToTune) -> Self {
        self.nodes.retain(|node| row.may_run_on(node));
        self
    }

    /// True if there is room for it now: on a node where it may run, and under the threshold.
    #[must_use]
    pub fn has_room_for(&self, rung: &LadderRung) -> bool {
        let mut nodes = self.nodes.iter().filter(|node| rung.may_run_on(node));
        nodes.any(|node| rung.resources().fits_in(node.largest_free.as_ref().unwrap_or(&node.allocatable)))
    }

    /// Most memory that a node offers to a pod that asks for the CPU and the GPUs of a configuration; none if none holds
    /// these.
    #[must_use]
    pub fn most_memory_beside(&self, rung: &LadderRung) -> Option<u64> {
        let wanted = rung.resources();
        let holds = |offer: &tuning::Resources| {
            wanted.cpu_millicores <= offer.cpu_millicores && wanted.gpus <= offer.gpus
        };
        self.nodes
            .iter()
            .filter(|node| rung.may_run_on(node))
            .map(|node| &node.allocatable)
            .filter(|offer| holds(offer))
            .map(|offer| offer.memory_bytes)
            .max()
    }
}

impl PoolLimits {
    fn new(limits: &Limits) -> Self {
        let most = |name: &str| limits.max_resources.get(name);
        Self {
            min_interruption_after: limits.min_interruption_after.into(),
            max_interruption_after: limits.max_interruption_after.into(),
            max_grace_seconds: limits.max_termination_grace_period_seconds,
            max_cpu_millicores: most("cpu").and_then(|cpu| cpu.milli().ok()?.try_into().ok()),
            max_memory_bytes: most("memory").and_then(|memory| memory.units().ok()?.try_into().ok()),
            max_gpus: most("nvidia.com/gpu").and_then(|gpus| gpus.units().ok()?.try_into().ok()),
        }
    }

    /// True if a ScavengerJob may ask for it.
    #[must_use]
    pub fn allow(&self, wanted: &tuning::Resources) -> bool {
        self.max_cpu_millicores.is_none_or(|most| wanted.cpu_millicores <= most)
            && self.max_memory_bytes.is_none_or(|most| wanted.memory_bytes <= most)
            && self.max_gpus.is_none_or(|most| wanted.gpus <= most)
    }

    /// What the user allows, and no more than the pool does, or than the tuner takes as a limit.
    #[must_use]
    pub fn bound(&self, limits: &tuning::Limits) -> tuning::Limits {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        tuning::Limits {
            max_cpu_millicores: least(limits.max_cpu_millicores, self.max_cpu_millicores)
                .map(|cpu| cpu.min(bounds::MAX_CPU_MILLICORES.max)),
            max_memory_bytes: least(limits.max_memory_bytes, self.max_memory_bytes)
                .map(|memory| memory.min(bounds::MAX_MEMORY_BYTES.max)),
            max_gpus: least(limits.max_gpus, self.max_gpus).map(|gpus| gpus.min(bounds::MAX_GPUS.max)),
            ..limits.clone()
        }
    }
}

fn smaller(one: tuning::Resources, other: tuning::Resources) -> tuning::Resources {
    tuning::Resources {
        cpu_millicores: one.cpu_millicores.min(other.cpu_millicores),
        memory_bytes: one.memory_bytes.min(other.memory_bytes),
        // GPUs have thresholds only where the pool names one; a pool without GPUs lists none.
        gpus: one.gpus.min(other.gpus),
    }
}

fn resources(list: &BTreeMap<String, Quantity>) -> Option<tuning::Resources> {
    Some(tuning::Resources {
        cpu_millicores: quantity::parse_milli(&list.get("cpu")?.0).ok()?.try_into().ok()?,
        memory_bytes: quantity::parse_units(&list.get("memory")?.0).ok()?.try_into().ok()?,
        gpus: list
            .get("nvidia.com/gpu")
            .and_then(|gpus| quantity::parse_units(&gpus.0).ok()?.try_into().ok())
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(free_cpu: &str) -> PoolView {
        PoolView::new(
            &serde_json::from_value(json!({
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                "spec": { "limits": { "maxResources": { "cpu": "4", "memory": "1Gi" } } },
                "status": {
                    "updateTime": "2026-11-21T10:00:00Z",
                    "free": { "cpu": free_cpu, "memory": "8Gi" },
                    "nodeShapes": [
                        { "count": 2, "allocatable": { "cpu": "8", "memory": "16Gi" },
                          "largestFree": { "cpu": "3", "memory": "4Gi" } },
                        { "count": 1, "allocatable": { "cpu": "2", "memory": "64Gi" },
                          "largestFree": { "cpu": "1", "memory": "60Gi" } },
                        { "count": 0, "allocatable": { "cpu": "9", "memory": "99Gi" }, "largestFree": {} },
                        { "count": 1, "allocatable": { "cpu": "x" }, "largestFree": {} },
                    ],
                },
            }))
            .expect("should be a pool"),
        )
    }

    /// What another release of the submitter made, with a flag that this one does not know.
    #[test]
    fn attempts_are_recognised_whatever_their_arguments() {
        use crate::fixtures::{ladder, manifest_settings, row, terms};
        let (row, ladder) = (row(), ladder());
        let mut job = crate::manifest::simulation_job(&row, &ladder[1], &manifest_settings(), &terms());
        job.spec.args.push("-new-flag".to_owned());
        job.metadata.generation = Some(2);
        let attempt = |number: i64, generation: i64, rung: usize| {
            let of_rung =
                crate::manifest::simulation_job(&row, &ladder[rung], &manifest_settings(), &terms());
            json!({ "number": number, "jobName": "x", "generation": generation, "podCount": 1,
                "requests": of_rung.spec.resources.requests, "args": ["-old-flag"], "priorityClassName": "p",
                "creationTime": "2026-11-21T10:00:00Z" })
        };
        let mut status =
            json!({ "phase": "Running", "attempts": [attempt(1, 1, 0)], "attempt": attempt(2, 2, 1) });
        status["attempts"][0]["outcome"] = "Interrupted".into();
        job.status = Some(serde_json::from_value(status).expect("should be a status"));
        let numbers = Configurations::new(1).and(2, 2).text();
        job.metadata
            .annotations
            .get_or_insert_default()
            .insert(scavenger_schema::simulation::ANNOTATION_CONFIGURATIONS.to_owned(), numbers);
        let view = JobView::new(&job, &row, &ladder, "queue");
        assert_eq!(view.rung, Some(2));
        assert_eq!(view.attempts.iter().map(|attempt| attempt.rung).collect::<Vec<_>>(), [Some(1), Some(2)]);
        let superseded: Vec<bool> = view.attempts.iter().map(|attempt| attempt.is_superseded).collect();
        assert_eq!(superseded, [true, false]);
    }

    fn asks(cpu_millicores: i32, memory_gib: i64) -> LadderRung {
        LadderRung { cpu_millicores, memory_bytes: memory_gib << 30, ..crate::fixtures::ladder().remove(0) }
    }

    #[test]
    fn there_is_room_on_one_node_and_under_the_threshold() {
        let roomy = pool("100");
        assert_eq!(roomy.nodes.len(), 2, "what cannot be read is left out");
        assert!(roomy.has_room_for(&asks(3000, 4)));
        assert!(!roomy.has_room_for(&asks(3001, 1)), "on no node");
        assert!(!roomy.has_room_for(&asks(2000, 5)), "CPU on one node and memory on another");
        assert!(!pool("1500m").has_room_for(&asks(2000, 1)), "the threshold leaves less than the node");
        assert!(pool("1500m").has_room_for(&asks(1500, 1)));
    }

    #[test]
    fn what_is_bound_to_a_kind_of_node_has_room_there_alone() {
        let mut pool = pool("100");
        pool.nodes[1].labels = BTreeMap::from([("kind".to_owned(), "small".to_owned())]);
        let bound = |kind: &str, cpu: i32| {
            let labels = BTreeMap::from([("kind".to_owned(), kind.to_owned())]);
            LadderRung { node_labels: sqlx::types::Json(labels), ..asks(cpu, 1) }
        };
        assert!(pool.has_room_for(&bound("small", 1000)) && !pool.has_room_for(&bound("small", 2000)));
        assert!(pool.has_room_for(&asks(2000, 1)) && !pool.has_room_for(&bound("large", 1000)));
        assert_eq!(pool.most_memory_beside(&bound("small", 1000)), Some(64 << 30));
        assert_eq!(pool.most_memory_beside(&bound("large", 1000)), None);
    }

    #[test]
    fn memory_is_what_a_node_offers_beside_the_cores() {
        assert_eq!(pool("1").most_memory_beside(&asks(2000, 0)), Some(64 << 30));
        assert_eq!(pool("1").most_memory_beside(&asks(4000, 0)), Some(16 << 30));
        assert_eq!(pool("1").most_memory_beside(&asks(9000, 0)), None);
    }

    #[test]
    fn the_lower_limit_counts() {
        let limits = pool("1").limits;
        assert_eq!(limits.max_grace_seconds, 60, "the default");
        let own =
            tuning::Limits { max_cpu_millicores: Some(8000), max_gpus: Some(1), ..tuning::Limits::default() };
        let bound = limits.bound(&own);
        assert_eq!(
            (bound.max_cpu_millicores, bound.max_memory_bytes, bound.max_gpus),
            (Some(4000), Some(1 << 30), Some(1))
        );
    }
}
