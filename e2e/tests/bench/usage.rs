//! What ordinary pods notice of ScavengerJobs, and what these get, on a node whose capacity is reserved and idle: alone,
//! beside ScavengerJobs that are counted by requests, and beside such that are counted by use, each without and with the node
//! agent. Figures with their aims, no verdicts: `cargo xtask bench --only usage` runs it. A part that fails leaves its
//! figures out of the table, and the others are measured and printed all the same.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, LogParams},
};
use scavenger_e2e::{
    World,
    by_use::{allocatable, requested_cpu},
    cgroup::{PodGroup, Weight, machine},
    growth::{delete_at_once, hog, is_killed, ordinary_pods_harmed, takes},
    node_agent,
    queue::prepare,
    room::{delete_all, delete_pod, has_reason, patch_pool, status},
    world::{exec, ordinary_pod, real_node, run_within, until, until_within},
};
use scavenger_schema::{
    names, quantity,
    scavenger_job::{Accounting, Phase, ScavengerJob},
};
use scavenger_vocabulary::WaitingReason;
use serde_json::{Value, json};

/// Each way once in a round, in another order each time.
const ROUNDS: usize = 5;

/// Pods of which it is measured how soon they run, in each way and round.
const STARTS: usize = 10;

/// Requests to the service, in each way and round.
const REQUESTS: u32 = 250;

/// For how long it is measured what the ScavengerJob gets of an idle node.
const UNDISTURBED: Duration = Duration::from_secs(5);

/// Seconds of a burst.
const BURST: u32 = 8;

/// MiB that the ScavengerJob holds while an ordinary pod grows.
const HELD: u64 = 400;

/// MiB that an ordinary pod requests and grows to.
const GROWN: u64 = 300;

/// MiB that are left beside [`HELD`] before the ordinary pod grows: it takes back what ScavengerJobs hold.
const LEFT: u64 = 150;

/// Simulations that share what is left of a reserved node, and the millicores of each.
const SIMULATIONS: usize = 7;
const MILLICORES: u32 = 200;

/// For how long it is measured what they get.
const HARVEST: Duration = Duration::from_secs(60);

/// A ScavengerJob that has not started by then finds no capacity.
const START_LIMIT: Duration = Duration::from_secs(150);

/// After this no further round begins, so that what was measured is printed.
const ROUNDS_LIMIT: Duration = Duration::from_secs(50 * 60);

/// Nanoseconds of a step of the water box.
const STEP: f64 = 2e-6;

/// bash, coreutils.
const IMAGE: &str = concat!("scavenger.dev/counter-mpirun:", env!("CARGO_PKG_VERSION"));

/// GROMACS, bash.
const GROMACS: &str = "scavenger.dev/gromacs:2022.5";

/// How the node is used meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// No ScavengerJob.
    Alone,
    /// One that is counted so, with or without the node agent.
    Beside(Accounting, Agent),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Without,
    With,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::Alone,
        Self::Beside(Accounting::Requests, Agent::Without),
        Self::Beside(Accounting::Requests, Agent::With),
        Self::Beside(Accounting::Usage, Agent::Without),
        Self::Beside(Accounting::Usage, Agent::With),
    ];

    /// Head of its column.
    fn name(self) -> String {
        match self {
            Self::Alone => "alone".to_owned(),
            Self::Beside(accounting, Agent::Without) => format!("`{accounting:?}`"),
            Self::Beside(accounting, Agent::With) => format!("`{accounting:?}`, node agent"),
        }
    }
}

/// Counts what starts from now on so. The use of the node is measured all the time: a dry run counts by requests.
async fn count(world: &World, accounting: Accounting) -> Result<()> {
    patch_pool(world, &json!({ "usage": { "dryRun": accounting != Accounting::Usage } })).await
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
    /// Ordinary pods that grew to what they request, and those of all ordinary pods that were killed or evicted.
    grown: usize,
    harmed: Vec<String>,
    /// Rounds in which they tried.
    growths: usize,
    /// Processor time that the ScavengerJob got, as a share of the node's: beside nothing else, and while ordinary pods were
    /// measured.
    undisturbed: Vec<f64>,
    shares: Vec<f64>,
}

