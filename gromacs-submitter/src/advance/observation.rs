//! What the tuner learns from an attempt: how fast it was, how much memory it took, and on which hardware.

use std::collections::BTreeMap;

use scavenger_schema::simulation::LadderRung;
use scavenger_schema::tuning::SystemDescription;
use scavenger_tuner_model::hardware::class_of_labels;
use scavenger_vocabulary::Reason;

use super::attempt::{AttemptRecord, Measurement};
use super::seen::Input;
use crate::probe::file_system;
use crate::view::AttemptView;

/// A shorter run measures start-up. How much weight a short one has is the tuner's business: it sees the wall time.
const SHORTEST_MEASUREMENT_SECONDS: f64 = 1.0;

/// Share of the limit from which on a peak may be page cache that fills what there is. It says nothing then: what a run
/// needs more than its limit, the kernel tells by killing it.
const MAY_BE_CACHE: f64 = 0.95;

/// A measured run, from which the tuner learns.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The attempt.
    pub attempt: i32,
    /// The system.
    pub system: SystemDescription,
    /// The configuration it ran with.
    pub rung: i32,
    /// On what it ran; none if nobody knows.
    pub place: Option<Place>,
    /// What it measured; none if only its memory is known.
    pub measured: Option<Measurement>,
    /// Most memory it was seen to use, bytes, or its limit.
    pub peak_memory_bytes: Option<i64>,
    /// True if it was killed for using more than that.
    pub killed_for_memory: bool,
}

/// On what an attempt ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The node; none if it was one of several of the same class.
    pub node: Option<String>,
    /// Labels of the node that tell which hardware it is.
    pub labels: BTreeMap<String, String>,
    /// The class of its hardware.
    pub class: String,
    /// CPU of the node for pods, millicores.
    pub cpu_millicores: Option<i32>,
    /// CPU that all pods on it requested when the attempt began to run, millicores.
    pub requested_millicores: Option<i32>,
}

impl Place {
    /// Where an attempt ran, as the operator wrote it down.
    #[must_use]
    pub fn of(attempt: &AttemptView) -> Option<Self> {
        let node = attempt.node.as_ref()?;
        let gpus = attempt.gpus.and_then(|gpus| gpus.try_into().ok()).unwrap_or(0);
        Some(Self {
            node: Some(node.name.clone()),
            labels: node.labels.clone(),
            class: class_of_labels(&node.labels, gpus),
            cpu_millicores: node.cpu_millicores,
            requested_millicores: node.requested_millicores,
        })
    }
}

/// What the tuner learns from an attempt, if that measured anything.
pub(super) fn of_attempt(attempt: &AttemptRecord, input: &Input<'_>) -> Option<Observation> {
    // The tuner predicts single simulations: one beside others of its kind is slower, and has the memory of all.
    if input.row.is_multidir() {
        return None;
    }
    // The tuner knows no options, so what was measured with them is not what it predicts.
    let measured = attempt
        .measured
        .filter(|it| it.wall_seconds >= SHORTEST_MEASUREMENT_SECONDS && input.row.mdrun_options.is_empty());
    let limit = attempt.view.memory_bytes.unwrap_or(i64::MAX);
    let killed_for_memory = attempt.view.reason == Some(Reason::OOMKilled)
        && attempt.peak_memory_bytes.is_some_and(|peak| peak >= limit);
    let is_need = |peak: &i64| killed_for_memory || (*peak as f64) < limit as f64 * MAY_BE_CACHE;
    let peak_memory_bytes = attempt.peak_memory_bytes.filter(is_need);
    if measured.is_none() && !killed_for_memory {
        return None;
    }
    let rung = input.ladder().iter().find(|rung| Some(rung.rung) == attempt.view.rung)?;
    Some(Observation {
        attempt: attempt.view.number,
        system: input.row.describe(&file_system(input.row)).or_else(|| input.row.description())?,
        rung: rung.rung,
        place: Place::of(&attempt.view).or_else(|| common_place(rung, input)),
        // A kill says nothing of speed.
        measured: measured.filter(|_| !killed_for_memory),
        peak_memory_bytes,
        killed_for_memory,
    })
}

/// The place of an attempt whose node nobody wrote down: what the nodes that can run `rung` have in common, if these are
/// of one class.
fn common_place(rung: &LadderRung, input: &Input<'_>) -> Option<Place> {
    let benchmark = input.row.benchmark();
    let gpus = rung.resources().gpus;
    let nodes = input.pool().map(|pool| pool.nodes.as_slice()).unwrap_or_default();
    let mut places = nodes
        .iter()
        .filter(|node| benchmark.as_ref().is_none_or(|benchmark| benchmark.is_about(node)))
        .filter(|node| rung.may_run_on(node) && rung.resources().fits_in(&node.allocatable))
        .map(|node| Place {
            node: None,
            labels: node.labels.clone(),
            class: class_of_labels(&node.labels, gpus),
            cpu_millicores: None,
            requested_millicores: None,
        });
    places.next().filter(|first| places.all(|place| place.class == first.class))
}
