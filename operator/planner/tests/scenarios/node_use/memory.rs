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
