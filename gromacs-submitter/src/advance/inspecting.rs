//! The .tpr file is read: what its probe says, and what is made of it.

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, Kind, PrivateState, RowStatus, State};
use scavenger_vocabulary::{Phase, Reason};

use super::next::{cancel_probe, fail};
use super::probed::{NO_FILE, answer, passing, probe_failure};
use super::seen::{Details, Input, LogToRead, Needs, Seen, has_ended};
use super::step::{Action, Step, act, record, settle};
use super::words::{NO_POOL, name_taken, no_nodes, said};
use super::{calibration, ladder, tries};
use crate::manifest::{MOST_PROBE_MEMORY, Probe, RowNames, own_copy};
use crate::mdrun_options::MdrunOptions;
use crate::probe::{Change, Inspection, change, parse_inspection, parse_preparation, without_checkpoints};
use crate::view::JobView;

pub(super) fn needs(_row: &GromacsToTune, _now: Timestamp) -> Needs {
    Needs::probe(Probe::Inspection)
}

pub(super) fn details(_row: &GromacsToTune, seen: &Seen) -> Details {
    let probe = seen.probe.as_ref();
    Details {
        log: has_ended(probe).then_some(LogToRead::OfProbe),
        image: probe.is_some_and(|probe| probe.ours && probe.phase == Phase::Completed),
        pool: true,
        ..Details::default()
    }
}

pub(super) fn inspecting(input: &Input<'_>) -> Step {
    let row = input.row;
    if row.cancel_requested {
        return cancel_probe(Probe::Inspection, input);
    }
    if row.kind == Kind::Command && row.inspected.is_some() && !row.status.inspect_again {
        return match input.probe().filter(|probe| probe.ours && !probe.deleting) {
            // What it has done is recorded, so it is not needed any more.
            Some(_) => act(Action::DeleteProbe(Probe::Inspection), row),
            None => record(RowStatus { state: State::Submitted, reason: None, ..row.status.clone() }),
        };
    }
    let Some(probe) = input.probe() else { return begin(input) };
    let name = RowNames::of(row).probe(Probe::Inspection);
    if !probe.ours {
        return fail(input, name_taken(&name, row));
    }
    if probe.deleting {
        return settle(row.status.clone(), Some(format!("waits until {name} is gone")), input);
    }
    let (parse, done) = match row.kind {
        // It has no configurations that the tuner would choose.
        Kind::Command => (parse_preparation as fn(&str) -> _, State::Inspecting),
        Kind::Simulation | Kind::Calibration => (parse_inspection as fn(&str) -> _, State::Tuning),
    };
    match probe.phase {
        Phase::Completed => match answer(probe, input.log(), parse) {
            Ok(inspection) => match contradiction(row, &inspection).or_else(|| changed(row, &inspection)) {
                None => Step {
                    inspection: Some(Inspection { image: input.seen.image.clone(), ..inspection }),
                    ..record(RowStatus {
                        state: done,
                        reason: None,
                        failures: 0,
                        inspect_again: false,
                        ..row.status.clone()
                    })
                },
                Some(reason) => fail(input, reason),
            },
            Err(error) => fail(input, error.to_string()),
        },
        Phase::Failed if probe.failure_reason == Some(Reason::OOMKilled) => {
            inspect_with_more_memory(probe, &name, input)
        }
        Phase::Failed => {
            let what = format!("{} failed", what_it_does(row));
            if let Some((words, meaning)) = passing(probe, input) {
                let what = format!("{what}: {words}");
                let again = tries::again_later(&row.status, &what, input);
                return again.unwrap_or_else(|| fail(input, tries::too_often(&what, meaning, row)));
            }
            fail(input, with_advice_on_chain(row, probe_failure(probe, input, &what)))
        }
        Phase::Waiting | Phase::Starting | Phase::Running | Phase::Interrupted => {
            let does = match row.kind {
                Kind::Simulation if !row.grompp_options.is_empty() => "makes and reads the .tpr file",
                Kind::Simulation => "reads the .tpr file",
                Kind::Calibration => "makes the box of water",
                Kind::Command => "makes the working directory",
            };
            settle(row.status.clone(), Some(format!("{does}: {}", said(probe))), input)
        }
    }
}

/// What the probe does, as the beginning of a message that it failed.
fn what_it_does(row: &GromacsToTune) -> String {
    let file = &row.tpr_path;
    match row.kind {
        Kind::Simulation if row.extended_nsteps.is_some() => format!("extending {file}"),
        Kind::Simulation if !row.grompp_options.is_empty() => format!("making and reading {file}"),
        Kind::Simulation => format!("reading {file}"),
        Kind::Calibration => "making the box of water".to_owned(),
        Kind::Command => "making the working directory".to_owned(),
    }
}

