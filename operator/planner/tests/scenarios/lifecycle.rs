//! What people set about a life: suspended, limited, cleaned up; and what they are told.

use scavenger_planner::{
    action::Task,
    fixtures::{key, millis, node, pod, seconds, settings, sj, warning},
    values::{Key, Observation, Outcome, Phase, Reason, WaitingReason},
};
use scavenger_simulator::{Cluster, Stream, Workload};

use super::{all_is_quiet, attempt, cluster, completed, outcome, work, writes};

#[test]
fn one_that_is_suspended_waits_until_it_is_not() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.control("a", |controls| controls.suspend = true);
    cluster.run_for(seconds(100));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Suspended));
    assert_eq!(cluster.status("a").message, "held by spec.suspend");
    assert_eq!(attempt_number(&cluster), 0);
    assert_eq!(writes(&cluster), 1, "{}", cluster.history());
    cluster.control("a", |controls| controls.suspend = false);
    completed(&mut cluster, "a");
}

fn attempt_number(cluster: &Cluster) -> u32 {
    cluster.status("a").attempt.as_ref().map_or(0, |attempt| attempt.number)
}

#[test]
fn one_that_runs_is_interrupted_by_suspend_and_resumes_without_having_advanced() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { grace: seconds(20), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(100));
    cluster.control("a", |controls| controls.suspend = true);
    cluster.run_for(millis(100));
    let status = cluster.status("a");
    assert_eq!(status.phase, Phase::Interrupted, "the status comes before the pod is stopped");
    assert_eq!((status.interrupted_count, status.counted_interruptions), (1, 0));
    assert_eq!(status.observed_generation, 2);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Suspended));
    cluster.run_for(seconds(1000));
    assert!(cluster.live_pods("a").is_empty() && cluster.jobs_of("a").is_empty());
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Suspended));
    assert_eq!(writes(&cluster), 3, "Starting, Running, Interrupted");
    cluster.control("a", |controls| controls.suspend = false);
    cluster.run_until_phase("a", Phase::Running);
    let resumed = cluster.now;
    completed(&mut cluster, "a");
    assert_eq!((attempt(&cluster, "a").number, attempt(&cluster, "a").priority_class), (2, 0));
    let ran = attempt(&cluster, "a").end_time.unwrap().duration_since(resumed);
    assert!(ran < seconds(205), "it goes on where it stopped: {ran}");
}

#[test]
fn suspended_while_it_starts_it_goes_back_to_where_it_was() {
    for restart in [false, true] {
        let mut cluster = cluster();
        cluster.delays.kubelet = seconds(20);
        cluster.submit(sj("a"), work(10));
        cluster.run_for(seconds(5));
        cluster.control("a", |controls| controls.suspend = true);
        if restart {
            cluster.restart(false);
        }
        cluster.run_until_phase("a", Phase::Waiting);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::Suspended));
        let status = cluster.status("a");
        assert_eq!((status.interrupted_count, status.failed_starts), (0, 0));
        cluster.run_for(seconds(30));
        cluster.control("a", |controls| controls.suspend = false);
        completed(&mut cluster, "a");
    }
}

#[test]
fn an_end_that_has_shown_is_not_made_an_interruption_by_suspend() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.run_until_phase("a", Phase::Running);
    cluster.hold_watch(Stream::ScavengerJobs);
    cluster.control("a", |controls| controls.suspend = true);
    cluster.run_for(seconds(20));
    cluster.let_go(Stream::ScavengerJobs);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn the_deadline_counts_run_time_over_all_attempts() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10_000));
    cluster.control("a", |controls| controls.active_deadline = Some(seconds(300)));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(200));
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    let before = cluster.status("a").active_seconds;
    assert!((199..=201).contains(&before), "{before}");
    // Waiting costs nothing.
    cluster.run_until_phase("a", Phase::Running);
    let resumed = cluster.now;
    cluster.run_until_phase("a", Phase::Failed);
    let ran = cluster.now.duration_since(resumed).as_secs();
    assert!((98..=101).contains(&ran), "{ran}");
    assert_eq!(outcome(&cluster, "a"), (2, Some(Outcome::Failed), Reason::DeadlineExceeded));
    assert_eq!(
        cluster.status("a").message,
        "DeadlineExceeded: all attempts together reached spec.activeDeadlineSeconds (300 s)"
    );
    all_is_quiet(&mut cluster);
    assert!(cluster.jobs_of("a").is_empty(), "it would go on");
}

