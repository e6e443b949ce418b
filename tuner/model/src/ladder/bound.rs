//! Configurations for one kind of node.
//!
//! A candidate is predicted on the slowest hardware that holds it. A kind of node that is much faster would have no line
//! then, unless its nodes are the larger ones. So the same amounts are looked at on that kind alone, as far as a label
//! binds a pod to it. What may run anywhere stays, so nobody waits for one kind of node alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use scavenger_schema::hardware as label;
use scavenger_schema::tuning::{Alternative, NodeShape};

use super::candidates::{Candidate, Kind, Question, price_on};
use crate::hardware::Hardware;

/// So much faster than anywhere a kind of node must be: less is within what predictions are wrong by.
const WORTH_A_LINE: f64 = 1.5;

/// Labels that may stand for a kind of node, the one that people know best first. The processor's family and the vector
/// instructions that it has say more together than alone.
pub(super) fn telling() -> impl Iterator<Item = &'static str> {
    let of_cpus = [label::CPU_MODEL, label::CPU_FAMILY, label::ARCH];
    [label::INSTANCE_TYPE].into_iter().chain(label::GPU_PRODUCTS).chain(of_cpus)
}

/// Why a candidate is for one kind of node alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    /// The slowest hardware that holds as much.
    pub(crate) than: Hardware,
    /// How many times as fast this one is.
    pub(crate) times: f64,
}

/// The same amounts and layouts as those that may run anywhere, for each kind of node that is much faster.
pub(crate) fn on_faster_kinds(question: &Question<'_>, anywhere: &[Candidate]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for candidate in anywhere {
        for (hardware, speed) in &candidate.on {
            let times = speed / candidate.speed;
            if !times.is_finite() || times < WORTH_A_LINE {
                continue;
            }
            let alternative = candidate.alternative;
            let cpu_millicores = candidate.resources.cpu_millicores;
            let &Question { model, job, .. } = question;
            let bound = Candidate {
                speed: *speed,
                alone: model.speed_alone(job, hardware, &candidate.layout, cpu_millicores),
                slowest: *hardware,
                bound: Some(Bound { than: candidate.slowest, times }),
                on: Vec::new(),
                price: price_on(hardware, &candidate.resources, &question.limits.weights),
                alternative: alternative.map(|one| Alternative { ns_per_day: one.ns_per_day * times, ..one }),
                ..candidate.clone()
            };
            if has_label(question, &bound) {
                found.push(bound);
            }
        }
    }
    found
}

/// The label to which a bound candidate is bound, and its value.
pub(crate) fn label_of<'a>(
    question: &Question<'a>,
    candidate: &Candidate,
) -> Option<(&'static str, &'a str)> {
    labels(question, candidate).of(candidate)
}

/// True if a label binds a candidate to the hardware that it is predicted on.
fn has_label(question: &Question<'_>, candidate: &Candidate) -> bool {
    labels(question, candidate).has(candidate)
}

fn labels<'q, 'a>(question: &'q Question<'a>, candidate: &Candidate) -> &'q Labels<'a> {
    let on_gpus = candidate.resources.gpus > 0;
    question.labels[usize::from(on_gpus)].get_or_init(|| Labels::new(question.kinds, on_gpus))
}

/// Nodes that have a value of a label.
struct Having<'n> {
    /// Place in the order of labels, name and value.
    label: (usize, &'static str, &'n str),
    nodes: Vec<&'n NodeShape>,
}

/// The labels that no node of another kind has, by kind of node.
pub(crate) struct Labels<'n>(Vec<(Hardware, Vec<Having<'n>>)>);

impl<'n> Labels<'n> {
    /// Of the nodes that could hold a configuration with or without GPUs.
    fn new(kinds: &'n [Kind<'n>], on_gpus: bool) -> Self {
        // The hardware of all nodes that have a label; none if it is of several kinds.
        let mut values: BTreeMap<_, (Option<Hardware>, Vec<&NodeShape>)> = BTreeMap::new();
        for kind in kinds.iter().filter(|kind| !on_gpus || kind.hardware.gpu.is_some()) {
            let hardware = Hardware { gpu: kind.hardware.gpu.filter(|_| on_gpus), ..kind.hardware };
            for node in kind.nodes.iter().filter(|node| node.allocatable.cpu_millicores > 0) {
                for (order, name) in telling().enumerate() {
                    let Some(value) = node.labels.get(name) else { continue };
                    let having = values.entry((order, name, value.as_str()));
                    let (of_kind, nodes) = having.or_insert_with(|| (Some(hardware), Vec::new()));
                    *of_kind = of_kind.filter(|known| *known == hardware);
                    nodes.push(node);
                }
            }
        }
        let mut by_kind: Vec<(Hardware, Vec<Having<'n>>)> = Vec::new();
        for (label, (hardware, nodes)) in values {
            let Some(hardware) = hardware else { continue };
            let having = Having { label, nodes };
            match by_kind.iter_mut().find(|(known, _)| *known == hardware) {
                Some((_, labels)) => labels.push(having),
                None => by_kind.push((hardware, vec![having])),
            }
        }
        Self(by_kind)
    }

    /// The labels of the hardware that a candidate is predicted on.
    fn of_kind(&self, candidate: &Candidate) -> &[Having<'n>] {
        let hardware = Hardware { node_cpus: None, ..candidate.slowest };
        self.0.iter().find(|(known, _)| *known == hardware).map_or(&[], |(_, labels)| labels)
    }

    /// The one that most nodes have of those on which the candidate may run, and no node of another kind has; of several the
    /// one that people know best. None if nothing distinguishes these nodes.
    fn of(&self, candidate: &Candidate) -> Option<(&'static str, &'n str)> {
        let counted = self.of_kind(candidate).iter().map(|Having { label, nodes }| {
            let holding = nodes.iter().filter(|node| candidate.resources.fits_in(&node.allocatable));
            (Reverse(holding.map(|node| u64::from(node.count)).sum::<u64>()), *label)
        });
        let most = counted.filter(|(Reverse(count), _)| *count > 0).min();
        most.map(|(_, (_, name, value))| (name, value))
    }

    /// True if there is one.
    fn has(&self, candidate: &Candidate) -> bool {
        let mut nodes = self.of_kind(candidate).iter().flat_map(|having| &having.nodes);
        nodes.any(|node| node.count > 0 && candidate.resources.fits_in(&node.allocatable))
    }
}
