//! ScavengerJobs that are deleted, in every phase.

use scavenger_planner::{
    action::{Action, Task},
    fixtures::{key, node, seconds, settings, sj},
    loss::Work,
    values::{Attempt, Measured, Outcome, Phase, Reason, ScavengerJob},
};
use scavenger_simulator::{Cluster, Stream, Workload};

use super::{all_is_quiet, cluster, completed, work};

/// Deletes `a` and sees to it that its name is held until its pods are gone, which get their grace.
fn delete(cluster: &mut Cluster) {
    cluster.delete_sj("a");
    let before = cluster.live_pods("a").len();
    cluster.run_until("it is gone", |cluster| {
        assert!(cluster.exists("a") || cluster.live_pods("a").is_empty(), "the name is free too early");
        !cluster.exists("a")
    });
    if before > 0 {
        assert!(
            cluster.log.iter().any(|(_, action)| { matches!(action.task, Task::RemoveFinalizer { .. }) })
        );
    }
    all_is_quiet(cluster);
    cluster.submit(sj("a"), work(5));
    completed(cluster, "a");
}

#[test]
fn deleted_while_it_waits_for_room() {
    let mut cluster = cluster();
    cluster.submit(sj("a").asking(7001), work(300));
    cluster.run_for(seconds(5));
    assert_eq!(cluster.status("a").phase, Phase::Waiting);
    delete(&mut cluster);
}

#[test]
fn deleted_while_it_is_prepared() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until("it is prepared", |cluster| !cluster.log.is_empty());
    delete(&mut cluster);
}

#[test]
fn deleted_while_its_job_is_created() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Starting);
    delete(&mut cluster);
}

#[test]
fn deleted_while_its_container_is_created() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { stuck: Some(("ErrImagePull".into(), "no".into())), ..work(1) });
    cluster.run_for(seconds(10));
    delete(&mut cluster);
}

#[test]
fn deleted_while_it_runs() {
    for pods in [1, 3] {
        let mut cluster = cluster();
        cluster.submit(sj("a").gang(pods), Workload { grace: seconds(10), ..work(300) });
        cluster.run_until_phase("a", Phase::Running);
        let began = cluster.now;
        delete(&mut cluster);
        assert!(cluster.now.duration_since(began) > seconds(10));
    }
}

#[test]
fn deleted_while_the_interrupted_pods_are_in_their_grace() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { grace: seconds(10), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    delete(&mut cluster);
}

#[test]
fn deleted_after_an_interruption() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.run_for(seconds(10));
    delete(&mut cluster);
}

#[test]
fn deleted_after_it_completed_or_failed() {
    for exit_code in [0, 1] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), Workload { exit_code, ..work(5) });
        cluster.run_until("it is finished", |cluster| cluster.status("a").phase.is_finished());
        cluster.run_for(seconds(10));
        delete(&mut cluster);
    }
}

#[test]
fn the_finalizer_stays_while_a_pod_is_on_a_lost_node() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    let node = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.lose_node(&node);
    cluster.delete_sj("a");
    cluster.run_for(seconds(600));
    assert!(cluster.exists("a"));
    cluster.remove_node(&node);
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    all_is_quiet(&mut cluster);
}

#[test]
fn the_finalizer_is_tried_now_and_then_while_pods_are_left_that_no_watch_shows() {
    let mut cluster = cluster();
    cluster.hold_watch(Stream::Pods);
    cluster.submit(sj("a"), Workload { grace: seconds(60), ..work(300) });
    cluster.run_until("it runs", |cluster| {
        cluster.live_pods("a").first().is_some_and(|pod| pod.container.has_started())
    });
    cluster.delete_job_in_background(&key("a-1"));
    cluster.delete_sj("a");
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    let is_try = |(_, action): &&(_, Action)| matches!(action.task, Task::RemoveFinalizer { .. });
    let tries = cluster.log.iter().filter(is_try).count();
    // The grace of its pod is as long as thirty pauses.
    assert!((2..=31).contains(&tries), "{tries}");
}

#[test]
fn deleted_by_somebody_while_the_planner_is_away() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.delete_sj("a");
    cluster.restart(false);
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    assert!(cluster.live_pods("a").is_empty());
    all_is_quiet(&mut cluster);
}

