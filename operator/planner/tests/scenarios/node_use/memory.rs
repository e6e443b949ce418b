//! What happens to those that are killed for memory, and how much of it comes back when they go.

use scavenger_planner::values::Demand;

use super::*;

#[test]
fn a_container_that_the_node_killed_for_memory_is_interrupted() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(2000), work(3000));
    minutes(&mut cluster, 6, |_| (1000, 1000));
    assert_eq!(cluster.status("a").phase, Phase::Running);
    let pod = cluster.live_pods("a")[0].key.clone();
    cluster.end_pod(&pod, 137, "OOMKilled");
    cluster.run_for(seconds(20));
    let (count, last, reason) = outcome(&cluster, "a");
    assert_eq!((count, last, reason), (1, Some(Outcome::Interrupted), Reason::NodeOutOfMemory));
}

/// With cgroup v1 the container runtime does not hear of a kill by a node that has no memory left.
#[test]
fn sigkill_that_nobody_ordered_is_a_node_without_memory_unless_it_used_its_limit() {
    for (part, expected) in [
        (2, (Outcome::Interrupted, Reason::NodeOutOfMemory)),
        (1, (Outcome::Failed, Reason::ContainerFailed)),
    ] {
        let mut cluster = reserved(settings().by_use());
        cluster.submit(sj("a").asking(2000), work(3000));
        runs(&mut cluster, "a");
        for _ in 0..8 {
            cluster.run_for(seconds(EVERY));
            measure_with(&mut cluster, |_| (1000, 1000), part);
        }
        let pod = cluster.live_pods("a")[0].key.clone();
        cluster.end_pod(&pod, 137, "Error");
        cluster.run_for(seconds(20));
        let (count, last, reason) = outcome(&cluster, "a");
        assert_eq!((count, last.unwrap(), reason), (1, expected.0, expected.1), "{}", cluster.history());
        let message = attempt(&cluster, "a").message.clone().unwrap();
        assert!(
            message.contains(if part == 2 { "SIGKILL" } else { "it used 2000 MiB of its 2000 MiB" }),
            "{message}"
        );
    }
}

/// A workload that kills itself after some hours must not be started forever, although each attempt ran for long.
#[test]
fn who_always_ends_by_sigkill_fails_however_long_it_runs() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(2000), work(300_000));
    for kill in 1..=5 {
        runs(&mut cluster, "a");
        minutes(&mut cluster, 3, |_| (1000, 1000));
        let pod = cluster.live_pods("a")[0].key.clone();
        cluster.end_pod(&pod, 137, "Error");
        cluster.run_for(seconds(20));
        let expected = match kill {
            5 => (kill, Some(Outcome::Failed), Reason::ContainerFailed),
            _ => (kill, Some(Outcome::Interrupted), Reason::NodeOutOfMemory),
        };
        assert_eq!(outcome(&cluster, "a"), expected, "{}", cluster.history());
    }
    let message = attempt(&cluster, "a").message.clone().unwrap();
    assert!(message.ends_with("(it was killed 5 times, on nodes n1, n1, n1, n1, n1)"), "{message}");
}

/// What somebody ordered is no kill for memory: its grace period was over.
#[test]
fn sigkill_at_the_end_of_a_grace_period_has_the_reason_of_its_deletion() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(2000), Workload { on_sigterm: 137, grace: seconds(10), ..work(3000) });
    runs(&mut cluster, "a");
    let pod = cluster.live_pods("a")[0].key.clone();
    cluster.preempt(&pod);
    cluster.run_for(seconds(30));
    let (_, last, reason) = outcome(&cluster, "a");
    assert_eq!((last, reason), (Some(Outcome::Interrupted), Reason::PreemptionByScheduler));
}

/// It is killed again and again at its start, on the one node there is. In between it computes, and somebody preempts it.
#[test]
fn whoever_makes_progress_between_kills_is_not_to_blame_for_them() {
    let mut cluster = reserved(settings().by_use());
    cluster.submit(sj("a").asking(2000), work(300_000));
    for kill in 1..=7 {
        runs(&mut cluster, "a");
        let pod = cluster.live_pods("a")[0].key.clone();
        cluster.end_pod(&pod, 137, "OOMKilled");
        cluster.run_for(seconds(20));
        assert_eq!(outcome(&cluster, "a").2, Reason::NodeOutOfMemory, "kill {kill}\n{}", cluster.history());
        runs(&mut cluster, "a");
        minutes(&mut cluster, 3, |_| (1000, 1000));
        let pod = cluster.live_pods("a")[0].key.clone();
        cluster.preempt(&pod);
        cluster.run_for(seconds(20));
        assert_eq!(outcome(&cluster, "a").2, Reason::PreemptionByScheduler, "{}", cluster.history());
    }
}

/// Four hold 2,000 MiB each and use 500, so 550 are expected of each. Ordinary pods come to use 7,000 of 10,000, so 7,700 are
/// expected of them: 1,400 too many for the headroom target of 85%.
#[test]
fn as_many_go_at_once_as_give_back_the_memory_that_was_counted_of_them() {
    let mut cluster = reserved(settings().by_use());
    for name in ["a", "b", "c", "d"] {
        let mut sj = sj(name).asking(500);
        let spec = sj.spec.as_mut().unwrap();
        let per_pod = Resources { memory_bytes: 2000 << 20, ..spec.demand.per_pod.clone() };
        spec.demand = Demand { per_pod, ..(*spec.demand).clone() }.into();
        cluster.submit(sj, work(300_000));
        for _ in 0..7 * 60 / EVERY {
            cluster.run_for(seconds(EVERY));
            measure_with(&mut cluster, |_| (1000, 1000), 4);
        }
        assert_eq!(cluster.status(name).phase, Phase::Running, "{}", cluster.history());
    }
    let before = cluster.log.len();
    cluster.run_for(seconds(EVERY));
    measure_with(&mut cluster, |_| (1000, 7000), 4);
    cluster.run_for(seconds(2));
    let is_order = |task: &Task| matches!(task, Task::WriteStatus(write) if write.orders_interruption());
    let orders = cluster.log[before..].iter().filter(|(_, action)| is_order(&action.task)).count();
    assert_eq!(orders, 3, "{}", cluster.history());
}
