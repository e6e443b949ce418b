//! The ScavengerPool: what admins set while everything runs, and what everyone may know about the capacity there is.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, Time},
    util::intstr::IntOrString,
};
use kube::{CustomResource, KubeSchema, core::Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use scavenger_vocabulary::{Accounting, Reason};

use crate::{
    cel,
    configurations::Configurations,
    form,
    shapes::{self, Quantity},
    supervisor::PoolSupervisor,
    tenants::{SharingSpec, TenantStatus},
};

pub use crate::{limits::Limits, usage::UsageSpec};

/// The nodes on which ScavengerJobs may run, and the rules for using them. One object named `default` for now.
#[derive(CustomResource, KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "scavenger.dev",
    version = "v1alpha1",
    kind = "ScavengerPool",
    plural = "scavengerpools",
    status = "ScavengerPoolStatus",
    derive = "PartialEq",
    doc = "The nodes on which ScavengerJobs may run, and the rules for using them.",
    printcolumn(name = "Threshold", type_ = "number", json_path = ".status.startThreshold"),
    printcolumn(name = "Window", type_ = "string", json_path = ".status.window"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes"),
    printcolumn(name = "CPU used", type_ = "string", json_path = ".status.used.cpu"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.allocatable.cpu"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.queue.running"),
    printcolumn(name = "Waiting", type_ = "integer", json_path = ".status.queue.waiting"),
    printcolumn(name = "Tenants", type_ = "string", json_path = ".status.shares", priority = 1),
    validation = Rule::new("self.metadata.name == 'default'").message("metadata.name must be 'default': one pool is read for now")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = cel::at_least("pendingTimeout", "1s"),
    validation = cel::at_least("startDeadline", "1s"),
    validation = cel::between("reserveAfter", "1s", "168h"),
    validation = cel::between_if_given("minimumRun", "0s", "24h"),
    validation = cel::between_if_given("shareHalfLife", "1h", "8760h"),
    validation = Rule::new("!has(self.interruptThreshold) || dyn(self.interruptThreshold) == null || self.interruptThreshold >= 1.0 || (self.startThreshold <= self.headroomTarget && self.headroomTarget < self.interruptThreshold)").message("headroomTarget must be at least startThreshold and below interruptThreshold (interruptThreshold: 1 switches headroom off)").field_path(".headroomTarget"),
    validation = Rule::new("(has(self.interruptThresholdOverrides) ? self.interruptThresholdOverrides.map(k, k) : []).all(k, self.interruptThresholdOverrides[k] >= 1.0 || ((has(self.startThresholdOverrides) && k in self.startThresholdOverrides ? self.startThresholdOverrides[k] : self.startThreshold) <= (has(self.headroomTargetOverrides) && k in self.headroomTargetOverrides ? self.headroomTargetOverrides[k] : self.headroomTarget) && (has(self.headroomTargetOverrides) && k in self.headroomTargetOverrides ? self.headroomTargetOverrides[k] : self.headroomTarget) < self.interruptThresholdOverrides[k]))").message("for each resource in interruptThresholdOverrides the headroom target must be at least the start threshold and below the interrupt threshold (1 switches it off)").field_path(".interruptThresholdOverrides"),
    validation = Rule::new("!has(self.interruptThreshold) || dyn(self.interruptThreshold) == null || self.interruptThreshold >= 1.0 || ['cpu', 'memory', 'pods'].all(k, (has(self.interruptThresholdOverrides) && k in self.interruptThresholdOverrides) || ((has(self.startThresholdOverrides) && k in self.startThresholdOverrides ? self.startThresholdOverrides[k] : self.startThreshold) <= (has(self.headroomTargetOverrides) && k in self.headroomTargetOverrides ? self.headroomTargetOverrides[k] : self.headroomTarget) && (has(self.headroomTargetOverrides) && k in self.headroomTargetOverrides ? self.headroomTargetOverrides[k] : self.headroomTarget) < self.interruptThreshold))").message("for cpu, memory and pods the headroom target must be at least the start threshold and below interruptThreshold (1 switches headroom off)").field_path(".headroomTargetOverrides"),
    validation = cel::thresholds_in("windows", "window"),
    validation = cel::thresholds_in("nodeGroups", "group"),
    validation = cel::below_interrupt_threshold_by_use()
)]
pub struct ScavengerPoolSpec {
    /// Labels that a node of the pool must have; every node if empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Keys of node taints that ScavengerJobs may tolerate. A node with another NoSchedule or NoExecute taint is not
    /// in the pool; one with these is used by the ScavengerJobs that tolerate its taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = form::KEY_OR_NOTHING.longest), regex(pattern = form::KEY_OR_NOTHING.pattern)))]
    pub tolerated_taints: Vec<String>,

