//! `scavenger-counter`: the smallest workload that deserves a ScavengerJob.
//!
//! It counts to N, one step at a time, and writes its count to a checkpoint file. Run again, it goes on from
//! there; run again after it had finished, it stops at once. What it does on SIGTERM, whether it fails and
//! whether it is one of several pods that talk to each other is chosen by flags, so that one small program
//! plays every part that the operator's tests need.
//!
//! It is made to be PID 1 of its container. The kernel drops a SIGTERM that PID 1 does not handle, so the
//! signal is waited for explicitly, and every way to end is an explicit exit status.

mod checkpoint;
mod count;
mod events;
mod gang;
mod journal;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::events::Events;
use crate::settings::{Arguments, Settings};

/// Another run holds the checkpoint: two attempts met, which whoever starts them must never let happen.
const OVERLAP: u8 = 3;

/// The bytes of the checkpoint could not be used, a directory is not writable, a flag contradicts another.
const USAGE_OR_ENVIRONMENT: u8 = 2;

fn main() -> ExitCode {
    let settings = match Settings::try_from(Arguments::parse()) {
        Ok(settings) => settings,
        Err(error) => return complain(&error, USAGE_OR_ENVIRONMENT),
    };
    // Before anything else is started: threads inherit the blocked signals.
    let events = match Events::with_signals() {
        Ok(events) => events,
        Err(error) => return complain(&error, USAGE_OR_ENVIRONMENT),
    };
    match count::run(&settings, &events) {
        Ok(ending) => ExitCode::from(ending.exit_status()),
        Err(error) => {
            let status = if error.is_overlap() { OVERLAP } else { USAGE_OR_ENVIRONMENT };
            complain(&error, status)
        }
    }
}

/// Writes the error with everything that caused it on one line of stderr.
fn complain(error: &dyn std::error::Error, status: u8) -> ExitCode {
    let mut line = format!("error: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        line.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    eprintln!("{line}");
    ExitCode::from(status)
}
