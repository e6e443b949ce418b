//! Several submitters on one queue: each row is submitted once, whoever dies and whatever goes away in the meantime, and
//! a row that its owner cancels leaves nothing behind. Postgres, tuner and submitters are real processes of the test's
//! own, the API server and the operator are the cluster's; the pool rests, so that no submission turns into pods.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use kube::{
    ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use scavenger_e2e::{
    World,
    faults::{OPERATOR, Proxy},
    local::{Postgres, Submitter, Tuner, queue, submitter},
    played::{Logs, PlayedJob},
    repetitions,
    room::patch_pool,
    world::{LIMIT, OPERATORS, run_within, until, until_within},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::json;
use tokio::task::JoinSet;

/// One test at a time: there is one pool.
static TURN: Mutex<()> = Mutex::new(());

/// Postgres, a tuner, and a way to the API server that can be closed.
struct Stage {
    world: &'static World,
    postgres: Postgres,
    tuner: Option<Tuner>,
    /// Where submitters look for the tuner.
    address: String,
    proxy: Proxy,
}

impl Stage {
    async fn new(world: &'static World) -> Result<Self> {
        let postgres = queue(world).await?;
        let tuner = Tuner::start(None).await?;
        let address = tuner.address().to_owned();
        Ok(Self {
            world,
            postgres,
            tuner: Some(tuner),
            address,
            proxy: Proxy::start_as(names::SUBMITTER).await?,
        })
    }

    async fn submitter(&self) -> Result<Submitter> {
        Submitter::start(&self.postgres, &self.address, &self.proxy).await
    }

    /// Adds rows of which everything is known, so that nothing has to be read from a volume.
    async fn add(&self, count: usize) -> Result<()> {
        let insert = format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, atoms, nsteps, init_step,
                dt_ps, cutoff_nm, constraints, bonded_interactions, inspected)
            select '{}', 'data', 'runs/' || n || '.tpr', 3000, 100000, 0, 0.002, 0.9, 3000, 0, '{{\"run-input\": \"run-1-2.tpr\"}}'
            from generate_series(1, {count}) n",
            self.world.namespace
        );
        self.postgres.sql(&insert).await?;
        Ok(())
    }

    async fn in_state(&self, state: &str) -> Result<usize> {
        self.postgres.number(&format!("select count(*) from gromacs_to_tune where state = '{state}'")).await
    }

    /// Waits for a state; each tenth of the way has the time of a whole wait, since nobody knows how many rows there are.
    async fn all_are(&self, state: &str, count: usize) -> Result<()> {
        // A second for each row, which takes a tenth of it.
        let limit = LIMIT.max(Duration::from_secs(u64::try_from(count)? / 10));
        for tenth in 1..=10 {
            let so_many = count * tenth / 10;
            until_within(limit, &format!("{so_many} of {count} rows are {state}"), || async {
                // Postgres may be away just now.
                let reached = self.in_state(state).await.is_ok_and(|number| number >= so_many);
                Ok(reached.then_some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// What the database says about submissions: one for each row.
    async fn is_submitted_once(&self, count: usize) -> Result<()> {
        let rows = self.postgres.number("select count(*) from gromacs_to_tune where submission = 1").await?;
        ensure!(rows == count, "{rows} of {count} rows are in their first submission");
        let twice: Vec<serde_json::Value> = self
            .postgres
            .rows(
                "select row_id, count(*) from gromacs_event where state = 'submitted'
                    and message not like 'the tuner notes: %'
                group by row_id having count(*) <> 1",
            )
            .await?;
        ensure!(twice.is_empty(), "submitted more than once: {twice:?}");
        Ok(())
    }

    /// Ends the processes before their files are removed.
    async fn end(mut self) -> Result<()> {
        drop(self.tuner.take());
        self.postgres.down()
    }
}

/// Sees every ScavengerJob of the namespace.
struct Witness {
    seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    _watch: JoinSet<()>,
}

impl Witness {
    fn start(world: &World) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>> = Arc::default();
        let mut watch = JoinSet::new();
        let (jobs, noted) = (world.api::<ScavengerJob>(), Arc::clone(&seen));
        watch.spawn(async move {
            let mut events =
                watcher(jobs, watcher::Config::default()).default_backoff().applied_objects().boxed();
            while let Some(event) = events.next().await {
                let Ok(job) = event else { continue };
                let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                seen.entry(job.name_any()).or_default().insert(job.uid().unwrap_or_default());
            }
        });
        Self { seen, _watch: watch }
    }

    /// One ScavengerJob was made for each of `count` rows, and no other.
    async fn saw_each_once(&self, count: usize) -> Result<()> {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        until("the watch has seen them all", || async { Ok((seen().len() >= count).then_some(())) }).await?;
        let seen = seen();
        ensure!(seen.len() == count, "{} ScavengerJobs were made for {count} rows", seen.len());
        let twice: Vec<_> = seen.iter().filter(|(_, uids)| uids.len() != 1).collect();
        ensure!(twice.is_empty(), "made again: {twice:?}");
        let others: Vec<_> = seen.keys().filter(|name| !name.ends_with("-1")).collect();
        ensure!(others.is_empty(), "not a first submission: {others:?}");
        Ok(())
    }
}

/// Runs a test while the pool rests and, if it shall play the operator itself, while no operator is there.
fn alone<F>(name: &str, plays_operator: bool, test: impl FnOnce(&'static World) -> F + Copy)
where
    F: Future<Output = Result<()>>,
{
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = Duration::from_secs(if repetitions(1) > 1 { 3600 } else { 900 });
    run_within(limit, name, move |world| async move {
        if std::env::var_os(OPERATOR).is_none() {
            eprintln!("skipped {name}: {OPERATOR} is not set; `cargo xtask test` sets it");
            ensure!(std::env::var_os("CI").is_none(), "{OPERATOR} is not set");
            return Ok(());
        }
        patch_pool(world, &json!({ "paused": true })).await?;
        if plays_operator {
            world.operators(0).await?;
        }
        let result = test(world).await;
        // As it was, whatever became of the test.
        if plays_operator {
            world.operators(OPERATORS).await?;
        }
        patch_pool(world, &json!({ "paused": false })).await?;
        result
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn three_submitters_submit_each_row_once() {
    alone("submitters", false, |world| async move {
        let count = if repetitions(1) > 1 { 5000 } else { 200 };
        let stage = Stage::new(world).await?;
        let witness = Witness::start(world);
        stage.add(count).await?;
        let began = Instant::now();
        let first = stage.submitter().await?;
        let others = [stage.submitter().await?, stage.submitter().await?];
        // One dies in the midst of it, and another takes its place.
        until("a quarter is submitted", || async {
            Ok((stage.in_state("submitted").await? >= count / 4).then_some(()))
        })
        .await?;
        first.kill().await?;
        let next = stage.submitter().await?;
        stage.all_are("submitted", count).await?;
        let took = began.elapsed().as_secs_f64();
        println!("three submitters submitted {count} rows in {took:.1} s, one of them killed on the way");
        witness.saw_each_once(count).await?;
        stage.is_submitted_once(count).await?;
        let holders = stage
            .postgres
            .number("select count(*) from gromacs_to_tune where lease_until > now() + interval '1 minute'")
            .await?;
        ensure!(holders == 0, "{holders} leases reach further than a lease is long");

        // Their owner has had enough of them.
        let said = submitter(&stage.postgres, &["cancel", "--namespace", &world.namespace, "--yes"]).await?;
        ensure!(said.lines().count() == count, "{said}");
        stage.all_are("cancelled", count).await?;
        leaves_nothing(world).await?;
        for submitter in others.into_iter().chain([next]) {
            submitter.kill().await?;
        }
        stage.end().await
    });
}

/// A database that lets no two transactions interfere answers some of them with a serialization failure.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn serialization_failures_are_tried_again() {
    alone("serializable", false, |world| async move {
        let stage = Stage::new(world).await?;
        let strict = "alter database postgres set default_transaction_isolation = 'serializable'";
        stage.postgres.sql(strict).await?;
        let witness = Witness::start(world);
        stage.add(60).await?;
        let submitters = [stage.submitter().await?, stage.submitter().await?, stage.submitter().await?];
        stage.all_are("submitted", 60).await?;
        witness.saw_each_once(60).await?;
        stage.is_submitted_once(60).await?;
        for submitter in submitters {
            submitter.kill().await?;
        }
        stage.end().await
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Postgres,
    Api,
    Tuner,
}

async fn goes_away(world: &'static World, part: Part) -> Result<()> {
    const ROWS: usize = 60;
    let long = Duration::from_secs(if repetitions(1) > 1 { 60 } else { 5 });
    let mut stage = Stage::new(world).await?;
    let witness = Witness::start(world);
    let submitters = [stage.submitter().await?, stage.submitter().await?];
    stage.add(ROWS).await?;
    // Any moment of the way: with so many rows submitted.
    let moment = usize::try_from(RandomState::new().hash_one(0) % ROWS as u64)?;
    println!("{part:?} goes away with {moment} of {ROWS} rows submitted");
    until("the moment has come", || async {
        Ok((stage.in_state("submitted").await? >= moment).then_some(()))
    })
    .await?;
    match part {
        Part::Postgres => stage.postgres.down()?,
        Part::Api => stage.proxy.set_down(true),
        Part::Tuner => drop(stage.tuner.take().context("the tuner is away already")?.kill().await?),
    }
    tokio::time::sleep(long).await;
    match part {
        Part::Postgres => stage.postgres.up()?,
        Part::Api => stage.proxy.set_down(false),
        Part::Tuner => stage.tuner = Some(Tuner::start(Some(&stage.address)).await?),
    }
    let began = Instant::now();
    stage.all_are("submitted", ROWS).await?;
    println!("all were submitted {:.1} s after it came back", began.elapsed().as_secs_f64());
    witness.saw_each_once(ROWS).await?;
    stage.is_submitted_once(ROWS).await?;
    for submitter in submitters {
        // Not one of them ended.
        submitter.kill().await?;
    }
    stage.end().await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn postgres_may_go_away() {
    alone("postgres-away", false, |world| goes_away(world, Part::Postgres));
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn the_api_server_may_go_away() {
    alone("api-away", false, |world| goes_away(world, Part::Api));
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn the_tuner_may_go_away() {
    alone("tuner-away", false, |world| goes_away(world, Part::Tuner));
}

/// Waits until the namespace has no ScavengerJob any more.
async fn leaves_nothing(world: &World) -> Result<()> {
    until("every ScavengerJob is gone", || async {
        let left = world.api::<ScavengerJob>().list(&Default::default()).await?.items.len();
        Ok((left == 0).then_some(()))
    })
    .await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_row_is_cancelled_in_each_state() {
    alone("cancel", true, |world| async move {
        let mut stage = Stage::new(world).await?;
        for state in ["queued", "inspecting", "tuning", "submitted", "running", "interrupted"] {
            if state == "tuning" {
                // Nobody answers, so it stays there.
                drop(stage.tuner.take());
            }
            let working = if state == "queued" { None } else { Some(stage.submitter().await?) };
            if state == "inspecting" {
                // Its file has to be read, for which no pod starts.
                stage
                    .postgres
                    .sql(&format!(
                        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path)
                        values ('{}', 'data', 'unread.tpr')",
                        world.namespace
                    ))
                    .await?;
            } else {
                stage.add(1).await?;
            }
            let id = stage.postgres.number("select max(id) from gromacs_to_tune").await?;
            let reach = if matches!(state, "running" | "interrupted") { "submitted" } else { state };
            until(&format!("row {id} is {reach}"), || async {
                Ok((stage.in_state(reach).await? == 1).then_some(()))
            })
            .await?;
            // Its finalizer holds what was made until the operator, which the test plays, lets it go.
            let made = match state {
                "inspecting" => Some("inspect"),
                "submitted" | "running" | "interrupted" => Some("1"),
                _ => None,
            };
            let mut played = None;
            if let Some(made) = made {
                let name = format!("gromacs-{id}-{made}");
                let mut job = PlayedJob::made(world, &name, &Logs::default()).await?;
                if reach != state {
                    job.runs("").await?;
                }
                if state == "interrupted" {
                    job.is_interrupted(Reason::Deleted, WaitingReason::BackingOff).await?;
                }
                played = Some(job);
                until(&format!("row {id} is {state}"), || async {
                    Ok((stage.in_state(state).await? == 1).then_some(()))
                })
                .await?;
            }
            submitter(&stage.postgres, &["cancel", &id.to_string()]).await?;
            let working = match working {
                Some(working) => working,
                None => stage.submitter().await?,
            };
            if let Some(job) = played {
                job.is_deleted().await?;
            }
            until(&format!("row {id} is cancelled out of {state}"), || async {
                let select =
                    format!("select count(*) from gromacs_to_tune where id = {id} and state = 'cancelled'");
                Ok((stage.postgres.number(&select).await? == 1).then_some(()))
            })
            .await?;
            leaves_nothing(world).await?;
            let open =
                format!("select count(*) from gromacs_attempt where row_id = {id} and outcome is null");
            ensure!(stage.postgres.number(&open).await? == 0, "an attempt of a cancelled row has no end");
            working.kill().await?;
            if state == "tuning" {
                stage.tuner = Some(Tuner::start(Some(&stage.address)).await?);
            }
        }
        stage.end().await
    });
}
