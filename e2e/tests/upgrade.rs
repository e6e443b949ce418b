//! An upgrade from an older build to this one, the way back, and the upgrade again, with ScavengerJobs and rows under way:
//! nothing is lost, nothing is done twice, and nobody is interrupted by it. ScavengerJobs are in every phase and rows in
//! every state: what passes (a start, an inspection, a question to the tuner) begins right before each replacement.
//!
//! `cargo xtask upgrade` builds the older version, puts its images beside this version's, and installs it before it runs
//! this test.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    faults::Witness,
    gromacs::computed,
    kubectl::script,
    postgres::{Database, NAMESPACE},
    queue::{attempts, insert, is_complete_with, prepare_with, row, simulations, state},
    room::{delete_pod, status},
    world::{LIMIT, argument, counter_beside, resumed_at, run_within, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// Environment variable with the folder of the kustomization that installs the older version.
const OLDER: &str = "SCAVENGER_E2E_OLDER";

/// Environment variable that leaves out the way back.
const FORWARD_ONLY: &str = "SCAVENGER_E2E_FORWARD_ONLY";

/// Tag of the older version's images.
const TAG: &str = ":older";

/// Steps of the simulation that runs while the programs are replaced: two minutes or so on half a core.
const LONG: u32 = 20_000;

/// Steps of those that only have to end.
const SHORT: u32 = 1_500;

/// A version of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version<'a> {
    /// Installed from this folder.
    Older(&'a str),
    /// This checkout.
    This,
}

impl Version<'_> {
    /// What docs/upgrade.md tells an admin to do. The definitions stay those of the newer version on the way back.
    async fn install(self, world: &World) -> Result<()> {
        let apply = "kubectl apply --server-side --force-conflicts -k";
        let apply = match self {
            Self::Older(folder) => format!("{apply} {folder}"),
            Self::This => format!(
                "{apply} schema/generated
                 kubectl wait --for=condition=Established crd/scavengerjobs.scavenger.dev crd/scavengerpools.scavenger.dev
                 {apply} e2e/deploy"
            ),
        };
        let wait = format!("kubectl rollout status --namespace {NAMESPACE} --timeout=5m");
        script(&format!(
            "{apply}
             for name in gromacs-submitter scavenger-tuner scavenger-operator; do {wait} deployment/$name; done"
        ))
        .await?;
        until(&format!("{self:?} leads"), || async {
            // Between two leaders nobody does, and a pod that has just left is gone.
            let Ok(leader) = world.leader().await else { return Ok(None) };
            let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
            let Some(pod) = pods.get_opt(&leader).await? else { return Ok(None) };
            let image = pod.spec.and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_default();
            Ok((image.ends_with(TAG) == (self != Self::This)).then_some(()))
        })
        .await
    }
}

/// What must be as it was after the programs are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    uid: Option<String>,
    phase: Option<Phase>,
    attempts: usize,
    interruptions: i64,
    /// UIDs of its pods, with how often their containers were restarted.
    pods: BTreeSet<(Option<String>, i32)>,
}

async fn standings(world: &World, names: &[&str]) -> Result<BTreeMap<String, Standing>> {
    let mut standings = BTreeMap::new();
    for name in names {
        let job = world.api::<ScavengerJob>().get(name).await?;
        let status = status(&job);
        let restarts = |pod: &Pod| {
            let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
            containers.unwrap_or_default().iter().map(|container| container.restart_count).sum()
        };
        let pods = world.pods(name).await?.iter().map(|pod| (pod.uid(), restarts(pod))).collect();
        standings.insert(
            (*name).to_owned(),
            Standing {
                uid: job.uid(),
                phase: status.phase,
                attempts: status.attempts.len(),
                interruptions: status.interrupted_count,
                pods,
            },
        );
    }
    Ok(standings)
}

/// The ScavengerJobs that stand while the programs are replaced, one at least in each phase that lasts.
const STAND: [&str; 7] = ["runs", "gang", "interrupted", "waits", "suspended", "completed", "failed"];

