//! ScavengerJobs that are deleted, in every phase.

use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::Phase,
};
use scavenger_simulator::{Cluster, Workload};

use super::{all_is_quiet, cluster, completed, work};

/// Deletes `a` and sees to it that its name is held until its pods are gone, which get their grace.
fn delete(cluster: &mut Cluster) {
    cluster.delete_sj("a");
    let before = cluster.live_pods("a").len();
    cluster.run_until("it is gone", |cluster| {
        assert!(cluster.exists("a") || cluster.live_pods("a").is_empty(), "the name is free too early");
        !cluster.exists("a")
    });
    if before > 0 {
        assert!(
            cluster.log.iter().any(|(_, action)| {
                matches!(action.task, scavenger_planner::action::Task::RemoveFinalizer)
            })
        );
    }
    all_is_quiet(cluster);
    cluster.submit(sj("a"), work(5));
    completed(cluster, "a");
}

#[test]
fn deleted_while_it_waits_for_room() {
    let mut cluster = cluster();
    cluster.submit(sj("a").asking(7001), work(300));
    cluster.run_for(seconds(5));
    assert_eq!(cluster.status("a").phase, Phase::Waiting);
    delete(&mut cluster);
}

#[test]
fn deleted_while_it_is_prepared() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until("it is prepared", |cluster| !cluster.log.is_empty());
    delete(&mut cluster);
}

#[test]
fn deleted_while_its_job_is_created() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Starting);
    delete(&mut cluster);
}

#[test]
fn deleted_while_its_container_is_created() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { stuck: Some(("ErrImagePull".into(), "no".into())), ..work(1) });
    cluster.run_for(seconds(10));
    delete(&mut cluster);
}

#[test]
fn deleted_while_it_runs() {
    for pods in [1, 3] {
        let mut cluster = cluster();
        cluster.submit(sj("a").gang(pods), Workload { grace: seconds(10), ..work(300) });
        cluster.run_until_phase("a", Phase::Running);
        let began = cluster.now;
        delete(&mut cluster);
        assert!(cluster.now.duration_since(began) > seconds(10));
    }
}

#[test]
fn deleted_while_the_interrupted_pods_are_in_their_grace() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { grace: seconds(10), ..work(300) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    delete(&mut cluster);
}

#[test]
fn deleted_after_an_interruption() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.preempt(&key("a-1-0"));
    cluster.run_until_phase("a", Phase::Interrupted);
    cluster.run_for(seconds(10));
    delete(&mut cluster);
}

#[test]
fn deleted_after_it_completed_or_failed() {
    for exit_code in [0, 1] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), Workload { exit_code, ..work(5) });
        cluster.run_until("it is finished", |cluster| cluster.status("a").phase.is_finished());
        cluster.run_for(seconds(10));
        delete(&mut cluster);
    }
}

#[test]
fn the_finalizer_stays_while_a_pod_is_on_a_lost_node() {
    let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    let node = cluster.live_pods("a")[0].node.clone().unwrap();
    cluster.lose_node(&node);
    cluster.delete_sj("a");
    cluster.run_for(seconds(600));
    assert!(cluster.exists("a"));
    cluster.remove_node(&node);
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    all_is_quiet(&mut cluster);
}

#[test]
fn deleted_by_somebody_while_the_planner_is_away() {
    let mut cluster = Cluster::new(settings()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a"), work(300));
    cluster.run_until_phase("a", Phase::Running);
    cluster.delete_sj("a");
    cluster.restart(false);
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    assert!(cluster.live_pods("a").is_empty());
    all_is_quiet(&mut cluster);
}
