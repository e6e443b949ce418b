//! A model of a cluster in virtual time, with the planner in it.
//!
//! | part | where |
//! |---|---|
//! | the clock, the events and the planner in the middle | `cluster` |
//! | what the API server answers to actions, and what every write must keep | `api` |
//! | what Kubernetes does, and what people do to it | `kubernetes` |
//! | what must hold in the cluster at every instant | `truth` |
//!
//! After every single plan the model checks [`scavenger_planner::check`] and plans again at once: nothing may come of
//! it. There is no randomness but that of a seed, so a run can always be repeated.

mod api;
mod cluster;
mod kubernetes;
mod truth;

pub use cluster::{Cluster, Delays, Fault, Kill, Random, Stream, Workload};

use scavenger_planner::fixtures::{at, key, millis, pod, seconds, settings};
