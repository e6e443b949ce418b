//! The memory of the operator's whole process with very many ScavengerJobs, a few hundred of them running: while they are
//! submitted, and after a start at which all of them are read at once. Figures, no verdicts: `cargo xtask bench --only
//! memory` runs it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Api;
use scavenger_e2e::{
    World,
    kubectl::kubectl,
    load::{LONGEST, create, on_played_nodes},
    metrics::Metrics,
    postgres::NAMESPACE,
    world::{run_within, until_within},
};
use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::{Value, json};

/// How many are created; another number by this environment variable.
const COUNT: usize = 100_000;
const COUNT_VARIABLE: &str = "SCAVENGER_E2E_BENCH_JOBS";

/// What each asks for, so that only a few hundred run on 200 nodes of 64 cores.
const CORES: usize = 32;

/// So many different requests for memory, as in the planner's bench.
const DEMANDS: usize = 2_000;

/// About as large as what the submitter makes of a row.
fn scavenger_job(number: usize) -> Value {
    let memory = format!("{}Mi", 512 + number % DEMANDS);
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
        "metadata": {
            "name": format!("gromacs-{number}-1"),
            "labels": { "app.kubernetes.io/managed-by": "gromacs-submitter", "example.com/project": "memory" },
            "annotations": { "example.com/configurations": "x".repeat(600) },
        },
        "spec": {
            "image": "played", "command": ["gmx", "mdrun"],
            "args": [
                "-s", format!("simulations/{number}/topol.tpr"), "-cpi", "state.cpt", "-ntmpi", "1", "-ntomp", "32", "-pin", "off",
            ],
            "env": [{ "name": "OMP_NUM_THREADS", "value": "32" }],
            "resources": { "requests": { "cpu": CORES.to_string(), "memory": memory } },
            "tolerations": [{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }],
            "supervisor": { "enabled": false },
            "interruptionAfter": "10m",
        },
    })
}

/// Peak and present memory of the leader, MiB, and how many ScavengerJobs it knows.
async fn memory(world: &World) -> Result<(f64, f64, f64)> {
    let metrics = Metrics::read(world).await?;
    let mib = |name: &str| metrics.value(name) / f64::from(1 << 20);
    let known = metrics.sum("scavenger_jobs");
    Ok((mib("scavenger_peak_resident_memory_bytes"), mib("process_resident_memory_bytes"), known))
}

/// Waits until the leader knows all of them; returns its peak and present memory, MiB.
async fn knows(world: &World, count: usize) -> Result<(f64, f64)> {
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let count = count as f64;
    until_within(LONGEST, "the operator knows all of them", || async {
        // While it reads them all, it may not answer.
        let Ok((peak, now, known)) = memory(world).await else { return Ok(None) };
        Ok((known >= count).then_some((peak, now)))
    })
    .await
}

async fn measure(world: &World, count: usize) -> Result<()> {
    let (empty, ..) = memory(world).await?;
    let api: Api<ScavengerJob> = world.api();
    let began = Instant::now();
    create(&api, count, scavenger_job).await?;
    let created = began.elapsed().as_secs_f64();
    let (peak, now) = knows(world, count).await?;

    let system = ["--namespace", NAMESPACE];
    let operator = "deployment/scavenger-operator";
    let limit = "--output=jsonpath={.spec.template.spec.containers[0].resources.limits.memory}";
    let limit = kubectl(&[&["get", operator, limit], &system[..]].concat()).await?;
    kubectl(&[&["rollout", "restart", operator], &system[..]].concat()).await?;
    let began = Instant::now();
    kubectl(&[&["rollout", "status", operator, "--timeout=600s"], &system[..]].concat()).await?;
    let (peak_of_start, after_start) = knows(world, count).await.context("after a start")?;
    println!(
        "{count} ScavengerJobs, created in {created:.0} s\n\
         memory of the operator, MiB; its limit is {limit}    at its peak   after that\n\
         without any                                {empty:>9.0}\n\
         while they were submitted                  {peak:>9.0}    {now:>9.0}\n\
         a start that reads all of them ({:>4.0} s)    {peak_of_start:>9.0}    {after_start:>9.0}",
        began.elapsed().as_secs_f64(),
    );
    Ok(())
}

#[test]
#[ignore = "a measurement of minutes: `cargo xtask bench --only memory`"]
fn the_whole_process_with_very_many() {
    run_within(Duration::from_secs(3600), "bench-memory", |world| async move {
        let count = std::env::var(COUNT_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
        on_played_nodes(world, || measure(world, count)).await
    });
}
