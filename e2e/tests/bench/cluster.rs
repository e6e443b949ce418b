//! How fast ScavengerJobs become Jobs, on a cluster with many played nodes, and what they cost the API server, next to
//! plain Jobs from one client in the same run. Figures, no verdicts: `cargo xtask bench` runs it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
    runtime::watcher,
};
use scavenger_e2e::{
    World,
    load::{AT_ONCE, LONGEST, Load, Seen, create, on_played_nodes, peak_bytes},
    world::{played, run_within},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How many are created; another number by this environment variable.
const COUNT: usize = 2_000;
const COUNT_VARIABLE: &str = "SCAVENGER_E2E_BENCH_JOBS";

/// Share of the raw rate that is aimed at.
const AIM: f64 = 0.7;

/// How many times as long it may take until all run: an aim, too.
const AIM_RUN: f64 = 2.0;

/// A plain Job as the operator makes one of the ScavengerJob beside it, down to what the pod asks for.
fn plain(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": {
            "backoffLimit": 0, "completionMode": "Indexed", "completions": 1, "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": { "rules": [{ "action": "FailJob", "onPodConditions": [
                { "type": "DisruptionTarget", "status": "True" }] }] },
            "template": { "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "nodeSelector": { "type": "kwok" },
                "tolerations": [{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }],
                "containers": [{
                    "name": "main", "image": "played", "command": ["played"],
                    "resources": {
                        "requests": { "cpu": "100m", "memory": "16Mi" },
                        "limits": { "cpu": "100m", "memory": "16Mi" },
                    },
                }],
            } },
        },
    })
}

/// A ScavengerJob as plain as that, without the supervisor's container; it runs long enough for its running priority to
/// rise only after the measurement.
fn scavenger_job(name: &str) -> Value {
    let mut job = played(name, "100m");
    job["spec"]["supervisor"] = json!({ "enabled": false });
    job["spec"]["interruptionAfter"] = "10m".into();
    job
}

/// A table of what the API server did for each of them.
fn loads(plain: &Load, ours: &Load, number: f64) -> String {
    let line = |what: &str, plain: f64, ours: f64| {
        format!("{what:<44} {:>10.2} {:>14.2}\n", plain / number, ours / number)
    };
    let lines = |what: &str, plain: &BTreeMap<String, f64>, ours: &BTreeMap<String, f64>| {
        let kinds: BTreeSet<&String> = plain.keys().chain(ours.keys()).collect();
        let of =
            |counts: &BTreeMap<String, f64>, kind: &String| counts.get(kind).copied().unwrap_or_default();
        let each = kinds.into_iter().map(|kind| (kind, of(plain, kind), of(ours, kind)));
        // A few belong to the cluster itself.
        let each = each.filter(|(_, plain, ours)| plain.max(*ours) >= number / 100.0);
        let mut table: String = each.map(|(kind, plain, ours)| line(kind, plain, ours)).collect();
        table += &line(&format!("all {what}"), plain.values().sum(), ours.values().sum());
        table
    };
    let mut table =
        format!("{:<44} {:>10} {:>14}\n", "until all of them run, for each", "plain Job", "ScavengerJob");
    table += &lines("writes", &plain.writes, &ours.writes);
    table += &line("refused writes", plain.refused, ours.refused);
    table += &lines("reads", &plain.reads, &ours.reads);
    table += &line("processor time of the API server, ms", plain.cpu * 1000.0, ours.cpu * 1000.0);
    table
}

