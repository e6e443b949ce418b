//! Kinds of nodes whose processor lacks what the image's GROMACS needs: the row goes to another kind.

use std::collections::BTreeMap;

use scavenger_schema::simulation::LadderRung;
use scavenger_vocabulary::hardware::{GPU_CLIENTS, GPU_PARTITION, GPU_PRODUCTS, GPU_REPLICAS};

use crate::faults::{Failure, Meaning};
use crate::view::{PoolNode, PoolView};

type Labels = BTreeMap<String, String>;

/// How many nodes these are.
pub(super) fn count(nodes: &[PoolNode]) -> usize {
    nodes.iter().map(|node| node.count as usize).sum()
}

/// How many of the pool's nodes have a GPU.
#[must_use]
pub fn count_gpus(pool: Option<&PoolView>) -> usize {
    let nodes = pool.map(|pool| pool.nodes.as_slice()).unwrap_or_default();
    nodes.iter().filter(|node| node.allocatable.gpus > 0).map(|node| node.count as usize).sum()
}

/// The label that most nodes have of those on which the row's `image` may run, and none of those on which it ended for lack of an
/// instruction: where `now` has just told so, or `failures` did before. None if it ran everywhere, or if nothing distinguishes
/// them.
#[must_use]
pub fn other_kind(
    nodes: &[PoolNode],
    now: Option<&Labels>,
    failures: &[Failure],
    image: Option<&str>,
) -> Option<(String, String)> {
    let lacks =
        |failure: &&Failure| failure.image.as_deref() == image && failure.meaning() == Meaning::Processor;
    let before = failures.iter().filter(lacks).filter_map(|failure| Some(&failure.node_labels.as_ref()?.0));
    let unfit: Vec<&Labels> = now.into_iter().chain(before).collect();
    if unfit.is_empty() {
        return None;
    }
    let mut leads: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for node in nodes {
        for (name, value) in node.labels.iter().filter(|(name, _)| is_of_processor(name)) {
            if unfit.iter().all(|labels| labels.get(name) != Some(value)) {
                *leads.entry((name, value)).or_default() += node.count;
            }
        }
    }
    let best = leads.into_iter().rev().max_by_key(|(_, count)| *count);
    best.map(|((name, value), _)| (name.to_owned(), value.to_owned()))
}

/// Of equal nodes one may have a GPU.
fn is_of_processor(label: &str) -> bool {
    !GPU_PRODUCTS.contains(&label) && ![GPU_REPLICAS, GPU_PARTITION, GPU_CLIENTS].contains(&label)
}

/// The pool with the nodes alone that have a label.
#[must_use]
pub fn with_label(pool: &PoolView, (name, value): &(String, String)) -> PoolView {
    let mut pool = pool.clone();
    pool.nodes.retain(|node| node.labels.get(name) == Some(value));
    pool
}

/// The configurations, bound to the nodes that have a label.
#[must_use]
pub fn bound_to((name, value): &(String, String), mut ladder: Vec<LadderRung>) -> Vec<LadderRung> {
    for rung in &mut ladder {
        rung.node_labels.0.insert(name.clone(), value.clone());
    }
    ladder
}
