//! What the planner costs as the cluster grows: a rebuild from nothing, one event, and memory. Aims with 100,000
//! ScavengerJobs, 10,000 nodes and 100,000 ordinary pods: 2 s, 1 ms at the 99th percentile, 300 MB.
//!
//! The tables give processor time, which is the planner's own wherever it runs; what criterion says below them is time
//! on the wall. The world is the unpleasant one: 2,000 different demands wait, 1,000 ordinary pods are pending with a request each
//! of their own, every node has labels that no other has, and ScavengerJobs fill the pool up to the threshold. In mode
//! Operator 100 ordinary pods wait that are larger than any node.
//!
//! The last table compares this world with others: those in which each pod is a case of its own, and one that is counted by
//! use. It alone is printed with `-- varieties`, one line of it with `-- varieties ByUse`.

#![allow(missing_docs, reason = "the macro makes an undocumented function")]

mod world;

use std::{
    collections::{BTreeMap, VecDeque},
    hint::black_box,
    process::Command,
    sync::Arc,
    time::Duration,
};

use criterion::{Criterion, criterion_group};
use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use scavenger_planner::{
    Planner,
    action::{Action, ActionResult, Answer, Task},
    fixtures::{at, millis, seconds},
    resources::Resources,
    values::{
        Job, Key, Name, Observation, Phase, Pod, PodUsage, PreemptionMode, ScavengerJob, Settings, Usage,
    },
};
use world::{Variety, World, bound, hopeless, ordinary};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// Pending ordinary pods that nothing helps, where the operator makes room for pods.
const HOPELESS: usize = 100;

/// Nodes of a pool are a tenth of this where varieties are compared.
const SIZE_OF_VARIETIES: usize = 100_000;

/// Enough for a 99th percentile of some thousand events.
const ROUNDS_OF_VARIETIES: usize = 200;

/// Rounds of events between two samples of all nodes: some hundred events, as in 15 s of a large cluster.
const ROUNDS_OF_SAMPLES: usize = 20;

/// Argument with which the bench calls itself to be a process that does nothing but rebuild.
const REBUILD: &str = "rebuild-once";

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread should have a clock").into()
}

fn rebuild(world: &World) -> (Planner, usize) {
    let mut planner = Planner::default();
    for observation in world.observations() {
        planner.observe(observation, at(0));
    }
    let actions = planner.plan(at(0)).actions.len();
    (planner, actions)
}

/// A line of `/proc/self/status`, in MB.
fn resident(field: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<usize>().ok().map(|kb| kb / 1000)
}

fn rebuild_once(variety: Variety, size: usize) {
    let world = World::with(variety, size);
    // Objects are made one after the other, as watches deliver them; making them is not the planner's work.
    let mut planner = Planner::default();
    let mut spent = Duration::ZERO;
    let mut observations = world.observations();
    loop {
        // Asking for the time costs as much as observing.
        let some: Vec<Observation> = observations.by_ref().take(1000).collect();
        if some.is_empty() {
            break;
        }
        let start = processor_time();
        for observation in some {
            planner.observe(observation, at(0));
        }
        spent += processor_time() - start;
    }
    let start = processor_time();
    let plan = planner.plan(at(0));
    let plan_time = processor_time() - start;
    println!(
        "{:>8} {:>6} {:>12.1} {:>10.1} {:>10.1} {:>9} {:>10} {:>10}",
        world.scavenger_jobs(),
        world.nodes,
        spent.as_secs_f64() * 1e3,
        plan_time.as_secs_f64() * 1e3,
        (spent + plan_time).as_secs_f64() * 1e3,
        plan.actions.len(),
        resident("VmRSS").map_or("?".to_owned(), |mb| mb.to_string()),
        resident("VmHWM").map_or("?".to_owned(), |mb| mb.to_string()),
    );
}

