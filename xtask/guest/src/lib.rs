//! The pure parts of the measurements on a kernel with cgroup v2: how the kubelet lays out cgroups, what a request becomes
//! there, and the lines in which the emulated machine reports. `cargo xtask kernel` reads the lines.
//!
//! [The page](../../../docs/contributing/kernel.md) says what is measured.

pub mod figures;
pub mod layout;
pub mod report;
pub mod runtime;
