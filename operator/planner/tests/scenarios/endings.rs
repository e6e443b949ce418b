//! How a life ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use scavenger_planner::{
    action::Task,
    fixtures::{at, key, millis, node, seconds, settings, sj},
    internals::{Case, Evidence, JobState, Verdict, judge},
    values::{Outcome, Phase, PodPhase, Reason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{all_is_quiet, attempt, cluster, completed, level, outcome, work, writes};

#[test]
fn a_sj_completes() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(millis(100));
    assert_eq!(level(&cluster, "a"), Some(1));
    assert_eq!(cluster.status("a").start_times.len(), 1);
    completed(&mut cluster, "a");
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Completed), Reason::Completed));
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(cluster.status("a").message, "the workload succeeded");
}

#[test]
fn a_start_costs_three_writes_and_a_finalizer() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.settle();
    let tasks: Vec<&Task> = cluster.log.iter().map(|(_, action)| &action.task).collect();
    assert!(
        matches!(
            tasks[..],
            [Task::Prepare { .. }, Task::WriteStatus(_), Task::CreateJob { .. }, Task::WriteStatus(_)]
        ),
        "{tasks:?}"
    );
}

/// The writes that the API server gets because of what was carried out: the creation is its user's.
fn written(cluster: &Cluster) -> Vec<&'static str> {
    let of_task = |task: &Task| match task {
        Task::WriteStatus(write) if write.event.is_some() => vec!["status", "event"],
        Task::WriteStatus(_) => vec!["status"],
        Task::CreateJob { .. } => vec!["Job"],
        Task::DeleteJob { .. } => vec!["deletion of the Job"],
        Task::DeleteScavengerJob { .. } => vec!["deletion"],
        Task::RemoveFinalizer { .. } => vec!["finalizer"],
        Task::Interrupt { pods } => vec!["eviction"; pods.len()],
        Task::DeleteAgain { pods } => vec!["deletion of a pod"; pods.len()],
        Task::Prepare { .. }
        | Task::ReadJob { .. }
        | Task::LookForJob { .. }
        | Task::ListPods { .. }
        | Task::ReadPodEvents { .. } => Vec::new(),
    };
    cluster.log.iter().flat_map(|(_, action)| of_task(&action.task)).collect()
}

const START: [&str; 4] = ["status", "event", "Job", "status"];
const END_AND_REMOVAL: [&str; 4] = ["status", "event", "deletion", "finalizer"];

#[test]
fn an_undisturbed_life_costs_eight_writes() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(60));
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    assert_eq!(written(&cluster), [START, END_AND_REMOVAL].concat());
}

#[test]
fn each_further_attempt_costs_seven_writes() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(60));
    for number in 1..=2 {
        cluster.run_until("it runs", |cluster| {
            let status = cluster.status("a");
            status.phase == Phase::Running && status.attempt.as_ref().is_some_and(|a| a.number == number)
        });
        cluster.run_for(seconds(70));
        cluster.preempt(&key(&format!("a-{number}-0")));
    }
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    // That it was taken away is told, and its Job goes, so that the next one has the claims to itself.
    let interrupted: [&str; 3] = ["status", "event", "deletion of the Job"];
    let lives = [&START[..], &interrupted, &START, &interrupted, &START, &END_AND_REMOVAL];
    assert_eq!(written(&cluster), lives.concat());
}

#[test]
fn a_gang_completes_when_all_its_pods_have() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), work(60));
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(cluster.live_pods("a").len(), 3);
    completed(&mut cluster, "a");
}

#[test]
fn a_workload_that_ends_before_it_was_seen_to_run_completes() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { needs: millis(1), ..work(0) });
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").start_times.len(), 1);
}

#[test]
fn exit_code_1_fails_and_is_not_retried() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { exit_code: 1, ..work(10) });
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
    assert_eq!(cluster.status("a").message, "ContainerFailed: pod a-1-0 exited with code 1");
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(cluster.jobs_of("a").len(), 1, "the Job stays, so that its log can be read");
}