    /// A ScavengerJob starts only while the pool's used resources, the ScavengerJob included, stay within this share
    /// of what is allocatable.
    #[serde(default = "default_start_threshold")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub start_threshold: f64,

    /// Thresholds of single resources, for example 1 for `nvidia.com/gpu`, since 70% of one GPU is none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub start_threshold_overrides: BTreeMap<String, f64>,

    /// Most ScavengerJobs that may be starting at the same time. A ScavengerJob is starting from its admission until all
    /// of its pods are on nodes. At most half of these starts go to ScavengerJobs whose last start failed.
    #[serde(default = "default_max_concurrent_starts")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_concurrent_starts: i32,

    /// An attempt with a pod that stays unscheduled longer than this is withdrawn.
    #[serde(default = "default_pending_timeout")]
    #[schemars(schema_with = "shapes::duration")]
    pub pending_timeout: Duration,

    /// A start whose container is not created within this time is over. The ScavengerJob has failed if what it asks for
    /// is to blame, such as an image that does not exist; else the attempt is withdrawn and tried again.
    #[serde(default = "default_start_deadline")]
    #[schemars(schema_with = "shapes::duration")]
    pub start_deadline: Duration,

    /// A missing PersistentVolumeClaim, ConfigMap or service account is final only after this time, so that the order
    /// in which objects are applied does not matter.
    #[serde(default = "default_reference_grace")]
    #[schemars(schema_with = "shapes::duration")]
    pub reference_grace: Duration,

    /// A ScavengerJob whose Job or pods are refused by admission (policies, webhooks, LimitRanges, Pod Security) is tried
    /// again, and fails once each start was refused for this time.
    #[serde(default = "default_refusal_grace")]
    #[schemars(schema_with = "shapes::duration")]
    pub refusal_grace: Duration,

    /// How long a ScavengerJob waits at least after an interruption before its next attempt.
    #[serde(default = "default_interruption_backoff")]
    #[schemars(schema_with = "shapes::duration")]
    pub interruption_backoff: Duration,

    /// A ScavengerJob that has waited for this long although it would fit beside the ordinary pods gets a standing
    /// reservation: what those that came later give back is kept for it until it starts, so that nobody waits forever
    /// behind smaller ones. Between 1s and 168h.
    #[serde(default = "default_reserve_after")]
    #[schemars(schema_with = "shapes::duration")]
    pub reserve_after: Duration,

    /// In how many equal steps the running priority rises over `interruptionAfter`.
    #[serde(default = "default_priority_steps")]
    #[schemars(range(min = 1, max = 10))]
    pub priority_steps: i32,

    /// What a second of each resource is worth when it is calculated what an interruption would throw away: of a core,
    /// of a GiB of memory or storage, of a unit of anything else. Only their ratios matter. By default cpu 1, memory
    /// 0.125 (a core usually comes with 8 GiB), ephemeral-storage 0 and any extended resource 8 (a GPU usually comes
    /// with 8 cores or more). What is named here replaces the default of that resource. gromacs-submitter takes what is
    /// named here for memory and `nvidia.com/gpu`, in cores, as their prices when configurations are chosen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::weights")]
    pub weights: BTreeMap<String, f64>,

