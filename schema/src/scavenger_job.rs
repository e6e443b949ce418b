//! The ScavengerJob: a low-priority, checkpointing batch job that lives on the capacity a cluster has left.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    CustomResource, KubeSchema,
    core::{Duration, Rule},
};
pub use scavenger_vocabulary::{Accounting, Outcome, Phase, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    attempts::is_false,
    cel, form,
    limits::MAX_POD_COUNT,
    shapes,
    supervisor::{CheckpointRequest, JobSupervisor},
};
pub use crate::{
    attempts::{Attempt, AttemptNode, Disruption, Usage},
    shapes::Quantity,
};

/// A low-priority batch job that may be interrupted whenever something else needs the capacity, and continues from its
/// own checkpoint later. Its workload must write a checkpoint at least every `interruptionAfter`, resume from it
/// after a restart, and stop at once when it is run again after it had finished.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scavenger.dev",
    version = "v1alpha1",
    kind = "ScavengerJob",
    plural = "scavengerjobs",
    shortname = "sj",
    category = "all",
    namespaced,
    status = "ScavengerJobStatus",
    derive = "PartialEq",
    doc = "A low-priority batch job that may be interrupted whenever something else needs the capacity, and continues from its own checkpoint later.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Progress", type_ = "number", json_path = ".status.progress"),
    printcolumn(name = "Interruptions", type_ = "integer", json_path = ".status.interruptedCount"),
    printcolumn(name = "CPU mean", type_ = "string", json_path = ".status.usage.cpuMean", priority = 1),
    printcolumn(name = "CPU peak", type_ = "string", json_path = ".status.usage.cpuPeak", priority = 1),
    printcolumn(name = "Memory mean", type_ = "string", json_path = ".status.usage.memoryMean", priority = 1),
    printcolumn(name = "Memory peak", type_ = "string", json_path = ".status.usage.memoryPeak", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    validation = cel::name_when_it_is_made(),
    validation = frozen_while_active()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = cel::at_least("interruptionAfter", "1s"),
    validation = cel::checkpoint_interval(),
    validation = cel::input(),
    validation = cel::supervisor_needs_a_command(),
    validation = cel::on_a_claim("path"),
    validation = cel::on_a_claim("progressPath"),
    validation = cel::rank_of_a_pod(),
    validation = cel::request_needs_a_path(),
    validation = cel::request_in_one_way(),
    validation = cel::beside_the_supervisor(),
    validation = Rule::new("((has(self.persistentVolumeClaims) ? self.persistentVolumeClaims.map(m, m.mountPath) : []) + (has(self.configMaps) ? self.configMaps.map(m, m.mountPath) : []) + (has(self.secrets) ? self.secrets.map(m, m.mountPath) : [])).all(p, ((has(self.persistentVolumeClaims) ? self.persistentVolumeClaims.map(m, m.mountPath) : []) + (has(self.configMaps) ? self.configMaps.map(m, m.mountPath) : []) + (has(self.secrets) ? self.secrets.map(m, m.mountPath) : [])).exists_one(q, q == p))").message("mountPath must be distinct among persistentVolumeClaims, configMaps and secrets")
)]
pub struct ScavengerJobSpec {
    /// Container image.
    #[schemars(length(min = 1, max = form::IMAGE.longest), regex(pattern = form::IMAGE.pattern))]
    pub image: String,

    /// When the kubelet pulls the image; by default Always for the tag `latest`, else IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,

    /// Names of the Secrets with which the image is pulled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern)))]
    pub image_pull_secrets: Vec<String>,

    /// The program and its first arguments, in exec form; the image's entry point if empty. The program is process 1
    /// of its container and gets SIGTERM when the ScavengerJob is interrupted: a shell there would swallow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 16384)))]
    pub command: Vec<String>,

    /// Arguments behind `command`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 16384)))]
    pub args: Vec<String>,

    /// Environment variables. Every pod also gets SCAVENGER_ATTEMPT (number of the attempt), SCAVENGER_POD_COUNT and
    /// SCAVENGER_HOST_TEMPLATE (host name of a pod with `{index}` in place of its index, for example
    /// `water-3-{index}.water-pods`; indexes go from 0 to SCAVENGER_POD_COUNT - 1). With 64 pods at most, every pod gets
    /// SCAVENGER_HOSTS as well: the host names of all pods in the order of their indexes, separated by commas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub env: Vec<EnvVar>,