#[test]
fn a_gang_of_which_one_pod_fails_has_failed() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), work(600));
    cluster.run_until_phase("a", Phase::Running);
    cluster.exit(&key("a-1-1"), 2);
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
    assert_eq!(cluster.jobs_of("a").len(), 1, "the Job stays, so that its log can be read");
}

#[test]
fn running_out_of_memory_is_a_failure() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(600));
    cluster.run_until_phase("a", Phase::Running);
    cluster.end_pod(&key("a-1-0"), 137, "OOMKilled");
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::OOMKilled));
}

/// Where capacity is counted by requests the kernel kills others first: it killed itself.
#[test]
fn sigkill_that_nobody_explains_is_a_failure_where_others_are_killed_first() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(600));
    cluster.run_until_phase("a", Phase::Running);
    cluster.end_pod(&key("a-1-0"), 137, "Error");
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
}

#[test]
fn a_reported_checkpoint_starts_the_running_priority_over_and_is_told() {
    let mut cluster = Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a").interruptible_after(seconds(60)).watched(), work(300));
    cluster.run_until_phase("a", Phase::Running);
    let started = attempt(&cluster, "a").start_time.unwrap();
    let told =
        |cluster: &Cluster| Some(cluster.status("a").priority_start_over?.duration_since(started).as_secs());
    cluster.run_for(seconds(45));
    assert!(level(&cluster, "a") > Some(1));
    cluster.report_checkpoint("a");
    assert_eq!(level(&cluster, "a"), Some(1), "at once");
    // Its status was written when it began to run, and is not written again within a minute.
    cluster.run_for(seconds(10));
    assert_eq!(told(&cluster), None);
    cluster.run_for(seconds(10));
    assert!(told(&cluster).is_some_and(|told| (45..=46).contains(&told)), "{:?}", told(&cluster));
    cluster.run_for(seconds(25));
    assert!(level(&cluster, "a") > Some(1));
    cluster.report_checkpoint("a");
    assert_eq!(level(&cluster, "a"), Some(1));
    cluster.run_for(seconds(80));
    assert_eq!(level(&cluster, "a"), Some(3), "its next checkpoint is 20 s late: there is most to lose");
    completed(&mut cluster, "a");
}

#[test]
fn time_in_which_nobody_looked_is_no_run_time() {
    for (restart, taken) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut cluster = cluster();
        cluster.submit(sj("a").gang(2), Workload { exit_code: 0, ..work(900) });
        cluster.control("a", |controls| controls.active_deadline = Some(seconds(3600)));
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(300));
        // Nothing can be written for two hours.
        cluster.outage = true;
        let mut end = cluster.now;
        if taken {
            cluster.preempt(&key("a-1-1"));
            cluster.run_for(seconds(7200));
        } else {
            cluster.run_for(seconds(7200));
            end = attempt(&cluster, "a").start_time.unwrap() + seconds(900);
        }
        if restart {
            cluster.restart(false);
        }
        cluster.outage = false;
        let outcome = if taken { Outcome::Interrupted } else { Outcome::Completed };
        cluster.run_until("its end is written", |cluster| attempt(cluster, "a").outcome == Some(outcome));
        let (status, attempt) = (cluster.status("a"), attempt(&cluster, "a"));
        let late = attempt.end_time.unwrap().duration_since(end).as_secs();
        assert!((-1..=4).contains(&late), "{late}");
        assert!((299..=902).contains(&status.active_seconds), "{}", status.active_seconds);
        if taken {
            assert!(status.active_seconds <= 304, "{}", status.active_seconds);
            assert_eq!(status.interruption_times, [attempt.end_time.unwrap()]);
            assert_eq!(attempt.disruption.as_ref().map(|sign| sign.time), attempt.end_time);
        }
        completed(&mut cluster, "a");
    }
}

#[test]
fn a_spec_that_can_not_be_understood_fails_at_once() {
    let mut cluster = cluster();
    cluster.submit(sj("a").invalid("spec.resources.requests.cpu: \"many\" is not a quantity"), work(1));
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert!(cluster.status("a").message.starts_with("InvalidSpec: spec.resources"));
    assert_eq!(cluster.status("a").attempt, None);
}

