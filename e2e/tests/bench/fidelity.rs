//! The laboratory's scenario of fidelity on a real control plane, next to the laboratory itself: `cargo xtask fidelity` runs it.
//!
//! The nodes are KWOK's. The kubelet of pods of ScavengerJobs is played here, since how long one runs follows from what its
//! checkpoints hold: by the laboratory's own rule of what a run gets done. Everything else is real.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use scavenger_e2e::{
    World,
    alone::pool_of_played_nodes,
    room::{bring_pool, now},
    world::{played, run_within, until_within},
};
use scavenger_laboratory::{
    fidelity::{self, Band, Counts, LENGTH, Rules, WAITED, core_seconds},
    values::{Amounts, SECOND, Time},
    workload::{Scavenger, Workload},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How often it is played on the cluster; another number by this environment variable.
const RUNS: usize = 5;
const RUNS_VARIABLE: &str = "SCAVENGER_E2E_FIDELITY_RUNS";

/// Seeds of the laboratory.
const SEEDS: u64 = 50;

/// So many of [`RUNS`] on the cluster must lie in the band of the laboratory.
const INSIDE: usize = 4;

/// How wide the band of starts and of interruptions may be, in percent of its median.
const WIDEST: f64 = 30.0;

/// What is deleted between two runs is gone by then.
const CLEAR: Duration = Duration::from_secs(300);

/// Label of the ordinary pods, and what they are called.
const ORDINARY: &str = "e2e.scavenger.dev/ordinary";

fn span(time: Time) -> Duration {
    Duration::from_millis(u64::try_from(time).unwrap_or(0))
}

fn millis(span: Duration) -> Time {
    Time::try_from(span.as_millis()).unwrap_or(Time::MAX)
}

fn quantities(amounts: Amounts) -> Value {
    json!({ "cpu": format!("{}m", amounts.cpu), "memory": format!("{}Mi", amounts.memory) })
}

fn scavenger_job(number: usize, spec: &Scavenger) -> Value {
    let mut job = played(&format!("job-{number}"), "1");
    let more = json!({
        "resources": { "requests": quantities(spec.requests) },
        "interruptionAfter": format!("{}s", spec.interval / SECOND),
        // KWOK ends it at the whole second before its grace period is over: up to a second sooner.
        "terminationGracePeriodSeconds": spec.grace / SECOND + 1,
        "checkpoint": { "restartSeconds": spec.restart / SECOND },
        "supervisor": { "enabled": false },
    });
    if let (Some(spec), Value::Object(more)) = (job["spec"].as_object_mut(), more) {
        spec.extend(more);
    }
    job
}

fn ordinary_pod(number: usize, workload: &Workload) -> Value {
    let pod = &workload.ordinary[number];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("ordinary-{number}"), "labels": { ORDINARY: "true" },
            "annotations": { "fake.scavenger.dev/run-seconds": (pod.duration / SECOND).to_string() },
        },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "nodeSelector": { "type": "kwok" },
            "tolerations": [{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }],
            "containers": [{
                "name": "main", "image": "played", "resources": { "requests": quantities(pod.requests) },
            }],
        },
    })
}

/// What a ScavengerJob has done, as its kubelet knows it.
#[derive(Debug, Default)]
struct Workings {
    /// Work that its checkpoints hold.
    kept: Time,
    has_run: bool,
    is_done: bool,
    /// The pod that runs by its UID, since when, and how long its restart takes.
    run: Option<(String, Instant, Time)>,
}

/// Plays the kubelet of all ScavengerJobs, and counts.
#[derive(Clone)]
struct Kubelet {
    pods: Api<Pod>,
    workload: Arc<Workload>,
    state: Arc<Mutex<(Counts, BTreeMap<usize, Workings>)>>,
}

impl Kubelet {
    fn state(&self) -> MutexGuard<'_, (Counts, BTreeMap<usize, Workings>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a version of a pod; returns how long its workload still runs if it has begun just now.
    fn see(&self, pod: &Pod) -> Option<(usize, String, Duration)> {
        let name = pod.labels().get(names::LABEL_JOB)?;
        let number: usize = name.strip_prefix("job-")?.parse().ok()?;
        let (uid, spec) = (pod.uid()?, self.workload.scavengers.get(number)?);
        let runs = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let (counts, all) = &mut *self.state();
        let workings = all.entry(number).or_default();
        let is_known = workings.run.as_ref().is_some_and(|(known, ..)| *known == uid);
        if pod.metadata.deletion_timestamp.is_some() {
            if is_known && let Some((_, since, restart)) = workings.run.take() {
                let done = spec.done_after(millis(since.elapsed()), restart);
                workings.kept += done.saved;
                counts.interruptions += 1;
                counts.redone += core_seconds(spec.requests.cpu * (done.worked - done.saved));
            }
            return None;
        }
        if !runs || is_known || workings.is_done {
            return None;
        }
        let restart = if workings.has_run { spec.restart } else { 0 };
        workings.has_run = true;
        workings.run = Some((uid.clone(), Instant::now(), restart));
        counts.starts += 1;
        Some((number, uid, span(spec.time_for(spec.work - workings.kept, restart))))
    }