/// The cluster around a planner: answers actions and makes pods, and measures what each event costs.
struct Cluster {
    planner: Planner,
    now: Timestamp,
    version: u64,
    scavenger_jobs: BTreeMap<Key, ScavengerJob>,
    running: VecDeque<Pod>,
    spent: BTreeMap<&'static str, Vec<Duration>>,
}

impl Cluster {
    fn new(world: &World) -> Self {
        let mut scavenger_jobs = BTreeMap::new();
        let mut running = VecDeque::new();
        for observation in world.observations() {
            match observation {
                Observation::ScavengerJob(sj) => _ = scavenger_jobs.insert(sj.key.clone(), *sj),
                Observation::Pod(pod) if pod.owner.is_some() => running.push_back(*pod),
                _ => {}
            }
        }
        let (planner, _) = rebuild(world);
        let mut cluster =
            Self { planner, now: at(0), version: 1_000_000, scavenger_jobs, running, spent: BTreeMap::new() };
        if world.variety() == Variety::ByUse {
            let (nodes, pods) = cluster.samples(world);
            cluster.planner.observe(Observation::Usage(Some(nodes)), at(0));
            cluster.planner.observe(Observation::PodUsage(pods), at(0));
        }
        // What a rebuild leaves to be written.
        cluster.settle();
        cluster.spent.clear();
        cluster
    }

    /// In this preemption mode; where the operator frees capacity for pods, some wait that nothing helps.
    fn in_mode(world: &World, mode: PreemptionMode) -> Self {
        let mut cluster = Self::new(world);
        if mode == PreemptionMode::Operator {
            let pool = Settings { preemption_mode: mode, ..world.pool() };
            cluster.planner.observe(Observation::Pool(Box::new(Ok(pool))), cluster.now);
            for number in 0..HOPELESS {
                cluster.planner.observe(Observation::Pod(Box::new(hopeless(number))), cluster.now);
            }
            cluster.settle();
            cluster.spent.clear();
        }
        cluster
    }

    fn settle(&mut self) {
        let plan = self.planner.plan(self.now);
        self.answer(plan.actions.into());
    }

    fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// One event, measured from the observation to the end of the plan; what follows from it are events of their own.
    fn event(&mut self, kind: &'static str, observation: Option<Observation>) {
        let actions = self.measure(kind, observation);
        self.answer(actions.into());
    }

    fn measure(&mut self, kind: &'static str, observation: Option<Observation>) -> Vec<Action> {
        self.now += millis(10);
        let start = processor_time();
        if let Some(observation) = observation {
            self.planner.observe(observation, self.now);
        }
        let plan = self.planner.plan(self.now);
        self.spent.entry(kind).or_default().push(processor_time() - start);
        black_box(plan).actions
    }

    fn answer(&mut self, mut actions: VecDeque<Action>) {
        while let Some(action) = actions.pop_front() {
            let (kind, answer, job) = self.carry_out(&action);
            let result = ActionResult {
                sj: action.sj.clone(),
                uid: action.uid.clone(),
                time: self.now,
                answer: Ok(answer),
            };
            actions.extend(self.measure(kind, Some(Observation::Done(result))));
            let Some(job) = job else { continue };
            let demand = self.scavenger_jobs[&action.sj].spec.as_ref().expect("valid").demand.clone();
            let nodes = self.planner.capacity().nodes_for(&demand, &Default::default()).unwrap_or_default();
            for (index, node) in nodes.into_iter().enumerate() {
                let mut pod = bound(&job, index, &demand, &node);
                pod.resource_version = self.version();
                self.running.push_back(pod.clone());
                let seen = Observation::Pod(Box::new(pod));
                actions.extend(self.measure("pod of an SJ bound and running", Some(seen)));
            }
        }
    }

