//! What admins say about the whole pool: paused and drain.

use scavenger_planner::{
    fixtures::{pod, seconds, settings, sj},
    values::{Observation, Outcome, Phase, Reason, Settings, WaitingReason},
};
use scavenger_simulator::{Cluster, Kill};

use super::{all_is_quiet, attempt, cluster, completed, outcome, work};

fn paused() -> Settings {
    Settings { paused: true, ..settings() }
}

fn drained() -> Settings {
    Settings { drain: true, ..settings() }
}

#[test]
fn while_it_is_paused_nothing_starts_and_what_runs_goes_on() {
    let mut cluster = cluster();
    cluster.submit(sj("runs"), work(100));
    cluster.run_until_phase("runs", Phase::Running);
    cluster.set_pool(Ok(paused()));
    cluster.submit(sj("waits"), work(10));
    cluster.run_for(seconds(5));
    assert_eq!(cluster.waits("waits"), Some(WaitingReason::Paused));
    cluster.restart(false);
    cluster.run_until_phase("runs", Phase::Completed);
    cluster.run_for(seconds(100));
    assert_eq!(cluster.waits("waits"), Some(WaitingReason::Paused));
    assert_eq!(cluster.starts.len(), 1);
    cluster.set_pool(Ok(settings()));
    completed(&mut cluster, "waits");
}

#[test]
fn a_start_that_was_only_prepared_does_not_happen_once_it_is_paused() {
    let mut cluster = cluster();
    cluster.delays.answer = seconds(1);
    cluster.submit(sj("a"), work(10));
    cluster.run_until("it is being prepared", |cluster| cluster.log.len() == 1);
    cluster.set_pool(Ok(paused()));
    cluster.run_for(seconds(30));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::Paused));
    assert!(cluster.starts.is_empty());
    assert_eq!(cluster.planner.ledger().total(), &scavenger_planner::resources::Resources::default());
    cluster.set_pool(Ok(settings()));
    completed(&mut cluster, "a");
}

fn drain_and_resume(kill: Option<Kill>) -> Cluster {
    let mut cluster = cluster();
    cluster.kill = kill;
    cluster.submit(sj("single"), work(100));
    cluster.submit(sj("gang").gang(2), work(100));
    cluster.run_until("both run", |cluster| {
        ["single", "gang"].iter().all(|name| cluster.status(name).phase == Phase::Running)
    });
    cluster.run_for(seconds(10));
    cluster.submit(sj("starts").asking(2000), work(10));
    cluster.run_until("it starts", |cluster| cluster.status("starts").phase == Phase::Starting);
    cluster.set_pool(Ok(drained()));
    let began = cluster.now;
    cluster.run_until("all pods are gone", |cluster| cluster.all_live_pods().is_empty());
    let took = cluster.now.duration_since(began);
    assert!(kill.is_some() || took < seconds(5), "{took}");
    cluster.run_for(seconds(100));
    assert!(cluster.all_live_pods().is_empty(), "nothing starts again\n{}", cluster.history());
    for name in ["single", "gang", "starts"] {
        assert_eq!(cluster.waits(name), Some(WaitingReason::Paused), "{name}\n{}", cluster.history());
    }
    cluster.set_pool(Ok(settings()));
    for name in ["single", "gang", "starts"] {
        cluster.run_until_phase(name, Phase::Completed);
    }
    all_is_quiet(&mut cluster);
    cluster
}

#[test]
fn drain_interrupts_everything_within_seconds_and_all_goes_on_afterwards() {
    let cluster = drain_and_resume(None);
    for name in ["single", "gang"] {
        assert_eq!(cluster.status(name).interrupted_count, 1, "{name}");
        assert_eq!(attempt(&cluster, name).number, 2);
    }
    assert!(cluster.status("starts").interrupted_count <= 1);
}

#[test]
fn drain_is_the_reason_that_is_told() {
    let mut cluster = cluster();
    cluster.submit(sj("a"), work(100));
    cluster.run_until_phase("a", Phase::Running);
    cluster.set_pool(Ok(drained()));
    cluster.run_until_phase("a", Phase::Interrupted);
    assert_eq!(outcome(&cluster, "a"), (1, Some(Outcome::Interrupted), Reason::Drained));
    assert_eq!(attempt(&cluster, "a").disruption.as_ref().unwrap().reason, Reason::Drained);
}

#[test]
fn killed_before_and_after_every_action_a_drain_interrupts_each_once() {
    let undisturbed = drain_and_resume(None);
    for number in 1..=undisturbed.actions {
        for kill in [Kill::Before(number), Kill::After(number), Kill::Late(number)] {
            let disturbed = drain_and_resume(Some(kill));
            for name in ["single", "gang"] {
                assert_eq!(
                    disturbed.status(name).interrupted_count,
                    1,
                    "{kill:?} {name}\n{}",
                    disturbed.history()
                );
            }
        }
    }
}

#[test]
fn an_ordinary_pod_that_waits_for_something_else_than_capacity_holds_none() {
    let mut cluster = cluster();
    let mut pending = pod("shop", 5000);
    let mut see = |cluster: &mut Cluster, message: Option<&str>| {
        pending.unschedulable = message.map(str::to_owned);
        cluster.planner.observe(Observation::Pod(Box::new(pending.clone())), cluster.now);
    };
    let held = |cluster: &Cluster| {
        let report = cluster.planner.pool_report(cluster.now);
        let names: Vec<String> =
            cluster.planner.pods_that_hold_capacity().map(|(key, _)| key.name.to_string()).collect();
        (report.pending_requests.cpu_milli, names)
    };
    see(&mut cluster, None);
    cluster.submit(sj("a").asking(4000), work(100));
    cluster.run_for(seconds(5));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity), "it was not judged yet");
    assert_eq!(held(&cluster), (5000, vec!["shop".to_owned()]));
    see(&mut cluster, Some("0/1 nodes are available: 1 Insufficient cpu. preemption: not helpful."));
    cluster.run_for(seconds(5));
    assert_eq!(cluster.waits("a"), Some(WaitingReason::NoCapacity));
    see(&mut cluster, Some("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."));
    cluster.run_until_phase("a", Phase::Running);
    assert_eq!(held(&cluster), (0, Vec::new()));
}
