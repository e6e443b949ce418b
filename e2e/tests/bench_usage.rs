//! What ordinary pods notice of ScavengerJobs, and what these get, on a node whose capacity is reserved and idle: alone,
//! beside ScavengerJobs that are counted by requests, and beside such that are counted by use. Figures, no verdicts:
//! `cargo xtask bench --only usage` runs it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, LogParams},
};
use scavenger_e2e::{
    World,
    room::{delete_all, delete_pod, has_reason, patch_pool},
    world::{exec, ordinary_pod, real_node, run_within, until, until_within},
};
use scavenger_schema::{
    quantity,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::WaitingReason;
use serde_json::{Value, json};

/// Each way once in a round, in another order each time.
const ROUNDS: usize = 5;

/// Pods of which it is measured how soon they run, in each way and round.
const STARTS: usize = 10;

/// How long a measurement takes.
const SECONDS: u32 = 15;

/// bash, coreutils.
const IMAGE: &str = concat!("scavenger.dev/counter-mpirun:", env!("CARGO_PKG_VERSION"));

/// How the node is used meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    Requests,
    Usage,
}

impl Way {
    const ALL: [Self; 3] = [Self::Alone, Self::Requests, Self::Usage];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Requests => "beside ScavengerJobs, Requests",
            Self::Usage => "beside ScavengerJobs, Usage",
        }
    }
}

/// What was measured in one way.
#[derive(Debug, Default)]
struct Figures {
    /// Times of requests that take 2 ms of cpu, in microseconds.
    latencies: Vec<u64>,
    /// What a job on two threads got done that requests a fifth of a core.
    bursts: Vec<u64>,
    /// From creation to Running.
    starts: Vec<Duration>,
    /// Processor time that ScavengerJobs got, as a share of the node's.
    shares: Vec<f64>,
}

fn percentile<T: Ord + Copy>(values: &[T], percent: usize) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len().checked_sub(1)?) * percent / 100).copied()
}

/// Two threads that are busy until they are stopped.
const BUSY: &str = "trap 'exit 0' TERM; (while :; do :; done) & (while :; do :; done) & wait";

/// Prints the microseconds that each of 400 requests took. How much work takes 2 ms is found out at first.
fn service() -> String {
    "work() { local k; for ((k = 0; k < n; k++)); do :; done; }\n\
     now() { t=${EPOCHREALTIME/./}; }\n\
     n=100000; best=999999999\n\
     for i in 1 2 3 4 5 6 7 8; do now; a=$t; work; now; d=$((t - a)); ((d < best)) && best=$d; done\n\
     n=$((n * 2000 / best))\n\
     for i in {1..400}; do now; a=$t; work; now; echo $((t - a)); sleep 0.02; done"
        .to_owned()
}

/// Prints how often each of two threads went round.
fn burst() -> String {
    format!(
        "spin() {{ local i=0 end=$((SECONDS + {SECONDS})); while ((SECONDS < end)); do ((++i)); done; echo $i; }}\n\
         spin & spin & wait"
    )
}

/// An ordinary pod that runs a script and ends.
fn script(name: &str, requests: &Value, limits: &Value, script: &str) -> Value {
    let mut pod = ordinary_pod(name, requests);
    pod["spec"]["restartPolicy"] = json!("Never");
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!(IMAGE);
    container["command"] = json!(["bash", "-c", script]);
    container["resources"] = json!({ "requests": requests, "limits": limits });
    pod
}

/// The numbers that a pod printed until it ended.
async fn numbers(world: &World, name: &str) -> Result<Vec<u64>> {
    until(&format!("{name} has ended"), || async {
        let phase = world.api::<Pod>().get(name).await?.status.and_then(|status| status.phase);
        Ok(matches!(phase.as_deref(), Some("Succeeded" | "Failed")).then_some(()))
    })
    .await?;
    let log = world.api::<Pod>().logs(name, &LogParams::default()).await?;
    delete_pod(world, name).await?;
    log.lines().map(|line| Ok(line.trim().parse()?)).collect()
}

