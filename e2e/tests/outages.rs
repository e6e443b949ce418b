//! What the pipeline rests on goes away and comes back: nothing is lost, nothing is done twice.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    kubectl::kubectl,
    postgres::NAMESPACE,
    queue::{insert, is_complete, prepare, row, simulations, state},
    run,
    world::{OPERATORS, counter, over_attempts, resumed_at, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use serde_json::json;
use tokio::sync::Mutex;

/// One outage at a time; each would be noticed by the other test.
static TURN: Mutex<()> = Mutex::const_new(());

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn rows_wait_while_the_tuner_is_down() {
    run("tuner-down", |world| async move {
        let _turn = TURN.lock().await;
        let database = prepare(world).await?;
        let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), NAMESPACE);
        let scale = |replicas: u32| json!({ "spec": { "replicas": replicas } });
        deployments.patch("scavenger-tuner", &PatchParams::default(), &Patch::Merge(scale(0))).await?;
        let told = async {
            let id = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
            until("the row says that the tuner is down", || async {
                let row = row(&database, id).await?;
                let reason = row.reason.unwrap_or_default();
                Ok((row.state == "tuning" && reason.contains("tuner")).then_some(()))
            })
            .await?;
            anyhow::Ok(id)
        }
        .await;
        // Up again whatever became of the row: other tests need it.
        deployments.patch("scavenger-tuner", &PatchParams::default(), &Patch::Merge(scale(1))).await?;
        is_complete(&state(&database, told?, "completed").await?)
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_restart_of_postgres_loses_nothing_and_repeats_nothing() {
    run("postgres", |world| async move {
        let _turn = TURN.lock().await;
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
        let name = format!("gromacs-{id}-1");
        until("the simulation is submitted", || async {
            Ok(world.api::<ScavengerJob>().get_opt(&name).await?)
        })
        .await?;
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        let uid = pods.get("postgres-0").await?.uid();
        pods.delete("postgres-0", &DeleteParams::default()).await?;
        until("Postgres is back", || async {
            let pod = pods.get_opt("postgres-0").await?.filter(|pod| pod.uid() != uid);
            let ready = pod.and_then(|pod| pod.status?.conditions).is_some_and(|conditions| {
                conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
            });
            Ok(ready.then_some(()))
        })
        .await?;
        is_complete(&state(&database, id, "completed").await?)?;
        ensure!(simulations(world, id).await? == [name.clone()], "another ScavengerJob was made");
        let job = world.phase(&name, Phase::Completed).await?;
        let attempts_made = job.status.map(|status| status.attempts.len());
        ensure!(attempts_made == Some(1), "{attempts_made:?} attempts were made");
        let observations: Vec<serde_json::Value> =
            database.rows(&format!("select * from gromacs_observation where row_id = {id}")).await?;
        ensure!(observations.len() == 1, "{observations:?}");
        Ok(())
    });
}

async fn count_without_operator(world: &World) -> Result<()> {
    world.claim("data").await?;
    world.create::<ScavengerJob>(over_attempts(counter("count", 150), 2)).await?;
    world.phase("count", Phase::Running).await?;
    let first = world.pod("count").await?;

    // The attempt goes on while nobody watches, and the next operator finds it.
    world.operators(0).await?;
    world.operators(1).await?;
    let counted = |line: &str| {
        line.strip_prefix("checkpoint ").and_then(|at| at.parse::<u32>().ok()).is_some_and(|at| at >= 20)
    };
    world.log_until(&first.name_any(), "a checkpoint at 20", counted).await?;
    ensure!(
        world.pod("count").await?.uid() == first.uid(),
        "a restart of the operator must not touch what runs"
    );

    // Taken away while nobody watches: whatever evidence is left, it must not be called failed.
    world.operators(0).await?;
    world.api::<Pod>().delete(&first.name_any(), &DeleteParams::default()).await?;
    until("the pod is gone", || async {
        Ok(world.api::<Pod>().get_opt(&first.name_any()).await?.is_none().then_some(()))
    })
    .await?;
    world.operators(1).await?;
    let job = world.phase("count", Phase::Completed).await?;
    let status = job.status.unwrap_or_default();
    ensure!(status.attempts.len() == 2, "{status:?}");
    let log = world
        .log_until(&world.pod("count").await?.name_any(), "the end", |line| line.starts_with("done "))
        .await?;
    ensure!(resumed_at(&log)? >= 20, "it did not resume from its checkpoint: {log}");
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_restart_of_the_operator_loses_nothing_and_repeats_nothing() {
    run("operator-restart", |world| async move {
        let _turn = TURN.lock().await;
        let result = count_without_operator(world).await;
        world.operators(OPERATORS).await?;
        result
    });
}

async fn leads_other_than(world: &World, old: &str) -> Result<String> {
    until("another replica leads", || async {
        // Between two leaders the Lease may have no holder.
        Ok(world.leader().await.ok().filter(|leader| leader != old))
    })
    .await
}

#[test]
fn another_replica_takes_over_from_one_that_dies() {
    run("operator-dies", |world| async move {
        let _turn = TURN.lock().await;
        world.claim("data").await?;
        world.create::<ScavengerJob>(over_attempts(counter("count", 300), 2)).await?;
        world.phase("count", Phase::Running).await?;
        let first = world.pod("count").await?;
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        let leader = world.leader().await?;
        // Killed at once: it cannot give the Lease back.
        pods.delete(&leader, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() })
            .await?;
        let began = Instant::now();
        let next = leads_other_than(world, &leader).await?;
        println!("another replica led {:.1} s after the leader was killed", began.elapsed().as_secs_f64());
        ensure!(world.pod("count").await?.uid() == first.uid(), "what runs must not notice");
        // It does what a leader does.
        world.api::<Pod>().delete(&first.name_any(), &DeleteParams::default()).await?;
        world
            .job_until("count", "running again", |job| {
                let status = job.status.clone().unwrap_or_default();
                status.phase == Some(Phase::Running) && status.interrupted_count == 1
            })
            .await?;

        // An update of both, one after the other: a standby must be ready, and a leader gives the Lease back.
        let second = world.pod("count").await?;
        let system = ["--namespace", NAMESPACE];
        kubectl(&[&["rollout", "restart", "deployment/scavenger-operator"], &system[..]].concat()).await?;
        let wait = ["rollout", "status", "deployment/scavenger-operator", "--timeout=120s"];
        kubectl(&[&wait[..], &system[..]].concat()).await?;
        leads_other_than(world, &next).await?;
        ensure!(world.pod("count").await?.uid() == second.uid(), "what runs must not notice");
        let job = world.phase("count", Phase::Completed).await?;
        let status = job.status.unwrap_or_default();
        ensure!(status.attempts.len() == 2 && status.interrupted_count == 1, "{status:?}");
        Ok(())
    });
}
