//! Pods that a kubelet refuses or ends for a reason of its own, before they ran and after.

use scavenger_planner::{
    fixtures::{key, millis, node, seconds, sj},
    values::{Container, Outcome, Phase, Reason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, cluster, completed, outcome, whole_cluster, work};

/// What a kubelet writes that was started again, or that ends a pod, and says nothing of its containers.
const REASONS: [&str; 10] = [
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "OutOfcpu",
    "TopologyAffinityError",
    "Evicted",
    "Preempting",
    "Terminated",
    "NodeShutdown",
    "DeadlineExceeded",
    "SomethingThatNobodyHasSeenBefore",
];

/// The reason of the attempt for that of the pod.
fn reason_of(reason: &str) -> Reason {
    if reason == "Evicted" { Reason::TerminationByKubelet } else { Reason::NodeFailure }
}

#[test]
fn a_pod_that_ran_and_is_refused_by_its_kubelet_was_interrupted() {
    for (reason, restart) in REASONS.into_iter().flat_map(|reason| [(reason, false), (reason, true)]) {
        let mut cluster = cluster();
        cluster.submit(sj("a").interruptible_after(seconds(60)), Workload { saves: false, ..work(300) });
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(100));
        if restart {
            cluster.outage = true;
        }
        cluster.refuse_pod(&key("a-1-0"), reason);
        if restart {
            // The operator was away, and nothing but the status says that it ran.
            cluster.run_for(seconds(5));
            cluster.restart(false);
            cluster.outage = false;
        }
        cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(cluster.status("a").phase, Phase::Interrupted, "{reason}\n{}", cluster.history());
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), reason_of(reason)));
        let message = attempt(&cluster, "a").message.clone().unwrap();
        assert_eq!(message, format!("node n1 ended pod a-1-0: {reason}: the node said no"));
        let status = cluster.status("a");
        assert_eq!((status.interrupted_count, status.failed_starts), (1, 0), "{reason}");
        assert!((95..=110).contains(&status.active_seconds), "{reason}: {}", status.active_seconds);
        completed(&mut cluster, "a");
    }
}

#[test]
fn a_pod_that_is_refused_before_it_ran_was_not() {
    for reason in REASONS {
        let mut cluster = cluster();
        cluster.delays.kubelet = seconds(20);
        cluster.submit(sj("a"), work(300));
        cluster.run_for(seconds(5));
        cluster.refuse_pod(&key("a-1-0"), reason);
        cluster.run_until_phase("a", Phase::Waiting);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), reason_of(reason)));
        let message = attempt(&cluster, "a").message.clone().unwrap();
        assert_eq!(message, format!("node n1 refused pod a-1-0: {reason}: the node said no"));
        assert_eq!((cluster.status("a").interrupted_count, cluster.status("a").failed_starts), (0, 1));
        completed(&mut cluster, "a");
    }
}

#[test]
fn that_a_container_was_seen_to_start_is_enough() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    // The status does not say Running yet.
    cluster.run_until("its container runs", |cluster| {
        let pod = cluster.pod("a-1-0").map(|pod| &pod.container);
        pod == Some(&Container::Running) && !cluster.status("a").phase.is_finished()
    });
    cluster.outage = true;
    cluster.run_for(millis(100));
    assert_eq!(cluster.status("a").phase, Phase::Starting);
    cluster.refuse_pod(&key("a-1-0"), "UnexpectedAdmissionError");
    cluster.run_for(seconds(2));
    cluster.outage = false;
    cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::NodeFailure));
    assert_eq!(cluster.status("a").interrupted_count, 1);
    completed(&mut cluster, "a");
}

/// A gang of two on two nodes.
fn gang() -> Cluster {
    let mut cluster = whole_cluster();
    cluster.strict = false;
    cluster.submit(sj("a").gang(2).asking(6000), work(600));
    cluster
}

