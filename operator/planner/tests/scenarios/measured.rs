//! Who goes when a node really uses more memory than its pods ask for.

use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    report::Measuring,
    values::{Observation, Phase, Reason, Usage, WaitingReason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{outcome, work};

/// Three on one node with 10,000 MiB, of which one loses more than the others, and one on another node.
fn cluster() -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    for (name, node, cpu) in
        [("dear", "n1", 3000), ("a", "n1", 1000), ("b", "n1", 1000), ("other", "n2", 1000)]
    {
        cluster.submit(sj(name).asking(cpu).only_on("name", node), work(3000));
        cluster.run_until_phase(name, Phase::Running);
    }
    cluster
}

fn measuring(cluster: &Cluster) -> Measuring {
    cluster.planner.pool_report(cluster.now).measuring_memory
}

/// Node n1 was just measured to use so many MiB.
fn observe(cluster: &mut Cluster, mib: i64) {
    let usage = Usage { node: "n1".into(), cpu_milli: 0, memory_bytes: mib << 20, time: cluster.now };
    cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
}

/// The same, and all that it led to at once was done.
fn measure(cluster: &mut Cluster, mib: i64) {
    observe(cluster, mib);
    cluster.settle();
}

fn interrupted(cluster: &Cluster) -> Vec<&str> {
    let all = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
    all.map(|sj| &*sj.key.name).collect()
}

#[test]
fn the_cheapest_go_until_what_they_asked_for_would_do() {
    let mut cluster = cluster();
    measure(&mut cluster, 8990);
    cluster.run_for(seconds(10));
    assert_eq!(interrupted(&cluster), Vec::<&str>::new(), "less than 90%");
    assert_eq!(measuring(&cluster), Measuring::Yes);
    // 9,800 of 10,000: 1,300 must go to reach 85%.
    measure(&mut cluster, 9800);
    cluster.run_for(seconds(10));
    assert_eq!(interrupted(&cluster), ["a", "b"]);
    assert_eq!(outcome(&cluster, "a").2, Reason::NodePressure);
    let message = cluster.status("a").attempt.as_ref().unwrap().message.clone().unwrap_or_default();
    assert_eq!(message, "node n1 uses 9800 MiB of its 10000 MiB, as measured: more than 90%");
}

#[test]
fn nobody_else_goes_before_it_was_measured_again() {
    let mut cluster = cluster();
    let old = cluster.now;
    measure(&mut cluster, 9800);
    cluster.run_for(seconds(5));
    assert_eq!(interrupted(&cluster), ["a", "b"]);
    // The same measurement again, as it is read every 15 s.
    for _ in 0..3 {
        let usage = Usage { node: "n1".into(), cpu_milli: 0, memory_bytes: 9800 << 20, time: old };
        cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
        cluster.settle();
        cluster.run_for(seconds(1));
    }
    assert_eq!(interrupted(&cluster), ["a", "b"], "what was measured before they went");
    assert_eq!(cluster.status("dear").interrupted_count, 0);
    measure(&mut cluster, 9500);
    cluster.run_for(seconds(5));
    assert_eq!(cluster.status("dear").interrupted_count, 1);
    assert_eq!(cluster.status("other").interrupted_count, 0, "another node's memory is not short");
}

#[test]
fn one_that_never_goes_does_not_end_the_relief() {
    let nodes = [node("n1", 10_000)];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    for (name, cpu, hangs) in [("hangs", 1000, true), ("next", 2000, false), ("dear", 4000, false)] {
        cluster.submit(sj(name).asking(cpu), Workload { hangs, ..work(3000) });
        cluster.run_until_phase(name, Phase::Running);
    }
    for _ in 0..2 {
        observe(&mut cluster, 9400);
        cluster.run_for(seconds(10));
    }
    assert_eq!(interrupted(&cluster), ["hangs"], "it is waited for");
    cluster.run_for(seconds(20));
    observe(&mut cluster, 9400);
    cluster.run_for(seconds(5));
    assert_eq!(interrupted(&cluster), ["hangs", "next"]);
}

#[test]
fn none_comes_back_before_the_node_has_come_down() {
    let mut cluster = cluster();
    measure(&mut cluster, 9800);
    cluster.run_for(seconds(60));
    for mib in [8990, 8700] {
        // Below 90%, and not down to 85%.
        measure(&mut cluster, mib);
        cluster.run_for(seconds(120));
        assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "{mib}");
    }
    measure(&mut cluster, 5000);
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_until_phase("b", Phase::Running);
    assert_eq!(interrupted(&cluster), ["a", "b"]);
}

#[test]
fn without_a_measurement_nobody_goes() {
    let mut cluster = cluster();
    assert_eq!(measuring(&cluster), Measuring::No);
    cluster.planner.observe(Observation::Usage(None), cluster.now);
    let since = cluster.now;
    cluster.run_for(seconds(60));
    cluster.planner.observe(Observation::Usage(None), cluster.now);
    assert_eq!(measuring(&cluster), Measuring::NotSince(since));
    cluster.run_for(seconds(60));
    assert!(interrupted(&cluster).is_empty());
}

/// What a metrics-server says that is away, or has just been started.
const NO_ANSWER: [Option<Vec<Usage>>; 2] = [None, Some(Vec::new())];

