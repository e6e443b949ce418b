//! The attempts of a ScavengerJob, as its status tells them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use scavenger_vocabulary::{Accounting, Outcome, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shapes::{self, Quantity};

/// What the pods of an attempt were measured to use together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Usage {
    /// Number of the attempt.
    pub attempt: i64,
    /// How much of its run time was measured.
    pub measured_seconds: i64,
    /// Mean cpu.
    #[schemars(schema_with = "shapes::amount")]
    pub cpu_mean: Quantity,
    /// The most cpu of any sample, usually of 15 s.
    #[schemars(schema_with = "shapes::amount")]
    pub cpu_peak: Quantity,
    /// Mean working set.
    #[schemars(schema_with = "shapes::amount")]
    pub memory_mean: Quantity,
    /// The largest working set.
    #[schemars(schema_with = "shapes::amount")]
    pub memory_peak: Quantity,
    /// What it requests at least twice as much of as it uses, once ten minutes were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One attempt: one batch/v1 Job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Attempt {
    /// Counted from 1, never reused.
    pub number: i64,
    /// Name of the Job.
    pub job_name: String,
    /// UID of the Job, once it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_uid: Option<String>,
    /// `metadata.generation` of the spec it runs with.
    pub generation: i64,
    /// What each of its pods has.
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub requests: BTreeMap<String, Quantity>,
    /// Number of its pods.
    pub pod_count: i32,
    /// Arguments it runs with; left out if they are longer than 64 KiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Vec<String>,
    /// PriorityClass of its pods.
    pub priority_class_name: String,
    /// When the operator decided to start it.
    pub creation_time: Time,
    /// When all its pods ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// First sign that it was taken away from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// True if it runs under the supervisor.
    #[serde(default, skip_serializing_if = "is_false")]
    pub supervised: bool,
    /// How its capacity is counted: `Usage` if it runs on what is reserved but not used.
    #[serde(default, skip_serializing_if = "is_by_requests")]
    pub accounting: Accounting,
    /// The node that the operator chose for its pods; not given where kube-scheduler chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// When it wrote its last checkpoint. A checkpoint that was written after SIGTERM comes after `endTime`, which is when
    /// it got SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint_time: Option<Time>,
    /// Of the seconds that it ran, those for which it had the processor time that it could use: less if ordinary pods of its
    /// node needed the processors. Not given if nobody measured that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worked_seconds: Option<i64>,
    /// Seconds that it ran after its last checkpoint, or in all if it wrote none; of these too, only those count for which it
    /// had the processor time that it could use. Not given if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_seconds: Option<i64>,
    /// Seconds that the operator expected it to lose when it was taken away; to compare with `lostSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_lost_seconds: Option<i64>,
    /// Whether it wrote a checkpoint after SIGTERM. Not given if it got none, or if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_sigterm: Option<bool>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Reason of the outcome, one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The reason in words, with the container's last words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// On what it ran: one node of each kind, at most 4 kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub nodes: Vec<AttemptNode>,
}

/// A node on which pods of an attempt ran. Nodes are of one kind if they have the same hardware labels and offer the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct AttemptNode {
    /// Its name: the first of its kind.
    pub name: String,
    /// How many pods of the attempt ran on nodes of its kind.
    pub pod_count: i32,
    /// Its labels that tell which hardware it is (architecture, instance type, CPU model, GPU product).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub labels: BTreeMap<String, String>,
    /// CPU, memory and devices that it has for pods. Empty if the operator did not see the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What all pods on the node `name` requested of that when the attempt began to run, its own pods included. With
    /// accounting `Usage`, pods of ScavengerJobs request next to nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub requested: BTreeMap<String, Quantity>,
}

/// First sign that an attempt was taken away from outside. It is written down when it is first seen, since the pod
/// that shows it may be gone when the attempt is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Disruption {
    /// When it happened, as far as the cluster tells.
    pub time: Time,
    /// Reason: that of the pod's condition DisruptionTarget, Deleted, or why the operator interrupts it.
    pub reason: Reason,
    /// The message beside it.
    pub message: String,
    /// Name of the pod that showed it; empty if the operator decided it.
    pub pod: String,
}

fn is_by_requests(accounting: &Accounting) -> bool {
    *accounting == Accounting::Requests
}

pub(crate) fn is_false(value: &bool) -> bool {
    !value
}