impl Figures {
    /// Milliseconds.
    fn latency(&self, percent: usize) -> Option<f64> {
        Some(percentile(&self.latencies, percent)? as f64 / 1000.0)
    }

    fn burst(&self) -> Option<f64> {
        Some(percentile(&self.bursts, 50)? as f64)
    }

    /// Seconds.
    fn start(&self, percent: usize) -> Option<f64> {
        Some(percentile(&self.starts, percent)?.as_secs_f64())
    }

    /// Whether ordinary pods grew, and what that cost ordinary pods.
    fn growth(&self) -> String {
        if self.growths == 0 {
            return MISSING.to_owned();
        }
        format!("{} of {} grew, {} harmed", self.grown, self.growths, self.harmed.len())
    }
}

/// Mean of shares, in percent.
fn mean(shares: &[f64]) -> Option<f64> {
    (!shares.is_empty()).then(|| 100.0 * shares.iter().sum::<f64>() / shares.len() as f64)
}

/// In the place of a figure that was not measured.
const MISSING: &str = "not measured";

/// A figure with its unit.
fn shown(figure: Option<f64>, digits: usize, unit: &str) -> String {
    figure.map_or_else(|| MISSING.to_owned(), |figure| format!("{figure:.digits$}{unit}"))
}

/// Parts that failed, and why.
#[derive(Debug, Default)]
struct Failures(Vec<String>);

impl Failures {
    /// Writes down why a part failed, so that the others go on.
    fn note<T>(&mut self, what: &dyn Display, result: Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                eprintln!("{what} failed: {error:#}");
                self.0.push(format!("{what}: {error:#}"));
            })
            .ok()
    }
}

fn percentile<T: Ord + Copy>(values: &[T], percent: usize) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len().checked_sub(1)?) * percent / 100).copied()
}

/// Defines `work`, which goes round `n` times, and `now`, which puts the time in microseconds into `t`.
const WORK: &str = "work() { local k; for ((k = 0; k < n; k++)); do :; done; }\n\
                    now() { t=${EPOCHREALTIME/./}; }\n";

/// Prints how many rounds of work take 2 ms on a quiet node.
fn calibration() -> String {
    format!(
        "{WORK}n=100000; best=999999999\n\
         for i in {{1..8}}; do now; a=$t; work; now; d=$((t - a)); ((d < best)) && best=$d; done\n\
         echo $((n * 2000 / best))"
    )
}

/// Prints the microseconds that each request took.
fn service(rounds: u64) -> String {
    format!(
        "{WORK}n={rounds}\n\
         for ((i = 0; i < {REQUESTS}; i++)); do now; a=$t; work; now; echo $((t - a)); sleep 0.02; done"
    )
}

/// Prints how often each of two threads went round.
fn burst() -> String {
    format!(
        "spin() {{ local i=0 end=$((SECONDS + {BURST})); while ((SECONDS < end)); do ((++i)); done; echo $i; }}\n\
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

/// The numbers that a pod of this script printed until it ended.
async fn numbers(world: &World, name: &str, text: &str) -> Result<Vec<u64>> {
    let small = json!({ "cpu": "200m", "memory": "64Mi" });
    world.create::<Pod>(script(name, &small, &json!({ "memory": "64Mi" }), text)).await?;
    until(&format!("{name} has ended"), || async {
        let phase = world.api::<Pod>().get(name).await?.status.and_then(|status| status.phase);
        Ok(matches!(phase.as_deref(), Some("Succeeded" | "Failed")).then_some(()))
    })
    .await?;
    let log = world.api::<Pod>().logs(name, &LogParams::default()).await?;
    delete_pod(world, name).await?;
    log.lines().map(|line| line.trim().parse().with_context(|| format!("{name} says {line:?}"))).collect()
}

/// A ScavengerJob that keeps two threads busy and holds memory.
fn busy(node: &str, millicores: i64) -> Value {
    let spin = "trap 'exit 0' TERM; (while :; do :; done) & (while :; do :; done) & ";
    let hold = takes(HELD, "0.01");
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": "busy" },
        "spec": {
            "image": IMAGE, "command": ["bash", "-c", format!("{spin}{hold}; wait")], "interruptionAfter": "10m",
            "resources": { "requests": { "cpu": format!("{millicores}m"), "memory": "512Mi" } },
            "nodeSelector": { "kubernetes.io/hostname": node }, "terminationGracePeriodSeconds": 2,
        },
    })
}