/// A ScavengerJob that keeps two threads busy and may use most of the node's processors.
fn busy(node: &str) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": "busy" },
        "spec": {
            "image": IMAGE, "command": ["bash", "-c", BUSY], "interruptionAfter": "10m",
            "resources": { "requests": { "cpu": "1200m", "memory": "64Mi" } },
            "nodeSelector": { "kubernetes.io/hostname": node }, "terminationGracePeriodSeconds": 2,
        },
    })
}

async fn occupy(world: &World, node: &str) -> Result<()> {
    world.create::<ScavengerJob>(busy(node)).await?;
    let runs = || async {
        let phase = world.api::<ScavengerJob>().get("busy").await?.status.and_then(|status| status.phase);
        Ok((phase == Some(Phase::Running)).then_some(()))
    };
    until_within(Duration::from_secs(600), "the ScavengerJob runs", runs).await
}

/// Processor time that the ScavengerJob's container has had, in microseconds.
async fn busy_micros(world: &World) -> Result<u64> {
    let pod = world.pod("busy").await?.metadata.name.context("a pod has a name")?;
    let read = "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || \
                awk '/usage_usec/ { print $2 * 1000 }' /sys/fs/cgroup/cpu.stat";
    let text = exec(&world.api::<Pod>(), &pod, "main", &["bash", "-c", read]).await?;
    Ok(text.trim().parse::<u64>()? / 1000)
}