/// When each pod first ran.
fn watch_pods(world: &World) -> (Seen, JoinSet<()>) {
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    Seen::watch(world.api::<Pod>(), watcher::Config::default(), move |pod| runs(pod).then(|| pod.name_any()))
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

/// Deletes all Jobs, and waits until none of them and no pod is left.
async fn clear(world: &World) -> Result<()> {
    let left = async {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        loop {
            every.tick().await;
            let one = ListParams::default().limit(1);
            // As above: an answer that does not come is no answer. To delete some thousands can take longer than the
            // API server's limit for a request, after which it closes the connection.
            let all = ListParams::default();
            drop(world.api::<BatchJob>().delete_collection(&DeleteParams::background(), &all).await);
            let jobs = world.api::<BatchJob>().list(&one).await.map(|list| list.items.len());
            let pods = world.api::<Pod>().list(&one).await.map(|list| list.items.len());
            if let (Ok(0), Ok(0)) = (jobs, pods) {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(LONGEST, left).await.context("the plain Jobs are not gone in time")?
}

async fn measure(world: &World, count: usize) -> Result<()> {
    let nodes =
        Api::<Node>::all(world.client.clone()).list(&ListParams::default().labels("type=kwok")).await?;
    ensure!(nodes.items.len() >= count / 200, "{} played nodes have no room for {count}", nodes.items.len());

    let before = Load::read(world).await?;
    let (run, watching) = watch_pods(world);
    let ready = |job: &BatchJob| job.status.as_ref().is_some_and(|status| status.ready == Some(1));
    let (settled, watching_too) =
        Seen::watch(world.api::<BatchJob>(), watcher::Config::default(), move |job| {
            ready(job).then(|| job.name_any())
        });
    let began = Instant::now();
    let jobs = world.api::<BatchJob>();
    create(&jobs, count, |number| plain(&format!("plain-{number}"))).await?;
    let raw = began.elapsed().as_secs_f64();
    let raw_run = run.reach(count, "plain Jobs run", began).await?;
    settled.reach(count, "plain Jobs say that they run", began).await?;
    let raw_load = Load::read(world).await?.since(&before);
    drop((watching, watching_too));
    clear(world).await?;

    let before = Load::read(world).await?;
    let ours = watcher::Config::default().labels(names::LABEL_JOB);
    let owner = |job: &BatchJob| job.labels().get(names::LABEL_JOB).cloned();
    let (seen, _watching) = Seen::watch(world.api::<BatchJob>(), ours, owner);
    let (run, _watching_too) = watch_pods(world);
    let phase = |sj: &ScavengerJob| serde_json::to_value(sj.status.as_ref()?.phase).ok();
    let (settled, _watching_three) =
        Seen::watch(world.api::<ScavengerJob>(), watcher::Config::default(), move |sj| {
            (phase(sj)? == "Running").then(|| sj.name_any())
        });
    let began = Instant::now();
    let api = world.api::<ScavengerJob>();
    let created = create(&api, count, |number| scavenger_job(&format!("job-{number}"))).await?;
    let submitted = began.elapsed().as_secs_f64();
    let last = seen.reach(count, "have a Job", began).await?;
    let last_run = run.reach(count, "run", began).await?;
    settled.reach(count, "say that they run", began).await?;
    let load = Load::read(world).await?.since(&before);
    let seen = seen.all().clone();
    let mut latencies: Vec<f64> = created
        .iter()
        .filter_map(|(name, created)| Some(seen.get(name)?.saturating_duration_since(*created).as_secs_f64()))
        .collect();
    latencies.sort_by(f64::total_cmp);

    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let number = count as f64;
    println!(
        "{} played nodes, {count} of each, {AT_ONCE} requests at once\n\
         plain Jobs created by one client:  {:.0} per second ({raw:.1} s)\n\
         ScavengerJob created -> Job there: {:.0} per second ({last:.1} s, of which they were created in {submitted:.1} \
         s), {:.0}% of the raw rate (aim: {:.0}%)\n\
         from the one to the other:         median {:.1} s, 95th percentile {:.1} s, longest {:.1} s\n\
         all pods run:                      after {last_run:.1} s; those of the plain Jobs after {raw_run:.1} s: {:.1} \
         times as long (aim: {AIM_RUN:.0})\n{}",
        nodes.items.len(),
        number / raw,
        number / last,
        raw / last * 100.0,
        AIM * 100.0,
        percentile(&latencies, 50),
        percentile(&latencies, 95),
        percentile(&latencies, 100),
        last_run / raw_run,
        loads(&raw_load, &load, number),
    );
    println!("memory of the operator at its peak: {:.0} MiB", peak_bytes(world).await? / f64::from(1 << 20));
    Ok(())
}

#[test]
#[ignore = "a measurement of minutes: `cargo xtask bench`"]
fn scavenger_jobs_become_jobs() {
    run_within(3 * LONGEST, "bench", |world| async move {
        let count = std::env::var(COUNT_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
        on_played_nodes(world, || measure(world, count)).await
    });
}
