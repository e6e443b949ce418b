//! The shapes of the pool's nodes: what its status tells of 10,000 nodes in an object that etcd takes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, btree_map::Entry},
};

use scavenger_planner::{
    report::PoolReport,
    resources::{CPU, MEMORY, PODS, Resources, is_in_bytes},
    values::Name,
};
use scavenger_schema::{hardware::is_told_by, scavenger_pool::NodeShape};

use crate::pool::{count, quantities};

/// Shapes that are told, those of most nodes: each may have some kB of labels, and an object 1.5 MiB.
const MOST: usize = 200;

/// Leading binary digits of an amount in bytes in which nodes of one shape agree. Nodes of one kind differ by what
/// firmware and kernel keep for themselves, mostly by less than a thousandth.
const DIGITS: u32 = 5;

/// What nodes of one shape have in common; last whether devices are free on them. Cores that are free on a node without a
/// free device would otherwise not be told beside a node with free devices and few cores.
type Kind = (Resources, BTreeMap<Name, Name>, bool);

/// Nodes of one kind.
struct Shape {
    count: usize,
    /// What each of them has.
    allocatable: Resources,
    /// What is free on the one with the most room.
    free: Resources,
}

/// Nodes with about equal allocatable resources and equal hardware labels, in a fixed order.
pub(crate) fn of(pool: &PoolReport<'_>) -> Vec<NodeShape> {
    told(grouped(pool.nodes.iter().map(|node| (node.allocatable, node.labels, node.free.clone()))))
}

fn grouped<'a>(
    nodes: impl Iterator<Item = (&'a Resources, &'a BTreeMap<Name, Name>, Resources)>,
) -> BTreeMap<Kind, Shape> {
    let mut shapes = BTreeMap::new();
    for (allocatable, labels, free) in nodes {
        let labels = labels.iter().filter(|(key, _)| is_told_by(key));
        let labels = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
        match shapes.entry((rounded(allocatable), labels, devices(&free) > 0)) {
            Entry::Vacant(shape) => {
                shape.insert(Shape { count: 1, allocatable: allocatable.clone(), free });
            }
            Entry::Occupied(mut shape) => {
                let shape = shape.get_mut();
                shape.count += 1;
                shape.allocatable = smaller(&shape.allocatable, allocatable);
                if room(&free) > room(&shape.free) {
                    shape.free = free;
                }
            }
        }
    }
    shapes
}

fn told(shapes: BTreeMap<Kind, Shape>) -> Vec<NodeShape> {
    let mut by_count: Vec<_> = shapes.into_iter().collect();
    // Stable: those of as many nodes stay in their order.
    by_count.sort_by_key(|(_, shape)| Reverse(shape.count));
    by_count.truncate(MOST);
    by_count.sort_by(|(one, _), (other, _)| one.cmp(other));
    by_count
        .into_iter()
        .map(|((_, labels, _), shape)| NodeShape {
            count: count(shape.count),
            labels: labels.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            allocatable: quantities(&shape.allocatable),
            largest_free: quantities(&shape.free),
        })
        .collect()
}

/// Which of two nodes has more room: more devices, then more cores, then more memory. What is told is free on one node,
/// not the cores of one beside the memory of another.
fn room(free: &Resources) -> (i64, i64, i64) {
    (devices(free), free.get(CPU), free.get(MEMORY))
}

fn devices(free: &Resources) -> i64 {
    let is_device = |name: &str| name != CPU && name != PODS && !is_in_bytes(name);
    free.iter().filter(|(name, _)| is_device(name)).map(|(_, amount)| amount).sum()
}

fn rounded(resources: &Resources) -> Resources {
    resources.map(|name, amount| if is_in_bytes(name) { leading(amount) } else { amount })
}

/// The amount with all but its first binary digits 0.
fn leading(amount: i64) -> i64 {
    let rest = (i64::BITS - amount.max(0).leading_zeros()).saturating_sub(DIGITS);
    amount >> rest << rest
}

