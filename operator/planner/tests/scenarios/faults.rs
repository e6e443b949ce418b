//! Writes that fail, watches that lag, planners that are killed.

use scavenger_planner::{
    action::{Failure, Task},
    fixtures::{at, key, millis, node, seconds, settings, sj},
    values::Phase,
};
use scavenger_simulator::{Cluster, Fault, Kill, Stream, Workload};

use super::{all_is_quiet, attempt, cluster, completed, work};

#[test]
fn a_conflict_is_looked_at_again() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is prepared", |cluster| cluster.log.len() == 1);
    // Somebody labels it just before the status is written.
    cluster.label("a");
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 1);
}

#[test]
fn a_write_that_always_conflicts_is_tried_less_and_less_often() {
    let mut cluster = cluster();
    for number in 2..10_000 {
        cluster.faults.insert(number, Fault::Refused(Failure::Conflict));
    }
    cluster.submit(sj("a"), work(10));
    cluster.run_for(seconds(60));
    assert!(cluster.actions < 30, "{}", cluster.actions);
    cluster.faults.clear();
    completed(&mut cluster, "a");
}

#[test]
fn a_write_that_fails_gives_its_slot_back() {
    let mut cluster = Cluster::new(settings().starting_at_once(1)).with_nodes([node("n1", 10_000)]);
    cluster.faults.insert(1, Fault::Refused(Failure::Transient("away".to_owned())));
    cluster.submit(sj("a").asking(7000), work(10));
    cluster.settle();
    cluster.run_for(millis(10));
    cluster.submit(sj("b").asking(7000), work(10));
    cluster.run_until_phase("b", Phase::Completed);
    completed(&mut cluster, "a");
    assert_eq!(cluster.starts[0].0, key("b"));
}

#[test]
fn what_cannot_be_prepared_because_of_itself_has_failed_with_the_reason() {
    let mut cluster = Cluster::new(settings().starting_at_once(1)).with_nodes([node("n1", 10_000)]);
    let why = "PersistentVolumeClaim \"../x\" cannot exist";
    cluster.faults.insert(1, Fault::Refused(Failure::Refused(why.to_owned())));
    cluster.submit(sj("a").asking(7000), work(10));
    cluster.run_until_phase("a", Phase::Failed);
    assert_eq!(cluster.status("a").message, format!("Refused: {why}"));
    // Its slot and its capacity are free again.
    cluster.submit(sj("b").asking(7000), work(10));
    completed(&mut cluster, "b");
}

#[test]
fn one_whose_every_write_fails_does_not_hold_up_the_others() {
    let mut cluster = Cluster::new(settings().starting_at_once(1)).with_nodes([node("n1", 10_000)]);
    cluster.poisoned.insert(key("poison"));
    cluster.submit(sj("poison").asking(7000), work(10));
    for number in 0..10 {
        cluster.submit(sj(&format!("job{number}")).asking(7000), work(10));
    }
    for number in 0..10 {
        cluster.run_until_phase(&format!("job{number}"), Phase::Completed);
    }
    assert!(cluster.now < at(300), "{}", cluster.now);
}

#[test]
fn an_outage_of_a_minute_blocks_nothing_for_long() {
    let mut cluster = Cluster::new(settings().starting_at_once(5)).with_nodes([node("n1", 100_000)]);
    for number in 0..30 {
        cluster.submit(sj(&format!("job{number:02}")), work(100));
    }
    cluster.run_for(millis(20));
    cluster.outage = true;
    cluster.run_for(seconds(60));
    cluster.outage = false;
    let over = cluster.now;
    for number in 0..30 {
        cluster.run_until_phase(&format!("job{number:02}"), Phase::Completed);
    }
    assert!(cluster.now.duration_since(over) < seconds(180), "{}", cluster.now.duration_since(over));
    all_is_quiet(&mut cluster);
}

#[test]
fn room_of_a_start_that_nobody_can_tell_about_is_given_back_in_time() {
    let mut cluster = cluster();
    // Prepared, and then every answer about it is lost, and no watch shows it.
    cluster.faults.insert(2, Fault::Refused(Failure::Transient("no answer within 20 s".to_owned())));
    cluster.submit(sj("a").asking(7000), work(10));
    cluster.run_until("its start is not answered", |cluster| cluster.actions == 2);
    cluster.poisoned.insert(key("a"));
    cluster.submit(sj("b").asking(7000), work(10));
    cluster.run_for(seconds(80));
    assert_eq!(cluster.planner.ledger().reserved_pods(&key("a")), 1);
    assert_eq!(cluster.status("b").phase, Phase::Waiting);
    // pendingTimeout and half a minute; failed actions are tried again every 25 s.
    cluster.run_for(seconds(50));
    assert!(!cluster.status("b").start_times.is_empty(), "{}", cluster.history());
    cluster.poisoned.clear();
    completed(&mut cluster, "a");
    // Later plans do not report it again: the metric adds up what they report.
    assert_eq!(cluster.expired, 1);
}

