//! What every run must keep, under every policy.

use scavenger_laboratory::{
    compare::{compare, contenders},
    measure::measure,
    policy::Kind,
    pool::Pool,
    print::{self, Comparison},
    run::{Conditions, run, run_baseline},
    values::{Amounts, HOUR},
    workload::{Workload, scenario::Scenario},
    world::{Disruption, Owner, Phase, World},
};
use scavenger_planner::{
    resources::Share,
    values::{PreemptionMode, Supervisor},
};

const CONDITIONS: Conditions = Conditions { late: 50, seed: 1 };

/// A few hours of a scenario.
pub(super) fn some_of(name: &str, seed: u64, hours: i64) -> Workload {
    let mut workload = Scenario::named(name).expect("it should be a scenario").draw(seed);
    workload.length = hours * HOUR;
    workload.ordinary.retain(|pod| pod.arrival < workload.length);
    workload.scavengers.retain(|sj| sj.arrival < workload.length);
    workload
}

fn all() -> Vec<(Kind, Pool)> {
    let modes = [PreemptionMode::Scheduler, PreemptionMode::Operator].map(Pool::usual);
    contenders(&Kind::ALL, &modes).into_iter().map(|one| (one.kind, one.pool)).collect()
}

/// Every pod ends once, holds what it holds on one node, and no node holds more than it has.
pub(super) fn check_pods(world: &World<'_>) {
    for (id, pod) in world.pods.iter().enumerate() {
        assert_eq!(pod.is_over(), pod.ended.is_some(), "pod {id}");
        assert!(pod.started.is_none() || pod.bound.is_some(), "pod {id} ran on no node");
        let times = [Some(pod.created), pod.bound, pod.started, pod.ended].map(Option::into_iter);
        let times: Vec<_> = times.into_iter().flatten().collect();
        assert!(times.is_sorted() || pod.started.is_none(), "pod {id}: {times:?}");
        if pod.phase == Phase::Failed {
            assert!(pod.deleted.is_some() || pod.is_killed, "pod {id} failed although nobody took it away");
        }
    }
    let asks = world.pods.iter().filter(|pod| matches!(pod.owner, Owner::Ordinary(_)) && !pod.is_over());
    let asks = asks.filter(|pod| !pod.unschedulable).map(|pod| pod.requests);
    assert_eq!(asks.fold(Default::default(), Amounts::plus), world.asked_by_ordinary);
    for (node, pods) in world.workload.nodes.iter().zip(&world.on_node) {
        let held = pods.iter().map(|pod| &world.pods[pod.index()]);
        let held = held.fold(Default::default(), |sum: Amounts, pod| {
            assert!(!pod.is_over());
            sum.plus(pod.requests)
        });
        assert!(held.fits(node.capacity), "{}: {held:?}", node.name);
    }
}

/// What containers ran is what is kept, what is lost, and what is in progress, each counted on its own.
pub(super) fn check_work(world: &World<'_>) {
    let tally = &world.tally;
    let parts = [tally.kept, tally.redone, tally.restarts, tally.writing, tally.idle, tally.in_progress];
    assert!(parts.iter().all(|part| *part >= 0), "{tally:?}");
    assert_eq!(tally.ran, parts.iter().sum::<i64>());
    for (number, (state, sj)) in world.scavengers.iter().zip(&world.workload.scavengers).enumerate() {
        assert!(state.kept <= sj.work, "job {number}");
        assert_eq!(state.kept == sj.work, state.finished.is_some(), "job {number}");
    }
    let kept = world.scavengers.iter().zip(&world.workload.scavengers);
    let kept = kept.map(|(state, sj)| state.kept * sj.requests.cpu * i64::from(sj.pods));
    assert_eq!(kept.sum::<i64>(), tally.kept);
}

/// No two attempts of a ScavengerJob are at work at once.
pub(super) fn check_attempts(world: &World<'_>) {
    let mut last = vec![0; world.scavengers.len()];
    let mut attempts: Vec<_> = world.attempts.iter().filter(|attempt| !attempt.start.remakes).collect();
    attempts.sort_by_key(|attempt| (attempt.start.sj, attempt.start.number));
    for attempt in attempts {
        let pods = attempt.pods.iter().map(|pod| &world.pods[pod.index()]);
        let first = pods.clone().map(|pod| pod.created).min();
        let end = &mut last[attempt.start.sj.index()];
        if let Some(first) = first {
            assert!(first >= *end, "{:?} begins at {first}, before {end}", attempt.start);
        }
        let ends = pods.map(|pod| pod.ended.unwrap_or(world.workload.length));
        *end = ends.max().unwrap_or(*end).max(*end);
    }
}