fn smaller(one: &Resources, other: &Resources) -> Resources {
    one.map(|name, amount| amount.min(other.get(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(cpu: i64, memory: i64, gpus: i64) -> Resources {
        let other = BTreeMap::from([("nvidia.com/gpu".into(), gpus)]);
        Resources { cpu_milli: cpu, memory_bytes: memory, pods: 110, other }
    }

    fn shapes(nodes: &[(Resources, &str, Resources)]) -> Vec<NodeShape> {
        let labels: Vec<BTreeMap<Name, Name>> = nodes
            .iter()
            .map(|(_, kind, _)| BTreeMap::from([("node.kubernetes.io/instance-type".into(), (*kind).into())]))
            .collect();
        told(grouped(
            nodes
                .iter()
                .zip(&labels)
                .map(|((allocatable, _, free), labels)| (allocatable, labels, free.clone())),
        ))
    }

    #[test]
    fn labels_that_differ_between_equal_nodes_make_no_shapes() {
        let label = |name: &str, value: &str| (Name::from(name), Name::from(value));
        let node = |kernel: &str, product: &str| {
            BTreeMap::from([
                label("feature.node.kubernetes.io/kernel-version.full", kernel),
                label("kubernetes.io/hostname", kernel),
                label("nvidia.com/gfd.timestamp", kernel),
                label("cloud.google.com/gke-accelerator", product),
                label("kubernetes.io/arch", "amd64"),
            ])
        };
        let nodes = [node("6.1", "nvidia-l4"), node("6.8", "nvidia-l4"), node("6.8", "nvidia-tesla-t4")];
        let resources = resources(8000, 64 << 30, 1);
        let found = told(grouped(nodes.iter().map(|labels| (&resources, labels, resources.clone()))));
        let kinds: Vec<(i32, &str)> = found
            .iter()
            .map(|shape| (shape.count, shape.labels["cloud.google.com/gke-accelerator"].as_str()))
            .collect();
        assert_eq!(kinds, [(2, "nvidia-l4"), (1, "nvidia-tesla-t4")]);
        assert_eq!(found[0].labels.len(), 2, "{:?}", found[0].labels);
    }

    #[test]
    fn nodes_of_one_kind_are_one_shape_and_the_smallest_is_told() {
        let gib = 1 << 30;
        let node = |less: i64| resources(8000, 61 * gib - less, 0);
        let found = shapes(&[
            (node(0), "a", resources(1000, gib, 0)),
            (node(70 << 20), "a", resources(2000, gib, 0)),
            (node(0), "b", resources(0, 0, 0)),
            (resources(8000, 30 * gib, 0), "a", resources(0, 0, 0)),
        ]);
        assert_eq!(found.iter().map(|shape| shape.count).sum::<i32>(), 4);
        let shape = found.iter().find(|shape| shape.count == 2).expect("two should be of one kind");
        assert_eq!(shape.allocatable["memory"].0, format!("{}Mi", 61 * 1024 - 70));
        assert_eq!(shape.largest_free["cpu"].0, "2");
    }

    #[test]
    fn what_is_free_is_free_on_one_node() {
        let node = resources(8000, 64 << 30, 2);
        let free = |cpu, memory, gpus| (node.clone(), "a", resources(cpu, memory, gpus));
        let found =
            shapes(&[free(8000, 0, 0), free(0, 64 << 30, 0), free(2000, 8 << 30, 1), free(7000, 1 << 30, 1)]);
        let told: Vec<_> = found
            .iter()
            .map(|shape| {
                let free = ["nvidia.com/gpu", "cpu", "memory"].map(|name| &*shape.largest_free[name].0);
                (shape.count, free)
            })
            .collect();
        // Cores without a GPU are told beside GPUs with few cores.
        assert_eq!(told, [(2, ["0", "8", "0"]), (2, ["1", "7", "1Gi"])]);
    }

    #[test]
    fn ten_thousand_nodes_make_few_shapes_and_the_most_plentiful_are_told() {
        // As large as is usual, each short by something else.
        let nodes: Vec<_> = (0..10_000)
            .map(|number| {
                let memory = (250 << 30) - (number % 977) * 4096;
                (resources(64_000, memory, 0), "a", resources(0, 0, 0))
            })
            .collect();
        assert_eq!(shapes(&nodes).len(), 1);
        let names: Vec<String> = (0..1000).map(|number| format!("kind{number}")).collect();
        let mut nodes: Vec<_> = names
            .iter()
            .map(|name| (resources(1000, 1 << 30, 0), name.as_str(), resources(0, 0, 0)))
            .collect();
        nodes.push((resources(1000, 1 << 30, 0), "kind999", resources(0, 0, 0)));
        let found = shapes(&nodes);
        assert_eq!(found.len(), MOST);
        assert!(found.iter().any(|shape| shape.count == 2));
    }

    #[test]
    fn amounts_are_rounded_down() {
        assert_eq!([0, 1, 31, 32, 33, 1000].map(leading), [0, 1, 31, 32, 32, 992]);
    }
}
