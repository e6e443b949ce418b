//! The tuner is asked for configurations.

use jiff::Timestamp;
use scavenger_schema::simulation::GromacsToTune;

use super::next::{cancel_probe, fail};
use super::seen::{Details, Input, Needs, Seen};
use super::step::{Action, Step, act, settle};
use super::words::{NO_POOL, no_nodes};
use super::{calibration, ladder};
use crate::manifest::Probe;

pub(super) fn needs(_row: &GromacsToTune, _now: Timestamp) -> Needs {
    Needs::probe(Probe::Inspection)
}

pub(super) fn details(_row: &GromacsToTune, _seen: &Seen) -> Details {
    Details { pool: true, ..Details::default() }
}

pub(super) fn tuning(input: &Input<'_>) -> Step {
    let row = input.row;
    if row.cancel_requested {
        return cancel_probe(Probe::Inspection, input);
    }
    // What it found is recorded, so it is not needed any more.
    if input.probe().is_some_and(|probe| probe.ours && !probe.deleting) {
        return act(Action::DeleteProbe(Probe::Inspection), row);
    }
    let Some(pool) = input.pool() else {
        return settle(row.status.clone(), Some(NO_POOL.to_owned()), input);
    };
    if pool.nodes.is_empty() {
        let reason = no_nodes(row);
        return settle(row.status.clone(), Some(reason), input);
    }
    if let Some(reason) = ladder::refused_by_pool(row, pool) {
        return fail(input, reason);
    }
    match (row.description(), row.benchmark()) {
        (Some(system), Some(benchmark)) => calibration::tune(&benchmark, system, pool, input),
        (Some(system), None) => act(Action::AskTuner(Box::new(system)), row),
        (None, _) => {
            let reason = "the number of atoms is not known; set atoms of the row, and retry";
            fail(input, reason.to_owned())
        }
    }
}
