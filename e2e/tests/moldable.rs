//! Simulations that are interrupted again and again, by others who need the room, by hand and by eviction, and go on
//! from their checkpoints on whatever configuration is best then. They have the pool to themselves: how long an
//! interrupted one waits at least is set so that there is time for another configuration.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, EvictParams},
};
use scavenger_e2e::{
    World,
    gromacs::computed,
    kubectl::kubectl,
    postgres::Database,
    queue::{Row, attempts, history, insert, is_complete_with, prepare_with, row},
    random, repetitions,
    world::{ordinary_pod, run_within, until, until_within},
};
use scavenger_schema::names;
use serde_json::{Value, json};

/// Checkpoints are at most this far apart.
const STRETCH_SECONDS: u32 = 10;

/// Steps between frames of energies in the run input.
const STEPS_PER_FRAME: i64 = 100;

/// Some wait until all others are done.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What there is to do.
struct Plan {
    simulations: usize,
    interruptions: i64,
    steps: u32,
}

impl Plan {
    /// Modest, or in full when repetitions are asked for.
    fn new() -> Self {
        if repetitions(1) > 1 {
            Self { simulations: 6, interruptions: 3, steps: 40_000 }
        } else {
            Self { simulations: 2, interruptions: 1, steps: 6_000 }
        }
    }
}

/// Sets the pool. A JSON patch, since in a merge patch null would mean the default.
async fn set_pool(interrupt_threshold: Value, backoff: &str) -> Result<()> {
    let patch = json!([
        { "op": "replace", "path": "/spec/interruptThreshold", "value": interrupt_threshold },
        { "op": "replace", "path": "/spec/interruptionBackoff", "value": backoff },
    ]);
    kubectl(&["patch", "scavengerpool", names::DEFAULT_POOL, "--type=json", "-p", &patch.to_string()])
        .await?;
    Ok(())
}

/// An ordinary pod that asks for some CPU; it is there until it runs, and as long as `meanwhile` takes.
async fn owner<T>(world: &World, millicores: u32, meanwhile: impl Future<Output = Result<T>>) -> Result<T> {
    let pods = world.api::<Pod>();
    let requests = json!({ "cpu": format!("{millicores}m"), "memory": "16Mi" });
    world.create::<Pod>(ordinary_pod("owner", &requests)).await?;
    world.pod_runs("owner").await?;
    let result = meanwhile.await;
    pods.delete("owner", &DeleteParams::default()).await?;
    until("the owner's pod is gone", || async { Ok(pods.get_opt("owner").await?.is_none().then_some(())) })
        .await?;
    result
}

/// Waits until a row that runs has done so many steps more.
async fn progresses(database: &Database, id: i64, steps: i64) -> Result<Row> {
    let before = row(database, id).await?.step.unwrap_or(0);
    until(&format!("row {id} computes {steps} steps beyond {before}"), || async {
        let row = row(database, id).await?;
        ensure!(!matches!(row.state.as_str(), "completed" | "failed" | "cancelled"), "row {id} is {row:?}");
        let runs = row.state == "running" && row.step.is_some_and(|step| step >= before + steps);
        Ok(runs.then_some(row))
    })
    .await
}

async fn is_interrupted(database: &Database, id: i64, times: i64) -> Result<()> {
    until(&format!("row {id} is interrupted"), || async {
        Ok((row(database, id).await?.interruptions >= times).then_some(()))
    })
    .await
}

async fn evict(world: &World, id: i64) -> Result<()> {
    let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
    world.api::<Pod>().evict(&pod, &EvictParams::default()).await?;
    Ok(())
}

async fn delete(world: &World, id: i64) -> Result<()> {
    let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
    world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    Ok(())
}

/// The first one starts small, since an owner has half of the node, and grows when it is interrupted after the owner
/// has gone.
async fn grows(world: &World, database: &Database) -> Result<i64> {
    let id = owner(world, 1000, async {
        let id = insert_one(world, database).await?;
        progresses(database, id, 300).await?;
        Ok(id)
    })
    .await?;
    ensure!(row(database, id).await?.configuration_number == Some(2), "it should run on half a core");
    evict(world, id).await?;
    is_interrupted(database, id, 1).await?;
    progresses(database, id, 300).await?;
    let attempts = attempts(database, id).await?;
    let cores: Vec<_> = attempts.iter().map(|attempt| attempt.cpu_millicores).collect();
    ensure!(cores == [Some(500), Some(1000)], "it did not grow: {attempts:?}");
    let history = history(database, id).await?;
    let told = |line: &String| {
        line.contains("continues on configuration 1 of 2, 1 core: with the capacity there is now")
    };
    ensure!(history.iter().any(told), "{history:?}");
    Ok(id)
}

async fn insert_one(world: &World, database: &Database) -> Result<i64> {
    let stretch = STRETCH_SECONDS.to_string();
    let more = [("max_cpu_millicores", "1000"), ("interruption_after_seconds", stretch.as_str())];
    insert(world, database, "water/water.tpr", &more).await
}

