//! Runs the program as a container runtime would: start it, send it signals, start it again.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which the lint does not take for tests")]

mod gang;
mod harness;
mod single;
