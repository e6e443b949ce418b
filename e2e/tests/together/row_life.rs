//! Rows that do not go the straight way: bad ones, too little memory, a quota, and what is left at the end.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::ResourceQuota;
use scavenger_e2e::{
    World,
    postgres::Database,
    queue::{
        attempts, history, insert, is_complete, is_complete_with, prepare, prepare_with, row, simulations,
        state,
    },
    run,
    volume::SmallVolume,
    world::until,
};
use scavenger_vocabulary::Reason;
use serde_json::json;

/// Run inputs that no submitter should take: one without an end, one of a GROMACS of the future (the number behind the
/// precision is the version of the format), and one whose time step tears the molecules apart.
const BAD_FILES: &str = r#"
mkdir -p /data/bad
cd /data/bad
gmx -quiet convert-tpr -s /data/water/water.tpr -nsteps -1 -o endless.tpr
perl -0777 -pe 's/\x00\x00\x00\x04\x00\x00\x00\x7f/\x00\x00\x00\x04\x00\x00\x00\x8f/' /data/water/water.tpr > newer.tpr
cd "$(mktemp -d)"
gmx -quiet editconf -f /data/water/water.tpr -o conf.gro
molecules=$(($(sed -n 2p conf.gro) / 3))
printf '%s\n' '#include "oplsaa.ff/forcefield.itp"' '#include "oplsaa.ff/spce.itp"' '[ system ]' Water '[ molecules ]' \
    "SOL $molecules" > topol.top
sed -e 's/@NSTEPS@/5000/' -e 's/^dt .*/dt = 0.05/' /water/md.mdp > md.mdp
printf '%s\n' 'verlet-buffer-tolerance = -1' 'rlist = 0.9' >> md.mdp
gmx -quiet grompp -f md.mdp -c conf.gro -p topol.top -o /data/bad/torn.tpr -maxwarn 9
"#;

/// How many rows are tried one after the other.
const TRIES: u32 = 3;

/// A run input that takes much more memory than its number of atoms lets expect: a PME grid of 200 points each way.
const LARGE_GRID: &str = r#"
mkdir -p /data/grid
cd "$(mktemp -d)"
gmx -quiet editconf -f /data/water/water.tpr -o conf.gro
molecules=$(($(sed -n 2p conf.gro) / 3))
printf '%s\n' '#include "oplsaa.ff/forcefield.itp"' '#include "oplsaa.ff/spce.itp"' '[ system ]' Water '[ molecules ]' \
    "SOL $molecules" > topol.top
sed -e 's/@NSTEPS@/10/' -e 's/^fourierspacing .*/fourierspacing = 0.0125/' /water/md.mdp > md.mdp
gmx -quiet grompp -f md.mdp -c conf.gro -p topol.top -o /data/grid/grid.tpr -maxwarn 9
"#;

/// A run input that writes much, a frame of coordinates of 6 kB every 20 steps, and takes some checkpoints long.
const TALKATIVE: &str = r#"
mkdir -p /data/talkative
cd "$(mktemp -d)"
gmx -quiet editconf -f /data/water/water.tpr -o conf.gro
molecules=$(($(sed -n 2p conf.gro) / 3))
printf '%s\n' '#include "oplsaa.ff/forcefield.itp"' '#include "oplsaa.ff/spce.itp"' '[ system ]' Water '[ molecules ]' \
    "SOL $molecules" > topol.top
sed -e 's/@NSTEPS@/6000/' -e 's/^nstxout-compressed .*/nstxout-compressed = 20/' /water/md.mdp > md.mdp
gmx -quiet grompp -f md.mdp -c conf.gro -p topol.top -o /data/talkative/talkative.tpr -maxwarn 9
"#;

