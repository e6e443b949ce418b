//! Limits of the pool: what ScavengerJobs may ask for. Policies of the API server enforce them.

use std::collections::BTreeMap;

use kube::{KubeSchema, core::Duration};
use serde::{Deserialize, Serialize};

use crate::{
    cel, form,
    scavenger_pool::seconds,
    shapes::{self, Quantity},
};

/// The most pods that a ScavengerJob may have.
pub const MAX_POD_COUNT: i32 = 1000;

/// What a ScavengerJob may ask for. A limit that is not there is none.
#[derive(KubeSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = cel::at_least("minInterruptionAfter", "1s"),
    validation = cel::not_longer("minInterruptionAfter", "maxInterruptionAfter"),
    validation = cel::quantities("maxResources"),
    validation = cel::not_negative("maxResources"),
    validation = Rule::new("!has(self.minRunAsUser) || !has(self.maxRunAsUser) || self.minRunAsUser <= self.maxRunAsUser").message("maxRunAsUser must not be less than minRunAsUser").field_path(".maxRunAsUser"),
    validation = Rule::new("!has(self.minRunAsGroup) || !has(self.maxRunAsGroup) || self.minRunAsGroup <= self.maxRunAsGroup").message("maxRunAsGroup must not be less than minRunAsGroup").field_path(".maxRunAsGroup")
)]
pub struct Limits {
    /// Shortest `interruptionAfter`, 1 minute by default: each attempt costs a start, and a shorter stretch is lost on
    /// it.
    #[serde(default = "default_min_interruption_after")]
    #[schemars(schema_with = "shapes::duration")]
    pub min_interruption_after: Duration,

    /// Longest `interruptionAfter`, 2 hours by default: as much work can be lost with each interruption.
    #[serde(default = "default_max_interruption_after")]
    #[schemars(schema_with = "shapes::duration")]
    pub max_interruption_after: Duration,

    /// Longest `terminationGracePeriodSeconds`, 60 by default: an ordinary pod waits as long for its capacity.
    #[serde(default = "default_max_grace_period")]
    #[schemars(range(min = 1, max = 3600))]
    pub max_termination_grace_period_seconds: i64,

    /// Smallest `runAsUser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub min_run_as_user: Option<i64>,

    /// Largest `runAsUser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_run_as_user: Option<i64>,

    /// Smallest `runAsGroup` and `fsGroup`, also where they follow from `runAsUser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub min_run_as_group: Option<i64>,

    /// Largest `runAsGroup` and `fsGroup`, also where they follow from `runAsUser`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_run_as_group: Option<i64>,

    /// Largest `podCount`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_POD_COUNT))]
    pub max_pod_count: Option<i32>,

    /// The most that one ScavengerJob may request with all of its pods together, by resource; 0 forbids a resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shapes::resource_list")]
    pub max_resources: BTreeMap<String, Quantity>,

    /// RuntimeClasses that ScavengerJobs may have. If not given, every class that has no say in where pods go. A class that has
    /// one (`scheduling`) must be named here, and the keys that it tolerates in `toleratedTaints`, or ScavengerJobs of it wait
    /// with reason Refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern)))]
    pub allowed_runtime_classes: Vec<String>,

    /// Service accounts that ScavengerJobs may name, in whatever namespace. If not given, every one; an empty list allows none. A
    /// ScavengerJob that names none gets no token, and is always allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern)))]
    pub allowed_service_accounts: Option<Vec<String>>,

    /// Images that ScavengerJobs may have, as their specs write them: an image, or the beginning of one and `*` behind `/`, `:` or `@`,
    /// such as `registry.example/chem/*`. If not given, every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = form::IMAGES.longest), regex(pattern = form::IMAGES.pattern)))]
    pub allowed_images: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_interruption_after: default_min_interruption_after(),
            max_interruption_after: default_max_interruption_after(),
            max_termination_grace_period_seconds: default_max_grace_period(),
            min_run_as_user: None,
            max_run_as_user: None,
            min_run_as_group: None,
            max_run_as_group: None,
            max_pod_count: None,
            max_resources: BTreeMap::new(),
            allowed_runtime_classes: Vec::new(),
            allowed_service_accounts: None,
            allowed_images: Vec::new(),
        }
    }
}

fn default_min_interruption_after() -> Duration {
    seconds(60)
}

fn default_max_interruption_after() -> Duration {
    seconds(7200)
}

fn default_max_grace_period() -> i64 {
    60
}