/// The rows that were not interrupted often enough yet.
async fn due(database: &Database, ids: &[i64], plan: &Plan) -> Result<Vec<(i64, Row)>> {
    let mut due = Vec::new();
    for &id in ids {
        let row = row(database, id).await?;
        ensure!(row.state != "failed" && row.state != "cancelled", "row {id} is {row:?}");
        if row.interruptions < plan.interruptions {
            ensure!(
                row.state != "completed",
                "row {id} was done before it was interrupted often enough: {row:?}"
            );
            due.push((id, row));
        }
    }
    Ok(due)
}

/// Interrupts at random whoever runs, until each has been interrupted as often as planned.
async fn interrupt_all(world: &World, database: &Database, ids: &[i64], plan: &Plan) -> Result<()> {
    loop {
        let picked = until_within(PATIENCE, "one of those that are due runs", || async {
            let due = due(database, ids, plan).await?;
            if due.is_empty() {
                return Ok(Some(None));
            }
            let mut running: Vec<_> = due.into_iter().filter(|(_, row)| row.state == "running").collect();
            Ok((!running.is_empty()).then(|| Some(running.swap_remove(random(running.len())))))
        })
        .await?;
        let Some((id, before)) = picked else { return Ok(()) };
        progresses(database, id, 200 + i64::try_from(random(600))?).await?;
        let times = before.interruptions + 1;
        let how = random(3);
        println!("row {id}: {}", ["an owner preempts", "its pod is evicted", "its pod is deleted"][how]);
        match how {
            // Whoever has to go: all of the node but a quarter is asked for.
            0 => owner(world, 1500, is_interrupted(database, id, times)).await?,
            1 => evict(world, id).await?,
            _ => delete(world, id).await?,
        }
        is_interrupted(database, id, times).await?;
    }
}

/// Everything was computed, once, and without a gap.
async fn check(world: &World, database: &Database, id: i64, plan: &Plan) -> Result<()> {
    let row = until_within(PATIENCE, &format!("row {id} is completed"), || async {
        let row = row(database, id).await?;
        ensure!(row.state != "failed" && row.state != "cancelled", "row {id} is {row:?}");
        Ok((row.state == "completed").then_some(row))
    })
    .await?;
    is_complete_with(&row, plan.steps)?;
    let computed = computed(world, id).await?;
    println!("row {id}: {} interruptions, {computed:?}", row.interruptions);
    let steps = i64::from(plan.steps);
    ensure!(computed.last_step == steps, "{computed:?}");
    ensure!(computed.restarts == row.interruptions, "{computed:?}: {} interruptions", row.interruptions);
    ensure!(computed.frames == steps / STEPS_PER_FRAME + 1, "{computed:?}");
    // At the speed of the fastest attempt nobody computes more between two checkpoints.
    let fastest = row.ns_per_day.context("no speed was measured")?.max(1.0) * 2.0;
    let per_stretch = (fastest * 1000.0 / 0.002 / 86400.0 * f64::from(STRETCH_SECONDS)).ceil() as i64;
    let twice = computed.steps - steps;
    ensure!(
        (0..=row.interruptions * per_stretch).contains(&twice),
        "{twice} steps were computed twice: {computed:?}"
    );
    // What was recorded agrees: each attempt began where the files say.
    let attempts = attempts(database, id).await?;
    ensure!(i64::try_from(attempts.len())? == row.interruptions + 1, "{attempts:?}");
    // Each attempt that told how fast it was taught the tuner once; those that were interrupted early tell nothing.
    let observed = format!("select attempt from gromacs_observation where row_id = {id} order by attempt");
    let measured = format!(
        "select attempt from gromacs_attempt where row_id = {id} and ns_per_day is not null order by attempt"
    );
    let (observed, measured): (Vec<Value>, Vec<Value>) =
        (database.rows(&observed).await?, database.rows(&measured).await?);
    ensure!(!observed.is_empty() && observed == measured, "{observed:?}, but {measured:?}");
    Ok(())
}

async fn all(world: &World, plan: &Plan) -> Result<()> {
    let database = prepare_with(world, plan.steps, "").await?;
    let mut ids = vec![grows(world, &database).await?];
    for _ in 1..plan.simulations {
        ids.push(insert_one(world, &database).await?);
    }
    interrupt_all(world, &database, &ids, plan).await?;
    for &id in &ids {
        check(world, &database, id, plan).await?;
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn interrupted_at_random_they_complete_and_nothing_is_lost() {
    let plan = Plan::new();
    run_within(Duration::from_secs(3600), "moldable", |world| async move {
        set_pool(Value::Null, "15s").await?;
        let result = all(world, &plan).await;
        set_pool(json!(1), "1s").await?;
        result
    });
}
