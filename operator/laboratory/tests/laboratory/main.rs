//! Plays of the laboratory as a whole: what every run must keep, whatever the policy, and the rules of kube-scheduler.

mod by_use;
mod command_line;
mod ordinary;
mod pictures;
mod predecessor;
mod preemption;
mod runs;
mod snapshots;
mod sweeps;
mod targets;

use std::sync::Arc;

use scavenger_laboratory::{
    values::{Amounts, HOUR, MINUTE, NodeId, SECOND, SjId, Time},
    workload::{Node, Ordinary, Scavenger, Workload},
    world::{Order, Start, World},
};

/// Nodes with so many cores, and 4 GiB for each of them.
fn nodes(cores: &[i64]) -> Vec<Node> {
    let capacity = |cores: i64| Amounts { cpu: cores * 1000, memory: cores * 4096, pods: 110, gpus: 0 };
    let node = |(number, cores): (usize, &i64)| Node {
        name: format!("n{number}"),
        capacity: capacity(*cores),
        labels: [].into(),
    };
    cores.iter().enumerate().map(node).collect()
}

/// An ordinary pod of so many cores.
fn ordinary(arrival: Time, duration: Time, cores: i64) -> Ordinary {
    Ordinary { arrival, duration, requests: Amounts::of_pod(cores * 1000, cores * 1024, 0), priority: 0 }
}

/// A ScavengerJob of one pod with so many cores that never ends.
fn scavenger(cores: i64) -> Scavenger {
    Scavenger {
        arrival: 0,
        work: 1000 * HOUR,
        pods: 1,
        requests: Amounts::of_pod(cores * 1000, cores * 1024, 0),
        interval: 10 * MINUTE,
        cost: 0,
        restart: MINUTE,
        grace: 2 * SECOND,
        saves: false,
    }
}

fn workload(nodes: Vec<Node>, ordinary: Vec<Ordinary>, scavengers: Vec<Scavenger>) -> Workload {
    Workload { nodes, ordinary, scavengers, length: 2 * HOUR, uses: None }
}

/// The pods of a ScavengerJob begin, with a priority, on a node.
fn start(world: &mut World<'_>, sj: u32, priority: i32, node: u32) {
    let allowed = Some(Arc::new(vec![NodeId(node)]));
    world.carry_out(Order::Start(Start {
        sj: SjId(sj),
        number: 1,
        priority,
        allowed,
        remakes: false,
        least: None,
    }));
}
