//! The cluster: nodes, pods, Jobs, and the clock. It knows no policy: it tells what changed, and carries out orders.
//!
//! | part | where |
//! |---|---|
//! | the clock, and pods from their creation to their end | `cluster`, `pod` |
//! | where pods go, and who is preempted for them | `scheduler`, `preemption`, `queue`, `index` |
//! | the Job controller: attempts of ScavengerJobs, and what they get done | `jobs`, `attempt`, `work` |
//! | what pods really use, where that is known | `usage` |
//! | what is counted meanwhile | `tally` |

mod attempt;
mod cluster;
mod index;
mod jobs;
mod pod;
mod preemption;
mod queue;
mod scheduler;
mod tally;
mod usage;
mod work;

pub use attempt::{Attempt, Job, ScavengerState, Start};
pub use cluster::{Change, Delays, Order, Preempts, World};
pub use pod::{Allowed, Disruption, Owner, Phase, Pod};
pub use tally::{OrdinaryState, Tally};
