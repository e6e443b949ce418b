//! How tenants share the pool, and what is written down of what they used.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Attempt, Name,
    resources::{CPU, Resources, Share, Weight, is_in_bytes},
};

/// Who comes first of those that were never interrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Those that have waited longest.
    #[default]
    Interruptions,
    /// Those whose tenant used least for its weight.
    FairShare,
}

/// What holds for one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// What it may use in proportion to others.
    pub weight: Weight,
    /// The most that it may hold of what ScavengerJobs may use; no limit if none.
    pub max_share: Option<Share>,
    /// True while none of its ScavengerJobs starts.
    pub paused: bool,
}

impl Default for Tenant {
    /// That of a tenant that is not named.
    fn default() -> Self {
        Self { weight: Weight::ONE, max_share: None, paused: false }
    }
}

/// How tenants share the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// Who comes first.
    pub order: Order,
    /// Key of the label of namespaces that names their tenant. A namespace without it is a tenant by its own name.
    pub label: Option<Name>,
    /// After this time what was used counts half as much.
    pub half_life: SignedDuration,
    /// The tenants that are named.
    pub tenants: BTreeMap<Name, Tenant>,
}

/// An average of every resource: of cpu in cores, of what is counted in bytes in GiB, of anything else in units.
pub type Averages = BTreeMap<Name, f64>;

/// How much of a resource is 1 in [`Averages`].
#[must_use]
pub fn unit(resource: &str) -> f64 {
    match resource {
        CPU => 1000.0,
        _ if is_in_bytes(resource) => f64::from(1 << 30),
        _ => 1.0,
    }
}

/// What tenants used up to a time, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Up to when it counts.
    pub until: Timestamp,
    /// By tenant.
    pub used: BTreeMap<Name, Averages>,
}

/// For how long an attempt held what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Number of the attempt.
    pub attempt: u32,
    /// What all of its pods requested.
    pub held: Resources,
    /// When it was decided to start it.
    pub from: Timestamp,
    /// When it ended.
    pub until: Option<Timestamp>,
}

impl Stretch {
    /// That of an attempt, by what its status says.
    #[must_use]
    pub fn of(attempt: &Attempt) -> Self {
        Self {
            attempt: attempt.number,
            held: attempt.demand.total(),
            from: attempt.creation_time,
            until: attempt.end_time,
        }
    }
}
