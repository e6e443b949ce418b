//! Attempts that are taken away.

use scavenger_planner::{
    action::Task,
    fixtures::{key, millis, node, pod, seconds, settings, sj},
    values::{Node, Outcome, Phase, Reason, Settings, WaitingReason},
};
use scavenger_simulator::{Cluster, Stream, Workload};

use super::{all_is_quiet, attempt, cluster, completed, outcome, whole_cluster, work};

#[test]
fn a_preempted_job_is_interrupted_and_resumes_as_attempt_2() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(100));
    cluster.preempt(&key("a-1-0"));
    let interrupted = cluster.now;
    cluster.run_until_phase("a", Phase::Interrupted);
    assert!(cluster.now.duration_since(interrupted) < millis(100), "at once, not when the pod has gone");
    assert_eq!(cluster.status("a").interrupted_count, 1);
    assert_eq!(cluster.status("a").interruption_times.len(), 1);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::BackingOff));
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::PreemptionByScheduler));
    cluster.run_until_phase("a", Phase::Starting);
    assert!(cluster.now.duration_since(interrupted) >= seconds(29), "the backoff, to the second");
    cluster.run_until_phase("a", Phase::Running);
    let resumed = cluster.now;
    completed(&mut cluster, "a");
    let ran = attempt(&cluster, "a").end_time.unwrap().duration_since(resumed);
    assert!(ran < seconds(205), "it goes on where it stopped: {ran}");
    assert_eq!(attempt(&cluster, "a").number, 2);
    assert_eq!(attempt(&cluster, "a").priority_class, 1);
    assert_eq!(cluster.status("a").start_times.len(), 2);
}

#[test]
fn a_preempted_job_that_exits_0_is_interrupted_although_kubernetes_calls_it_complete() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { on_sigterm: 0, ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn a_pod_deleted_from_outside_is_an_interruption_whatever_its_exit_code() {
    for on_sigterm in [0, 1, 143] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), Workload { on_sigterm, ..work(300) });
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(10));
        cluster.delete_pod(&key("a-1-0"));
        cluster.run_until_phase("a", Phase::Interrupted);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Deleted));
        completed(&mut cluster, "a");
        assert_eq!(cluster.status("a").interrupted_count, 1);
    }
}

#[test]
fn a_job_deleted_from_outside_is_an_interruption() {
    for background in [true, false] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), work(300));
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(10));
        if background {
            cluster.delete_job_in_background(&key("a-1"));
        } else {
            cluster.delete_job_in_foreground(&key("a-1"));
        }
        cluster.run_until_phase("a", Phase::Interrupted);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Deleted));
        completed(&mut cluster, "a");
        assert_eq!(cluster.status("a").interrupted_count, 1);
    }
}

#[test]
fn a_job_deleted_while_nobody_watched_is_an_interruption() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.hold_watch(scavenger_simulator::Stream::Pods);
    cluster.hold_watch(scavenger_simulator::Stream::Jobs);
    cluster.delete_job_in_background(&key("a-1"));
    cluster.run_for(seconds(20));
    cluster.restart(false);
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Deleted));
    completed(&mut cluster, "a");
}

#[test]
fn a_gang_of_which_one_pod_is_preempted_goes_as_a_whole_and_comes_back_as_a_whole() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.preempt(&key("a-1-1"));
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.run_for(seconds(5));
    assert!(cluster.live_pods("a").is_empty());
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(cluster.live_pods("a").len(), 3);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
}

#[test]
fn a_gang_whose_peers_fail_while_the_preempted_pod_is_in_its_grace_is_interrupted() {
    for restart in [false, true] {
        let mut cluster = cluster();
        let workload = Workload { fails_with_peer: true, grace: seconds(1), ..work(300) };
        cluster.submit(sj("a").gang(3), workload);
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(10));
        cluster.preempt(&key("a-1-1"));
        cluster.exit(&key("a-1-0"), 1);
        cluster.exit(&key("a-1-2"), 1);
        if restart {
            cluster.restart(false);
        }
        cluster.run_until_phase("a", Phase::Interrupted);
        completed(&mut cluster, "a");
        assert_eq!(cluster.status("a").interrupted_count, 1);
    }
}