async fn fails_with(database: &Database, id: i64, words: &[&str]) -> Result<()> {
    let row = state(database, id, "failed").await?;
    let reason = row.reason.unwrap_or_default();
    for word in words {
        ensure!(reason.contains(word), "row {id} does not say {word:?}: {reason}");
    }
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn bad_rows_say_what_to_do_and_the_queue_goes_on() {
    run("bad-rows", |world| async move {
        let database = prepare_with(world, 3000, BAD_FILES).await?;
        let half = [("max_cpu_millicores", "500")];
        let no_volume = database
            .sql(&format!(
                "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path) \
                 values ('{}', 'nowhere', 'water/water.tpr') returning id",
                world.namespace
            ))
            .await?;
        let no_volume: i64 = no_volume.parse().context("psql returned no id")?;
        let endless = insert(world, &database, "bad/endless.tpr", &half).await?;
        let newer = insert(world, &database, "bad/newer.tpr", &half).await?;
        let stretch = [("interruption_after_seconds", "86400")];
        let too_long = insert(world, &database, "water/water.tpr", &stretch).await?;
        let torn = insert(world, &database, "bad/torn.tpr", &half).await?;
        let good = insert(world, &database, "water/water.tpr", &half).await?;
        fails_with(&database, no_volume, &["nowhere"]).await?;
        fails_with(&database, endless, &["never end", "convert-tpr"]).await?;
        fails_with(&database, newer, &["reading tpx file", "name a newer image"]).await?;
        fails_with(&database, too_long, &["interruption_after_seconds is 86400", "the ScavengerPool allows"])
            .await?;
        fails_with(&database, torn, &["mdrun failed: "]).await?;
        let attempts = attempts(&database, torn).await?;
        let log = attempts.last().and_then(|attempt| attempt.log_end.clone()).unwrap_or_default();
        let told = ["can not be settled", "Fatal error"].iter().any(|words| log.contains(words));
        ensure!(told && !log.contains("remaining wall clock"), "the end of the log: {log}");
        is_complete(&state(&database, good, "completed").await?)
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_full_disk_stops_the_row_which_goes_on_where_it_stopped_once_there_is_room() {
    run("full-disk", |world| async move {
        let database = prepare_with(world, 3000, TALKATIVE).await?;
        let volume = SmallVolume::new(world, "talkative/talkative.tpr").await?;
        let told = fills_up(world, &database, &volume).await;
        volume.remove().await?;
        told
    });
}

async fn fills_up(world: &World, database: &Database, volume: &SmallVolume) -> Result<()> {
    let id = database
        .sql(&format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, max_cpu_millicores, \
                 interruption_after_seconds) \
             values ('{}', '{}', 'talkative.tpr', 500, 5) returning id",
            world.namespace,
            SmallVolume::CLAIM
        ))
        .await?;
    let id: i64 = id.parse().context("psql returned no id")?;
    volume.fill_behind_a_checkpoint(&format!("gromacs-{id}")).await?;
    until("the row waits for room", || async {
        let row = row(database, id).await?;
        let reason = row.reason.unwrap_or_default();
        ensure!(row.state != "failed", "somebody else may have filled the volume: {reason}");
        let waits = ["out of disk space", "; tries again at"].iter().all(|words| reason.contains(words));
        Ok((row.state == "queued" && waits).then_some(()))
    })
    .await?;
    let ran = attempts(database, id).await?;
    let failed = ran.last().context("nothing ran")?;
    ensure!(failed.outcome.as_deref() == Some("failed"), "{ran:?}");
    let log = failed.log_end.clone().unwrap_or_default();
    ensure!(log.contains("rror") && log.contains("out of disk"), "the end of the log: {log}");
    ensure!(!log.contains("remaining wall clock"), "the end of the log: {log}");
    // Whoever comes next has room elsewhere.
    let next = insert(world, database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
    is_complete(&state(database, next, "completed").await?)?;
    volume.make_room().await?;
    is_complete_with(&state(database, id, "completed").await?, 6000)?;
    let again = attempts(database, id).await?;
    let last = again.last().context("nothing ran")?;
    ensure!(
        last.submission > 1 && last.first_step.is_some_and(|step| step > 0),
        "it began again from the first step: {again:?}"
    );
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn killed_for_lack_of_memory_it_completes_with_more() {
    run("more-memory", |world| async move {
        let database = prepare_with(world, 3000, LARGE_GRID).await?;
        // What the user gives wins over the file: the tuner reckons with a small grid.
        let more = [("max_cpu_millicores", "500"), ("pme_grid", "'{20,20,20}'"), ("pme_order", "4")];
        let id = insert(world, &database, "grid/grid.tpr", &more).await?;
        is_complete_with(&state(&database, id, "completed").await?, 10)?;
        let attempts = attempts(&database, id).await?;
        let (last, killed) = attempts.split_last().context("nothing ran")?;
        ensure!(!killed.is_empty(), "it was never killed: {attempts:?}");
        for (attempt, next) in killed.iter().zip(&attempts[1..]) {
            ensure!(attempt.outcome.as_deref() == Some("failed"), "{attempt:?}");
            ensure!(attempt.reason.as_deref() == Some(Reason::OOMKilled.name()), "{attempt:?}");
            ensure!(attempt.peak_memory_bytes == attempt.memory_bytes, "the limit was reached: {attempt:?}");
            ensure!(next.memory_bytes >= attempt.memory_bytes.map(|bytes| 2 * bytes), "{attempts:?}");
            ensure!(next.submission == attempt.submission + 1, "one ScavengerJob for each: {attempts:?}");
        }
        ensure!(last.outcome.as_deref() == Some("completed"), "{attempts:?}");
        let left = simulations(world, id).await?;
        ensure!(left == [format!("gromacs-{id}-{}", last.submission)], "those before are gone: {left:?}");
        is_removed_when_due(world, &database, id).await
    });
}

/// Nobody waits for a day here: the row is told that it is over.
async fn is_removed_when_due(world: &World, database: &Database, id: i64) -> Result<()> {
    let due =
        "job_expiry_time > now() + interval '23 hours' and job_expiry_time < now() + interval '25 hours'";
    let select = format!("select {due} from gromacs_to_tune where id = {id}");
    ensure!(database.sql(&select).await? == "t", "it is not to be removed in a day");
    database.sql(&format!("update gromacs_to_tune set job_expiry_time = now() where id = {id}")).await?;
    until("the finished ScavengerJob is removed", || async {
        Ok(simulations(world, id).await?.is_empty().then_some(()))
    })
    .await?;
    let forgotten = format!(
        "select job_expiry_time is null and state = 'completed' from gromacs_to_tune where id = {id}"
    );
    until("nothing is left to remove", || async {
        Ok((database.sql(&forgotten).await? == "t").then_some(()))
    })
    .await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_quota_that_is_too_small_for_the_largest_is_enough_for_a_smaller() {
    run("quota-ladder", |world| async move {
        let classes: Vec<String> = (0..10).map(|class| format!("scavenger-{class}")).collect();
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "scavengerjobs" },
            "spec": {
                "hard": { "requests.cpu": "800m" },
                "scopeSelector": { "matchExpressions": [
                    { "scopeName": "PriorityClass", "operator": "In", "values": classes },
                ] },
            },
        });
        world.create::<ResourceQuota>(quota).await?;
        let database = prepare(world).await?;
        let columns = [("max_cpu_millicores", "1000"), ("fallback_after_seconds", "80")];
        // The pool may be full of what other tests run, for as long as a row waits: then it falls back for that reason.
        for _ in 0..TRIES {
            let id = insert(world, &database, "water/water.tpr", &columns).await?;
            let row = state(&database, id, "completed").await?;
            is_complete(&row)?;
            ensure!(row.configuration_number == Some(2), "{row:?}");
            ensure!(
                simulations(world, id).await?.len() == 1,
                "falling back must stay within one ScavengerJob"
            );
            let history = history(&database, id).await?;
            let fell = history
                .iter()
                .find(|line| line.contains("falls back to configuration 2 of 2"))
                .with_context(|| format!("row {id} did not fall back: {history:?}"))?;
            if fell.contains("exceeded quota") {
                return Ok(());
            }
            ensure!(fell.contains("no free capacity"), "{history:?}");
        }
        bail!("the pool was full in each of {TRIES} tries")
    });
}