#[test]
fn a_deadline_that_is_shortened_acts_at_once_and_one_that_is_lengthened_saves() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(200));
    cluster.control("a", |controls| controls.active_deadline = Some(seconds(100)));
    cluster.submit(sj("b"), work(1000));
    cluster.run_until_phase("b", Phase::Running);
    cluster.run_for(seconds(90));
    cluster.control("a", |controls| controls.active_deadline = Some(seconds(1000)));
    cluster.control("b", |controls| controls.active_deadline = Some(seconds(50)));
    cluster.run_for(seconds(1));
    assert_eq!(cluster.status("b").phase, Phase::Failed);
    completed(&mut cluster, "a");
}

#[test]
fn a_deadline_that_has_passed_while_it_waits_fails_it() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(1000));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(100));
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.control("a", |controls| controls.active_deadline = Some(seconds(50)));
    cluster.run_until_phase("a", Phase::Failed);
    assert!(cluster.status("a").message.starts_with("DeadlineExceeded: "), "{}", cluster.status("a").message);
    assert_eq!(attempt(&cluster, "a").number, 1);
    all_is_quiet(&mut cluster);
}

#[test]
fn a_finished_one_goes_after_its_time_with_its_jobs() {
    for exit_code in [0, 1] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), Workload { exit_code, ..work(10) });
        cluster.control("a", |controls| controls.ttl_after_finished = seconds(600));
        cluster.run_until("it is finished", |cluster| cluster.status("a").phase.is_finished());
        let finished = cluster.now;
        cluster.run_for(seconds(598));
        assert_eq!(cluster.jobs_of("a").len(), 1);
        cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
        let stayed = cluster.now.duration_since(finished);
        assert!(stayed >= seconds(599) && stayed < seconds(604), "{stayed}");
        cluster.settle();
        assert_eq!(cluster.all_jobs().count(), 0);
        all_is_quiet(&mut cluster);
    }
}

#[test]
fn the_time_a_finished_one_stays_can_be_changed_and_its_default_is_a_week() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.submit(sj("b").invalid("no"), work(10));
    cluster.run_until_phase("a", Phase::Completed);
    cluster.run_for(seconds(7 * 24 * 3600 - 60));
    assert!(cluster.exists("a") && cluster.exists("b"));
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(8 * 24 * 3600));
    cluster.run_for(seconds(120));
    assert!(cluster.exists("a"));
    assert_eq!(cluster.status("a").observed_generation, 2);
    assert!(!cluster.exists("b"), "one without finalizer and Jobs goes, too");
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(0));
    cluster.run_for(seconds(10));
    assert!(!cluster.exists("a"));
}

#[test]
fn a_ttl_that_is_lengthened_in_the_last_moment_holds() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(100));
    cluster.run_until_phase("a", Phase::Completed);
    cluster.hold_watch(Stream::ScavengerJobs);
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(1000));
    cluster.run_for(seconds(200));
    assert!(cluster.exists("a"), "the planner judged an old version");
    cluster.let_go(Stream::ScavengerJobs);
    cluster.run_for(seconds(100));
    assert!(cluster.exists("a"));
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
}

