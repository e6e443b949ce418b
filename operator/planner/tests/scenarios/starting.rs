//! Attempts that are made and do not get to run.

use scavenger_planner::{
    action::{Failure, Task},
    fixtures::{key, node, seconds, settings, sj},
    values::{Outcome, Phase, Reason, WaitingReason},
};
use scavenger_simulator::{Cluster, Workload};

use super::{attempt, cluster, completed, outcome, work};

#[test]
fn an_attempt_that_is_not_scheduled_in_time_is_withdrawn_and_retried_after_a_growing_delay() {
    let mut cluster = cluster();
    cluster.scheduler_works = false;
    cluster.submit(sj("a"), work(10));
    let mut delays = Vec::new();
    for number in 1..=4 {
        cluster.run_until(&format!("attempt {number} starts"), |cluster| {
            cluster.status("a").phase == Phase::Starting && attempt(cluster, "a").number == number
        });
        let made = cluster.now;
        cluster.run_until_phase("a", Phase::Waiting);
        let pending = cluster.now.duration_since(made);
        assert!(pending > seconds(58) && pending < seconds(61), "{pending}");
        let withdrawn = cluster.now;
        assert_eq!(cluster.waits("a"), Some(WaitingReason::Unscheduled));
        assert_eq!(outcome(&cluster, "a"), (number, Some(Outcome::Withdrawn), Reason::Unscheduled));
        cluster.run_for(seconds(3));
        assert_eq!(cluster.waits("a"), Some(WaitingReason::Unscheduled), "the reason stays during the delay");
        assert!(cluster.jobs_of("a").is_empty(), "its Job is gone");
        cluster.run_until_phase("a", Phase::Starting);
        delays.push(cluster.now.duration_since(withdrawn).as_secs());
    }
    assert!(delays.is_sorted() && delays[0] >= 4 && delays[0] < 7 && delays[3] >= 39, "{delays:?}");
    assert_eq!(cluster.status("a").interrupted_count, 0);
    cluster.scheduler_works = true;
    cluster.set_node(node("n1", 10_000));
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").failed_starts, 0);
}

#[test]
fn the_schedulers_own_reason_is_in_the_message() {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 4000)]);
    // Room that the planner does not know to be taken: the scheduler sees a smaller node.
    cluster.submit(sj("a").asking(3000), work(10));
    cluster.run_until_phase("a", Phase::Starting);
    let mut small = node("n1", 1000);
    small.usable = true;
    cluster.hold_watch(scavenger_simulator::Stream::Nodes);
    cluster.strict = false;
    cluster.set_node(small);
    cluster.run_until_phase("a", Phase::Waiting);
    assert_eq!(cluster.status("a").message, "0/1 nodes are available: Insufficient cpu.");
}

#[test]
fn an_interrupted_job_that_is_withdrawn_goes_back_to_interrupted() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-1-0"));
    cluster.scheduler_works = false;
    cluster.run_until("attempt 2 is withdrawn", |cluster| {
        attempt(cluster, "a").number == 2 && cluster.status("a").phase == Phase::Interrupted
    });
    assert_eq!(outcome(&cluster, "a"), (2, Some(Outcome::Withdrawn), Reason::Unscheduled));
    assert_eq!(cluster.status("a").interrupted_count, 1);
    assert_eq!(cluster.status("a").interruption_times.len(), 1);
    cluster.scheduler_works = true;
    completed(&mut cluster, "a");
}

#[test]
fn a_quota_that_the_job_controller_runs_into_is_named() {
    let mut cluster = cluster();
    cluster.create_failure = Some("pods \"a-1-0\" is forbidden: exceeded quota: small".to_owned());
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::QuotaExceeded));
    assert!(cluster.status("a").message.contains("exceeded quota: small"));
    cluster.run_for(seconds(3));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::QuotaExceeded), "the reason stays during the delay");
    cluster.create_failure = None;
    completed(&mut cluster, "a");
}

#[test]
fn a_quota_on_jobs_is_named_at_once() {
    let mut cluster = cluster();
    cluster.job_refused = Some(Failure::QuotaExceeded("exceeded quota: jobs".to_owned()));
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    assert!(cluster.now < scavenger_planner::fixtures::at(2));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::QuotaExceeded));
    cluster.job_refused = None;
    completed(&mut cluster, "a");
}

