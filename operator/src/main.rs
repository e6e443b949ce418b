//! Runs ScavengerJobs on the capacity a cluster has left.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match scavenger_operator::cli::main().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One sentence with its causes; a backtrace would tell nobody more.
            eprintln!("error: {error:#}");
            if error.is::<scavenger_operator::cli::Unusable>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