    /// What decides in which of its possible configurations a job is submitted. The operator does not read it; programs
    /// that submit do, such as gromacs-submitter, for rows and tenants that say nothing else.
    #[serde(default)]
    pub configurations: Configurations,

    /// When more than this share of cpu, memory or pods is used by pods on the pool's nodes, the ScavengerJobs that
    /// lose least are interrupted until `headroomTarget` is reached, so that others find capacity at once. 1 switches that
    /// off. So does `null` in a pool that is created or replaced; a merge patch, as `kubectl edit` and `kubectl patch`
    /// send it, takes `null` for leaving the field out, and the default comes back.
    #[serde(default = "default_interrupt_threshold")]
    #[schemars(schema_with = "shapes::optional_share")]
    pub interrupt_threshold: Option<f64>,

    /// The same for single resources. Extended resources that are not named here have none, since they come in whole
    /// units; 1 switches it off for a resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub interrupt_threshold_overrides: BTreeMap<String, f64>,

    /// Down to which share of what is allocatable ScavengerJobs go once `interruptThreshold` was passed.
    #[serde(default = "default_headroom_target")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub headroom_target: f64,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub headroom_target_overrides: BTreeMap<String, f64>,

    /// An attempt that has run for less is interrupted for headroom, or because ordinary pods use more of a node, only if
    /// all others do not suffice. None by default, since one that has just begun loses least; 24h at most. What a waiting ordinary
    /// pod needs does not ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::optional_duration")]
    pub minimum_run: Option<Duration>,

    /// Windows of time with other thresholds, for example nights and weekends. The first one in the list that is open
    /// counts; while none is, the thresholds above hold. What a window leaves out is as above, and a resource that its
    /// overrides do not name has the pool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub windows: Vec<ThresholdWindow>,

    /// Groups of nodes with other thresholds, for example nodes with fast networks that ordinary pods are to find free. A
    /// node belongs to the first group of the list whose labels it has. What a group leaves out is as above; `windows` do not
    /// change a group's thresholds. With groups the operator chooses the node of each ScavengerJob of one pod, and
    /// `startThreshold` holds for each node: that of its group, or the pool's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub node_groups: Vec<NodeGroup>,

    /// How many ScavengerJobs may be interrupted in a time for causes that can wait: headroom, nodes that left the pool, nodes that
    /// are not measured, and growth of ordinary pods. Of all budgets that hold and name a reason the
    /// smallest counts. A reason that none of them names has the usual budget for itself: 10% of the ScavengerJobs that hold
    /// capacity, at least 10, in 10s. What a waiting ordinary pod, a node under pressure or short of memory, or a drain
    /// needs is never delayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub disruption_budgets: Vec<DisruptionBudget>,

    /// How cpu and memory are counted. `Requests`: by what pods request, as kube-scheduler does. `Usage`: by what ordinary
    /// pods really use, so that ScavengerJobs run on what is reserved but not used; their pods request next to nothing and
    /// are placed by the operator. It needs metrics.k8s.io. May change at any time: what runs is counted to its end as it was
    /// when it started. ScavengerJobs of several pods are always counted by requests.
    #[serde(default)]
    pub accounting: Accounting,

    /// Rules of accounting `Usage`.
    #[serde(default)]
    pub usage: UsageSpec,

    /// Who frees capacity for a pending ordinary pod. `Scheduler`: kube-scheduler preempts on its own. `Operator`: for pods
    /// with `preemptionPolicy: Never` the operator interrupts the ScavengerJobs that lose least; see
    /// deploy/preemption-operator for what else that needs.
    #[serde(default)]
    pub preemption_mode: PreemptionMode,

    /// How tenants share the pool.
    #[serde(flatten)]
    pub sharing: SharingSpec,

    /// True while no ScavengerJob starts. Those that run go on.
    #[serde(default)]
    pub paused: bool,

    /// True while every ScavengerJob is interrupted and none starts.
    #[serde(default)]
    pub drain: bool,

