//! `completions`: what a shell needs to complete the command line.

use clap::CommandFactory as _;

use super::Failure;
use crate::config::{Cli, CompletionsOptions};

/// Prints the script of a shell.
pub fn exec(options: &CompletionsOptions) -> Result<(), Failure> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
