//! What the API server has, as the planner sees it.

use jiff::{SignedDuration, Timestamp};
use scavenger_planner::{
    fixtures,
    values::{
        Container, Demand, EndReport, Job, Key, KillCause, KillReport, LiveReport, Name, Node, Observation,
        Placement, Pod, PodPhase, PodUsage, Rank, ScavengerJob, ScavengerJobSpec, Stop, SupervisionSpec,
        Usage,
    },
};

use crate::{
    values::{Amounts, AttemptId, NodeId, PodId, SjId, Time, span, stamp},
    workload::{self, Scavenger},
    world::{self, Disruption, Owner, Phase, World},
};

/// What kube-scheduler says of a pod for which no node has enough.
const UNSCHEDULABLE: &str = "0/1 nodes are available: 1 Insufficient cpu.";

/// Exit code and reason of a container that ends on SIGTERM.
const ON_SIGTERM: (i32, &str) = (143, "Error");

/// The same of one that the kernel kills for memory.
const OUT_OF_MEMORY: (i32, &str) = (137, "OOMKilled");

/// What a version of a pod says that another one may not say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    version: u64,
    node: Option<NodeId>,
    nominated: Option<NodeId>,
    unschedulable: bool,
    phase: Phase,
    bound: Option<Time>,
    started: Option<Time>,
    deleted: Option<(Time, Disruption)>,
    is_killed: bool,
    ended: Option<Time>,
    /// None without a supervisor; else when it saw the newest checkpoint, if there is one.
    pub(super) supervision: Option<Option<Time>>,
}

impl Seen {
    pub(super) fn of(pod: &world::Pod, version: u64) -> Self {
        Self {
            version,
            node: pod.node,
            nominated: pod.nominated,
            unschedulable: pod.unschedulable,
            phase: pod.phase,
            bound: pod.bound,
            started: pod.started,
            deleted: pod.deleted,
            is_killed: pod.is_killed,
            ended: pod.ended,
            supervision: None,
        }
    }
}

/// Stored stamps have whole seconds.
fn stored(time: Time) -> Timestamp {
    stamp(time - time.rem_euclid(1000))
}

pub(super) fn node(node: &workload::Node) -> Node {
    let mut seen = fixtures::node(&node.name, 0);
    seen.allocatable = node.capacity.resources();
    seen.labels =
        node.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    seen
}

pub(super) fn sj_uid(sj: SjId) -> Name {
    format!("uid-{}", sj.0).into()
}

pub(super) fn sj_key(sj: SjId) -> Key {
    fixtures::key(&format!("job-{}", sj.0))
}

/// The number behind the last `-` of a name.
fn number_in(name: &str) -> Option<u32> {
    name.rsplit_once('-')?.1.parse().ok()
}

/// The ScavengerJob with this name.
pub(super) fn sj_of(key: &Key) -> Option<SjId> {
    number_in(&key.name).map(SjId)
}

/// The pod with this UID.
pub(super) fn pod_of(uid: &str) -> Option<PodId> {
    number_in(uid).map(PodId)
}

pub(super) fn pod_key(world: &World<'_>, pod: PodId) -> Key {
    match world.pods[pod.index()].owner {
        Owner::Ordinary(_) => fixtures::key(&format!("ordinary-{}", pod.0)),
        Owner::Attempt(..) => fixtures::key(&format!("pod-{}", pod.0)),
    }
}

pub(super) fn job_key(sj: SjId, attempt: u32) -> Key {
    fixtures::key(&format!("job-{}-{attempt}", sj.0))
}

/// The ScavengerJob and the number of the attempt of the Job with this name.
pub(super) fn attempt_of(key: &Key) -> Option<(SjId, u32)> {
    let (sj, attempt) = key.name.rsplit_once('-')?;
    Some((SjId(number_in(sj)?), attempt.parse().ok()?))
}

/// The Job of an attempt that was made just now.
pub(super) fn job(sj: SjId, attempt: u32, version: u64, now: Time) -> Job {
    Job {
        key: job_key(sj, attempt),
        uid: format!("job-of-{}-{attempt}", sj.0).into(),
        resource_version: version,
        creation_time: stored(now),
        owner: sj_uid(sj),
        attempt,
        deleting: false,
        complete: false,
        failed: None,
        over_since: None,
    }
}