    fn carry_out(&mut self, action: &Action) -> (&'static str, Answer, Option<Job>) {
        let version = self.version();
        let sj = self.scavenger_jobs.get_mut(&action.sj).expect("the job should be there");
        match &action.task {
            Task::Prepare { .. } => {
                sj.has_finalizer = true;
                sj.resource_version = version;
                let sj = Box::new(sj.clone());
                (
                    "answer: prepared",
                    Answer::Prepared {
                        sj,
                        pods_left: 0,
                        folder_pod: None,
                        missing: Vec::new(),
                        claims: Vec::new(),
                    },
                    None,
                )
            }
            Task::WriteStatus(write) => {
                sj.status = write.status.clone();
                sj.resource_version = version;
                ("answer: status written", Answer::ScavengerJob(Box::new(sj.clone())), None)
            }
            Task::CreateJob { attempt, .. } => {
                let job = world::job(sj, *attempt, version);
                ("answer: Job created", Answer::Job(job.clone().into()), Some(job))
            }
            Task::LookForJob { attempt } => ("answer: no Job", Answer::NoJob { attempt: *attempt }, None),
            Task::ReadJob { uid, .. } => ("answer: Job is gone", Answer::JobGone { uid: uid.clone() }, None),
            Task::ListPods { .. } => {
                let answer =
                    Answer::Pods { pods: Vec::new(), resource_version: version, create_failure: None };
                ("answer: pods listed", answer, None)
            }
            Task::DeleteJob { uid, .. } => {
                ("answer: Job deleted", Answer::Deleted { uid: uid.clone() }, None)
            }
            Task::DeleteAgain { pods } => {
                let pods = pods.iter().map(|(_, uid, _)| uid.clone()).collect();
                ("answer: pods deleted again", Answer::DeletedAgain { pods }, None)
            }
            Task::Interrupt { pods } => {
                let pods = pods.iter().map(|(_, uid)| uid.clone()).collect();
                ("answer: pods evicted", Answer::Interrupted { pods }, None)
            }
            Task::ReadPodEvents { .. } => ("answer: events read", Answer::PodEvents(Vec::new()), None),
            Task::DeleteScavengerJob { .. } => ("answer: SJ deleted", Answer::ScavengerJobDeleted, None),
            Task::RemoveFinalizer { .. } => {
                ("answer: finalizer off", Answer::Released { pods_left: 0 }, None)
            }
        }
    }

    /// The workload of the SJ that has run longest succeeds.
    fn complete_one(&mut self) {
        let Some(mut pod) = self.running.pop_front() else { return };
        let Some((owner, attempt)) = pod.owner.clone() else { return };
        pod.resource_version = self.version();
        let pod = pod.ended(0, self.now);
        self.event("pod of an SJ ended", Some(Observation::Pod(Box::new(pod.clone()))));
        let sj = self.scavenger_jobs.values().find(|sj| sj.uid == owner).cloned();
        if let Some(sj) = sj {
            let mut job = world::job(&sj, attempt, self.version());
            job.complete = true;
            self.event("Job complete", Some(Observation::Job(job)));
        }
        self.event("pod of an SJ gone", Some(Observation::PodGone(pod.key)));
    }

    /// What is measured of all nodes and of the pods of ScavengerJobs.
    fn samples(&self, world: &World) -> (Vec<Usage>, Vec<PodUsage>) {
        let mut held: BTreeMap<&Name, Resources> = BTreeMap::new();
        let mut pods = Vec::new();
        for pod in &self.running {
            let Some(node) = &pod.node else { continue };
            held.entry(node).or_default().add(&pod.requests);
            let (cpu_milli, memory_bytes) = (pod.requests.cpu_milli, pod.requests.memory_bytes);
            pods.push(PodUsage { pod: pod.key.clone(), time: self.now, cpu_milli, memory_bytes });
        }
        (world.samples(&held, self.now), pods)
    }

