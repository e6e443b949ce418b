//! Three days, each of another cluster, in which much happens side by side: where a scenario shows one rule, a day shows rules
//! that meet. What is planned in them is a large part of what `cargo xtask trace` compares.

mod minimum_run;

use jiff::civil::time;
use scavenger_planner::{
    check,
    fixtures::{NAMESPACE, daily, key, node, pod, seconds, settings, sj},
    resources::{Resources, Share},
    values::{
        Access, Calendar, Filling, Key, Node, Observation, PodUsage, PreemptionMode, ScavengerJob, Settings,
        Usage, Window,
    },
};
use scavenger_simulator::{Cluster, Random, Stream, Workload};

/// Minutes of a day.
const DAY: i64 = 24 * 60;

/// The cluster of a day, and what has happened there so far.
struct Day {
    cluster: Cluster,
    random: Random,
    pool: Settings,
    nodes: Vec<Node>,
    submitted: usize,
    ordinary: usize,
    /// How much of each node's memory ordinary pods use, in percent.
    load: u64,
}

impl Day {
    fn begin(pool: Settings, seed: u64) -> Self {
        let plain = (0..5).map(|number| node(&format!("n{number}"), 16_000));
        let spare = (0..2).map(|number| node(&format!("s{number}"), 8000).labelled("zone", "spare"));
        let gpu = (0..2).map(|number| node(&format!("g{number}"), 16_000).having("gpu", 2).tainted("gpu"));
        let nodes: Vec<Node> = plain.chain(spare).chain(gpu).collect();
        let pool = Settings { tolerated_taints: vec!["gpu".into()], ..pool };
        let mut cluster = Cluster::new(pool.clone()).with_nodes(nodes.clone());
        (cluster.strict, cluster.thorough) = (false, false);
        Self { cluster, random: Random::new(seed), pool, nodes, submitted: 0, ordinary: 0, load: 30 }
    }

    /// True in one of so many cases.
    fn one_in(&mut self, cases: u64) -> bool {
        self.random.below(cases) == 0
    }

    fn below(&mut self, bound: u64) -> i64 {
        i64::try_from(self.random.below(bound)).expect("bounds should be small")
    }

    /// The day passes. `measure` is what is measured each minute.
    fn pass(mut self, measure: fn(&mut Self)) {
        for minute in 0..DAY {
            if self.one_in(2) {
                self.submit();
            }
            if self.one_in(5) {
                self.create_ordinary_pod();
            }
            if self.one_in(8) {
                self.misfortune();
            }
            if minute % 30 == 0 {
                self.heal();
                self.load = self.random.below(70);
                check::kept_up(&self.cluster.planner).expect("what is kept up should be right");
            }
            self.cluster.run_for(seconds(60));
            measure(&mut self);
        }
        let ended = self.cluster.scavenger_jobs().filter(|sj| sj.status.phase.is_finished()).count();
        let (started, all) = (self.cluster.starts.len(), self.submitted);
        assert!(started > all / 6 && ended > all / 20, "of {all} {started} were started, and {ended} ended");
    }

    fn submit(&mut self) {
        self.submitted += 1;
        let name = format!("job{}", self.submitted);
        let mut sj = sj(&name).asking(500 * (1 + self.below(12)));
        sj = sj.interruptible_after(seconds(600 * (1 + self.below(6))));
        match self.random.below(10) {
            0 => sj = sj.gang(2 + u32::from(self.one_in(2))),
            1 | 2 => sj = sj.asking_for("gpu", 1).tolerating("gpu"),
            3 => sj = sj.in_folder(&format!("folder{}", self.random.below(3))),
            4 => sj = self.with_claim(sj),
            5 => sj = sj.tolerating("gpu"),
            6 => sj = sj.only_on("zone", "spare"),
            7 => sj = sj.watched().that_can_be_asked(),
            _ => {}
        }
        if self.one_in(2) {
            sj = sj.saving();
        }
        let needs = seconds(60 + self.below(5400));
        let exit_code = i32::from(self.one_in(20));
        let stuck = self
            .one_in(40)
            .then(|| ("ErrImagePull".to_owned(), "failed to resolve image: x: not found".to_owned()));
        let cannot_start = self.one_in(40).then(|| "hook: driver mismatch".to_owned());
        let workload = Workload { needs, exit_code, stuck, cannot_start, ..Workload::default() };
        self.cluster.submit(sj, workload);
    }

    fn with_claim(&mut self, sj: ScavengerJob) -> ScavengerJob {
        let claim = format!("data{}", self.random.below(4));
        self.cluster.fresh_claims.insert(key(&claim), Access::OneNode);
        sj.mounting(&claim)
    }

    fn create_ordinary_pod(&mut self) {
        self.ordinary += 1;
        let pod = pod(&format!("web{}", self.ordinary), 500 * (1 + self.below(12)));
        let pod = if self.one_in(2) { pod.patient() } else { pod };
        let runs = seconds(600 * (1 + self.below(9)));
        self.cluster.create_pod(pod, runs);
    }