#[test]
fn a_policy_of_our_own_that_does_not_know_us_fails_nobody_and_is_named() {
    let denied = |what: &str, policy: &str| {
        format!(
            "{what} is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: no"
        )
    };
    for (sj_denied, pods_denied) in [
        (Some(denied("jobs.batch \"a-1\"", "scavenger-child-jobs")), None),
        (None, Some(denied("pods \"a-1-0-x\"", "scavenger-pods"))),
    ] {
        let mut cluster = Cluster::new(settings().starting_at_once(1)).with_nodes([node("n1", 10_000)]);
        cluster.create_failure.clone_from(&pods_denied);
        cluster.job_refused = sj_denied.clone().map(Failure::Transient);
        cluster.submit(sj("a"), work(10));
        cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
        let waited = cluster.now.duration_since(scavenger_planner::fixtures::at(0));
        // The last try comes after pendingTimeout, at most the longest delay (25 s and a quarter of it) later.
        assert!(waited > seconds(58) && waited < seconds(93), "{waited}");
        assert_eq!(cluster.waits("a"), Some(WaitingReason::Unscheduled));
        assert_eq!(Some(&cluster.status("a").message), sj_denied.as_ref().or(pods_denied.as_ref()));
        cluster.create_failure = None;
        cluster.job_refused = None;
        completed(&mut cluster, "a");
    }
}

#[test]
fn a_quota_that_was_asked_for_too_early_is_asked_for_again() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.run_until_phase("a", Phase::Starting);
    // The Job exists, and a new planner has seen neither it nor its pods.
    cluster.create_failure = Some("exceeded quota: small".to_owned());
    cluster.run_until("the Job is made", |cluster| !cluster.jobs_of("a").is_empty());
    cluster.restart(false);
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    assert_eq!(cluster.waits("a"), Some(WaitingReason::QuotaExceeded));
}

#[test]
fn a_hundred_that_are_stuck_do_not_hold_up_the_101st() {
    let missing = ("ConfigMap".to_owned(), "nothing".to_owned());
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 1_000_000)]);
    for number in 0..100 {
        let workload = Workload { refers_to: vec![missing.clone()], ..work(10) };
        cluster.submit(sj(&format!("stuck{number:03}")).asking(1000 + number), workload);
    }
    cluster.run_for(seconds(5));
    let began = cluster.now;
    cluster.submit(sj("last"), work(10));
    cluster.run_until_phase("last", Phase::Running);
    let waited = cluster.now.duration_since(began);
    assert!(waited < seconds(3), "{waited}");
}

/// So many whose pods no node ever takes.
fn never_scheduled(count: i64) -> Cluster {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 1_000_000)]);
    for number in 0..count {
        let workload = Workload { never_scheduled: true, ..work(10) };
        cluster.submit(sj(&format!("stuck{number:03}")).asking(1000 + number % 3), workload);
    }
    cluster
}

#[test]
fn a_hundred_that_never_get_a_node_do_not_hold_up_the_101st() {
    let mut cluster = never_scheduled(100);
    cluster.submit(sj("last"), work(10));
    cluster.run_until_phase("last", Phase::Running);
    // Ten at a time fail their first start.
    assert!(cluster.now < scavenger_planner::fixtures::at(11 * 60), "{}", cluster.now);
}

#[test]
fn however_many_fail_to_start_newcomers_start_at_once_and_each_of_them_gets_its_next_try() {
    let mut cluster = never_scheduled(200);
    let failed =
        |cluster: &Cluster| cluster.scavenger_jobs().filter(|sj| sj.status.failed_starts > 0).count();
    cluster.run_until("each has failed once", |cluster| failed(cluster) == 200);
    for round in 0..6 {
        cluster.run_for(seconds(600));
        let name = format!("newcomer{round}");
        let began = cluster.now;
        cluster.submit(sj(&name), work(10));
        cluster.run_until_phase(&name, Phase::Running);
        let waited = cluster.now.duration_since(began);
        assert!(waited < seconds(3), "{waited}");
    }
    let began = cluster.now;
    cluster.let_schedule("stuck199");
    cluster.run_until_phase("stuck199", Phase::Running);
    // 200 hold one of five places for a minute each.
    let waited = cluster.now.duration_since(began);
    assert!(waited < seconds(200 * 60 / 5 + 750), "{waited}");
}

