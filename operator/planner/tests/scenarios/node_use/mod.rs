//! Accounting Usage: ScavengerJobs run on what is reserved but not used.

use jiff::SignedDuration;
use scavenger_planner::{
    action::Task,
    fixtures::{NAMESPACE, node, pod, seconds, settings, sj},
    resources::Resources,
    values::{Accounting, Observation, Outcome, Phase, PodUsage, Reason, Settings, Usage, WaitingReason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, outcome, work};

mod agents;
mod breaker;
mod checkpoints;
mod dry_run;
mod memory;
mod mistakes;
mod places;
mod static_cpu;
mod traces;
mod young;

/// How often metrics-server measures.
const EVERY: i64 = 15;

/// How long ordinary pods run.
const FOREVER: SignedDuration = SignedDuration::from_hours(1000);

/// What ordinary pods of a node use: millicores and MiB.
type Use = (i64, i64);

/// One node of 10 cores and 10,000 MiB, of which nine ordinary pods have reserved a tenth each.
fn reserved(settings: Settings) -> Cluster {
    let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000)]);
    for number in 0..9 {
        cluster.create_pod(pod(&format!("web-{number}"), 1000), FOREVER);
    }
    cluster.settle();
    cluster
}

/// Everything is measured now: pods of ScavengerJobs use all of their cpu and half of their memory.
fn measure(cluster: &mut Cluster, ordinary: impl Fn(&str) -> Use) {
    measure_with(cluster, ordinary, 2);
}

/// The same, where they use this part of their memory.
fn measure_with(cluster: &mut Cluster, ordinary: impl Fn(&str) -> Use, part: i64) {
    let mut nodes: Vec<Usage> = cluster
        .all_nodes()
        .map(|node| {
            let (cpu_milli, mib) = ordinary(&node.name);
            Usage { node: node.name.clone(), cpu_milli, memory_bytes: mib << 20, time: cluster.now }
        })
        .collect();
    let mut pods = Vec::new();
    for pod in cluster.all_live_pods().into_iter().filter(|pod| pod.owner.is_some()) {
        let Some(node) = nodes.iter_mut().find(|node| Some(&node.node) == pod.node.as_ref()) else {
            continue;
        };
        let holds = pod.holds();
        node.cpu_milli += holds.cpu_milli;
        node.memory_bytes += holds.memory_bytes / part;
        pods.push(PodUsage {
            pod: pod.key.clone(),
            time: cluster.now,
            cpu_milli: holds.cpu_milli,
            memory_bytes: holds.memory_bytes / part,
        });
    }
    cluster.planner.observe(Observation::Usage(Some(nodes)), cluster.now);
    cluster.planner.observe(Observation::PodUsage(pods), cluster.now);
    cluster.settle();
}

/// Some minutes pass in which everything is measured every 15 s.
pub(super) fn minutes(cluster: &mut Cluster, minutes: i64, ordinary: impl Fn(&str) -> Use) {
    for _ in 0..minutes * 60 / EVERY {
        cluster.run_for(seconds(EVERY));
        measure(cluster, &ordinary);
    }
}

/// The node is measured to be short of memory, and a container of an ordinary pod is killed there.
fn kill_on_a_full_node(cluster: &mut Cluster, name: &str) {
    cluster.run_for(seconds(EVERY));
    measure_with(cluster, |_| (1000, 2300), 1);
    let pod = cluster.pod(name).expect("the pod should be there").key.clone();
    cluster.kill_container(&pod);
    cluster.run_for(seconds(5));
}

/// Minutes pass until it runs.
fn runs(cluster: &mut Cluster, name: &str) {
    for _ in 0..60 {
        if cluster.status(name).phase == Phase::Running {
            return;
        }
        minutes(cluster, 1, |_| (1000, 1000));
    }
    panic!("it does not run: {}", cluster.history());
}

