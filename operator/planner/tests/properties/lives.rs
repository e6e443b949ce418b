//! Random worlds and random misfortunes: whatever happens on the way, everybody gets to the right end.

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{NAMESPACE, key, millis, node, pod, seconds, settings, sj},
    resources::Resources,
    values::{Access, Phase, PreemptionMode, Settings},
};
use scavenger_simulator::{Cluster, Random, Stream, Workload};

/// One ScavengerJob of a random world.
#[derive(Debug, Clone)]
struct Life {
    cpu_milli: i64,
    pods: u32,
    workload: Workload,
    after: i64,
}

fn life() -> impl Strategy<Value = Life> {
    let exit = prop_oneof![4 => Just(0), 1 => Just(1)];
    let sigterm = prop_oneof![Just(0), Just(1), Just(143)];
    (1..8_i64, 1..4_u32, 0..120_i64, exit, sigterm, any::<bool>(), any::<bool>(), 0..20_i64).prop_map(
        |(cpu, pods, needs, exit_code, on_sigterm, saves, fails_with_peer, after)| Life {
            cpu_milli: cpu * 500,
            pods,
            after,
            workload: Workload {
                needs: seconds(needs),
                exit_code,
                on_sigterm,
                grace: seconds(3),
                saves,
                fails_with_peer,
                ..Workload::default()
            },
        },
    )
}

#[derive(Debug, Clone, Copy)]
enum Misfortune {
    Preempt,
    Evict,
    DeletePod,
    DeleteJob,
    DeleteJobInBackground,
    Restart(bool),
    Relist(Stream),
    Blind(Stream),
    Label,
    Replace,
    Suspend(bool),
    NodeReboots,
    Quota,
    Terminating,
    NodeIsLost,
    NodeComes,
    PoolGoes,
    Owner,
    PatientOwner,
    NodePressed,
    Budget,
    Pause,
    Drain,
}

fn gentle() -> impl Strategy<Value = Misfortune> {
    use Misfortune::*;
    let stream = || prop::sample::select(Stream::ALL.to_vec());
    prop_oneof![
        2 => Just(Preempt),
        1 => Just(Evict),
        2 => Just(DeletePod),
        1 => Just(DeleteJob),
        1 => Just(DeleteJobInBackground),
        2 => any::<bool>().prop_map(Restart),
        2 => stream().prop_map(Relist),
        2 => stream().prop_map(Blind),
        1 => Just(Label),
        1 => Just(Replace),
        2 => any::<bool>().prop_map(Suspend),
        1 => Just(NodeReboots),
        2 => Just(Quota),
        1 => Just(Terminating),
    ]
}

fn rough() -> impl Strategy<Value = Misfortune> {
    use Misfortune::*;
    prop_oneof![
        4 => gentle(),
        1 => Just(NodeIsLost),
        1 => Just(NodeComes),
        1 => Just(PoolGoes),
        2 => Just(Owner),
        2 => Just(PatientOwner),
        1 => Just(NodePressed),
        1 => Just(Budget),
        1 => Just(Pause),
        1 => Just(Drain),
    ]
}