    /// Working directory of the container, absolute; the image's own if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^/"), length(max = 1024))]
    pub working_dir: Option<String>,

    /// What each pod asks for and gets. Requests equal limits: the pods are Guaranteed.
    pub resources: Resources,

    /// Number of pods, all with the same resources. When one of them is interrupted, all are.
    #[serde(default = "default_pod_count")]
    #[schemars(range(min = 1, max = MAX_POD_COUNT))]
    pub pod_count: i32,

    /// PersistentVolumeClaims of the namespace and where they are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub persistent_volume_claims: Vec<PersistentVolumeClaimMount>,

    /// ConfigMaps of the namespace and where they are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub config_maps: Vec<ConfigMapMount>,

    /// Secrets of the namespace and where they are mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub secrets: Vec<SecretMount>,

    /// User id the containers run as; never 0.
    #[serde(default = "default_user")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_user: i64,

    /// Group id the containers run as; `runAsUser` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_group: Option<i64>,

    /// Group that owns the volumes where the volume's driver can change it; `runAsGroup` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub fs_group: Option<i64>,

    /// The stretch of run time that this job needs to make lasting progress, for example `10m`: it promises a
    /// checkpoint at least that often.
    #[schemars(schema_with = "shapes::duration")]
    pub interruption_after: Duration,

    /// What the workload does about checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,

    /// What the workload wants of the supervisor, the program that the pool can put in front of `command` as process 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<JobSupervisor>,

    /// Seconds between SIGTERM and SIGKILL: enough to write the last checkpoint. 30 by default.
    #[serde(default = "default_grace_period")]
    #[schemars(range(min = 1, max = 3600))]
    pub termination_grace_period_seconds: i64,

    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,

    /// RuntimeClass of the pods, for example `nvidia` where that is not the runtime of every pod. What it takes of a node for
    /// each pod (`overhead`) counts in addition to the requests. The pool must allow a class that has a say in where pods go
    /// (`scheduling`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern))]
    pub runtime_class_name: Option<String>,

    /// Service account of the pods. Without one they run as `default` and get no token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern))]
    pub service_account_name: Option<String>,

    /// Labels and annotations of the pods, for whatever else in the cluster looks at them: an annotation that keeps a
    /// service mesh out, a label that a policy of the namespace asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_metadata: Option<PodMetadata>,

    /// True holds a ScavengerJob that waits and interrupts one that runs; it goes on from its checkpoint once this is
    /// false again. May change at any time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,

    /// Seconds that it may run, summed over all its attempts; after that it has failed. Its pods are stopped as in an
    /// interruption and go with their Job, and so do their logs; the Job of a workload that ended on its own stays. No
    /// limit if not given. May change at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 315_360_000))]
    pub active_deadline_seconds: Option<i64>,

    /// Seconds after its end at which it is deleted, together with the Job it has left. A week by default. May change at any
    /// time.
    #[serde(default = "default_ttl")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub ttl_seconds_after_finished: i64,
}

/// Fields of the spec that may change only while no attempt is active: all but `suspend`, `activeDeadlineSeconds` and
/// `ttlSecondsAfterFinished`.
const FROZEN: [&str; 24] = [
    "image",
    "imagePullPolicy",
    "imagePullSecrets",
    "command",
    "args",
    "env",
    "workingDir",
    "resources",
    "podCount",
    "persistentVolumeClaims",
    "configMaps",
    "secrets",
    "runAsUser",
    "runAsGroup",
    "fsGroup",
    "interruptionAfter",
    "checkpoint",
    "supervisor",
    "terminationGracePeriodSeconds",
    "nodeSelector",
    "tolerations",
    "runtimeClassName",
    "serviceAccountName",
    "podMetadata",
];

