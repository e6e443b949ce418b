//! What the pipeline rests on goes away and comes back: nothing is lost, nothing is done twice.

use anyhow::ensure;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use scavenger_e2e::{
    postgres::NAMESPACE,
    queue::{insert, is_complete, prepare, row, simulations, state},
    run,
    world::until,
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use serde_json::json;
use tokio::sync::Mutex;

/// One outage at a time; each would be noticed by the other test.
static TURN: Mutex<()> = Mutex::const_new(());

#[test]
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
