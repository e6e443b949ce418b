//! Who is asked for a checkpoint before it goes, for reasons of accounting Usage.

use super::*;

/// How ordinary pods bring about an interruption; called every 15 s.
type Cause = fn(&mut Cluster);

#[test]
fn cpu_that_is_short_and_a_node_that_is_not_measured_leave_time_for_a_checkpoint() {
    let causes: [(Cause, Reason); 2] = [
        (|cluster| measure(cluster, |_| (4500, 1000)), Reason::NodeCPUShort),
        // Nobody measures it any more.
        (|_| {}, Reason::NodeNotMeasured),
    ];
    for (cause, reason) in causes {
        for answers in [true, false] {
            let mut cluster = running();
            let is_asked = |cluster: &Cluster| cluster.planner.asked_for_checkpoint().count() == 1;
            for second in 1.. {
                cluster.run_for(seconds(1));
                if second % EVERY == 0 {
                    cause(&mut cluster);
                }
                if is_asked(&cluster) {
                    break;
                }
                assert!(second < 1200, "{reason}: nobody asks\n{}", cluster.history());
            }
            let asked = cluster.now;
            assert_eq!(interruptions(&cluster), 0, "{reason}: it is asked first");
            cluster.run_for(seconds(2));
            if answers {
                cluster.report_checkpoint("a");
            }
            cluster.run_until("it is evicted", |cluster| interruptions(cluster) == 1);
            let after = cluster.now.duration_since(asked).as_secs();
            let expected = if answers { 2..=5 } else { 25..=31 };
            assert!(expected.contains(&after), "{reason}: {after} s, it answers: {answers}");
            cluster.run_until("it was interrupted", |cluster| cluster.status("a").interrupted_count == 1);
            assert_eq!(outcome(&cluster, "a").2, reason);
        }
    }
}

#[test]
fn memory_that_is_short_leaves_no_time() {
    let mut cluster = running();
    let began = cluster.now;
    while interruptions(&cluster) == 0 {
        cluster.run_for(seconds(EVERY));
        measure(&mut cluster, |_| (1000, 4200));
        assert_eq!(cluster.planner.asked_for_checkpoint().count(), 0);
        assert!(cluster.now < began + seconds(60), "{}", cluster.history());
    }
    cluster.run_until("it was interrupted", |cluster| cluster.status("a").interrupted_count == 1);
    assert_eq!(outcome(&cluster, "a").2, Reason::NodeMemoryShort);
}

/// A ScavengerJob that runs on what ordinary pods do not use, has reported a checkpoint, and can be asked for another.
fn running() -> Cluster {
    let mut cluster = reserved(settings().by_use().supervising());
    cluster.strict = false;
    let workload = Workload { saves: false, ..work(30_000) };
    cluster.submit(
        sj("a").interruptible_after(seconds(60)).asking(5500).watched().that_can_be_asked(),
        workload,
    );
    runs(&mut cluster, "a");
    minutes(&mut cluster, 1, |_| (1000, 1000));
    cluster.report_checkpoint("a");
    minutes(&mut cluster, 1, |_| (1000, 1000));
    cluster
}

fn interruptions(cluster: &Cluster) -> usize {
    cluster.log.iter().filter(|(_, action)| matches!(action.task, Task::Interrupt { .. })).count()
}