    /// What a ScavengerJob may ask for. Checked when one is created or the field in question changes; those that are
    /// there already stay as they are. `toleratedTaints` limits their tolerations in the same way.
    #[serde(default)]
    pub limits: Limits,

    /// Users that may create ScavengerJobs in a namespace without the right to create Jobs there: programs that submit
    /// for others, and judge themselves who may. By default the gromacs-submitter.
    #[serde(default = "default_trusted_creators")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 512)))]
    pub trusted_creators: Vec<String>,

    /// The program that runs as process 1 of ScavengerJobs' containers: it brings signals to the workload and reports its
    /// checkpoints. None if not given: then workloads run without it, and nobody sees their checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<PoolSupervisor>,
}

fn default_trusted_creators() -> Vec<String> {
    vec!["system:serviceaccount:scavenger-system:gromacs-submitter".to_owned()]
}

/// A window of time with thresholds of its own.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThresholdWindow {
    /// What it is called, for example `nights`; shown in `status.window` while it is open.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// When it is open.
    #[serde(flatten)]
    pub schedule: Schedule,

    /// `startThreshold` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub start_threshold: Option<f64>,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub start_threshold_overrides: BTreeMap<String, f64>,

    /// `interruptThreshold` while it is open; 1 switches headroom off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub interrupt_threshold: Option<f64>,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub interrupt_threshold_overrides: BTreeMap<String, f64>,

    /// `headroomTarget` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub headroom_target: Option<f64>,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub headroom_target_overrides: BTreeMap<String, f64>,
}

/// Times that come again each week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Days of the week on which it opens; every day if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7))]
    pub days: Vec<Day>,

    /// When it opens, as hours and minutes, for example `20:00`.
    #[schemars(schema_with = "shapes::time_of_day")]
    pub start: String,

    /// When it closes, for example `06:00`. It stays open over midnight if that is not after `start`; for 24 hours if
    /// both are equal.
    #[schemars(schema_with = "shapes::time_of_day")]
    pub end: String,

    /// Whose clocks these are: a name of the IANA time zone database, for example `Europe/Berlin`. Where clocks change,
    /// the window moves with them.
    #[serde(default = "default_time_zone")]
    #[schemars(length(min = 1, max = form::TIME_ZONE.longest), regex(pattern = form::TIME_ZONE.pattern))]
    pub time_zone: String,
}

/// How many ScavengerJobs may be interrupted in a time for causes that can wait.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = cel::between("period", "1s", "168h"))]
pub struct DisruptionBudget {
    /// For which reasons together; for all of these if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::planned_reasons")]
    pub reasons: Vec<Reason>,

    /// How many: a number, such as 5, or a share of the ScavengerJobs that hold capacity, such as `10%`. A share is rounded down,
    /// and allows at least one unless it is `0%`. 0 allows none.
    #[schemars(schema_with = "shapes::number_or_share")]
    pub jobs: IntOrString,

    /// In any time of this length, between 1s and 168h.
    #[serde(default = "default_budget_period")]
    #[schemars(schema_with = "shapes::duration")]
    pub period: Duration,

    /// When it holds; always if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

fn default_budget_period() -> Duration {
    seconds(10)
}

/// Nodes with thresholds of their own.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroup {
    /// What it is called, for example `infiniband`; shown by `scavenger-operator nodes` and in messages.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// Labels that each of its nodes has.
    #[schemars(schema_with = "shapes::some_labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Up to which share of such a node ScavengerJobs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub start_threshold: Option<f64>,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub start_threshold_overrides: BTreeMap<String, f64>,

    /// When more than this share of the group is used, ScavengerJobs on its nodes are interrupted; 1 switches that off. With
    /// accounting `Usage` this is looked at on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub interrupt_threshold: Option<f64>,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub interrupt_threshold_overrides: BTreeMap<String, f64>,

    /// Down to which share they are interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub headroom_target: Option<f64>,