#[test]
fn only_interruptions_by_the_cluster_advance() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10_000));
    let mut seen = Vec::new();
    for number in 1..=4 {
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(70));
        let pod = key(&format!("a-{number}-0"));
        match number {
            1 => cluster.delete_pod(&pod),
            2 => cluster.evict(&pod),
            3 => cluster.end_pod(&pod, 255, "Unknown"),
            _ => cluster.delete_job_in_background(&key("a-4")),
        }
        cluster.run_until_phase("a", Phase::Interrupted);
        let status = cluster.status("a");
        seen.push((outcome(&cluster, "a").2, status.interrupted_count, status.counted_interruptions));
    }
    assert_eq!(
        seen,
        [
            (Reason::Deleted, 1, 0),
            // From a node that is open: anybody may evict pods of their own.
            (Reason::EvictionByEvictionAPI, 2, 0),
            (Reason::NodeFailure, 3, 1),
            (Reason::Deleted, 4, 1)
        ]
    );
    cluster.run_until_phase("a", Phase::Starting);
    assert_eq!(attempt(&cluster, "a").priority_class, 1);
}

#[test]
fn the_wait_after_an_interruption_doubles_until_an_attempt_has_run_for_a_whole_stretch() {
    let mut cluster = cluster();
    cluster.submit(sj("a").interruptible_after(seconds(60)), work(10_000));
    let mut waits = Vec::new();
    for (number, runs) in [(1, 10), (2, 10), (3, 10), (4, 61), (5, 10)] {
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(runs));
        cluster.preempt(&key(&format!("a-{number}-0")));
        let interrupted = cluster.now;
        cluster.run_until_phase("a", Phase::Starting);
        waits.push(cluster.now.duration_since(interrupted).as_secs());
    }
    // Each is longer by up to a quarter.
    let expected = [30, 60, 120, 30, 60];
    let fits = |(wait, least): (&i64, i64)| (least - 1..=least * 5 / 4 + 3).contains(wait);
    assert!(waits.iter().zip(expected).all(fits), "{waits:?}");
    assert_eq!(cluster.status("a").interruptions_in_a_row, 2);
}

#[test]
fn while_one_backs_off_the_next_in_order_starts() {
    let mut cluster = cluster();
    cluster.submit(sj("a").asking(7000), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.submit(sj("b").asking(7000), work(100));
    cluster.run_for(seconds(10));
    cluster.preempt(&key("a-1-0"));
    cluster.run_for(seconds(10));
    assert_eq!(cluster.status("b").phase, Phase::Running);
    completed(&mut cluster, "a");
}

/// A gang of which one pod vanishes unseen while another fails: who was first?
fn a_gang_ends_and_nobody_knows_why(cluster: &mut Cluster, number: u32) {
    a_gang_runs_for_and_nobody_knows_why_it_ends(cluster, number, 10);
}

fn a_gang_runs_for_and_nobody_knows_why_it_ends(cluster: &mut Cluster, number: u32, ran: i64) {
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(ran));
    for stream in [Stream::Pods, Stream::Jobs] {
        cluster.hold_watch(stream);
    }
    cluster.exit(&key(&format!("a-{number}-0")), 1);
    cluster.delete_pod(&key(&format!("a-{number}-1")));
    cluster.run_for(seconds(20));
    cluster.restart(false);
    cluster.run_until("it ends", |cluster| !cluster.status("a").phase.is_active());
}

#[test]
fn an_end_without_evidence_gets_one_further_attempt_and_no_more() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(2), work(300));
    a_gang_ends_and_nobody_knows_why(&mut cluster, 1);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Unknown));
    let status = cluster.status("a");
    assert_eq!(
        (status.unknown_ends_in_a_row, status.interrupted_count, status.counted_interruptions),
        (1, 1, 0)
    );
    // An attempt that is not scheduled says nothing about it.
    cluster.scheduler_works = false;
    cluster.run_until("attempt 2 is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    cluster.scheduler_works = true;
    a_gang_ends_and_nobody_knows_why(&mut cluster, 3);
    assert_eq!(outcome(&cluster, "a"), (3, Some(Outcome::Failed), Reason::Unknown));
    assert!(cluster.status("a").message.ends_with("the attempt before it ended in the same way"));
    all_is_quiet(&mut cluster);
}