#[test]
fn nothing_is_lost_or_counted_twice_under_any_policy() {
    for name in ["bursty", "large-jobs"] {
        let workload = some_of(name, 2, 8);
        for (kind, pool) in all() {
            let (world, _) = run(&workload, kind, &pool.settings, CONDITIONS);
            check_pods(&world);
            check_work(&world);
            check_attempts(&world);
            assert!(
                world.tally.kept > 0,
                "{name}: {kind:?} {:?} gets nothing done",
                pool.settings.preemption_mode
            );
            assert!(
                world.tally.interruptions > 0,
                "{name}: {kind:?} {:?} interrupts nobody",
                pool.settings.preemption_mode
            );
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let print = || {
        let modes = [PreemptionMode::Scheduler, PreemptionMode::Operator].map(Pool::usual);
        let outcomes =
            compare(&contenders(&Kind::ALL, &modes), 2, 50, |seed| some_of("bursty", seed, 4), |_| {});
        let comparison =
            Comparison { workload: "bursty".to_owned(), seeds: 2, late_milliseconds: 50, outcomes };
        (print::json(&comparison), print::table(&comparison))
    };
    let first = print();
    assert_eq!(first, print());
    assert!(first.1.lines().count() > 10, "{}", first.1);
}

#[test]
fn no_policy_preempts_an_ordinary_pod_for_a_scavenger_job() {
    for name in ["bursty", "daily"] {
        let workload = some_of(name, 3, 10);
        let alone = workload.without_scavengers();
        let baseline = run_baseline(&alone, 1).tally.ordinary;
        for (kind, pool) in all() {
            let (world, _) = run(&workload, kind, &pool.settings, CONDITIONS);
            for pod in world.pods.iter().filter(|pod| matches!(pod.owner, Owner::Ordinary(_))) {
                assert!(
                    pod.deleted.is_none_or(|(_, why)| why == Disruption::Preempted),
                    "{kind:?} evicted an ordinary pod"
                );
            }
            // Under stock preemption other nodes are full, which can cost an ordinary pod of low priority its place.
            let figures = measure(&world, &baseline);
            assert!(
                kind == Kind::Stock || figures.ordinary_preemptions <= 0.0,
                "{name}: {kind:?}: {figures:?}"
            );
        }
    }
}

#[test]
fn a_pool_that_starts_nothing_leaves_the_cluster_as_it_is_without_scavenger_jobs() {
    let workload = some_of("steady", 1, 3);
    let alone = workload.without_scavengers();
    let baseline = run_baseline(&alone, 1).tally;
    let mut pool = Pool::usual(PreemptionMode::Scheduler);
    pool.settings.paused = true;
    let (world, _) = run(&workload, Kind::Operator, &pool.settings, CONDITIONS);
    assert_eq!(world.tally, baseline);
}

/// Pods go where the pool says, and nowhere else.
#[test]
fn pods_of_scavenger_jobs_stay_on_the_nodes_of_the_pool() {
    let workload = some_of("steady", 1, 3);
    let kind =
        |node: &scavenger_laboratory::workload::Node| node.labels["node.kubernetes.io/instance-type"].clone();
    let mut pool = Pool::usual(PreemptionMode::Scheduler);
    pool.settings.node_selector = [("node.kubernetes.io/instance-type".into(), "c32".into())].into();
    let (world, _) = run(&workload, Kind::Operator, &pool.settings, CONDITIONS);
    let of_scavengers = world.pods.iter().filter(|pod| matches!(pod.owner, Owner::Attempt(..)));
    let nodes: Vec<_> = of_scavengers.filter_map(|pod| pod.node).collect();
    assert!(nodes.len() > 10);
    assert!(nodes.iter().all(|node| kind(&workload.nodes[node.index()]) == "c32"));
}

/// The promises of these workloads are kept, so reports of checkpoints say little more than they do.
#[test]
fn a_pool_with_a_supervisor_gets_as_much_done() {
    let workload = some_of("large-jobs", 2, 12);
    let kept = |supervisor: Option<Supervisor>| {
        let mut pool = Pool::usual(PreemptionMode::Operator);
        pool.settings.supervisor = supervisor;
        // Full nodes, so that there is much to choose.
        pool.settings.headroom.interrupt_threshold = None;
        pool.settings.start_thresholds.default = Share::ONE;
        let (world, _) = run(&workload, Kind::Operator, &pool.settings, CONDITIONS);
        check_pods(&world);
        check_work(&world);
        check_attempts(&world);
        world.tally.kept as f64
    };
    let image = "supervisor".into();
    let supervised = kept(Some(Supervisor { image, image_pull_secrets: Vec::new(), by_default: true }));
    let difference = (supervised / kept(None) - 1.0).abs();
    assert!(difference > 0.0 && difference < 0.05, "{difference}");
}