    /// The same for single resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::thresholds")]
    pub headroom_target_overrides: BTreeMap<String, f64>,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

fn default_time_zone() -> String {
    "Etc/UTC".to_owned()
}

/// Who frees capacity for a pending ordinary pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PreemptionMode {
    /// kube-scheduler, by priority and age.
    #[default]
    Scheduler,
    /// The operator, by expected loss.
    Operator,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of a field that may be null")]
fn default_interrupt_threshold() -> Option<f64> {
    Some(0.9)
}

fn default_headroom_target() -> f64 {
    0.85
}

fn default_start_threshold() -> f64 {
    0.7
}

fn default_max_concurrent_starts() -> i32 {
    10
}

fn default_priority_steps() -> i32 {
    3
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    std::time::Duration::from_secs(seconds).into()
}

fn default_pending_timeout() -> Duration {
    seconds(60)
}

fn default_start_deadline() -> Duration {
    seconds(300)
}

fn default_reference_grace() -> Duration {
    seconds(30)
}

fn default_refusal_grace() -> Duration {
    seconds(24 * 3600)
}

fn default_interruption_backoff() -> Duration {
    seconds(30)
}

fn default_reserve_after() -> Duration {
    seconds(600)
}

impl Default for ScavengerPoolSpec {
    fn default() -> Self {
        Self {
            node_selector: BTreeMap::new(),
            tolerated_taints: Vec::new(),
            start_threshold: default_start_threshold(),
            start_threshold_overrides: BTreeMap::new(),
            max_concurrent_starts: default_max_concurrent_starts(),
            pending_timeout: default_pending_timeout(),
            start_deadline: default_start_deadline(),
            reference_grace: default_reference_grace(),
            refusal_grace: default_refusal_grace(),
            interruption_backoff: default_interruption_backoff(),
            reserve_after: default_reserve_after(),
            priority_steps: default_priority_steps(),
            weights: BTreeMap::new(),
            configurations: Configurations::default(),
            interrupt_threshold: default_interrupt_threshold(),
            interrupt_threshold_overrides: BTreeMap::new(),
            headroom_target: default_headroom_target(),
            headroom_target_overrides: BTreeMap::new(),
            minimum_run: None,
            windows: Vec::new(),
            node_groups: Vec::new(),
            disruption_budgets: Vec::new(),
            accounting: Accounting::default(),
            usage: UsageSpec::default(),
            preemption_mode: PreemptionMode::default(),
            sharing: SharingSpec::default(),
            paused: false,
            drain: false,
            limits: Limits::default(),
            trusted_creators: default_trusted_creators(),
            supervisor: None,
        }
    }
}

/// The capacity of the pool as the operator sees it; written at most every 5 seconds, and at least every minute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ScavengerPoolStatus {
    /// `metadata.generation` of the spec in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this status was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
    /// Conditions Ready (false with the reason while nothing can be admitted), UnjudgedPods (true while pending
    /// pods wait for which nothing is interrupted, since not all of their constraints can be judged),
    /// MemoryMeasured (false: only pressure conditions of nodes are seen; the message says since when) and, in a pool
    /// with `spec.supervisor`, SupervisorStarts (false: ScavengerJobs run without the supervisor because it could not be started).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::conditions")]
    pub conditions: Vec<Condition>,
    /// The window of `spec.windows` that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The start threshold that holds now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_threshold: Option<f64>,
    /// Number of nodes in the pool that can take pods.
    #[serde(default)]
    pub nodes: i32,
    /// What these nodes have for pods, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What is used or promised of it, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub used: BTreeMap<String, Quantity>,
    /// What ScavengerJobs may still take under the threshold, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub free: BTreeMap<String, Quantity>,
    /// How nodes that are counted by use stand; not given with accounting `Requests`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageStatus>,
    /// Interruptions that `spec.disruptionBudgets` hold back, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub held_back: Vec<HeldBack>,
    /// How tenants stand, those that used most first: at most 1000. Not given where the spec says nothing of tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub tenants: Vec<TenantStatus>,
    /// Up to when it counts what they used. What attempts have held since stands in the statuses of their ScavengerJobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants_counted_until: Option<Time>,
    /// The first of them, with the share that each holds and the one that it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<String>,
    /// Which nodes of the pool have a live node agent; not given while no agent is live and none is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_agents: Option<NodeAgentsStatus>,
    /// Nodes that are alike, with their labels and the capacity they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub node_shapes: Vec<NodeShape>,
    /// How many ScavengerJobs are where.
    #[serde(default)]
    pub queue: Queue,
    /// What the operator knows of when those that wait will start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<ForecastStatus>,
}

