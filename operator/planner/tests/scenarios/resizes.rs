//! Ordinary pods that are to grow in place on a node that has not enough left.

use scavenger_planner::{
    fixtures::{key, node, pod, requests, seconds, settings, sj},
    values::{Outcome, Phase, Reason, Settings, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::{outcome, work};

/// Ordinary pods of these sizes on n1, and then ScavengerJobs with their nodes and sizes.
fn cluster(pool: Settings, pods: &[(&str, i64)], scavenger_jobs: &[(&str, &str, i64)]) -> Cluster {
    let nodes = ["n1", "n2"].map(|name| node(name, 10_000).labelled("name", name));
    let mut cluster = Cluster::new(pool).with_nodes(nodes);
    for (name, cpu) in pods {
        let mut pod = pod(name, *cpu);
        pod.placement.node_selector.insert("name".into(), "n1".into());
        cluster.create_pod(pod, seconds(10_000));
    }
    cluster.run_for(seconds(2));
    for (name, node, cpu) in scavenger_jobs {
        cluster.submit(sj(name).asking(*cpu).only_on("name", node), work(5000));
        cluster.run_until_phase(name, Phase::Running);
    }
    cluster
}

fn interrupted(cluster: &Cluster) -> Vec<&str> {
    let all = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
    all.map(|sj| &*sj.key.name).collect()
}

fn is_deferred(cluster: &Cluster, name: &str) -> bool {
    cluster.pod(name).is_some_and(|pod| pod.deferred_resize.is_some())
}

#[test]
fn those_that_lose_least_on_its_node_go_in_either_mode() {
    for pool in [settings(), settings().preempting()] {
        let scavenger_jobs = [("dear", "n1", 5000), ("cheap", "n1", 3000), ("elsewhere", "n2", 1000)];
        let mut cluster = cluster(pool.filled_to(1.0), &[("shop", 2000)], &scavenger_jobs);
        cluster.resize(&key("shop"), &requests(4000));
        assert!(is_deferred(&cluster, "shop"));
        cluster.run_until("it has grown", |cluster| !is_deferred(cluster, "shop"));
        assert_eq!(interrupted(&cluster), ["cheap"]);
        assert_eq!(outcome(&cluster, "cheap"), (1, Some(Outcome::Interrupted), Reason::PreemptedByOperator));
        cluster.run_for(seconds(120));
        assert_eq!(cluster.waits("cheap"), Some(WaitingReason::NoCapacity));
        assert_eq!(interrupted(&cluster), ["cheap"]);
    }
}

#[test]
fn nobody_goes_for_a_resize_that_all_of_them_could_not_serve() {
    let pods = [("hopeless", 2000), ("large", 4000), ("modest", 1000)];
    let mut cluster = cluster(settings().filled_to(1.0), &pods, &[("a", "n1", 1000), ("b", "n1", 2000)]);
    cluster.resize(&key("hopeless"), &requests(6000));
    cluster.run_for(seconds(60));
    assert!(interrupted(&cluster).is_empty(), "{:?}", interrupted(&cluster));
    // Another one of that node is served all the same.
    cluster.resize(&key("modest"), &requests(2000));
    cluster.run_until("it has grown", |cluster| !is_deferred(cluster, "modest"));
    assert_eq!(interrupted(&cluster), ["a"]);
    assert!(is_deferred(&cluster, "hopeless"));
}

#[test]
fn nobody_goes_for_a_resize_that_was_taken_back_or_whose_pod_is_gone() {
    let pods = [("shop", 2000), ("ended", 1000)];
    let mut cluster = cluster(settings().filled_to(1.0), &pods, &[("a", "n1", 7000)]);
    cluster.outage = true;
    cluster.resize(&key("shop"), &requests(4000));
    cluster.resize(&key("ended"), &requests(4000));
    cluster.resize(&key("shop"), &requests(2000));
    cluster.delete_pod(&key("ended"));
    cluster.outage = false;
    cluster.run_for(seconds(60));
    assert!(interrupted(&cluster).is_empty());
}