#[test]
fn what_is_reserved_but_not_used_is_filled() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(4000), work(3000));
    minutes(&mut cluster, 4, |_| (1000, 1000));
    assert_eq!(
        cluster.waits("a"),
        Some(WaitingReason::NoCapacity),
        "what was reserved is expected to be used"
    );
    minutes(&mut cluster, 2, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
    let pods = cluster.live_pods("a");
    assert_eq!((pods[0].requests.cpu_milli, pods[0].holds().cpu_milli), (0, 4000));
    let attempt = attempt(&cluster, "a");
    assert_eq!((attempt.accounting, attempt.node.as_deref()), (Accounting::Usage, Some("n1")));
    // 70% of 10 cores, less 1.1 to 1.2 that are expected, less 4.
    cluster.submit(sj("b").asking(2000), work(3000));
    cluster.submit(sj("c").asking(1000), work(3000));
    minutes(&mut cluster, 2, |_| (1000, 1000));
    assert_eq!(cluster.status("c").phase, Phase::Running);
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity));
    assert_eq!(cluster.planner.pool_report(cluster.now).usage.unwrap().known, 1);
}

#[test]
fn by_requests_the_same_node_is_full() {
    let mut cluster = reserved(settings());
    cluster.submit(sj("a").asking(1000), work(3000));
    minutes(&mut cluster, 10, |_| (1000, 1000));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
}

#[test]
fn memory_that_ordinary_pods_use_is_taken_back_at_once_and_cpu_after_a_minute() {
    for (grown, reason, wait) in
        [((1000, 4200), Reason::NodeMemoryShort, 30), ((4500, 1000), Reason::NodeCPUShort, 120)]
    {
        let mut cluster = reserved(settings().by_use());
        cluster.submit(sj("old").asking(3000), work(30_000));
        minutes(&mut cluster, 6, |_| (1000, 1000));
        cluster.submit(sj("new").asking(2500), work(30_000));
        minutes(&mut cluster, 3, |_| (1000, 1000));
        for name in ["old", "new"] {
            assert_eq!(cluster.status(name).phase, Phase::Running, "{name}\n{}", cluster.history());
        }
        let began = cluster.now;
        while cluster.scavenger_jobs().all(|sj| sj.status.interrupted_count == 0) {
            cluster.run_for(seconds(EVERY));
            measure(&mut cluster, |_| grown);
            assert!(cluster.now < began + seconds(wait), "{grown:?}\n{}", cluster.history());
        }
        if reason == Reason::NodeCPUShort {
            assert!(cluster.now >= began + seconds(60), "it lingers");
        }
        assert_eq!(outcome(&cluster, "new").2, reason, "the one that loses less");
        minutes(&mut cluster, 10, |_| grown);
        assert_eq!(cluster.status("old").interrupted_count, 0, "one was enough");
    }
}

#[test]
fn an_ordinary_pod_that_is_bound_counts_with_its_request_at_once() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(5000), work(30_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    // 1,100 and 5,000 MiB of 10,000, and now 900 more, which kube-scheduler finds free.
    cluster.create_pod(pod("small", 900), FOREVER);
    cluster.run_for(seconds(10));
    assert!(cluster.pod("small").unwrap().node.is_some(), "it waits for nobody");
    assert_eq!(cluster.status("a").interrupted_count, 0);
    cluster.submit(sj("b").asking(500), work(3000));
    minutes(&mut cluster, 2, |_| (1000, 1000));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity), "its request is expected to be used");
    minutes(&mut cluster, 5, |_| (1000, 1000));
    assert_eq!(cluster.status("b").phase, Phase::Running, "it was measured to use nothing");
}

#[test]
fn numbers_that_stand_still_start_nobody_and_interrupt_after_a_quarter_of_an_hour() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(2000), work(30_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    // The same samples are served again and again.
    let stale = Usage { node: "n1".into(), cpu_milli: 1000, memory_bytes: 1000 << 20, time: cluster.now };
    cluster.submit(sj("b").asking(1000), work(3000));
    cluster.run_until_phase("b", Phase::Running);
    let last = cluster.now;
    while cluster.now < last + seconds(5 * 60) {
        cluster.run_for(seconds(EVERY));
        cluster.planner.observe(Observation::Usage(Some(vec![stale.clone()])), cluster.now);
        cluster.planner.observe(Observation::PodUsage(Vec::new()), cluster.now);
        cluster.settle();
    }
    cluster.submit(sj("c").asking(1000), work(3000));
    cluster.run_for(seconds(5 * 60));
    assert_eq!(cluster.waits("c"), Some(WaitingReason::NoCapacity));
    assert_eq!(cluster.status("a").interrupted_count, 0, "after ten minutes");
    cluster.run_for(seconds(6 * 60));
    assert_eq!(outcome(&cluster, "a").2, Reason::NodeNotMeasured);
    assert_eq!(outcome(&cluster, "b").2, Reason::NodeNotMeasured);
}

