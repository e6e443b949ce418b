//! The program with real processes, real files and a real TLS server. Everything is waited for; nothing sleeps for a
//! fixed time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod checkpoints;
mod ends;
mod footprint;
mod guide;
mod harness;
mod memory;
mod report;
mod signals;
