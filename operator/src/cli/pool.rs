//! `scavenger-operator pause`, `resume` and `drain`: what an admin says about the whole pool.

use std::io::Write;

use anyhow::{Context, bail};
use kube::api::{Patch, PatchParams};
use scavenger_program::objects::Objects;
use scavenger_schema::{names, scavenger_pool::ScavengerPool};
use serde_json::{Value, json};

use super::connection::Connection;

/// Let no ScavengerJob start; those that run go on
///
/// Sets `spec.paused` of the ScavengerPool `default`, with the rights of the kubeconfig's user: it needs `patch` on scavengerpools. A
/// running operator acts on it within seconds, and again after every restart, until `scavenger-operator resume`.
#[derive(Debug, clap::Args)]
pub(super) struct Pause {
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// Let ScavengerJobs start again, after pause or drain
///
/// Takes back `spec.paused` and `spec.drain` of the ScavengerPool `default`, with the rights of the kubeconfig's user: it
/// needs `patch` on scavengerpools.
#[derive(Debug, clap::Args)]
pub(super) struct Resume {
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// Interrupt every ScavengerJob, and let none start
///
/// Sets `spec.drain` of the ScavengerPool `default`, with the rights of the kubeconfig's user: it needs `patch` on scavengerpools.
/// Every ScavengerJob that runs is evicted with its usual grace period and continues from its checkpoint after
/// `scavenger-operator resume`. For one node, use `kubectl drain`.
#[derive(Debug, clap::Args)]
pub(super) struct Drain {
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// What is said about the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Pause,
    Resume,
    Drain,
}

impl Order {
    fn spec(self) -> Value {
        match self {
            Self::Pause => json!({ "paused": true }),
            Self::Resume => json!({ "paused": false, "drain": false }),
            Self::Drain => json!({ "drain": true }),
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Pause => "is paused: no ScavengerJob starts until `scavenger-operator resume`",
            Self::Resume => "is open: ScavengerJobs start again",
            Self::Drain => {
                "is being drained: every ScavengerJob is interrupted, and none starts until `scavenger-operator resume`"
            }
        }
    }
}

pub(super) async fn exec(order: Order, connection: &Connection) -> anyhow::Result<()> {
    let pools: Objects<ScavengerPool> = Objects::all(connection.connect().await?);
    let patch = json!({ "spec": order.spec() });
    match pools.patch(names::DEFAULT_POOL, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => {}
        Err(kube::Error::Api(error)) if error.is_not_found() => {
            bail!("the ScavengerPool {:?} does not exist; apply deploy/operator first", names::DEFAULT_POOL)
        }
        Err(error) => {
            return Err(error).with_context(|| {
                format!("the ScavengerPool {:?} could not be changed", names::DEFAULT_POOL)
            });
        }
    }
    writeln!(std::io::stdout(), "The ScavengerPool {:?} {}.", names::DEFAULT_POOL, order.done())
        .context("could not write to standard output")
}