#[test]
fn a_gang_of_which_one_pod_is_deleted_after_another_has_completed_is_interrupted() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.exit(&key("a-1-0"), 0);
    cluster.run_for(seconds(10));
    cluster.delete_pod(&key("a-1-1"));
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Deleted));
    completed(&mut cluster, "a");
}

#[test]
fn a_pod_that_has_succeeded_can_be_evicted_and_removed_without_harm() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.exit(&key("a-1-1"), 0);
    cluster.run_for(seconds(10));
    cluster.evict(&key("a-1-1"));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.live_pods("a").len(), 2, "the others go on");
    assert_eq!(cluster.status("a").phase, Phase::Running);
    completed(&mut cluster, "a");
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Completed), Reason::Completed));
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn pods_that_the_job_controller_deletes_after_a_failure_are_no_interruption() {
    let mut cluster = cluster();
    // The operator is slower than the Job controller.
    cluster.delays.request = seconds(3);
    cluster.submit(sj("a").gang(3), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.exit(&key("a-1-0"), 1);
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
}

#[test]
fn a_gang_whose_peers_fail_because_a_node_went_down_is_interrupted() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), Workload { fails_with_peer: true, ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    // All of it happens while no planner runs.
    cluster.delays.watch.insert(scavenger_simulator::Stream::Pods, seconds(10));
    cluster.end_pod(&key("a-1-2"), 255, "Unknown");
    cluster.run_for(seconds(2));
    cluster.restart(false);
    cluster.delays.watch.insert(scavenger_simulator::Stream::Pods, millis(5));
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(outcome(&cluster, "a").2, Reason::NodeFailure);
    completed(&mut cluster, "a");
}

#[test]
fn the_message_of_the_job_controller_is_kept_if_no_pod_shows_the_disruption() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { on_sigterm: 1, ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.hold_watch(scavenger_simulator::Stream::Pods);
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(cluster.status("a").message, "attempt 1 was interrupted: pod a-1-0 had DisruptionTarget");
    cluster.let_go(scavenger_simulator::Stream::Pods);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
}

#[test]
fn a_lost_node_interrupts_and_holds_the_next_attempt_until_its_pods_are_gone() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    let node = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.lose_node(&node);
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(outcome(&cluster, "a").2, Reason::DeletionByTaintManager);
    cluster.run_for(seconds(600));
    assert_eq!(cluster.status("a").phase, Phase::Interrupted, "two writers could meet");
    assert_eq!(cluster.live_pods("a").len(), 1);
    cluster.remove_node(&node);
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn a_removed_node_interrupts() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    let node = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.remove_node(&node);
    cluster.run_until_phase("a", Phase::Interrupted);
    completed(&mut cluster, "a");
}

#[test]
fn an_owner_gets_its_room_and_the_job_resumes_when_the_owner_is_done() {
    let mut cluster = whole_cluster();
    for name in ["a", "b"] {
        cluster.submit(sj(name).asking(10_000), work(300));
    }
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_until_phase("b", Phase::Running);
    cluster.create_pod(pod("owner", 4000), seconds(200));
    cluster.run_for(seconds(60));
    let interrupted: Vec<&str> =
        ["a", "b"].into_iter().filter(|name| cluster.status(name).interrupted_count == 1).collect();
    let [victim] = interrupted[..] else { panic!("{interrupted:?}") };
    assert_eq!(cluster.waits(victim), Some(WaitingReason::NoCapacity));
    assert!(cluster.starts.iter().filter(|(name, _)| *name == key(victim)).count() == 1);
    completed(&mut cluster, victim);
    assert_eq!(attempt(&cluster, victim).number, 2);
}

#[test]
fn a_preemption_before_any_container_started_is_no_interruption() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(20);
    cluster.submit(sj("a"), work(300));
    cluster.run_for(seconds(5));
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Waiting);
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(cluster.status("a").failed_starts, 1);
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn a_gang_that_starts_is_interrupted_if_one_of_its_containers_had_started() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(2), work(300));
    cluster.delays.kubelet = seconds(5);
    cluster.random = Some((scavenger_simulator::Random::new(7), 0));
    cluster.run_until("one of two runs", |cluster| {
        let pods = cluster.live_pods("a");
        pods.iter().filter(|pod| pod.container.has_started()).count() == 1
    });
    cluster.preempt(&key("a-1-0"));
    cluster.preempt(&key("a-1-1"));
    cluster.run_until_phase("a", Phase::Interrupted);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
}