async fn scavenger_jobs(world: &World) -> Result<()> {
    world.claim("data").await?;
    let slot = world.slots(10).await?;
    world.create::<ScavengerJob>(counter_beside("completed", 10)).await?;
    let mut fails = counter_beside("failed", 100);
    argument(&mut fails, "--fail-at=5");
    world.create::<ScavengerJob>(fails).await?;
    let mut suspended = counter_beside("suspended", 10);
    suspended["spec"]["suspend"] = json!(true);
    world.create::<ScavengerJob>(suspended).await?;

    let mut interrupted = counter_beside("interrupted", 100);
    interrupted["spec"]["resources"]["requests"][&slot] = json!(6);
    world.create::<ScavengerJob>(interrupted).await?;
    world.phase("interrupted", Phase::Running).await?;
    let pod = world.pod("interrupted").await?;
    world.log_until(&pod.name_any(), "it has a checkpoint", |line| line.starts_with("checkpoint ")).await?;
    world.owner_pod("owner", &slot, 6).await?;
    world.phase("interrupted", Phase::Interrupted).await?;
    world.pod_runs("owner").await?;

    let mut waits = counter_beside("waits", 20);
    waits["spec"]["resources"]["requests"][&slot] = json!(5);
    world.create::<ScavengerJob>(waits).await?;
    // Words of the older version are its own.
    world
        .job_until("waits", "waiting for capacity", |job| {
            status(job).message.is_some_and(|message| message.contains(&slot))
        })
        .await?;

    world.create::<ScavengerJob>(counter_beside("runs", 1_000_000)).await?;
    let mut gang = counter_beside("gang", 1_000_000);
    gang["spec"]["podCount"] = json!(3);
    argument(&mut gang, "--gang");
    gang["spec"]["args"][4] = json!("--journal=/data/journal-gang-{index}");
    world.create::<ScavengerJob>(gang).await?;
    for (name, phase) in [
        ("runs", Phase::Running),
        ("gang", Phase::Running),
        ("completed", Phase::Completed),
        ("failed", Phase::Failed),
    ] {
        world.phase(name, phase).await?;
    }
    Ok(())
}

/// The rows that stand while the programs are replaced.
struct Rows {
    database: Database,
    /// Computes.
    runs: i64,
    /// Waits for the one that computes.
    follows: i64,
    /// Was interrupted, and waits until it is resumed.
    interrupted: i64,
    /// Asks for more than is free.
    waits: i64,
    held: i64,
    completed: i64,
    failed: i64,
    cancelled: i64,
}

impl Rows {
    async fn new(world: &World) -> Result<Self> {
        let short = format!("bash /water/prepare.sh /data short:2.5:{SHORT}");
        let database = prepare_with(world, LONG, &short).await?;
        let half = ("max_cpu_millicores", "500");
        let add = async |path: &str, more: &[(&str, &str)]| insert(world, &database, path, more).await;
        let completed = add("short/short.tpr", &[half]).await?;
        let failed = add("water/nowhere.tpr", &[]).await?;
        let held = add("short/short.tpr", &[half, ("held", "true")]).await?;
        let cancelled = add("short/short.tpr", &[half, ("held", "true")]).await?;
        cancel(&database, cancelled).await?;
        state(&database, failed, "failed").await?;
        state(&database, completed, "completed").await?;
        let waits = add("short/short.tpr", &[("min_cpu_millicores", "2000")]).await?;
        state(&database, waits, "submitted").await?;
        let runs = add("water/water.tpr", &[half]).await?;
        let after = format!("'{{{runs}}}'");
        let follows = add("short/short.tpr", &[half, ("after", &after)]).await?;
        let interrupted = add("water/water.tpr", &[half]).await?;
        for id in [runs, interrupted] {
            until(&format!("simulation {id} computes"), || async {
                Ok(row(&database, id).await?.step.filter(|step| *step > 0))
            })
            .await?;
        }
        suspend(world, &simulation(world, interrupted).await?, true).await?;
        state(&database, interrupted, "interrupted").await?;
        Ok(Self { database, runs, follows, interrupted, waits, held, completed, failed, cancelled })
    }

    /// The state of each row, and how many ScavengerJobs were made for it.
    async fn states(&self, world: &World) -> Result<BTreeMap<i64, (String, usize)>> {
        let all = [
            self.runs,
            self.follows,
            self.interrupted,
            self.waits,
            self.held,
            self.completed,
            self.failed,
            self.cancelled,
        ];
        let mut states = BTreeMap::new();
        for id in all {
            states.insert(id, (row(&self.database, id).await?.state, simulations(world, id).await?.len()));
        }
        Ok(states)
    }
}

