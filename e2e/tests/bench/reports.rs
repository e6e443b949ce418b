//! What pods that report cost the API server and the operator: ScavengerJobs on played nodes, whose pods all report a new
//! checkpoint once a minute. Figures, no verdicts: `cargo xtask bench --only reports` runs it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{ConfigMap, Node, Pod, ServiceAccount},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, PostParams},
    client::Body,
    runtime::watcher,
};
use scavenger_e2e::{
    World,
    forward::forward,
    load::{AT_ONCE, LONGEST, Load, Seen, create, on_played_nodes},
    metrics::Metrics,
    postgres::NAMESPACE,
    room::status,
    world::{LIMIT, played, run_within, until_within},
};
use scavenger_schema::{
    names,
    scavenger_job::ScavengerJob,
    supervision::{Checkpoint, LiveReport},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

/// How many pods report; another number by this environment variable.
const COUNT: usize = 10_000;
const COUNT_VARIABLE: &str = "SCAVENGER_E2E_BENCH_REPORTERS";

/// How many of them each ScavengerJob has, if this environment variable says so; otherwise one.
const EACH_VARIABLE: &str = "SCAVENGER_E2E_BENCH_PODS_EACH";

/// For how many minutes; another number by this environment variable.
const MINUTES: u32 = 5;
const MINUTES_VARIABLE: &str = "SCAVENGER_E2E_BENCH_MINUTES";

/// So many pods start at a time. More would only wait for each other while the API server keeps each of their changes in memory
/// for a minute.
const WAVE: usize = 500;

/// Reviews, and writes of a status, in a second: more than this misses the aim.
const AIM: f64 = 5.0;

/// Each pod reports this often.
const EVERY: Duration = Duration::from_secs(60);

/// Connections at the same time, which the API server passes on. All come from one address, of which the endpoint serves 32
/// at once.
const CONNECTIONS: usize = 24;

/// The Service of the endpoint, by which its certificate is made, and its port.
const SERVICE: &str = "scavenger-operator-reports";
const PORT: u16 = 8443;

/// A pod's token, as the kubelet gets one.
async fn token(world: &World, pod: &Pod) -> Result<String> {
    let request: TokenRequest = serde_json::from_value(json!({ "metadata": {}, "spec": {
        "audiences": ["scavenger.dev/supervisor"], "expirationSeconds": 7200,
        "boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid().context("a pod without UID")?,
        },
    } }))?;
    let accounts = world.api::<ServiceAccount>();
    let answer = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    answer.status.and_then(|status| status.token).context("a token was asked for and none came")
}

/// A client of the leader's endpoint that trusts what pods trust.
async fn endpoint(world: &World) -> Result<Client> {
    let bundles = world.api::<ConfigMap>();
    let bundle = until_within(LIMIT, "pods are told whom to trust", || async {
        let bundle = bundles.get_opt("scavenger-supervisor-ca").await?;
        Ok(bundle.and_then(|bundle| bundle.data?.remove("ca.crt")))
    })
    .await?;
    // Addresses of pods mean something else outside the cluster.
    let leader: &'static str = Box::leak(world.leader().await?.into_boxed_str());
    let address = forward(&world.client, NAMESPACE, leader, PORT).await?;
    let mut config = Config::new(format!("https://{address}").parse()?);
    config.root_cert = Some(certificates(&bundle)?);
    config.tls_server_name = Some(format!("{SERVICE}.{NAMESPACE}.svc"));
    config.proxy_url = None;
    // A refusal is an answer here.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The certificates in a text.
fn certificates(pem: &str) -> Result<Vec<Vec<u8>>> {
    let blocks = pem.split("-----BEGIN CERTIFICATE-----").skip(1);
    let decoded = blocks.map(|block| {
        let text: String = block.split("-----END").next().unwrap_or_default().split_whitespace().collect();
        // The same alphabet as in a Secret.
        let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(text))?;
        anyhow::Ok(bytes.0)
    });
    decoded.collect()
}

/// What became of reports, by status and in words for what had none, and how long their answers took.
#[derive(Default)]
struct Answers {
    by_status: BTreeMap<String, usize>,
    times: Vec<f64>,
}

/// Sends a report of a checkpoint that was written a moment ago.
async fn report(endpoint: &Client, token: &str, seen: u32) -> String {
    // The age counts, whatever the clock of the node says.
    let checkpoint = Checkpoint { time: Timestamp::UNIX_EPOCH, age_seconds: 0.1, seen: seen.into() };
    let report = LiveReport {
        checkpoint: Some(checkpoint),
        progress: Some(f64::from(seen) / 1000.0),
        ..LiveReport::default()
    };
    let request = http::Request::post("/reports")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Body::from(serde_json::to_vec(&report).unwrap_or_default()));
    let Ok(request) = request else { return "no request".to_owned() };
    match tokio::time::timeout(Duration::from_secs(10), endpoint.send(request)).await {
        Ok(Ok(answer)) => answer.status().as_u16().to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    }
}

