//! A pool of plain and tainted nodes: each group keeps its own threshold and headroom.

use scavenger_planner::{
    fixtures::{node, pod, seconds, settings, sj},
    values::{Node, Outcome, Phase, Reason, Settings, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::{outcome, work};

/// 20 plain cores on two nodes, and 40 tainted ones on four, each with 4 GPUs.
fn mixed(settings: Settings) -> Cluster {
    let pool = Settings { tolerated_taints: vec!["gpu".into()], ..settings };
    Cluster::new(pool)
        .with_nodes((0..2).map(|number| node(&format!("plain-{number}"), 10_000)))
        .with_nodes((0..4).map(|number| tainted(&format!("gpu-{number}"))))
}

fn tainted(name: &str) -> Node {
    node(name, 10_000).tainted("gpu").having("example.com/gpu", 4)
}

/// How many cores ScavengerJobs have on nodes whose names begin so.
fn cores_on(cluster: &Cluster, nodes: &str) -> i64 {
    let pods = cluster.all_live_pods();
    let there = pods.iter().filter(|pod| pod.owner.is_some());
    let there = there.filter(|pod| pod.node.as_ref().is_some_and(|node| node.starts_with(nodes)));
    there.map(|pod| pod.requests.cpu_milli).sum::<i64>() / 1000
}

/// Ordinary pods of one core each, which find their place whatever is where.
fn owners(cluster: &mut Cluster, cores: i64) {
    for number in 0..cores {
        cluster.create_pod(pod(&format!("owner-{number}"), 1000), seconds(600));
    }
}

#[test]
fn plain_nodes_are_not_filled_beside_empty_tainted_ones() {
    let mut cluster = mixed(settings());
    for number in 0..20 {
        cluster.submit(sj(&format!("plain-{number:02}")).asking(2000), work(3000));
    }
    cluster.run_for(seconds(120));
    // 70% of 60 cores are 42, more than all plain nodes have.
    assert_eq!(cores_on(&cluster, "plain"), 14);
    assert_eq!(cores_on(&cluster, "gpu"), 0);
    assert_eq!(cluster.waits("plain-07"), Some(WaitingReason::NoCapacity));
    assert_eq!(
        cluster.status("plain-07").message,
        "needs 2 cpu, but only 0 cpu are left below the threshold of 70% on the nodes that it can go to"
    );
    // An ordinary pod finds its place at once.
    cluster.create_pod(pod("owner", 2000), seconds(60));
    cluster.run_for(seconds(10));
    assert!(cluster.pod("owner").is_some_and(|pod| pod.node.is_some()));
    assert_eq!(cores_on(&cluster, "plain"), 14);
}

#[test]
fn the_tainted_nodes_have_a_threshold_of_their_own() {
    let mut cluster = mixed(settings());
    for number in 0..20 {
        let job = sj(&format!("gpu-{number:02}")).tolerating("gpu");
        cluster.submit(job.asking(4000).asking_for("example.com/gpu", 1), work(3000));
    }
    cluster.run_for(seconds(120));
    // 70% of 40 cores are 28; in the pool 42 could be used.
    assert_eq!(cores_on(&cluster, "gpu"), 28);
    assert_eq!(cores_on(&cluster, "plain"), 0);
}

#[test]
fn who_reaches_every_group_has_the_threshold_of_the_pool() {
    let mut cluster = mixed(settings());
    for number in 0..30 {
        cluster.submit(sj(&format!("any-{number:02}")).tolerating("gpu").asking(2000), work(3000));
    }
    cluster.run_for(seconds(120));
    assert_eq!(cores_on(&cluster, ""), 42);
}

#[test]
fn more_than_the_share_of_its_nodes_never_fits() {
    let mut cluster = mixed(settings());
    cluster.submit(sj("wide").gang(8).asking(2000), work(100));
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("wide"), Some(WaitingReason::NeverFits));
    assert_eq!(
        cluster.status("wide").message,
        "asks for 16 cpu in all, but ScavengerJobs may fill the nodes that it can go to only up to 70% of 20 cpu"
    );
    // With more nodes it fits.
    cluster.set_node(node("plain-2", 10_000));
    cluster.run_until_phase("wide", Phase::Running);
}

#[test]
fn headroom_is_kept_on_plain_nodes_beside_empty_tainted_ones() {
    let mut cluster = mixed(settings());
    for number in 0..7 {
        cluster.submit(sj(&format!("plain-{number}")).asking(2000), work(3000));
        cluster.run_until_phase(&format!("plain-{number}"), Phase::Running);
    }
    owners(&mut cluster, 5);
    let interrupted = |cluster: &Cluster| -> Vec<String> {
        let gone = cluster.scavenger_jobs().filter(|sj| sj.status.interrupted_count > 0);
        gone.map(|sj| sj.key.name.to_string()).collect()
    };
    for _ in 0..100 {
        if interrupted(&cluster).is_empty() {
            cluster.run_for(seconds(1));
        }
    }
    // 19 of 20 cores are more than 90%: down to 85% one has to go. Of all 60 cores they are 32%.
    let gone = interrupted(&cluster);
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(outcome(&cluster, &gone[0]), (1, Some(Outcome::Interrupted), Reason::Headroom));
    assert_eq!(
        cluster.status(&gone[0]).message,
        "attempt 1 was interrupted: frees capacity before others need it: 19 cpu of 20 cpu are used on nodes without taints, \
         more than the interruptThreshold of 90%"
    );
    // It does not come back before there is capacity below the threshold.
    cluster.run_for(seconds(300));
    assert_eq!(cluster.scavenger_jobs().map(|sj| sj.status.interrupted_count).sum::<u32>(), 1);
}

#[test]
fn who_could_come_back_at_once_does_not_go_for_the_headroom_of_a_group() {
    let mut cluster = mixed(settings());
    for number in 0..21 {
        cluster.submit(sj(&format!("any-{number:02}")).tolerating("gpu").asking(2000), work(3000));
        cluster.run_until_phase(&format!("any-{number:02}"), Phase::Running);
    }
    let free = 20 - cores_on(&cluster, "plain");
    owners(&mut cluster, free);
    cluster.run_for(seconds(100));
    assert!(cluster.scavenger_jobs().all(|sj| sj.status.interrupted_count == 0));
}

#[test]
fn a_group_whose_last_node_goes_is_forgotten_and_found_again() {
    let mut cluster = mixed(settings());
    for number in 0..4 {
        cluster.remove_node(&format!("gpu-{number}"));
    }
    cluster.submit(sj("plain").asking(2000), work(3000));
    cluster.run_until_phase("plain", Phase::Running);
    cluster.set_node(node("spot-0", 10_000).tainted("gpu").tainted("spot"));
    for number in 0..4 {
        cluster.set_node(tainted(&format!("gpu-{number}")));
    }
    cluster.submit(sj("gpu").tolerating("gpu").asking_for("example.com/gpu", 1), work(3000));
    cluster.run_until_phase("gpu", Phase::Running);
    // Its taint goes, and comes back, while pods are on it.
    cluster.set_node(node("gpu-0", 10_000).having("example.com/gpu", 4));
    cluster.run_for(seconds(30));
    cluster.set_node(tainted("gpu-0"));
    cluster.run_for(seconds(30));
    assert_eq!(cores_on(&cluster, ""), 3);
}
