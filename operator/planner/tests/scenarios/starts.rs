//! What can come between the steps of a start: the Job controller, the garbage collector, the watches and a planner that
//! stood still act late, each on its own. Never are two attempts at work at once, and nothing is lost or done twice.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use scavenger_planner::{
    action::Task,
    fixtures::{key, millis, node, seconds, settings, sj},
    values::{Container, Name, Phase, Settings, WaitingReason},
};
use scavenger_simulator::{Cluster, Kill, Stream, Workload};

use super::{all_is_quiet, attempt, cluster, completed, whole_cluster, work};

/// At most one attempt of `a` is at work, those of a ScavengerJob that had its name before included.
fn one_at_work(cluster: &Cluster) {
    let pods = cluster.all_live_pods().into_iter().filter(|pod| pod.key.name.starts_with("a-"));
    let running = pods.filter(|pod| pod.container == Container::Running);
    let at_work: BTreeSet<&(Name, u32)> = running.filter_map(|pod| pod.owner.as_ref()).collect();
    assert!(at_work.len() <= 1, "{}: {at_work:?} are at work\n{}", cluster.now, cluster.history());
}

/// Lets time pass until this is so, and sees to it that never two attempts are at work.
fn run_until(cluster: &mut Cluster, what: &str, condition: impl Fn(&Cluster) -> bool) {
    cluster.run_until(what, |cluster| {
        one_at_work(cluster);
        condition(cluster)
    });
}

fn run_for(cluster: &mut Cluster, duration: SignedDuration) {
    let end = cluster.now + duration;
    while cluster.now < end {
        cluster.run_for(millis(50));
        one_at_work(cluster);
    }
}

fn phase(cluster: &Cluster, phase: Phase) -> bool {
    cluster.exists("a") && cluster.status("a").phase == phase
}

fn run_until_completed(cluster: &mut Cluster) {
    run_until(cluster, "it is completed", |cluster| phase(cluster, Phase::Completed));
    // Stragglers go.
    run_for(cluster, seconds(60));
    assert!(cluster.all_live_pods().is_empty(), "{}", cluster.history());
}

/// Numbers of the attempts that were started: none twice, and none left out.
fn numbers(cluster: &Cluster) -> Vec<u32> {
    cluster.starts.iter().filter(|(name, _)| *name == key("a")).map(|(_, number)| *number).collect()
}

/// How late each actor is, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Late {
    /// The Job controller makes pods.
    new_pods: i64,
    /// It hears that a Job is deleted.
    jobs: i64,
    /// The garbage collector acts.
    collector: i64,
    /// It hears of a pod.
    pods: i64,
    /// The planner does.
    watch: i64,
}

const PROMPT: Late = Late { new_pods: 50, jobs: 0, collector: 20, pods: 0, watch: 5 };

const LATE: [Late; 9] = [
    PROMPT,
    Late { pods: 500, ..PROMPT },
    Late { pods: 5000, watch: 3000, ..PROMPT },
    Late { new_pods: 300, jobs: 1000, ..PROMPT },
    Late { new_pods: 300, jobs: 1000, collector: 500, pods: 1000, ..PROMPT },
    Late { new_pods: 300, jobs: 1000, collector: 500, pods: 5000, watch: 10_000 },
    Late { new_pods: 1000, jobs: 3000, collector: 2000, ..PROMPT },
    Late { collector: 10_000, ..PROMPT },
    Late { new_pods: 5000, collector: 5000, pods: 2000, ..PROMPT },
];

fn slow(late: Late) -> Cluster {
    let mut cluster = cluster();
    cluster.delays.new_pods = millis(late.new_pods);
    cluster.delays.job_controller_view = millis(late.jobs);
    cluster.delays.garbage_collector = millis(late.collector);
    cluster.delays.garbage_collector_view = millis(late.pods);
    cluster.delays.watch.insert(Stream::Pods, millis(late.watch));
    // A pod that nobody counts on can come on top.
    cluster.strict = false;
    cluster
}

