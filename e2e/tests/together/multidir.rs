//! One row of four simulations, side by side in one pod.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    gromacs::computed_in,
    queue::{attempts, insert, prepare_with, row, state},
    run,
    world::until,
};

const STEPS: u32 = 2000;

const FOLDERS: [&str; 4] = ["sim0", "sim1", "sim2", "sim3"];

/// Four copies of the same box: what differs in an ensemble is no matter of the queue.
const COPIES: &str = r#"
for folder in sim0 sim1 sim2 sim3; do
    mkdir -p "/data/water/$folder"
    cp /data/water/water.tpr "/data/water/$folder/"
done
"#;

#[test]
fn four_simulations_in_a_row_go_on_through_an_interruption() {
    run("multidir", |world| async move {
        let database = prepare_with(world, STEPS, COPIES).await?;
        let columns = [("multidir", "'{sim0,sim1,sim2,sim3}'"), ("max_cpu_millicores", "500")];
        let id = insert(world, &database, "water/water.tpr", &columns).await?;
        let seen = until("all four simulations compute", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 100))
        })
        .await?;
        let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
        world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        let row = state(&database, id, "completed").await?;
        ensure!((row.step, row.interruptions) == (Some(i64::from(STEPS)), 1), "{row:?}");
        let attempts = attempts(&database, id).await?;
        ensure!(attempts.len() == 2 && attempts[0].outcome.as_deref() == Some("interrupted"), "{attempts:?}");
        // The checkpoints that all wrote at SIGTERM, and no earlier ones.
        ensure!(attempts[1].first_step.is_some_and(|step| step >= seen), "{seen} were seen: {attempts:?}");
        for folder in FOLDERS {
            let computed = computed_in(world, id, folder).await?;
            let (ends, restarts) = (computed.last_step, computed.restarts);
            ensure!(ends == i64::from(STEPS) && restarts <= 1, "{folder}: {computed:?}");
            ensure!(computed.steps == i64::from(STEPS), "{folder} computed steps twice: {computed:?}");
        }
        let observed =
            database.sql(&format!("select count(*) from gromacs_observation where row_id = {id}")).await?;
        ensure!(observed == "0", "the tuner learned from simulations that shared a core: {observed}");
        let missing = insert(
            world,
            &database,
            "water/water.tpr",
            &[("multidir", "'{sim0,nowhere}'"), ("max_cpu_millicores", "500")],
        )
        .await?;
        let reason = state(&database, missing, "failed").await?.reason.unwrap_or_default();
        ensure!(reason.contains("water/nowhere/water.tpr"), "{reason}");
        Ok(())
    });
}