/// The only ScavengerJob of a row.
async fn simulation(world: &World, id: i64) -> Result<String> {
    let mut names = simulations(world, id).await?;
    ensure!(names.len() == 1, "row {id} has {names:?}");
    names.pop().context("one was counted")
}

async fn suspend(world: &World, name: &str, is_suspended: bool) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "suspend": is_suspended } }));
    world.api::<ScavengerJob>().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// What has only begun when the programs are replaced: a ScavengerJob that starts, a row whose file is read, and one of
/// which the tuner is asked.
struct Begun {
    job: String,
    rows: [i64; 2],
}

impl Begun {
    async fn new(world: &World, database: &Database, number: usize) -> Result<Self> {
        // The installation brings it back.
        script(&format!("kubectl scale --namespace {NAMESPACE} deployment/scavenger-tuner --replicas=0"))
            .await?;
        let add = async || insert(world, database, "short/short.tpr", &[("max_cpu_millicores", "500")]).await;
        let asks = add().await?;
        state(database, asks, "tuning").await?;
        let reads = add().await?;
        state(database, reads, "inspecting").await?;
        let job = format!("starts-{number}");
        world.create::<ScavengerJob>(counter_beside(&job, 10)).await?;
        world.job_until(&job, "it starts", |job| status(job).attempt.is_some()).await?;
        Ok(Self { job, rows: [asks, reads] })
    }

    /// Each goes on where it was: no second attempt, and no second ScavengerJob.
    async fn end(self, world: &World, database: &Database) -> Result<()> {
        let job = status(&world.phase(&self.job, Phase::Completed).await?);
        ensure!(job.start_times.len() == 1 && job.interrupted_count == 0, "{}: {job:?}", self.job);
        for id in self.rows {
            let row = state(database, id, "completed").await?;
            ensure!(row.interruptions == 0 && attempts(database, id).await?.len() == 1, "{row:?}");
            simulation(world, id).await?;
        }
        Ok(())
    }
}

async fn cancel(database: &Database, id: i64) -> Result<()> {
    database.sql(&format!("update gromacs_to_tune set cancel_requested = true where id = {id}")).await?;
    state(database, id, "cancelled").await.map(drop)
}

/// Replaces the programs; whatever stood before stands afterwards, and what is new is done.
async fn replace(world: &World, rows: &Rows, version: Version<'_>, number: usize) -> Result<()> {
    let (before, states) = (standings(world, &STAND).await?, rows.states(world).await?);
    let begun = Begun::new(world, &rows.database, number).await?;
    version.install(world).await?;
    begun.end(world, &rows.database).await?;
    // Once a new ScavengerJob has completed, the new leader has seen all of them.
    let name = format!("new-{number}");
    world.create::<ScavengerJob>(counter_beside(&name, 5)).await?;
    world.phase(&name, Phase::Completed).await?;
    let after = standings(world, &STAND).await?;
    for (name, before) in &before {
        ensure!(after[name] == *before, "{version:?}: {name} was {before:?} and is {:?}", after[name]);
    }
    // A row that computes may have come to its end meanwhile, and then the next one runs.
    let moves = |id: &i64| [rows.runs, rows.follows].contains(id);
    for (id, now) in rows.states(world).await?.iter().filter(|(id, _)| !moves(id)) {
        ensure!(states[id] == *now, "{version:?}: row {id} was {:?} and is {now:?}", states[id]);
    }
    let runs = row(&rows.database, rows.runs).await?;
    ensure!(runs.interruptions == 0, "{version:?}: {runs:?}");
    Ok(())
}

/// The counts of a journal, which must follow one another: none is left out, and none is there twice.
fn counts(journal: &str) -> Result<u64> {
    let mut last = 0;
    for line in journal.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [event, _, count, _] = fields[..] else { bail!("{line:?} is no line of a journal") };
        ensure!(event != "overlap", "two attempts met: {line:?}");
        if event == "step" {
            let count: u64 = count.parse()?;
            ensure!(count == last + 1, "{count} follows {last}");
            last = count;
        }
    }
    Ok(last)
}

