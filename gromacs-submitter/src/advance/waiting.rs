//! A row whose ScavengerJob waits: down the ladder when there is no room, over again after its end, and onto a better
//! configuration after an interruption.

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{Kind, LadderRung, RowStatus};
use scavenger_vocabulary::{Outcome, Phase, WaitingReason};

use super::checkpoint::can_grow;
use super::chooser::{Choice, LEAST_GAIN, Offer, choose, was_changed_lately};
use super::clock::{by_operators_clock, is_operator_away, later, run_clock, seconds_between};
use super::deadline::Outlook;
use super::ladder::{below, hours, knows_room, rest_seconds, take};
use super::seen::{Input, is_held};
use super::step::{Action, Step, act, record, settle, settle_until};
use super::words::{NO_CAPACITY, OVER_QUOTA, RuledOut, said};
use super::{growth, renewal};
use crate::gpus;
use crate::view::{AttemptView, JobView};

/// How often a row that waits is looked at although no event asked for it. Thousands may wait while a few run, and the
/// watch tells of each change. Shorter than [`super::clock::AWAY_AFTER_SECONDS`], so that no look misses that the operator was away.
const WAITING_INTERVAL: Duration = Duration::from_secs(120);

/// The first delay before the ladder is tried again from its largest configuration; doubles with each lap.
const FIRST_LAP_DELAY: Duration = Duration::from_secs(60);

/// The longest such delay.
const LONGEST_LAP_DELAY: Duration = Duration::from_secs(3600);

/// The operator writes down what is free as often.
const ROOM_INTERVAL: Duration = Duration::from_secs(5);

/// So long after an interruption the room is looked at as often; then nobody's leaving is expected any more.
const ROOM_CHANGES_FOR_SECONDS: f64 = 60.0;

/// Waits, and takes another configuration when that is better than to wait for this one.
pub(super) fn wait_for_room(mut status: RowStatus, input: &Input<'_>, job: &JobView) -> Step {
    let intended = status.next_rung.take().filter(|next| find(input, *next).is_some());
    if intended.is_some() && is_held(job) && status.private.grown_from.is_some() {
        // Nobody knows what capacity there is when that person lets it go on: it keeps what it has.
        status.private.grown_from = None;
    } else if let Some(next) = intended {
        // The intention is recorded; now it is done. Whoever finds it half done, does it again.
        let resource_version = job.resource_version.clone();
        let resumes = job.suspended_to_grow;
        return act(Action::ReplaceJob { rung: next, resumes, resource_version }, input.row);
    }
    if job.suspended_to_grow {
        // However the growth came to nothing, nobody else would let it go on.
        return act(Action::ResumeJob { resource_version: job.resource_version.clone() }, input.row);
    }
    // Its spec is the truth, also when a person changed it; what is no rung is not judged.
    take(&mut status, job.rung, input.ladder());
    if let Some(step) = renewal::due(&status, input, job) {
        return step;
    }
    let why = job.waiting_reason.filter(|_| job.judged);
    let grows = status.private.grown_from.is_some();
    // It ran, and did not stop to stand in line.
    let stands_in_line = grows && why == Some(WaitingReason::BehindInQueue);
    // A tenant's limit is like a smaller pool: a smaller configuration may fit into what is left of it.
    let has_none = matches!(
        why,
        Some(WaitingReason::NoCapacity | WaitingReason::Unscheduled | WaitingReason::TenantLimit)
    );
    let no_room = stands_in_line || has_none;
    // While the operator is away, its last word counts until it was said.
    let away_since = input.pool().and_then(|pool| pool.update_time).filter(|_| is_operator_away(input));
    let waited = run_clock(&mut status, no_room && !is_operator_away(input), away_since.unwrap_or(input.now));
    let Some(rung) = job.rung else { return wait(status, said(job), input) };
    if let Some(next) = continue_elsewhere(&status, rung, why, waited, input, job) {
        return next;
    }
    let mut step = match why {
        _ if is_refused_by_nodes(rung, job) => {
            fall_back(status, rung, "nodes refuse its pods twice", input, job)
        }
        Some(WaitingReason::NeverFits) => fall_back(status, rung, &said(job), input, job),
        Some(WaitingReason::QuotaExceeded) if grows => fall_back(status, rung, &said(job), input, job),
        Some(WaitingReason::QuotaExceeded) => within_quota(status, rung, input, job),
        _ if no_room => without_room(status, rung, waited, input, job),
        Some(WaitingReason::BehindInQueue) => in_line(status, rung, input, job),
        // Waiting in a delay, for a person or for an operator that is away is no reason to shrink.
        Some(
            WaitingReason::NoCapacity
            | WaitingReason::Unscheduled
            | WaitingReason::TenantLimit
            | WaitingReason::BackingOff
            | WaitingReason::Paused
            | WaitingReason::Suspended
            | WaitingReason::FolderInUse
            | WaitingReason::VolumeUnbound
            | WaitingReason::VolumeInUse
            | WaitingReason::VolumeUnknown
            | WaitingReason::NodeUnreachable
            | WaitingReason::NamespaceTerminating
            | WaitingReason::Refused,
        )
        | None => {
            let reason = outlook(&status, rung, input, job);
            wait(status, reason, input)
        }
    };
    if step.action == Action::Settle && room_may_change(&step.status, rung, why, input, job) {
        let soon = later(input.now, ROOM_INTERVAL);
        step.status.next_attempt_time = step.status.next_attempt_time.to_jiff().min(soon).into();
    }
    step
}