    fn some<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let index = self.random.below(all.len() as u64);
        all.get(usize::try_from(index).expect("an index should fit")).cloned()
    }

    fn misfortune(&mut self) {
        let pods: Vec<Key> = self.cluster.all_live_pods().iter().map(|pod| pod.key.clone()).collect();
        let jobs: Vec<Key> = self.cluster.all_jobs().map(|job| job.key.clone()).collect();
        let all: Vec<String> = self.cluster.scavenger_jobs().map(|sj| sj.key.name.to_string()).collect();
        let (pod, job, sj) = (self.some(&pods), self.some(&jobs), self.some(&all));
        let nodes = self.nodes.clone();
        let Some(node) = self.some(&nodes) else { return };
        let cluster = &mut self.cluster;
        match (self.random.below(19), pod, job, sj) {
            (0 | 1, Some(pod), ..) => cluster.preempt(&pod),
            (2, Some(pod), ..) => cluster.evict(&pod),
            (3, Some(pod), ..) => cluster.delete_pod(&pod),
            (4, Some(pod), ..) => cluster.end_pod(&pod, 255, "Unknown"),
            (5, Some(pod), ..) => cluster.end_pod(&pod, 137, "OOMKilled"),
            (6, _, Some(job), _) => cluster.delete_job_in_background(&job),
            (7, _, _, Some(sj)) => cluster.control(&sj, |controls| controls.suspend = true),
            (8, _, _, Some(sj)) => cluster.replace(&sj, |sj| sj.asking(1500)),
            (9, _, _, Some(sj)) => cluster.delete_sj(&sj),
            (10, ..) => cluster.lose_node(&node.name),
            (11, ..) => cluster.set_node(node.cordoned()),
            (12, ..) => cluster.set_node(node.pressed("MemoryPressure")),
            (13, ..) => cluster.set_node(node.tainted("maintenance")),
            (14, ..) => cluster.restart(true),
            (15, ..) => cluster.relist(Stream::Pods),
            (16, ..) => cluster.hold_watch(Stream::Nodes),
            (17, ..) => {
                let quota = Resources { cpu_milli: 20_000, ..Resources::default() };
                cluster.quotas.insert(NAMESPACE.into(), quota);
            }
            (..) => _ = cluster.broken_nodes.insert(node.name, "hook: no device".to_owned()),
        }
    }

    /// What went wrong is mended.
    fn heal(&mut self) {
        let cluster = &mut self.cluster;
        for stream in Stream::ALL {
            cluster.let_go(stream);
        }
        cluster.quotas.clear();
        cluster.broken_nodes.clear();
        for node in &self.nodes {
            if cluster.all_nodes().find(|there| there.name == node.name) != Some(node) {
                cluster.recover_node(&node.name);
                cluster.set_node(node.clone());
            }
        }
        let all: Vec<_> = cluster.scavenger_jobs().map(|sj| sj.key.name.clone()).collect();
        for sj in all {
            cluster.let_start(&sj);
            if cluster.stored_sj(&sj).controls.suspend {
                cluster.control(&sj, |controls| controls.suspend = false);
            }
        }
        cluster.set_pool(Ok(self.pool.clone()));
    }

    /// What nodes and pods use now: pods of ScavengerJobs use half of what they hold.
    fn measure(&mut self) {
        let (load, time) = (self.load, self.cluster.now);
        let mut pods = Vec::new();
        let mut nodes: Vec<Usage> = Vec::new();
        for node in &self.nodes {
            let used = |whole: i64, percent: u64| whole / 100 * i64::try_from(percent).expect("a percentage");
            let (cpu, memory) = (node.allocatable.cpu_milli, node.allocatable.memory_bytes);
            let percent = load + self.random.below(25);
            let (cpu_milli, memory_bytes) = (used(cpu, percent / 2), used(memory, percent));
            nodes.push(Usage { node: node.name.clone(), cpu_milli, memory_bytes, time });
        }
        for pod in self.cluster.all_live_pods() {
            let Some(node) = nodes.iter_mut().find(|node| Some(&node.node) == pod.node.as_ref()) else {
                continue;
            };
            let (cpu_milli, memory_bytes) = (pod.holds().cpu_milli / 2, pod.holds().memory_bytes / 2);
            node.cpu_milli += cpu_milli;
            node.memory_bytes += memory_bytes;
            pods.push(PodUsage { pod: pod.key.clone(), time, cpu_milli, memory_bytes });
        }
        self.cluster.planner.observe(Observation::Usage(Some(nodes)), time);
        self.cluster.planner.observe(Observation::PodUsage(pods), time);
        self.cluster.turn();
    }
}

#[test]
fn a_day_by_requests() {
    let pool = Settings { reserve_after: seconds(900), ..settings() };
    Day::begin(pool, 1).pass(Day::measure);
}

#[test]
fn a_day_by_use() {
    Day::begin(settings().by_use(), 2).pass(Day::measure);
}

/// Nobody measures.
#[test]
fn a_day_of_groups_windows_and_pods_for_which_the_operator_makes_room() {
    let filling = |fraction: f64| {
        let settings = settings().filled_to(fraction);
        Filling { start_thresholds: settings.start_thresholds, headroom: settings.headroom }
    };
    let window = Window {
        name: "night".into(),
        schedule: daily(time(20, 0, 0, 0), time(6, 0, 0, 0)),
        filling: filling(0.95),
    };
    let calendar = Calendar::new(vec![window], filling(0.6));
    let mut pool = Settings {
        calendar: Some(calendar.into()),
        preemption_mode: PreemptionMode::Operator,
        interruption_backoff: seconds(60),
        ..settings().supervising().with_group("spare", ("zone", "spare"), 0.9)
    };
    pool.start_thresholds.overrides.insert("gpu".into(), Share::from_fraction(1.0));
    Day::begin(pool, 3).pass(|day| {
        if day.one_in(10) {
            day.cluster.relist(Stream::ScavengerJobs);
        }
    });
}
