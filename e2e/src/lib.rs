//! What the end-to-end tests share: a namespace for each test, and waiting for conditions.
//!
//! The tests run against the cluster named by [`KUBECONFIG`], with operator, tuner and submitter installed;
//! `cargo xtask test` makes one. Without it they say that they are skipped, except in CI, where that is a failure.

pub mod alone;
pub mod by_use;
pub mod cgroup;
pub mod checkpointing;
pub mod chemist;
pub mod egress;
pub mod faults;
pub mod forward;
pub mod gromacs;
pub mod growth;
pub mod halted;
pub mod interruption;
pub mod kubectl;
pub mod load;
pub mod local;
pub mod metrics;
pub mod metrics_server;
pub mod node_agent;
pub mod played;
mod pool_border;
pub mod postgres;
pub mod queue;
pub mod registry;
pub mod room;
pub mod sql_proxy;
pub mod tool;
pub mod users;
pub mod volume;
pub mod world;

use std::hash::{BuildHasher, RandomState};

pub use world::{World, run};

/// Environment variable that names the kubeconfig of the cluster to test on.
pub const KUBECONFIG: &str = "SCAVENGER_E2E_KUBECONFIG";

/// Environment variable with the path of a kubectl that fits the cluster, for tests that follow the README.
pub const KUBECTL: &str = "SCAVENGER_E2E_KUBECTL";

/// Environment variable with the folder of the cgroups of the cluster's pods, on this machine.
pub const KUBEPODS: &str = "SCAVENGER_E2E_KUBEPODS";

/// Environment variable that lets the test run that takes the installation away; `cargo xtask test` sets it at the very
/// end.
pub const LAST: &str = "SCAVENGER_E2E_LAST";

/// Environment variable that keeps the namespaces of failed tests.
pub const KEEP: &str = "SCAVENGER_E2E_KEEP";

/// Environment variable with the number of repetitions of tests that repeat; `cargo xtask soak` raises it.
pub const REPEAT: &str = "SCAVENGER_E2E_REPEAT";

/// Number of repetitions asked for, or `modest` without a wish.
#[must_use]
pub fn repetitions(modest: usize) -> usize {
    std::env::var(REPEAT).ok().and_then(|text| text.parse().ok()).unwrap_or(modest)
}

/// A number that nobody knows before: which simulation is interrupted, how, and when.
#[must_use]
pub fn random(below: usize) -> usize {
    usize::try_from(RandomState::new().hash_one(0) % u64::try_from(below.max(1)).unwrap_or(1)).unwrap_or(0)
}