#[test]
fn a_fresh_planner_starts_nobody_and_interrupts_nobody_until_it_knows() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(3000), work(30_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    cluster.submit(sj("b").asking(1000), work(30_000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    cluster.restart(false);
    cluster.submit(sj("c").asking(1000), work(30_000));
    // By requests 9 of 10 cores and 4 more are taken.
    minutes(&mut cluster, 4, |_| (1000, 1000));
    for name in ["a", "b"] {
        assert_eq!(cluster.status(name).interrupted_count, 0, "{name}\n{}", cluster.history());
    }
    assert_eq!(cluster.waits("c"), Some(WaitingReason::NoCapacity));
    minutes(&mut cluster, 3, |_| (1000, 1000));
    assert_eq!(cluster.status("c").phase, Phase::Running);
}

#[test]
fn a_gang_needs_capacity_by_requests_too() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("gang").asking(400).gang(2), work(3000));
    cluster.submit(sj("one").asking(1000), work(3000));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    assert_eq!(cluster.status("gang").phase, Phase::Running, "{}", cluster.history());
    assert_eq!(attempt(&cluster, "gang").accounting, Accounting::Requests);
    cluster.submit(sj("large").asking(600).gang(2), work(3000));
    minutes(&mut cluster, 2, |_| (1000, 1000));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NoCapacity), "0.2 cores are free by requests");
    assert_eq!(cluster.status("one").phase, Phase::Running);
}

/// What ordinary pods use, or request where nodes have limits of their own, leaves a gang no room, even if all ScavengerJobs end.
#[test]
fn nothing_is_kept_for_a_gang_that_cannot_fit_beside_ordinary_pods() {
    let by_use = settings().by_use();
    let in_groups = settings().with_group("spare", ("zone", "spare"), 0.7).by_use();
    for (settings, requested, used, asked) in [(by_use, 1000, 4000, 4000), (in_groups, 4000, 1000, 5000)] {
        let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000), node("n2", 10_000)]);
        for name in ["web", "shop"] {
            cluster.create_pod(pod(name, requested), FOREVER);
        }
        minutes(&mut cluster, 7, |_| (1000, used));
        cluster.submit(sj("gang").asking(asked).gang(2), work(3000));
        minutes(&mut cluster, 11, |_| (1000, used));
        assert_eq!(cluster.waits("gang"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
        cluster.submit(sj("small").asking(2000), work(3000));
        minutes(&mut cluster, 2, |_| (1000, used));
        assert_eq!(cluster.status("small").phase, Phase::Running, "{}", cluster.status("small").message);
    }
}

#[test]
fn only_selected_nodes_are_counted_by_use_and_what_runs_keeps_its_accounting() {
    let nodes = [node("n1", 10_000).labelled("canary", "yes"), node("n2", 10_000)];
    let mut settings = settings();
    let mut cluster = Cluster::new(settings.clone()).with_nodes(nodes);
    cluster.create_pod(pod("web", 6000), FOREVER);
    cluster.create_pod(pod("shop", 6000), FOREVER);
    cluster.run_for(seconds(5));
    cluster.submit(sj("before").asking(1000), work(30_000));
    cluster.run_until_phase("before", Phase::Running);
    settings = settings.by_use();
    settings.usage.as_mut().unwrap().node_selector = [("canary".into(), "yes".into())].into();
    cluster.set_pool(Ok(settings));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    for name in ["a", "b", "c"] {
        cluster.submit(sj(name).asking(2000), work(30_000));
    }
    minutes(&mut cluster, 2, |_| (1000, 1000));
    let by_use: Vec<_> = cluster
        .scavenger_jobs()
        .filter(|sj| sj.status.attempt.as_ref().is_some_and(|one| one.accounting == Accounting::Usage))
        .map(|sj| sj.status.attempt.as_ref().unwrap().node.as_deref().unwrap().to_owned())
        .collect();
    assert!(
        !by_use.is_empty() && by_use.iter().all(|node| node == "n1"),
        "{by_use:?}\n{}",
        cluster.history()
    );
    assert_eq!(attempt(&cluster, "before").accounting, Accounting::Requests);
}

