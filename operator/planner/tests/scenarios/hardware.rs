//! On which hardware an attempt ran.

use scavenger_planner::{
    fixtures::{node, seconds, settings, sj},
    values::{AttemptNode, Node, Phase},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, completed, work};

const TYPE: &str = "node.kubernetes.io/instance-type";

/// A node with what tells its hardware, and what differs between equal nodes.
fn typed(name: &str, kind: &str) -> Node {
    node(name, 1000)
        .labelled(TYPE, kind)
        .labelled("kubernetes.io/hostname", name)
        .labelled("feature.node.kubernetes.io/kernel-version.full", name)
}

fn whole(nodes: impl IntoIterator<Item = Node>) -> Cluster {
    Cluster::new(settings().filled_to(1.0)).with_nodes(nodes)
}

fn told(nodes: &[AttemptNode]) -> Vec<(&str, u32, &str)> {
    nodes.iter().map(|node| (&*node.name, node.pod_count, &*node.labels[TYPE])).collect()
}

#[test]
fn an_attempt_keeps_its_node_when_its_pod_is_gone() {
    let mut cluster = whole([typed("n1", "large")]);
    cluster.submit(sj("a"), Workload { grace: seconds(20), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    let running = attempt(&cluster, "a").nodes.clone();
    assert_eq!(told(&running), [("n1", 1, "large")]);
    assert_eq!(running[0].labels.len(), 1, "only what tells the hardware: {:?}", running[0].labels);
    let allocatable = &running[0].allocatable;
    assert_eq!((allocatable.cpu_milli, allocatable.pods), (1000, 0), "{allocatable:?}");
    assert!(allocatable.memory_bytes > 0);
    let requested = &running[0].requested;
    assert_eq!((requested.cpu_milli, requested.pods), (1000, 0), "{requested:?}");
    cluster.control("a", |controls| controls.suspend = true);
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.run_for(seconds(100));
    assert!(cluster.live_pods("a").is_empty());
    assert_eq!(attempt(&cluster, "a").nodes, running);
    // An operator that is started again has only what was written.
    cluster.restart(false);
    cluster.run_for(seconds(10));
    assert_eq!(attempt(&cluster, "a").nodes, running);
}

#[test]
fn a_new_attempt_starts_with_no_node() {
    let mut cluster = whole([typed("n1", "large")]);
    cluster.submit(sj("a"), Workload { grace: seconds(20), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.control("a", |controls| controls.suspend = true);
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.delays.kubelet = seconds(20);
    cluster.control("a", |controls| controls.suspend = false);
    cluster.run_until_phase("a", Phase::Starting);
    assert_eq!(attempt(&cluster, "a").nodes, []);
    completed(&mut cluster, "a");
    assert_eq!(told(&attempt(&cluster, "a").nodes), [("n1", 1, "large")]);
}

#[test]
fn of_a_gang_one_node_of_each_kind_is_told() {
    let nodes = [("n1", "small"), ("n2", "large"), ("n3", "small"), ("n4", "small")];
    let mut cluster = whole(nodes.map(|(name, kind)| typed(name, kind)));
    cluster.submit(sj("a").asking(1000).gang(4), work(10));
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(told(&attempt(&cluster, "a").nodes), [("n2", 1, "large"), ("n1", 3, "small")]);
    completed(&mut cluster, "a");
    assert_eq!(told(&attempt(&cluster, "a").nodes), [("n2", 1, "large"), ("n1", 3, "small")]);

    let many: Vec<Node> = (0..6).map(|number| typed(&format!("n{number}"), &format!("t{number}"))).collect();
    let mut cluster = whole(many);
    cluster.submit(sj("a").asking(1000).gang(6), work(10));
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(attempt(&cluster, "a").nodes.len(), 4);
}
