//! Where those go that are counted by use, and what happens where the plan was wrong.

use super::*;

/// Two nodes of 10 cores. On each, nine pods have reserved 9 of them.
fn two_nodes(settings: Settings) -> Cluster {
    let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000), node("n2", 10_000)]);
    for number in 0..18 {
        cluster.create_pod(pod(&format!("web-{number}"), 1000), FOREVER);
    }
    cluster.settle();
    cluster
}

#[test]
fn a_node_takes_no_more_pods_than_it_may() {
    let mut settings = settings().by_use();
    settings.usage.as_mut().unwrap().most_pods_per_node = 2;
    let mut cluster = reserved(settings);
    for name in ["a", "b", "c"] {
        cluster.submit(sj(name).asking(500), work(3000));
    }
    minutes(&mut cluster, 10, |_| (500, 500));
    let running = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count();
    assert_eq!(running, 2, "{}", cluster.history());
    let waits = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Waiting).count();
    assert_eq!(waits, 1);
}

/// The kubelet of the chosen node refuses the pod, as one does whose cpus are pinned.
#[test]
fn who_is_refused_by_its_node_goes_to_another() {
    let mut cluster = two_nodes(settings().by_use());
    minutes(&mut cluster, 6, |_| (1000, 1000));
    cluster.submit(sj("a").asking(2000), work(30_000));
    cluster.run_until("its pod is bound", |cluster| {
        cluster.live_pods("a").first().is_some_and(|pod| pod.node.is_some())
    });
    let pod = cluster.live_pods("a")[0].clone();
    let first = pod.node.clone().unwrap();
    cluster.refuse_pod(&pod.key, "UnexpectedAdmissionError");
    runs(&mut cluster, "a");
    let now = attempt(&cluster, "a");
    assert_ne!(now.node, Some(first), "{}", cluster.history());
    assert_eq!(cluster.status("a").interrupted_count, 0, "no container of it ran");
}

/// While its Job is made, ordinary pods are bound that are expected to use what it was promised.
#[test]
fn who_started_on_a_plan_that_was_overtaken_gives_back_what_is_needed() {
    let mut cluster = reserved(settings().by_use());
    minutes(&mut cluster, 6, |_| (1000, 1000));
    cluster.submit(sj("a").asking(5500), work(30_000));
    cluster.run_until("its Job is made", |cluster| !cluster.live_pods("a").is_empty());
    // Nearly all that the node still has by requests goes to somebody else, and the others use more than before.
    cluster.create_pod(pod("late", 900), FOREVER);
    minutes(&mut cluster, 3, |_| (4500, 4500));
    assert_eq!(cluster.status("a").interrupted_count, 1, "{}", cluster.history());
    let reason = outcome(&cluster, "a").2;
    assert!(matches!(reason, Reason::NodeMemoryShort | Reason::NodeCPUShort), "{reason:?}");
    assert!(cluster.pod("late").unwrap().node.is_some(), "it waits for nobody");
}

/// Somebody counts a tenth of what is used. Then the node fills up for real, and it is ScavengerJobs that the kernel kills.
#[test]
fn numbers_that_are_too_low_cost_scavenger_jobs_alone() {
    let mut cluster = reserved(settings().by_use());
    minutes(&mut cluster, 6, |_| (100, 100));
    for name in ["a", "b", "c"] {
        cluster.submit(sj(name).asking(2000), work(30_000));
    }
    minutes(&mut cluster, 2, |_| (100, 100));
    let running = cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count();
    assert_eq!(running, 3, "{}", cluster.history());
    let pod = cluster.live_pods("b")[0].key.clone();
    cluster.end_pod(&pod, 137, "OOMKilled");
    minutes(&mut cluster, 2, |_| (100, 100));
    assert_eq!(cluster.status("b").interrupted_count, 1, "{}", cluster.history());
    // Then it is measured as it is.
    minutes(&mut cluster, 5, |_| (7000, 7000));
    let left: i64 = cluster
        .all_live_pods()
        .iter()
        .filter(|pod| pod.owner.is_some())
        .map(|pod| pod.holds().cpu_milli)
        .sum();
    assert!(left <= 2000, "{left} of 10 cores are held beside the 7 that are used\n{}", cluster.history());
    let stays = |number| cluster.pod(&format!("web-{number}")).is_some_and(|pod| pod.node.is_some());
    assert!((0..9).all(stays), "no ordinary pod went");
}
