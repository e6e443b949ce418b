//! What the submitter sees of a ScavengerJob and of the pool, as plain values. Read once, at the border.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use scavenger_schema::quantity;
use scavenger_schema::scavenger_job::{Attempt, AttemptNode, Quantity, ScavengerJob};
use scavenger_schema::scavenger_pool::{Limits, NodeShape, ScavengerPool};
use scavenger_schema::simulation::{GromacsToTune, LadderRung, LadderSettings};
use scavenger_schema::supervisor::Switch;
use scavenger_schema::{bounds, tuning};
use scavenger_tuner_model::hardware::class_of_labels;
use scavenger_vocabulary::{Accounting, Outcome, Phase, Reason, WaitingReason, condition, hardware};

use crate::cluster::without_nul;
use crate::ladder_settings;
use crate::manifest::{Configurations, is_of_row};
use crate::{gpus, suspension};

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
            ours: is_of_row(job.labels(), row.id, queue_id),
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
            gpus: gpu_requests(&attempt.requests).map(|(_, count)| count).sum(),
            node: NodeView::new(&attempt.nodes, &attempt.requests),
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
    /// CPU that it has for pods, millicores.
    pub cpu_millicores: Option<i32>,
    /// CPU that all pods on it requested when the attempt began to run, millicores.
    pub requested_millicores: Option<i32>,
}

impl NodeView {
    /// None also for a node that the operator did not see, of which nothing is known.
    fn new(nodes: &[AttemptNode], requests: &BTreeMap<String, Quantity>) -> Option<Self> {
        match nodes {
            [node] if !node.allocatable.is_empty() => {
                let mut labels = node.labels.clone();
                // It ran on a slice, and the product of the node is that of its whole GPUs.
                let slice = gpu_requests(requests).find_map(|(name, _)| gpus::slice(name));
                if let Some(slice) = slice {
                    labels.insert(hardware::GPU_PARTITION.to_owned(), slice.to_owned());
                }
                let millicores = |amounts: &BTreeMap<String, Quantity>| {
                    amounts.get("cpu").and_then(|cpu| i32::try_from(cpu.milli().ok()?).ok())
                };
                Some(Self {
                    name: node.name.clone(),
                    labels,
                    cpu_millicores: millicores(&node.allocatable).filter(|cpu| *cpu > 0),
                    requested_millicores: millicores(&node.requested).filter(|cpu| *cpu >= 0),
                })
            }
            _ => None,
        }
    }
}

/// The GPUs that a pod asks for; a number that is none is none.
fn gpu_requests(requests: &BTreeMap<String, Quantity>) -> impl Iterator<Item = (&String, Option<i32>)> {
    let gpus = requests.iter().filter(|(name, _)| gpus::is_gpu(name));
    gpus.map(|(name, count)| (name, count.units().ok().and_then(|count| count.try_into().ok())))
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
    pub nodes: Vec<PoolNode>,
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
    /// The share of the pool's cpu that ordinary pods are expected to use beside ScavengerJobs, at most 0.95; 0 where
    /// capacity is counted by requests, for then what a ScavengerJob requests is its own.
    pub shared_cpu: f64,
}

/// Nodes that look alike. Those that have GPUs of several resources, such as slices of two sizes, are several of these: a pod
/// asks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolNode {
    /// As the tuner knows them.
    pub shape: tuning::NodeShape,
    /// The resource that their GPUs are; none without any.
    pub gpu_resource: Option<String>,
}

impl Deref for PoolNode {
    type Target = tuning::NodeShape;

    fn deref(&self) -> &Self::Target {
        &self.shape
    }
}

impl DerefMut for PoolNode {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.shape
    }
}

impl PoolNode {
    /// Reads a shape of the pool's status, of which `free` is left below the threshold.
    fn read(shape: &NodeShape, free: &BTreeMap<String, Quantity>, limits: &Limits) -> Vec<Self> {
        let count = |name: &str, list: &BTreeMap<String, Quantity>| {
            list.get(name).and_then(|count| quantity::parse_units(&count.0).ok())
        };
        let has = |name: &&String| gpus::is_gpu(name) && count(name, &shape.allocatable) > Some(0);
        let found: Vec<&String> = shape.allocatable.keys().filter(has).collect();
        let one = |resource: Option<&String>| -> Option<Self> {
            // No more than the pool lets a pod ask for.
            let most = resource.and_then(|name| count(name, &limits.max_resources));
            let bounded = |room: tuning::Resources| tuning::Resources {
                gpus: most
                    .and_then(|most| most.try_into().ok())
                    .map_or(room.gpus, |most| room.gpus.min(most)),
                ..room
            };
            let under_threshold = resources(free, resource);
            let mut labels = shape.labels.clone();
            // The product of such a node is that of its whole GPUs.
            if let Some(slice) = resource.and_then(|name| gpus::slice(name)) {
                labels.insert(hardware::GPU_PARTITION.to_owned(), slice.to_owned());
            }
            let shape = tuning::NodeShape {
                count: u32::try_from(shape.count).ok().filter(|count| *count > 0)?,
                allocatable: resources(&shape.allocatable, resource)
                    .filter(|room| room.cpu_millicores > 0 && room.memory_bytes > 0)
                    .map(bounded)?,
                largest_free: resources(&shape.largest_free, resource)
                    .map(|free| under_threshold.map_or(free, |room| smaller(free, room)))
                    .map(bounded),
                labels,
            };
            Some(Self { shape, gpu_resource: resource.cloned() })
        };
        if found.is_empty() {
            return one(None).into_iter().collect();
        }
        found.into_iter().filter_map(|name| one(Some(name))).collect()
    }

