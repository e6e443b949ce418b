//! Which kills for memory are harm.

use super::*;

fn tripped(cluster: &Cluster) -> (usize, u64) {
    let report = cluster.planner.pool_report(cluster.now).usage.expect("it counts by use");
    (report.tripped.len(), report.own_limits)
}

/// A node with two ScavengerJobs and ordinary pods.
fn shared() -> Cluster {
    let mut cluster = reserved(settings().by_use());
    for name in ["a", "b"] {
        cluster.submit(sj(name).asking(2000), work(300_000));
    }
    minutes(&mut cluster, 7, |_| (1000, 1000));
    for name in ["a", "b"] {
        assert_eq!(cluster.status(name).phase, Phase::Running, "{}", cluster.history());
    }
    cluster
}

#[test]
fn a_pod_that_outgrows_its_own_limit_again_and_again_trips_nothing() {
    let mut cluster = shared();
    let web = cluster.pod("web-0").unwrap().key.clone();
    for _ in 0..10 {
        cluster.kill_container(&web);
        minutes(&mut cluster, 1, |_| (1000, 1000));
    }
    minutes(&mut cluster, 2, |_| (1000, 1000));
    assert_eq!(tripped(&cluster), (0, 10));
    assert_eq!(cluster.status("a").interrupted_count, 0, "{}", cluster.history());
    cluster.submit(sj("c").asking(500), work(3000));
    minutes(&mut cluster, 1, |_| (1000, 1000));
    assert_eq!(cluster.status("c").phase, Phase::Running, "the node takes more");
}

#[test]
fn where_nobody_measures_a_kill_counts_as_harm_after_two_minutes() {
    let mut cluster = shared();
    cluster.run_for(seconds(180));
    let web = cluster.pod("web-0").unwrap().key.clone();
    cluster.kill_container(&web);
    cluster.run_for(seconds(110));
    assert_eq!(tripped(&cluster), (0, 0), "a sample may come yet");
    cluster.run_for(seconds(20));
    assert_eq!(tripped(&cluster), (1, 0));
    assert_eq!(outcome(&cluster, "a").2, Reason::OrdinaryPodKilled);
}

/// It is over the threshold for a moment, which only the sample after the kill shows.
#[test]
fn a_sample_after_the_kill_counts_too() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(5800), work(300_000));
    minutes(&mut cluster, 7, |_| (1000, 1000));
    let web = cluster.pod("web-0").unwrap().key.clone();
    cluster.kill_container(&web);
    cluster.run_for(seconds(10));
    assert_eq!(tripped(&cluster), (0, 0));
    measure_with(&mut cluster, |_| (1000, 2300), 1);
    cluster.run_for(seconds(5));
    assert_eq!(tripped(&cluster), (1, 0), "{}", cluster.history());
}

#[test]
fn an_ordinary_pod_that_the_kubelet_evicted_for_memory_is_harm_however_calm_the_node_seems() {
    let mut cluster = shared();
    let web = cluster.pod("web-0").unwrap().key.clone();
    let mut evicted = cluster.pod("web-0").unwrap().clone();
    evicted.resource_version += 1_000_000;
    evicted.disrupted_since = Some(cluster.now);
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.";
    evicted.status_reason = Some(("Evicted".to_owned(), message.to_owned()));
    assert_eq!(evicted.key, web);
    cluster.tell(Observation::Pod(Box::new(evicted)));
    cluster.settle();
    assert_eq!(tripped(&cluster), (1, 0));
}