/// Waits for room for as long as the row has patience, unless that would miss its deadline; then it falls back.
fn without_room(status: RowStatus, rung: i32, waited: f64, input: &Input<'_>, job: &JobView) -> Step {
    if is_operator_away(input) {
        let reason = format!("{} (the operator has not been heard of for a while)", said(job));
        return wait(status, reason, input);
    }
    let left = (patience_seconds(&status, rung, input) - waited).max(0.0);
    let pressed = find(input, rung).filter(|current| misses(&status, current, left, input));
    if let Some(found) = pressed.and_then(|_| sooner(&status, rung, left, input)) {
        step_down(status, &found, "to wait longer would miss the deadline", input)
    } else if left > 0.0 {
        let due = later(input.now, Duration::from_secs_f64(left).min(WAITING_INTERVAL));
        let reason = outlook(&status, rung, input, job);
        settle_until(status, Some(reason), due)
    } else {
        fall_back(status, rung, &format!("no free capacity for {waited:.0} s"), input, job)
    }
}

/// What a kubelet says that keeps its CPU cores whole or its NUMA nodes apart, and that has none to offer: whole cores
/// for an odd number of hyper-threads, or more cores than a NUMA node has. Other amounts may find their place.
const REFUSALS_OF_AMOUNTS: [&str; 2] = ["SMTAlignmentError", "TopologyAffinityError"];

/// So often: the first refusal may be of one node, or of a moment.
const REFUSALS_TO_FALL_BACK: usize = 2;

/// True if kubelets refused this configuration's pods again and again: like what never fits, but no scheduler knows.
fn is_refused_by_nodes(rung: i32, job: &JobView) -> bool {
    let is_refusal = |attempt: &&AttemptView| {
        let said = attempt.message.as_deref().unwrap_or_default();
        attempt.outcome == Some(Outcome::Withdrawn)
            && REFUSALS_OF_AMOUNTS.iter().any(|words| said.contains(words))
    };
    let last = job.attempts.iter().rev().take_while(|attempt| attempt.rung == Some(rung));
    last.take_while(is_refusal).count() >= REFUSALS_TO_FALL_BACK
}

/// What the operator says, and behind its forecast of the start how long the rest takes then.
fn outlook(status: &RowStatus, rung: i32, input: &Input<'_>, job: &JobView) -> String {
    let current = find(input, rung).filter(|_| job.has_forecast);
    let rest = current.and_then(|found| rest_seconds(input.row, status, found, input.ladder(), false));
    match rest {
        Some(seconds) => format!("{}, and then takes about {}", said(job), hours(seconds)),
        None => said(job),
    }
}