/// Held and let go again just after its Job was made.
fn withdrawn(cluster: &mut Cluster, after: SignedDuration) {
    cluster.submit(sj("a"), work(30));
    run_until(cluster, "its Job is made", |cluster| !cluster.jobs_of("a").is_empty());
    run_for(cluster, after);
    cluster.control("a", |controls| controls.suspend = true);
    run_for(cluster, millis(50));
    cluster.control("a", |controls| controls.suspend = false);
    run_until_completed(cluster);
}

#[test]
fn b_a_start_that_is_withdrawn_before_its_pods_are_there_never_meets_the_next() {
    for late in LATE {
        for after in [20, 200, 1000] {
            let mut cluster = slow(late);
            withdrawn(&mut cluster, millis(after));
            assert_eq!(numbers(&cluster), [1, 2], "{late:?} {after}");
        }
    }
}

#[test]
fn b_killed_before_and_after_every_action_a_withdrawn_start_never_meets_the_next() {
    for late in [LATE[2], LATE[4], LATE[5]] {
        let mut undisturbed = slow(late);
        withdrawn(&mut undisturbed, millis(20));
        for number in 1..=undisturbed.actions {
            for kill in [Kill::Before(number), Kill::After(number), Kill::Late(number)] {
                let mut cluster = slow(late);
                cluster.kill = Some(kill);
                withdrawn(&mut cluster, millis(20));
                assert_eq!(
                    numbers(&cluster),
                    (1..=attempt(&cluster, "a").number).collect::<Vec<_>>(),
                    "{kill:?}"
                );
            }
        }
    }
}

#[test]
fn b_a_job_that_somebody_deletes_as_it_is_made_never_meets_the_next() {
    for late in LATE {
        for foreground in [true, false] {
            for after in [0, 20, 400] {
                let mut cluster = slow(late);
                cluster.submit(sj("a"), work(30));
                run_until(&mut cluster, "its Job is made", |cluster| !cluster.jobs_of("a").is_empty());
                run_for(&mut cluster, millis(after));
                if foreground {
                    cluster.delete_job_in_foreground(&key("a-1"));
                } else {
                    cluster.delete_job_in_background(&key("a-1"));
                }
                run_until_completed(&mut cluster);
            }
        }
    }
}

