//! The tuner: answers with a ladder of GROMACS configurations, over HTTP or on the command line.
//!
//! Everything that decides is in `scavenger-tuner-model`; here are its faces.

pub mod accuracy;
pub mod calibration;
pub mod cli;
pub mod config;
pub mod http;
pub mod import;
pub mod observations;
pub mod plot;
mod telemetry;
pub mod tpr;

use std::process::ExitCode;

use config::{Cli, Command};

/// Runs the command and turns its outcome into an exit code: 0 done, 1 the work failed, 2 usage or environment.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    if let Err(error) = telemetry::init(&cli.logging) {
        eprintln!("error: {error:#}");
        return ExitCode::from(2);
    }
    let outcome = match cli.command {
        Command::Serve(options) => cli::serve::exec(&options),
        Command::Recommend(options) => cli::recommend::exec(&options),
        Command::Accuracy(options) => cli::accuracy::exec(&options),
        Command::Calibrate(options) => cli::calibrate::exec(&options),
        Command::Import(options) => cli::import::exec(&options),
        Command::Openapi => cli::openapi::exec(),
        Command::Completions(options) => cli::completions::exec(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {:#}", failure.error);
            failure.code
        }
    }
}
