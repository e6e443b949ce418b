//! Nodes whose kubelet keeps whole cores for single pods (`cpuManagerPolicy: static`).

use scavenger_planner::values::Pod;

use super::*;

/// Ten cores. A pinned pod has four of them and uses next to nothing of these, another pod uses one core.
fn pinned(settings: Settings) -> Cluster {
    let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000).labelled("cpus", "pinned")]);
    cluster.create_pod(with_own_cores("database", 4000), FOREVER);
    cluster.create_pod(pod("web", 1000), FOREVER);
    cluster.settle();
    for number in 0..9 {
        cluster.submit(sj(&format!("job-{number}")).asking(1000), work(100_000));
    }
    minutes(&mut cluster, 12, |_| (1000, 1000));
    cluster
}

/// A pod with cores of its own, which are all that it requests much of.
fn with_own_cores(name: &str, cpu_milli: i64) -> Pod {
    let mut pod = Pod { exclusive_milli: cpu_milli, ..pod(name, cpu_milli) };
    pod.requests.memory_bytes = 1 << 20;
    pod
}

fn running(cluster: &Cluster) -> usize {
    cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count()
}

fn with_static_cpus(key: &str, value: &str) -> Settings {
    let mut settings = settings().by_use();
    if let Some(rules) = &mut settings.usage {
        rules.static_cpu_selector.insert(key.into(), value.into());
    }
    settings
}

#[test]
fn cores_that_the_kubelet_keeps_for_a_pod_are_its_own_used_or_not() {
    // Of 7 cores below the threshold 1.2 are expected to be used, and 4 are kept.
    assert_eq!(running(&pinned(with_static_cpus("cpus", "pinned"))), 1);
    // On other nodes they are anybody's, and without the setting everywhere.
    assert_eq!(running(&pinned(with_static_cpus("cpus", "shared"))), 5);
    assert_eq!(running(&pinned(settings().by_use())), 5);
}

/// Cores that are kept count as used when it is asked whether ordinary pods are short of cpu.
#[test]
fn who_held_such_cores_before_makes_way() {
    let mut cluster = pinned(settings().by_use());
    for number in 0..2 {
        cluster.create_pod(with_own_cores(&format!("pinned-{number}"), 2000), FOREVER);
    }
    minutes(&mut cluster, 10, |_| (1000, 1000));
    assert_eq!(running(&cluster), 5, "nobody knows of these cores yet");
    cluster.set_pool(Ok(with_static_cpus("cpus", "pinned")));
    minutes(&mut cluster, 10, |_| (1000, 1000));
    // 8 of 10 cores are kept, and 5 were held: down to 85%.
    assert_eq!(running(&cluster), 0, "{}", cluster.history());
    let gone = cluster.scavenger_jobs().find(|sj| sj.status.interrupted_count > 0);
    let gone = gone.map(|sj| sj.key.name.to_string()).expect("somebody was interrupted");
    assert_eq!(outcome(&cluster, &gone), (1, Some(Outcome::Interrupted), Reason::NodeCPUShort));
}