/// Starts it, and waits until it holds what it takes. The way of counting is that of its attempt, and the agent's work is
/// done.
async fn occupy(world: &World, node: &str, millicores: i64, wanted: (Accounting, Agent)) -> Result<PodGroup> {
    let (accounting, agent) = wanted;
    world.create::<ScavengerJob>(busy(node, millicores)).await?;
    let runs = || async {
        let job = world.api::<ScavengerJob>().get("busy").await?;
        Ok(Some(status(&job)).filter(|status| status.phase == Some(Phase::Running)))
    };
    let attempt = until_within(START_LIMIT, "the ScavengerJob runs", runs).await?.attempt;
    let counted = attempt.context("what runs has an attempt")?.accounting;
    ensure!(counted == accounting, "it is counted by {counted:?}");
    let pod = world.pod("busy").await?;
    world.log_until(&pod.name_any(), "the ScavengerJob holds its memory", |line| line == "grown").await?;
    until("the weight of its pod is what it should be", || async {
        Ok((Weight::of(&pod)?.idle == (agent == Agent::With)).then_some(()))
    })
    .await?;
    PodGroup::of(&pod)
}

/// What share of the processor time of a machine with so many cores a pod gets meanwhile.
struct Share<'a> {
    group: &'a PodGroup,
    cores: f64,
    used: Duration,
    began: Instant,
}

impl<'a> Share<'a> {
    fn begin(group: &'a PodGroup, cores: f64) -> Result<Self> {
        Ok(Self { group, cores, used: group.processor_time()?, began: Instant::now() })
    }

    fn end(self) -> Result<f64> {
        let used = self.group.processor_time()? - self.used;
        Ok(used.as_secs_f64() / self.began.elapsed().as_secs_f64() / self.cores)
    }
}

/// How soon an ordinary pod runs.
async fn starts(world: &World, name: &str) -> Result<Duration> {
    let began = Instant::now();
    world.create::<Pod>(ordinary_pod(name, &json!({ "cpu": "50m", "memory": "16Mi" }))).await?;
    let running = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        status.and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    kube::runtime::wait::await_condition(world.api::<Pod>(), name, running).await?;
    let took = began.elapsed();
    world.api::<Pod>().delete(name, &DeleteParams::default()).await?;
    Ok(took)
}

/// An ordinary pod grows to its full request within 10 s, on a node that has as much memory in each way: the limit is on
/// the group of all pods.
async fn grows(world: &World, beside: Option<&PodGroup>, figures: &mut Figures) -> Result<()> {
    let requests = json!({ "cpu": "50m", "memory": format!("{GROWN}Mi") });
    // It waits until the node has its limit.
    let line = format!("until [[ -e /tmp/go ]]; do sleep 0.1; done; {}", takes(GROWN, "0.2"));
    world.create::<Pod>(hog("grows", IMAGE, &requests, &line)).await?;
    world.pod_runs("grows").await?;
    let pod = world.api::<Pod>().get("grows").await?;
    let group = PodGroup::of(&pod)?;
    let left = if beside.is_some() { LEFT } else { LEFT + HELD };
    let before = ordinary_pods_harmed(&world.client).await?;
    group.node().leave(left)?;
    let end = async {
        exec(&world.api::<Pod>(), "grows", "owner", &["touch", "/tmp/go"]).await?;
        is_killed(world, "grows").await
    }
    .await;
    group.node().lift()?;
    let is_killed = end?;
    figures.growths += 1;
    figures.grown += usize::from(!is_killed);
    let harmed = ordinary_pods_harmed(&world.client).await?;
    figures.harmed.extend(harmed.into_iter().filter(|name| !before.contains(name)));
    delete_at_once(world, "grows").await
}