/// What is known of when ScavengerJobs start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ForecastStatus {
    /// Starts of ScavengerJobs that had to wait. With fewer than 30 nothing is forecast.
    pub starts_seen: i64,
    /// Of the forecasts whose end came lately, the part that held, from 0 to 1: it is kept at 0.8. Not given before 30 ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    /// What was learnt, for the next leader: at most 40 kB. Only the operator reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt: Option<String>,
}

/// How nodes that are counted by use stand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct UsageStatus {
    /// Nodes whose use is known.
    pub nodes: i32,
    /// Nodes that are counted by requests until they have been measured for long enough.
    #[serde(default)]
    pub estimated_nodes: i32,
    /// Nodes that take no new ScavengerJob because their last sample is too old.
    #[serde(default)]
    pub unmeasured_nodes: i32,
    /// Nodes that are counted by requests for a day because they were short of memory, and an ordinary container was killed
    /// or an ordinary pod evicted while ScavengerJobs were there: at most 50 names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub tripped_nodes: Vec<String>,
    /// What ordinary pods request on these nodes: cpu and memory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub requested: BTreeMap<String, Quantity>,
    /// What ordinary pods are expected to use there at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub expected: BTreeMap<String, Quantity>,
    /// What ScavengerJobs hold there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub held: BTreeMap<String, Quantity>,
    /// What accounting `Usage` would have brought; only with `spec.usage.dryRun`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<DryRunStatus>,
}

/// Interruptions for one reason that budgets hold back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct HeldBack {
    /// The reason.
    pub reason: String,
    /// How many ScavengerJobs.
    pub jobs: i32,
    /// When the next of them may be interrupted; not given if the budgets never allow it as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_time: Option<Time>,
}

/// Which nodes of the pool have a live node agent: one that asked the operator within the last five minutes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeAgentsStatus {
    /// How many have one.
    pub live: i32,
    /// How many have none.
    pub missing: i32,
    /// Names of those that have none: at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub missing_nodes: Vec<String>,
}

/// What accounting `Usage` would have brought if there had always been a ScavengerJob for each core that is free by use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct DryRunStatus {
    /// Since when it is calculated. A new leader begins again.
    pub since: Time,
    /// Core-hours that ScavengerJobs would have had beyond what they get by requests.
    pub core_hours: f64,
    /// How often cpu or memory of a node would have been taken back.
    pub interruptions: i64,
}

/// Nodes with about the same allocatable resources and the same hardware labels. Those that have devices (GPUs) are two
/// shapes if some have free devices and others have none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NodeShape {
    /// How many such nodes there are.
    pub count: i32,
    /// Their common labels that tell which hardware they are (architecture, instance type, CPU model, GPU product).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub labels: BTreeMap<String, String>,
    /// What each of them has for pods.
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What is free on one of them: the one with the most free devices, then the most free cpu, then the most free memory.
    #[schemars(schema_with = "shapes::atomic_resource_list")]
    pub largest_free: BTreeMap<String, Quantity>,
}

/// How many ScavengerJobs are where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Queue {
    /// Waiting or interrupted, whatever the reason.
    #[serde(default)]
    pub waiting: i32,
    /// Starting.
    #[serde(default)]
    pub starting: i32,
    /// Running.
    #[serde(default)]
    pub running: i32,
    /// Those that wait, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub waiting_by_reason: BTreeMap<String, i32>,
}
