//! Rules of accounting `Usage` in the ScavengerPool.

use std::collections::BTreeMap;

use kube::{KubeSchema, core::Duration};
use serde::{Deserialize, Serialize};

use crate::{cel, scavenger_pool::seconds, shapes};

/// Rules of accounting `Usage`.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = cel::between("window", "30s", "24h"),
    validation = cel::between("halfLife", "1m", "168h"),
    validation = cel::between("linger", "0s", "1h"),
    validation = cel::between("maxMetricsAge", "15s", "1h"),
    validation = cel::between("metricsGracePeriod", "1m", "24h"),
    validation = cel::not_longer("maxMetricsAge", "metricsGracePeriod")
)]
pub struct UsageSpec {
    /// True if the operator only calculates and reports in `status.usage` what accounting `Usage` would bring. Everything is
    /// counted by requests meanwhile.
    #[serde(default)]
    pub dry_run: bool,

    /// True if ScavengerJobs start by use only on nodes whose node agent is live: it has asked the operator within the last five
    /// minutes. On other nodes they start by requests. What runs there by use stays. The agent makes ScavengerJobs give way to
    /// ordinary pods on the processors, and says whose fault a kill for memory was.
    #[serde(default)]
    pub require_node_agent: bool,

    /// Labels of the nodes of the pool that are counted by use, to try it on a few first; all nodes if empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::labels")]
    pub node_selector: BTreeMap<String, String>,

    /// Labels of the nodes whose kubelet has the static CPU manager (`cpuManagerPolicy: static`); none if empty. There the
    /// cores of Guaranteed pods with whole cores are theirs, used or not: what these pods request counts in addition to what
    /// the node uses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::labels")]
    pub static_cpu_node_selector: BTreeMap<String, String>,

    /// For how long a node or a pod must have been measured before its use counts instead of its requests. Between 30s and
    /// 24h.
    #[serde(default = "default_window")]
    #[schemars(schema_with = "shapes::duration")]
    pub window: Duration,

    /// After this time a sample of a node's use counts half as much. Between 1m and 168h.
    #[serde(default = "default_half_life")]
    #[schemars(schema_with = "shapes::duration")]
    pub half_life: Duration,

    /// Which percentile of the samples is the predicted peak of what ordinary pods use.
    #[serde(default = "default_percentile")]
    #[schemars(range(min = 50, max = 100))]
    pub percentile: i32,

    /// What is added to the predicted peak, in percent of it.
    #[serde(default = "default_margin_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub margin_percent: i32,

    /// For how long the ScavengerJobs of a node may be short of cpu because ordinary pods use it, before some are
    /// interrupted. At most 1h.
    #[serde(default = "default_linger")]
    #[schemars(schema_with = "shapes::duration")]
    pub linger: Duration,

    /// A node whose last sample is older takes no new ScavengerJob. Between 15s and 1h.
    #[serde(default = "default_max_metrics_age")]
    #[schemars(schema_with = "shapes::duration")]
    pub max_metrics_age: Duration,

    /// A node that was not measured for this time gives up its ScavengerJobs. Between 1m and 24h.
    #[serde(default = "default_metrics_grace_period")]
    #[schemars(schema_with = "shapes::duration")]
    pub metrics_grace_period: Duration,

    /// How many pods of ScavengerJobs may be on a node.
    #[serde(default = "default_max_pods_per_node")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_pods_per_node: i32,

    /// Longest grace period of ScavengerJobs' pods on nodes that are counted by use, whatever their
    /// `terminationGracePeriodSeconds` says: memory that ordinary pods need must be free soon.
    #[serde(default = "default_usage_grace_period")]
    #[schemars(range(min = 1, max = 3600))]
    pub max_termination_grace_period_seconds: i64,
}

impl Default for UsageSpec {
    fn default() -> Self {
        Self {
            dry_run: false,
            require_node_agent: false,
            node_selector: BTreeMap::new(),
            static_cpu_node_selector: BTreeMap::new(),
            window: default_window(),
            half_life: default_half_life(),
            percentile: default_percentile(),
            margin_percent: default_margin_percent(),
            linger: default_linger(),
            max_metrics_age: default_max_metrics_age(),
            metrics_grace_period: default_metrics_grace_period(),
            max_pods_per_node: default_max_pods_per_node(),
            max_termination_grace_period_seconds: default_usage_grace_period(),
        }
    }
}

fn default_window() -> Duration {
    seconds(300)
}

fn default_half_life() -> Duration {
    seconds(1800)
}

fn default_percentile() -> i32 {
    98
}

fn default_margin_percent() -> i32 {
    10
}

fn default_linger() -> Duration {
    seconds(60)
}

fn default_max_metrics_age() -> Duration {
    seconds(120)
}

fn default_metrics_grace_period() -> Duration {
    seconds(900)
}

fn default_max_pods_per_node() -> i32 {
    16
}

fn default_usage_grace_period() -> i64 {
    30
}