/// The rule that keeps a running attempt and its spec the same. It sees spec and status, so it stands at the root; CEL
/// cannot leave fields out of a comparison, so it names the others. Each access of a field costs the API server a copy of
/// the schema's properties, and most updates are of the status alone: they are recognised first. A write of the status
/// leaves the spec as it is and one of the spec leaves the status, whatever else they carry, so a phase that changes is
/// enough to know. Then it is asked whether the specs are equal.
fn frozen_while_active() -> Rule {
    // Optional selection (`?.`) would be shorter, but the API server takes its cost for unbounded.
    let equal = FROZEN.map(|field| {
        let (new, old) = (format!("self.spec.{field}"), format!("oldSelf.spec.{field}"));
        format!("has({new}) == has({old}) && (!has({new}) || {new} == {old})")
    });
    Rule::new(format!(
        "!has(self.status) || !has(self.status.phase) || self.status.phase in ['Waiting', 'Interrupted'] || \
         !has(oldSelf.status) || !has(oldSelf.status.phase) || self.status.phase != oldSelf.status.phase || \
         self.spec == oldSelf.spec || ({})",
        equal.join(" && ")
    ))
    .message(
        "spec can be changed only while no attempt is active (phase Waiting or Interrupted), except for suspend, \
         activeDeadlineSeconds and ttlSecondsAfterFinished",
    )
    .field_path(".spec")
}

/// `ttlSecondsAfterFinished` of a spec that names none: a week.
pub const DEFAULT_TTL_SECONDS: i64 = 7 * 24 * 3600;

fn default_ttl() -> i64 {
    DEFAULT_TTL_SECONDS
}

fn default_pod_count() -> i32 {
    1
}

fn default_user() -> i64 {
    1000
}

fn default_grace_period() -> i64 {
    30
}

fn default_restart_seconds() -> i64 {
    60
}

/// When the kubelet pulls an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// At every start.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never: the image must be on the node.
    Never,
}

/// What each pod asks for and gets.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("'cpu' in self.requests && 'memory' in self.requests").message("requests must name cpu and memory").field_path(".requests"),
    validation = Rule::new("!('pods' in self.requests)").message("requests must not name pods: podCount says how many there are, and each counts as one").field_path(".requests"),
    validation = cel::limits_equal_requests(),
    validation = cel::limit_equals_request("cpu"),
    validation = cel::limit_equals_request("memory"),
    validation = cel::quantities("requests"),
    validation = cel::quantities("limits"),
    validation = cel::positive_requests(),
    // Far more than a node has, and little enough that sums over all pods stay far below 2^63.
    validation = cel::at_most("cpu", "1M"),
    validation = cel::at_most("memory", "1Pi"),
    validation = cel::others_at_most("1Pi", 1 << 50)
)]
pub struct Resources {
    /// Requests by resource name (`cpu`, `memory`, `ephemeral-storage`, `nvidia.com/gpu`, ...); cpu and memory are
    /// required.
    #[schemars(schema_with = "shapes::requests")]
    pub requests: BTreeMap<String, Quantity>,

    /// Limits; equal to the requests, which is also what they are when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::requests")]
    pub limits: Option<BTreeMap<String, Quantity>>,
}

/// Labels and annotations that the pods get beside the operator's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadata {
    /// Labels. Keys that begin with `scavenger.dev/` or `batch.kubernetes.io/` are taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::pod_labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, for example `sidecar.istio.io/inject: "false"`. The same keys are taken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::pod_annotations")]
    pub annotations: BTreeMap<String, String>,
}

/// What the workload does about checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// How often the workload writes a checkpoint; `interruptionAfter` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::optional_duration")]
    pub interval: Option<Duration>,

    /// True if the workload writes one more checkpoint when it gets SIGTERM (GROMACS does), so that an interruption
    /// costs only the restart.
    #[serde(default)]
    pub saves_on_sigterm: bool,

    /// Seconds of work that a restart costs (start-up, reading the checkpoint). 60 by default.
    #[serde(default = "default_restart_seconds")]
    #[schemars(range(min = 0, max = 86400))]
    pub restart_seconds: i64,

    /// Where the workload writes its checkpoints, as the container sees it: a path or a glob (`/data/state*.cpt`). The newest
    /// file counts. It lies on a PersistentVolumeClaim of the spec. The supervisor watches it, and what it sees decides
    /// instead of what was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::optional_watched_path")]
    pub path: Option<String>,

    /// A file in which the workload keeps a number between 0 and 1: how far it has come. It lies on a
    /// PersistentVolumeClaim of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::optional_watched_path")]
    pub progress_path: Option<String>,

    /// How the workload can be asked for a checkpoint. Before some interruptions that the operator plans (reasons Headroom,
    /// Drained, NodeLeftPool, Starved, NodeCPUShort and NodeNotMeasured) it is asked, and its pods are evicted when the checkpoint is
    /// written, or after 30 seconds. Workloads that save upon SIGTERM anyway are not asked. It needs `path`, and the
    /// supervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<CheckpointRequest>,

    /// The pod of a gang whose checkpoints and progress count, by its index; 0 by default, since all pods mount the same
    /// claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 999))]
    pub rank: Option<i32>,
}

