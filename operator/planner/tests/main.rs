//! Tests of the planner as a whole: its rules in the middle of a model of the cluster, in virtual time.
//!
//! After every single plan the model checks [`scavenger_planner::check`], plans again at once (nothing may come of it),
//! and checks every write and the true state of the cluster, so the tests themselves state only what is special.

mod days;
mod properties;
mod scenarios;

/// True where tests repeat in full: in `cargo xtask soak`, which asks for more cases than proptest has of its own.
fn in_full() -> bool {
    properties::factor() > 1
}
