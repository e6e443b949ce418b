//! The tuner's command line.

use std::process::ExitCode;

use clap::Parser as _;

use scavenger_tuner::config::Cli;

fn main() -> ExitCode {
    scavenger_tuner::run(Cli::parse())
}
