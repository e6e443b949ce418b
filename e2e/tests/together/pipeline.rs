//! From a row in Postgres to its result: the submitter, the tuner and real `gmx mdrun`.

use anyhow::{bail, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    gromacs::{Computed, computed},
    postgres::NAMESPACE,
    queue::{Row, attempts, insert, is_complete, prepare, prepare_with, row, simulations, state},
    repetitions, run,
    world::{exec, until},
};

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_row_comes_down_the_ladder_and_completes() {
    run("ladder", |world| async move {
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[]).await?;
        let row = state(&database, id, "completed").await?;
        is_complete(&row)?;
        // The first configuration asks for both cores, which the node cannot give.
        ensure!(row.configuration_number.is_some_and(|rung| rung > 1), "{row:?}");
        let names = simulations(world, id).await?;
        ensure!(names.len() == 1, "falling back must stay within one ScavengerJob: {names:?}");
        let observations: Vec<serde_json::Value> =
            database.rows(&format!("select * from gromacs_observation where row_id = {id}")).await?;
        ensure!(observations.len() == 1, "{observations:?}");
        let attempts: Vec<serde_json::Value> =
            database.rows(&format!("select * from gromacs_attempt where row_id = {id}")).await?;
        for ran in observations.iter().chain(&attempts) {
            let nodes: Api<Node> = Api::all(world.client.clone());
            let node = nodes.get_opt(ran["node"].as_str().unwrap_or("none")).await?;
            ensure!(node.is_some(), "the node of the run is not known: {ran}");
            ensure!(ran["node_labels"]["kubernetes.io/arch"].is_string(), "{ran}");
            ensure!(ran["hardware_class"].is_string() && ran["gromacs_version"].is_string(), "{ran}");
        }
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
#[ignore = "in `cargo xtask test --all`"]
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
        // What becomes of the user's file meanwhile does not matter: the row has a copy.
        let overwrite = ["sh", "-c", "echo another >/data/water/water.tpr"];
        exec(&world.api::<Pod>(), &pod, "main", &overwrite).await?;
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

/// An image as others make them: its `gmx` is a script that waits for the program, and it sets a number of threads that no
/// configuration has.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_row_in_a_wrapper_image_loses_nothing() {
    run("wrapped", |world| async move {
        let database = prepare(world).await?;
        let columns = [("max_cpu_millicores", "500"), ("image", "'scavenger.dev/gromacs-wrapped:2022.5'")];
        let id = insert(world, &database, "water/water.tpr", &columns).await?;
        let seen = until("the simulation computes", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 200))
        })
        .await?;
        let launcher = format!("select inspected->>'launcher' from gromacs_to_tune where id = {id}");
        let launcher = database.sql(&launcher).await?;
        ensure!(launcher == "script", "the inspection must find the script: {launcher:?}");
        let pod = world.pod(&format!("gromacs-{id}-1")).await?;
        world.api::<Pod>().delete(&pod.name_any(), &DeleteParams::default()).await?;
        let row = state(&database, id, "completed").await?;
        is_complete(&row)?;
        ensure!(row.interruptions == 1, "{row:?}");
        let attempts = attempts(&database, id).await?;
        ensure!(attempts.len() == 2 && attempts[0].outcome.as_deref() == Some("interrupted"), "{attempts:?}");
        // The checkpoint that mdrun writes at SIGTERM, and no earlier one.
        ensure!(attempts[1].first_step.is_some_and(|step| step >= seen), "{seen} were seen: {attempts:?}");
        Ok(())
    });
}

/// Four rows, each after the one before; the second one is interrupted, and the last one goes on for as long again.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_chain_goes_on_through_an_interruption_and_its_end_is_extended() {
    // Long enough to be interrupted in the middle on a fast machine, too.
    const SHORT: u32 = 4000;
    // Too short for a speed to be measured after an interruption.
    let is_done = |row: &Row, steps: u32| {
        let ends = (row.step, row.last_step);
        ensure!(
            ends == (Some(i64::from(steps)), Some(i64::from(steps))),
            "it did not reach its last step: {row:?}"
        );
        Ok(())
    };
    run("chain", move |world| async move {
        let database = prepare_with(world, SHORT, "").await?;
        // Five in soak.
        for _ in 0..repetitions(1).min(5) {
            let mut rows: Vec<i64> = Vec::new();
            for _ in 0..4 {
                let after = rows.last().map_or("'{}'".to_owned(), |row| format!("'{{{row}}}'"));
                let columns = [("max_cpu_millicores", "500"), ("after", after.as_str())];
                rows.push(insert(world, &database, "water/water.tpr", &columns).await?);
            }
            let waits = row(&database, rows[3]).await?;
            ensure!(waits.state == "queued", "{waits:?}");
            let reason = waits.reason.unwrap_or_default();
            ensure!(
                reason.contains(&format!("row {}", rows[2])),
                "it does not say what it waits for: {reason}"
            );

            is_done(&state(&database, rows[0], "completed").await?, SHORT)?;
            until("the second one computes", || async {
                Ok(row(&database, rows[1]).await?.step.filter(|step| *step > 100))
            })
            .await?;
            let pod = world.pod(&format!("gromacs-{}-1", rows[1])).await?.name_any();
            world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
            for id in &rows[1..] {
                is_done(&state(&database, *id, "completed").await?, SHORT)?;
            }
            ensure!(row(&database, rows[1]).await?.interruptions == 1, "nobody interrupted it");
            // Other tests insert rows into the same table, and their numbers lie between these.
            let [first, second, third, fourth] = rows[..] else { bail!("a chain of four: {rows:?}") };
            let early = format!(
                "select id from (select id, start_time, lag(finish_time) over (order by id) as before \
                 from gromacs_to_tune where id in ({first}, {second}, {third}, {fourth})) chain \
                 where start_time < before"
            );
            let early = database.sql(&early).await?;
            ensure!(early.is_empty(), "rows began before the ones before them had ended: {early}");

            let extend =
                format!("update gromacs_to_tune set extended_nsteps = {} where id = {}", 2 * SHORT, rows[3]);
            database.sql(&extend).await?;
            let extended = until("the last one has gone on", || async {
                let row = row(&database, rows[3]).await?;
                ensure!(row.state != "failed", "{row:?}");
                let is_longer = row.last_step == Some(i64::from(2 * SHORT));
                Ok((row.state == "completed" && is_longer).then_some(row))
            })
            .await?;
            is_done(&extended, 2 * SHORT)?;
            let steps = i64::from(2 * SHORT);
            let expected = Computed { steps, last_step: steps, restarts: 1, frames: steps / 100 + 1 };
            let found = computed(world, rows[3]).await?;
            ensure!(found == expected, "an extended run must be continuous: {found:?}");
        }
        Ok(())
    });
}
