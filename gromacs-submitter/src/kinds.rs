//! Configurations for one kind of node.
//!
//! The tuner predicts for the slowest hardware that may run a configuration. Where a pool has another kind that is much
//! faster, the same configuration stands on the ladder a second time, above: bound to nodes of that kind, with what is
//! predicted there. The one that may run anywhere stays, so no row waits for one kind alone.

use std::collections::{BTreeMap, BTreeSet};

use scavenger_schema::tuning::{HardwareSpeed, NodeShape, Rung};
use scavenger_tuner_model::hardware::class_of_labels;
use scavenger_vocabulary::hardware as label;

/// So much faster than anywhere a kind of node must be: less is within what predictions are wrong by.
const WORTH_A_CONFIGURATION: f64 = 1.5;

/// Labels that may stand for a kind of node, the one that people know best first. The processor's family and the vector
/// instructions that it has say more together than alone.
const TELLING: [&str; 9] = [
    label::INSTANCE_TYPE,
    label::GPU_PRODUCTS[0],
    label::GPU_PRODUCTS[1],
    label::GPU_PRODUCTS[2],
    label::GPU_PRODUCTS[3],
    label::GPU_PRODUCTS[4],
    label::CPU_MODEL,
    label::CPU_FAMILY,
    label::ARCH,
];

/// A configuration, and the labels of the kind of node that it is bound to; none if it may run anywhere.
pub(crate) type Bound = (Rung, BTreeMap<String, String>);

/// The ladder, fastest first, with a second configuration where one kind of node is much faster than the slowest, as long as
/// there are no more than `most` in all: the fastest are bound first.
pub(crate) fn bound(rungs: Vec<Rung>, nodes: &[NodeShape], most: usize) -> Vec<Bound> {
    let more = most.saturating_sub(rungs.len());
    let mut ladder: Vec<Bound> = rungs.iter().filter_map(|rung| on_fastest(rung, nodes)).take(more).collect();
    ladder.extend(rungs.into_iter().map(|rung| (rung, BTreeMap::new())));
    // Stable: of two that are as fast the one for one kind comes first, and only while that kind has capacity.
    ladder.sort_by(|(one, _), (other, _)| other.ns_per_day.p50.total_cmp(&one.ns_per_day.p50));
    ladder
}

fn on_fastest(rung: &Rung, nodes: &[NodeShape]) -> Option<Bound> {
    let speed = |kind: &&HardwareSpeed| kind.ns_per_day.p50;
    let fastest = rung.on_hardware.iter().max_by(|one, other| speed(one).total_cmp(&speed(other)))?;
    let times = fastest.ns_per_day.p50 / rung.ns_per_day.p50;
    if !times.is_finite() || times < WORTH_A_CONFIGURATION {
        return None;
    }
    let labels = labels_of(&fastest.hardware_class, rung, nodes)?;
    let mut holding = nodes.iter().filter(|node| has(node, &labels));
    let fits_now =
        holding.any(|node| rung.resources.fits_in(node.largest_free.as_ref().unwrap_or(&node.allocatable)));
    let bound = Rung {
        ns_per_day: fastest.ns_per_day,
        hours_to_finish: rung.hours_to_finish.map(|hours| hours / times),
        hardware_class: fastest.hardware_class.clone(),
        on_hardware: Vec::new(),
        fits_now,
        reason: format!(
            "{times:.1} times as fast on {} as on {}: on nodes of that kind alone",
            fastest.hardware_class, rung.hardware_class
        ),
        ..rung.clone()
    };
    Some((bound, labels))
}

fn has(node: &NodeShape, labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(name, value)| node.labels.get(name) == Some(value))
}

/// A label that nodes of the class have that can hold the configuration, most of them, and others that can hold it have
/// not. None if no label tells them apart: then nothing is bound.
fn labels_of(class: &str, rung: &Rung, nodes: &[NodeShape]) -> Option<BTreeMap<String, String>> {
    let gpus = rung.resources.gpus;
    let (of_class, others): (Vec<&NodeShape>, Vec<&NodeShape>) = nodes
        .iter()
        .filter(|node| rung.resources.fits_in(&node.allocatable))
        .partition(|node| class_of_labels(&node.labels, gpus) == class);
    let values: BTreeSet<(usize, &String)> = of_class
        .iter()
        .flat_map(|node| {
            let telling = TELLING.iter().enumerate();
            telling.filter_map(|(order, name)| Some((order, node.labels.get(*name)?)))
        })
        .collect();
    let has_it =
        |node: &&&NodeShape, order: usize, value: &String| node.labels.get(TELLING[order]) == Some(value);
    values
        .into_iter()
        .filter(|(order, value)| !others.iter().any(|node| has_it(&node, *order, value)))
        .min_by_key(|(order, value)| {
            let count: u32 =
                of_class.iter().filter(|node| has_it(node, *order, value)).map(|node| node.count).sum();
            (std::cmp::Reverse(count), *order)
        })
        .map(|(order, value)| BTreeMap::from([(TELLING[order].to_owned(), value.clone())]))
}

#[cfg(test)]
mod tests {
    use scavenger_schema::tuning::{Interval, Layout, Resources};

    use super::*;

    const TYPE: &str = label::INSTANCE_TYPE;

