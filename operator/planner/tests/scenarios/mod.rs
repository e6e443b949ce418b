//! One story per test.

mod admission;
mod budgets;
mod calendar;
mod crowd;
mod deletion;
mod endings;
mod faults;
mod folders;
mod groups;
mod guard;
mod hardware;
mod headroom;
mod ill_nodes;
mod injected;
mod interruptions;
mod leaving;
mod lifecycle;
mod measured;
mod missing;
mod node_groups;
mod node_use;
mod not_created;
mod placement;
mod pool;
mod preemption;
mod quota;
mod races;
mod refusals;
mod rejected;
mod reservations;
mod resizes;
mod rounds;
mod runtime_classes;
mod starting;
mod starts;
mod starved;
mod supervision;
mod tenants;
mod usage;
mod verdict;
mod volumes;

use scavenger_planner::{
    fixtures::{at, key, node, seconds, settings},
    values::{Attempt, Outcome, Phase, Reason},
};
use scavenger_simulator::{Cluster, Workload};

/// One node with 10 cpu, of which ScavengerJobs may use 7.
fn cluster() -> Cluster {
    Cluster::default().with_nodes([node("n1", 10_000)])
}

/// Two such nodes, all of which may be used.
fn whole_cluster() -> Cluster {
    Cluster::new(settings().filled_to(1.0)).with_nodes([node("n1", 10_000), node("n2", 10_000)])
}

fn work(needs: i64) -> Workload {
    Workload { needs: seconds(needs), ..Workload::default() }
}

fn attempt<'a>(cluster: &'a Cluster, name: &str) -> &'a Attempt {
    cluster.status(name).attempt.as_ref().expect("an attempt should have been made")
}

fn outcome(cluster: &Cluster, name: &str) -> (u32, Option<Outcome>, Reason) {
    let attempt = attempt(cluster, name);
    let reason = attempt.reason.clone().unwrap_or(Reason::Other("".into()));
    (attempt.number, attempt.outcome, reason)
}

/// Everything has ended well, nothing is held, and planning again yields nothing.
fn all_is_quiet(cluster: &mut Cluster) {
    cluster.run_for(seconds(30));
    cluster.check_recomputed();
    let plans = cluster.log.len();
    cluster.run_for(seconds(3600));
    assert_eq!(
        cluster.log.len(),
        plans,
        "something was done although nothing happened\n{}",
        cluster.history()
    );
    assert_eq!(cluster.planner.ledger().total(), &scavenger_planner::resources::Resources::default());
}

fn completed(cluster: &mut Cluster, name: &str) {
    cluster.run_until_phase(name, Phase::Completed);
    all_is_quiet(cluster);
    let status = cluster.status(name);
    assert!(status.finish_time.is_some_and(|time| time > at(0)));
    assert_eq!(cluster.jobs_of(name).len(), 1, "the last Job stays, so that its log can be read");
    assert!(cluster.live_pods(name).is_empty());
    let _ = key(name);
}

/// The step of its running priority.
fn level(cluster: &Cluster, name: &str) -> Option<i32> {
    cluster.planner.running_priority(&key(name), cluster.now).map(|(level, _)| level)
}

fn writes(cluster: &Cluster) -> usize {
    cluster
        .log
        .iter()
        .filter(|(_, action)| matches!(action.task, scavenger_planner::action::Task::WriteStatus(_)))
        .count()
}
