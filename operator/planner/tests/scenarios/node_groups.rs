//! Groups of nodes with thresholds of their own, whichever way cpu and memory are counted.

use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    resources::Share,
    values::{Accounting, Outcome, Phase, Reason, Settings, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::{attempt, outcome, work};

/// A node with a fast network and two others, of 10 cores each. ScavengerJobs fill them up to 30% and 70%.
fn three(settings: Settings) -> Cluster {
    Cluster::new(settings.with_group("fast", ("net", "fast"), 0.3)).with_nodes([
        node("fast-1", 10_000).labelled("net", "fast"),
        node("plain-1", 10_000).labelled("net", "slow"),
        node("plain-2", 10_000).labelled("net", "slow"),
    ])
}

/// What ScavengerJobs hold on a node, in millicores.
fn held_on(cluster: &Cluster, node: &str) -> i64 {
    let pods = cluster.all_live_pods();
    let there = pods.iter().filter(|pod| pod.owner.is_some() && pod.node.as_deref() == Some(node));
    there.map(|pod| pod.holds().cpu_milli).sum()
}

fn held(cluster: &Cluster) -> [i64; 3] {
    ["fast-1", "plain-1", "plain-2"].map(|node| held_on(cluster, node))
}

#[test]
fn each_node_is_filled_to_the_threshold_of_its_group() {
    let mut cluster = three(settings());
    for number in 0..30 {
        cluster.submit(sj(&format!("any-{number:02}")).asking(1000), work(10_000));
    }
    cluster.run_for(seconds(300));
    assert_eq!(held(&cluster), [3000, 7000, 7000], "{}", cluster.history());
    // They are placed by the operator, and counted by requests as ever.
    let running =
        cluster.scavenger_jobs().find(|sj| sj.status.phase == Phase::Running).unwrap().key.name.clone();
    let attempt = attempt(&cluster, &running);
    assert_eq!(attempt.accounting, Accounting::Requests);
    assert!(attempt.node.is_some());
    let why = cluster.waits("any-29");
    assert!(matches!(why, Some(WaitingReason::NoCapacity | WaitingReason::BehindInQueue)), "{why:?}");
}

/// Nodes that may be filled further lend nothing to those that may not.
#[test]
fn a_group_that_is_empty_lends_nothing_to_other_nodes() {
    let mut cluster = Cluster::new(settings().with_group("spot", ("kind", "spot"), 1.0)).with_nodes([
        node("plain-1", 10_000).labelled("kind", "plain"),
        node("spot-1", 10_000).labelled("kind", "spot"),
    ]);
    for number in 0..12 {
        cluster.submit(sj(&format!("plain-{number:02}")).asking(1000).only_on("kind", "plain"), work(10_000));
    }
    cluster.run_for(seconds(300));
    assert_eq!([held_on(&cluster, "plain-1"), held_on(&cluster, "spot-1")], [7000, 0]);
    for number in 0..12 {
        cluster.submit(sj(&format!("any-{number:02}")).asking(1000), work(10_000));
    }
    cluster.run_for(seconds(300));
    assert_eq!([held_on(&cluster, "plain-1"), held_on(&cluster, "spot-1")], [7000, 10_000]);
}

#[test]
fn what_is_more_than_the_group_may_hold_never_fits() {
    let mut cluster = three(settings());
    cluster.submit(sj("small").asking(3000).only_on("net", "fast"), work(100));
    cluster.submit(sj("large").asking(4000).only_on("net", "fast"), work(100));
    cluster.run_until_phase("small", Phase::Running);
    cluster.run_for(seconds(10));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NeverFits));
    // Another threshold, and it fits.
    let other = settings().with_group("fast", ("net", "fast"), 0.8);
    cluster.set_pool(Ok(other));
    cluster.run_until_phase("large", Phase::Running);
}

/// kube-scheduler places its pods, and they count as those of any other.
#[test]
fn a_gang_needs_nodes_whose_thresholds_leave_enough() {
    let mut cluster = three(settings());
    cluster.submit(sj("large").gang(2).asking(8000), work(100));
    cluster.submit(sj("fits").gang(2).asking(5000), work(100));
    cluster.run_until_phase("fits", Phase::Running);
    assert_eq!(attempt(&cluster, "fits").node, None);
    // No reservation is kept for what never fits.
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NeverFits), "{}", cluster.history());
    cluster.run_until_phase("fits", Phase::Completed);
    cluster.run_for(seconds(1000));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NeverFits));
}

