//! Turns rows of `gromacs_to_tune` into ScavengerJobs, follows them, and writes down what came of it.
//!
//! The state machine ([`advance`]) is pure. [`store`] holds all SQL, [`cluster`] all requests to Kubernetes,
//! [`tuner_client`] the one to the tuner; [`worker`] carries out one row's steps, [`daemon`] many rows at once.

pub mod advance;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod daemon;
pub mod faults;
#[cfg(test)]
mod fixtures;
pub mod folder;
pub mod follower;
pub mod gmx_options;
mod gpus;
pub mod grompp_log;
pub mod grompp_options;
pub mod health;
pub mod heard;
pub mod ladder_settings;
pub mod manifest;
pub mod mdrun_log;
pub mod mdrun_options;
pub mod multidir;
pub mod probe;
pub mod put;
pub mod quota;
pub mod store;
mod suspension;
pub mod tenant;
mod text;
pub mod tuner_client;
pub mod view;
pub mod webhook;
pub mod worker;
