//! Measurements of the operator on a cluster, for `cargo xtask bench`.

mod cluster;
mod fidelity;
mod memory;
mod reports;
mod supervisor;
mod usage;
