//! What a ScavengerJob is told that fits nowhere: what is really missing, and nothing that it has not asked for.

use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::{
        Access, Expression, Node, NodeTerm, Observation, Operator, ScavengerJob, Settings, Volume,
        WaitingReason,
    },
};
use scavenger_simulator::Cluster;

use super::work;

/// What a ScavengerJob is told in a pool with these settings and nodes.
fn told(
    settings: Settings,
    nodes: impl IntoIterator<Item = Node>,
    seen: Option<Observation>,
    sj: ScavengerJob,
) -> (WaitingReason, String) {
    let mut cluster = Cluster::new(settings.filled_to(1.0)).with_nodes(nodes);
    cluster.run_for(seconds(1));
    if let Some(observation) = seen {
        cluster.planner.observe(observation, cluster.now);
    }
    let name = sj.key.name.to_string();
    cluster.submit(sj, work(100));
    cluster.run_for(seconds(20));
    let waiting = cluster.status(&name).admitted.as_ref().and_then(|admitted| admitted.waiting.clone());
    let waiting = waiting.unwrap_or_else(|| panic!("it runs\n{}", cluster.history()));
    (waiting.reason, waiting.message)
}

fn never(settings: Settings, nodes: impl IntoIterator<Item = Node>, sj: ScavengerJob) -> String {
    let (reason, message) = told(settings, nodes, None, sj);
    assert_eq!(reason, WaitingReason::NeverFits, "{message}");
    message
}

/// A volume of claim `data`, on the node with this label.
fn volume(node: &str) -> Observation {
    let here = Expression { key: "name".into(), operator: Operator::In, values: vec![node.into()] };
    let affinity = vec![NodeTerm { labels: vec![here], names: Vec::new() }];
    Observation::Volume(Volume {
        name: "pv".into(),
        claim: Some(key("data")),
        affinity,
        access: Access::ManyNodes,
    })
}

#[test]
fn a_device_that_no_node_has_may_be_offered_by_a_driver_that_nobody_counts() {
    assert_eq!(
        never(settings(), [node("n1", 4000)], sj("a").asking_for("example.com/dracard", 1)),
        "asks for 1 example.com/dracard, which no node has in its allocatable; if a driver offers it by dynamic resource \
         allocation (extendedResourceName of a DeviceClass), the operator cannot count it: run an ordinary Job, or offer it \
         by a device plugin"
    );
    // Nobody offers huge pages so.
    assert_eq!(
        never(settings(), [node("n1", 4000)], sj("a").asking_for("hugepages-2Mi", 1 << 30)),
        "asks for 1024 MiB hugepages-2Mi, which no node has"
    );
}

#[test]
fn a_device_that_only_nodes_outside_the_pool_have_is_there() {
    let nodes = || [node("n1", 4000), node("n2", 4000).having("example.com/gpu", 1).tainted("gpu")];
    assert_eq!(
        never(settings(), nodes(), sj("a").asking_for("example.com/gpu", 1)),
        "asks for 1 example.com/gpu, which no node of the pool has; node n2 has it, and is outside: it has taint \
         gpu:NoSchedule"
    );
    // In the pool, it is its taint that keeps the ScavengerJob off, or another node's lack of the device.
    let pool = || Settings { tolerated_taints: vec!["gpu".into()], ..settings() };
    assert_eq!(
        never(pool(), nodes(), sj("a").asking_for("example.com/gpu", 1)),
        "no node has capacity for 1 cpu, 1000 MiB, 1 example.com/gpu even if nothing else ran (1 node looked at; none of \
         them has example.com/gpu)"
    );
}

