//! Ordinary pods whose use was not measured yet: they are expected to use what they request.

use scavenger_planner::fixtures::{at, key, requests};

use super::*;

#[test]
fn a_pod_that_grew_in_place_is_expected_to_use_what_it_got() {
    let mut cluster = Cluster::new(settings().by_use()).with_nodes([node("n1", 10_000)]);
    cluster.create_pod(pod("web", 1000), FOREVER);
    minutes(&mut cluster, 10, |_| (500, 500));
    cluster.resize(&key("web"), &requests(6000));
    cluster.run_for(seconds(5));
    assert!(cluster.pod("web").unwrap().deferred_resize.is_none(), "its node has enough");
    // 7 less 5 and some, instead of 7 less some.
    cluster.submit(sj("a").asking(3000), work(3000));
    minutes(&mut cluster, 4, |_| (500, 500));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    minutes(&mut cluster, 3, |_| (500, 500));
    assert_eq!(cluster.status("a").phase, Phase::Running, "it was measured to use none of it");
}

#[test]
fn a_pod_that_waited_for_long_is_young_when_it_is_bound() {
    let mut cluster = Cluster::new(settings().by_use()).with_nodes([node("n1", 10_000)]);
    minutes(&mut cluster, 8, |_| (500, 500));
    let mut late = pod("late", 4000);
    let mut see = |cluster: &mut Cluster, change: &dyn Fn(&mut scavenger_planner::values::Pod)| {
        change(&mut late);
        late.resource_version += 1_000_000;
        cluster.planner.observe(Observation::Pod(Box::new(late.clone())), cluster.now);
        cluster.settle();
    };
    see(&mut cluster, &|pod| {
        pod.unschedulable = Some("0/1 nodes are available: 1 node(s) are odd.".to_owned());
    });
    see(&mut cluster, &|pod| pod.nominated_node = Some("n1".into()));
    minutes(&mut cluster, 20, |_| (500, 500));
    let now = cluster.now;
    see(&mut cluster, &|pod| {
        (pod.node, pod.nominated_node, pod.unschedulable) = (Some("n1".into()), None, None);
        pod.scheduled = Some(now);
    });
    cluster.submit(sj("a").asking(4000), work(3000));
    minutes(&mut cluster, 4, |_| (500, 500));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    minutes(&mut cluster, 3, |_| (500, 500));
    assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
}

#[test]
fn another_leader_knows_when_a_pod_was_bound_and_not_only_when_it_was_created() {
    let mut cluster = reserved(settings().by_use());
    minutes(&mut cluster, 8, |_| (500, 500));
    cluster.scheduler_works = false;
    cluster.create_pod(pod("late", 900), FOREVER);
    minutes(&mut cluster, 20, |_| (500, 500));
    cluster.scheduler_works = true;
    cluster.create_pod(pod("wakes-the-scheduler", 10), seconds(10));
    cluster.run_until("it has a node", |cluster| cluster.pod("late").unwrap().node.is_some());
    assert!(cluster.pod("late").unwrap().creation_time < at(600));
    another_leads(&mut cluster, 10);
    cluster.submit(sj("a").asking(6000), work(3000));
    minutes(&mut cluster, 1, |_| (500, 500));
    assert_eq!(cluster.planner.pool_report(cluster.now).usage.unwrap().known, 1);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    minutes(&mut cluster, 5, |_| (500, 500));
    assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
}
