//! The program with a TLS server that plays the operator, on cgroups of this machine where it may make them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod footprint;
mod harness;
mod kernel;
mod memory;
mod operator;
mod pods;
mod protocol;
