//! Two ScavengerJobs that name the same working folder never work at the same time.

use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::{Phase, WaitingReason},
};
use scavenger_simulator::{Cluster, Stream, Workload};

use super::{all_is_quiet, cluster, completed, work};

/// At most one of those that name a folder has pods that have not ended.
fn one_works(cluster: &Cluster) {
    let live = cluster.all_live_pods();
    let mut names: Vec<&str> = live.iter().filter_map(|pod| pod.key.name.split('-').next()).collect();
    names.dedup();
    assert!(names.len() <= 1, "{}: {names:?} work in one folder\n{}", cluster.now, cluster.history());
}

#[test]
fn of_two_that_are_submitted_together_one_works_after_the_other() {
    let mut cluster = cluster();
    cluster.submit(sj("a").in_folder("water"), work(30));
    cluster.submit(sj("b").in_folder("water"), work(30));
    cluster.run_until("one of them waits for the other", |cluster| {
        one_works(cluster);
        cluster.waits("b") == Some(WaitingReason::FolderInUse)
    });
    let message = cluster.status("b").message.clone();
    assert_eq!(message, "waits for ScavengerJob \"a\", which works in the same folder");
    cluster.run_until("both are completed", |cluster| {
        one_works(cluster);
        ["a", "b"].iter().all(|name| cluster.status(name).phase == Phase::Completed)
    });
    all_is_quiet(&mut cluster);
}

#[test]
fn one_in_another_folder_or_without_one_does_not_wait() {
    let mut cluster = cluster();
    cluster.submit(sj("a").in_folder("water"), work(300));
    cluster.submit(sj("b").in_folder("ice"), work(300));
    cluster.submit(sj("c"), work(300));
    cluster.run_until("all run", |cluster| {
        ["a", "b", "c"].iter().all(|name| cluster.status(name).phase == Phase::Running)
    });
}

#[test]
fn the_next_one_waits_for_the_pods_of_one_that_is_deleted() {
    let mut cluster = cluster();
    cluster.submit(sj("a").in_folder("water"), Workload { grace: seconds(20), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.delete_sj("a");
    cluster.submit(sj("b").in_folder("water"), work(30));
    cluster.run_until("it is completed", |cluster| {
        one_works(cluster);
        cluster.status("b").phase == Phase::Completed
    });
}

#[test]
fn pods_that_no_watch_shows_are_found_before_the_start() {
    let mut cluster = cluster();
    cluster.submit(sj("a").in_folder("water"), Workload { grace: seconds(20), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    // Somebody takes its finalizer off: it is gone, and its pods go when the garbage collector finds them.
    cluster.delays.garbage_collector = seconds(5);
    cluster.take_finalizer_off("a");
    cluster.delete_sj("a");
    cluster.hold_watch(Stream::Pods);
    cluster.restart(false);
    cluster.submit(sj("b").in_folder("water"), work(30));
    cluster.run_until("it waits", |cluster| {
        one_works(cluster);
        cluster.exists("b") && cluster.waits("b") == Some(WaitingReason::FolderInUse)
    });
    cluster.let_go(Stream::Pods);
    cluster.run_until("it is completed", |cluster| {
        one_works(cluster);
        cluster.status("b").phase == Phase::Completed
    });
}

#[test]
fn one_that_cannot_start_does_not_keep_the_folder() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a").in_folder("water").asking(50_000), work(30));
    cluster.submit(sj("b").in_folder("water"), work(30));
    completed(&mut cluster, "b");
    cluster.delete_sj("a");
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    assert!(cluster.live_pods("b").is_empty() && cluster.pod("a-1-0").is_none(), "{:?}", key("a"));
}
