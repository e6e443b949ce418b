//! Computes GROMACS simulations from a Postgres queue as ScavengerJobs.

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main]
async fn main() -> ExitCode {
    gromacs_submitter::cli::main(gromacs_submitter::config::Cli::parse()).await
}
