//! Ends of which it must be found out whose they are: the workload's or the cluster's.

use scavenger_planner::{
    fixtures::{at, key, millis, node, pod, seconds, settings, sj},
    values::{Outcome, Phase, Reason},
};
use scavenger_simulator::{Cluster, Stream, Workload};

use super::{all_is_quiet, attempt, cluster, completed, outcome, whole_cluster, work};

/// Three pods on three nodes, and the node of the last one.
fn gang_on_three_nodes() -> (Cluster, String) {
    let mut cluster = whole_cluster().with_nodes([node("n3", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a").gang(3).asking(6000), work(600));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    let lost = cluster.pod("a-1-2").and_then(|pod| pod.node.clone());
    let lost = lost.expect("a pod that runs should have a node").to_string();
    (cluster, lost)
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
fn a_pod_that_its_node_lost_explains_the_end_of_its_peers_when_it_is_gone_too() {
    let (mut cluster, _) = gang_on_three_nodes();
    // What the planner makes of it at once is not taken.
    cluster.outage = true;
    cluster.delays.pod_phase = seconds(20);
    cluster.end_pod(&key("a-1-2"), 255, "Unknown");
    cluster.delays.pod_phase = millis(10);
    cluster.exit(&key("a-1-0"), 1);
    cluster.run_until("the Job controller has deleted it", |cluster| cluster.pod("a-1-2").is_none());
    cluster.outage = false;
    cluster.run_until("it is judged", |cluster| !cluster.status("a").phase.is_active());
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::NodeFailure));
    completed(&mut cluster, "a");
}

#[test]
fn a_peer_that_the_kubelet_does_not_find_when_it_is_deleted_explains_nothing() {
    let (mut cluster, _) = gang_on_three_nodes();
    cluster.hang("a");
    cluster.exit(&key("a-1-0"), 1);
    cluster.run_until("the Job controller deletes the others", |cluster| {
        cluster.pod("a-1-2").is_some_and(|pod| pod.deletion_requested.is_some())
    });
    cluster.end_pod(&key("a-1-2"), 137, "ContainerStatusUnknown");
    cluster.run_until("it is judged", |cluster| !cluster.status("a").phase.is_active());
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
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

const AWAY: &str =
    "failed to resolve reference \"r.io/a:1\": dial tcp 10.0.0.1:443: connect: connection refused";

#[test]
fn a_registry_that_is_away_fails_nobody() {
    let mut cluster = cluster();
    let stuck = Some(("ErrImagePull".to_owned(), AWAY.to_owned()));
    cluster.submit(sj("a"), Workload { stuck, ..work(10) });
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    assert!(cluster.now >= at(300), "not before startDeadline");
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::ContainerNotCreated));
    assert_eq!(cluster.status("a").message, format!("pod a-1-0: ErrImagePull: {AWAY}"));
    assert_eq!(cluster.status("a").failed_starts, 1);
    cluster.run_for(seconds(3600));
    assert!(!cluster.status("a").phase.is_finished(), "{}", cluster.history());
    cluster.let_start("a");
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn what_the_registry_said_counts_while_the_kubelet_only_waits() {
    for (said, end) in
        [("failed to resolve image: r.io/a:1: not found", Phase::Failed), (AWAY, Phase::Waiting)]
    {
        let mut cluster = cluster();
        cluster.delays.kubelet = seconds(100_000);
        cluster.submit(sj("a"), work(10));
        cluster.run_for(seconds(100));
        cluster.say(&key("a-1-0"), "ErrImagePull", said);
        cluster.run_for(seconds(10));
        cluster.say(&key("a-1-0"), "ImagePullBackOff", "Back-off pulling image \"r.io/a:1\"");
        cluster.run_until("it is judged", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(cluster.status("a").phase, end);
        assert!(cluster.status("a").message.contains(&format!("pod a-1-0: ErrImagePull: {said}")));
    }
}

/// A driver that was upgraded under the runtime.
const BROKEN: &str = "error running prestart hook #0: nvidia-container-cli: driver/library version mismatch";

/// A program that is not in the image.
const NO_COMMAND: &str = "runc create failed: unable to start container process: exec: \"gmx_mpi\": executable file not found in \
                          $PATH";

#[test]
fn a_node_that_starts_no_container_fails_nobody_and_is_left_alone_after_three() {
    let mut cluster = whole_cluster();
    cluster.strict = false;
    // The emptiest node, since nothing gets to run there.
    cluster.broken_nodes.insert("n1".into(), BROKEN.to_owned());
    for number in 0..12 {
        cluster.submit(sj(&format!("job{number}")).asking(1500), work(30));
    }
    cluster.run_until("the node is left alone", |cluster| {
        cluster.planner.capacity().nodes_to_avoid().contains("n1")
    });
    assert!(cluster.planner.capacity().is_in_pool(&"n1".into()), "ordinary pods can go there");
    let closed = cluster.planner.pool_report(cluster.now).closed_nodes;
    let [(node, closed)] = closed[..] else { panic!("{closed:?}") };
    let message = closed.message(node);
    assert!(
        message.starts_with("node n1 takes no ScavengerJobs until 2027-") && message.ends_with(BROKEN),
        "{message}"
    );
    // A restart of its kubelet changes nothing.
    let there = cluster.all_nodes().find(|node| &*node.name == "n1").cloned().unwrap();
    cluster.set_node(there.clone().unusable());
    cluster.set_node(there.recovered());
    cluster.run_for(seconds(1));
    assert_eq!(cluster.planner.capacity().nodes_to_avoid().len(), 1);
    cluster.broken_nodes.clear();
    let finished = |cluster: &Cluster| cluster.scavenger_jobs().all(|sj| sj.status.phase.is_finished());
    cluster.run_until("all have ended", finished);
    assert!(cluster.scavenger_jobs().all(|sj| sj.status.phase == Phase::Completed), "{}", cluster.history());
    cluster.run_for(seconds(600));
    assert_eq!(cluster.planner.capacity().nodes_to_avoid().len(), 0, "it is tried again");
}

#[test]
fn a_command_that_does_not_exist_on_two_nodes_is_the_workloads_fault() {
    let mut cluster = whole_cluster();
    cluster.strict = false;
    // So that the second attempt goes elsewhere.
    cluster.submit(sj("filler").asking(2000), work(100_000));
    cluster.run_until_phase("filler", Phase::Running);
    cluster.submit(sj("a").asking(4000), Workload { cannot_start: Some(NO_COMMAND.to_owned()), ..work(10) });
    cluster.run_until("the first attempt ended", |cluster| {
        cluster.status("a").attempt.as_ref().is_some_and(|attempt| attempt.outcome.is_some())
    });
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure));
    let first = if cluster.live_pods("filler")[0].node.as_deref() == Some("n1") { "n2" } else { "n1" };
    let there = cluster.all_nodes().find(|node| &*node.name == first).cloned().unwrap();
    cluster.set_node(there.cordoned());
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(outcome(&cluster, "a"), (2, Some(Outcome::Failed), Reason::ContainerNotCreated));
    assert!(cluster.status("a").message.ends_with(NO_COMMAND), "{}", cluster.status("a").message);
    assert!(cluster.planner.pool_report(cluster.now).closed_nodes.is_empty());
}

#[test]
fn a_command_that_does_not_exist_fails_soon_where_there_is_one_node() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { cannot_start: Some(NO_COMMAND.to_owned()), ..work(10) });
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(outcome(&cluster, "a"), (2, Some(Outcome::Failed), Reason::ContainerNotCreated));
    cluster.submit(sj("b"), work(10));
    completed(&mut cluster, "b");
}

#[test]
fn a_deletion_with_a_long_grace_period_holds_nothing_longer_than_the_pods_own() {
    for own in [false, true] {
        let mut cluster =
            Cluster::new(settings().filled_to(1.0).preempting()).with_nodes([node("n1", 10_000)]);
        cluster.strict = false;
        cluster.submit(sj("a").asking(8000), work(100_000));
        cluster.run_until_phase("a", Phase::Running);
        cluster.delete_pod_within(&key("a-1-0"), seconds(604_800));
        if own {
            cluster.delete_sj("a");
        }
        cluster.create_pod(pod("ordinary", 9000).patient(), seconds(10));
        let asked = cluster.now;
        cluster.run_until("it has its node", |cluster| {
            cluster.pod("ordinary").is_some_and(|pod| pod.node.is_some())
        });
        let waited = cluster.now.duration_since(asked);
        assert!(waited <= seconds(35), "{waited}");
    }
}
