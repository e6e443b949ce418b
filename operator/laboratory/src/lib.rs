//! The laboratory: policies that run ScavengerJobs, side by side on the same workload, in virtual time.
//!
//! | part | where |
//! |---|---|
//! | what a cluster is asked to do: scenarios from a seed, traces | `workload` |
//! | the cluster: kube-scheduler, pods, Jobs, what work is kept | `world` |
//! | who starts and interrupts ScavengerJobs; the operator with its own planner is one | `policy` |
//! | one run, from the first event to the last | `run` |
//! | the figures of a run, and of several seeds | `measure`, `seeds`, `compare` |
//! | whether the targets are met, and what other settings cost | `targets`, `sweep` |
//! | what forecasts of starts come to | `coverage` |
//! | the page on which an admin decides | `what_if` |
//! | what a change of the pool would do to a live cluster | `snapshot` |
//! | the pool of a file, what is printed and drawn | `pool`, `print`, `plot`, `cli` |
//!
//! docs/contributing/laboratory.md says which part may know which, and what is simpler here than in Kubernetes.

pub mod chance;
pub mod cli;
pub mod compare;
pub mod coverage;
pub mod fidelity;
pub mod measure;
pub mod plot;
pub mod policy;
pub mod pool;
pub mod print;
pub mod run;
pub mod seeds;
pub mod snapshot;
pub mod sweep;
pub mod targets;
pub mod values;
pub mod what_if;
pub mod workload;
pub mod world;