    /// The workload of a pod is done, unless the pod is to end.
    async fn finish(&self, number: usize, uid: &str, name: &str) -> Result<()> {
        {
            let (counts, all) = &mut *self.state();
            let workings = all.entry(number).or_default();
            if workings.run.as_ref().is_none_or(|(known, ..)| known != uid) {
                return Ok(());
            }
            (workings.run, workings.is_done) = (None, true);
            counts.completed += 1;
        }
        let ended = json!({ "exitCode": 0, "reason": "Completed", "startedAt": now(), "finishedAt": now() });
        let status = json!({
            "phase": "Succeeded",
            "conditions": [{ "type": "Ready", "status": "False", "reason": "PodCompleted" }],
            "containerStatuses": [{
                "name": "main", "image": "played", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "running": null, "terminated": ended },
            }],
        });
        let patch = Patch::Strategic(json!({ "status": status }));
        self.pods.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Follows all pods of ScavengerJobs.
    async fn run(self) -> Result<()> {
        let which = watcher::Config::default().labels(names::LABEL_JOB);
        let mut versions = watcher(self.pods.clone(), which).default_backoff().touched_objects().boxed();
        let mut ends: JoinSet<Result<()>> = JoinSet::new();
        while let Some(version) = versions.next().await {
            let Ok(pod) = version else { continue };
            if let Some((number, uid, left)) = self.see(&pod) {
                let (kubelet, name) = (self.clone(), pod.name_any());
                ends.spawn(async move {
                    tokio::time::sleep(left).await;
                    kubelet.finish(number, &uid, &name).await
                });
            }
            while let Some(ended) = ends.try_join_next() {
                ended??;
            }
        }
        Ok(())
    }
}

/// Follows the ordinary pods; returns when each first ran.
async fn follow_ordinary(pods: Api<Pod>, seen: Arc<Mutex<BTreeMap<String, Instant>>>) {
    let which = watcher::Config::default().labels(ORDINARY);
    let mut versions = watcher(pods, which).default_backoff().applied_objects().boxed();
    while let Some(version) = versions.next().await {
        let Ok(pod) = version else { continue };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Running" | "Succeeded")) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.entry(pod.name_any()).or_insert_with(Instant::now);
        }
    }
}

/// Creates everything when its time has come; returns when each ordinary pod was created.
async fn submit(world: &'static World, workload: Arc<Workload>) -> Result<BTreeMap<String, Instant>> {
    let began = tokio::time::Instant::now();
    let mut writes: JoinSet<Result<Option<(String, Instant)>>> = JoinSet::new();
    for (number, spec) in workload.scavengers.iter().enumerate() {
        let (due, job) = (began + span(spec.arrival), scavenger_job(number, spec));
        writes.spawn(async move {
            tokio::time::sleep_until(due).await;
            world.create::<ScavengerJob>(job).await?;
            Ok(None)
        });
    }
    for (number, pod) in workload.ordinary.iter().enumerate() {
        let (due, object) = (began + span(pod.arrival), ordinary_pod(number, &workload));
        writes.spawn(async move {
            tokio::time::sleep_until(due).await;
            let created = Instant::now();
            world.create::<Pod>(object).await?;
            Ok(Some((format!("ordinary-{number}"), created)))
        });
    }
    let mut created = BTreeMap::new();
    while let Some(written) = writes.join_next().await {
        created.extend(written??);
    }
    tokio::time::sleep_until(began + span(LENGTH)).await;
    Ok(created)
}

/// Plays the scenario once on the cluster.
async fn play(world: &'static World, workload: &Arc<Workload>) -> Result<Counts> {
    let kubelet = Kubelet { pods: world.api(), workload: workload.clone(), state: Arc::default() };
    let started: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
    let mut followers = JoinSet::new();
    followers.spawn(kubelet.clone().run());
    let ordinary = (world.api(), started.clone());
    followers.spawn(async move {
        follow_ordinary(ordinary.0, ordinary.1).await;
        Ok(())
    });
    let created = tokio::select! {
        created = submit(world, workload.clone()) => created?,
        Some(ended) = followers.join_next() => {
            ended??;
            anyhow::bail!("a watch has ended");
        }
    };
    let started = started.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let waited = created.iter().filter(|(name, created)| {
        started.get(*name).is_none_or(|started| millis(started.duration_since(**created)) > WAITED)
    });
    let counts = Counts { waited: waited.count() as u64, ..kubelet.state().0 };
    drop(followers);
    clear(world).await?;
    Ok(counts)
}