/// An environment variable.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!self.name.startsWith('SCAVENGER_')").message("env names that start with SCAVENGER_ are the operator's").field_path(".name"),
    validation = Rule::new("!(has(self.value) && has(self.valueFrom))").message("value and valueFrom exclude each other")
)]
pub struct EnvVar {
    /// Name.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"))]
    pub name: String,
    /// Value, literally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub value: Option<String>,
    /// Where the value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvVarSource>,
}

/// Where the value of a variable comes from: exactly one of the three.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef)].exists_one(x, x)").message("valueFrom needs exactly one of configMapKeyRef, secretKeyRef and fieldRef")
)]
pub struct EnvVarSource {
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
    /// A field of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
}

/// A key of a ConfigMap or Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the ConfigMap or Secret.
    #[schemars(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern))]
    pub name: String,
    /// The key.
    #[schemars(length(min = 1, max = form::DATA_KEY.longest), regex(pattern = form::DATA_KEY.pattern))]
    pub key: String,
    /// True if the pod may start without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A field of the pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldRef {
    /// Path of the field, for example `metadata.name` or `status.podIP`.
    #[schemars(length(min = 1, max = form::FIELD_PATH.longest), regex(pattern = form::FIELD_PATH.pattern))]
    pub field_path: String,
}

/// A taint that the pods tolerate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint; all keys if empty (with operator Exists).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = form::KEY_OR_NOTHING.longest), regex(pattern = form::KEY_OR_NOTHING.pattern))]
    pub key: Option<String>,
    /// Equal (default) or Exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Value of the taint, for Equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = form::LABEL_VALUE.longest), regex(pattern = form::LABEL_VALUE.pattern))]
    pub value: Option<String>,
    /// Effect of the taint; all effects if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are equal.
    Equal,
    /// The key exists.
    Exists,
}

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// No new pods if it can be avoided.
    PreferNoSchedule,
    /// No pods.
    NoExecute,
}

/// A PersistentVolumeClaim and where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeClaimMount {
    /// Name of the PersistentVolumeClaim.
    #[schemars(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern))]
    pub claim_name: String,
    /// Where it is mounted, absolute.
    #[schemars(schema_with = "shapes::absolute_path")]
    pub mount_path: String,
    /// A folder of the volume instead of its root, relative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::optional_relative_path")]
    pub sub_path: Option<String>,
    /// True if it is mounted read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// A ConfigMap and where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapMount {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern))]
    pub name: String,
    /// Where it is mounted, absolute.
    #[schemars(schema_with = "shapes::absolute_path")]
    pub mount_path: String,
}

/// A Secret and where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretMount {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern))]
    pub secret_name: String,
    /// Where it is mounted, absolute.
    #[schemars(schema_with = "shapes::absolute_path")]
    pub mount_path: String,
}