/// All pods report once, spread over [`EVERY`].
async fn minute(endpoint: &Client, tokens: &Arc<Vec<String>>, seen: u32) -> Result<Answers> {
    let answers = Arc::new(Mutex::new(Answers::default()));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let began = tokio::time::Instant::now();
    let mut sending = JoinSet::new();
    let apart = EVERY / u32::try_from(tokens.len().max(1))?;
    let mut due = began;
    for number in 0..tokens.len() {
        tokio::time::sleep_until(due).await;
        due += apart;
        let place = Arc::clone(&places).acquire_owned().await?;
        let (endpoint, tokens, answers) = (endpoint.clone(), Arc::clone(tokens), Arc::clone(&answers));
        sending.spawn(async move {
            let began = Instant::now();
            let status = report(&endpoint, &tokens[number], seen).await;
            drop(place);
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            *answers.by_status.entry(status).or_default() += 1;
            answers.times.push(began.elapsed().as_secs_f64());
        });
        while sending.try_join_next().is_some() {}
    }
    while sending.join_next().await.is_some() {}
    tokio::time::sleep_until(began + EVERY).await;
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut answers))
}

/// What API server and operator have done so far.
struct Look {
    time: Instant,
    load: Load,
    metrics: Metrics,
    operator: f64,
}

impl Look {
    async fn take(world: &World) -> Result<Self> {
        let (time, load) = (Instant::now(), Load::read(world).await?);
        Ok(Self {
            time,
            load,
            metrics: Metrics::read(world).await?,
            operator: operator_seconds(world).await?,
        })
    }

    /// A line of what was done since an earlier look.
    fn line(self, what: &str, earlier: &Self) -> (Self, String) {
        let seconds = self.time.duration_since(earlier.time).as_secs_f64();
        let per_second = |name: &str| {
            let count = |look: &Self| look.load.writes.get(name).copied().unwrap_or_default();
            (count(&self) - count(earlier)) / seconds
        };
        let statuses =
            ["PUT", "PATCH", "APPLY"].map(|verb| per_second(&format!("status of scavengerjobs, {verb}")));
        let all = |look: &Self| look.load.writes.values().sum::<f64>();
        let reviews = per_second("tokenreviews, POST");
        let statuses = statuses.iter().sum::<f64>();
        let others = (all(&self) - all(earlier)) / seconds - reviews - statuses;
        let taken = |metrics: &Metrics| metrics.value("scavenger_reports_total{result=\"taken\"}");
        let line = format!(
            "{what:<12} {seconds:>8.1} {reviews:>10.2} {statuses:>10.2} {others:>8.2} {:>8.0} {:>8.0} {:>7.0}% {:>7.0}% \
             {:>8.0} {:>8.0}",
            taken(&self.metrics) - taken(&earlier.metrics),
            self.metrics.value("scavenger_known_tokens"),
            (self.load.cpu - earlier.load.cpu) / seconds * 100.0,
            (self.operator - earlier.operator) / seconds * 100.0,
            self.metrics.value("process_resident_memory_bytes") / f64::from(1 << 20),
            self.load.memory / f64::from(1 << 20),
        );
        (self, line)
    }
}

/// Seconds of processor time that the containers of the leader have used.
async fn operator_seconds(world: &World) -> Result<f64> {
    let leader = world.leader().await?;
    let operators: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
    let node = operators.get(&leader).await?.spec.and_then(|spec| spec.node_name);
    let path = format!("/api/v1/nodes/{}/proxy/metrics/resource", node.context("the leader has no node")?);
    let text = world.client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    let wanted = format!("pod=\"{leader}\"");
    let line = text
        .lines()
        .find(|line| line.starts_with("pod_cpu_usage_seconds_total{") && line.contains(&wanted))
        .with_context(|| format!("the kubelet does not know what {leader} uses"))?;
    // Behind the value stands the time at which it was measured.
    let value = line.rsplit_once("} ").and_then(|(_, rest)| rest.split_whitespace().next());
    Ok(value.context("a metric without a value")?.parse()?)
}

/// All pods of ours that are there, with their tokens.
async fn tokens(world: &World) -> Result<Vec<String>> {
    let pods = world.api::<Pod>();
    let mut asked = ListParams::default().labels(names::LABEL_JOB).limit(1000);
    let mut tokens = Vec::new();
    loop {
        let page = pods.list(&asked).await?;
        let of_page =
            futures::stream::iter(&page.items).map(|pod| token(world, pod)).buffer_unordered(AT_ONCE);
        tokens.extend(of_page.try_collect::<Vec<_>>().await?);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(next) => asked = asked.continue_token(&next),
            None => return Ok(tokens),
        }
    }
}

/// Creates ScavengerJobs, so many at a time once those before them run; returns how long it took until all ran.
async fn create_in_waves(
    world: &World,
    count: usize,
    at_a_time: usize,
    running: &Seen,
    began: Instant,
    object: impl Fn(usize) -> Value,
) -> Result<f64> {
    let (mut created, mut took) = (0, 0.0);
    while created < count {
        let wave = at_a_time.min(count - created);
        create(&world.api::<ScavengerJob>(), wave, |number| object(created + number)).await?;
        created += wave;
        took = running.reach(created, "run", began).await?;
        let memory = Load::read(world).await?.memory / f64::from(1 << 20);
        println!("{created} of {count} run after {took:.0} s; memory of the API server {memory:.0} MiB");
    }
    Ok(took)
}

