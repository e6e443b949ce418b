//! The command line.

mod crd;
mod explain;
mod plan;
mod pool;
mod run;
mod snapshot;

use anyhow::Context;
use clap::{Parser, Subcommand};
use kube::{Client, Config};

/// Run ScavengerJobs on the room a Kubernetes cluster has left
#[derive(Debug, Parser)]
#[command(name = "scavenger-operator", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Options),
    Explain(explain::Options),
    Plan(plan::Options),
    Snapshot(snapshot::Options),
    Crd(crd::Options),
    Pause(pool::Pause),
    Resume(pool::Resume),
    Drain(pool::Drain),
}

/// Parses the command line and does what it says.
///
/// # Errors
/// One sentence: what did not work, and on which object.
pub async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Run(options) => run::exec(options).await,
        Command::Explain(options) => explain::exec(&options).await,
        Command::Plan(options) => plan::exec(&options).await,
        Command::Snapshot(options) => snapshot::exec(&options).await,
        Command::Crd(options) => crd::exec(&options),
        Command::Pause(_) => pool::exec(pool::Order::Pause).await,
        Command::Resume(_) => pool::exec(pool::Order::Resume).await,
        Command::Drain(_) => pool::exec(pool::Order::Drain).await,
    }
}

/// Where the API server is and who asks: $KUBECONFIG, ~/.kube/config, or the pod's own service account.
async fn config() -> anyhow::Result<Config> {
    Config::infer()
        .await
        .context("no connection to the Kubernetes API could be set up; is $KUBECONFIG right?")
}

async fn connect() -> anyhow::Result<Client> {
    Client::try_from(config().await?).context("no connection to the Kubernetes API could be set up")
}