/// Deletes `a`, and returns its last attempt with what that was worth, if it is counted with the deletion.
fn counted(cluster: &mut Cluster) -> Option<(Attempt, Work)> {
    cluster.delete_sj("a");
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    let found = cluster.log.iter().rev().find_map(|(_, action)| match &action.task {
        Task::RemoveFinalizer { last } => Some(last.clone()),
        _ => None,
    });
    let last = found.expect("its finalizer should have been taken off")?;
    let attempt = last.status.attempt.clone().expect("an attempt should be counted");
    let work = Work::of_ended(&last, &attempt).expect("it should have run");
    Some((*attempt, work))
}

/// Of an attempt that ran for so long before its ScavengerJob was deleted.
fn counted_after(sj: ScavengerJob, workload: Workload, ran: i64) -> (Attempt, Work) {
    let mut cluster = Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj.interruptible_after(seconds(60)), workload);
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(ran));
    let counted = counted(&mut cluster).expect("it should be counted");
    assert_eq!((counted.0.outcome, &counted.0.reason), (Some(Outcome::Interrupted), &Some(Reason::Deleted)));
    counted
}

#[test]
fn what_a_deleted_attempt_was_worth_is_counted_by_its_promise_without_a_supervisor() {
    let (attempt, work) = counted_after(sj("a"), work(10_000), 150);
    assert!(!attempt.supervised);
    assert_eq!(work.useful.as_secs(), 120, "the end of the second whole interruptionAfter");
    assert!((29..=33).contains(&work.lost.as_secs()), "{work:?}");
}

#[test]
fn what_the_supervisor_left_counts_for_a_deleted_attempt() {
    for (saves, kept) in [(true, 150), (false, 0)] {
        let (attempt, work) = counted_after(sj("a").watched(), Workload { saves, ..work(10_000) }, 150);
        assert!(attempt.supervised);
        assert_eq!(attempt.measured.answered_sigterm, Some(saves));
        assert!((kept..=kept + 3).contains(&work.useful.as_secs()), "{saves}: {work:?}");
        assert_eq!(work.before_first_checkpoint, !saves);
    }
}

#[test]
fn an_interrupted_attempt_whose_supervisor_has_not_spoken_is_counted_when_it_is_deleted() {
    for speaks in [true, false] {
        let mut cluster =
            Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000), node("n2", 10_000)]);
        cluster.strict = false;
        let workload = Workload { saves: true, is_silent: !speaks, grace: seconds(10), ..work(10_000) };
        cluster.submit(sj("a").interruptible_after(seconds(60)).watched(), workload);
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(150));
        cluster.preempt(&key("a-1-0"));
        cluster.run_until_phase("a", Phase::Interrupted);
        let recorded = cluster.status("a").attempt.clone().unwrap();
        assert_eq!(
            recorded.measured,
            Measured { expected: recorded.measured.expected, ..Measured::default() }
        );
        let (attempt, work) = counted(&mut cluster).expect("it should be counted");
        assert_eq!(attempt.reason, Some(Reason::PreemptionByScheduler));
        let expected = if speaks { (Some(true), 150) } else { (None, 120) };
        assert_eq!(
            (attempt.measured.answered_sigterm, work.useful.as_secs() / 30 * 30),
            expected,
            "{work:?}"
        );
        assert!((150..=153).contains(&(work.useful + work.lost).as_secs()), "{work:?}");
    }
}

#[test]
fn what_a_status_has_settled_or_never_ran_is_not_counted_again() {
    let mut never_ran = cluster();
    never_ran.submit(sj("a").asking(7001), work(300));
    never_ran.run_for(seconds(5));
    let mut starts = cluster();
    starts.submit(sj("a"), Workload { stuck: Some(("ErrImagePull".into(), "no".into())), ..work(1) });
    starts.run_for(seconds(10));
    let mut interrupted = cluster();
    interrupted.submit(sj("a"), work(300));
    interrupted.run_until_phase("a", Phase::Running);
    interrupted.preempt(&key("a-1-0"));
    interrupted.run_until_phase("a", Phase::Interrupted);
    let mut completed = cluster();
    completed.submit(sj("a"), work(5));
    completed.run_until_phase("a", Phase::Completed);
    for (what, mut cluster) in
        [("never ran", never_ran), ("starts", starts), ("interrupted", interrupted), ("completed", completed)]
    {
        let held = cluster.scavenger_jobs().any(|sj| sj.has_finalizer);
        if held {
            assert!(counted(&mut cluster).is_none(), "{what}");
        } else {
            assert_eq!(what, "never ran", "nothing holds it");
        }
    }
}
