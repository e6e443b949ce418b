//! The tuner: answers with a ladder of GROMACS configurations, over HTTP or on the command line.
//!
//! Everything that decides is in `scavenger-tuner-model`; here are its faces.

pub mod calibration;
pub mod cli;
pub mod config;
pub mod http;
pub mod import;
pub mod observations;
pub mod plot;
pub mod tpr;

use std::process::ExitCode;

use clap::CommandFactory as _;
use config::{Cli, Command};
use scavenger_program::exit::{self, Exit};

/// Runs the command and turns its outcome into an exit code: 0 done, 1 the work failed, 2 usage or environment.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    if let Err(error) = cli.logging.start() {
        return exit::ended(Err(error));
    }
    let outcome = match cli.command {
        Command::Serve(options) => cli::serve::exec(&options),
        Command::Recommend(options) => cli::recommend::exec(&options),
        Command::Calibrate(options) => cli::calibrate::exec(&options),
        Command::Import(options) => cli::import::exec(&options),
        Command::Openapi => cli::openapi::exec(),
        Command::Completions(options) => cli::print(&options.script(Cli::command())),
    };
    let exit = match outcome {
        Ok(()) => Exit::Done,
        Err(failure) => {
            exit::print_error(&exit::message(&failure.error));
            failure.exit
        }
    };
    exit.into()
}