/// What became of a ScavengerJob; written by the operator only, and always as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ScavengerJobStatus {
    /// Where it is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Why it is in this phase, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Conditions Admitted, Complete and Failed; in a pool with a supervisor also Supervised (false: why the last attempt
    /// runs without it), SavesOnSigterm (false: an attempt wrote no checkpoint after SIGTERM) and Starved (while it gets next
    /// to no processor time).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::conditions")]
    pub conditions: Vec<Condition>,
    /// How often an attempt was taken away after a container of it had started.
    #[serde(default)]
    pub interrupted_count: i64,
    /// Those interruptions that advance it in the queue (at most 10 do) and raise its PriorityClass: by the scheduler,
    /// the eviction API, the taint manager, the node or the operator. Deletions by people and `spec.suspend` do not.
    #[serde(default)]
    pub counted_interruptions: i64,
    /// Interruptions since an attempt last ran for a whole `interruptionAfter`; the delay after the next one grows with
    /// it.
    #[serde(default)]
    pub interruptions_in_a_row: i64,
    /// Attempts in a row that ended without a sign whether the workload or the cluster ended them. The second one fails
    /// the ScavengerJob.
    #[serde(default)]
    pub unknown_ends_in_a_row: i64,
    /// Nodes on which a container was killed for memory although it used less than its limit, one for each time since an
    /// attempt last ran for a whole `interruptionAfter`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub out_of_memory_nodes: Vec<String>,
    /// Seconds that ended attempts ran, all pods together, for `spec.activeDeadlineSeconds`.
    #[serde(default)]
    pub active_seconds: i64,
    /// When the running priority last fell back to its lowest level, as of the last write of this status. The priority
    /// rises in the pool's `prioritySteps` over `interruptionAfter`, and starts over at its end or at a reported checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_start_over_timestamp: Option<Time>,
    /// When the workload last wrote a checkpoint, as its supervisor reported: from then on the running priority rises again.
    /// Reports are written together with other changes, or within a minute or so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint_time: Option<Time>,
    /// How far the workload has come, from 0 to 1, as it last said in `spec.checkpoint.progressPath`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub progress: Option<f64>,
    /// What the active or last attempt was measured to use, where the cluster serves metrics.k8s.io. Written after a
    /// minute, then each time the measured time has doubled or a peak has grown, and with other changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// When it started to run, the newest 50 times, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub start_times: Vec<Time>,
    /// When it was interrupted, the newest 50 times, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub interruption_times: Vec<Time>,
    /// When it was completed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
    /// No new attempt starts before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Withdrawals and failed starts in a row; the delay before the next attempt grows with it.
    #[serde(default)]
    pub failed_starts: i64,
    /// Since when admission has refused each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_since: Option<Time>,
    /// When it is expected to start, while it waits: 8 of 10 such forecasts hold. As of the last write of this status, so it may
    /// be hours old; nothing is written for its sake. Not given while it does not wait for capacity, and as long as the operator
    /// has seen too few starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<ExpectedStart>,
    /// Hash of the fields of the spec from which containers are created (image, command, env, what is mounted), of the newest
    /// attempt in which a container had started. While the spec has the same, it does not fail because a container cannot be
    /// created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_container_hash: Option<String>,
    /// The active attempt, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// Attempts that ended, the newest 50, oldest first, with what each really ran with. Beyond 256 KiB the oldest lose
    /// their arguments, or go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<Attempt>,
}

/// Between when a ScavengerJob is expected to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ExpectedStart {
    /// One in ten starts earlier.
    pub earliest: Time,
    /// One in ten starts later.
    pub latest: Time,
    /// When this was forecast.
    pub forecast_time: Time,
}

impl ExpectedStart {
    /// `between 2026-11-28 14:10 and 16:40 UTC`: for people, who need no seconds.
    #[must_use]
    pub fn between(&self) -> String {
        let minute = |time: &Time| {
            let text = time.0.to_string();
            text.get(..16).unwrap_or(&text).replace('T', " ")
        };
        let (earliest, latest) = (minute(&self.earliest), minute(&self.latest));
        let same_day = earliest.split_once(' ').zip(latest.split_once(' '));
        let latest = match same_day {
            Some((first, last)) if first.0 == last.0 => last.1,
            _ => &latest,
        };
        format!("between {earliest} and {latest} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_of_a_forecast_is_said_once_if_it_is_one() {
        let between = |latest: &str| {
            let time = |text: &str| Time(text.parse().unwrap());
            let earliest = time("2026-11-28T14:10:59.5Z");
            ExpectedStart { forecast_time: earliest.clone(), latest: time(latest), earliest }.between()
        };
        assert_eq!(between("2026-11-28T16:40:00Z"), "between 2026-11-28 14:10 and 16:40 UTC");
        assert_eq!(between("2026-11-29T16:40:00Z"), "between 2026-11-28 14:10 and 2026-11-29 16:40 UTC");
    }

    #[test]
    fn every_field_of_the_spec_is_frozen_or_may_change_at_any_time() {
        use kube::CustomResourceExt;
        let crd = serde_json::to_value(ScavengerJob::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let spec = schema["properties"]["spec"]["properties"].as_object().unwrap();
        let mut named: Vec<&str> = FROZEN.into();
        named.extend(["suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]);
        named.sort_unstable();
        let mut fields: Vec<&str> = spec.keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(named, fields);
    }
}
