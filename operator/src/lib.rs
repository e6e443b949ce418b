//! The operator of ScavengerJobs: observe, plan, apply.
//!
//! | room | module | does |
//! |---|---|---|
//! | observe | `observe`, crate `scavenger-specs` | reads the cluster and turns it into the planner's values |
//! | plan | crate `scavenger-planner` | decides, without I/O |
//! | apply | `execute`, `evict`, `manifest`, `status` | carries the actions out |
//!
//! `controller` is the loop between them; `pool` is what the ScavengerPool's status says; `node_use` keeps what is known of
//! the use of nodes for the next leader; `forecast` learns when those that wait will start; `reports` takes what the supervisors
//! in pods say; `record` writes what happens in a cluster for the laboratory, and has no part in the loop.

pub mod cli;
mod config_map;
mod controller;
mod evict;
mod execute;
mod forecast;
mod health;
mod leader;
mod manifest;
mod metrics;
mod node_shapes;
mod node_use;
mod observe;
mod pool;
mod record;
mod reports;
mod status;