async fn measure(world: &World, node: &str, cores: f64, way: Way, figures: &mut Figures) -> Result<()> {
    // The policy of the pool first: what runs keeps the one with which it was started.
    let accounting = if way == Way::Usage { "Usage" } else { "Requests" };
    patch_pool(world, &json!({ "accounting": accounting })).await?;
    if way != Way::Alone {
        occupy(world, node).await?;
    }
    let before = if way == Way::Alone { 0 } else { busy_micros(world).await? };
    let began = Instant::now();
    let small = json!({ "cpu": "200m", "memory": "64Mi" });
    world.create::<Pod>(script("service", &small, &json!({ "memory": "64Mi" }), &service())).await?;
    figures.latencies.extend(numbers(world, "service").await?);
    world.create::<Pod>(script("burst", &small, &json!({ "memory": "64Mi" }), &burst())).await?;
    figures.bursts.push(numbers(world, "burst").await?.iter().sum());
    let tiny = json!({ "cpu": "50m", "memory": "16Mi" });
    for number in 0..STARTS {
        let name = format!("starts-{number}");
        let began = Instant::now();
        world.create::<Pod>(ordinary_pod(&name, &tiny)).await?;
        let running = |pod: Option<&Pod>| {
            let status = pod.and_then(|pod| pod.status.as_ref());
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        kube::runtime::wait::await_condition(world.api::<Pod>(), &name, running).await?;
        figures.starts.push(began.elapsed());
        world.api::<Pod>().delete(&name, &DeleteParams::default()).await?;
    }
    if way != Way::Alone {
        let used = busy_micros(world).await?.saturating_sub(before);
        let passed = began.elapsed().as_micros();
        figures.shares.push(used as f64 / (passed as f64 * cores));
        delete_all(world).await?;
    }
    Ok(())
}

/// What ScavengerJobs get of a node of which 90% are requested by pods that sleep: with Requests, and with Usage.
async fn harvest(world: &World, node: &str, cores: f64) -> Result<[f64; 2]> {
    let pods: Api<Pod> = Api::all(world.client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut requested = 0;
    for pod in pods.list(&on_node).await? {
        for container in pod.spec.into_iter().flat_map(|spec| spec.containers) {
            let requests = container.resources.and_then(|resources| resources.requests).unwrap_or_default();
            requested += requests.get("cpu").map_or(Ok(0), |cpu| quantity::parse_milli(&cpu.0))?;
        }
    }
    let left = ((0.9 * cores * 1000.0) as i64 - requested).max(100);
    for number in 0..5 {
        let requests = json!({ "cpu": format!("{}m", left / 5), "memory": "16Mi" });
        let name = format!("sleeps-{number}");
        world.create::<Pod>(script(&name, &requests, &json!({}), "sleep 100000 & wait")).await?;
        world.pod_runs(&name).await?;
    }
    let mut shares = [0.0; 2];
    for (share, accounting) in shares.iter_mut().zip(["Requests", "Usage"]) {
        patch_pool(world, &json!({ "accounting": accounting })).await?;
        if accounting == "Usage" {
            occupy(world, node).await?;
            let (before, began) = (busy_micros(world).await?, Instant::now());
            tokio::time::sleep(Duration::from_secs(30)).await;
            let used = busy_micros(world).await?.saturating_sub(before);
            *share = used as f64 / (began.elapsed().as_micros() as f64 * cores);
        } else {
            world.create::<ScavengerJob>(busy(node)).await?;
            let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
            world.job_until("busy", "waits for capacity", waits).await?;
        }
        delete_all(world).await?;
    }
    Ok(shares)
}

/// Cores of the node.
async fn cores(world: &World, node: &str) -> Result<f64> {
    let node = Api::<Node>::all(world.client.clone()).get(node).await?;
    let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
    let cpu = allocatable.get("cpu").context("a node has cpu")?;
    Ok(quantity::parse_milli(&cpu.0)? as f64 / 1000.0)
}

fn print(table: &[(Way, Figures)]) {
    let alone = &table[0].1;
    let ratio = |value: f64, of: f64| if of > 0.0 { format!("{:.2}", value / of) } else { "-".to_owned() };
    println!(
        "| ordinary pods | p50 of a 2 ms request | p99 | of alone | burst | of alone | created to Running | of alone | cpu of ScavengerJobs |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (way, figures) in table {
        let latency = |figures: &Figures, percent| {
            percentile(&figures.latencies, percent).map_or(0.0, |micros| micros as f64 / 1000.0)
        };
        let burst = |figures: &Figures| percentile(&figures.bursts, 50).unwrap_or(0) as f64;
        let start = |figures: &Figures| percentile(&figures.starts, 50).unwrap_or_default().as_secs_f64();
        let share = figures.shares.iter().sum::<f64>() / figures.shares.len().max(1) as f64;
        println!(
            "| {} | {:.2} ms | {:.2} ms | {} | {:.0} | {} | {:.2} s | {} | {:.0}% |",
            way.name(),
            latency(figures, 50),
            latency(figures, 99),
            ratio(latency(figures, 99), latency(alone, 99)),
            burst(figures),
            ratio(burst(figures), burst(alone)),
            start(figures),
            ratio(start(figures), start(alone)),
            share * 100.0,
        );
    }
}

#[test]
#[ignore = "a measurement of half an hour: `cargo xtask bench --only usage`"]
fn ordinary_pods_beside_scavenger_jobs() {
    run_within(Duration::from_secs(3600), "bench-usage", |world| async move {
        let node = real_node(&Api::all(world.client.clone())).await?;
        let cores = cores(world, &node).await?;
        let pool = json!({
            "startThreshold": 0.95, "headroomTarget": 0.96, "interruptThreshold": 0.99,
            // The measurement itself keeps the node busy. Nobody is to go because of it, and it is to be forgotten soon.
            "usage": { "window": "30s", "halfLife": "1m", "percentile": 50, "marginPercent": 0, "linger": "30m" },
        });
        patch_pool(world, &pool).await?;
        let mut table: Vec<(Way, Figures)> = Way::ALL.map(|way| (way, Figures::default())).into();
        for round in 0..ROUNDS {
            for turn in 0..Way::ALL.len() {
                let (way, figures) = &mut table[(round + turn) % Way::ALL.len()];
                measure(world, &node, cores, *way, figures).await?;
            }
        }
        print(&table);
        let shares = harvest(world, &node, cores).await?;
        println!(
            "of a node of which 90% are requested and next to nothing is used, ScavengerJobs got {:.0}% of the processor \
             time with accounting Requests and {:.0}% with Usage",
            shares[0] * 100.0,
            shares[1] * 100.0
        );
        patch_pool(world, &json!({ "accounting": null, "usage": null })).await
    });
}
