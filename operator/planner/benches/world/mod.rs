//! Objects as watches deliver them: each with texts of its own, as they come out of a decoder.

use std::collections::BTreeMap;

use jiff::Timestamp;
use scavenger_planner::{
    fixtures::{at, millis, pod, seconds, settings},
    resources::{Resources, Share},
    values::{
        Admitted, Attempt, Demand, Job, Key, Name, Node, NodeTerm, Observation, Outcome, Phase, Placement,
        Pod, Reason, ScavengerJob, ScavengerJobSpec, ScavengerJobStatus, Settings, SupervisionSpec, Usage,
        Waiting, WaitingReason,
    },
};

/// Different demands of waiting SJs.
const DEMANDS: usize = 2_000;
const NAMESPACES: usize = 50;
/// What ordinary pods use of each node's processors.
const ORDINARY_PERMILLE: i64 = 340;

/// How much the pods differ from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variety {
    /// 2,000 different demands.
    Typical,
    /// As many waiting SJs as the world has SJs otherwise, each with a memory request of its own.
    OwnMemory,
    /// Each waiting SJ may go to one node only, as with a local volume: ten of them for each node.
    OwnNode,
    /// Besides what is typical, a pending pod of a DaemonSet for each node.
    Rollout,
    /// More is used than the headroom allows, and thousands that were told to go are still there.
    Overfull,
    /// Every node is counted by what ordinary pods use, and all are measured every 15 s.
    ByUse,
}

impl Variety {
    pub const ALL: [Self; 6] =
        [Self::Typical, Self::OwnMemory, Self::OwnNode, Self::Rollout, Self::Overfull, Self::ByUse];
}

/// A cluster in which so many SJs are, a fifth of them running.
pub struct World {
    variety: Variety,
    size: usize,
    pub nodes: usize,
}

fn amounts(cpu_milli: i64, memory_mib: i64) -> Resources {
    Resources { cpu_milli, memory_bytes: memory_mib << 20, pods: 1, ..Resources::default() }
}

fn key(number: usize, kind: &str) -> Key {
    Key::new(format!("group-{:03}", number % NAMESPACES), format!("{kind}-{number:07}"))
}

/// A UID as long as real ones.
fn uid(number: usize) -> Name {
    format!("{number:08x}-0000-4000-8000-{number:012x}").into()
}

pub fn ordinary(number: usize, cpu_milli: i64, node: Option<&Name>) -> Pod {
    let mut pod = pod("", 0);
    pod.key = key(number, "service");
    pod.uid = uid(50_000_000 + number);
    pod.requests = amounts(cpu_milli, cpu_milli * 2);
    pod.node = node.map(|node| Name::from(&**node));
    if pod.node.is_some() { pod.running() } else { pod }
}

/// An ordinary pod of its own size that waits for the operator to make room, and is larger than any node.
pub fn hopeless(number: usize) -> Pod {
    let mut pod = ordinary(6_000_000 + number, 65_000 + number as i64, None).patient();
    pod.unschedulable = Some("0/1 nodes are available: 1 Insufficient cpu.".to_owned());
    pod
}

pub fn job(sj: &ScavengerJob, attempt: u32, version: u64) -> Job {
    Job {
        key: Key::new(&*sj.key.namespace, format!("{}-{attempt}", sj.key.name)),
        uid: format!("job-{attempt}-{}", sj.uid).into(),
        resource_version: version,
        creation_time: sj.creation_time,
        owner: Name::from(&*sj.uid),
        attempt,
        deleting: false,
        complete: false,
        failed: None,
        over_since: None,
    }
}

/// A pod of an attempt, running on a node.
pub fn bound(job: &Job, index: usize, demand: &Demand, node: &Name) -> Pod {
    let mut pod = pod("", 0).of(&job.owner, job.attempt);
    pod.key = Key::new(&*job.key.namespace, format!("{}-{index}-abcde", job.key.name));
    pod.uid = format!("pod-{index}-{}", job.uid).into();
    pod.requests = demand.per_pod.clone();
    pod.placement = demand.placement.clone();
    pod.node = Some(Name::from(&**node));
    pod.running()
}

impl World {
    /// Nodes and ordinary pods grow with the number of SJs.
    pub fn of(size: usize) -> Self {
        Self::with(Variety::Typical, size)
    }

    pub fn with(variety: Variety, size: usize) -> Self {
        Self { variety, size, nodes: size / 10 }
    }

    pub fn variety(&self) -> Variety {
        self.variety
    }

    /// How many SJs there are.
    pub fn scavenger_jobs(&self) -> usize {
        // So that as many wait as the size says, beside those that run or have finished.
        if self.variety == Variety::OwnMemory { self.size * 13 / 10 } else { self.size }
    }

    /// The pod of a DaemonSet for one node, before kube-scheduler bound it.
    pub fn of_daemon_set(&self, number: usize) -> Pod {
        let mut pod = ordinary(7_000_000 + number, 100, None);
        pod.placement.affinity = vec![NodeTerm::nodes(vec![Self::node_name(number).into()])];
        pod
    }