/// What is measured, and on what.
struct Bench {
    world: &'static World,
    node: String,
    cores: f64,
    /// Of the ScavengerJob that keeps the node busy.
    millicores: i64,
    /// Rounds of work that take 2 ms.
    rounds: u64,
}

impl Bench {
    /// One round in one way.
    async fn measure(&self, way: Way, figures: &mut Figures, failures: &mut Failures) -> Result<()> {
        let world = self.world;
        let before = failures.0.len();
        let beside = match way {
            Way::Alone => None,
            Way::Beside(accounting, agent) => {
                let started = async {
                    // The policy of the pool first: what runs keeps the one with which it was started.
                    count(world, accounting).await?;
                    node_agent::on_the_node(world, agent == Agent::With).await?;
                    occupy(world, &self.node, self.millicores, (accounting, agent)).await
                };
                let Some(group) = failures.note(&format_args!("{way:?}: the ScavengerJob"), started.await)
                else {
                    return self.clear().await;
                };
                Some(group)
            }
        };
        let share = match &beside {
            None => None,
            Some(group) => {
                let undisturbed = Share::begin(group, self.cores)?;
                tokio::time::sleep(UNDISTURBED).await;
                figures.undisturbed.push(undisturbed.end()?);
                Some(Share::begin(group, self.cores)?)
            }
        };
        let latencies = numbers(world, "service", &service(self.rounds)).await;
        figures
            .latencies
            .extend(failures.note(&format_args!("{way:?}: the service"), latencies).unwrap_or_default());
        let rounds = numbers(world, "burst", &burst()).await;
        let rounds = failures.note(&format_args!("{way:?}: the burst"), rounds);
        figures.bursts.extend(rounds.map(|rounds| rounds.iter().sum::<u64>()));
        for number in 0..STARTS {
            let start = starts(world, &format!("starts-{number}")).await;
            figures.starts.extend(failures.note(&format_args!("{way:?}: a start"), start));
        }
        if let Some(share) = share {
            let share = async {
                let share = share.end()?;
                let phase = status(&world.api::<ScavengerJob>().get("busy").await?).phase;
                ensure!(phase == Some(Phase::Running), "it did not stay: {phase:?}");
                Ok(share)
            };
            figures.shares.extend(failures.note(&format_args!("{way:?}: the ScavengerJob"), share.await));
        }
        // Last: whatever is killed is no longer needed.
        let growth = grows(world, beside.as_ref(), figures).await;
        failures.note(&format_args!("{way:?}: the growth of memory"), growth);
        if failures.0.len() > before {
            return self.clear().await;
        }
        delete_all(world).await
    }

    /// Removes whatever a part that failed has left.
    async fn clear(&self) -> Result<()> {
        delete_all(self.world).await?;
        let pods = self.world.api::<Pod>();
        let ordinary = ListParams::default().labels(&format!("!{}", names::LABEL_JOB));
        pods.delete_collection(&DeleteParams::default(), &ordinary).await?;
        until("no pod is left", || async { Ok(pods.list(&ordinary).await?.items.is_empty().then_some(())) })
            .await
    }
}

/// What ScavengerJobs got of a node of which 90% are requested.
#[derive(Debug, Default)]
struct Harvest {
    /// Simulations that ran.
    running: usize,
    /// What they got of the node's processor time, and what everything else used.
    share: f64,
    others: f64,
    ns_per_day: f64,
}