/// Deletes `a` after so long, and makes another one of its name as soon as that is free.
fn made_again(cluster: &mut Cluster, after: SignedDuration) {
    cluster.submit(sj("a"), Workload { grace: seconds(3), ..work(300) });
    run_for(cluster, after);
    cluster.delete_sj("a");
    run_until(cluster, "it is gone", |cluster| !cluster.exists("a"));
    cluster.submit(sj("a"), work(30));
    run_until_completed(cluster);
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn a_c_n_one_that_is_made_again_never_meets_the_pods_of_the_one_before() {
    for late in LATE {
        for after in [0, 5, 10, 15, 30, 100, 400, 1500, 5000] {
            let mut cluster = slow(late);
            made_again(&mut cluster, millis(after));
        }
    }
}

#[test]
fn c_one_that_is_made_again_never_meets_the_pods_of_one_whose_finalizer_was_taken_off() {
    for late in LATE {
        for restarts in [false, true] {
            let mut cluster = slow(late);
            cluster.submit(sj("a"), Workload { grace: seconds(20), ..work(300) });
            run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
            // It is gone at once, and its pods go when the garbage collector finds them.
            cluster.delays.garbage_collector = cluster.delays.garbage_collector.max(seconds(1));
            cluster.take_finalizer_off("a");
            cluster.delete_sj("a");
            assert!(!cluster.exists("a"));
            if restarts {
                cluster.restart(false);
            }
            cluster.submit(sj("a"), work(30));
            run_until_completed(&mut cluster);
            assert_eq!(cluster.status("a").interrupted_count, 0, "{late:?}");
        }
    }
}

/// The Job controller makes the pods of a Job that is gone already: it hears of that last of all.
const OBLIVIOUS: [Late; 3] = [
    Late { new_pods: 500, jobs: 5000, pods: 500, ..PROMPT },
    Late { new_pods: 1000, jobs: 5000, pods: 2000, ..PROMPT },
    Late { new_pods: 3000, jobs: 5000, pods: 10_000, ..PROMPT },
];

#[test]
fn a_pods_of_a_job_that_is_gone_never_meet_a_scavenger_job_that_is_made_again() {
    for late in OBLIVIOUS {
        for after in [30, 100, 400] {
            let mut cluster = slow(late);
            made_again(&mut cluster, millis(after));
        }
    }
}

#[test]
fn b_pods_of_a_job_that_is_gone_never_meet_the_next_attempt() {
    for late in OBLIVIOUS {
        for after in [0, 20, 200] {
            let mut cluster = slow(late);
            withdrawn(&mut cluster, millis(after));
        }
    }
}

/// Reads of a Job whose pods are left, and evictions.
fn looked_and_evicted(cluster: &Cluster) -> (usize, usize) {
    let count = |is: fn(&Task) -> bool| cluster.log.iter().filter(|(_, action)| is(&action.task)).count();
    (
        count(|task| matches!(task, Task::LookForJob { .. })),
        count(|task| matches!(task, Task::Interrupt { .. })),
    )
}

#[test]
fn k_a_pod_whose_job_somebody_deleted_without_it_is_evicted_when_nothing_else_ends_it() {
    for deletes in [false, true] {
        let mut cluster = cluster();
        cluster.strict = false;
        cluster.submit(sj("a"), work(300));
        run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
        cluster.orphan(&key("a-1"));
        run_for(&mut cluster, seconds(30));
        assert_eq!((looked_and_evicted(&cluster), cluster.live_pods("a").len()), ((0, 0), 1), "it goes on");
        let began = cluster.now;
        if deletes {
            cluster.delete_sj("a");
            run_until(&mut cluster, "it is gone", |cluster| !cluster.exists("a"));
        } else {
            cluster.control("a", |controls| controls.suspend = true);
            run_until(&mut cluster, "its pod is gone", |cluster| cluster.all_live_pods().is_empty());
            cluster.control("a", |controls| controls.suspend = false);
            run_until_completed(&mut cluster);
        }
        assert!(cluster.now.duration_since(began) >= seconds(10), "two reads are 10 s apart");
        assert_eq!(looked_and_evicted(&cluster), (2, 1), "{}", cluster.history());
    }
}

#[test]
fn l_a_pod_whose_job_a_live_read_finds_is_not_evicted() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.hold_watch(Stream::Jobs);
    run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
    cluster.restart(false);
    cluster.control("a", |controls| controls.suspend = true);
    run_until(&mut cluster, "its pod is gone", |cluster| cluster.all_live_pods().is_empty());
    assert_eq!(looked_and_evicted(&cluster).1, 0, "its Job is deleted, not the pod evicted");
}

#[test]
fn d_what_nobody_saw_run_is_in_the_status_and_its_number_is_not_used_again() {
    let mut cluster = cluster();
    cluster.hold_watch(Stream::Pods);
    cluster.hold_watch(Stream::Jobs);
    cluster.submit(sj("a"), work(30));
    run_until(&mut cluster, "it runs", |cluster| {
        cluster.live_pods("a").first().is_some_and(|pod| pod.container.has_started())
    });
    run_for(&mut cluster, millis(500));
    cluster.preempt(&key("a-1-0"));
    cluster.delete_job_in_background(&key("a-1"));
    run_for(&mut cluster, seconds(10));
    cluster.relist(Stream::Pods);
    cluster.relist(Stream::Jobs);
    run_until(&mut cluster, "the next attempt starts", |cluster| cluster.starts.len() == 2);
    assert_eq!(numbers(&cluster), [1, 2]);
    let ended = cluster.log.iter().filter_map(|(_, action)| match &action.task {
        Task::WriteStatus(write) => write.ended.as_ref(),
        _ => None,
    });
    assert_eq!(ended.map(|attempt| attempt.number).collect::<Vec<_>>(), [1], "{}", cluster.history());
    run_until_completed(&mut cluster);
}

#[test]
fn e_f_a_spec_that_is_replaced_at_any_step_is_that_of_the_attempt_or_of_the_next() {
    for steps in 0..40 {
        let mut cluster = cluster();
        cluster.delays.new_pods = millis(300);
        cluster.submit(sj("a"), work(300));
        for _ in 0..steps {
            if !cluster.live_pods("a").iter().any(|pod| pod.container.has_started()) {
                cluster.step();
            }
        }
        cluster.replace("a", |sj| sj.asking(2000));
        run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
        let asked = attempt(&cluster, "a").demand.per_pod.clone();
        assert_eq!(cluster.live_pods("a")[0].requests, asked, "{steps}");
        assert_eq!(attempt(&cluster, "a").generation == 2, asked.cpu_milli == 2000, "{steps}");
        completed(&mut cluster, "a");
    }
}