fn happen(cluster: &mut Cluster, misfortune: Misfortune, which: usize) {
    let pods: Vec<_> = cluster.all_live_pods().iter().map(|pod| pod.key.clone()).collect();
    let some_pod = (!pods.is_empty()).then(|| pods[which % pods.len()].clone());
    let jobs: Vec<_> = cluster.all_jobs().map(|job| job.key.clone()).collect();
    let some_job = (!jobs.is_empty()).then(|| jobs[which % jobs.len()].clone());
    let scavenger_jobs: Vec<_> = cluster.scavenger_jobs().map(|sj| sj.key.name.clone()).collect();
    let some_sj = (!scavenger_jobs.is_empty()).then(|| scavenger_jobs[which % scavenger_jobs.len()].clone());
    let nodes: Vec<_> = cluster.all_nodes().map(|node| node.name.clone()).collect();
    match (misfortune, some_pod, some_job, some_sj) {
        (Misfortune::Preempt, Some(pod), ..) => cluster.preempt(&pod),
        (Misfortune::Evict, Some(pod), ..) => cluster.evict(&pod),
        (Misfortune::DeletePod, Some(pod), ..) => cluster.delete_pod(&pod),
        (Misfortune::NodeReboots, Some(pod), ..) => cluster.end_pod(&pod, 255, "Unknown"),
        (Misfortune::DeleteJob, _, Some(job), _) => cluster.delete_job_in_foreground(&job),
        (Misfortune::DeleteJobInBackground, _, Some(job), _) => {
            cluster.delete_job_in_background(&job);
        }
        (Misfortune::Restart(land), ..) => cluster.restart(land),
        (Misfortune::Relist(stream), ..) => cluster.relist(stream),
        (Misfortune::Blind(stream), ..) => cluster.hold_watch(stream),
        (Misfortune::Label, _, _, Some(sj)) => cluster.label(&sj),
        (Misfortune::Suspend(suspend), _, _, Some(sj)) => {
            cluster.control(&sj, |controls| controls.suspend = suspend);
        }
        (Misfortune::Replace, _, _, Some(sj)) => {
            let cpu = 500 * (1 + which as i64 % 8);
            cluster.replace(&sj, |sj| {
                let spec = sj.spec.as_ref().expect("no spec is invalid here");
                let has_volume = !spec.claims.is_empty();
                let cpu = if has_volume { cpu.min(most_on_one_node(spec.demand.pod_count)) } else { cpu };
                sj.asking(cpu)
            });
        }
        (Misfortune::Quota, ..) => {
            let jobs =
                if which.is_multiple_of(3) { [("count/jobs.batch".into(), 2)].into() } else { [].into() };
            let cpu_milli = 500 * (which as i64 % 10);
            let quota = Resources { cpu_milli, other: jobs, ..Resources::default() };
            cluster.quotas.insert(NAMESPACE.into(), quota);
        }
        (Misfortune::Terminating, ..) => _ = cluster.terminating.insert(NAMESPACE.into()),
        (Misfortune::NodeIsLost, ..) => cluster.lose_node(&nodes[which % nodes.len()]),
        (Misfortune::NodeComes, ..) => {
            cluster.set_node(node(&format!("extra{}", which % 3), 8000));
        }
        (Misfortune::PoolGoes, ..) => cluster.set_pool(Err("gone".to_owned())),
        (Misfortune::Owner | Misfortune::PatientOwner, ..) => {
            let pod = pod(&format!("owner{}", cluster.actions), 500 * (1 + which as i64 % 10));
            let patient = matches!(misfortune, Misfortune::PatientOwner);
            cluster.create_pod(if patient { pod.patient() } else { pod }, seconds(60));
        }
        (Misfortune::NodePressed, ..) => {
            let name = &nodes[which % nodes.len()];
            let pressed = cluster.all_nodes().find(|node| node.name == *name).cloned();
            if let Some(node) = pressed {
                cluster.set_node(node.pressed("MemoryPressure"));
            }
        }
        (Misfortune::Budget, ..) => cluster.budgets_forbid ^= true,
        (Misfortune::Pause, ..) => cluster.set_pool(Ok(Settings { paused: true, ..world_settings() })),
        (Misfortune::Drain, ..) => cluster.set_pool(Ok(Settings { drain: true, ..world_settings() })),
        _ => {}
    }
}

/// Heals everything and lets all come to their end.
fn heal(cluster: &mut Cluster) {
    for stream in Stream::ALL {
        cluster.let_go(stream);
    }
    cluster.quotas.clear();
    cluster.terminating.clear();
    let lost: Vec<_> =
        cluster.all_nodes().filter(|node| !node.usable).map(|node| node.name.clone()).collect();
    for node in lost {
        cluster.recover_node(&node);
    }
    cluster.set_pool(Ok(world_settings()));
    let scavenger_jobs: Vec<_> = cluster.scavenger_jobs().map(|sj| sj.key.name.clone()).collect();
    for sj in scavenger_jobs {
        cluster.control(&sj, |controls| controls.suspend = false);
    }
    if let Some((_, percent)) = &mut cluster.random {
        *percent = 0;
    }
}

