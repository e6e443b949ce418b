//! `scavenger-laboratory`.

use std::process::ExitCode;

use clap::Parser;
use scavenger_laboratory::cli::{self, Options};
use scavenger_program::exit;

fn main() -> ExitCode {
    exit::ended_as(cli::run(&Options::parse()))
}
