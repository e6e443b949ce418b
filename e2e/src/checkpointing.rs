//! Workloads that write a checkpoint when a test wants them to, and what the operator knows of it.

use std::cell::Cell;

use anyhow::Result;
use kube::ResourceExt;
use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::{Value, json};

use crate::{
    World,
    metrics::Metrics,
    room::{holding, status},
    world::{exec, until},
};

/// A workload that writes a checkpoint when the test asks for it, and not on SIGTERM.
#[must_use]
pub fn on_demand(name: &str, slot: &str, slots: u32) -> Value {
    let script = format!(
        "cd /data; echo 0.25 > {name}.progress; while :; do \
         if [ -e {name}.ask ]; then rm {name}.ask; date > {name}.new; mv {name}.new {name}.state; fi; sleep 0.3; done"
    );
    let mut job = holding(name, slot, slots, false);
    job["spec"]["image"] = json!("scavenger.dev/gromacs:2022.5");
    job["spec"]["command"] = json!(["bash", "-c", script]);
    job["spec"]["args"] = json!([]);
    // Reports over TLS take a moment of processor time, too.
    job["spec"]["resources"]["requests"]["cpu"] = json!("200m");
    job["spec"]["checkpoint"] = json!({
        "path": format!("/data/{name}.state"), "progressPath": format!("/data/{name}.progress"), "restartSeconds": 1,
        // It has no handler for the signal. A workload that can be asked reports every 10 s, others once a minute.
        "request": { "signal": "USR1" },
    });
    job["spec"]["terminationGracePeriodSeconds"] = json!(1);
    job
}

/// How many checkpoints the operator was told of in the namespace. It knows of them long before a status says so, which is
/// written once a minute at most.
///
/// # Errors
/// If nobody leads.
pub async fn reported(world: &World) -> Result<f64> {
    let name = format!("scavenger_reported_checkpoints_total{{namespace=\"{}\"}}", world.namespace);
    Ok(Metrics::read(world).await?.value(&name))
}

/// Has a workload write a checkpoint, and waits until the operator knows of it. No other one of the namespace may write one
/// meanwhile.
///
/// # Errors
/// If the operator does not hear of it.
pub async fn checkpoint(world: &World, name: &str) -> Result<()> {
    let pod = world.pod(name).await?.name_any();
    let touch = format!("/data/{name}.ask");
    let ask = || async { exec(&world.api(), &pod, "main", &["touch", &touch]).await };
    let before = Cell::new(reported(world).await?);
    ask().await?;
    let before = &before;
    until(&format!("the operator knows of a new checkpoint of {name}"), || async {
        // Nobody leads for a moment if a replica is slow to renew its Lease.
        let Ok(now) = reported(world).await else { return Ok(None) };
        if now < before.get() {
            // The next leader counts from 0, and may have taken the checkpoint for an old one.
            before.set(now);
            ask().await?;
        }
        Ok((now > before.get()).then_some(()))
    })
    .await
}

/// Waits until what the first attempt of a ScavengerJob lost is known.
///
/// # Errors
/// If it does not become known.
pub async fn first_measured(world: &World, name: &str) -> Result<ScavengerJob> {
    world
        .job_until(name, "measured", |job| {
            status(job).attempts.first().is_some_and(|attempt| attempt.lost_seconds.is_some())
        })
        .await
}

/// Writes a checkpoint when it is asked, in the way of `request`, and not on SIGTERM.
#[must_use]
pub fn asked(name: &str, slot: &str, slots: u32, request: &Value) -> Value {
    let mut job = on_demand(name, slot, slots);
    // The signal, or a file that the command makes.
    let script = format!(
        "cd /data; save() {{ date > {name}.new; mv {name}.new {name}.state; }}; trap save USR1; save; \
         while :; do sleep 0.2; if [ -e {name}.ask ]; then rm {name}.ask; save; fi; done"
    );
    job["spec"]["command"] = json!(["bash", "-c", script]);
    job["spec"]["checkpoint"] = json!({
        "path": format!("/data/{name}.state"), "restartSeconds": 1, "request": request,
    });
    job
}