#[test]
fn blind_for_ten_seconds_the_planner_still_keeps_to_the_limits() {
    let mut cluster = Cluster::new(settings().filled_to(0.5)).with_nodes([node("n1", 100_000)]);
    for stream in Stream::ALL {
        cluster.delays.watch.insert(stream, seconds(10));
    }
    // Room for 50.
    for number in 0..200 {
        cluster.submit(sj(&format!("job{number:03}")), work(100));
    }
    for number in 0..200 {
        cluster.run_until_phase(&format!("job{number:03}"), Phase::Completed);
    }
    all_is_quiet(&mut cluster);
    assert_eq!(cluster.starts.len(), 200);
}

#[test]
fn stale_and_repeated_events_change_nothing() {
    use scavenger_planner::values::Observation;
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.settle();
    let old = cluster.objects();
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    for observation in old.iter().filter(|observation| matches!(observation, Observation::ScavengerJob(_))) {
        cluster.tell(observation.clone());
    }
    cluster.run_for(seconds(20));
    let writes = cluster.log.len();
    for observation in old {
        // A pod or a Job that is gone does not come back through its watch; a ScavengerJob's late answer can.
        if matches!(observation, Observation::ScavengerJob(_) | Observation::Node(_) | Observation::Pool(_)) {
            cluster.tell(observation.clone());
            cluster.tell(observation);
        }
    }
    cluster.turn();
    cluster.settle();
    assert_eq!(cluster.log.len(), writes);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
}

#[test]
fn a_late_answer_does_not_bring_back_a_job_that_is_gone() {
    let mut cluster = cluster();
    cluster.delays.answer = seconds(15);
    cluster.submit(sj("a"), work(300));
    cluster.run_until("the Job is made", |cluster| !cluster.jobs_of("a").is_empty());
    cluster.run_for(seconds(2));
    cluster.delete_job_in_background(&key("a-1"));
    cluster.delays.answer = millis(3);
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn pods_seen_before_their_job_and_jobs_seen_before_their_pods_are_the_same() {
    for slow in [Stream::ScavengerJobs, Stream::Jobs, Stream::Pods, Stream::Nodes] {
        let mut cluster = cluster();
        cluster.delays.watch.insert(slow, seconds(7));
        cluster.submit(sj("a"), work(100));
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(10));
        cluster.preempt(&key("a-1-0"));
        cluster.run_until_phase("a", Phase::Interrupted);
        completed(&mut cluster, "a");
        assert_eq!(
            (cluster.status("a").interrupted_count, attempt(&cluster, "a").number),
            (1, 2),
            "{slow:?}"
        );
    }
}

#[test]
fn a_pod_watch_that_is_cut_and_lists_anew_hides_no_interruption() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { on_sigterm: 1, ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.hold_watch(Stream::Pods);
    cluster.delete_pod(&key("a-1-0"));
    cluster.run_for(seconds(1));
    cluster.relist(Stream::Pods);
    cluster.run_until_phase("a", Phase::Interrupted);
    completed(&mut cluster, "a");

    // The same, but the pod has gone before the watch is back.
    let mut cluster = super::cluster();
    cluster.submit(sj("a"), Workload { on_sigterm: 1, ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.run_for(seconds(10));
    cluster.hold_watch(Stream::Pods);
    cluster.delete_pod(&key("a-1-0"));
    cluster.run_for(seconds(10));
    cluster.relist(Stream::Pods);
    cluster.run_until_phase("a", Phase::Interrupted);
    completed(&mut cluster, "a");
}

/// A life with everything in it: a start, an interruption, a gang, a failure, a job that waits.
fn eventful(kill: Option<Kill>) -> Cluster {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 10_000)]);
    cluster.kill = kill;
    cluster.submit(sj("single").asking(2000), work(100));
    cluster.submit(sj("gang").gang(3), work(100));
    cluster.submit(sj("fails"), Workload { exit_code: 3, ..work(20) });
    cluster.submit(sj("waits").asking(5000), work(10));
    cluster.submit(sj("goes"), work(1000));
    cluster.run_until("both run", |cluster| {
        ["single", "gang"].iter().all(|name| cluster.status(name).phase == Phase::Running)
    });
    let (one, gang) = (cluster.live_pods("single")[0].key.clone(), cluster.live_pods("gang")[1].key.clone());
    cluster.preempt(&one);
    cluster.delete_pod(&gang);
    cluster.run_until("both are interrupted", |cluster| {
        ["single", "gang"].iter().all(|name| cluster.status(name).interrupted_count == 1)
    });
    cluster.delete_sj("goes");
    cluster.run_until("all have ended", |cluster| {
        ["single", "gang", "waits"].iter().all(|name| cluster.status(name).phase == Phase::Completed)
            && cluster.status("fails").phase == Phase::Failed
            && !cluster.exists("goes")
    });
    all_is_quiet(&mut cluster);
    cluster
}

