//! Containers that somebody's policy puts beside the main one: they decide nothing, and hold nothing.

use scavenger_planner::{
    fixtures::{key, node, pod, seconds, settings, sj},
    values::{Container, Outcome, Phase, Reason},
};
use scavenger_simulator::{Cluster, Injected, Workload};

use super::{all_is_quiet, attempt, cluster, outcome, whole_cluster, work};

/// Ends after so many seconds.
fn ends(seconds_: i64, exit_code: i32) -> Option<Injected> {
    Some(Injected { needs: Some(seconds(seconds_)), exit_code })
}

/// Never ends.
const FOREVER: Option<Injected> = Some(Injected { needs: None, exit_code: 0 });

fn main_has_ended(cluster: &Cluster, pod: &str) -> bool {
    cluster.pod(pod).is_some_and(|pod| matches!(pod.container, Container::Ended { .. }))
}

#[test]
fn one_that_ends_before_or_after_the_main_one_whatever_its_code_decides_nothing() {
    for (needs, code) in [(5, 0), (5, 1), (5, 143), (25, 0), (25, 1), (25, 143)] {
        for (exit_code, phase) in [(0, Phase::Completed), (3, Phase::Failed)] {
            let mut cluster = cluster();
            cluster.submit(sj("a"), Workload { beside: ends(needs, code), exit_code, ..work(15) });
            cluster.run_until("it has ended", |cluster| cluster.status("a").phase.is_finished());
            assert_eq!(cluster.status("a").phase, phase, "{needs} {code}\n{}", cluster.history());
            all_is_quiet(&mut cluster);
            assert_eq!(cluster.jobs_of("a").len(), 1, "the Job stays, so that its log can be read");
            assert!(cluster.live_pods("a").is_empty());
            let message = cluster.status("a").message.clone();
            match phase {
                Phase::Completed => assert_eq!(message, "the workload succeeded"),
                _ => assert_eq!(message, "ContainerFailed: pod a-1-0 exited with code 3"),
            }
            assert!((14..=16).contains(&cluster.status("a").active_seconds));
        }
    }
}

#[test]
fn one_that_never_ends_is_waited_for_half_a_minute_and_then_goes_with_its_job() {
    for restart in [false, true] {
        for (exit_code, phase) in [(0, Phase::Completed), (3, Phase::Failed)] {
            let mut cluster = cluster();
            cluster.submit(sj("a"), Workload { beside: FOREVER, exit_code, ..work(60) });
            cluster.run_until("main has ended", |cluster| main_has_ended(cluster, "a-1-0"));
            let ended = cluster.now;
            if restart {
                cluster.run_for(seconds(10));
                cluster.restart(false);
            }
            cluster.run_until("nothing is held", |cluster| cluster.live_pods("a").is_empty());
            let held = cluster.now.duration_since(ended);
            assert!((seconds(30)..=seconds(60)).contains(&held), "{held}");
            assert_eq!(cluster.status("a").phase, phase, "{}", cluster.history());
            all_is_quiet(&mut cluster);
            let end = match phase {
                Phase::Completed => (1, Some(Outcome::Completed), Reason::Completed),
                _ => (1, Some(Outcome::Failed), Reason::ContainerFailed),
            };
            assert_eq!(outcome(&cluster, "a"), end);
            assert!((59..=61).contains(&cluster.status("a").active_seconds), "it is no run time");
            assert!(cluster.jobs_of("a").is_empty());
        }
    }
}

#[test]
fn one_that_hangs_holds_neither_the_end_of_its_scavenger_job_nor_its_deletion() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), Workload { beside: FOREVER, ..work(60) });
    cluster.control("a", |controls| controls.ttl_after_finished = seconds(0));
    cluster.run_until("it is gone", |cluster| !cluster.exists("a"));
    assert!(cluster.all_live_pods().is_empty());
}

#[test]
fn a_gang_ends_with_the_last_of_its_main_containers() {
    for beside in [FOREVER, ends(200, 143)] {
        let mut cluster = cluster();
        cluster.submit(sj("a").gang(3), Workload { beside, ..work(120) });
        cluster.run_until_phase("a", Phase::Running);
        // The first of them ends last.
        for (pod, after) in [("a-1-2", 10), ("a-1-1", 50)] {
            cluster.run_for(seconds(after));
            assert_eq!(cluster.status("a").phase, Phase::Running, "{}", cluster.history());
            cluster.exit(&key(pod), 0);
        }
        cluster.run_until_phase("a", Phase::Completed);
        all_is_quiet(&mut cluster);
        assert!(cluster.live_pods("a").is_empty());
        assert!((119..=122).contains(&cluster.status("a").active_seconds));
    }
}

