//! Ranks of Open MPI's mpirun under the supervisor on a real node: what SIGTERM does to them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt;
use scavenger_e2e::{
    World,
    interruption::{Ended, take_away},
    repetitions, run,
    world::{exec, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use serde_json::{Value, json};

/// Debian's mpirun, bash, and the counter.
const IMAGE: &str = concat!("scavenger.dev/counter-mpirun:", env!("CARGO_PKG_VERSION"));

/// Time to write the last checkpoint.
const GRACE: Duration = Duration::from_secs(20);

/// Ranks.
const RANKS: usize = 2;

/// The ranks' program follows. They may be more than there are cores, and need none of their own.
const MPIRUN: &str = "mpirun --oversubscribe --bind-to none -n 2";

/// A rank that writes its checkpoint at once, and only upon SIGTERM.
const COUNTER: &str = r#"bash -c 'exec scavenger-counter --to=1000000 --every=100ms --checkpoint-interval=1h \
    --index="$OMPI_COMM_WORLD_RANK" --checkpoint="/data/$NAME-{index}" --journal="/data/$NAME-{index}.journal"'"#;

/// A rank that takes three seconds for its checkpoint. It has no children: it waits by reading what nobody writes.
const SLOW: &str = r#"bash -c '
    file="/data/$NAME-$OMPI_COMM_WORLD_RANK"; mkfifo "/tmp/$OMPI_COMM_WORLD_RANK"; exec 3<> "/tmp/$OMPI_COMM_WORLD_RANK"
    trap "read -t 3 -u 3; echo saved > \"$file.new\"; mv \"$file.new\" \"$file\"; exit 143" TERM
    echo "step 1 1 0" > "$file.journal"; while :; do read -t 0.2 -u 3; done'"#;

/// A ScavengerJob whose command is this script; `NAME` is its name.
fn ranks(name: &str, command: &[&str], to: &str) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": IMAGE, "command": command,
            // mpirun keeps its files in /tmp.
            "env": [{ "name": "NAME", "value": name }, { "name": "HOME", "value": "/tmp" }],
            "resources": { "requests": { "cpu": "300m", "memory": "128Mi" } },
            "persistentVolumeClaims": [{ "claimName": "data", "mountPath": "/data" }],
            "interruptionAfter": "1s",
            "checkpoint": { "path": format!("/data/{name}-[01]"), "savesOnSigterm": true, "restartSeconds": 1 },
            "supervisor": { "signal": { "to": to } },
            "terminationGracePeriodSeconds": GRACE.as_secs(),
        },
    })
}

/// The events in the journal of a rank: name, attempt, count.
async fn journal(world: &World, name: &str, rank: usize) -> Result<Vec<(String, u64, u64)>> {
    let pod = world.pod(name).await?.name_any();
    let file = format!("/data/{name}-{rank}.journal");
    // Not there yet, or the container is not.
    let Ok(text) = exec(&world.api(), &pod, "main", &["cat", &file]).await else { return Ok(Vec::new()) };
    let event = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    Ok(text.lines().filter_map(event).collect())
}

/// Waits until each rank has done a step in this attempt; returns at which count each of them began.
async fn step(world: &World, name: &str, attempt: u64) -> Result<Vec<u64>> {
    world.phase(name, Phase::Running).await?;
    let begin = (0..RANKS).map(|rank| async move {
        until(&format!("rank {rank} of {name} has done a step"), || async {
            let events = journal(world, name, rank).await?;
            let count = |wanted: &str| {
                events.iter().find(|(event, of, _)| event == wanted && *of == attempt).map(|event| event.2)
            };
            Ok(count("step").map(|_| count("start").unwrap_or_default()))
        })
        .await
    });
    try_join_all(begin).await
}

/// True if each rank goes on where the attempt before it stopped; false if one was killed before it had saved.
async fn goes_on(world: &World, name: &str, attempt: u64) -> Result<bool> {
    let begins = step(world, name, attempt).await?;
    let mut all = true;
    for (rank, begin) in begins.into_iter().enumerate() {
        let events = journal(world, name, rank).await?;
        let last: BTreeMap<u64, u64> =
            events.iter().filter(|(event, ..)| event == "step").map(|(_, of, count)| (*of, *count)).collect();
        let before = last.get(&(attempt - 1)).copied();
        ensure!(before >= Some(begin), "rank {rank} of {name} stopped at {before:?} and began at {begin}");
        if before != Some(begin) {
            println!("rank {rank} of {name} stopped at {before:?} and began at {begin}");
            all = false;
        }
    }
    Ok(all)
}

async fn runs(world: &World, name: &str) -> Result<()> {
    world.phase(name, Phase::Running).await.map(drop)
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn ranks_behind_mpirun_end_with_a_checkpoint() {
    run("mpirun", |world| async move {
        world.claim("data").await?;
        let direct = format!("exec {MPIRUN} {COUNTER}");
        // The shell waits for mpirun and is the supervisor's child.
        let wrapped = format!("{MPIRUN} {COUNTER}; code=$?; echo \"mpirun ended with $code\"; exit $code");
        let forms =
            [("direct", &direct, "Child"), ("wrapped", &wrapped, "Child"), ("leaves", &wrapped, "Leaves")];
        let tries = forms.map(|(name, script, to)| async move {
            world.create::<ScavengerJob>(ranks(name, &["bash", "-c", script], to)).await?;
            step(world, name, 1).await?;
            let (mut saved, interruptions) = (0, repetitions(3).min(20));
            for _ in 0..interruptions {
                let ended = take_away(world, name, async || runs(world, name).await).await?;
                ended.answered_within(name, GRACE)?;
                saved += usize::from(goes_on(world, name, u64::try_from(ended.attempt.number)? + 1).await?);
            }
            // Beside much else, a rank may not get to write within the second that mpirun leaves it.
            let wanted = if to == "Leaves" { interruptions } else { interruptions.div_ceil(2) };
            ensure!(
                saved >= wanted,
                "all ranks of {name} went on after {saved} of {interruptions} interruptions"
            );
            anyhow::Ok(())
        });
        try_join_all(tries).await?;
        Ok(())
    });
}

/// A checkpoint of three seconds is written when the ranks get SIGTERM themselves. mpirun kills them after one second.
#[test]
fn slow_ranks_need_sigterm_themselves() {
    run("mpirun-slow", |world| async move {
        world.claim("data").await?;
        let script = format!("exec {MPIRUN} {SLOW}");
        let tries = [("mpirun", "Child"), ("themselves", "Leaves")].map(|(name, to)| {
            let script = &script;
            async move {
                world.create::<ScavengerJob>(ranks(name, &["bash", "-c", script], to)).await?;
                step(world, name, 1).await?;
                anyhow::Ok(take_away(world, name, async || runs(world, name).await).await?)
            }
        });
        let ended: [Ended; 2] = try_join_all(tries).await?.try_into().ok().context("two were started")?;
        for (Ended { attempt, took }, is_saved) in ended.iter().zip([false, true]) {
            println!("took {took:.1?}, answered: {:?}", attempt.answered_sigterm);
            ensure!(attempt.answered_sigterm == Some(is_saved), "{attempt:?}");
            ensure!(*took < GRACE / 2, "it ended after {took:?} only");
        }
        Ok(())
    });
}