    fn node(count: u32, cores: u32, free: u32, labels: &[(&str, &str)]) -> NodeShape {
        let offers = |cores: u32| Resources { cpu_millicores: cores * 1000, memory_bytes: 16 << 30, gpus: 0 };
        NodeShape {
            count,
            allocatable: offers(cores),
            largest_free: Some(offers(free)),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    fn speed(p50: f64) -> Interval {
        Interval { p10: p50 * 0.8, p50, p90: p50 * 1.2 }
    }

    fn rung(cores: u32, p50: f64, on_hardware: &[(&str, f64)]) -> Rung {
        let speeds = on_hardware.iter().map(|(class, p50)| HardwareSpeed {
            hardware_class: (*class).to_owned(),
            ns_per_day: speed(*p50),
        });
        Rung {
            resources: Resources { cpu_millicores: cores * 1000, memory_bytes: 1 << 28, gpus: 0 },
            layout: Layout::cpu(1, cores),
            ns_per_day: speed(p50),
            hours_to_finish: Some(10.0),
            efficiency: 1.0,
            memory_bytes: 1 << 27,
            hardware_class: "skylake-sp".to_owned(),
            on_hardware: speeds.collect(),
            fits_now: true,
            wait_seconds: None,
            alternative: None,
            reason: "largest that pays".to_owned(),
        }
    }

    /// Cores, speed and labels of each configuration.
    fn told(ladder: &[Bound]) -> Vec<(u32, f64, Vec<&str>)> {
        let values = |labels| BTreeMap::<String, String>::values(labels).map(String::as_str).collect();
        ladder
            .iter()
            .map(|(rung, labels)| (rung.resources.cpu_millicores / 1000, rung.ns_per_day.p50, values(labels)))
            .collect()
    }

    #[test]
    fn a_kind_that_is_much_faster_gets_a_configuration_of_its_own_above_that_for_all() {
        let nodes = [node(4, 16, 8, &[(TYPE, "c6a.4xlarge")]), node(9, 16, 16, &[(TYPE, "m5.4xlarge")])];
        let rungs = vec![
            rung(16, 50.0, &[("zen3", 100.0), ("skylake-sp", 50.0)]),
            rung(8, 30.0, &[("zen3", 60.0), ("skylake-sp", 30.0)]),
            // Close to each other, and the same anywhere.
            rung(2, 10.0, &[("zen3", 12.0), ("skylake-sp", 10.0)]),
            rung(1, 6.0, &[]),
        ];
        assert_eq!(
            told(&bound(rungs.clone(), &nodes, 5))[1],
            (16, 50.0, vec![]),
            "no more than are asked for"
        );
        let ladder = bound(rungs, &nodes, 12);
        let zen = || vec!["c6a.4xlarge"];
        assert_eq!(
            told(&ladder),
            [
                (16, 100.0, zen()),
                (8, 60.0, zen()),
                (16, 50.0, vec![]),
                (8, 30.0, vec![]),
                (2, 10.0, vec![]),
                (1, 6.0, vec![])
            ]
        );
        assert_eq!(
            (ladder[0].0.hours_to_finish, ladder[0].0.fits_now),
            (Some(5.0), false),
            "8 cores are free there"
        );
        assert!(ladder[1].0.fits_now);
        assert_eq!(ladder[0].0.hardware_class, "zen3");
        assert_eq!(
            ladder[0].0.reason,
            "2.0 times as fast on zen3 as on skylake-sp: on nodes of that kind alone"
        );
    }

    #[test]
    fn the_label_is_one_that_no_other_kind_has_and_most_nodes_of_this_one_do() {
        let wanted = || rung(8, 50.0, &[("zen3", 100.0), ("skylake-sp", 50.0)]);
        let arch = ("kubernetes.io/arch", "amd64");
        let label = |nodes: &[NodeShape]| told(&bound(vec![wanted()], nodes, 12))[0].2.join(" ");
        let large = node(2, 32, 32, &[arch, (TYPE, "c6a.8xlarge")]);
        let small = node(7, 16, 16, &[arch, (TYPE, "c6a.4xlarge")]);
        let other = node(1, 16, 16, &[arch, (TYPE, "m5.4xlarge")]);
        assert_eq!(label(&[large.clone(), small.clone(), other.clone()]), "c6a.4xlarge");
        // What is too small for it does not matter.
        assert_eq!(
            label(&[large.clone(), NodeShape { allocatable: Resources::default(), ..small }, other]),
            "c6a.8xlarge"
        );
        // Nothing tells them apart: it stays as it is.
        let nodes = [node(1, 16, 16, &[arch]), node(1, 16, 16, &[arch])];
        assert_eq!(told(&bound(vec![wanted()], &nodes, 12)), [(8, 50.0, vec![])]);
        let family = [
            node(
                1,
                16,
                16,
                &[(label::CPU_VENDOR, "AMD"), (label::CPU_FAMILY, "25"), (label::CPU_MODEL, "1")],
            ),
            node(
                1,
                16,
                16,
                &[(label::CPU_VENDOR, "Intel"), (label::CPU_FAMILY, "6"), (label::CPU_MODEL, "85")],
            ),
        ];
        assert_eq!(told(&bound(vec![wanted()], &family, 12))[0].2, ["1"], "the model");
    }
}