/// Gangs need capacity by requests on nodes that are counted by use, and stay below what these may be filled to.
#[test]
fn a_gang_that_is_larger_than_every_threshold_by_use_never_fits() {
    let mut cluster = three(settings().by_use());
    cluster.submit(sj("large").gang(2).asking(8000), work(100));
    super::node_use::minutes(&mut cluster, 12, |_| (100, 100));
    assert_eq!(cluster.waits("large"), Some(WaitingReason::NeverFits), "{}", cluster.history());
    cluster.submit(sj("fits").gang(2).asking(5000), work(100_000));
    super::node_use::minutes(&mut cluster, 3, |_| (100, 100));
    assert_eq!(cluster.status("fits").phase, Phase::Running, "{}", cluster.history());
    assert_eq!(attempt(&cluster, "fits").accounting, Accounting::Requests);
}

/// Those on other nodes are left alone, although the pool is far from its threshold.
#[test]
fn headroom_of_a_group_is_its_own() {
    let mut pool = settings().with_group("fast", ("net", "fast"), 0.3);
    let headroom = &mut pool.node_groups[0].filling.headroom;
    (headroom.interrupt_threshold, headroom.target) =
        (Some(Share::from_fraction(0.5)), Share::from_fraction(0.4));
    let mut cluster = Cluster::new(pool).with_nodes([
        node("fast-1", 10_000).labelled("net", "fast"),
        node("plain-1", 10_000).labelled("net", "slow"),
    ]);
    for number in 0..3 {
        cluster.submit(sj(&format!("fast-{number}")).asking(1000).only_on("net", "fast"), work(10_000));
        cluster.submit(sj(&format!("plain-{number}")).asking(1000).only_on("net", "slow"), work(10_000));
    }
    cluster.run_for(seconds(120));
    assert_eq!([held_on(&cluster, "fast-1"), held_on(&cluster, "plain-1")], [3000, 3000]);
    let mut ordinary = pod("ordinary", 3000);
    ordinary.placement.node_selector.insert("net".into(), "fast".into());
    cluster.create_pod(ordinary, seconds(10_000));
    cluster.run_for(seconds(120));
    // 6 of 10 cores are more than half: down to 4.
    assert_eq!(
        [held_on(&cluster, "fast-1"), held_on(&cluster, "plain-1")],
        [1000, 3000],
        "{}",
        cluster.history()
    );
    let gone = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
    let gone: Vec<String> = gone.map(|sj| sj.key.name.to_string()).collect();
    assert_eq!(gone.len(), 2, "{gone:?}");
    for name in &gone {
        assert_eq!(outcome(&cluster, name), (1, Some(Outcome::Interrupted), Reason::Headroom));
    }
    let message = attempt(&cluster, &gone[0]).message.clone().unwrap_or_default();
    assert!(
        message.contains("on the nodes of group fast, more than the interruptThreshold of 50%"),
        "{message}"
    );
}

#[test]
fn by_use_each_node_is_filled_to_the_threshold_of_its_group_too() {
    let mut cluster = three(settings().by_use());
    for name in ["fast-1", "plain-1", "plain-2"] {
        for number in 0..9 {
            let mut ordinary = pod(&format!("{name}-{number}"), 1000);
            ordinary
                .placement
                .node_selector
                .insert("net".into(), if name == "fast-1" { "fast" } else { "slow" }.into());
            cluster.create_pod(ordinary, seconds(1_000_000));
        }
    }
    cluster.settle();
    for number in 0..30 {
        cluster.submit(sj(&format!("any-{number:02}")).asking(500), work(100_000));
    }
    super::node_use::minutes(&mut cluster, 12, |_| (1000, 1000));
    let [fast, one, other] = held(&cluster);
    // A core is used, and a tenth more is expected, rounded up: 1.9 cores are left of 3, and 5.9 of 7.
    assert_eq!([fast, one, other], [1500, 5500, 5500], "{}", cluster.history());
    let running = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running);
    let names: Vec<String> = running.map(|sj| sj.key.name.to_string()).collect();
    assert!(names.iter().all(|name| attempt(&cluster, name).accounting == Accounting::Usage));
    // Other settings while everything runs: nothing is interrupted for a start threshold that fell.
    let other = settings().by_use().with_group("fast", ("net", "fast"), 0.2);
    cluster.set_pool(Ok(other));
    super::node_use::minutes(&mut cluster, 3, |_| (1000, 1000));
    assert_eq!(held(&cluster), [1500, 5500, 5500]);
}