    /// Without GPUs, if a build of GROMACS can use none of them.
    fn for_build(mut self, build: &tuning::Build) -> Self {
        if self.gpu_resource.as_deref().is_some_and(|resource| !gpus::is_used_by(resource, build)) {
            self.shape.allocatable.gpus = 0;
            self.shape.largest_free =
                self.shape.largest_free.map(|free| tuning::Resources { gpus: 0, ..free });
        }
        self
    }

    /// What is free on the one with the most.
    fn free(&self) -> &tuning::Resources {
        self.largest_free.as_ref().unwrap_or(&self.allocatable)
    }
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
    /// Most GPUs, of whatever resource has the highest limit. That of each resource bounds its nodes.
    pub max_gpus: Option<u32>,
}

impl PoolView {
    /// Reads the pool; shapes that cannot be read, or that have no room for any pod, are left out.
    #[must_use]
    pub fn new(pool: &ScavengerPool) -> Self {
        let status = pool.status.clone().unwrap_or_default();
        let shapes = status.node_shapes.iter();
        let nodes = shapes.flat_map(|shape| PoolNode::read(shape, &status.free, &pool.spec.limits));
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
            shared_cpu: shared_cpu(pool),
            supervises: pool
                .spec
                .supervisor
                .as_ref()
                .is_some_and(|supervisor| supervisor.default == Switch::On),
        }
    }

    /// The pool as far as the row may run there.
    #[must_use]
    pub fn of_row(self, row: &GromacsToTune) -> Self {
        let build = row.build();
        let nodes = self.nodes.into_iter().filter(|node| row.may_run_on(node));
        Self { nodes: nodes.map(|node| node.for_build(&build)).collect(), ..self }
    }

    /// The nodes as the tuner knows them.
    #[must_use]
    pub fn shapes(&self) -> Vec<tuning::NodeShape> {
        self.nodes.iter().map(|node| node.shape.clone()).collect()
    }

    /// The resource that a configuration with GPUs asks for: that of a node that can hold it, of one that has them free
    /// rather than of another, and then of the kind that it is predicted for.
    #[must_use]
    pub fn gpu_resource_for(&self, rung: &LadderRung) -> Option<&str> {
        let wanted = rung.resources();
        let holds = |node: &&PoolNode| rung.may_run_on(node) && wanted.fits_in(&node.allocatable);
        let rank = |node: &&PoolNode| {
            let is_of_kind = class_of_labels(&node.labels, wanted.gpus) == rung.hardware_class;
            (wanted.fits_in(node.free()), is_of_kind)
        };
        // Of equals the first one.
        let best = self.nodes.iter().filter(holds).rev().max_by_key(rank)?;
        best.gpu_resource.as_deref().filter(|_| wanted.gpus > 0)
    }

    /// True if there is room for it now: on a node where it may run, and under the threshold.
    #[must_use]
    pub fn has_room_for(&self, rung: &LadderRung) -> bool {
        let mut nodes = self.nodes.iter().filter(|node| rung.may_run_on(node));
        nodes.any(|node| rung.resources().fits_in(node.free()))
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
            max_gpus: limits
                .max_resources
                .iter()
                .filter(|(name, _)| gpus::is_gpu(name))
                .filter_map(|(_, most)| most.units().ok()?.try_into().ok())
                .max(),
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

/// See [`PoolView::shared_cpu`].
#[expect(clippy::cast_precision_loss, reason = "a share")]
fn shared_cpu(pool: &ScavengerPool) -> f64 {
    let Some(status) = pool.status.as_ref() else { return 0.0 };
    let by_use = pool.spec.accounting == Accounting::Usage && !pool.spec.usage.dry_run;
    let expected = status.usage.as_ref().filter(|_| by_use).and_then(|usage| usage.expected.get("cpu"));
    let milli = |cpu: Option<&Quantity>| cpu.and_then(|cpu| quantity::parse_milli(&cpu.0).ok());
    match (milli(expected), milli(status.allocatable.get("cpu"))) {
        (Some(expected), Some(all)) if all > 0 => (expected as f64 / all as f64).clamp(0.0, 0.95),
        _ => 0.0,
    }
}

/// Amounts, the GPUs being those of one resource.
fn resources(list: &BTreeMap<String, Quantity>, gpu_resource: Option<&String>) -> Option<tuning::Resources> {
    Some(tuning::Resources {
        cpu_millicores: quantity::parse_milli(&list.get("cpu")?.0).ok()?.try_into().ok()?,
        memory_bytes: quantity::parse_units(&list.get("memory")?.0).ok()?.try_into().ok()?,
        gpus: gpu_resource
            .and_then(|name| list.get(name))
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

    #[test]
    fn processors_are_shared_only_where_they_are_counted_by_use() {
        let pool = |spec: serde_json::Value| {
            let view = PoolView::new(
                &serde_json::from_value(json!({
                    "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                    "spec": spec,
                    "status": {
                        "allocatable": { "cpu": "40" },
                        "usage": { "nodes": 3, "expected": { "cpu": "10", "memory": "1Gi" } },
                    },
                }))
                .expect("should be a pool"),
            );
            format!("{:.2}", view.shared_cpu)
        };
        assert_eq!(pool(json!({ "accounting": "Usage" })), "0.25");
        assert_eq!(pool(json!({ "accounting": "Usage", "usage": { "dryRun": true } })), "0.00");
        assert_eq!(pool(json!({})), "0.00");
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

    /// A node with GPUs of AMD, and one whose GPU is cut into slices of two sizes, of which the larger are taken.
    fn with_gpus() -> PoolView {
        PoolView::new(
            &serde_json::from_value(json!({
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                "spec": { "limits": { "maxResources": { "amd.com/gpu": "1" } } },
                "status": { "nodeShapes": [
                    { "count": 2, "allocatable": { "cpu": "64", "memory": "64Gi", "amd.com/gpu": "8" },
                      "largestFree": { "cpu": "64", "memory": "64Gi", "amd.com/gpu": "8" },
                      "labels": { "amd.com/gpu.product-name": "AMD_Instinct_MI250X_OAM" } },
                    { "count": 1,
                      "allocatable": { "cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "0",
                        "nvidia.com/mig-1g.5gb": "4", "nvidia.com/mig-2g.10gb": "1" },
                      "largestFree": { "cpu": "8", "memory": "16Gi", "nvidia.com/mig-1g.5gb": "3" },
                      "labels": { "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB" } },
                ] },
            }))
            .expect("should be a pool"),
        )
    }

    #[test]
    fn a_configuration_asks_for_what_the_gpus_of_its_nodes_are_called() {
        let of_build = |word: &str| {
            let mut row = crate::fixtures::row();
            let found = BTreeMap::from([("gpu-support".to_owned(), word.to_owned())]);
            row.inspected = Some(sqlx::types::Json(found));
            with_gpus().of_row(&row)
        };
        let pool = of_build("SYCL");
        let told: Vec<_> = pool
            .nodes
            .iter()
            .map(|node| {
                let partition = node.labels.get(hardware::GPU_PARTITION).map(String::as_str);
                (node.gpu_resource.as_deref().unwrap_or_default(), node.allocatable.gpus, partition)
            })
            .collect();
        // Of eight the pool lets a pod ask for one.
        assert_eq!(
            told,
            [
                ("amd.com/gpu", 1, None),
                ("nvidia.com/mig-1g.5gb", 4, Some("1g.5gb")),
                ("nvidia.com/mig-2g.10gb", 1, Some("2g.10gb"))
            ]
        );
        let on_gpu =
            |cpu: i32, class: &str| LadderRung { gpus: 1, hardware_class: class.to_owned(), ..asks(cpu, 1) };
        let class = |index: usize| class_of_labels(&pool.nodes[index].labels, 1);
        let resource = |rung: &LadderRung| pool.gpu_resource_for(rung).map(str::to_owned);
        assert_eq!(resource(&on_gpu(32000, "any")).as_deref(), Some("amd.com/gpu"), "no other node holds it");
        assert_eq!(resource(&on_gpu(4000, &class(0))).as_deref(), Some("amd.com/gpu"));
        assert_eq!(resource(&on_gpu(4000, &class(1))).as_deref(), Some("nvidia.com/mig-1g.5gb"));
        assert_ne!(
            resource(&on_gpu(4000, &class(2))).as_deref(),
            Some("nvidia.com/mig-2g.10gb"),
            "it is taken"
        );
        assert_eq!(resource(&asks(4000, 1)), None);
        // A build for CUDA finds nothing on GPUs of AMD, and one for HIP on nothing else.
        let found =
            |word: &str| of_build(word).nodes.iter().map(|node| node.allocatable.gpus).collect::<Vec<_>>();
        assert_eq!((found("CUDA"), found("HIP")), (vec![0, 4, 1], vec![1, 0, 0]));
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
