//! What concerns many ScavengerJobs in the same second, and is mended in a minute: it costs a tenth of them in a round of ten
//! seconds. What cannot wait does.

use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    resources::Share,
    values::{Node, Phase, Reason, Settings},
};
use scavenger_simulator::Cluster;

use super::work;

/// 200 ScavengerJobs on 20 nodes that they fill.
fn full(settings: Settings) -> Cluster {
    let nodes: Vec<Node> = (0..20).map(|number| node(&format!("p{number}"), 10_000)).collect();
    let mut cluster = Cluster::new(settings).with_nodes(nodes);
    for number in 0..200 {
        cluster.submit(sj(&format!("job{number}")), work(30_000));
    }
    cluster.run_for(seconds(60));
    assert_eq!(running(&cluster), 200);
    // More may be used than thresholds allow that are set later.
    cluster.strict = false;
    cluster
}

fn running(cluster: &Cluster) -> usize {
    cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count()
}

/// How many were interrupted, and nothing but this was the reason.
fn interrupted(cluster: &Cluster, reason: &Reason) -> usize {
    let interrupted = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
    interrupted
        .inspect(|sj| {
            let attempt = sj.status.attempt.as_ref().expect("an attempt was made");
            assert!(attempt.outcome.is_none() || attempt.reason.as_ref() == Some(reason), "{attempt:?}");
        })
        .count()
}

#[test]
fn a_threshold_with_a_typing_error_costs_little_until_it_is_mended() {
    let mut cluster = full(settings().filled_to(1.0));
    let mut mistyped = settings();
    mistyped.headroom.interrupt_threshold = Some(Share::from_fraction(0.09));
    mistyped.headroom.target = Share::from_fraction(0.08);
    mistyped.start_thresholds.default = Share::from_fraction(0.07);
    cluster.set_pool(Ok(mistyped));
    cluster.run_for(seconds(5));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 20);
    cluster.run_for(seconds(10));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 38);
    cluster.set_pool(Ok(settings().filled_to(1.0)));
    cluster.run_for(seconds(200));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 38);
    assert_eq!(running(&cluster), 200);
}

#[test]
fn headroom_that_costs_less_than_a_tenth_is_there_at_once() {
    let mut cluster = full(settings().filled_to(1.0));
    // 2% more than the threshold, down to the target: 14 of 200 cores, and 14 of 200 go.
    let mut settings = settings();
    settings.headroom.interrupt_threshold = Some(Share::from_fraction(0.98));
    settings.headroom.target = Share::from_fraction(0.93);
    cluster.set_pool(Ok(settings));
    cluster.run_for(seconds(5));
    assert_eq!(interrupted(&cluster, &Reason::Headroom), 14);
}

#[test]
fn nodes_under_pressure_and_a_drain_wait_for_no_round() {
    for reason in [Reason::NodePressure, Reason::Drained] {
        let mut cluster = full(settings().filled_to(1.0));
        match reason {
            Reason::Drained => {
                cluster.set_pool(Ok(Settings { drain: true, ..settings().filled_to(1.0) }));
            }
            _ => {
                let nodes: Vec<Node> = cluster.all_nodes().cloned().collect();
                for node in nodes {
                    cluster.set_node(node.pressed("MemoryPressure"));
                }
            }
        }
        cluster.run_for(seconds(5));
        assert_eq!(interrupted(&cluster, &reason), 200);
    }
}

#[test]
fn what_waiting_pods_need_waits_for_no_round() {
    let mut cluster = full(settings().preempting().filled_to(1.0));
    for number in 0..15 {
        cluster.create_pod(pod(&format!("shop{number}"), 10_000).patient(), seconds(10_000));
    }
    cluster.run_for(seconds(5));
    assert_eq!(interrupted(&cluster, &Reason::PreemptedByOperator), 150);
}
