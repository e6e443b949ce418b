//! How fast ScavengerJobs become Jobs, on a cluster with many played nodes, and what they cost the API server, next to
//! plain Jobs from one client in the same run. Figures, no verdicts: `cargo xtask bench` runs it.

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

/// How many times as long it may take until all run: an aim, too.
const AIM_RUN: f64 = 2.0;

/// Verbs of the API server that write.
const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];

/// What is written all the time, whatever anybody creates.
const BACKGROUND: [&str; 2] = ["leases", "nodes"];

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

/// What the API server has done since it started.
struct Load {
    /// Seconds of processor time.
    cpu: f64,
    /// Writes that succeeded, by kind ("status of pods, PATCH").
    writes: BTreeMap<String, f64>,
    /// Writes that it refused.
    refused: f64,
}

impl Load {
    async fn read(world: &World) -> Result<Self> {
        let metrics = world.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        Ok(Self::parse(&metrics))
    }

    fn parse(metrics: &str) -> Self {
        let mut load = Self { cpu: 0.0, writes: BTreeMap::new(), refused: 0.0 };
        for line in metrics.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if name == "process_cpu_seconds_total" {
                load.cpu = value;
            }
            let Some(labels) = name.strip_prefix("apiserver_request_total{") else { continue };
            let label = |wanted: &str| {
                let (_, rest) = labels.split_once(&format!("{wanted}=\""))?;
                rest.split_once('"').map(|(text, _)| text)
            };
            let (resource, verb) = (label("resource").unwrap_or(""), label("verb").unwrap_or(""));
            // "resource" is also the end of "subresource", which comes after it.
            let part = label("subresource").unwrap_or("");
            if !WRITES.contains(&verb)
                || BACKGROUND.contains(&resource)
                || !label("dry_run").unwrap_or("").is_empty()
            {
                continue;
            }
            if !label("code").unwrap_or("").starts_with('2') {
                load.refused += value;
                continue;
            }
            let of = if part.is_empty() { String::new() } else { format!("{part} of ") };
            *load.writes.entry(format!("{of}{resource}, {verb}")).or_default() += value;
        }
        load
    }

    /// What was done between an earlier look and this one.
    fn since(mut self, earlier: &Self) -> Self {
        self.cpu -= earlier.cpu;
        self.refused -= earlier.refused;
        for (kind, count) in &mut self.writes {
            *count -= earlier.writes.get(kind).copied().unwrap_or_default();
        }
        self
    }
}

/// A table of what the API server did for each of them.
fn loads(plain: &Load, ours: &Load, number: f64) -> String {
    let mut kinds: Vec<&String> = plain.writes.keys().chain(ours.writes.keys()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = |load: &Load, kind: &String| load.writes.get(kind).copied().unwrap_or_default() / number;
    let sum = |load: &Load| load.writes.values().sum::<f64>() / number;
    let line = |what: &str, plain: f64, ours: f64| format!("{what:<44} {plain:>10.2} {ours:>14.2}\n");
    let mut table =
        format!("{:<44} {:>10} {:>14}\n", "until all of them run, for each", "plain Job", "ScavengerJob");
    for kind in kinds {
        let (plain, ours) = (of(plain, kind), of(ours, kind));
        // A few that belong to the cluster itself.
        if plain.max(ours) >= 0.01 {
            table += &line(kind, plain, ours);
        }
    }
    table += &line("all writes", sum(plain), sum(ours));
    table += &line("refused writes", plain.refused / number, ours.refused / number);
    let milli = |load: &Load| load.cpu / number * 1000.0;
    table += &line("processor time of the API server, ms", milli(plain), milli(ours));
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
    jobs.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    cleared(world).await?;

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
fn writes_are_counted_by_kind() {
    let before = "process_cpu_seconds_total 10\n\
        apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"batch\",resource=\"jobs\",\
        scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 5\n";
    let after = before.replace("total 10", "total 12.5").replace("} 5", "} 9")
        + "apiserver_request_total{code=\"200\",dry_run=\"\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"} 3\n\
           apiserver_request_total{code=\"409\",dry_run=\"\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"} 2\n\
           apiserver_request_total{code=\"200\",dry_run=\"\",resource=\"leases\",subresource=\"\",verb=\"PUT\"} 7\n\
           apiserver_request_total{code=\"200\",dry_run=\"\",resource=\"jobs\",subresource=\"\",verb=\"WATCH\"} 7\n";
    let load = Load::parse(&after).since(&Load::parse(before));
    let writes = [("jobs, POST".to_owned(), 4.0), ("status of pods, PATCH".to_owned(), 3.0)];
    assert_eq!(load.writes, BTreeMap::from(writes));
    assert_eq!((load.cpu, load.refused), (2.5, 2.0));
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