#[test]
fn a_gang_of_which_a_pod_is_refused_that_ran_was_interrupted_whatever_its_peers_exit_with() {
    for (peer_first, restart) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut cluster = gang();
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(10));
        if peer_first {
            cluster.exit(&key("a-1-0"), 1);
            cluster.run_for(millis(200));
        }
        cluster.refuse_pod(&key("a-1-1"), "UnexpectedAdmissionError");
        if !peer_first {
            cluster.exit(&key("a-1-0"), 1);
        }
        if restart {
            cluster.restart(false);
        }
        cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::NodeFailure));
        assert_eq!(cluster.status("a").interrupted_count, 1);
        completed(&mut cluster, "a");
    }
}

#[test]
fn a_gang_of_which_a_pod_is_refused_before_it_ran_loses_what_its_peer_did_and_is_tried_again_as_a_failed_start()
 {
    let mut cluster = gang();
    let reached = |cluster: &Cluster, pod: &str| cluster.pod(pod).is_some_and(|pod| pod.node.is_some());
    cluster.run_until("both are placed", |cluster| reached(cluster, "a-1-0") && reached(cluster, "a-1-1"));
    cluster.refuse_pod(&key("a-1-1"), "OutOfcpu");
    cluster.delays.job_controller = seconds(5);
    cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
    let (_, ended, reason) = outcome(&cluster, "a");
    assert_eq!(reason, Reason::NodeFailure);
    let status = cluster.status("a");
    let ran = ended == Some(Outcome::Interrupted);
    assert_eq!((status.interrupted_count, status.counted_interruptions), (u32::from(ran), 0));
    assert_eq!(status.failed_starts, 1);
    completed(&mut cluster, "a");
}

#[test]
fn an_eviction_for_the_sake_of_the_node_or_for_what_was_injected_is_no_failure() {
    for message in [
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. ",
        "The node was low on resource: memory. Container main was using 2Gi, request is 1Gi, has larger consumption of memory. ",
        "The node had condition: [DiskPressure]. ",
        "Container log-shipper exceeded its local ephemeral storage limit \"1Gi\". ",
        "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Gi\". ",
        "Usage of EmptyDir volume \"scavenger-supervisor\" exceeds the limit \"8Mi\". ",
        "",
    ] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), work(300));
        cluster.run_until_phase("a", Phase::Running);
        cluster.fail_pod(&key("a-1-0"), "Evicted", message);
        cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
        let end = (1, Some(Outcome::Interrupted), Reason::TerminationByKubelet);
        assert_eq!(outcome(&cluster, "a"), end, "{message}");
        assert_eq!(cluster.status("a").counted_interruptions, 0, "a pod can be the cause");
    }
    for message in [
        "Container main exceeded its local ephemeral storage limit \"1Gi\". ",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    ] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), work(300));
        cluster.run_until_phase("a", Phase::Running);
        cluster.fail_pod(&key("a-1-0"), "Evicted", message);
        cluster.run_until_phase("a", Phase::Failed);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::LimitExceeded), "{message}");
    }
}

#[test]
fn a_pod_that_had_done_its_work_is_not_talked_into_an_interruption_by_its_kubelet() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    let beside = Some(scavenger_simulator::Injected { needs: None, exit_code: 0 });
    cluster.submit(sj("a"), Workload { beside, ..work(20) });
    cluster.run_until("its main container has ended", |cluster| {
        cluster.pod("a-1-0").is_some_and(|pod| matches!(pod.container, Container::Ended { .. }))
    });
    cluster.run_for(seconds(2));
    cluster.refuse_pod(&key("a-1-0"), "UnexpectedAdmissionError");
    cluster.run_until_phase("a", Phase::Completed);
}

#[test]
fn an_init_container_that_was_injected_and_fails_is_named_and_fails_nobody() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(20);
    cluster.submit(sj("a"), work(10));
    cluster.run_for(seconds(5));
    cluster.fail_init(
        &key("a-1-0"),
        "init container istio-init exited with code 1: iptables: permission denied",
    );
    cluster.run_until_phase("a", Phase::Waiting);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure));
    assert_eq!(
        cluster.status("a").message,
        "pod a-1-0 failed before its main container was started: init container istio-init exited with code 1: \
         iptables: permission denied"
    );
    completed(&mut cluster, "a");
}
