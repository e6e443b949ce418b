//! Capacity that is kept for those that have waited long.

use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::Phase,
};
use scavenger_simulator::Cluster;

use super::work;

#[test]
fn holders_of_two_kinds_do_not_bind_each_other() {
    let nodes = [node("n1", 10_000).having("gpu", 1)];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    cluster.submit(sj("z").asking(6000), work(2000));
    cluster.run_until_phase("z", Phase::Running);
    cluster.submit(sj("a").asking(8000), work(10));
    cluster.run_for(seconds(60));
    cluster.submit(sj("b").asking(4000).asking_for("gpu", 1), work(100_000));
    cluster.run_until_phase("b", Phase::Running);
    cluster.run_for(seconds(640));
    // From now on b comes before a, which waited before b was created.
    cluster.preempt(&key("b-1-0"));
    cluster.run_until_phase("z", Phase::Completed);
    cluster.run_until_phase("a", Phase::Completed);
    cluster.run_until_phase("b", Phase::Running);
}