/// A simulation that goes on until it is stopped.
fn simulation(name: &str, node: &str) -> Value {
    let mdrun = "cd /tmp && exec gmx mdrun -s /data/water/water.tpr -nsteps -1 -ntmpi 1 -ntomp 1 -pin off -v \
                 -stepout 20 2> /tmp/progress";
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": GROMACS, "command": ["bash", "-c", mdrun], "interruptionAfter": "10m",
            "resources": { "requests": { "cpu": format!("{MILLICORES}m"), "memory": "256Mi" } },
            "persistentVolumeClaims": [{ "claimName": "simulations", "mountPath": "/data" }],
            "nodeSelector": { "kubernetes.io/hostname": node }, "terminationGracePeriodSeconds": 5,
        },
    })
}

/// The step that a simulation has reached, and when.
async fn step(world: &World, pod: &str) -> Result<(u64, Instant)> {
    let read = "tr '\\r' '\\n' < /tmp/progress | grep -oE 'step [0-9]+' | tail -n 1";
    let text = exec(&world.api::<Pod>(), pod, "main", &["bash", "-c", read]).await?;
    let step = text.trim().strip_prefix("step ").and_then(|step| step.parse().ok());
    Ok((step.with_context(|| format!("{pod} says {text:?} about its progress"))?, Instant::now()))
}