/// Removes all of it, and waits until it is gone.
async fn clear(world: &World) -> Result<()> {
    let all = ListParams::default();
    world.api::<ScavengerJob>().delete_collection(&DeleteParams::background(), &all).await?;
    world.api::<Pod>().delete_collection(&DeleteParams::default().grace_period(0), &all).await?;
    until_within(CLEAR, "the scenario is gone", || async {
        let one = ListParams::default().limit(1);
        let pods = world.api::<Pod>().list(&one).await?.items.len();
        let jobs = world.api::<ScavengerJob>().list(&one).await?.items.len();
        Ok((pods + jobs == 0).then_some(()))
    })
    .await
}

/// The comparison, and whether it is as close as it should be.
fn table(real: &[Counts]) -> String {
    let laboratory = |rules| (1..=SEEDS).map(|seed| fidelity::play(rules, seed)).collect::<Vec<_>>();
    let (right, wrong) = (laboratory(Rules::Right), laboratory(Rules::WithoutHeadroom));
    let allowed = real.len() - (real.len() * INSIDE).div_ceil(RUNS);
    let mut text = format!(
        "{:<27} {:<28} {:<34} {:<18} with a wrong rule\n",
        "",
        "on the cluster",
        format!("laboratory, {SEEDS} seeds: 5%, median, 95%"),
        "in the band",
    );
    for (place, name) in Counts::NAMES.into_iter().enumerate() {
        let of = |all: &[Counts]| all.iter().map(|counts| counts.each()[place]).collect::<Vec<u64>>();
        let (counts, band, other) = (of(real), Band::of(of(&right)), Band::of(of(&wrong)));
        let inside = counts.iter().filter(|count| band.holds(**count)).count();
        let in_other = counts.iter().filter(|count| other.holds(**count)).count();
        let is_met = counts.len() - inside <= allowed && (place > 1 || band.width_percent() <= WIDEST);
        let list = counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        let laboratory =
            format!("{} {} {} ({:.0}% wide)", band.low, band.median, band.high, band.width_percent());
        let verdict = format!("{inside} of {}, {}", counts.len(), if is_met { "met" } else { "not met" });
        let _ = writeln!(
            text,
            "{name:<27} {list:<28} {laboratory:<34} {verdict:<18} {} {} {}: {in_other} of {}",
            other.low,
            other.median,
            other.high,
            counts.len(),
        );
    }
    text
}

async fn measure(world: &'static World, runs: usize) -> Result<()> {
    let workload = Arc::new(fidelity::workload());
    let nodes = Api::<Node>::all(world.client.clone());
    let nodes = nodes.list(&ListParams::default().labels("type=kwok")).await?.items.len();
    ensure!(
        nodes == workload.nodes.len(),
        "there are {nodes} played nodes instead of {}",
        workload.nodes.len()
    );
    let mut real = Vec::new();
    for number in 1..=runs {
        let counts = play(world, &workload).await.with_context(|| format!("run {number}"))?;
        println!("run {number}: {}", describe(&counts));
        real.push(counts);
    }
    println!(
        "{nodes} played nodes, {} ScavengerJobs, {} ordinary pods, {} minutes\n{}",
        workload.scavengers.len(),
        workload.ordinary.len(),
        LENGTH / (60 * SECOND),
        table(&real),
    );
    Ok(())
}

fn describe(counts: &Counts) -> String {
    let each = Counts::NAMES.into_iter().zip(counts.each()).map(|(name, count)| format!("{name} {count}"));
    each.collect::<Vec<_>>().join(", ")
}

#[test]
#[ignore = "a measurement of an hour: `cargo xtask fidelity`"]
fn the_laboratory_plays_what_a_cluster_does() {
    let runs = std::env::var(RUNS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let limit = (span(LENGTH) + CLEAR) * u32::try_from(runs).unwrap_or(1) + CLEAR;
    run_within(limit, "fidelity", move |world| async move {
        let pool = fidelity::pool();
        // All that the tests set, and the scenario leaves as it is by default.
        let mut all = json!({ "pendingTimeout": null, "referenceGrace": null, "startDeadline": null });
        if let (Some(all), Value::Object(pool)) = (all.as_object_mut(), pool) {
            all.extend(pool);
        }
        bring_pool(world, &all).await?;
        pool_of_played_nodes(world).await?;
        measure(world, runs).await
    });
}