#[test]
fn a_gang_of_which_some_pods_ran_and_one_was_never_scheduled_is_interrupted_with_their_run_time() {
    let mut cluster = whole_cluster();
    cluster.strict = false;
    cluster.submit(sj("a").asking(6000).gang(2), work(300));
    cluster.run_until("its Job is made", |cluster| !cluster.jobs_of("a").is_empty());
    // Somebody else takes one of the two nodes just before its pods come.
    cluster.create_pod(pod("ordinary", 6000), seconds(500));
    cluster.run_until("it is given up", |cluster| cluster.status("a").failed_starts == 1);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Unscheduled));
    let status = cluster.status("a");
    assert_eq!(status.phase, Phase::Interrupted);
    assert_eq!((status.interrupted_count, status.counted_interruptions), (1, 0), "its rank stays");
    assert!(status.interruption_times.is_empty(), "and so does the time since which it has waited");
    assert!((55..=60).contains(&status.active_seconds), "{} s", status.active_seconds);
    assert_eq!(status.start_times.len(), 1);
    let attempt = attempt(&cluster, "a");
    let ran = attempt.end_time.unwrap().duration_since(attempt.start_time.unwrap());
    assert!((ran.as_secs() - status.active_seconds).abs() <= 1, "{ran}, cut to whole seconds");
    completed(&mut cluster, "a");
}

#[test]
fn what_a_rack_ran_does_not_come_back_in_one_second() {
    let mut cluster =
        Cluster::new(settings().filled_to(1.0).starting_at_once(100)).with_nodes([node("n1", 90_000)]);
    for number in 0..80 {
        cluster.submit(sj(&format!("job{number:02}")), work(300));
    }
    let in_phase =
        |cluster: &Cluster, phase| cluster.scavenger_jobs().filter(|sj| sj.status.phase == phase).count();
    cluster.run_until("all run", |cluster| in_phase(cluster, Phase::Running) == 80);
    let pods: Vec<_> = cluster.all_live_pods().iter().map(|pod| pod.key.clone()).collect();
    for pod in &pods {
        cluster.evict(pod);
    }
    cluster.run_until("all are interrupted", |cluster| in_phase(cluster, Phase::Interrupted) == 80);
    let mut before = cluster.starts.len();
    let mut most = 0;
    while in_phase(&cluster, Phase::Interrupted) > 0 {
        cluster.run_for(seconds(1));
        most = most.max(cluster.starts.len() - before);
        before = cluster.starts.len();
    }
    assert!((5..30).contains(&most), "{most} start in one second");
}

#[test]
fn a_place_in_the_queue_is_not_bought_by_evicting_oneself() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(3000));
    for number in 1..=3 {
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(100));
        cluster.evict(&key(&format!("a-{number}-0")));
        cluster.run_until_phase("a", Phase::Interrupted);
    }
    assert_eq!(cluster.status("a").interrupted_count, 3);
    assert_eq!(cluster.status("a").counted_interruptions, 0);
}

#[test]
fn an_eviction_from_a_cordoned_or_tainted_node_counts() {
    for tainted in [false, true] {
        let mut cluster = cluster();
        let here = cluster.all_nodes().next().cloned().unwrap();
        cluster.submit(sj("a"), work(300));
        cluster.run_until_phase("a", Phase::Running);
        cluster.set_node(if tainted { here.tainted("karpenter.sh/disrupted") } else { here.cordoned() });
        cluster.run_for(seconds(1));
        cluster.evict(&key("a-1-0"));
        cluster.run_until_phase("a", Phase::Interrupted);
        assert_eq!(cluster.status("a").counted_interruptions, 1, "{tainted}");
    }
}

