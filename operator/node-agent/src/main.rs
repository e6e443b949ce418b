//! The program: see [`scavenger_node_agent`].

use std::process::ExitCode;

use clap::Parser as _;
use scavenger_node_agent::{
    cli::{Cli, Verb},
    run,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.verb {
        Verb::Run(arguments) => run::run(cli.tree, arguments),
        Verb::Restore => run::restore(cli.tree),
    }
}
