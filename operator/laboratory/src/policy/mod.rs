//! Who starts and interrupts ScavengerJobs: what changed goes in, orders come out.

mod greedy;
mod kind;
mod newest;
mod none;
mod operator;
mod quota;
mod rule;
mod stock;

pub use kind::{Kind, none};
pub use rule::Policy;