#[test]
fn of_nodes_that_do_not_match_the_label_the_volume_or_the_taint_is_named() {
    let nodes = || ["n1", "n2"].map(|name| node(name, 4000).labelled("name", name));
    assert_eq!(
        never(settings(), nodes(), sj("a").only_on("disk", "fast")),
        "no node of the pool has label disk=fast, which its nodeSelector asks for"
    );
    let both = || [node("n1", 4000).labelled("a", "1"), node("n2", 4000).labelled("b", "2")];
    assert_eq!(
        never(settings(), both(), sj("a").only_on("a", "1").only_on("b", "2")),
        "no node of the pool has all labels of its nodeSelector"
    );
    let (reason, message) = told(settings(), nodes(), Some(volume("n3")), sj("a").mounting("data"));
    assert_eq!(reason, WaitingReason::NeverFits);
    assert_eq!(message, "its volumes are bound to other nodes than those of the pool");
    let elsewhere = sj("a").mounting("data").only_on("name", "n1");
    assert_eq!(
        told(settings(), nodes(), Some(volume("n2")), elsewhere).1,
        "its volumes are bound to other nodes than those of the pool with the labels of its nodeSelector"
    );
    // No selector is spoken of where there is none.
    let pool = || Settings { tolerated_taints: vec!["gpu".into()], ..settings() };
    assert_eq!(
        never(pool(), [node("n1", 4000).tainted("gpu")], sj("a")),
        "it does not tolerate the taints of the nodes of the pool: n1 has gpu:NoSchedule"
    );
    let tainted = [node("n1", 4000), node("n2", 4000).labelled("kind", "gpu").tainted("gpu")];
    assert_eq!(
        never(pool(), tainted, sj("a").only_on("kind", "gpu")),
        "it does not tolerate the taints of the nodes of the pool that it could go to: n2 has gpu:NoSchedule"
    );
}

#[test]
fn what_is_too_large_for_every_node_is_named() {
    let nodes = || ["n1", "n2"].map(|name| node(name, 4000));
    assert_eq!(
        never(settings(), nodes(), sj("a").asking(5000)),
        "no node has capacity for 5 cpu, 5000 MiB even if nothing else ran (2 nodes looked at; none of them has more than \
         4 cpu)"
    );
}

#[test]
fn a_pool_without_nodes_and_one_whose_nodes_take_no_pods_say_so() {
    let (reason, message) = told(settings(), [], None, sj("a"));
    assert_eq!(reason, WaitingReason::NoCapacity);
    assert_eq!(
        message,
        "no node belongs to the pool (nodeSelector and toleratedTaints of the ScavengerPool)"
    );
}

#[test]
fn a_resource_of_nodes_that_take_no_pods_is_named_with_these_nodes() {
    let gpu = |name| node(name, 4000).having("example.com/gpu", 1);
    let asks = || sj("a").asking_for("example.com/gpu", 1);
    let lacks = |nodes: Vec<Node>, sj| {
        let all = nodes.into_iter().chain([node("n1", 4000)]);
        let (reason, message) = told(settings(), all, None, sj);
        assert_eq!(reason, WaitingReason::NoCapacity);
        message
    };
    assert_eq!(
        lacks(vec![gpu("n2").cordoned()], asks()),
        "needs 1 example.com/gpu; only node n2 has it, and n2 is cordoned"
    );
    assert_eq!(
        lacks(vec![gpu("n2").cordoned(), gpu("n3").unusable()], asks()),
        "needs 1 example.com/gpu; 2 nodes of the pool have it, and none of them takes pods now: n2 is cordoned, n3 is not ready"
    );
    let ill = || ["n2", "n3", "n4", "n5"].map(|name| gpu(name).pressed("DiskPressure"));
    assert_eq!(
        lacks(ill().to_vec(), asks()),
        "needs 1 example.com/gpu; 4 nodes of the pool have it, and none of them takes pods now: n2 reports DiskPressure, n3 \
         reports DiskPressure, n4 reports DiskPressure, ..."
    );
    // Of nodes that it cannot go to nothing is said.
    let here = [gpu("n2").labelled("zone", "a").cordoned(), gpu("n3").labelled("zone", "b").unusable()];
    assert_eq!(
        lacks(here.to_vec(), asks().only_on("zone", "a")),
        "needs 1 example.com/gpu; only node n2 has it, and n2 is cordoned"
    );
    let no_network = Node { usable: false, ..gpu("n2").tainted("node.kubernetes.io/network-unavailable") };
    assert_eq!(
        lacks(vec![no_network], asks()),
        "needs 1 example.com/gpu; only node n2 has it, and n2 has no network yet"
    );
}
