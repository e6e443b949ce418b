//! The operator of ScavengerJobs: observe, plan, apply.
//!
//! | room | module | does |
//! |---|---|---|
//! | observe | `observe`, `validate` | reads the cluster and turns it into the planner's values |
//! | plan | crate `scavenger-planner` | decides, without I/O |
//! | apply | `execute`, `evict`, `manifest`, `status` | carries the actions out |
//!
//! `controller` is the loop between them; `pool` is what the ScavengerPool's status says; `reports` takes what the
//! supervisors in pods say.

pub mod cli;
mod controller;
mod evict;
mod execute;
mod health;
mod leader;
mod manifest;
mod metrics;
mod node_shapes;
mod observe;
mod pool;
mod reports;
mod status;
mod validate;