#[test]
fn a_node_that_was_measured_wrongly_ten_times_too_high_takes_nobody() {
    let mut cluster = reserved(settings().by_use());
    minutes(&mut cluster, 6, |_| (10_000, 10_000));
    cluster.submit(sj("a").asking(1000), work(3000));
    minutes(&mut cluster, 2, |_| (10_000, 10_000));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    // Negative and unknown figures are nobody's.
    for usage in [
        Usage { node: "n1".into(), cpu_milli: -1, memory_bytes: 0, time: cluster.now },
        Usage { node: "nowhere".into(), cpu_milli: 1, memory_bytes: 1, time: cluster.now },
        Usage { node: "n1".into(), cpu_milli: 1, memory_bytes: 1, time: cluster.now + seconds(3600) },
    ] {
        cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
        cluster.planner.observe(Observation::PodUsage(Vec::new()), cluster.now);
        cluster.settle();
    }
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
}

#[test]
fn an_ordinary_container_that_is_killed_on_a_full_node_trips_the_breaker_for_a_day() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(5800), work(300_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    kill_on_a_full_node(&mut cluster, "web-0");
    let now = cluster.now;
    let tripped: Vec<String> = {
        let report = cluster.planner.pool_report(now);
        report.usage.unwrap().tripped.iter().map(|(node, ..)| node.to_string()).collect()
    };
    assert_eq!(tripped, ["n1"]);
    cluster.submit(sj("b").asking(1000), work(3000));
    minutes(&mut cluster, 10, |_| (1000, 1000));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity), "by requests it is full");
    assert_eq!(outcome(&cluster, "a").2, Reason::OrdinaryPodKilled, "what was started by use goes");
    let message = super::attempt(&cluster, "a").message.clone();
    assert_eq!(message.as_deref(), Some("an ordinary pod on node n1 ran out of memory beside ScavengerJobs"));
    assert_eq!(cluster.status("a").counted_interruptions, 0, "an own pod may be killed on purpose");
    cluster.run_for(seconds(24 * 3600));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    assert!(cluster.planner.pool_report(cluster.now).usage.unwrap().tripped.is_empty());
    assert_eq!(cluster.status("a").phase, Phase::Running);
}