#[test]
fn the_running_priority_rises_in_steps_and_starts_over_without_a_write() {
    let mut cluster = cluster();
    cluster.submit(sj("a").interruptible_after(seconds(60)), work(200));
    cluster.run_until_phase("a", Phase::Running);
    let started = attempt(&cluster, "a").start_time.unwrap();
    let before = writes(&cluster);
    let mut seen = Vec::new();
    for second in [1, 19, 21, 39, 41, 59, 61, 81, 121] {
        cluster.run_for((started + seconds(second)).duration_since(cluster.now));
        seen.push(level(&cluster, "a").unwrap());
    }
    assert_eq!(seen, [1, 1, 2, 2, 3, 3, 1, 2, 1]);
    assert_eq!(writes(&cluster), before);
    // The next write has it.
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    let over = cluster.status("a").priority_start_over.unwrap();
    assert_eq!(over.duration_since(started).as_secs(), 120);
}

#[test]
fn a_reference_that_is_missing_fails_only_after_the_grace() {
    let mut cluster = cluster();
    let claim = ("PersistentVolumeClaim".to_owned(), "data".to_owned());
    cluster.submit(sj("a"), Workload { refers_to: vec![claim], ..work(10) });
    let began = cluster.now;
    cluster.run_until_phase("a", Phase::Failed);
    let waited = cluster.now.duration_since(began);
    assert!(waited >= seconds(30) && waited < seconds(32), "{waited}");
    all_is_quiet(&mut cluster);
    assert_eq!(
        cluster.status("a").message,
        "ReferenceMissing: PersistentVolumeClaim \"data\" does not exist in namespace \"lab\""
    );
    assert!(cluster.jobs_of("a").is_empty());
}

#[test]
fn a_reference_that_appears_in_time_is_no_failure() {
    let mut cluster = cluster();
    let claim = ("PersistentVolumeClaim".to_owned(), "data".to_owned());
    cluster.submit(sj("a"), Workload { refers_to: vec![claim.clone()], ..work(10) });
    cluster.run_for(seconds(25));
    assert_eq!(cluster.status("a").phase, Phase::Waiting);
    assert!(cluster.status("a").message.contains("does not exist"));
    cluster.references.insert(claim);
    completed(&mut cluster, "a");
}

#[test]
fn another_missing_reference_after_the_spec_was_replaced_gets_a_grace_of_its_own() {
    let mut cluster = cluster();
    let claim = |name: &str| ("PersistentVolumeClaim".to_owned(), name.to_owned());
    cluster.submit(sj("a"), Workload { refers_to: vec![claim("old")], ..work(10) });
    cluster.run_for(seconds(25));
    cluster.replace("a", |sj| sj.asking(500));
    cluster.refers_to("a", vec![claim("new")]);
    cluster.run_for(seconds(25));
    assert_eq!(cluster.status("a").phase, Phase::Waiting);
    cluster.references.insert(claim("new"));
    completed(&mut cluster, "a");
}

#[test]
fn a_container_that_can_not_be_created_fails_after_the_deadline_and_its_job_goes() {
    let mut cluster = cluster();
    let stuck = ("ErrImagePull".to_owned(), "failed to resolve reference: r.io/nope:1: not found".to_owned());
    cluster.submit(sj("a"), Workload { stuck: Some(stuck), ..work(10) });
    cluster.run_for(seconds(299));
    assert_eq!(cluster.status("a").phase, Phase::Starting);
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerNotCreated));
    assert_eq!(
        cluster.status("a").message,
        "ContainerNotCreated: pod a-1-0: ErrImagePull: failed to resolve reference: r.io/nope:1: not found; \
         check spec.image"
    );
    assert!(cluster.status("a").start_times.is_empty(), "no container ever ran");
    assert!(cluster.jobs_of("a").is_empty(), "it would go on trying");
}