#[test]
fn i_a_start_that_a_new_planner_finds_is_taken_over_and_not_made_again() {
    let paused = Settings { paused: true, ..settings() };
    let drained = Settings { drain: true, ..settings() };
    for (pool, goes_on) in [(Ok(paused), true), (Err("it is broken".to_owned()), true), (Ok(drained), false)]
    {
        for delay in [0, 2, 4, 6, 8, 20, 400] {
            let mut cluster = slow(LATE[3]);
            cluster.submit(sj("a"), work(30));
            run_until(&mut cluster, "it starts", |cluster| phase(cluster, Phase::Starting));
            cluster.set_pool(pool.clone());
            run_for(&mut cluster, millis(delay));
            cluster.restart(false);
            run_for(&mut cluster, seconds(100));
            assert_eq!(numbers(&cluster), [1], "{delay} {pool:?}");
            if goes_on && pool.is_err() && cluster.jobs_of("a").is_empty() {
                // Without a pool nobody knows on which nodes the pods may be.
                assert!(phase(&cluster, Phase::Starting), "{delay} {pool:?}\n{}", cluster.history());
                cluster.set_pool(Ok(settings()));
                run_until_completed(&mut cluster);
                assert_eq!(numbers(&cluster), [1], "{delay}");
            } else if goes_on {
                assert!(phase(&cluster, Phase::Completed), "{delay} {pool:?}\n{}", cluster.history());
            } else {
                assert!(cluster.all_live_pods().is_empty());
                assert_eq!(cluster.waits("a"), Some(WaitingReason::Paused));
                cluster.set_pool(Ok(settings()));
                run_until_completed(&mut cluster);
            }
        }
    }
}

#[test]
fn l_a_pod_whose_job_is_not_seen_yet_is_left_alone() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.hold_watch(Stream::Jobs);
    run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
    run_for(&mut cluster, seconds(120));
    assert_eq!((cluster.live_pods("a").len(), numbers(&cluster)), (1, vec![1]));
    cluster.let_go(Stream::Jobs);
    completed(&mut cluster, "a");
    assert_eq!(cluster.status("a").interrupted_count, 0);
}

#[test]
fn q_a_pod_on_a_node_that_does_not_answer_holds_the_next_attempt() {
    for delete in [false, true] {
        let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
        cluster.strict = false;
        cluster.submit(sj("a"), work(300));
        run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
        let node = cluster.live_pods("a")[0].node.clone().unwrap();
        cluster.lose_node(&node);
        if delete {
            cluster.delete_job_in_foreground(&key("a-1"));
        }
        run_for(&mut cluster, seconds(3600));
        assert_eq!((cluster.live_pods("a").len(), numbers(&cluster)), (1, vec![1]));
        cluster.remove_node(&node);
        run_until_completed(&mut cluster);
        assert_eq!(numbers(&cluster), [1, 2]);
    }
}

#[test]
fn k_one_that_is_deleted_without_its_job_takes_it_along_all_the_same() {
    for late in LATE {
        for after in [10, 15, 30, 100, 400, 1500] {
            let mut cluster = slow(late);
            cluster.submit(sj("a"), work(300));
            run_for(&mut cluster, millis(after));
            cluster.delete_job_and_leave_children("a");
            run_until(&mut cluster, "it is gone", |cluster| !cluster.exists("a"));
            cluster.submit(sj("a"), work(30));
            run_until_completed(&mut cluster);
            assert_eq!(cluster.all_jobs().count(), 1, "{late:?} {after}");
        }
    }
}

/// A planner stands still just before it makes the Job, and another takes over.
fn frozen(workload: Workload) -> Cluster {
    let mut cluster = cluster();
    cluster.strict = false;
    cluster.submit(sj("a"), workload);
    run_until(&mut cluster, "it starts", |cluster| phase(cluster, Phase::Starting));
    cluster.run_for(millis(4));
    assert!(cluster.jobs_of("a").is_empty());
    cluster.freeze();
    cluster
}

