//! Runs ScavengerJobs on the room a cluster has left.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match scavenger_operator::cli::main().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One sentence with its causes; a backtrace would tell nobody more.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
