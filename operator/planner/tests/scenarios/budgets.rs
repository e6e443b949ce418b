//! Budgets of the pool for interruptions that can wait. The model begins at 08:00:00 UTC.

use jiff::{Timestamp, civil::time};
use scavenger_planner::{
    fixtures::{at, budget, daily, node, pod, seconds, settings, sj},
    resources::Share,
    values::{Budget, Node, Phase, Reason, Settings},
};
use scavenger_simulator::Cluster;

use super::work;

/// 40 ScavengerJobs on 4 nodes that they fill.
fn full(settings: Settings) -> Cluster {
    let nodes: Vec<Node> =
        (0..4).map(|number| node(&format!("p{number}"), 10_000).labelled("pool", "yes")).collect();
    let settings = Settings { node_selector: [("pool".into(), "yes".into())].into(), ..settings };
    let mut cluster = Cluster::new(settings.filled_to(1.0)).with_nodes(nodes);
    for number in 0..40 {
        cluster.submit(sj(&format!("job{number}")), work(100_000));
    }
    cluster.run_for(seconds(60));
    assert_eq!(running(&cluster), 40);
    // More may be used than thresholds allow that are set later.
    cluster.strict = false;
    cluster
}

fn running(cluster: &Cluster) -> usize {
    cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count()
}

/// Nearly nothing of the pool may be used.
fn tight(budgets: Vec<Budget>) -> Settings {
    let mut tight = Settings { budgets, ..settings() };
    tight.node_selector = [("pool".into(), "yes".into())].into();
    tight.headroom.interrupt_threshold = Some(Share::from_fraction(0.09));
    tight.headroom.target = Share::from_fraction(0.08);
    tight.start_thresholds.default = Share::from_fraction(0.07);
    tight
}

/// How many are interrupted, or were, for this reason.
fn interrupted(cluster: &Cluster, reason: &Reason) -> usize {
    let decided = |sj: &&scavenger_planner::values::ScavengerJob| {
        let attempt = sj.status.attempt.as_deref();
        attempt.and_then(|attempt| attempt.decided()).is_some_and(|decided| decided.reason == *reason)
    };
    cluster.scavenger_jobs().filter(decided).count()
}

/// What is held back for a reason: how many, and until when.
fn held(cluster: &Cluster, reason: &Reason) -> Option<(usize, Option<Timestamp>)> {
    let held = cluster.planner.held_back(cluster.now);
    held.iter().find(|held| held.reason == reason).map(|held| (held.jobs.len(), held.next))
}

/// The label of a node is gone, and with it the node from the pool.
fn take_out(cluster: &mut Cluster, node: &str) {
    let mut node = cluster.all_nodes().find(|there| &*there.name == node).expect("a node").clone();
    node.labels.clear();
    cluster.set_node(node);
}

#[test]
fn a_budget_of_none_holds_headroom_back_until_its_time_is_over() {
    let mut cluster = full(settings());
    let morning = Budget {
        reasons: vec![Reason::Headroom],
        schedule: Some(daily(time(7, 0, 0, 0), time(8, 5, 0, 0))),
        ..budget(0, 10)
    };
    cluster.set_pool(Ok(tight(vec![morning])));
    cluster.run_for(seconds(60));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 0, "{}", cluster.history());
    // Of 40 cores all but three would go.
    assert_eq!(held(&cluster, &Reason::Headroom), Some((37, Some(at(300)))));
    // Nobody sees anything until then, and from then on what is usual holds.
    cluster.run_until("it is five past eight", |cluster| cluster.now >= at(303));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 10, "{}", cluster.history());
    cluster.run_for(seconds(60));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 37);
    assert_eq!(held(&cluster, &Reason::Headroom), None);
}

#[test]
fn what_is_mended_is_held_back_no_longer() {
    let mut cluster = full(settings());
    cluster.set_pool(Ok(tight(vec![budget(0, 10)])));
    cluster.run_for(seconds(20));
    assert_eq!(held(&cluster, &Reason::Headroom), Some((37, None)), "it never may");
    let mended = Settings { budgets: vec![budget(0, 10)], ..settings() }.filled_to(1.0);
    cluster.set_pool(Ok(Settings { node_selector: [("pool".into(), "yes".into())].into(), ..mended }));
    cluster.run_for(seconds(5));
    assert_eq!(held(&cluster, &Reason::Headroom), None);
    assert_eq!(running(&cluster), 40);
}

#[test]
fn reasons_share_a_budget_and_the_next_operator_goes_on_counting() {
    let mut cluster = full(settings());
    take_out(&mut cluster, "p3");
    cluster.set_pool(Ok(tight(vec![budget(4, 120)])));
    cluster.run_for(seconds(30));
    // The node has been outside for less than a minute.
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 4);
    cluster.run_for(seconds(50));
    assert_eq!(interrupted(&cluster, &Reason::NodeLeftPool), 0, "{}", cluster.history());
    assert!(held(&cluster, &Reason::NodeLeftPool).is_some_and(|(jobs, _)| jobs > 0));
    cluster.restart(false);
    cluster.run_for(seconds(30));
    let both = |cluster: &Cluster| {
        interrupted(cluster, &Reason::Headroom) + interrupted(cluster, &Reason::NodeLeftPool)
    };
    assert_eq!(both(&cluster), 4, "{}", cluster.history());
    cluster.run_for(seconds(30));
    assert_eq!(both(&cluster), 8, "{}", cluster.history());
}

#[test]
fn what_cannot_wait_asks_no_budget() {
    for reason in [Reason::NodePressure, Reason::Drained, Reason::PreemptedByOperator] {
        let none = Settings { budgets: vec![budget(0, 3600)], ..settings().preempting() };
        let mut cluster = full(none.clone());
        let node = cluster.all_nodes().next().expect("a node").clone();
        match reason {
            Reason::Drained => {
                let drain = Settings { drain: true, ..none }.filled_to(1.0);
                let node_selector = [("pool".into(), "yes".into())].into();
                cluster.set_pool(Ok(Settings { node_selector, ..drain }));
            }
            Reason::NodePressure => cluster.set_node(node.pressed("MemoryPressure")),
            _ => cluster.create_pod(pod("shop", 10_000).patient(), seconds(10_000)),
        }
        cluster.run_for(seconds(5));
        let all = if reason == Reason::Drained { 40 } else { 10 };
        assert_eq!(interrupted(&cluster, &reason), all, "{reason}\n{}", cluster.history());
    }
}

#[test]
fn of_several_budgets_the_smallest_counts() {
    let mut cluster = full(settings());
    let few = Budget { reasons: vec![Reason::Headroom], ..budget(2, 60) };
    let half = Budget { share: Share::from_fraction(0.5), ..budget(1, 60) };
    cluster.set_pool(Ok(tight(vec![half, few])));
    cluster.run_for(seconds(10));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 2);
}