/// Everything goes on to its end.
async fn all_end(world: &World, rows: &Rows) -> Result<()> {
    // What ran through it all is still in its first attempt, and can be interrupted like any other.
    for name in ["runs", "gang"] {
        let status = status(&world.api::<ScavengerJob>().get(name).await?);
        ensure!(status.start_times.len() == 1 && status.phase == Some(Phase::Running), "{name}: {status:?}");
    }
    let pod = world.pod("runs").await?.name_any();
    world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    let job = world
        .job_until("runs", "running again", |job| {
            status(job).interrupted_count == 1 && status(job).phase == Some(Phase::Running)
        })
        .await?;
    ensure!(status(&job).attempts[0].reason == Some(Reason::Deleted), "{:?}", status(&job));
    let pod = world.pod("runs").await?.name_any();
    let log = world.log_until(&pod, "it goes on", |line| line.starts_with("checkpoint ")).await?;
    let resumed = resumed_at(&log)?;
    let counted = counts(&world.file("data", "journal-runs").await?)?;
    ensure!(resumed > 0 && counted > u64::from(resumed), "resumed at {resumed}, {counted} by now");

    delete_pod(world, "owner").await?;
    let interrupted = world.phase("interrupted", Phase::Completed).await?;
    ensure!(status(&interrupted).attempts.len() == 2, "{:?}", status(&interrupted));
    ensure!(counts(&world.file("data", "journal-interrupted").await?)? == 100, "it did not count to its end");
    let waits = world.phase("waits", Phase::Completed).await?;
    ensure!(status(&waits).attempts.len() == 1, "{:?}", status(&waits));
    suspend(world, "suspended", false).await?;
    world.phase("suspended", Phase::Completed).await?;

    let database = &rows.database;
    cancel(database, rows.waits).await?;
    let ran = state(database, rows.runs, "completed").await?;
    is_complete_with(&ran, LONG)?;
    let attempts = attempts(database, rows.runs).await?;
    ensure!(attempts.len() == 1 && ran.interruptions == 0, "{ran:?} {attempts:?}");
    let ran = computed(world, rows.runs).await?;
    ensure!(ran.restarts == 0 && ran.steps == i64::from(LONG), "{ran:?}");
    state(database, rows.follows, "completed").await?;
    suspend(world, &simulation(world, rows.interrupted).await?, false).await?;
    let resumed = state(database, rows.interrupted, "completed").await?;
    is_complete_with(&resumed, LONG)?;
    let goes_on = computed(world, rows.interrupted).await?;
    ensure!(goes_on.restarts == 1 && goes_on.steps == i64::from(LONG), "{goes_on:?}");
    ensure!(resumed.interruptions == 1, "{resumed:?}");
    database.sql(&format!("update gromacs_to_tune set held = false where id = {}", rows.held)).await?;
    state(database, rows.held, "completed").await?;
    let twice: Vec<Value> =
        database.rows("select id, submission, reason from gromacs_to_tune where submission > 1").await?;
    ensure!(twice.is_empty(), "submitted more than once: {twice:?}");
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn everything_stands_through_an_upgrade_and_back() {
    let Some(older) = std::env::var_os(OLDER) else {
        eprintln!("skipped: {OLDER} is not set; `cargo xtask upgrade` runs this");
        return;
    };
    run_within(10 * LIMIT, "upgrade", |world| {
        let older = older.clone();
        async move {
            let older = Path::new(&older).to_str().context("the older version's folder is no text")?;
            let witness = Witness::start(&world.client, &world.namespace);
            let rows = Rows::new(world).await?;
            scavenger_jobs(world).await?;
            replace(world, &rows, Version::This, 1).await?;
            let goes_back = std::env::var_os(FORWARD_ONLY).is_none();
            if goes_back {
                replace(world, &rows, Version::Older(older), 2).await?;
                replace(world, &rows, Version::This, 3).await?;
            }
            all_end(world, &rows).await?;
            let made = world.api::<ScavengerJob>().list(&ListParams::default()).await?.items.len();
            let way = if goes_back { ", the way back, and an upgrade again" } else { "" };
            let states = rows.states(world).await?.len();
            println!(
                "{made} ScavengerJobs, and rows in each state ({states} that last) through an upgrade{way}"
            );
            witness.is_content()
        }
    });
}