    fn round(&mut self, world: &World, number: usize) {
        let mut node = world.node(number * 7 % world.nodes);
        self.event("node heartbeat", Some(Observation::Node(node.clone())));
        node.usable = false;
        self.event("node not ready", Some(Observation::Node(node.clone())));
        node.usable = true;
        self.event("node ready", Some(Observation::Node(node.clone())));
        node.labels.insert("example.org/round".into(), number.to_string().into());
        self.event("node label", Some(Observation::Node(node.clone())));
        node.labels.remove("example.org/round");
        self.event("node label", Some(Observation::Node(node.clone())));
        let mut pod = ordinary(1_000_000 + number, 700 + (number as i64 % 900), None);
        pod.resource_version = self.version();
        self.event("ordinary pod created", Some(Observation::Pod(Box::new(pod.clone()))));
        pod.node = Some(node.name.clone());
        pod.resource_version = self.version();
        self.event("ordinary pod bound", Some(Observation::Pod(Box::new(pod.clone()))));
        self.event("ordinary pod gone", Some(Observation::PodGone(pod.key)));
        if world.variety() == Variety::Rollout {
            let mut pod = world.of_daemon_set(number);
            pod.node = Some(world.node(number).name);
            pod.resource_version = self.version();
            self.event("pod of a DaemonSet bound", Some(Observation::Pod(Box::new(pod))));
        }
        if world.variety() == Variety::ByUse && number.is_multiple_of(ROUNDS_OF_SAMPLES) {
            self.now += seconds(10);
            let (nodes, pods) = self.samples(world);
            self.event("samples of nodes", Some(Observation::Usage(Some(nodes))));
            self.event("samples of pods", Some(Observation::PodUsage(pods)));
        }
        for other in [false, true] {
            let mut sj = world.waiting(10_000_000 + 2 * number + usize::from(other));
            sj.status = Default::default();
            if other && let Ok(spec) = &mut sj.spec {
                Arc::make_mut(&mut spec.demand).per_pod.cpu_milli += number as i64 * 1_000 + 13;
            }
            sj.resource_version = self.version();
            self.scavenger_jobs.insert(sj.key.clone(), sj.clone());
            let kind = if other { "SJ created, demand of its own" } else { "SJ created" };
            self.event(kind, Some(Observation::ScavengerJob(Box::new(sj.clone()))));
            self.event("SJ gone", Some(Observation::ScavengerJobGone(sj.key)));
        }
        self.complete_one();
        // Once all have run to their end only the removal of what is finished would be due, in a week. Where nodes are
        // measured, the next sample comes before most timers.
        let within = if world.variety() == Variety::ByUse { 15 } else { 3600 };
        let soon = |time: &Timestamp| time.duration_since(self.now) < seconds(within);
        if let Some(time) = self.planner.plan(self.now).wake_at.filter(soon) {
            self.now = self.now.max(time);
            self.event("timer due", None);
        }
    }
}

fn percentile(times: &[Duration], percent: usize) -> f64 {
    times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e6
}

fn events(size: usize, rounds: usize, mode: PreemptionMode) {
    let world = World::of(size);
    let mut cluster = Cluster::in_mode(&world, mode);
    let starting = cluster.scavenger_jobs.values().filter(|sj| sj.status.phase == Phase::Running).count();
    for number in 0..rounds {
        cluster.round(&world, number);
    }
    println!(
        "\n{size} SJs ({starting} run), {} nodes, mode {mode:?}: microseconds of processor time of one event, observed and planned",
        world.nodes
    );
    println!("{:<32} {:>7} {:>9} {:>9} {:>9}", "event", "count", "median", "99%", "largest");
    let mut all: Vec<Duration> = cluster.spent.values().flatten().copied().collect();
    cluster.spent.insert("(any)", std::mem::take(&mut all));
    for (kind, mut times) in cluster.spent {
        times.sort_unstable();
        println!(
            "{kind:<32} {:>7} {:>9.1} {:>9.1} {:>9.1}",
            times.len(),
            percentile(&times, 50),
            percentile(&times, 99),
            percentile(&times, 100)
        );
    }
}