fn world_settings() -> Settings {
    Settings { preemption_mode: PreemptionMode::Operator, ..settings().filled_to(0.8).starting_at_once(4) }
}

/// What each of so many pods may ask for, in thousandths of a core, so that one node can have capacity for all.
fn most_on_one_node(pods: u32) -> i64 {
    6000 / i64::from(pods)
}

/// True for those whose pods mount a volume that one node at a time can mount. To be drawn last, so that the cases that once
/// failed stay as they were.
fn volumes() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(prop::bool::weighted(0.3), 5)
}

fn live(
    seed: u64,
    failing: u64,
    strict: bool,
    lives: &[Life],
    happenings: &[(i64, Misfortune, usize)],
    volumes: &[bool],
) {
    let mut cluster =
        Cluster::new(world_settings()).with_nodes([node("n1", 8000), node("n2", 8000), node("n3", 4000)]);
    cluster.strict = strict;
    cluster.random = Some((Random::new(seed), failing));
    for (number, life) in lives.iter().enumerate() {
        let mut sj = sj(&format!("job{number}")).asking(life.cpu_milli).gang(life.pods);
        if volumes[number % volumes.len()] {
            let claim = format!("data{number}");
            cluster.fresh_claims.insert(key(&claim), Access::OneNode);
            sj = sj.asking(life.cpu_milli.min(most_on_one_node(life.pods))).mounting(&claim);
        }
        cluster.submit(sj, life.workload.clone());
        cluster.run_for(seconds(life.after));
    }
    for (delay, misfortune, which) in happenings {
        cluster.run_for(millis(*delay));
        happen(&mut cluster, *misfortune, *which);
    }
    cluster.run_for(seconds(5));
    heal(&mut cluster);
    for (number, life) in lives.iter().enumerate() {
        let name = format!("job{number}");
        let end = if life.workload.exit_code == 0 { Phase::Completed } else { Phase::Failed };
        cluster.run_until(&format!("{name} is {end:?}"), |cluster| cluster.status(&name).phase.is_finished());
        let status = cluster.status(&name);
        // Misfortunes that hide what came first twice in a row are as good as a failure.
        let unknown = status.phase == Phase::Failed && status.unknown_ends_in_a_row == 2;
        assert!(status.phase == end || unknown, "{name}\n{}", cluster.history());
    }
    cluster.run_for(seconds(120));
    cluster.check_recomputed();
    assert_eq!(cluster.planner.ledger().total(), &Resources::default());
    let done = cluster.log.len();
    cluster.run_for(seconds(3600));
    assert_eq!(cluster.log.len(), done, "something is done although nothing happens\n{}", cluster.history());
    for number in 0..lives.len() {
        cluster.delete_sj(&format!("job{number}"));
    }
    cluster.run_until("all are gone", |cluster| cluster.scavenger_jobs().next().is_none());
    assert!(cluster.all_live_pods().is_empty());
}

proptest! {
    #![proptest_config(super::cases(25))]

    #[test]
    fn everybody_gets_to_the_right_end_and_the_limits_hold_at_every_instant(
        seed in any::<u64>(),
        failing in prop_oneof![Just(0_u64), Just(5), Just(30)],
        lives in prop::collection::vec(life(), 1..6),
        happenings in prop::collection::vec((0..30_000_i64, gentle(), 0..100_usize), 0..20),
        volumes in volumes(),
    ) {
        live(seed, failing, true, &lives, &happenings, &volumes);
    }

    #[test]
    fn everybody_gets_to_the_right_end_when_nodes_settings_and_owners_change_too(
        seed in any::<u64>(),
        failing in prop_oneof![Just(0_u64), Just(5), Just(30)],
        lives in prop::collection::vec(life(), 1..6),
        happenings in prop::collection::vec((0..30_000_i64, rough(), 0..100_usize), 0..20),
        volumes in volumes(),
    ) {
        live(seed, failing, false, &lives, &happenings, &volumes);
    }
}