#[test]
fn pressure_on_the_node_makes_no_eviction_count_unless_it_is_cordoned_too() {
    for (cordoned, counted) in [(false, 0), (true, 1)] {
        let mut cluster = cluster();
        cluster.strict = false;
        let here = cluster.all_nodes().next().cloned().unwrap();
        cluster.submit(sj("a"), Workload { grace: seconds(20), ..work(300) });
        cluster.run_until_phase("a", Phase::Running);
        // It fills the disk, and the operator sees that and the eviction at the same time.
        cluster.evict(&key("a-1-0"));
        let here = if cordoned { here.cordoned() } else { here };
        cluster.set_node(Node { pressure: Some("DiskPressure".into()), usable: false, ..here });
        cluster.restart(false);
        cluster.run_until_phase("a", Phase::Interrupted);
        assert_eq!(outcome(&cluster, "a").2, Reason::EvictionByEvictionAPI);
        assert_eq!(cluster.status("a").counted_interruptions, counted, "{cordoned}");
    }
}

/// How many pods each order to evict names.
fn evictions(cluster: &Cluster) -> Vec<usize> {
    let pods = |task: &Task| match task {
        Task::Interrupt { pods } => Some(pods.len()),
        _ => None,
    };
    cluster.log.iter().filter_map(|(_, action)| pods(&action.task)).collect()
}

/// A gang of five runs, and then the pool is drained.
fn drained_gang(grace: i64) -> Cluster {
    let mut cluster = cluster();
    cluster.submit(sj("gang").gang(5), Workload { grace: seconds(grace), ..work(300) });
    cluster.run_until_phase("gang", Phase::Running);
    cluster.set_pool(Ok(Settings { drain: true, ..settings() }));
    cluster
}

#[test]
fn one_eviction_is_enough_for_a_gang() {
    let mut cluster = drained_gang(20);
    cluster.run_until_phase("gang", Phase::Interrupted);
    cluster.run_for(seconds(2));
    let pods = cluster.live_pods("gang");
    assert_eq!(pods.len(), 5);
    assert!(pods.iter().all(|pod| pod.deletion_requested.is_some()), "its Job goes, and takes all of them");
    cluster.run_for(seconds(60));
    assert_eq!(evictions(&cluster), [1]);
    assert_eq!(outcome(&cluster, "gang"), (1, Some(Outcome::Interrupted), Reason::Drained));
    assert!(cluster.live_pods("gang").is_empty());
}

#[test]
fn a_gang_of_which_one_eviction_does_not_show_is_evicted_as_a_whole_after_5_seconds() {
    let mut cluster = drained_gang(20);
    for stream in [Stream::Pods, Stream::Jobs] {
        cluster.hold_watch(stream);
    }
    cluster.run_for(seconds(4));
    assert_eq!(evictions(&cluster), [1]);
    cluster.run_for(seconds(2));
    assert_eq!(evictions(&cluster), [1, 4]);
    for stream in [Stream::Pods, Stream::Jobs] {
        cluster.let_go(stream);
    }
    cluster.run_for(seconds(60));
    assert_eq!(evictions(&cluster), [1, 4]);
    assert_eq!(outcome(&cluster, "gang"), (1, Some(Outcome::Interrupted), Reason::Drained));
    assert!(cluster.live_pods("gang").is_empty());
}

#[test]
fn the_first_pod_of_a_gang_to_be_evicted_is_on_a_node_that_answers() {
    let mut cluster = whole_cluster();
    cluster.strict = false;
    cluster.submit(sj("gang").asking(6000).gang(2), work(300));
    cluster.run_until_phase("gang", Phase::Running);
    let node = cluster.pod("gang-1-0").and_then(|pod| pod.node.clone()).unwrap();
    cluster.lose_node(&node);
    cluster.run_for(seconds(1));
    cluster.set_pool(Ok(Settings { drain: true, ..settings() }));
    cluster.run_for(seconds(2));
    let first = cluster.log.iter().find_map(|(_, action)| match &action.task {
        Task::Interrupt { pods } => Some(pods.clone()),
        _ => None,
    });
    let first = first.unwrap();
    assert_eq!((first.len(), &*first[0].0.name), (1, "gang-1-1"));
}