#[test]
fn where_one_starts_at_a_time_those_that_fail_to_start_come_last() {
    let mut cluster = Cluster::new(settings().starting_at_once(1)).with_nodes([node("n1", 100_000)]);
    for name in ["a", "b", "c"] {
        cluster.submit(sj(name), Workload { never_scheduled: true, ..work(10) });
    }
    cluster.run_until("each has failed", |cluster| {
        cluster.scavenger_jobs().all(|sj| sj.status.failed_starts > 0)
    });
    for name in ["d", "e"] {
        cluster.submit(sj(name), work(10));
    }
    cluster.let_schedule("c");
    cluster.run_until_phase("c", Phase::Running);
    assert!(["d", "e"].iter().all(|name| !cluster.status(name).start_times.is_empty()));
}

#[test]
fn where_one_starts_at_a_time_one_that_failed_and_has_a_reservation_starts() {
    let mut cluster =
        Cluster::new(settings().filled_to(1.0).starting_at_once(1)).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("h").asking(8000), Workload { never_scheduled: true, ..work(10) });
    cluster.run_for(seconds(10));
    // It takes the capacity while h sits out its delay.
    cluster.submit(sj("z").asking(9000), work(1500));
    cluster.run_until("h has failed once", |cluster| cluster.status("h").failed_starts == 1);
    cluster.let_schedule("h");
    cluster.run_until_phase("z", Phase::Running);
    // When z has ended c would fit, but for what is kept for h by then, which has waited longer.
    cluster.run_for(seconds(10));
    cluster.submit(sj("c").asking(4000), work(10));
    cluster.run_until_phase("z", Phase::Completed);
    cluster.run_until_phase("h", Phase::Completed);
    cluster.run_until_phase("c", Phase::Completed);
}

#[test]
fn where_one_starts_at_a_time_no_stream_of_newcomers_keeps_out_one_that_failed() {
    let mut pool = settings().filled_to(1.0).starting_at_once(1);
    // Longer than the test: nothing is reserved for anybody.
    pool.reserve_after = seconds(100_000);
    let mut cluster = Cluster::new(pool).with_nodes([node("n1", 100_000)]);
    cluster.submit(sj("h"), Workload { never_scheduled: true, ..work(10) });
    cluster.run_until("h has failed once", |cluster| cluster.status("h").failed_starts == 1);
    cluster.let_schedule("h");
    let mut newcomers = 0;
    while cluster.status("h").phase != Phase::Completed {
        // As many wait as can start, always.
        let waiting = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Waiting).count();
        for _ in waiting..20 {
            cluster.submit(sj(&format!("newcomer{newcomers}")), work(10));
            newcomers += 1;
        }
        cluster.run_for(seconds(1));
        assert!(newcomers < 1000, "{:?}", cluster.status("h"));
    }
}

#[test]
fn a_job_whose_pods_are_orphaned_before_they_run_gives_its_slot_back() {
    let mut cluster = Cluster::new(settings().starting_at_once(1)).with_nodes([node("n1", 10_000)]);
    cluster.scheduler_works = false;
    cluster.submit(sj("a"), work(10));
    cluster.run_for(seconds(10));
    cluster.orphan(&key("a-1"));
    cluster.run_until_phase("a", Phase::Waiting);
    // The orphan may still be bound, so its room stays reserved, but another may start.
    assert_eq!(cluster.planner.ledger().total().cpu_milli, 1000);
    cluster.submit(sj("b"), work(10));
    cluster.run_until_phase("b", Phase::Starting);
    cluster.delete_pod(&key("a-1-0"));
    cluster.run_until("b is withdrawn", |cluster| cluster.status("b").failed_starts == 1);
    cluster.scheduler_works = true;
    completed(&mut cluster, "a");
}

#[test]
fn time_in_which_nobody_could_make_its_job_is_not_held_against_it() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(10));
    cluster.run_until_phase("a", Phase::Starting);
    // Killed before the Job was made; the next one leads only after pendingTimeout.
    cluster.restart(false);
    cluster.outage = true;
    cluster.run_for(seconds(70));
    cluster.outage = false;
    completed(&mut cluster, "a");
    assert_eq!(attempt(&cluster, "a").number, 1, "{}", cluster.history());
}

#[test]
fn nobody_is_asked_twice_for_the_same() {
    let mut cluster = cluster();
    cluster.scheduler_works = false;
    cluster.submit(sj("a"), work(10));
    cluster.run_until_phase("a", Phase::Starting);
    cluster.run_until_phase("a", Phase::Waiting);
    cluster.run_for(seconds(2));
    // Starting, withdrawn: the delay and the deletion of the Job need no status of their own.
    let writes = cluster.log.iter().filter(|(_, action)| matches!(action.task, Task::WriteStatus(_))).count();
    assert_eq!(writes, 2, "{}", cluster.history());
}
