//! Who starts and interrupts ScavengerJobs: what changed goes in, orders come out.

mod greedy;
mod kind;
mod newest;
mod none;
mod operator;
mod predecessor;
mod quota;
mod rule;
mod stock;
mod youngest;

pub use kind::{Kind, none};
pub use rule::Policy;