/// An attempt that was taken away meanwhile did not report: the nodes lost their heartbeats, and less was measured than it
/// seems.
async fn none_was_interrupted(world: &World) -> Result<()> {
    let all = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    let interrupted = all.iter().filter(|job| status(job).interrupted_count > 0).count();
    ensure!(interrupted == 0, "{interrupted} of {} ScavengerJobs were interrupted", all.items.len());
    Ok(())
}

async fn measure(world: &World, count: usize, each: usize, minutes: u32) -> Result<()> {
    let nodes =
        Api::<Node>::all(world.client.clone()).list(&ListParams::default().labels("type=kwok")).await?;
    ensure!(nodes.items.len() >= count / 200, "{} played nodes cannot hold {count} pods", nodes.items.len());
    let phase = |sj: &ScavengerJob| serde_json::to_value(sj.status.as_ref()?.phase).ok();
    let (running, watching) =
        Seen::watch(world.api::<ScavengerJob>(), watcher::Config::default(), move |sj| {
            (phase(sj)? == "Running").then(|| sj.name_any())
        });
    let began = Instant::now();
    let ours = |number: usize| {
        let mut job = played(&format!("job-{number}"), "10m");
        job["spec"]["interruptionAfter"] = "10m".into();
        job["spec"]["podCount"] = json!(each);
        job
    };
    let scavenger_jobs = count.div_ceil(each);
    let count = scavenger_jobs * each;
    let took = create_in_waves(world, scavenger_jobs, (WAVE / each).max(1), &running, began, ours).await?;
    drop(watching);
    let endpoint = endpoint(world).await?;
    let began = Instant::now();
    let tokens = Arc::new(tokens(world).await?);
    ensure!(tokens.len() == count, "{scavenger_jobs} ScavengerJobs have {} pods, not {count}", tokens.len());
    println!(
        "{scavenger_jobs} ScavengerJobs with {count} pods on {} played nodes run after {took:.0} s; their tokens came \
         within {:.0} s",
        nodes.items.len(),
        began.elapsed().as_secs_f64(),
    );
    println!(
        "{:<12} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n{:<12} {:>8} {:>10} {:>10} {:>8} {:>8} \
         {:>8} {:>8} {:>8} {:>8} {:>8}",
        "",
        "seconds",
        "reviews",
        "statuses",
        "other",
        "reports",
        "tokens",
        "cpu API",
        "cpu of",
        "MiB of",
        "MiB API",
        "",
        "",
        "a second",
        "a second",
        "writes",
        "taken",
        "known",
        "server",
        "operator",
        "operator",
        "server",
    );
    let mut before = Look::take(world).await?;
    tokio::time::sleep(EVERY).await;
    let (look, line) = Look::take(world).await?.line("idle", &before);
    println!("{line}");
    let first = look.metrics.clone();
    before = look;
    for number in 1..=minutes {
        let answers = minute(&endpoint, &tokens, number).await?;
        let (look, line) = Look::take(world).await?.line(&format!("minute {number}"), &before);
        before = look;
        let mut times = answers.times;
        times.sort_by(f64::total_cmp);
        let of =
            |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default() * 1000.0;
        println!(
            "{line}  answers {:?}, half of them within {:.0} ms, 99% within {:.0} ms",
            answers.by_status,
            of(50),
            of(99)
        );
    }
    none_was_interrupted(world).await?;
    println!("aim: at most {AIM} reviews and {AIM} writes of a status in a second");
    println!("what the operator counted meanwhile:");
    for line in before.metrics.to_string().lines() {
        let is_ours =
            ["scavenger_reports_total", "scavenger_token_reviews_total", "scavenger_refused_report"];
        let Some((name, _)) = line.rsplit_once(' ') else { continue };
        if is_ours.iter().any(|prefix| name.starts_with(prefix)) {
            println!("  {name} {:.0}", before.metrics.value(name) - first.value(name));
        }
    }
    Ok(())
}

#[test]
#[ignore = "a measurement of minutes: `cargo xtask bench --only reports`"]
fn pods_that_report_cost_the_api_server_little() {
    let number = |variable| std::env::var(variable).ok().and_then(|text| text.parse().ok());
    let minutes = number(MINUTES_VARIABLE).unwrap_or(MINUTES);
    let each =
        number(EACH_VARIABLE).and_then(|each| each.try_into().ok()).filter(|each| *each > 0).unwrap_or(1);
    run_within(3 * LONGEST + EVERY * minutes, "bench-reports", |world| async move {
        let count = number(COUNT_VARIABLE).and_then(|count| count.try_into().ok()).unwrap_or(COUNT);
        on_played_nodes(world, || measure(world, count, each, minutes)).await
    });
}
