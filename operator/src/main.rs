//! Runs ScavengerJobs on the capacity a cluster has left.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    scavenger_program::exit::ended(scavenger_operator::cli::main().await)
}