#[test]
fn killed_before_and_after_every_action_the_end_is_the_same() {
    let undisturbed = eventful(None);
    let end = |cluster: &Cluster| {
        ["single", "gang", "waits", "fails"].map(|name| {
            let status = cluster.status(name);
            (status.phase, status.interrupted_count, attempt(cluster, name).outcome)
        })
    };
    assert!(undisturbed.actions > 30);
    for number in 1..=undisturbed.actions {
        for kill in [Kill::Before(number), Kill::After(number), Kill::Late(number)] {
            let disturbed = eventful(Some(kill));
            assert_eq!(end(&disturbed), end(&undisturbed), "{kill:?}\n{}", disturbed.history());
        }
    }
}

#[test]
fn the_same_attempt_is_created_once_whatever_is_lost() {
    for number in 1..12 {
        let mut cluster = cluster();
        cluster.faults.insert(number, Fault::AnswerLost);
        cluster.submit(sj("a"), work(10));
        completed(&mut cluster, "a");
        assert_eq!(attempt(&cluster, "a").number, 1, "{number}");
    }
}

#[test]
fn room_of_attempts_that_were_starting_is_kept_over_a_restart() {
    let mut cluster = cluster();
    cluster.scheduler_works = false;
    cluster.submit(sj("a").asking(5000), work(10));
    cluster.run_until("its pod is there", |cluster| cluster.live_pods("a").len() == 1);
    cluster.submit(sj("b").asking(5000), work(10));
    cluster.restart(false);
    cluster.run_for(seconds(10));
    assert_eq!(cluster.planner.ledger().total().cpu_milli, 5000);
    assert_eq!(cluster.status("b").phase, Phase::Waiting);
    let prepared =
        cluster.log.iter().filter(|(_, action)| matches!(action.task, Task::Prepare { .. })).count();
    assert_eq!(prepared, 1);
    cluster.scheduler_works = true;
    completed(&mut cluster, "a");
}

#[test]
fn a_pod_that_only_a_live_list_ever_showed_holds_nobody_for_ever() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { grace: seconds(5), ..work(100) });
    cluster.hold_watch(Stream::Pods);
    cluster.run_until("it runs", |cluster| {
        cluster.live_pods("a").first().is_some_and(|pod| pod.container.has_started())
    });
    cluster.delete_job_in_foreground(&key("a-1"));
    cluster.run_until_phase("a", Phase::Interrupted);
    // The pod ends, and goes, before the watch is back.
    cluster.run_for(seconds(10));
    cluster.relist(Stream::Pods);
    completed(&mut cluster, "a");
}

#[test]
fn a_job_that_only_an_answer_ever_showed_holds_nobody_for_ever() {
    let mut cluster = cluster();
    cluster.scheduler_works = false;
    cluster.hold_watch(Stream::Jobs);
    cluster.submit(sj("a"), work(100));
    cluster.run_until("the Job is made", |cluster| cluster.jobs_of("a").len() == 1);
    cluster.run_for(seconds(1));
    cluster.hold_watch(Stream::Pods);
    cluster.delete_job_in_background(&key("a-1"));
    cluster.relist(Stream::Jobs);
    cluster.relist(Stream::Pods);
    cluster.scheduler_works = true;
    completed(&mut cluster, "a");
}

/// `a` runs, and no watch has shown its Job.
fn running_unwatched(needs: i64) -> Cluster {
    let mut cluster = cluster();
    cluster.hold_watch(Stream::Jobs);
    cluster.submit(sj("a"), work(needs));
    cluster.run_until_phase("a", Phase::Running);
    cluster
}

#[test]
fn a_job_that_was_made_and_deleted_while_its_watch_was_cut_is_missed() {
    let mut cluster = running_unwatched(100);
    let job = cluster.all_jobs().next().map(|job| job.key.clone()).expect("a Job should be there");
    cluster.delete_job_in_background(&job);
    cluster.relist(Stream::Jobs);
    cluster.run_until_phase("a", Phase::Interrupted);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 1);
    assert_eq!(attempt(&cluster, "a").number, 2);
    all_is_quiet(&mut cluster);
}

#[test]
fn a_job_that_no_watch_shows_is_read_once_a_minute_and_left_alone() {
    let mut cluster = running_unwatched(200);
    cluster.run_for(seconds(190));
    let reads = cluster.log.iter().filter(|(_, action)| matches!(action.task, Task::ReadJob { .. })).count();
    assert_eq!(reads, 3);
    cluster.let_go(Stream::Jobs);
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 1);
}
