//! From a row in Postgres to its result: the submitter, the tuner and real `gmx mdrun`.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    postgres::NAMESPACE,
    queue::{attempts, insert, is_complete, prepare, row, simulations, state},
    run,
    world::until,
};

#[test]
fn a_row_comes_down_the_ladder_and_completes() {
    run("ladder", |world| async move {
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[]).await?;
        let row = state(&database, id, "completed").await?;
        is_complete(&row)?;
        // The first configuration asks for both cores, which the node cannot give.
        ensure!(row.rung.is_some_and(|rung| rung > 1), "{row:?}");
        let names = simulations(world, id).await?;
        ensure!(names.len() == 1, "falling back must stay within one ScavengerJob: {names:?}");
        let observations: Vec<serde_json::Value> =
            database.rows(&format!("select * from gromacs_observation where row_id = {id}")).await?;
        ensure!(observations.len() == 1, "{observations:?}");
        until("the tuner has learned from it", || async {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/services/scavenger-tuner:http/proxy/v1/model");
            let request = http::Request::get(path).body(Vec::new())?;
            let model: serde_json::Value = world.client.request(request).await?;
            Ok((model["runs"].as_u64() > Some(0)).then_some(()))
        })
        .await
    });
}

#[test]
fn a_missing_run_input_fails_its_row_and_the_others_go_on() {
    run("no-tpr", |world| async move {
        let database = prepare(world).await?;
        let bad = insert(world, &database, "water/nowhere.tpr", &[]).await?;
        let good = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
        let failed = state(&database, bad, "failed").await?;
        let reason = failed.reason.unwrap_or_default();
        ensure!(reason.contains("nowhere.tpr"), "the reason does not name the file: {reason}");
        is_complete(&state(&database, good, "completed").await?)
    });
}

#[test]
fn an_interrupted_simulation_continues_from_its_checkpoint() {
    run("interrupted", |world| async move {
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
        let name = format!("gromacs-{id}-1");
        until("the simulation computes", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 200))
        })
        .await?;
        let pod = world.pod(&name).await?.name_any();
        world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        let row = state(&database, id, "completed").await?;
        is_complete(&row)?;
        ensure!(row.interruptions == 1, "{row:?}");
        let attempts = attempts(&database, id).await?;
        ensure!(attempts.len() == 2, "{attempts:?}");
        ensure!(attempts[0].outcome.as_deref() == Some("interrupted"), "{attempts:?}");
        ensure!(attempts[1].first_step.is_some_and(|step| step > 200), "it did not resume: {attempts:?}");
        Ok(())
    });
}