#[test]
fn a_good_stretch_of_run_time_forgives_an_end_that_nobody_explained() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(2), work(3000));
    // It needs 60 s for lasting progress.
    for (number, ran, end) in
        [(1, 10, Outcome::Interrupted), (2, 70, Outcome::Interrupted), (3, 10, Outcome::Failed)]
    {
        a_gang_runs_for_and_nobody_knows_why_it_ends(&mut cluster, number, ran);
        assert_eq!(outcome(&cluster, "a"), (number, Some(end), Reason::Unknown));
    }
}

#[test]
fn an_interruption_for_a_known_reason_between_two_unknown_ends_gives_another_attempt() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(2), work(300));
    a_gang_ends_and_nobody_knows_why(&mut cluster, 1);
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-2-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(cluster.status("a").unknown_ends_in_a_row, 0);
    a_gang_ends_and_nobody_knows_why(&mut cluster, 3);
    assert_eq!(outcome(&cluster, "a"), (3, Some(Outcome::Interrupted), Reason::Unknown));
    completed(&mut cluster, "a");
}

#[test]
fn an_eviction_for_a_limit_of_its_own_is_a_failure_with_the_kubelets_message() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    // Without condition DisruptionTarget, which an eviction for the node's sake has.
    let message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ";
    cluster.fail_pod(&key("a-1-0"), "Evicted", message);
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::LimitExceeded));
    assert_eq!(
        cluster.status("a").message,
        "LimitExceeded: pod a-1-0 was evicted by the kubelet: Pod ephemeral local storage usage exceeds the total limit \
         of containers 1Gi."
    );
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(cluster.jobs_of("a").len(), 1, "the Job stays, so that its log can be read");
}

#[test]
fn pods_that_are_refused_are_tried_again_and_the_servers_sentence_is_told() {
    let mut cluster = cluster();
    let sentence = "pods \"a-1-0-x\" is forbidden: violates PodSecurity \"restricted:latest\": no";
    cluster.create_failure = Some(sentence.to_owned());
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is refused", |cluster| cluster.status("a").failed_starts > 0);
    assert!(cluster.now < scavenger_planner::fixtures::at(20), "a quarter of pendingTimeout");
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::Refused));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Refused));
    assert_eq!(cluster.status("a").message, sentence);
    cluster.run_for(seconds(1));
    assert!(cluster.jobs_of("a").is_empty(), "the Job controller would go on trying");
    cluster.create_failure = None;
    completed(&mut cluster, "a");
}

#[test]
fn a_service_account_that_went_is_judged_as_a_missing_reference() {
    let mut cluster = cluster();
    let account = ("ServiceAccount".to_owned(), "me".to_owned());
    cluster.references.insert(account.clone());
    cluster.create_failure = Some(
        "pods \"a-1-0\" is forbidden: error looking up service account lab/me: serviceaccount \"me\" not found"
            .to_owned(),
    );
    cluster.submit(sj("a"), Workload { refers_to: vec![account.clone()], ..work(10) });
    cluster.run_until_phase("a", Phase::Starting);
    cluster.references.remove(&account);
    cluster.run_until_phase("a", Phase::Waiting);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::BackingOff));
    assert!(cluster.status("a").message.contains("serviceaccount \"me\" not found"));
    let withdrawn = cluster.now;
    cluster.run_until_phase("a", Phase::Failed);
    let waited = cluster.now.duration_since(withdrawn);
    assert!(waited >= seconds(30) && waited < seconds(45), "{waited}");
    assert_eq!(
        cluster.status("a").message,
        "ReferenceMissing: ServiceAccount \"me\" does not exist in namespace \"lab\""
    );
    all_is_quiet(&mut cluster);
}

#[test]
fn what_may_pass_is_no_failure() {
    let mut cluster = cluster();
    cluster.create_failure =
        Some("pods \"a-1-0\" is forbidden: no PriorityClass with name x was found".into());
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    assert!(cluster.now > scavenger_planner::fixtures::at(58), "{}", cluster.now);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Unscheduled));
    cluster.create_failure = None;
    completed(&mut cluster, "a");
}

