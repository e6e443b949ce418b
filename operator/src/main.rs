//! Runs ScavengerJobs on the room a cluster has left.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    scavenger_operator::cli::main().await
}