    fn node_name(number: usize) -> String {
        format!("node-{number:05}.example.org")
    }

    pub fn node(&self, number: usize) -> Node {
        let cpu = [16, 32, 32, 64][number % 4];
        let mut node = scavenger_planner::fixtures::node(&Self::node_name(number), 1000)
            .labelled("kubernetes.io/hostname", &Self::node_name(number))
            .labelled("kubernetes.io/arch", "amd64")
            .labelled("kubernetes.io/os", "linux")
            .labelled("node.kubernetes.io/instance-type", ["m", "l", "l-gpu", "xl"][number % 4])
            .labelled("topology.kubernetes.io/zone", ["a", "b", "c"][number % 3]);
        node.allocatable = Resources { pods: 110, ..amounts(cpu * 1000, cpu * 4096) };
        // Every node is a little different, as real ones are.
        node.allocatable.memory_bytes -= (number as i64) << 12;
        if number % 4 == 2 { node.having("nvidia.com/gpu", 4) } else { node }
    }

    fn demand(&self, number: usize) -> Demand {
        match self.variety {
            Variety::Typical | Variety::Rollout | Variety::Overfull | Variety::ByUse => {
                Self::typical_demand(number)
            }
            Variety::OwnMemory => {
                let mut demand = Self::typical_demand(number);
                demand.per_pod.memory_bytes += (number as i64) << 12;
                demand
            }
            Variety::OwnNode => {
                let mut demand = Self::typical_demand(number);
                demand.per_pod.other.clear();
                demand.pod_count = 1;
                let node = Self::node_name(number % self.nodes);
                demand.placement.node_selector =
                    [("kubernetes.io/hostname".into(), node.into())].into_iter().collect();
                demand
            }
        }
    }

    fn typical_demand(number: usize) -> Demand {
        let number = number % DEMANDS;
        let mut per_pod = amounts(500 + 5 * number as i64, 1024 + number as i64);
        let mut placement = Placement::default();
        if number % 50 == 7 {
            per_pod.other.insert("nvidia.com/gpu".into(), 1);
        }
        if number % 10 == 3 {
            placement.node_selector.insert("topology.kubernetes.io/zone".into(), "a".into());
        }
        Demand { per_pod, pod_count: if number % 20 == 9 { 4 } else { 1 }, placement }
    }

    fn sj(&self, number: usize) -> ScavengerJob {
        let mut sj = scavenger_planner::fixtures::sj("");
        sj.key = key(number, "simulation");
        sj.uid = uid(number);
        sj.has_finalizer = true;
        // Many are created in the same second.
        sj.creation_time = at(-1_000_000 + number as i64 / 20);
        sj.spec = Ok(ScavengerJobSpec {
            demand: self.demand(number).into(),
            runtime: None,
            interruption_after: seconds(600),
            grace_period: seconds(30),
            checkpoint_interval: None,
            saves_on_sigterm: number.is_multiple_of(3),
            restart: seconds(60),
            claims: Vec::new(),
            secrets: Vec::new(),
            config_maps: Vec::new(),
            container_hash: 0,
            image_hash: 0,
            supervision: SupervisionSpec::default(),
        });
        sj.status =
            ScavengerJobStatus { written: true, observed_generation: 1, ..ScavengerJobStatus::default() };
        sj
    }

    fn attempt(&self, number: usize, sj: &ScavengerJob) -> Attempt {
        Attempt {
            job_uid: Some(format!("job-1-{}", sj.uid).into()),
            start_time: Some(at(-900) + millis(number as i64 * 7_919 % 800_000)),
            ..Attempt::first(self.demand(number).into(), at(-900))
        }
    }

    /// One that waits and was told why.
    pub fn waiting(&self, number: usize) -> ScavengerJob {
        let mut sj = self.sj(number);
        let message = "queued behind other ScavengerJobs that request the same resources".to_owned();
        sj.status.message.clone_from(&message);
        let waiting = Waiting { reason: WaitingReason::BehindInQueue, message };
        sj.status.admitted = Some(Admitted { waiting: Some(waiting), since: at(-900) });
        if number.is_multiple_of(10) {
            let mut attempt = self.attempt(number, &sj);
            attempt.end_time = Some(at(-500));
            attempt.outcome = Some(Outcome::Interrupted);
            attempt.reason = Some(Reason::PreemptionByScheduler);
            attempt.message = Some("Preempted in order to admit a pod of higher priority".to_owned());
            sj.status.phase = Phase::Interrupted;
            sj.status.interrupted_count = 1 + number as u32 / 10 % 4;
            sj.status.counted_interruptions = sj.status.interrupted_count;
            sj.status.start_times = vec![at(-900)];
            sj.status.interruption_times = vec![at(-500)];
            sj.status.attempt = Some(Box::new(attempt));
        }
        sj
    }