#[test]
fn a_slow_pull_that_makes_progress_is_no_failure() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(1500);
    cluster.submit(sj("a"), work(10));
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 1);
    let asked = cluster.log.iter().filter(|(_, action)| matches!(action.task, Task::ReadPodEvents { .. }));
    assert!((15..=22).contains(&asked.count()), "once a minute after startDeadline");
}

#[test]
fn a_volume_that_can_not_be_mounted_fails_it_after_the_deadline_with_the_kubelets_reason() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(100_000);
    let message = "MountVolume.SetUp failed for volume \"secret-0\" : secret \"s\" not found";
    cluster.pod_event = Some(warning("FailedMount", message));
    let mut naming = sj("a");
    naming.spec.as_mut().unwrap().secrets = vec!["s".into()];
    cluster.submit(naming, work(10));
    cluster.run_for(seconds(299));
    assert_eq!(cluster.status("a").phase, Phase::Starting);
    cluster.run_for(seconds(5));
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerNotCreated));
    assert_eq!(
        cluster.status("a").message,
        "ContainerNotCreated: pod a-1-0 on node n1: FailedMount: MountVolume.SetUp failed for volume \"secret-0\" : secret \
         \"s\" not found"
    );
    assert!(cluster.jobs_of("a").iter().all(|job| job.deleting), "it would go on trying");
}

#[test]
fn a_node_that_can_not_make_sandboxes_or_says_nothing_is_not_the_workloads_fault() {
    let event = |reason: &str, message: &str| Some(warning(reason, message));
    for event in [
        event("FailedCreatePodSandBox", "no"),
        // Until Kubernetes detaches it from a node that is lost, six minutes later.
        event(
            "FailedAttachVolume",
            "Multi-Attach error for volume \"pv\" Volume is already used by pod(s) a-1-0",
        ),
        event("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[pvc-0]: timed out"),
        None,
    ] {
        let mut cluster = cluster();
        cluster.delays.kubelet = seconds(1000);
        cluster.pod_event = event;
        cluster.submit(sj("a"), work(10));
        cluster.run_until_phase("a", Phase::Starting);
        cluster.run_until_phase("a", Phase::Waiting);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure));
        cluster.delays.kubelet = millis(700);
        completed(&mut cluster, "a");
    }
}

#[test]
fn an_event_that_only_announces_a_failure_waits_for_its_cause() {
    for (reason, message) in [
        ("Failed", "Error: ImagePullBackOff"),
        ("Failed", "Failed to pull image \"r.io/a:1\": 503 Service Unavailable"),
        ("BackOff", "Back-off pulling image \"r.io/a:1\""),
    ] {
        let mut cluster = cluster();
        // The container's status comes after the deadline of 300 s, and is good by then.
        cluster.delays.kubelet = seconds(310);
        cluster.pod_event = Some(warning(reason, message));
        cluster.submit(sj("a"), work(10));
        completed(&mut cluster, "a");
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Completed), Reason::Completed), "{message}");
    }
}

/// As `SyncPod` and `pkg/kubelet/network/dns` of the kubelet (1.37) say it before they pull the image.
#[test]
fn a_warning_that_keeps_a_pod_from_nothing_is_none() {
    for (reason, message) in [
        ("FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (login)"),
        ("DNSConfigForming", "Nameserver limits were exceeded"),
        ("MissingClusterDNS", "kubelet does not have ClusterDNS IP configured"),
    ] {
        let mut cluster = cluster();
        // A large image is pulled for longer than the deadline of 300 s.
        cluster.delays.kubelet = seconds(600);
        cluster.pod_event = Some(warning(reason, message));
        cluster.submit(sj("a"), work(10));
        completed(&mut cluster, "a");
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Completed), Reason::Completed), "{message}");
    }
}