/// Nothing to do until the next event.
fn wait(status: RowStatus, reason: String, input: &Input<'_>) -> Step {
    settle_until(status, Some(reason), later(input.now, WAITING_INTERVAL))
}

/// When an attempt was seen to be interrupted, if the ScavengerJob asks for what that one had, and has ever since. At most
/// one change follows an interruption, so that free room that comes and goes makes no row flap, and a row that has come back
/// to where it was, down the ladder and over again, goes the usual way.
fn interrupted_here(status: &RowStatus, rung: i32, job: &JobView) -> Option<Timestamp> {
    let ended = |attempt: &&AttemptView| attempt.outcome == Some(Outcome::Interrupted);
    let last = job.attempts.iter().rev().find(ended).filter(|_| job.phase == Phase::Interrupted)?;

    status.private.interruption_time.filter(|_| last.rung == Some(rung) && !last.is_superseded)
}

/// True while the row waits for room alone. In line behind others the room there is now is theirs, and what holds it
/// up otherwise does not go by with another configuration.
fn waits_for_room_alone(why: Option<WaitingReason>) -> bool {
    matches!(why, Some(WaitingReason::NoCapacity | WaitingReason::Unscheduled | WaitingReason::BackingOff))
}

fn room_may_change(
    status: &RowStatus,
    rung: i32,
    why: Option<WaitingReason>,
    input: &Input<'_>,
    job: &JobView,
) -> bool {
    waits_for_room_alone(why)
        && interrupted_here(status, rung, job)
            .is_some_and(|time| seconds_between(time, input.now) < ROOM_CHANGES_FOR_SECONDS)
}

/// After an interruption: another configuration, larger or smaller, if it would be done sooner from the checkpoint
/// with the room there is now.
fn continue_elsewhere(
    status: &RowStatus,
    rung: i32,
    why: Option<WaitingReason>,
    waited: f64,
    input: &Input<'_>,
    job: &JobView,
) -> Option<Step> {
    let pool = input.pool().filter(|_| waits_for_room_alone(why) && !is_operator_away(input))?;
    let end_time = interrupted_here(status, rung, job)?;
    if !knows_room(pool, end_time, input.now) {
        return None;
    }
    let current = find(input, rung)?;
    // The operator knows better than its last word about the pool.
    let has_room = why == Some(WaitingReason::BackingOff) && pool.has_room_for(current);
    let wait = if has_room { 0.0 } else { (patience_seconds(status, rung, input) - waited).max(0.0) };
    let instead_of = wait + rest(status, current, input)?;
    let least = if misses(status, current, wait, input) { 0.0 } else { LEAST_GAIN };
    let others = input.ladder().iter().filter(|found| found.rung != rung);
    let limit = Some(instead_of * (1.0 - least));
    let better = first_done(others, limit, status, input, |found| lacks_capacity(found, input))?;
    let reason = format!(
        "continues on {}: with the capacity there is now it would be done in {} instead of {}",
        better.words(input.ladder()),
        hours(better.seconds),
        hours(instead_of)
    );
    Some(record(RowStatus { next_rung: Some(better.rung.rung), reason: Some(reason), ..status.clone() }))
}

fn rest(status: &RowStatus, rung: &LadderRung, input: &Input<'_>) -> Option<f64> {
    rest_seconds(input.row, status, rung, input.ladder(), false)
}

fn lacks_capacity(rung: &LadderRung, input: &Input<'_>) -> Option<RuledOut> {
    (!input.pool().is_some_and(|pool| pool.has_room_for(rung))).then_some(NO_CAPACITY)
}

/// True if the row would miss its deadline with a configuration that starts after `wait`.
fn misses(status: &RowStatus, rung: &LadderRung, wait: f64, input: &Input<'_>) -> bool {
    let outlook = Outlook::new(input.row, status, input.ladder(), input.now);
    outlook.is_some_and(|outlook| outlook.misses(rung, wait))
}

