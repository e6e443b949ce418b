//! What attempts really use, as metrics.k8s.io tells.

use scavenger_planner::{
    fixtures::{key, seconds, sj},
    values::{Observation, Phase, PodUsage},
};
use scavenger_simulator::Cluster;

use super::{attempt, cluster, work};

/// All of its pods were just measured to use so much.
fn measure(cluster: &mut Cluster, name: &str, cpu_milli: i64, mib: i64) {
    let pods = cluster.live_pods(name);
    let usage = pods.into_iter().map(|pod| PodUsage {
        pod: pod.key.clone(),
        time: cluster.now,
        cpu_milli,
        memory_bytes: mib << 20,
    });
    let usage = usage.collect();
    cluster.planner.observe(Observation::PodUsage(usage), cluster.now);
    cluster.settle();
}

/// Statuses that were written of a ScavengerJob while it ran.
fn writes(cluster: &Cluster, name: &str) -> usize {
    cluster.log.iter().filter(|(_, action)| action.sj == key(name)).count()
}

#[test]
fn the_status_says_what_it_uses_and_is_seldom_written_for_it() {
    let mut cluster = cluster();
    cluster.submit(sj("a").asking(2000), work(2000));
    cluster.run_until_phase("a", Phase::Running);
    let before = writes(&cluster, "a");
    for _ in 0..4 * 20 {
        cluster.run_for(seconds(15));
        measure(&mut cluster, "a", 700, 100);
    }
    let usage = cluster.status("a").usage.clone().expect("it was measured for 20 minutes");
    assert_eq!((usage.attempt, usage.cpu.mean, usage.memory.peak), (1, 700, 100 << 20));
    assert!(usage.measured >= seconds(900), "{usage:?}");
    // After 1, 2, 4, 8 and 16 minutes, and steps of its priority.
    let after = writes(&cluster, "a") - before;
    assert!((5..=9).contains(&after), "{after} writes\n{}", cluster.history());
    assert_eq!(
        usage.advice(attempt(&cluster, "a")).as_deref(),
        Some(
            "uses 0.7 cpu on average and requests 2 cpu; uses 100 MiB at most and requests 2000 MiB, as measured for 16 \
             minutes: request less"
        )
    );
    // A planner that is started again goes on with it, and the end of the attempt stores what there is.
    cluster.restart(false);
    for _ in 0..4 {
        cluster.run_for(seconds(15));
        measure(&mut cluster, "a", 700, 100);
    }
    cluster.run_until_phase("a", Phase::Completed);
    let last = cluster.status("a").usage.as_deref().expect("it stays");
    assert!(last.measured > usage.measured, "{last:?}");
}

#[test]
fn a_gang_is_measured_as_a_whole_and_the_next_attempt_on_its_own() {
    let mut cluster = cluster();
    cluster.submit(sj("gang").asking(1000).gang(2), work(1000));
    cluster.run_until_phase("gang", Phase::Running);
    let one = cluster.live_pods("gang")[0].key.clone();
    for _ in 0..5 {
        cluster.run_for(seconds(15));
        let usage = PodUsage { pod: one.clone(), time: cluster.now, cpu_milli: 900, memory_bytes: 1 << 20 };
        cluster.planner.observe(Observation::PodUsage(vec![usage]), cluster.now);
        cluster.settle();
    }
    assert_eq!(cluster.status("gang").usage, None, "one pod of two was measured");
    for _ in 0..5 {
        cluster.run_for(seconds(15));
        measure(&mut cluster, "gang", 900, 1);
    }
    assert_eq!(cluster.status("gang").usage.as_deref().map(|usage| usage.cpu.mean), Some(1800));
    let pods = cluster.live_pods("gang").into_iter().map(|pod| pod.key.clone()).collect::<Vec<_>>();
    cluster.evict(&pods[0]);
    cluster.run_until("attempt 2 runs", |cluster| {
        cluster.status("gang").phase == Phase::Running && attempt(cluster, "gang").number == 2
    });
    for _ in 0..5 {
        cluster.run_for(seconds(15));
        measure(&mut cluster, "gang", 200, 1);
    }
    let usage = cluster.status("gang").usage.as_deref().expect("it was measured again");
    assert_eq!((usage.attempt, usage.cpu.mean, usage.cpu.peak), (2, 400, 400));
}