#[test]
fn a_gang_of_which_one_main_container_fails_has_failed_and_is_gone() {
    let mut cluster = cluster();
    cluster.submit(sj("a").gang(3), Workload { beside: FOREVER, ..work(100_000) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.exit(&key("a-1-1"), 3);
    cluster.run_until_phase("a", Phase::Failed);
    all_is_quiet(&mut cluster);
    assert_eq!(cluster.status("a").message, "ContainerFailed: pod a-1-1 exited with code 3");
    assert!(cluster.live_pods("a").is_empty(), "{}", cluster.history());
}

#[test]
fn a_gang_that_was_done_is_completed_although_an_injected_container_made_its_job_fail() {
    for restart in [false, true] {
        let mut cluster = whole_cluster();
        cluster.strict = false;
        cluster.submit(sj("a").gang(2), Workload { beside: ends(70, 1), ..work(60) });
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(61));
        if restart {
            cluster.outage = true;
            cluster.run_for(seconds(60));
            cluster.restart(false);
            cluster.outage = false;
        }
        cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(cluster.status("a").phase, Phase::Completed, "{}", cluster.history());
        all_is_quiet(&mut cluster);
    }
}

#[test]
fn a_gang_whose_job_fails_because_of_an_injected_container_while_a_main_one_runs_was_interrupted() {
    for restart in [false, true] {
        let mut cluster = cluster();
        cluster.submit(sj("a").gang(2), Workload { beside: ends(20, 1), ..work(600) });
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(30));
        if restart {
            cluster.outage = true;
        }
        cluster.exit(&key("a-1-0"), 0);
        cluster.run_for(seconds(20));
        if restart {
            cluster.restart(false);
            cluster.outage = false;
        }
        cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(outcome(&cluster, "a").1, Some(Outcome::Interrupted), "{restart}\n{}", cluster.history());
    }
}

#[test]
fn what_happens_to_a_pod_whose_work_is_done_changes_nothing() {
    for (restart, happens) in
        [false, true].into_iter().flat_map(|restart| (0..4).map(move |what| (restart, what)))
    {
        let mut cluster = cluster().with_nodes([node("n2", 10_000)]);
        cluster.strict = false;
        cluster.submit(sj("a"), Workload { beside: FOREVER, ..work(60) });
        cluster.run_until("main has ended", |cluster| main_has_ended(cluster, "a-1-0"));
        cluster.run_for(seconds(10));
        cluster.outage = restart;
        match happens {
            0 => cluster.preempt(&key("a-1-0")),
            1 => cluster.evict(&key("a-1-0")),
            2 => cluster.delete_pod(&key("a-1-0")),
            _ => cluster.control("a", |controls| controls.suspend = true),
        }
        if restart {
            cluster.run_for(seconds(1));
            cluster.restart(false);
            cluster.outage = false;
        }
        cluster.run_until("it has ended", |cluster| !cluster.status("a").phase.is_active());
        assert_eq!(cluster.status("a").phase, Phase::Completed, "{restart} {happens}\n{}", cluster.history());
        all_is_quiet(&mut cluster);
        assert!(cluster.live_pods("a").is_empty());
    }
}

#[test]
fn one_that_is_interrupted_while_its_main_container_runs_is_interrupted_as_ever() {
    for beside in [FOREVER, ends(5, 1), ends(5, 0)] {
        let mut cluster = cluster();
        cluster.submit(sj("a"), Workload { beside, on_sigterm: 0, ..work(60) });
        cluster.run_until_phase("a", Phase::Running);
        cluster.run_for(seconds(20));
        cluster.preempt(&key("a-1-0"));
        cluster.run_until_phase("a", Phase::Interrupted);
        assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::PreemptionByScheduler));
        cluster.run_until_phase("a", Phase::Completed);
        assert_eq!(attempt(&cluster, "a").number, 2);
    }
}

#[test]
fn the_capacity_of_one_that_goes_on_counts_until_it_is_gone() {
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a").asking(8000), Workload { beside: FOREVER, ..work(60) });
    cluster.run_until_phase("a", Phase::Running);
    cluster.submit(sj("b").asking(8000), work(10));
    cluster.run_until("main has ended", |cluster| main_has_ended(cluster, "a-1-0"));
    // The model checks at every instant that no more is used than there is.
    cluster.run_until_phase("b", Phase::Completed);
    assert_eq!(cluster.status("a").phase, Phase::Completed);
}

#[test]
fn an_ordinary_pod_that_needs_the_capacity_does_not_wait_for_one_that_goes_on() {
    let mut cluster = Cluster::new(settings().filled_to(1.0).preempting()).with_nodes([node("n1", 10_000)]);
    cluster.strict = false;
    cluster.submit(sj("a").asking(8000), Workload { beside: FOREVER, ..work(60) });
    cluster.run_until("main has ended", |cluster| main_has_ended(cluster, "a-1-0"));
    cluster.create_pod(pod("ordinary", 9000).patient(), seconds(10));
    let asked = cluster.now;
    cluster.run_until("it has its node", |cluster| {
        cluster.pod("ordinary").is_some_and(|pod| pod.node.is_some())
    });
    let waited = cluster.now.duration_since(asked);
    assert!(waited <= seconds(35), "{waited}");
    cluster.run_until_phase("a", Phase::Completed);
}

#[test]
fn a_supervised_workload_that_is_done_has_lost_nothing() {
    let mut cluster = Cluster::new(settings().supervising()).with_nodes([node("n1", 10_000)]);
    cluster.submit(sj("a").watched(), Workload { beside: FOREVER, ..work(60) });
    cluster.run_until_phase("a", Phase::Completed);
    all_is_quiet(&mut cluster);
    assert_eq!(attempt(&cluster, "a").measured.lost, Some(seconds(0)));
}
