//! A row that runs with less than there is capacity for by now: it is stopped, which makes mdrun write its checkpoint, and
//! goes on from there with more.
//!
//! Three steps, each of which the next look finds again: the intention (`next_rung` and `grown_from`), the suspension, and
//! the larger configuration, with which it is resumed. If that finds no room after all, it goes back to what it had.
//!
//! A person may suspend the ScavengerJob, too. That suspension has no mark of the submitter (`suspended_to_grow`), and ends
//! the growth. What has the mark is resumed, whatever became of the growth.

use std::time::Duration;

use scavenger_schema::simulation::{GromacsToTune, LadderRung, PrivateState, RowStatus};
use scavenger_vocabulary::Phase;

use super::checkpoint::{can_grow, has_checkpoints};
use super::chooser::{LEAST_GAIN, Offer, choose, has_grown_lately};
use super::clock::{by_operators_clock, is_operator_away, seconds_seen};
use super::deadline::Outlook;
use super::ladder::{below, hours, is_of_one_kind, rest_seconds};
use super::seen::{Input, is_held};
use super::step::{Action, Step, act, record, settle};
use super::words::{NO_CAPACITY, OVER_LIMITS};
use crate::manifest::restart_seconds;
use crate::view::{JobView, PoolView};

/// What it costs to stop, beside the restart, which is measured from when the next attempt is seen: mdrun writes its
/// checkpoint, its pod ends, and the ScavengerJob is replaced and finds its capacity again.
const STOP_SECONDS: f64 = 30.0;

/// What is left must take less than this share of the time that it would take as it runs.
const LARGEST_SHARE: f64 = 0.5;

/// A row that would miss its deadline grows after so long, if it may lose more.
const SOON_SECONDS: f64 = 300.0;

/// So long a larger configuration is waited for that had room a moment ago, beyond the pool's `pendingTimeout`.
const PATIENCE: Duration = Duration::from_secs(30);

/// So often the time before the next growth doubles, at most.
const MOST_DOUBLINGS: i32 = 8;

/// For so long nobody else grows into the same capacity: the pool says that it is free until the row that was stopped has
/// started again.
const TAKES_ROOM_FOR: Duration = Duration::from_secs(60);

/// Goes on with what was intended for a row that runs: none if nothing was, or if a person holds it.
pub(super) fn intended(status: &RowStatus, input: &Input<'_>, job: &JobView) -> Option<Step> {
    let next = status.private.grown_from.and(status.next_rung).filter(|_| !is_held(job))?;
    input.ladder().iter().find(|rung| rung.rung == next)?;
    Some(if job.suspended {
        // It ends within its grace period; the reason is still the intention's.
        settle(status.clone(), None, input)
    } else {
        let action = Action::SuspendJob { resource_version: job.resource_version.clone() };
        act(action, input.row)
    })
}

