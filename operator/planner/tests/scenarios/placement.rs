//! On which nodes pods of ScavengerJobs are. The simulator's scheduler takes any node that admits a pod, in the pool or
//! not, and ends the test if a pod is bound to a node outside the pool (`truth.rs`).

use scavenger_planner::{
    fixtures::{node, seconds, settings, sj},
    values::{Settings, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::work;

/// A pool of the nodes with label `pool: scavenger`.
fn selecting() -> Settings {
    Settings { node_selector: [("pool".into(), "scavenger".into())].into(), ..settings() }
}

/// The nodes on which pods of ScavengerJobs are.
fn occupied(cluster: &Cluster) -> Vec<&str> {
    let mut nodes: Vec<&str> =
        cluster.all_live_pods().into_iter().filter_map(|pod| Some(&**pod.place()?)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

#[test]
fn pods_stay_on_the_nodes_of_the_pool() {
    let others = ["o1", "o2", "o3"].map(|name| node(name, 64_000));
    let mut cluster = Cluster::new(selecting())
        .with_nodes([node("p1", 64_000).labelled("pool", "scavenger")])
        .with_nodes(others);
    for number in 0..40 {
        cluster.submit(sj(&format!("job{number}")).asking(4000), work(3000));
    }
    cluster.run_for(seconds(120));
    assert_eq!(occupied(&cluster), ["p1"]);
    assert_eq!(cluster.all_live_pods().len(), 11, "70% of 64 cores");
    assert_eq!(cluster.waits("job39"), Some(WaitingReason::BehindInQueue));
}

#[test]
fn a_toleration_opens_no_node_that_the_pool_does_not_tolerate() {
    let pool = Settings { tolerated_taints: vec!["gpu".into()], ..settings() };
    let mut cluster = Cluster::new(pool).with_nodes([
        node("p1", 10_000),
        node("gpu", 10_000).tainted("gpu"),
        node("control-plane", 64_000).tainted("node-role.kubernetes.io/control-plane"),
    ]);
    cluster.submit(
        sj("named").tolerating("gpu").tolerating("node-role.kubernetes.io/control-plane"),
        work(3000),
    );
    cluster.submit(sj("any").tolerating_everything(), work(3000));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.all_live_pods().len(), 2);
    assert!(!occupied(&cluster).contains(&"control-plane"), "{:?}", occupied(&cluster));
}