/// Of some configurations the one that is expected to be done first. What has no capacity now is waited for as usual, unless
/// `rule_out` says otherwise. What is bound to a kind of node is tried only while that kind has capacity, where one for any node
/// is left.
fn first_done<'a>(
    of: impl Iterator<Item = &'a LadderRung> + Clone,
    limit: Option<f64>,
    status: &RowStatus,
    input: &Input<'a>,
    rule_out: impl Fn(&LadderRung) -> Option<RuledOut>,
) -> Option<Choice<'a>> {
    let some_runs_anywhere = of.clone().any(|found| rule_out(found).is_none() && !found.is_bound());
    let offers = of.map(|rung| {
        let lacks = lacks_capacity(rung, input);
        let wait = lacks.map_or(0.0, |_| patience_seconds(status, rung.rung, input));
        let of_its_kind = lacks.filter(|_| rung.is_bound() && some_runs_anywhere);
        let seconds = wait + rest(status, rung, input).unwrap_or(f64::INFINITY);
        Offer { rung, seconds, ruled_out: rule_out(rung).or(of_its_kind) }
    });
    choose(offers, limit)
}

/// A smaller configuration that has capacity, and with which it would be done sooner than after another `wait` with this one. A
/// row that would miss its deadline and can grow computes meanwhile with what there is.
fn sooner<'a>(status: &RowStatus, rung: i32, wait: f64, input: &Input<'a>) -> Option<Choice<'a>> {
    let pool = input.pool().filter(|_| !is_operator_away(input))?;
    let current = find(input, rung)?;
    let seconds = wait + rest(status, current, input)?;
    let takes_any = can_grow(input.row, pool) && misses(status, current, wait, input);
    let smaller = below(input.ladder(), rung).iter();
    let limit = (!takes_any).then_some(seconds);
    first_done(smaller, limit, status, input, |found| lacks_capacity(found, input))
}

/// Others come first, and room that none of them takes is left. Nobody knows how long the line takes; as long again as it has
/// taken is a fair guess.
fn in_line(status: RowStatus, rung: i32, input: &Input<'_>, job: &JobView) -> Step {
    // The operator says since when, by its own clock.
    let now = by_operators_clock(input);
    let waited = job.waiting_since.map_or(0.0, |since| seconds_between(since, now));
    let may_change = !input.seen.room_is_taken && !was_changed_lately(job, now);
    let Some(found) = may_change.then(|| sooner(&status, rung, waited, input)).flatten() else {
        let reason = outlook(&status, rung, input, job);
        return wait(status, reason, input);
    };
    let reason = format!(
        "has waited in line for {}, and would be done in {} with {}, for which there is capacity: takes that",
        hours(waited),
        hours(found.seconds),
        found.words(input.ladder())
    );
    let next_rung = Some(found.rung.rung);
    Step {
        takes_room: Some(Duration::ZERO),
        ..record(RowStatus { next_rung, reason: Some(reason), ..status })
    }
}

/// A quota that is used up lets nothing of this size start. A smaller configuration is taken at once if the quota has
/// room for it now, and otherwise none would help.
fn within_quota(status: RowStatus, rung: i32, input: &Input<'_>, job: &JobView) -> Step {
    let of_quota = |found: &LadderRung| {
        let resource = input.pool().and_then(|pool| pool.gpu_resource_for(found)).unwrap_or(gpus::USUAL);
        let room = input.seen.quota.as_ref();
        (!room.is_some_and(|room| room.holds(&found.resources(), resource))).then_some(OVER_QUOTA)
    };
    match first_done(below(input.ladder(), rung).iter(), None, &status, input, of_quota) {
        Some(smaller) => step_down(status, &smaller, &said(job), input),
        None => settle(status, Some(said(job)), input),
    }
}

