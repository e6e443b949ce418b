//! A model of a cluster in virtual time, with the planner in it.
//!
//! | part | where |
//! |---|---|
//! | the clock, the events and the planner in the middle | `cluster` |
//! | which actions are carried out, how many at a time, and what goes wrong with them | `executor` |
//! | when a change reaches the planner | `watches` |
//! | what the API server answers to actions, and what every write must keep | `api` |
//! | what people do, and what kubelets do | `kubernetes` |
//! | what supervisors do in pods | `supervisor` |
//! | what policies put into pods, beside the workload | `injected` |
//! | what the Job controller does | `job_controller` |
//! | what the garbage collector does | `garbage_collector` |
//! | what the scheduler does | `scheduler` |
//! | which namespaces take what | `namespaces` |
//! | when the pool's status says what tenants used, and labels of namespaces | `shares` |
//! | how it goes on from what was seen of another cluster | `resumed` |
//! | what must hold in the cluster at every instant | `truth` |
//! | what a test asks about the cluster | `queries` |
//! | what is written down of the planner's answers | `trace` |
//!
//! After every single plan the model checks [`scavenger_planner::check`] and plans again at once: nothing may come of
//! it. There is no randomness but that of a seed, so a run can always be repeated.

mod api;
mod cluster;
mod executor;
mod garbage_collector;
mod injected;
mod job_controller;
mod kubernetes;
mod namespaces;
mod queries;
mod resize;
mod resumed;
mod scheduler;
mod shares;
mod supervisor;
mod trace;
mod truth;
mod watches;

pub use api::stored_status;
pub use cluster::{Cluster, Delays, Fault, Ill, Kill, Random, Workload};
pub use injected::Injected;
pub use resumed::Step;
pub use supervisor::Unstartable;
pub use trace::Traced;
pub use watches::Stream;

use scavenger_planner::fixtures::{at, key, millis, pod, seconds, settings};
