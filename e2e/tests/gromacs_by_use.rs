//! GROMACS on capacity that is reserved and idle: the same queue with accounting `Usage` and with `Requests`, on the real
//! node. What the node uses is played, since the machine of the tests is busy with them; a pod that comes and goes has its
//! use played, too.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use scavenger_e2e::{
    World,
    alone::alone,
    by_use::{PlayedUse, allocatable, is_known, requested_cpu, with_usage},
    faults::Operator,
    gromacs::computed,
    postgres::Database,
    queue::{insert, prepare_with, row},
    repetitions,
    room::{delete_pod, patch_pool},
    world::{ordinary_pod, real_node, until, until_within},
};
use scavenger_schema::quantity;
use serde_json::json;

/// How long the queue may take: on a machine that is busy with other tests, one simulation after the other.
const LIMIT: Duration = Duration::from_secs(900);

/// So many that no simulation is complete before the pod that comes is seen, on a slow machine either.
const STEPS: u32 = 12_000;

/// Nanoseconds of all steps of one simulation.
const NANOSECONDS: f64 = STEPS as f64 * 2e-6;

async fn submit(world: &World, database: &Database, count: usize) -> Result<Vec<i64>> {
    let mut rows = Vec::new();
    for _ in 0..count {
        let columns = [("max_cpu_millicores", "500")];
        rows.push(insert(world, database, "water/water.tpr", &columns).await?);
    }
    Ok(rows)
}

/// Steps that all rows together have done.
async fn steps(database: &Database, rows: &[i64]) -> Result<i64> {
    let mut steps = 0;
    for id in rows {
        steps += row(database, *id).await?.step.unwrap_or(0);
    }
    Ok(steps)
}

async fn interruptions(database: &Database, rows: &[i64]) -> Result<i64> {
    let mut count = 0;
    for id in rows {
        count += row(database, *id).await?.interruptions;
    }
    Ok(count)
}

/// An ordinary pod that requests so much of what is left on the node that next to nothing is left, and sleeps.
async fn reserve(world: &World, node: &str) -> Result<()> {
    let cpu = quantity::parse_milli(&allocatable(world, node, "cpu").await?.0)?;
    let requested = requested_cpu(world, node).await?;
    let left = (cpu * 9 / 10 - requested).max(10);
    let requests = json!({ "cpu": format!("{left}m"), "memory": "64Mi" });
    let mut pod = ordinary_pod("reserves", &requests);
    pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    world.create::<Pod>(pod).await?;
    world.pod_runs("reserves").await
}

/// A pod comes that needs most of the processors, and goes once ScavengerJobs have made way for it.
async fn a_pod_comes_and_goes(
    world: &World,
    database: &Database,
    rows: &[i64],
    used: &PlayedUse,
) -> Result<()> {
    until_within(LIMIT, "the simulations compute", || async {
        Ok((steps(database, rows).await? > 200).then_some(()))
    })
    .await?;
    // More than the node has: what the simulations use is a part of it. Not only once the pod runs, since the simulations
    // go on until then.
    used.set("2700m", "2Gi");
    world.create::<Pod>(ordinary_pod("comes", &json!({ "cpu": "50m", "memory": "16Mi" }))).await?;
    until("simulations have made way", || async {
        Ok((interruptions(database, rows).await? > 0).then_some(()))
    })
    .await?;
    used.set("50m", "1Gi");
    delete_pod(world, "comes").await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn simulations_complete_on_what_is_reserved_and_idle() {
    alone("gromacs-by-use", |world, proxy| async move {
        let count = if repetitions(1) > 1 { 6 } else { 2 };
        let node = real_node(&Api::all(world.client.clone())).await?;
        let used = PlayedUse::new("50m", "1Gi");
        used.measure(&proxy, &node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        patch_pool(world, &json!({ "nodeSelector": null })).await?;
        let database = prepare_with(world, STEPS, "").await?;
        reserve(world, &node).await?;
        with_usage(world, &node, || async {
            // What has gone is to be forgotten soon, and no request is to count for what idles.
            let soon = json!({ "halfLife": "1m", "percentile": 50, "marginPercent": 0 });
            patch_pool(world, &json!({ "usage": soon })).await?;
            is_known(world).await?;
            let began = Instant::now();
            let rows = submit(world, &database, count).await?;
            a_pod_comes_and_goes(world, &database, &rows, &used).await?;
            for id in &rows {
                until_within(LIMIT, &format!("row {id} is completed"), || async {
                    let row = row(&database, *id).await?;
                    ensure!(!matches!(row.state.as_str(), "failed" | "cancelled"), "row {id} is {row:?}");
                    Ok((row.state == "completed").then_some(()))
                })
                .await?;
            }
            let took = began.elapsed();
            let (mut done, mut lost, mut restarts) = (0, 0, 0);
            for id in &rows {
                // Looks at the energies, too.
                let found = computed(world, *id).await?;
                let wanted = (i64::from(STEPS), i64::from(STEPS) / 100 + 1);
                ensure!((found.last_step, found.frames) == wanted, "row {id}: {found:?}");
                done += found.last_step;
                lost += found.steps - found.last_step;
                restarts += found.restarts;
            }
            let interruptions = interruptions(&database, &rows).await?;
            ensure!(interruptions > 0 && restarts > 0, "{interruptions} interruptions, {restarts} restarts");

            // The same queue for the same time, by requests.
            patch_pool(world, &json!({ "accounting": "Requests" })).await?;
            let rows = submit(world, &database, count).await?;
            tokio::time::sleep(took).await;
            let by_requests = steps(&database, &rows).await?;
            let speed = |steps: i64| {
                steps as f64 / f64::from(STEPS) * NANOSECONDS * 86_400.0 / took.as_secs_f64()
            };
            println!(
                "{count} simulations in {:.0} s on a node that is reserved: by use {:.2} ns/day together, {interruptions} \
                 interruptions, {lost} of {done} steps computed twice ({:.1}%); by requests {:.2} ns/day in the same time",
                took.as_secs_f64(),
                speed(done),
                lost as f64 / done as f64 * 100.0,
                speed(by_requests)
            );
            ensure!(by_requests == 0, "nothing was free by requests, and {by_requests} steps were done");
            for id in &rows {
                database.sql(&format!("update gromacs_to_tune set cancel_requested = true where id = {id}")).await?;
            }
            Ok(())
        })
        .await?;
        operator.kill().await
    });
}
