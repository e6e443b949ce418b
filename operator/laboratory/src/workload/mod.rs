//! What a cluster is asked to do: its nodes, the ordinary pods that come and go, and the ScavengerJobs. Nothing in here knows
//! how it is scheduled.

mod gromacs;
mod mix;
pub mod openb;
mod read;
mod recording;
pub mod scenario;
pub mod trace;
mod uses;

use std::{collections::BTreeMap, sync::Arc};

pub use mix::Mix;
pub use read::{Read, Recorded};
pub use uses::Uses;

use crate::values::{Amounts, Time};

/// A cluster and all that is asked of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// The nodes, which stay as they are.
    pub nodes: Vec<Node>,
    /// Ordinary pods in the order of their arrival.
    pub ordinary: Vec<Ordinary>,
    /// ScavengerJobs in the order in which they are submitted.
    pub scavengers: Vec<Scavenger>,
    /// How long the cluster is looked at.
    pub length: Time,
    /// What ordinary pods use of what they request, if that is known.
    pub uses: Option<Arc<Uses>>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it has for pods.
    pub capacity: Amounts,
    /// Its labels, by which a pool selects nodes.
    pub labels: BTreeMap<String, String>,
}

/// A pod that is no part of a ScavengerJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordinary {
    /// When it is created.
    pub arrival: Time,
    /// How long its container runs.
    pub duration: Time,
    /// What it requests.
    pub requests: Amounts,
    /// Its priority: 0 if its owner names no class.
    pub priority: i32,
}

/// A ScavengerJob and what its workload does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scavenger {
    /// When it is submitted.
    pub arrival: Time,
    /// The work that it has to do, as run time of all of its pods side by side.
    pub work: Time,
    /// How many pods it has.
    pub pods: u32,
    /// What each of them requests.
    pub requests: Amounts,
    /// Work between two checkpoints.
    pub interval: Time,
    /// How long it takes to write one; no work is done meanwhile.
    pub cost: Time,
    /// How long each start but the first takes before work goes on.
    pub restart: Time,
    /// How long its pods take to end after SIGTERM.
    pub grace: Time,
    /// True if it writes a checkpoint when it gets SIGTERM.
    pub saves: bool,
}

impl Workload {
    /// The same without any ScavengerJob.
    #[must_use]
    pub fn without_scavengers(&self) -> Self {
        Self { scavengers: Vec::new(), ..self.clone() }
    }

    /// What all nodes have together.
    #[must_use]
    pub fn capacity(&self) -> Amounts {
        self.nodes.iter().fold(Amounts::default(), |sum, node| sum.plus(node.capacity))
    }
}