#[test]
fn a_node_that_was_hot_when_nothing_was_measured_any_more_stays_closed() {
    for mib in [9800, 8990] {
        for no_answer in NO_ANSWER {
            let mut cluster = cluster();
            measure(&mut cluster, 9800);
            cluster.run_for(seconds(5));
            // Below 90%, and not down to 85%, is not down either.
            measure(&mut cluster, mib);
            let since = cluster.now;
            // Half an hour, and no cliff in it: not the hot node opens, and not the other closes.
            for _ in 0..120 {
                cluster.planner.observe(Observation::Usage(no_answer.clone()), cluster.now);
                cluster.settle();
                cluster.run_for(seconds(15));
            }
            assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
            assert_eq!(measuring(&cluster), Measuring::NotSince(since));
            cluster.submit(sj("elsewhere").only_on("name", "n2"), work(10));
            cluster.run_until_phase("elsewhere", Phase::Completed);
            measure(&mut cluster, 5000);
            assert_eq!(measuring(&cluster), Measuring::Yes);
            cluster.run_until_phase("a", Phase::Running);
        }
    }
}

#[test]
fn after_a_while_without_measurements_none_is_missing_at_once() {
    for no_answer in NO_ANSWER {
        let mut cluster = cluster();
        measure(&mut cluster, 5000);
        measure_only_the_other(&mut cluster);
        for _ in 0..40 {
            cluster.run_for(seconds(15));
            cluster.planner.observe(Observation::Usage(no_answer.clone()), cluster.now);
        }
        // It begins again with some nodes, as metrics-server does.
        measure_only_the_other(&mut cluster);
        cluster.submit(sj("early").only_on("name", "n1"), work(10));
        cluster.run_until_phase("early", Phase::Completed);
        for _ in 0..21 {
            cluster.run_for(seconds(15));
            measure_only_the_other(&mut cluster);
        }
        cluster.submit(sj("late").only_on("name", "n1"), work(10));
        cluster.run_for(seconds(60));
        assert_eq!(cluster.waits("late"), Some(WaitingReason::NoCapacity));
        // One reading without an answer changes nothing.
        cluster.planner.observe(Observation::Usage(no_answer), cluster.now);
        cluster.run_for(seconds(60));
        assert_eq!(cluster.waits("late"), Some(WaitingReason::NoCapacity));
        measure(&mut cluster, 5000);
        cluster.run_until_phase("late", Phase::Completed);
    }
}

/// Node n2 was just measured, and n1 was not.
fn measure_only_the_other(cluster: &mut Cluster) {
    let usage = Usage { node: "n2".into(), cpu_milli: 0, memory_bytes: 100 << 20, time: cluster.now };
    cluster.planner.observe(Observation::Usage(Some(vec![usage])), cluster.now);
    cluster.settle();
}

#[test]
fn a_node_that_drops_out_of_the_metrics_stays_as_full_as_it_was() {
    let mut cluster = cluster();
    measure(&mut cluster, 9800);
    for _ in 0..40 {
        cluster.run_for(seconds(15));
        measure_only_the_other(&mut cluster);
    }
    assert_eq!(interrupted(&cluster), ["a", "b"], "nobody else goes for what was measured before");
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    measure(&mut cluster, 5000);
    cluster.run_until_phase("a", Phase::Running);
}

#[test]
fn a_node_that_was_not_measured_for_long_counts_as_full() {
    let mut cluster = cluster();
    measure(&mut cluster, 5000);
    for _ in 0..19 {
        cluster.run_for(seconds(15));
        measure_only_the_other(&mut cluster);
    }
    cluster.submit(sj("early").only_on("name", "n1"), work(10));
    cluster.run_until_phase("early", Phase::Running);
    cluster.run_for(seconds(30));
    measure_only_the_other(&mut cluster);
    cluster.submit(sj("late").only_on("name", "n1"), work(10));
    cluster.submit(sj("unmeasured").only_on("name", "n3"), work(10));
    cluster.set_node(node("n3", 10_000).labelled("name", "n3"));
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("late"), Some(WaitingReason::NoCapacity));
    // Some nodes are never measured: those of a virtual kubelet, say.
    cluster.run_until_phase("unmeasured", Phase::Completed);
    // Where nobody measures any more, measurements keep nobody out.
    cluster.planner.observe(Observation::UsageNotServed, cluster.now);
    assert_eq!(measuring(&cluster), Measuring::No);
    cluster.run_until_phase("late", Phase::Completed);
    assert!(interrupted(&cluster).is_empty());
}

#[test]
fn those_on_a_full_node_can_still_go_for_a_pending_pod() {
    let mut cluster = cluster();
    cluster.set_pool(Ok(settings().preempting().filled_to(1.0)));
    measure(&mut cluster, 9800);
    cluster.run_for(seconds(5));
    measure(&mut cluster, 8800);
    let mut owner = pod("owner", 9500).patient();
    owner.placement.node_selector.insert("name".into(), "n1".into());
    cluster.create_pod(owner, seconds(100));
    cluster.run_until("it has a node", |cluster| cluster.pod("owner").is_some_and(|pod| pod.node.is_some()));
    assert_eq!(interrupted(&cluster), ["a", "b", "dear"]);
}

#[test]
fn what_is_not_served_any_more_keeps_nobody_out() {
    let mut cluster = cluster();
    measure(&mut cluster, 9800);
    cluster.run_for(seconds(5));
    cluster.planner.observe(Observation::Usage(None), cluster.now);
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    cluster.planner.observe(Observation::UsageNotServed, cluster.now);
    cluster.run_until_phase("a", Phase::Running);
}
