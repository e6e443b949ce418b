//! The cgroups of pods, as the kubelet lays them out.
//!
//! | module | holds | I/O |
//! |---|---|---|
//! | [`weight`] | from a request to the weight of the pod's cgroup | no |
//! | [`tree`] | where the cgroup of each pod is | names of folders |
//! | [`cpu`] | one cgroup: how it becomes idle, and how it gets its weight back | its files |
//! | [`memory`] | one cgroup: who lacked the memory for which its processes were killed | its files |

pub mod cpu;
pub mod memory;
pub mod tree;
pub mod weight;