#[test]
fn a_node_that_goes_before_the_container_starts_is_no_failure_of_the_workload() {
    let mut cluster = cluster();
    let here = cluster.all_nodes().next().cloned().unwrap();
    cluster.delays.kubelet = seconds(10_000);
    cluster.submit(sj("a"), work(10));
    cluster.run_for(seconds(5));
    cluster.set_node(here.clone().unusable());
    cluster.run_for(seconds(310));
    assert_ne!(cluster.status("a").phase, Phase::Failed, "{}", cluster.history());
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::Unscheduled));
    let said = cluster.status("a").attempt.clone().unwrap().message.unwrap();
    assert!(said.contains("is not ready"), "{said}");
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn a_job_that_ends_at_the_start_deadline_is_not_failed_for_not_having_started() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(298);
    cluster.delays.job_controller = seconds(4);
    cluster.submit(sj("a"), Workload { needs: millis(1), ..work(0) });
    completed(&mut cluster, "a");
}

#[test]
fn a_node_that_goes_down_under_a_pod_is_an_interruption() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.end_pod(&key("a-1-0"), 255, "Unknown");
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(cluster.status("a").interrupted_count, 1);
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn a_pod_that_the_kubelet_refuses_is_no_interruption() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(20);
    cluster.submit(sj("a"), work(300));
    cluster.run_for(seconds(5));
    cluster.refuse_pod(&key("a-1-0"), "OutOfcpu");
    cluster.run_until_phase("a", Phase::Waiting);
    assert_eq!(cluster.status("a").interrupted_count, 0);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure));
    completed(&mut cluster, "a");
}

#[test]
fn a_container_that_the_kubelet_lost_before_it_started_is_no_interruption() {
    let mut cluster = cluster();
    cluster.delays.kubelet = seconds(20);
    cluster.submit(sj("a"), work(300));
    cluster.run_for(seconds(5));
    cluster.end_pod(&key("a-1-0"), 137, "ContainerStatusUnknown");
    cluster.run_until_phase("a", Phase::Waiting);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Withdrawn), Reason::NodeFailure));
    completed(&mut cluster, "a");
}

#[test]
fn pods_that_the_job_controller_deletes_are_no_sign_for_a_planner_that_was_started_anew() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), Workload { grace: seconds(8), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.exit(&key("a-1-0"), 1);
    cluster.run_for(seconds(3));
    assert!(cluster.pod("a-1-1").unwrap().deletion_requested.is_some());
    cluster.restart(false);
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Failed), Reason::ContainerFailed));
}

/// What a new leader sees of a pod that was deleted in the second in which its container ended, or before it, when the
/// kubelet has deleted it, too.
#[test]
fn a_tie_is_no_failure_whatever_the_phase_of_the_pod() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload::default());
    cluster.run_until_phase("a", Phase::Running);
    let attempt = attempt(&cluster, "a").clone();
    let job = cluster.jobs_of("a")[0].clone();
    let running = cluster.all_live_pods()[0].clone();
    for (phase, deleted, forced) in
        // The node's clock and that of the API server may differ by some seconds.
        [
            (PodPhase::Running, 8, false),
            (PodPhase::Failed, 8, false),
            (PodPhase::Failed, 9, true),
            (PodPhase::Failed, 3, false),
            (PodPhase::Failed, 13, false),
        ]
    {
        let mut pod = running.clone().ended(143, at(8)).deleted(at(deleted));
        (pod.phase, pod.deletion_forced) = (phase, forced);
        let mut evidence = Evidence::default();
        evidence.note(&pod, 1, at(9));
        let pods = BTreeMap::from([(pod.key.name.clone(), Arc::new(pod))]);
        let verdict = judge(&Case {
            attempt: &attempt,
            evidence: &evidence,
            job: JobState::There(&job),
            pods: &pods,
            listed: false,
            lost: None,
            is_to_blame: false,
            usage: None,
            out_of_memory_nodes: &[],
            made_progress: false,
            killed_by: &BTreeMap::new(),
            node_agents: &BTreeSet::new(),
            now: at(9),
        });
        let Verdict::Ended(ending) = verdict else { panic!("{verdict:?}") };
        assert_eq!((ending.outcome, ending.reason), (Outcome::Interrupted, Reason::Unknown), "{phase:?}");
    }
}
