//! Twenty simulations of one command, each with a temperature of its own, that are interrupted at random, and what is computed
//! of all their results. They have the cluster to themselves: whatever else waits would wait for all of them.

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World,
    chemist::Chemist,
    gromacs::{SYSTEM, computed},
    postgres::Database,
    queue::{Row, prepare_with, state},
    random,
    world::{run_within, until_within},
};
use serde::Deserialize;
use serde_json::Value;

/// Enough that none ends before it is interrupted.
const STEPS: u32 = 3000;

/// They take some three minutes one after the other.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What all of them begin with; their run inputs are made by the rows themselves.
const SETTINGS: &str = "sed 's/@NSTEPS@/3000/' /water/md.mdp >md.mdp";

const SWEEP: [&str; 17] = [
    "add",
    "water/T{T}.tpr",
    "--sweep",
    "T=300..319",
    "--grompp",
    "-f md.mdp -c box.gro -p topol.top",
    "--mdp",
    "ref-t={T}",
    "--mdp",
    "gen-seed = {T}",
    "--label",
    "T={T}",
    "--project",
    "heat",
    "--max-cpu-millicores",
    "500",
    "--allow-duplicate",
];

/// The temperature that each mdrun had, one a line.
const COLLECT: &str =
    r#"for row in "$@"; do sed -n 's/^ *ref-t: *//p' "../gromacs-$row/md.log" | head -n 1; done >heat.txt"#;

#[derive(Deserialize)]
struct Numbered {
    id: i64,
    #[serde(flatten)]
    row: Row,
}

/// One that has come as far as it may undisturbed; none if each was interrupted.
async fn next(database: &Database, due: &BTreeMap<i64, i64>) -> Result<Option<Option<i64>>> {
    let rows: Vec<Numbered> = database.rows("select * from gromacs_queue where project = 'heat'").await?;
    for Numbered { id, row } in &rows {
        ensure!(row.state != "failed" && row.state != "cancelled", "row {id} is {row:?}");
        let Some(step) = due.get(id) else { continue };
        ensure!(row.state != "completed", "row {id} was completed before step {step} was seen: {row:?}");
        if row.state == "running" && row.step >= Some(*step) {
            return Ok(Some(Some(*id)));
        }
    }
    Ok(due.is_empty().then_some(None))
}

/// Interrupts each once, after so many steps.
async fn interrupt_each(world: &World, database: &Database, mut due: BTreeMap<i64, i64>) -> Result<()> {
    while let Some(id) = until_within(PATIENCE, "one of them may go", || next(database, &due)).await? {
        let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
        world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        due.remove(&id);
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn twenty_that_are_interrupted_at_random_complete_and_their_results_are_collected() {
    run_within(PATIENCE, "sweep", |world| async move {
        let database = prepare_with(world, STEPS, &[SYSTEM, SETTINGS].concat()).await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let would = alice.good(&[&SWEEP[..], &["--dry-run"]].concat()).await?;
        ensure!(would.contains("water/T300.tpr") && would.contains("water/T319.tpr"), "{would}");
        ensure!(alice.json(&["list"]).await?.as_array().is_some_and(Vec::is_empty), "a dry run adds rows");
        let added = alice.json(&SWEEP).await?;
        let ids: Vec<i64> =
            added.as_array().context("no list")?.iter().filter_map(|row| row["id"].as_i64()).collect();
        ensure!(ids.len() == 20, "{added}");
        let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        let after: Vec<&str> = words.iter().flat_map(|row| ["--after", row]).collect();
        let command =
            ["add", "--output", "json", "--folder", "water", "--image", "scavenger.dev/gromacs:2022.5"];
        let resources = ["--cores", "100m", "--memory", "64Mi", "--command", "--"];
        let shell = ["sh", "-c", COLLECT, "collect"];
        let printed = alice.good(&[&command[..], &after, &resources, &shell, &words].concat()).await?;
        let added: Value = serde_json::from_str(&printed)?;
        let collect = added[0]["id"].as_i64().with_context(|| printed.clone())?;

        let due = ids.iter().map(|id| (*id, 50 + random(800) as i64)).collect();
        println!("to be interrupted from these steps on: {due:?}");
        interrupt_each(world, &database, due).await?;
        let steps = i64::from(STEPS);
        for &id in &ids {
            let row = state(&database, id, "completed").await?;
            ensure!(row.interruptions >= 1 && row.step == Some(steps), "{row:?}");
            let computed = computed(world, id).await?;
            ensure!(computed.last_step == steps && computed.steps == steps, "row {id}: {computed:?}");
            ensure!(computed.restarts >= 1, "row {id}: {computed:?}");
        }

        state(&database, collect, "completed").await?;
        let home = tempfile::tempdir()?;
        let to = home.path().to_str().context("the folder's path is no text")?;
        alice.good(&["fetch", &collect.to_string(), "--to", to]).await?;
        let heat = fs::read_to_string(home.path().join("heat.txt"))?;
        let expected: String = (300..320).map(|kelvin| format!("{kelvin}\n")).collect();
        ensure!(heat == expected, "{heat}");
        Ok(())
    });
}
