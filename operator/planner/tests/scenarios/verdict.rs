//! Ends of which it must be found out whose they are: the workload's or the cluster's.

use scavenger_planner::{
    fixtures::{key, node, seconds, sj},
    values::{Outcome, Phase, Reason},
};
use scavenger_simulator::{Cluster, Stream};

use super::{all_is_quiet, attempt, completed, outcome, whole_cluster, work};

/// Three pods on three nodes, and the node of the last one.
fn gang_on_three_nodes() -> (Cluster, String) {
    let mut cluster = whole_cluster().with_nodes([node("n3", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a").gang(3).asking(6000), work(600));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    let lost = cluster.pod("a-1-2").unwrap().node.clone().unwrap();
    (cluster, lost.to_string())
}

#[test]
fn peers_that_fail_because_a_node_is_lost_are_interrupted() {
    for restart in [false, true] {
        let (mut cluster, lost) = gang_on_three_nodes();
        // The node monitor waits for its grace period before it calls the node not ready.
        cluster.delays.watch.insert(Stream::Nodes, seconds(35));
        cluster.lose_node(&lost);
        cluster.run_for(seconds(5));
        cluster.exit(&key("a-1-0"), 1);
        cluster.run_for(seconds(5));
        if restart {
            cluster.restart(false);
        }
        cluster.run_until("it is judged", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::NodeFailure));
        cluster.remove_node(&lost);
        cluster.set_node(node("n4", 10_000));
        completed(&mut cluster, "a");
        assert_eq!(attempt(&cluster, "a").number, 2);
    }
}

#[test]
fn a_gang_is_interrupted_as_soon_as_the_node_of_a_peer_is_seen_to_be_lost() {
    let (mut cluster, lost) = gang_on_three_nodes();
    cluster.exit(&key("a-1-0"), 1);
    cluster.run_for(seconds(2));
    assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
    cluster.lose_node(&lost);
    cluster.run_for(seconds(1));
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::NodeFailure));
}

#[test]
fn a_gang_that_fails_while_its_peers_hang_fails_after_the_grace_period_of_nodes() {
    let (mut cluster, _) = gang_on_three_nodes();
    cluster.hang("a");
    cluster.exit(&key("a-1-0"), 1);
    let failed = cluster.now;
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
    let waited = cluster.now.duration_since(failed);
    assert!((seconds(50)..=seconds(65)).contains(&waited), "{waited}");
}

#[test]
fn a_gang_whose_peers_all_ended_is_not_waited_for() {
    let (mut cluster, _) = gang_on_three_nodes();
    cluster.exit(&key("a-1-0"), 1);
    let failed = cluster.now;
    cluster.run_until_phase("a", Phase::Failed);
    let waited = cluster.now.duration_since(failed);
    assert!(waited < seconds(10), "{waited}");
    all_is_quiet(&mut cluster);
}