/// Waits until no more of the simulations start; returns the pods of those that run.
async fn settled(world: &World) -> Result<Vec<Pod>> {
    let mut since = (usize::MAX, Instant::now());
    let limit = Instant::now() + Duration::from_secs(150);
    loop {
        let jobs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
        let phase = |job: &ScavengerJob| job.status.as_ref().and_then(|status| status.phase);
        let running = jobs.iter().filter(|job| phase(job) == Some(Phase::Running)).count();
        let waiting = jobs.iter().filter(|job| has_reason(job, WaitingReason::NoCapacity)).count();
        if running != since.0 {
            since = (running, Instant::now());
        }
        let is_full = running + waiting == SIMULATIONS && since.1.elapsed() > Duration::from_secs(40);
        if running == SIMULATIONS || is_full || Instant::now() > limit {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // GROMACS begins some seconds after its container.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let pods = world.api::<Pod>().list(&ListParams::default().labels(names::LABEL_JOB)).await?;
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    Ok(pods.into_iter().filter(runs).collect())
}

impl Bench {
    /// Reserves 90% of the node, and lets 20% be used.
    async fn reserve(&self) -> Result<()> {
        let world = self.world;
        prepare(world).await?;
        // What the cluster's own programs use is a part of these 20%.
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = machine()?;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let after = machine()?;
        let own = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
        let burnt = ((0.2 - own).max(0.05) * self.cores * 1000.0) as i64;
        let threads = "(while :; do :; done) & ".repeat(self.cores.ceil() as usize);
        let cpu = json!({ "cpu": format!("{burnt}m"), "memory": "32Mi" });
        world.create::<Pod>(script("burns", &cpu, &cpu, &format!("{threads}wait"))).await?;
        let left = (0.9 * self.cores * 1000.0) as i64 - requested_cpu(world, &self.node).await?;
        for number in 0..5 {
            let requests = json!({ "cpu": format!("{}m", (left / 5).max(1)), "memory": "16Mi" });
            let name = format!("sleeps-{number}");
            world.create::<Pod>(script(&name, &requests, &json!({}), "sleep 100000 & wait")).await?;
            world.pod_runs(&name).await?;
        }
        Ok(())
    }

    /// Lets simulations have what is left of the reserved node.
    async fn harvest(&self, accounting: Accounting) -> Result<Harvest> {
        let world = self.world;
        count(world, accounting).await?;
        for number in 0..SIMULATIONS {
            world.create::<ScavengerJob>(simulation(&format!("water-{number}"), &self.node)).await?;
        }
        let pods = settled(world).await?;
        let groups = pods.iter().map(PodGroup::of).collect::<Result<Vec<_>>>()?;
        let used = || groups.iter().map(PodGroup::processor_time).sum::<Result<Duration>>();
        let steps = || try_join_all(pods.iter().map(|pod| async { step(world, &pod.name_any()).await }));
        let (first, busy, time, began) = (steps().await?, machine()?, used()?, Instant::now());
        tokio::time::sleep(HARVEST).await;
        let (share, after) = ((used()? - time).as_secs_f64() / began.elapsed().as_secs_f64(), machine()?);
        let last = steps().await?;
        let speeds = first.iter().zip(&last).map(|(first, last)| {
            let steps = last.0.saturating_sub(first.0) as f64;
            steps * STEP * 86_400.0 / last.1.duration_since(first.1).as_secs_f64()
        });
        let share = share / self.cores;
        Ok(Harvest {
            running: pods.len(),
            share,
            others: (after.0 - busy.0) as f64 / (after.1 - busy.1) as f64 - share,
            ns_per_day: speeds.sum(),
        })
    }
}

fn print(table: &[(Way, Figures)], harvest: &[Option<Harvest>; 2]) {
    let cells = |cell: &dyn Fn(&Figures) -> String| {
        table.iter().map(|(_, figures)| cell(figures)).collect::<Vec<_>>().join(" | ")
    };
    let names: Vec<String> = table.iter().map(|(way, _)| way.name()).collect();
    println!("| measure | {} | aim |", names.join(" | "));
    println!("|---|{}---|", "---|".repeat(table.len()));
    let row = |what: &str, unit: &str, aim: &str, digits: usize, figure: &dyn Fn(&Figures) -> Option<f64>| {
        let base = figure(&table[0].1).filter(|base| *base > 0.0);
        let cells = cells(&|figures| {
            let value = figure(figures);
            let ratio = value.zip(base).map(|(value, base)| value / base);
            let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})"));
            format!("{}{ratio}", shown(value, digits, unit))
        });
        println!("| {what} | {cells} | {aim} |");
    };
    row("request that takes 2 ms of cpu, median", " ms", "", 2, &|figures| figures.latency(50));
    row("the same, 99th percentile", " ms", "at most 1.1 of alone", 2, &|figures| figures.latency(99));
    row(
        "burst on two threads that requests 0.2 cpu, thousand rounds",
        "",
        "at least 0.98 of alone",
        0,
        &|figures| Some(figures.burst()? / 1000.0),
    );
    row("creation to Running, median", " s", "at most 1.05 of alone", 2, &|figures| figures.start(50));
    row("the same, 95th percentile", " s", "at most 1.2 of alone", 2, &|figures| figures.start(95));
    println!(
        "| memory grown to the full request within 10 s; ordinary containers killed or evicted | {} | 0 harmed |",
        cells(&Figures::growth)
    );
    println!(
        "| processor time of the node that the ScavengerJob got beside nothing else | {} | with the agent 0.98 of without |",
        cells(&|figures| shown(mean(&figures.undisturbed), 1, "%"))
    );
    println!(
        "| the same, while ordinary pods were measured | {} | |",
        cells(&|figures| shown(mean(&figures.shares), 0, "%"))
    );
    println!();
    println!("In parentheses: of alone.\n");
    println!("| a node of which 90% are requested | `Requests` | `Usage` | aim |\n|---|---|---|---|");
    let [by_requests, by_use] = harvest;
    let of = |harvest: &Option<Harvest>, show: &dyn Fn(&Harvest) -> String| {
        harvest.as_ref().map_or_else(|| MISSING.to_owned(), show)
    };
    let got = |harvest: &Harvest| format!("{:.0}% ({} ran)", harvest.share * 100.0, harvest.running);
    let others = |harvest: &Harvest| format!("{:.0}%", harvest.others * 100.0);
    println!(
        "| processor time that {SIMULATIONS} simulations got | {} | {} | at least 60% with `Usage` |",
        of(by_requests, &got),
        of(by_use, &got)
    );
    // The sum of no speeds is -0.
    let speed = |harvest: &Harvest| format!("{:.1} ns/day", harvest.ns_per_day + 0.0);
    println!(
        "| GROMACS, all simulations together | {} | {} | |",
        of(by_requests, &speed),
        of(by_use, &speed)
    );
    println!(
        "| what other programs used meanwhile | {} | {} | |\n",
        of(by_requests, &others),
        of(by_use, &others)
    );
    for (way, figures) in table {
        let (starts, requests) = (figures.starts.len(), figures.latencies.len());
        println!("{way:?}: {starts} starts, {requests} requests, {} bursts", figures.bursts.len());
        if !figures.harmed.is_empty() {
            println!("{way:?}: killed or evicted: {}", figures.harmed.join(", "));
        }
    }
}

