//! Systems and nodes for tests.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{Build, LadderRequest, Limits, NodeShape, Resources, SystemDescription};

use crate::system::{cube_of_water, usual_water};

/// A cube of water with the usual settings; the PME grid has a spacing of 0.12 nm.
#[must_use]
pub fn water(atoms: u64) -> SystemDescription {
    SystemDescription { box_nm: None, nsteps: 50_000, ..usual_water(atoms, cube_of_water(atoms as f64)) }
}

/// A node without labels and GPUs.
#[must_use]
pub fn node(cpu_millicores: u32, memory_gib: u64) -> NodeShape {
    NodeShape {
        count: 1,
        allocatable: Resources { cpu_millicores, memory_bytes: memory_gib << 30, gpus: 0 },
        largest_free: None,
        labels: BTreeMap::new(),
    }
}

/// A node with labels that tell its hardware, and GPUs.
#[must_use]
pub fn labelled(node: &NodeShape, labels: &[(&str, &str)], gpus: u32) -> NodeShape {
    NodeShape {
        allocatable: Resources { gpus, ..node.allocatable },
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..node.clone()
    }
}

/// A request without limits. All cores of a node of 16 to 96 pay, so that tests of what is chosen have something to choose.
#[must_use]
pub fn request(system: SystemDescription, nodes: Vec<NodeShape>) -> LadderRequest {
    LadderRequest {
        system,
        limits: Limits { min_efficiency: 0.5, ..Limits::default() },
        gromacs_version: None,
        build: Build::default(),
        nodes,
        explore: None,
    }
}
