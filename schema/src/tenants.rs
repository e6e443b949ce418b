//! How tenants share the pool.

use std::collections::BTreeMap;

use kube::{KubeSchema, core::Duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{form, shapes};

/// Which tenants there are, and in which order their ScavengerJobs start.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharingSpec {
    /// Which ScavengerJobs start first of those that were never interrupted. `Interruptions`: those that have waited longest.
    /// `FairShare`: those whose tenant used least for its weight. In both orders those that were interrupted come first, the
    /// ones that were interrupted most at the front.
    #[serde(default)]
    pub order: Order,

    /// Key of the label of namespaces that names their tenant. A namespace without this label, and each namespace if no key
    /// is given, is a tenant by its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = form::KEY.longest), regex(pattern = form::KEY.pattern))]
    pub tenant_label: Option<String>,

    /// What holds for single tenants, in both orders. A tenant that is not named has weight 1 and no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tenants: Vec<TenantSpec>,

    /// What a tenant used counts half as much after this time. 168h unless given, a week; between 1h and 8760h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::optional_duration")]
    pub share_half_life: Option<Duration>,
}

/// Which ScavengerJobs start first of those that were never interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// Those that have waited longest.
    #[default]
    Interruptions,
    /// Those whose tenant used least for its weight.
    FairShare,
}

/// What holds for one tenant.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// The tenant: a namespace, or a value of the label `tenantLabel`.
    #[schemars(length(min = 1, max = form::LABEL_VALUE.longest), regex(pattern = form::LABEL_VALUE.pattern))]
    pub name: String,

    /// Its part in proportion to the weights of others: with weight 2 it gets twice as much as one with weight 1 while both
    /// have ScavengerJobs that wait. Only the order `FairShare` looks at it.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub weight: f64,

    /// The most that it may hold, as a share of what ScavengerJobs may use of the pool now, of each resource that a
    /// ScavengerJob asks for. No limit if left out. What runs when it is lowered goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_share: Option<f64>,

    /// True while none of its ScavengerJobs starts. Those that run go on.
    #[serde(default)]
    pub paused: bool,
}

fn default_weight() -> f64 {
    1.0
}

/// How one tenant stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct TenantStatus {
    /// The tenant.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// The largest share of any of the pool's resources that it holds now.
    pub share: f64,
    /// The same of what it used: the average in which a half-life ago counts half as much.
    pub used: f64,
    /// Its ScavengerJobs that start or run.
    pub running: i32,
    /// Those that wait, for whatever reason.
    pub waiting: i32,
    /// The average of what its attempts held, up to `tenantsCountedUntil`: cpu in cores, memory and storage in GiB, all else in
    /// units. The operator goes on from here when it starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub averages: BTreeMap<String, f64>,
}