#[test]
fn b_a_planner_that_stood_still_makes_no_second_job_of_an_attempt() {
    for delay in [0, 4, 10, 500, 20_000] {
        let mut cluster = frozen(work(60));
        run_for(&mut cluster, millis(delay));
        cluster.thaw();
        run_until_completed(&mut cluster);
        assert_eq!(numbers(&cluster), [1]);
        all_is_quiet(&mut cluster);
    }
}

#[test]
fn j_a_job_of_somebody_else_that_has_the_name_is_left_alone_and_fails_nobody() {
    let mut cluster = cluster();
    cluster.foreign_jobs.insert(key("a-1"));
    cluster.submit(sj("a"), work(30));
    run_until(&mut cluster, "its first attempt is withdrawn", |cluster| {
        cluster.exists("a")
            && cluster.status("a").attempt.as_ref().is_some_and(|attempt| attempt.outcome.is_some())
    });
    assert!(cluster.jobs_of("a").is_empty());
    assert!(cluster.status("a").message.contains("a-1"), "{}", cluster.status("a").message);
    run_until_completed(&mut cluster);
    assert_eq!(attempt(&cluster, "a").number, 2);
}

#[test]
fn b_a_planner_that_stood_still_makes_no_job_beside_the_next_attempt() {
    for late in LATE {
        let mut cluster = frozen(work(300));
        cluster.delays = slow(late).delays;
        run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
        cluster.preempt(&key("a-1-0"));
        run_until(&mut cluster, "the next one runs", |cluster| {
            phase(cluster, Phase::Running) && attempt(cluster, "a").number == 2
        });
        cluster.thaw();
        run_until_completed(&mut cluster);
        assert_eq!(numbers(&cluster), [1, 2], "{late:?}");
    }
}

#[test]
fn g_a_planner_that_stood_still_makes_no_job_of_one_that_was_made_again() {
    for delay in [0, 4, 10, 20, 100, 5000] {
        for late in LATE {
            let mut cluster = frozen(work(300));
            cluster.delays = slow(late).delays;
            run_until(&mut cluster, "it runs", |cluster| phase(cluster, Phase::Running));
            cluster.delete_sj("a");
            run_until(&mut cluster, "it is gone", |cluster| !cluster.exists("a"));
            cluster.submit(sj("a"), work(30));
            run_for(&mut cluster, millis(delay));
            cluster.thaw();
            run_for(&mut cluster, seconds(100));
            assert!(phase(&cluster, Phase::Completed), "{delay} {late:?}\n{}", cluster.history());
        }
    }
}

#[test]
fn h_a_planner_that_stood_still_does_not_repeat_what_was_finished() {
    let mut cluster = frozen(work(10));
    run_until(&mut cluster, "it is completed", |cluster| phase(cluster, Phase::Completed));
    run_for(&mut cluster, seconds(10));
    cluster.delete_job_in_background(&key("a-1"));
    run_for(&mut cluster, seconds(10));
    cluster.thaw();
    let made = cluster.starts.len();
    run_for(&mut cluster, seconds(100));
    assert_eq!(cluster.starts.len(), made, "it runs again\n{}", cluster.history());
    assert!(cluster.all_live_pods().is_empty());
}

#[test]
fn pods_of_an_ended_attempt_that_may_still_be_placed_count_after_a_restart() {
    let mut cluster = whole_cluster();
    cluster.scheduler_works = false;
    // Its Job goes late, and with it its pods.
    cluster.delays.garbage_collector = seconds(600);
    cluster.submit(sj("a").asking(6000).gang(2), work(100));
    cluster.run_until("it is withdrawn", |cluster| cluster.status("a").failed_starts == 1);
    cluster.run_for(seconds(2));
    assert_eq!(cluster.live_pods("a").len(), 2);
    assert_eq!(cluster.planner.ledger().total().cpu_milli, 12_000);
    cluster.restart(true);
    cluster.run_for(seconds(2));
    assert_eq!(cluster.live_pods("a").len(), 2);
    assert_eq!(cluster.planner.ledger().total().cpu_milli, 12_000);
}