    fn running(&self, number: usize) -> ScavengerJob {
        let mut sj = self.sj(number);
        sj.status.phase = Phase::Running;
        sj.status.message = "attempt 1 is running".to_owned();
        sj.status.admitted = Some(Admitted { waiting: None, since: at(-900) });
        let attempt = self.attempt(number, &sj);
        sj.status.start_times = attempt.start_time.into_iter().collect();
        sj.status.attempt = Some(Box::new(attempt));
        sj
    }

    fn finished(&self, number: usize) -> ScavengerJob {
        let mut sj = self.running(number);
        sj.status.phase = Phase::Completed;
        sj.status.message = "all pods succeeded".to_owned();
        sj.status.finish_time = Some(at(-100));
        sj.status.admitted = None;
        if let Some(attempt) = &mut sj.status.attempt {
            attempt.end_time = Some(at(-100));
            attempt.outcome = Some(Outcome::Completed);
            attempt.reason = Some(Reason::Completed);
            attempt.message = Some("all pods succeeded".to_owned());
        }
        sj
    }

    /// The settings of the pool.
    pub fn pool(&self) -> Settings {
        let mut pool = settings().starting_at_once(50);
        if self.variety == Variety::Overfull {
            // About 70% are used.
            pool = pool.filled_to(0.6);
            pool.headroom.interrupt_threshold = Some(Share::from_fraction(0.65));
            pool.headroom.target = Share::from_fraction(0.6);
        }
        if self.variety == Variety::ByUse {
            pool = pool.by_use();
        }
        pool
    }

    /// What metrics.k8s.io answers about every node where pods of ScavengerJobs use what they hold: ordinary pods use a tenth
    /// less than they request, which the margin adds again. So there is as little free as by requests.
    pub fn samples(&self, held: &BTreeMap<&Name, Resources>, time: Timestamp) -> Vec<Usage> {
        let sample = |number: usize| {
            let name = Name::from(Self::node_name(number));
            let ordinary = Self::ordinary_milli(number) * 10;
            let held = held.get(&name).cloned().unwrap_or_default();
            Usage {
                cpu_milli: ordinary * 9 / 10 + held.cpu_milli,
                memory_bytes: ((ordinary * 2) << 20) * 9 / 10 + held.memory_bytes,
                node: name,
                time,
            }
        };
        (0..self.nodes).map(sample).collect()
    }

    /// What each of the ten ordinary pods of a node requests, in millicores.
    fn ordinary_milli(node: usize) -> i64 {
        [16, 32, 32, 64][node % 4] * ORDINARY_PERMILLE / 10
    }

    /// Everything there is, in the order in which watches deliver their first lists.
    pub fn observations(&self) -> impl Iterator<Item = Observation> + '_ {
        let name = |number: usize| Name::from(Self::node_name(number));
        let pool = std::iter::once(Observation::Pool(Box::new(Ok(self.pool()))));
        let nodes = (0..self.nodes).map(|number| Observation::Node(self.node(number)));
        // Ten on each node, with a third of the cluster's processors; ScavengerJobs fill it up to about 70%.
        let pods = (0..self.size).map(move |number| {
            let node = number % self.nodes;
            Observation::Pod(Box::new(ordinary(number, Self::ordinary_milli(node), Some(&name(node)))))
        });
        let pending = (0..self.size / 100).map(move |number| {
            Observation::Pod(Box::new(ordinary(5_000_000 + number, 100 + number as i64, None)))
        });
        let in_rollout = if self.variety == Variety::Rollout { self.nodes } else { 0 };
        let rollout = (0..in_rollout).map(|number| Observation::Pod(Box::new(self.of_daemon_set(number))));
        let scavenger_jobs = (0..self.scavenger_jobs()).flat_map(move |number| {
            // Neighbours differ, and every demand is found in every state.
            let sj = match (number + number / 10 + number / DEMANDS) % 10 {
                _ if number >= self.size => self.waiting(number),
                0 | 5 => self.running(number),
                9 => self.finished(number),
                _ => self.waiting(number),
            };
            let attempt = sj.status.attempt.as_ref().filter(|attempt| attempt.outcome.is_none());
            let mut seen = Vec::new();
            if let Some(attempt) = attempt {
                let job = job(&sj, 1, 5);
                for index in 0..attempt.demand.pod_count as usize {
                    // A GPU is where there is one; the rest is spread evenly.
                    let slot = number / 5 + index * 17;
                    let slot = match attempt.demand.per_pod.other.is_empty() {
                        _ if self.variety == Variety::OwnNode => number % self.nodes,
                        true => slot % self.nodes,
                        false => (slot * 4 + 2) % self.nodes,
                    };
                    seen.push(Observation::Pod(Box::new(bound(&job, index, &attempt.demand, &name(slot)))));
                }
                seen.push(Observation::Job(job));
            }
            seen.push(Observation::ScavengerJob(Box::new(sj)));
            seen
        });
        pool.chain(nodes).chain(pods).chain(pending).chain(rollout).chain(scavenger_jobs)
    }
}
