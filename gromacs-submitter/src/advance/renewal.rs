//! The ladder of a row that was interrupted: the tuner is asked again, since more is known by now. What the row itself has
//! measured, other runs, and other nodes may have changed what is the best.
//!
//! A configuration keeps its number for as long as the submission lasts: attempts are recorded with it. What the tuner proposes
//! for the first time gets the next number.

use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, PrivateState, RowStatus};
use scavenger_vocabulary::Phase;

use super::seen::Input;
use super::step::{Action, Step, act, record};
use super::words::said;
use crate::view::JobView;

/// Asks once after each interruption of a row whose speed is known by now; none if nothing is to be asked. What the
/// interrupted attempt measured is recorded first, so that the tuner can learn of it.
pub(super) fn due(status: &RowStatus, input: &Input<'_>, job: &JobView) -> Option<Step> {
    let row = input.row;
    let has_news =
        status.interruptions > status.private.ladder_interruptions && status.private.speed_ratio.is_some();
    if !has_news || job.phase != Phase::Interrupted || row.kind != Kind::Simulation || job.suspended {
        return None;
    }
    // Without nodes there is nothing to ask about.
    input.pool().filter(|pool| !pool.nodes.is_empty())?;
    let system = row.description()?;
    if row.status.interruptions < status.interruptions {
        return Some(record(RowStatus { reason: Some(said(job)), ..status.clone() }));
    }
    Some(act(Action::AskAgain(Box::new(system)), row))
}

/// The row once it was asked, whatever came of it.
#[must_use]
pub fn was_asked(row: &GromacsToTune) -> RowStatus {
    RowStatus {
        private: PrivateState {
            ladder_interruptions: row.status.interruptions,
            ..row.status.private.clone()
        },
        ..row.status.clone()
    }
}

/// The row and its ladder with what the tuner proposes now: `tried` are the configurations until then, and `replaced` others of
/// the same submission. The configuration in use stays, until it is replaced as always. Only another layout of the same
/// resources takes its place at once: mdrun starts again anyway, and there is nothing to wait for. A row that grows goes on with
/// what it grew to: it may run before it could be replaced, and would be stopped for that as for another growth.
#[must_use]
pub fn renewed(
    row: &GromacsToTune,
    tried: &[LadderRung],
    replaced: &[LadderRung],
    proposed: Vec<LadderRung>,
) -> (RowStatus, Vec<LadderRung>) {
    let known = || tried.iter().chain(replaced);
    let mut newest = known().map(|rung| rung.rung).max().unwrap_or(0);
    let mut number = |rung: &LadderRung| {
        known().find(|found| is_same(found, rung)).map_or_else(
            || {
                newest += 1;
                newest
            },
            |found| found.rung,
        )
    };
    let mut ladder: Vec<LadderRung> = proposed
        .into_iter()
        .map(|rung| LadderRung { rung: number(&rung), replaced: false, ..rung })
        .collect();
    let mut status = was_asked(row);
    let in_use = tried.iter().find(|rung| Some(rung.rung) == row.status.rung);
    if let Some(current) = in_use.filter(|current| !ladder.iter().any(|rung| rung.rung == current.rung)) {
        let other = ladder.iter().find(|rung| asks_for_the_same(rung, current));
        if let Some(other) = other.filter(|_| row.status.private.grown_from.is_none()) {
            status.next_rung = Some(other.rung);
            status.reason = Some("continues with another layout on the same resources".to_owned());
        } else {
            let below = ladder.iter().position(|rung| rung.ns_per_day_p50 < current.ns_per_day_p50);
            ladder.insert(below.unwrap_or(ladder.len()), current.clone());
        }
    }
    status.private.speed_ratio =
        row.status.private.speed_ratio.map(|ratio| ratio * change_of_prediction(row, tried, &ladder));
    (status, ladder)
}

/// The old prediction divided by the new one: what was measured is compared with what is predicted now, or it would count twice
/// where the tuner has learned of it. By the configuration that ran, else by one like it that stands on both ladders.
fn change_of_prediction(row: &GromacsToTune, before: &[LadderRung], after: &[LadderRung]) -> f64 {
    let ran = before.iter().find(|rung| Some(rung.rung) == row.status.rung);
    let is_alike = |rung: &&LadderRung| ran.is_none_or(|ran| (ran.gpus > 0) == (rung.gpus > 0));
    let in_order = ran.into_iter().chain(before.iter().filter(is_alike));
    let mut changes = in_order.filter_map(|old| {
        let new = after.iter().find(|new| new.rung == old.rung && new.model_version != old.model_version)?;
        Some(old.ns_per_day_p50 / new.ns_per_day_p50).filter(|change| change.is_finite() && *change > 0.0)
    });
    changes.next().unwrap_or(1.0)
}

fn is_same(one: &LadderRung, other: &LadderRung) -> bool {
    asks_for_the_same(one, other) && one.layout == other.layout
}

fn asks_for_the_same(one: &LadderRung, other: &LadderRung) -> bool {
    one.resources() == other.resources() && one.node_labels == other.node_labels
}
