//! What is different about a calibration: its configuration is given, so the tuner is asked only what it expects of it,
//! and what is measured must be told of one kind of nodes.

use std::collections::BTreeMap;

use scavenger_schema::simulation::Benchmark;
use scavenger_schema::tuning::{NodeShape, PredictRequest, Resources, SystemDescription};
use scavenger_tuner_model::hardware::class_of_labels;

use super::ladder::describe;
use super::next::fail;
use super::seen::Input;
use super::step::{Action, Step, act};
use crate::text::pairs;
use crate::view::PoolView;

/// Asks the tuner about the benchmark on the nodes that it is about; fails the row if there are none, or if what is
/// measured there would tell of none.
pub(super) fn tune(
    benchmark: &Benchmark,
    system: SystemDescription,
    pool: &PoolView,
    input: &Input<'_>,
) -> Step {
    match node_for(benchmark, pool) {
        Ok(node) => {
            let request = PredictRequest {
                system,
                layout: benchmark.layout,
                node: node.clone(),
                cpu_millicores: None,
                gromacs_version: input.row.system.gromacs_version.clone(),
                build: input.row.build(),
            };
            act(Action::Predict(Box::new(request)), input.row)
        }
        Err(reason) => fail(input, reason),
    }
}

/// Why no node of the pool will do, before anything is made for it; none if one does, or if the pool shows no nodes now.
pub(super) fn refused_by_nodes(input: &Input<'_>) -> Option<String> {
    let benchmark = input.row.benchmark()?;
    let pool = input.pool().filter(|pool| !pool.nodes.is_empty())?;
    node_for(&benchmark, pool).err()
}

/// The node with the most memory of those that it can run on, which must be of one kind.
fn node_for<'a>(benchmark: &Benchmark, pool: &'a PoolView) -> Result<&'a NodeShape, String> {
    let labels = shown(&benchmark.node_labels);
    let shapes = pool.nodes.iter().map(|node| &node.shape);
    let about: Vec<&NodeShape> = shapes.filter(|node| benchmark.is_about(node)).collect();
    if about.is_empty() {
        return Err(format!(
            "no node of the ScavengerPool \"default\" has the labels {labels}; add a calibration with labels that its \
             status.nodeShapes lists"
        ));
    }
    let wanted = Resources {
        cpu_millicores: benchmark.cpu_millicores(),
        memory_bytes: 0,
        gpus: benchmark.layout.gpus,
    };
    let roomy: Vec<&NodeShape> =
        about.iter().copied().filter(|node| wanted.fits_in(&node.allocatable)).collect();
    let class = |node: &&NodeShape| class_of_labels(&node.labels, benchmark.layout.gpus);
    // One of each class; what else differs between nodes does not matter.
    let kinds: BTreeMap<String, &BTreeMap<String, String>> =
        roomy.iter().map(|node| (class(node), &node.labels)).collect();
    if kinds.len() > 1 {
        return Err(format!(
            "nodes of {} kinds can run it, and what it measures would tell of none of them; add a calibration with \
             labels that only one kind has: {}",
            kinds.len(),
            kinds.into_values().map(shown).collect::<Vec<_>>().join(" or ")
        ));
    }
    roomy.into_iter().max_by_key(|node| node.allocatable.memory_bytes).ok_or_else(|| {
        let largest = about.iter().map(|node| node.allocatable).max_by_key(|offer| offer.cpu_millicores);
        format!(
            "it takes {}, and the nodes that it is about offer {}",
            describe(wanted),
            largest.map_or_else(|| "nothing".to_owned(), describe)
        )
    })
}

fn shown(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return "(none)".to_owned();
    }
    pairs(labels).join(",")
}