/// What the Job controller writes into a Job.
pub(super) fn job_state(job: &mut Job, state: world::Job) {
    match state {
        world::Job::Active => {}
        world::Job::Complete(time) => (job.complete, job.over_since) = (true, Some(stored(time))),
        world::Job::Failed(time) => {
            let message = "a pod had DisruptionTarget".to_owned();
            job.failed = Some(("PodFailurePolicy".to_owned(), message));
            job.over_since = Some(stored(time));
        }
    }
}

/// A ScavengerJob as it is submitted. It promises a checkpoint in each of its intervals.
pub(super) fn scavenger_job(id: SjId, spec: &Scavenger) -> ScavengerJob {
    let mut sj = fixtures::sj("");
    (sj.key, sj.uid, sj.creation_time) = (sj_key(id), sj_uid(id), stored(spec.arrival));
    let demand =
        Demand { per_pod: spec.requests.resources(), pod_count: spec.pods, placement: Placement::default() };
    if let Ok(of) = &mut sj.spec {
        *of = ScavengerJobSpec {
            demand: demand.into(),
            // A whole checkpoint is written in this time.
            interruption_after: span((spec.interval + spec.cost).max(1000)),
            saves_on_sigterm: spec.saves,
            restart: span(spec.restart),
            grace_period: span(spec.grace).max(SignedDuration::from_secs(1)),
            // It runs under the supervisor in a pool that has one.
            supervision: SupervisionSpec {
                has_command: true,
                names_checkpoint: true,
                rank: Rank::One(0),
                ..SupervisionSpec::default()
            },
            ..of.clone()
        };
    }
    // Those that ask for the same have the same spec.
    let same = (spec.requests, spec.pods, spec.interval, spec.cost, spec.saves, spec.restart);
    sj.spec_hash = hash(&same);
    sj
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A version of a pod.
pub(super) fn pod(world: &World<'_>, id: PodId, seen: &Seen, nodes: &[Node]) -> Pod {
    let of = &world.pods[id.index()];
    let mut pod = fixtures::pod("", 0);
    pod.key = pod_key(world, id);
    pod.uid = pod_uid(id);
    pod.resource_version = seen.version;
    pod.requests = of.requests.resources();
    pod.priority = of.priority;
    pod.preempts = world.preempts_for(id);
    pod.creation_time = stored(of.created);
    let named = |node: Option<NodeId>| node.map(|node| nodes[node.index()].name.clone());
    (pod.node, pod.nominated_node) = (named(seen.node), named(seen.nominated));
    pod.scheduled = seen.bound.map(stored);
    pod.unschedulable = seen.unschedulable.then(|| UNSCHEDULABLE.to_owned());
    pod.started = seen.started.map(stored);
    if let Owner::Attempt(attempt, index) = of.owner {
        let start = &world.attempts[attempt.index()].start;
        pod.owner = Some((sj_uid(start.sj), start.number));
        pod.index = Some(index);
        pod.grace_period = span(world.spec_of(attempt).grace).max(SignedDuration::from_secs(1));
    }
    if let Some((time, why)) = seen.deleted {
        pod.deletion_requested = Some(stored(time));
        pod.deletion_due = Some(stored(time) + pod.grace_period);
        let reason = match why {
            Disruption::Preempted => Some("PreemptionByScheduler"),
            Disruption::Evicted => Some("EvictionByEvictionAPI"),
            Disruption::JobFailed => None,
        };
        pod.disruption_target = reason.map(|reason| (reason.to_owned(), String::new()));
        pod.disrupted_since = reason.map(|_| stored(time));
    }
    (pod.phase, pod.container) = match (seen.phase, seen.ended) {
        (Phase::Pending, _) => (PodPhase::Pending, Container::Waiting(None)),
        (Phase::Running, _) => (PodPhase::Running, Container::Running),
        (Phase::Succeeded, time) => (PodPhase::Succeeded, ended((0, "Completed"), time, seen)),
        (Phase::Failed, time) if seen.is_killed => (PodPhase::Failed, ended(OUT_OF_MEMORY, time, seen)),
        (Phase::Failed, time) => (PodPhase::Failed, ended(ON_SIGTERM, time, seen)),
    };
    if let Some(checkpoint) = seen.supervision {
        let brought = seen.started.map(|time| ended((0, "Completed"), Some(time), seen));
        pod.supervisor = Some(Box::new(brought.unwrap_or(Container::Waiting(None))));
        let saves = matches!(of.owner, Owner::Attempt(attempt, _) if world.spec_of(attempt).saves);
        pod.end_report = seen.ended.and(seen.started).map(|_| end_report(checkpoint, saves, seen));
    }
    pod
}

/// What the agent of a node says about a pod whose container was killed: the node had no memory left.
pub(super) fn kill(world: &World<'_>, pod: PodId) -> Observation {
    let ended = world.pods[pod.index()].ended.unwrap_or(world.now);
    let (pod, uid) = (pod_key(world, pod), pod_uid(pod));
    Observation::Kill(KillReport { pod, uid, time: stored(ended), cause: KillCause::Node })
}

/// What metrics.k8s.io says: what all pods of each node use, and what each pod of a ScavengerJob uses.
pub(super) fn uses(world: &World<'_>, nodes: &[Node], time: Timestamp) -> (Vec<Usage>, Vec<PodUsage>) {
    let (mut of_nodes, mut of_pods) = (Vec::with_capacity(nodes.len()), Vec::new());
    for (place, node) in nodes.iter().enumerate() {
        let mut sum = Amounts::default();
        for (pod, used) in world.use_on(NodeId::at(place)) {
            sum = sum.plus(used);
            let of = &world.pods[pod.index()];
            if matches!(of.owner, Owner::Attempt(..)) && of.started.is_some() {
                let (cpu_milli, memory_bytes) = (used.cpu, used.memory << 20);
                of_pods.push(PodUsage { pod: pod_key(world, pod), time, cpu_milli, memory_bytes });
            }
        }
        // Ordinary pods cannot use more than there is, either.
        let cpu_milli = sum.cpu.min(world.workload.nodes[place].capacity.cpu);
        let (node, memory_bytes) = (node.name.clone(), sum.memory << 20);
        of_nodes.push(Usage { node, cpu_milli, memory_bytes, time });
    }
    (of_nodes, of_pods)
}

/// What the supervisor of a pod leaves.
fn end_report(checkpoint: Option<Time>, saves: bool, seen: &Seen) -> EndReport {
    let is_told = seen.deleted.filter(|_| seen.phase == Phase::Failed);
    let (checkpoint, stop) = match is_told {
        None => (checkpoint, Stop::NotAsked),
        Some((time, _)) if saves => (Some(time), Stop::Answered),
        Some(_) => (checkpoint, Stop::Unanswered),
    };
    EndReport { checkpoint: checkpoint.map(stamp), progress: None, cpu: None, stop }
}

/// What the supervisor of a pod reports of a checkpoint.
pub(super) fn report(world: &World<'_>, pod: PodId, checkpoint: Time) -> Observation {
    Observation::Report(LiveReport {
        pod: pod_key(world, pod),
        uid: pod_uid(pod),
        checkpoint: Some(stamp(checkpoint)),
        progress: None,
        cpu: None,
    })
}

fn pod_uid(pod: PodId) -> Name {
    format!("uid-of-pod-{}", pod.0).into()
}

fn ended((exit_code, reason): (i32, &str), time: Option<Time>, seen: &Seen) -> Container {
    Container::Ended {
        exit_code,
        reason: reason.to_owned(),
        message: String::new(),
        time: time.map(stored),
        started: seen.started.is_some(),
    }
}

/// Pods of a ScavengerJob whose objects are there.
pub(super) fn pods_of<'w>(
    world: &'w World<'_>,
    attempts: impl Iterator<Item = AttemptId> + 'w,
) -> impl Iterator<Item = PodId> + 'w {
    let pods = attempts.flat_map(|attempt| world.attempts[attempt.index()].pods.iter().copied());
    pods.filter(|pod| !world.pods[pod.index()].is_gone)
}