/// The line about a rebuild, from a process of its own, so that memory is the planner's alone.
fn rebuild_apart(variety: Variety, size: usize) -> String {
    let myself = std::env::current_exe().expect("the bench should know its own path");
    let output = Command::new(myself).args([REBUILD, &format!("{variety:?}"), &size.to_string()]).output();
    let output = output.expect("the bench should be able to call itself");
    assert!(output.status.success(), "the rebuild of {variety:?}, {size} should end well");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn tables(rounds: usize) {
    println!("rebuild from nothing: milliseconds of processor time, and MB");
    println!(
        "{:>8} {:>6} {:>12} {:>10} {:>10} {:>9} {:>10} {:>10}",
        "SJs", "nodes", "observe", "plan", "both", "actions", "resident", "peak"
    );
    for size in SIZES {
        println!("{}", rebuild_apart(Variety::Typical, size));
    }
    for size in SIZES {
        events(size, rounds, PreemptionMode::Scheduler);
    }
    for size in SIZES {
        events(size, rounds, PreemptionMode::Operator);
    }
    println!();
}

/// What each variety costs, side by side; or one of them.
fn varieties(rounds: usize, only: Option<&str>) {
    println!(
        "\nworlds in which each pod is a case of its own, and others: a rebuild as above, and microseconds of one event"
    );
    println!(
        "{:<10} {:>8} {:>6} {:>12} {:>10} {:>10} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9}",
        "world",
        "SJs",
        "nodes",
        "observe",
        "plan",
        "both",
        "actions",
        "resident",
        "peak",
        "mode",
        "median",
        "99%",
        "largest"
    );
    for variety in
        Variety::ALL.into_iter().filter(|variety| only.is_none_or(|only| format!("{variety:?}") == only))
    {
        let rebuild = rebuild_apart(variety, SIZE_OF_VARIETIES);
        let world = World::with(variety, SIZE_OF_VARIETIES);
        for mode in [PreemptionMode::Scheduler, PreemptionMode::Operator] {
            let mut cluster = Cluster::in_mode(&world, mode);
            for number in 0..rounds {
                cluster.round(&world, number);
            }
            let mut times: Vec<Duration> = cluster.spent.into_values().flatten().collect();
            times.sort_unstable();
            println!(
                "{:<10} {rebuild} {:>10} {:>9.1} {:>9.1} {:>9.1}",
                format!("{variety:?}"),
                format!("{mode:?}"),
                percentile(&times, 50),
                percentile(&times, 99),
                percentile(&times, 100)
            );
        }
    }
}

fn growth(criterion: &mut Criterion) {
    for size in SIZES {
        let world = World::of(size);
        let mut group = criterion.benchmark_group(format!("{size} SJs"));
        group.sample_size(10);
        group.bench_function("rebuild", |bencher| bencher.iter(|| black_box(rebuild(&world)).1));
        let mut cluster = Cluster::new(&world);
        let node = world.node(0);
        let mut number = 2_000_000;
        group.bench_function("ordinary pod bound", |bencher| {
            bencher.iter(|| {
                number += 1;
                let pod = ordinary(number, 100, Some(&node.name));
                cluster.event("pod", Some(Observation::Pod(Box::new(pod))));
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    targets = growth
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, variety, size] = arguments.as_slice()
        && first == REBUILD
    {
        let variety = Variety::ALL.into_iter().find(|one| format!("{one:?}") == *variety);
        let size = size.parse().expect("a size should be a number");
        return rebuild_once(variety.expect("a variety should be one of those that there are"), size);
    }
    // `cargo test --benches` only wants to know that it runs.
    if arguments.iter().any(|argument| argument == "--test") {
        return events(SIZES[0], 3, PreemptionMode::Operator);
    }
    if let Some(index) = arguments.iter().position(|argument| argument == "varieties") {
        let only = arguments.get(index + 1).filter(|argument| !argument.starts_with('-'));
        return varieties(ROUNDS_OF_VARIETIES, only.map(String::as_str));
    }
    tables(500);
    varieties(ROUNDS_OF_VARIETIES, None);
    if arguments.iter().any(|argument| argument == "tables") {
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
