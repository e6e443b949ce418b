//! The cgroups of pods, as the kubelet lays them out.
//!
//! | module | holds | I/O |
//! |---|---|---|
//! | [`weight`] | from a request to the weight of the pod's cgroup | no |

pub mod weight;
