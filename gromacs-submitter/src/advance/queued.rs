//! A row before its turn: nothing of an earlier submission may be left when it begins.

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, Kind, RowStatus, State};

use super::next::{cancelled, delete_and_wait, fail};
use super::seen::{Input, Needs};
use super::step::{Action, Step, act, record, settle_until};
use crate::grompp_options;
use crate::manifest::{Probe, RowNames, own_copy};
use crate::mdrun_options::MdrunOptions;

/// A row that was never submitted has left nothing.
pub(super) fn needs(row: &GromacsToTune, _now: Timestamp) -> Needs {
    if row.status.submission > 1 {
        Needs { previous: true, ..Needs::probe(Probe::Inspection) }
    } else {
        Needs::default()
    }
}

pub(super) fn queued(input: &Input<'_>) -> Step {
    let row = input.row;
    // One ScavengerJob at a time: the one before must be gone, and its pods with it (its finalizer sees to that).
    if let Some(previous) = input.seen.previous.as_ref().filter(|previous| previous.ours) {
        let submission = row.status.submission - 1;
        let reason = format!("waits until {} and its pods are gone", RowNames::of(row).previous());
        return delete_and_wait(
            Action::DeleteJob { submission, uid: previous.uid.clone() },
            previous,
            reason,
            input,
        );
    }
    // Nobody reads it any more, and its name is of that submission: it need not be gone.
    if let Some(probe) = input.seen.previous_probe.as_ref().filter(|probe| probe.ours && !probe.deleting) {
        let submission = row.status.submission - 1;
        return act(Action::DeleteVerification { submission, uid: probe.uid.clone() }, row);
    }
    if let Some(probe) = input.probe().filter(|probe| probe.ours) {
        let reason = format!("waits until {} is gone", RowNames::of(row).probe(Probe::Inspection));
        return delete_and_wait(Action::DeleteProbe(Probe::Inspection), probe, reason, input);
    }
    if row.cancel_requested {
        return cancelled(input);
    }
    if let Some(time) = row.status.private.not_before.filter(|time| *time > input.now) {
        return settle_until(row.status.clone(), None, time);
    }
    if let Err(error) = MdrunOptions::of_row(&row.mdrun_options, row.simulations(), row.engine) {
        let advice = "change mdrun_options (gromacs-submitter edit), and retry";
        return fail(input, format!("{error}; {advice}"));
    }
    if let Err(error) = grompp_options::of_row(&row.grompp_options, &row.after) {
        return fail(input, format!("{error}; change it (gromacs-submitter edit --grompp), and retry"));
    }
    if let Err(error) = grompp_options::check_settings(&row.mdp_options) {
        return fail(input, format!("{error}; change it (gromacs-submitter edit --mdp), and retry"));
    }
    // The box of a calibration that is tried again is made again: nobody promised to keep it.
    // An earlier version inspected without making the copy that the row runs, which is made up for.
    let is_ready = own_copy(row).is_some() && row.kind == Kind::Simulation && !row.status.inspect_again;
    let state = if is_ready { State::Tuning } else { State::Inspecting };
    record(RowStatus { state, reason: None, ..row.status.clone() })
}
