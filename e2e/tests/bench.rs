//! How fast ScavengerJobs become Jobs, on a cluster with many played nodes, next to what the API server takes of plain
//! Jobs from one client in the same run. Figures, no verdicts: `cargo xtask bench` runs it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use scavenger_e2e::{
    World,
    kubectl::kubectl,
    postgres::NAMESPACE,
    room::patch_pool,
    world::{played, run_within},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How many are created; another number by this environment variable.
const COUNT: usize = 2_000;
const COUNT_VARIABLE: &str = "SCAVENGER_E2E_BENCH_JOBS";

/// Requests that one client has under way, as many as the operator by default.
const AT_ONCE: usize = 32;

/// How often one is sent at most.
const TRIES: usize = 5;

/// Share of the raw rate that is aimed at.
const AIM: f64 = 0.7;

/// Longest time for one of the two runs.
const LONGEST: Duration = Duration::from_secs(900);

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

/// A ScavengerJob as plain as that; it runs long enough for its running priority to rise only after the measurement.
fn scavenger_job(name: &str) -> Value {
    let mut job = played(name, "100m");
    job["spec"]["interruptionAfter"] = "10m".into();
    job
}

/// Creates all of them from one client, and returns when each was answered.
async fn create<K>(
    api: &Api<K>,
    count: usize,
    object: impl Fn(usize) -> Value,
) -> Result<BTreeMap<String, Instant>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let all = (0..count).map(|number| {
        let object = serde_json::from_value::<K>(object(number));
        async move {
            let object = object?;
            // Connections break under load; whatever a broken one carried is sent again.
            for _ in 0..TRIES {
                match api.create(&PostParams::default(), &object).await {
                    Ok(_) => return Ok((object.name_any(), Instant::now())),
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        return Ok((object.name_any(), Instant::now()));
                    }
                    Err(kube::Error::Api(status)) => return Err(kube::Error::Api(status).into()),
                    Err(_) => {}
                }
            }
            anyhow::bail!("{} could not be created in {TRIES} tries", object.name_any())
        }
    });
    futures::stream::iter(all).buffer_unordered(AT_ONCE).try_collect().await
}

/// When something was first seen, by name.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Seen {
    /// Watches objects of a kind; `name` says under which name one is to be noted, or that it is not yet.
    fn watch<K>(
        api: Api<K>,
        which: watcher::Config,
        name: impl Fn(&K) -> Option<String> + Send + 'static,
    ) -> (Self, JoinSet<()>)
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let seen = Self::default();
        let into = seen.clone();
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            let mut stream = watcher(api, which).default_backoff().applied_objects().boxed();
            while let Some(event) = stream.next().await {
                let Some(name) = event.ok().and_then(|object| name(&object)) else { continue };
                into.all().entry(name).or_insert_with(Instant::now);
            }
        });
        (seen, watching)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are so many; returns how long after `began` the last of them was seen.
    async fn reach(&self, count: usize, what: &str, began: Instant) -> Result<f64> {
        let reached = async {
            let mut every = tokio::time::interval(Duration::from_millis(100));
            while self.all().len() < count {
                every.tick().await;
            }
        };
        let reached = tokio::time::timeout(LONGEST, reached).await;
        reached.with_context(|| format!("only {} of {count} {what}", self.all().len()))?;
        let last = self.all().values().max().copied().context("nothing was seen")?;
        Ok(last.duration_since(began).as_secs_f64())
    }
}

/// When each pod first ran.
fn watch_pods(world: &World) -> (Seen, JoinSet<()>) {
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    Seen::watch(world.api::<Pod>(), watcher::Config::default(), move |pod| runs(pod).then(|| pod.name_any()))
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

/// Waits until no Job and no pod is left.
async fn cleared(world: &World) -> Result<()> {
    let left = async {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        loop {
            every.tick().await;
            let one = ListParams::default().limit(1);
            // As above: an answer that does not come is no answer.
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

    let (run, watching) = watch_pods(world);
    let began = Instant::now();
    let jobs = world.api::<BatchJob>();
    create(&jobs, count, |number| plain(&format!("plain-{number}"))).await?;
    let raw = began.elapsed().as_secs_f64();
    let raw_run = run.reach(count, "plain Jobs run", began).await?;
    drop(watching);
    jobs.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    cleared(world).await?;

    let ours = watcher::Config::default().labels(names::LABEL_JOB);
    let owner = |job: &BatchJob| job.labels().get(names::LABEL_JOB).cloned();
    let (seen, _watching) = Seen::watch(world.api::<BatchJob>(), ours, owner);
    let (run, _watching_too) = watch_pods(world);
    let began = Instant::now();
    let api = world.api::<ScavengerJob>();
    let created = create(&api, count, |number| scavenger_job(&format!("job-{number}"))).await?;
    let submitted = began.elapsed().as_secs_f64();
    let last = seen.reach(count, "have a Job", began).await?;
    let last_run = run.reach(count, "run", began).await?;
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
         all pods run:                      after {last_run:.1} s; those of the plain Jobs after {raw_run:.1} s",
        nodes.items.len(),
        number / raw,
        number / last,
        raw / last * 100.0,
        AIM * 100.0,
        percentile(&latencies, 50),
        percentile(&latencies, 95),
        percentile(&latencies, 100),
    );
    println!("memory of the operator at its peak: {:.0} MiB", peak_bytes(world).await? / f64::from(1 << 20));
    Ok(())
}

/// The most memory that the whole process of the leader had so far.
async fn peak_bytes(world: &World) -> Result<f64> {
    let operator = world.leader().await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{operator}:8080/proxy/metrics");
    let metrics = world.client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    let name = "scavenger_peak_resident_memory_bytes ";
    metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        .with_context(|| format!("{name}is not served"))
}

#[test]
#[ignore = "a measurement of minutes: `cargo xtask bench`"]
fn scavenger_jobs_become_jobs() {
    run_within(3 * LONGEST, "bench", |world| async move {
        let count = std::env::var(COUNT_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
        let pool = json!({
            "nodeSelector": { "type": "kwok" }, "toleratedTaints": ["kwok.x-k8s.io/node"],
            // Else it would be measured how long kube-scheduler takes for ten pods.
            "maxConcurrentStarts": 1000,
            // As it is by default; the tests shorten it.
            "pendingTimeout": "60s",
        });
        patch_pool(world, &pool).await?;
        // Here it shares its cores with the whole control plane, and by its 50m it would get a twentieth of what the API
        // server gets: the scheduler of the kernel would be measured.
        let system = ["--namespace", NAMESPACE];
        let operator = "deployment/scavenger-operator";
        kubectl(&[&["set", "resources", operator, "--requests=cpu=400m"], &system[..]].concat()).await?;
        kubectl(&[&["rollout", "status", operator, "--timeout=120s"], &system[..]].concat()).await?;
        scavenger_e2e::world::until("the pool lets its tolerations in", || async {
            let probe = serde_json::from_value(played("probe", "10m"))?;
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            Ok(world.api::<ScavengerJob>().create(&dry_run, &probe).await.ok().map(|_| ()))
        })
        .await?;
        let result = measure(world, count).await;
        let before = json!({
            "nodeSelector": null, "toleratedTaints": null, "maxConcurrentStarts": null, "pendingTimeout": null,
        });
        patch_pool(world, &before).await?;
        result
    });
}