/// A smaller configuration than one that is refused. Where one that has capacity is in time for the row's deadline, none is waited
/// for. A row that was stopped to grow, and finds no room for more after all, goes back to what it had.
fn fall_back(mut status: RowStatus, rung: i32, why: &str, input: &Input<'_>, job: &JobView) -> Step {
    let smaller = below(input.ladder(), rung);
    let had =
        status.private.grown_from.take().and_then(|from| smaller.iter().position(|found| found.rung == from));
    status.private.growth_failures = status.private.growth_failures.saturating_add(i32::from(had.is_some()));
    let smaller = had.map_or(smaller, |index| &smaller[index..=index]);
    let is_in_time =
        |found: &LadderRung| lacks_capacity(found, input).is_none() && !misses(&status, found, 0.0, input);
    let is_sure = input.row.deadline.is_some() && smaller.iter().any(is_in_time);
    let of_deadline = |found: &LadderRung| lacks_capacity(found, input).filter(|_| is_sure);
    match first_done(smaller.iter(), None, &status, input, of_deadline) {
        Some(smaller) => step_down(status, &smaller, why, input),
        None => start_over(status, rung, input, job),
    }
}

fn step_down(status: RowStatus, smaller: &Choice<'_>, why: &str, input: &Input<'_>) -> Step {
    let reason = format!("{why}; falls back to {}", smaller.words(input.ladder()));
    record(RowStatus { next_rung: Some(smaller.rung.rung), reason: Some(reason), ..status })
}

fn find<'a>(input: &Input<'a>, rung: i32) -> Option<&'a LadderRung> {
    input.ladder().iter().find(|found| found.rung == rung)
}

/// Even the smallest finds no room: over again, after a delay that grows. Until then the smallest
/// keeps waiting, and may start.
fn start_over(mut status: RowStatus, rung: i32, input: &Input<'_>, job: &JobView) -> Step {
    let rungs = input.ladder().len();
    if rungs == 1 {
        let other = match input.row.kind {
            Kind::Simulation | Kind::Command => "there is no smaller configuration",
            Kind::Calibration => "a calibration runs with no other configuration",
        };
        let reason = format!("{}; {other}", outlook(&status, rung, input, job));
        return wait(status, reason, input);
    }
    let time = status.private.next_lap_time.map_or_else(
        || {
            let doublings = u32::try_from(status.private.laps).unwrap_or(0).min(10);
            later(input.now, (FIRST_LAP_DELAY * (1 << doublings)).min(LONGEST_LAP_DELAY))
        },
        Timestamp::from,
    );
    if time > input.now {
        status.private.next_lap_time = Some(time);
        let reason = format!(
            "{}; all {rungs} configurations were tried, over again from the largest at {time:.0}",
            outlook(&status, rung, input, job)
        );
        return settle_until(status, Some(reason), time.min(later(input.now, WAITING_INTERVAL)));
    }
    status.private.laps = status.private.laps.saturating_add(1);
    status.private.next_lap_time = None;
    let others = input.ladder().iter().filter(|found| found.rung != rung);
    let first = first_done(others, None, &status, input, |_| None);
    status.next_rung = first.as_ref().map(|first| first.rung.rung);
    let first = first.map(|first| format!(" with {}", first.words(input.ladder()))).unwrap_or_default();
    let reason = format!("all {rungs} configurations were tried; starts over{first}");
    record(RowStatus { reason: Some(reason), ..status })
}

/// How long it waits before it falls back: longer than the operator waits for the scheduler, else a rung would be
/// given up while its pod may still find its place. What was chosen for the capacity that there was is not waited for long:
/// a growth, and a configuration for one kind of node.
fn patience_seconds(status: &RowStatus, rung: i32, input: &Input<'_>) -> f64 {
    if status.private.grown_from.is_some() || find(input, rung).is_some_and(LadderRung::is_bound) {
        return growth::patience_seconds(input.pool());
    }
    let own = input.row.fallback_after_seconds.map_or(input.settings.fallback_after.as_secs_f64(), f64::from);
    let pending = input.pool().map_or(0.0, |pool| pool.pending_timeout.as_secs_f64());
    own.max(pending + 1.0)
}
