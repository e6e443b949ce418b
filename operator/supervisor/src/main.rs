//! The program: see [`scavenger_supervisor`].

use std::process::ExitCode;

use clap::Parser as _;
use scavenger_supervisor::{
    cli::{Cli, Verb},
    copy, run,
};

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Run(arguments) => run::run(arguments.settings()),
        Verb::Copy { directory } => copy::copy(&directory),
    }
}