/// Nobody knows what it would have used, but what is done to it counts.
#[test]
fn a_pod_without_requests_that_is_killed_on_a_full_node_trips_the_breaker_too() {
    let mut cluster = reserved(settings().by_use());
    let mut daemon = pod("daemon", 0);
    daemon.requests = Resources::default();
    cluster.create_pod(daemon, FOREVER);
    cluster.submit(sj("a").asking(5800), work(300_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    kill_on_a_full_node(&mut cluster, "daemon");
    let report = cluster.planner.pool_report(cluster.now).usage.unwrap();
    assert_eq!(report.tripped.len(), 1, "{}", cluster.history());
    assert_eq!(outcome(&cluster, "a").2, Reason::OrdinaryPodKilled);
}

#[test]
fn memory_that_an_ordinary_pod_may_take_at_once_stays_free() {
    // One pod with 9,000 MiB may take 8,000 more at any moment; nine with 1,000 each take 1,000 at once.
    for (pods, starts) in [(1, false), (9, true)] {
        let mut settings = settings();
        settings.start_thresholds.default = scavenger_planner::resources::Share::from_fraction(0.8);
        let mut cluster = Cluster::new(settings.by_use()).with_nodes([node("n1", 10_000)]);
        for number in 0..pods {
            let mut one = pod(&format!("web-{number}"), 9000 / pods);
            one.requests = Resources { cpu_milli: 1000 / pods, ..one.requests };
            cluster.create_pod(one, FOREVER);
        }
        cluster.submit(sj("a").asking(4000), work(3000));
        minutes(&mut cluster, 7, |_| (500, 1000));
        assert_eq!(cluster.status("a").phase == Phase::Running, starts, "{pods} pods\n{}", cluster.history());
    }
}

/// Of two nodes one was never measured. Who waits for long gets a reservation, for which all nodes are looked at.
#[test]
fn a_reservation_beside_a_node_that_was_never_measured() {
    let mut cluster = Cluster::new(settings().by_use()).with_nodes([node("n1", 10_000), node("n2", 10_000)]);
    cluster.submit(sj("large").asking(6500), work(3000));
    cluster.submit(sj("small").asking(500), work(30_000));
    for _ in 0..20 * 60 / EVERY {
        cluster.run_for(seconds(EVERY));
        let held: i64 = cluster.all_live_pods().iter().map(|pod| pod.holds().cpu_milli).sum();
        let usage =
            Usage { node: "n1".into(), cpu_milli: 2000 + held, memory_bytes: 1 << 30, time: cluster.now };
        cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
        cluster.planner.observe(Observation::PodUsage(Vec::new()), cluster.now);
        cluster.settle();
    }
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    assert_eq!(cluster.status("small").phase, Phase::Running);
    assert_eq!(attempt(&cluster, "small").node.as_deref(), Some("n1"), "nobody knows what n2 uses");
}

/// A node is measured a little late, and has in its figure what a ScavengerJob used that has ended since.
#[test]
fn the_end_of_one_does_not_interrupt_another() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("ends").asking(3500), work(500));
    cluster.submit(sj("stays").asking(2000), work(30_000));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    for name in ["ends", "stays"] {
        assert_eq!(cluster.status(name).phase, Phase::Running, "{name}\n{}", cluster.history());
    }
    cluster.run_until_phase("ends", Phase::Completed);
    // 1,000 of ordinary pods, 3,500 of the one that has ended, and 1,000 of the other.
    let usage = Usage { node: "n1".into(), cpu_milli: 8000, memory_bytes: 8500 << 20, time: cluster.now };
    cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
    cluster.planner.observe(Observation::PodUsage(Vec::new()), cluster.now);
    cluster.settle();
    cluster.run_for(seconds(EVERY));
    assert_eq!(cluster.status("stays").interrupted_count, 0, "{}", cluster.history());
}

/// Another replica leads from now on, and reads what the one before it wrote down `ago`.
fn another_leads(cluster: &mut Cluster, ago: i64) {
    let remembered = cluster.planner.remembered_use().expect("it counts by use");
    cluster.run_for(seconds(ago));
    cluster.restart(true);
    cluster.tell(Observation::RememberedUse(Box::new(remembered)));
    cluster.settle();
}