#[test]
#[ignore = "a measurement of 40 minutes: `cargo xtask bench --only usage`"]
fn ordinary_pods_beside_scavenger_jobs() {
    run_within(Duration::from_secs(5400), "bench-usage", |world| async move {
        let node = real_node(&Api::all(world.client.clone())).await?;
        let cores = quantity::parse_milli(&allocatable(world, &node, "cpu").await?.0)? as f64 / 1000.0;
        // By requests it must fit beside the ordinary pods of the measurement, the larger of which requests 0.2 cpu.
        let free = (cores * 1000.0) as i64 - requested_cpu(world, &node).await?;
        let millicores = (free - 350).min((cores * 600.0) as i64);
        let pool = json!({
            "accounting": "Usage", "startThreshold": 0.95, "headroomTarget": 0.96, "interruptThreshold": 0.99,
            // The measurement itself keeps the node busy. Nobody is to go because of it, and it is to be forgotten soon.
            "usage": {
                "window": "30s", "halfLife": "1m", "percentile": 50, "marginPercent": 0, "linger": "30m", "dryRun": true,
            },
        });
        patch_pool(world, &pool).await?;
        let rounds = numbers(world, "calibrates", &calibration()).await?;
        let rounds = *rounds.first().context("the calibration printed nothing")?;
        let bench = Bench { world, node, cores, millicores, rounds };
        println!("the ScavengerJob beside has {millicores}m of {cores} cores, and {HELD} MiB");
        let mut table: Vec<(Way, Figures)> = Way::ALL.map(|way| (way, Figures::default())).into();
        let (mut failures, began) = (Failures::default(), Instant::now());
        for round in 0..ROUNDS {
            for turn in 0..Way::ALL.len() {
                if began.elapsed() > ROUNDS_LIMIT {
                    failures
                        .note(&format_args!("round {round}"), Err::<(), _>(anyhow!("there is no time left")));
                    continue;
                }
                let (way, figures) = &mut table[(round + turn) % Way::ALL.len()];
                let measured = bench.measure(*way, figures, &mut failures).await;
                failures.note(&format_args!("round {round}, {way:?}"), measured);
                // Where the time goes.
                eprintln!("round {round}, {way:?}: after {:.0} s", began.elapsed().as_secs_f64());
            }
        }
        failures.note(&"the agent", node_agent::on_the_node(world, false).await);
        let mut harvest = [None, None];
        if failures.note(&"the reserved node", bench.reserve().await).is_some() {
            for (harvest, way) in harvest.iter_mut().zip([Accounting::Requests, Accounting::Usage]) {
                *harvest = failures.note(&format_args!("{way:?}: the harvest"), bench.harvest(way).await);
                failures.note(&"clearing up", delete_all(world).await);
            }
        }
        print(&table, &harvest);
        patch_pool(world, &json!({ "accounting": null, "usage": null })).await?;
        ensure!(failures.0.is_empty(), "{} parts failed:\n{}", failures.0.len(), failures.0.join("\n"));
        Ok(())
    });
}