/// Makes the probe, if the pool can take it.
fn begin(input: &Input<'_>) -> Step {
    let row = input.row;
    // Without a pool nothing starts, and the policy that checks ScavengerJobs lets none be made.
    let Some(pool) = input.pool() else {
        return settle(row.status.clone(), Some(NO_POOL.to_owned()), input);
    };
    if let Some(reason) = ladder::refused_by_pool(row, pool) {
        return fail(input, reason);
    }
    if pool.nodes.is_empty() && !row.node_labels.is_empty() {
        return settle(row.status.clone(), Some(no_nodes(row)), input);
    }
    // A box that no node may make would wait forever.
    match calibration::refused_by_nodes(input) {
        Some(reason) => fail(input, reason),
        None => act(Action::CreateProbe(Probe::Inspection), row),
    }
}

/// The file of a row that comes after others is mostly made of what these computed.
fn with_advice_on_chain(row: &GromacsToTune, reason: String) -> String {
    let before: Vec<String> = row.after.iter().map(ToString::to_string).collect();
    if before.is_empty() || !reason.contains(NO_FILE) {
        return reason;
    }
    let rows = if before.len() == 1 { "row" } else { "rows" };
    format!(
        "{reason}; make it of what {rows} {} computed (gmx grompp, or gromacs-submitter edit --grompp), and retry",
        before.join(", ")
    )
}

/// Why the row cannot have what it asks for. What the user gave wins where the tuner only reckons with it; which steps
/// are computed mdrun reads in the file, and its `-nsteps` would begin again after each interruption.
fn contradiction(row: &GromacsToTune, inspection: &Inspection) -> Option<String> {
    if inspection.minimises() && row.checkpoint_path.is_some() {
        return Some(format!(
            "{} minimises an energy, which starts from no checkpoint; add it again without checkpoint_path",
            row.tpr_path
        ));
    }
    if inspection.minimises() && row.is_multidir() {
        return Some(format!(
            "{} minimises an energy, which begins again after each interruption; add each file of multidir as a row of its \
             own",
            row.tpr_path
        ));
    }
    let options = MdrunOptions::read(&row.mdrun_options).unwrap_or_default();
    if let Some(reason) = without_checkpoints(&inspection.values, &options) {
        return Some(reason);
    }
    let (read, found) = (crate::probe::file_system(row), &inspection.system);
    // What an earlier inspection filled in nobody asked for.
    let given = [(row.system.nsteps, read.nsteps), (row.system.init_step, read.init_step)]
        .map(|(column, read)| column.filter(|_| column != read));
    [("nsteps", given[0], found.nsteps), ("init_step", given[1], found.init_step)]
        .into_iter()
        .find(|(_, given, found)| given.is_some() && found.is_some() && given != found)
        .map(|(name, given, found)| {
            let (given, found) = (given.unwrap_or_default(), found.unwrap_or_default());
            format!(
                "{name} of the row is {given}, but {} says {found}, and mdrun computes what the file says; set {name} \
                 of the row to null, or change the file (gmx convert-tpr), and retry",
                row.tpr_path
            )
        })
}

/// Why what was computed does not belong to the file as it is now.
fn changed(row: &GromacsToTune, inspection: &Inspection) -> Option<String> {
    // A minimisation begins again anyway, and grompp made the file where no checkpoint was.
    if row.is_minimisation() || inspection.made {
        return None;
    }
    let computed = row.status.private.checkpoint_step.max(row.status.step).filter(|step| *step > 0)?;
    match change(&row.inspected.as_ref()?.0, &inspection.values) {
        Change::None | Change::Steps => None,
        Change::Other(differ) => Some(format!(
            "{} has changed since it was read{}, and {computed} steps belong to the file as it was; {}, or add the new file \
             under another name",
            row.tpr_path,
            if differ.is_empty() { String::new() } else { format!(" ({})", differ.join(", ")) },
            own_copy(row).map_or_else(
                || "put that back and retry".to_owned(),
                |copy| format!(
                    "move the new one away and retry, to go on with the row's copy of it ({copy})"
                )
            )
        )),
    }
}

/// Killed for lack of memory, the inspection is made again with more, until the row's or the pool's limits are reached.
fn inspect_with_more_memory(probe: &JobView, name: &str, input: &Input<'_>) -> Step {
    let row = input.row;
    let limit = probe.last_attempt().and_then(|attempt| attempt.memory_bytes).unwrap_or(i64::MAX);
    if row.status.private.probe_outgrown_memory_bytes.is_some_and(|outgrown| outgrown >= limit) {
        return act(Action::DeleteProbe(Probe::Inspection), row);
    }
    let own = row.limits().max_memory_bytes;
    let of_pool = input.pool().and_then(|pool| pool.limits.max_memory_bytes);
    let most = own.into_iter().chain(of_pool).chain([MOST_PROBE_MEMORY]).min().unwrap_or(MOST_PROBE_MEMORY);
    if u64::try_from(limit).is_ok_and(|limit| limit >= most) {
        let reason = format!("{name} was killed with {} MiB of memory, and may not have more", limit >> 20);
        return fail(input, reason);
    }
    let reason = format!("{name} was killed with {} MiB of memory; reads the file with more", limit >> 20);
    record(RowStatus {
        reason: Some(reason),
        private: PrivateState { probe_outgrown_memory_bytes: Some(limit), ..row.status.private.clone() },
        ..row.status.clone()
    })
}