#[test]
fn another_leader_knows_what_the_one_before_it_knew() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(4000), work(30_000));
    minutes(&mut cluster, 8, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    another_leads(&mut cluster, 60);
    assert_eq!(cluster.planner.pool_report(cluster.now).usage.unwrap().known, 0, "nothing was measured yet");
    cluster.submit(sj("b").asking(1000), work(3000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    assert_eq!(cluster.planner.pool_report(cluster.now).usage.unwrap().known, 1);
    assert_eq!(cluster.status("b").phase, Phase::Running, "{}", cluster.history());
    // What it expects is no less: the peak of before is remembered, too.
    minutes(&mut cluster, 3, |_| (1900, 1000));
    another_leads(&mut cluster, 30);
    minutes(&mut cluster, 1, |_| (1000, 1000));
    cluster.submit(sj("c").asking(500), work(3000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    assert_eq!(cluster.waits("c"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn after_a_long_time_without_a_leader_a_node_is_measured_anew() {
    let mut cluster = reserved(settings().by_use());
    minutes(&mut cluster, 8, |_| (1000, 1000));
    another_leads(&mut cluster, 20 * 60);
    cluster.submit(sj("a").asking(4000), work(3000));
    minutes(&mut cluster, 3, |_| (1000, 1000));
    assert_eq!(cluster.planner.pool_report(cluster.now).usage.unwrap().known, 0);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    minutes(&mut cluster, 4, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
}

#[test]
fn another_leader_counts_a_node_by_requests_for_the_rest_of_the_day() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(5800), work(300_000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    kill_on_a_full_node(&mut cluster, "web-0");
    minutes(&mut cluster, 10, |_| (1000, 1000));
    for _ in 0..2 {
        another_leads(&mut cluster, 30);
        minutes(&mut cluster, 7, |_| (1000, 1000));
        let report = cluster.planner.pool_report(cluster.now).usage.unwrap();
        assert_eq!(report.tripped.len(), 1);
        assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    }
    cluster.run_for(seconds(24 * 3600));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
}

#[test]
fn a_young_pod_counts_with_its_request_for_another_leader_too() {
    let mut cluster = reserved(settings().by_use());
    cluster.create_pod(pod("small", 900), FOREVER);
    minutes(&mut cluster, 8, |_| (1000, 1000));
    // 70% of 10 cores, less 1.2 that are expected.
    cluster.submit(sj("a").asking(5500), work(30_000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
    let small = cluster.pod("small").unwrap().key.clone();
    cluster.delete_pod(&small);
    cluster.run_for(seconds(60));
    cluster.create_pod(pod("fresh", 900), FOREVER);
    minutes(&mut cluster, 1, |_| (500, 500));
    another_leads(&mut cluster, 30);
    cluster.submit(sj("b").asking(200), work(3000));
    minutes(&mut cluster, 1, |_| (500, 500));
    assert_eq!(cluster.waits("b"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
}

#[test]
fn where_a_limit_range_refuses_small_requests_the_namespace_is_counted_by_requests() {
    let mut cluster = reserved(settings().filled_to(1.0).by_use());
    cluster.least_cpu.insert(NAMESPACE.into(), 100);
    for (name, cpu) in [("small", 500), ("large", 3000)] {
        cluster.submit(sj(name).asking(cpu), work(30_000));
    }
    minutes(&mut cluster, 10, |_| (1000, 1000));
    // A tenth of the node is not reserved.
    assert_eq!(cluster.status("small").phase, Phase::Running, "{}", cluster.history());
    assert_eq!(attempt(&cluster, "small").accounting, Accounting::Requests);
    assert_eq!(cluster.live_pods("small")[0].requests.cpu_milli, 500);
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NoCapacity), "{:?}", cluster.status("large"));
    let first = cluster.starts.iter().filter(|(sj, _)| &*sj.name == "large").count();
    assert!(first <= 1, "it was tried at most once, before anybody knew");
    let withdrawn = cluster.log.iter().find_map(|(_, action)| match &action.task {
        Task::WriteStatus(write) => {
            Some(&write.status.message).filter(|message| message.contains("LimitRange"))
        }
        _ => None,
    });
    assert_eq!(
        withdrawn.map(String::as_str),
        Some(
            "a LimitRange of the namespace refuses pods that request next to nothing, as accounting Usage makes them; its \
             ScavengerJobs are counted by requests: pods \"large-1-0\" is forbidden: minimum cpu usage per Container is \
             100m, but request is 0m"
        )
    );
    // Another leader knows, and tries none.
    another_leads(&mut cluster, 30);
    cluster.submit(sj("new").asking(3000), work(30_000));
    minutes(&mut cluster, 10, |_| (1000, 1000));
    assert!(!cluster.starts.iter().any(|(sj, _)| &*sj.name == "new"), "{}", cluster.history());
    cluster.delete_sj("new");
    // In an hour it is tried again, and the LimitRange is gone.
    cluster.least_cpu.clear();
    minutes(&mut cluster, 62, |_| (1000, 1000));
    assert_eq!(cluster.status("large").phase, Phase::Running, "{}", cluster.history());
    assert_eq!(attempt(&cluster, "large").accounting, Accounting::Usage);
    assert_eq!(
        attempt(&cluster, "small").accounting,
        Accounting::Requests,
        "it keeps what it was started with"
    );
}
