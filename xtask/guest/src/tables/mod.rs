//! The tables.

mod beside;
mod deaths;
mod slowed;
mod starved;
mod tests;

use std::io;

use scavenger_kernel_guest::{
    layout::{MEBIBYTE, Node, Pod},
    report::Line,
    runtime::Conversion,
};

use crate::{
    actor::Policy,
    init::{Asked, report},
};

/// Memory for pods where memory does not matter.
const MEMORY: u64 = 400 * MEBIBYTE;

/// Measures what is asked for.
pub fn run(asked: &Asked) -> io::Result<()> {
    for name in &asked.tables {
        match name.as_str() {
            "deaths" => deaths::run(asked)?,
            "slowed" => slowed::run(asked)?,
            "bursts" => slowed::bursts(asked)?,
            "starved" => starved::run(asked)?,
            "beside" => beside::run(asked)?,
            "supervisor" => tests::supervisor(asked)?,
            "node-agent" => tests::node_agent()?,
            name => return Err(io::Error::other(format!("there is no table {name}"))),
        }
    }
    Ok(())
}

fn table(name: &str, title: &str, head: &[&str]) {
    let head = head.iter().map(|&column| column.to_owned()).collect();
    report(&Line::Table { name: name.to_owned(), title: title.to_owned(), head });
}

fn row(cells: Vec<String>) {
    report(&Line::Row(cells));
}

fn check(passed: bool, text: String) {
    report(&Line::Check { passed, text });
}

/// Processors of this machine.
fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// The node of these measurements.
fn node(asked: &Asked) -> Node {
    Node {
        names: asked.names,
        cpu: processors() * 1000,
        memory: MEMORY,
        conversion: Conversion::Quadratic,
        memory_qos: false,
        oom_group: true,
    }
}

/// By what ScavengerJobs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accounting {
    Requests,
    Usage,
}

/// What is done so that ordinary pods come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stance {
    /// A policy of the ScavengerJob's threads.
    Threads(Policy),
    /// `cpu.idle` of the pod's cgroup.
    PodIdle,
}

impl Stance {
    fn policy(self) -> Policy {
        match self {
            Self::Threads(policy) => policy,
            Self::PodIdle => Policy::Normal,
        }
    }

    /// Behind the accounting, for people.
    fn name(self) -> &'static str {
        match self {
            Self::Threads(Policy::Normal) => "",
            Self::Threads(Policy::Batch) => ", `SCHED_BATCH`",
            Self::Threads(Policy::Idle) => ", `SCHED_IDLE`",
            Self::Threads(Policy::Nice) => ", nice 19",
            Self::PodIdle => ", pod idle",
        }
    }
}

/// An ordinary pod beside a ScavengerJob that takes what is left of the node.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    name: &'static str,
    /// Percent of the node that it requests; none if it is BestEffort.
    requests: Option<u64>,
    /// Percent of the node that the ScavengerJob asks for.
    left: u64,
}

const NEIGHBOURS: [Neighbour; 3] = [
    Neighbour { name: "10%", requests: Some(10), left: 80 },
    Neighbour { name: "60%", requests: Some(60), left: 40 },
    Neighbour { name: "BestEffort", requests: None, left: 80 },
];

impl Neighbour {
    fn ordinary(&self) -> Pod {
        let cpu = self.requests.unwrap_or_default() * processors() * 10;
        let memory = if self.requests.is_some() { 40 * MEBIBYTE } else { 0 };
        Pod { uid: "0rd-1nary", cpu, memory, limits: None }
    }

    fn scavenger(&self, accounting: Accounting) -> Pod {
        scavenger(accounting, self.left * processors() * 10, 200 * MEBIBYTE)
    }
}

/// A ScavengerJob's pod, as the operator makes it.
fn scavenger(accounting: Accounting, cpu: u64, memory: u64) -> Pod {
    let (least_cpu, least_memory) = match accounting {
        Accounting::Requests => (cpu, memory),
        Accounting::Usage => (0, 8 * MEBIBYTE),
    };
    Pod { uid: "5ca-ven9er", cpu: least_cpu, memory: least_memory, limits: Some((cpu, memory)) }
}