/// Intends to go on with a larger configuration, if there is capacity for one with which the rest would take less than
/// half as long.
pub(super) fn intend(status: &RowStatus, input: &Input<'_>, job: &JobView) -> Option<Step> {
    let current = input.ladder().iter().find(|rung| Some(rung.rung) == job.rung)?;
    let is_late = Outlook::new(input.row, status, input.ladder(), input.now)
        .is_some_and(|outlook| outlook.misses(current, 0.0));
    let pool = input.pool().filter(|_| may_be_stopped(status, input, job, is_late))?;
    if is_operator_away(input) || pool.waiting_for_room > 0 || input.seen.room_is_taken {
        return None;
    }
    status.first_step.and(status.ns_per_day).filter(|speed| *speed > 0.0)?;
    // Another kind of processor may be slower than is predicted.
    let rest = |rung: &LadderRung| {
        let is_new = !is_of_one_kind(status.rung, rung.rung, input.ladder());
        rest_seconds(input.row, status, rung, input.ladder(), is_new)
    };
    let now_seconds = rest(current)?;
    let lost_seconds = STOP_SECONDS + f64::from(restart_seconds(input.seen.restart_seconds));
    let faster = input.ladder().iter().filter(|rung| rung.ns_per_day_p50 > current.ns_per_day_p50);
    let offers = faster.map(|rung| {
        let ruled_out = match rung {
            _ if !pool.limits.allow(&rung.resources()) => Some(OVER_LIMITS),
            _ if !pool.has_room_for(rung) => Some(NO_CAPACITY),
            _ => None,
        };
        Offer { rung, seconds: rest(rung).map_or(f64::INFINITY, |rest| rest + lost_seconds), ruled_out }
    });
    let share = if is_late { 1.0 - LEAST_GAIN } else { LARGEST_SHARE };
    let larger = choose(offers, Some(now_seconds * share))?;
    let reason = format!(
        "stops at a checkpoint and goes on with {}: with the capacity there is now the rest takes {} instead of {}{}",
        larger.words(input.ladder()),
        hours(larger.seconds),
        hours(now_seconds),
        if is_late { ", which would miss its deadline" } else { "" }
    );
    let status = RowStatus {
        next_rung: Some(larger.rung.rung),
        reason: Some(reason),
        private: PrivateState { grown_from: Some(current.rung), ..status.private.clone() },
        ..status.clone()
    };
    Some(Step { takes_room: Some(TAKES_ROOM_FOR), ..record(status) })
}

/// True if the attempt writes its checkpoint when it is stopped, and has run for as long as it may lose: so a row grows
/// at most once in that time. After a growth that came to nothing it is twice that time, after the next one four times: what
/// took the capacity meanwhile, or a quota that the pool does not show, may do so again.
///
/// A row that is late need not wait for all of it. After a growth each waits for an hour.
fn may_be_stopped(status: &RowStatus, input: &Input<'_>, job: &JobView, is_late: bool) -> bool {
    let row = input.row;
    let ran = seconds_seen(status, input.now);
    let usual = f64::from(row.interruption_after_seconds);
    let least = if is_late { usual.min(SOON_SECONDS) } else { usual };
    let doublings = row.status.private.growth_failures.clamp(0, MOST_DOUBLINGS);
    input.pool().is_some_and(|pool| can_grow(row, pool))
        && !job.suspended
        && !has_grown_lately(job, by_operators_clock(input))
        && ran >= least * f64::from(1 << doublings)
}

/// It runs: with more than it had, if it was stopped for that.
pub(super) fn ended(status: &mut RowStatus, rung: Option<i32>, ladder: &[LadderRung]) {
    if let Some(from) = status.private.grown_from.take()
        && rung.is_some_and(|rung| below(ladder, rung).iter().any(|found| found.rung == from))
    {
        status.private.growth_failures = 0;
    }
}

/// True if it could be worth a look at the pool while the row runs.
pub(super) fn may_grow(status: &RowStatus, ladder: &[LadderRung]) -> bool {
    let speed = |rung: &LadderRung| rung.ns_per_day_p50;
    let current = ladder.iter().find(|rung| Some(rung.rung) == status.rung).map(speed);
    current.is_some_and(|current| ladder.iter().any(|rung| speed(rung) > current))
}

/// True if a growth can be intended at this look, as far as the row and its ScavengerJob say: what a restart costs is read for
/// that alone. An attempt whose progress was not seen before has not run for as long as it may lose.
pub(super) fn is_considered(row: &GromacsToTune, job: &JobView, ladder: &[LadderRung]) -> bool {
    let status = &row.status;
    job.phase == Phase::Running
        && !job.suspended
        && status.private.progress_from_time.is_some()
        && status.private.grown_from.is_none()
        && may_grow(status, ladder)
        && has_checkpoints(row)
}

/// How long a row waits for capacity that was there a moment ago.
pub(super) fn patience_seconds(pool: Option<&PoolView>) -> f64 {
    (pool.map_or(Duration::ZERO, |pool| pool.pending_timeout) + PATIENCE).as_secs_f64()
}