#[test]
fn a_pod_of_another_namespace_belongs_to_nobody_whatever_it_says() {
    for before in [false, true] {
        let mut cluster = cluster();
        cluster.set_pool(Ok(settings().without_headroom()));
        cluster.strict = false;
        cluster.submit(sj("a"), work(100));
        let uid = cluster.scavenger_jobs().next().unwrap().uid.clone();
        let forge = |cluster: &mut Cluster| {
            // It has the name of the attempt's pod, was deleted, and asks for more than there is.
            let mut forged = pod("a-1-0", 9000).of(&uid, 1).on("n1").disrupted("PreemptionByScheduler");
            forged.key.namespace = "evil".into();
            forged.resource_version = 1_000_000;
            cluster.tell(Observation::Pod(Box::new(forged)));
        };
        if before {
            // Seen before the ScavengerJob is.
            forge(&mut cluster);
        } else {
            cluster.run_until_phase("a", Phase::Running);
            forge(&mut cluster);
        }
        cluster.run_for(seconds(10));
        if before {
            // It uses its room as any ordinary pod does.
            assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
        } else {
            assert_eq!(cluster.status("a").phase, Phase::Running);
        }
        cluster.tell(Observation::PodGone(Key::new("evil", "a-1-0")));
        completed(&mut cluster, "a");
        assert_eq!(cluster.status("a").interrupted_count, 0);
    }
}

#[test]
fn a_message_is_written_anew_when_its_numbers_changed_much_but_not_more_than_once_a_minute() {
    let mut cluster = cluster();
    cluster.preempts = false;
    cluster.create_pod(pod("owner", 5000), seconds(100_000));
    cluster.run_for(seconds(2));
    cluster.submit(sj("a").asking(4000), work(10));
    cluster.run_for(seconds(2));
    let told = "needs 4 cpu, but only 2 cpu are left below the threshold of 70%";
    assert_eq!(cluster.status("a").message, told);
    for number in 0..20 {
        cluster.create_pod(pod(&format!("small{number}"), 50), seconds(100_000));
        cluster.run_for(seconds(1));
    }
    assert_eq!((cluster.status("a").message.as_str(), writes(&cluster)), (told, 1));
    cluster.run_for(seconds(60));
    let told = "needs 4 cpu, but only 1 cpu are left below the threshold of 70%";
    assert_eq!((cluster.status("a").message.as_str(), writes(&cluster)), (told, 2));
    // A little less is no news.
    cluster.create_pod(pod("tiny", 50), seconds(100_000));
    cluster.run_for(seconds(1000));
    assert_eq!((cluster.status("a").message.as_str(), writes(&cluster)), (told, 2));
    cluster.restart(false);
    cluster.run_for(seconds(1000));
    assert_eq!(writes(&cluster), 2, "{}", cluster.history());
}

#[test]
fn a_pod_on_a_node_that_does_not_answer_holds_the_next_attempt_and_it_says_so() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    let node = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.lose_node(&node);
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.run_for(seconds(40));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NodeUnreachable));
    assert!(
        cluster.status("a").message.contains(&format!("pod a-1-0 of its last attempt is on node {node}"))
    );
    cluster.recover_node(&node);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").counted_interruptions, 1);
}

#[test]
fn a_pod_that_ends_slowly_on_a_cordoned_node_is_not_called_unreachable() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), Workload { grace: seconds(100), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    let here = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.set_node(node(&here, 10_000).cordoned());
    cluster.evict(&key("a-1-0"));
    cluster.run_for(seconds(90));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::BackingOff));
    assert_eq!(cluster.status("a").message, "waits until pod a-1-0 of its last attempt has ended");
    completed(&mut cluster, "a");
}

#[test]
fn a_deletion_that_a_lost_node_holds_is_explained() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(100_000));
    cluster.run_until_phase("a", Phase::Running);
    let node = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.lose_node(&node);
    cluster.delete_sj("a");
    cluster.run_for(seconds(60));
    assert_eq!(
        cluster.status("a").message,
        format!("its deletion waits for pod a-1-0 on node {node}, which is gone or not ready")
    );
    cluster.remove_node(&node);
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    all_is_quiet(&mut cluster);
}

#[test]
fn a_deletion_that_goes_its_way_is_not_explained() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { grace: seconds(60), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    let before = writes(&cluster);
    cluster.delete_sj("a");
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    assert_eq!(writes(&cluster), before);
}
