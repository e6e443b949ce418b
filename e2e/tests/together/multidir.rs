//! One row of four simulations, side by side in one pod, which a chemist adds, follows, extends and brings home.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World,
    chemist::Chemist,
    gromacs::computed_in,
    queue::{attempts, insert, prepare_with, row, state},
    run,
    world::until,
};

const STEPS: u32 = 2000;

/// Half as long again: 1,000 steps of 2 fs.
const MORE_NS: &str = "0.002";
const ALL_STEPS: u32 = 3000;

const FOLDERS: [&str; 4] = ["sim0", "sim1", "sim2", "sim3"];

/// Four copies of the same box: what differs in an ensemble is no matter of the queue.
const COPIES: &str = r#"
for folder in sim0 sim1 sim2 sim3; do
    mkdir -p "/data/water/$folder"
    cp /data/water/water.tpr "/data/water/$folder/"
done
"#;

/// Each has computed every step once.
async fn are_continuous(world: &World, id: i64, end: u32, restarts: i64) -> Result<()> {
    for folder in FOLDERS {
        let computed = computed_in(world, id, folder).await?;
        let ends_there = computed.last_step == i64::from(end) && computed.steps == i64::from(end);
        ensure!(ends_there && computed.restarts <= restarts, "{folder}: {computed:?}");
    }
    Ok(())
}

async fn files_of_each_come_home(chemist: &Chemist, row: &str) -> Result<()> {
    let log = chemist.good(&["logs", row]).await?;
    ensure!(log.contains("starting mdrun '4 simulations'") && log.contains("together: "), "{log}");
    let log = chemist.good(&["logs", row, "--mdrun", "--simulation", "sim2", "--lines", "1000"]).await?;
    ensure!(log.contains("Finished mdrun on rank 0"), "{log}");
    chemist.refused(&["logs", row, "--mdrun", "--simulation", "sim7"], &["has no simulation sim7"]).await?;

    let home = tempfile::tempdir()?;
    let to = home.path().join("results");
    let to_text = to.to_str().context("the folder's path is no text")?;
    let hint = "\"**/*.log\" means those in its folders";
    chemist.refused(&["fetch", row, "*.log", "--to", to_text], &[hint]).await?;
    let printed = chemist.good(&["fetch", row, "**/md.log", "sim1/confout.gro", "--to", to_text]).await?;
    ensure!(printed.contains("copied 5 files"), "{printed}");
    for folder in FOLDERS {
        let log = std::fs::read_to_string(to.join(folder).join("md.log"))?;
        ensure!(log.contains("Finished mdrun on rank 0"), "{folder}: {log}");
    }
    ensure!(to.join("sim1/confout.gro").is_file() && !to.join("sim0/confout.gro").exists(), "{printed}");
    let listed = chemist.json(&["files", row]).await?;
    let names: Vec<&str> =
        listed.as_array().context("no list")?.iter().filter_map(|file| file["name"].as_str()).collect();
    for folder in FOLDERS {
        ensure!(names.contains(&format!("{folder}/state.cpt").as_str()), "{names:?}");
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn four_simulations_in_a_row_go_on_through_an_interruption_and_longer() {
    run("multidir", |world| async move {
        let database = prepare_with(world, STEPS, COPIES).await?;
        let carol = Chemist::new(world, &database, "carol", true).await?;
        let add = ["add", "water/water.tpr", "--max-cpu-millicores", "500", "--multidir"];
        let added = carol.json(&[&add[..], &FOLDERS].concat()).await?;
        let id = added[0]["id"].as_i64().with_context(|| added.to_string())?;
        let text = id.to_string();
        let seen = until("all four simulations compute", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 100))
        })
        .await?;
        let listed = carol.json(&["list"]).await?;
        ensure!(listed[0]["simulations"] == 4, "{listed}");
        let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
        world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        let first = state(&database, id, "completed").await?;
        ensure!((first.step, first.interruptions) == (Some(i64::from(STEPS)), 1), "{first:?}");
        let ran = attempts(&database, id).await?;
        ensure!(ran.len() == 2 && ran[0].outcome.as_deref() == Some("interrupted"), "{ran:?}");
        // The checkpoints that all wrote at SIGTERM, and no earlier ones.
        ensure!(ran[1].first_step.is_some_and(|step| step >= seen), "{seen} were seen: {ran:?}");
        are_continuous(world, id, STEPS, 1).await?;
        files_of_each_come_home(&carol, &text).await?;

        let printed = carol.good(&["extend", &text, "--ns", MORE_NS]).await?;
        ensure!(printed.contains("goes on from 0.004 to 0.006 ns"), "{printed}");
        until("all four have gone on", || async {
            let row = row(&database, id).await?;
            ensure!(row.state != "failed", "{row:?}");
            Ok((row.state == "completed" && row.step == Some(i64::from(ALL_STEPS))).then_some(()))
        })
        .await?;
        let ran = attempts(&database, id).await?;
        let last = ran.last().context("no attempts")?;
        ensure!((ran.len(), last.first_step) == (3, Some(i64::from(STEPS))), "{ran:?}");
        are_continuous(world, id, ALL_STEPS, 2).await?;
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
