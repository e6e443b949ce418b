//! What the pool allows a row, and what becomes of the tuner's ladder before it is used.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, RowStatus, State};
use scavenger_schema::tuning::{Layout, Resources};
use sqlx::types::Json;

use super::words::{BELOW_LEAST_CPU, BELOW_LEAST_SPEED, LONGER_THAN_A_DAY, RuledOut, SLOW_TO_STOP};
use crate::manifest::needed_grace_seconds;
use crate::text::{cores, number_of, pairs, speed};
use crate::view::PoolView;

/// A mebibyte: memory is asked for in multiples of it.
const MIB: i64 = 1 << 20;

/// Why the pool does not take the row as it is; none if it does. The API server would refuse its ScavengerJob.
pub(super) fn refused_by_pool(row: &GromacsToTune, pool: &PoolView) -> Option<String> {
    let limits = &pool.limits;
    let stretch = Duration::from_secs(u64::try_from(row.interruption_after_seconds).unwrap_or(0));
    (stretch < limits.min_interruption_after || stretch > limits.max_interruption_after).then(|| {
        format!(
            "interruption_after_seconds is {}; the ScavengerPool allows {} to {} (limits.minInterruptionAfter, \
             limits.maxInterruptionAfter): add the row with another value",
            row.interruption_after_seconds,
            limits.min_interruption_after.as_secs(),
            limits.max_interruption_after.as_secs()
        )
    })
}

/// Makes of a ladder what is to be expected where ordinary pods use a part of the same processors, and come first; returns a
/// note for people. The tuner's predictions are for cores of one's own. How much of that part falls on a simulation nobody
/// knows: none of it, or all. So the median stays, and the lower end of each interval is lower by that share.
pub fn beside_ordinary_pods(ladder: &mut [LadderRung], pool: Option<&PoolView>) -> Option<String> {
    let share = pool.map_or(0.0, |pool| pool.shared_cpu);
    let percent = (share * 100.0).round();
    if percent < 1.0 {
        return None;
    }
    for rung in ladder {
        rung.ns_per_day_p10 *= 1.0 - share;
    }
    Some(format!(
        "ordinary pods are expected to use {percent:.0}% of the pool's cpu and come first, so the lower end of each speed is \
         {percent:.0}% lower"
    ))
}

/// Why no configuration of a ladder is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoConfiguration {
    /// Other nodes, or a tuner that has learned, may change it.
    Now(String),
    /// Only a person can change it.
    Ever(String),
}

impl From<String> for NoConfiguration {
    fn from(reason: String) -> Self {
        Self::Ever(reason)
    }
}

/// A configuration with which mdrun was killed for using more than its memory.
#[derive(Debug, Clone, Copy, PartialEq, sqlx::FromRow)]
pub struct Kill {
    /// Its layout.
    pub layout: Json<Layout>,
    /// Its memory, bytes.
    pub memory_bytes: i64,
    /// What the tuner had expected it to use, bytes.
    pub predicted_memory_bytes: i64,
}

/// The row and its ladder when the tuner has answered.
///
/// The ladder ends at the least that the row runs with. What cannot save its last checkpoint in the time that the pool allows is left out, and what has no more memory
/// than mdrun was killed with gets twice as much, as far as nodes and limits go. What mdrun was killed with is known of the
/// configurations in `kills`; others need more or less than these, as the tuner expects it.
///
/// # Errors
/// Why no configuration is left, with a sentence for the row.
pub fn with_ladder(
    row: &GromacsToTune,
    ladder: Vec<LadderRung>,
    pool: Option<&PoolView>,
    kills: &[Kill],
) -> Result<(RowStatus, Vec<LadderRung>), NoConfiguration> {
    let is_out = |rung: &LadderRung| rules_out(row, rung, pool).is_some();
    let (out, left): (Vec<_>, Vec<_>) = ladder.into_iter().partition(is_out);
    if left.is_empty() {
        return Err(why_none(row, &out, pool));
    }
    let mut ladder = with_more_memory(row, left, pool, kills)?;
    for (rung, number) in ladder.iter_mut().zip(1..) {
        rung.rung = number;
    }
    let mut reason = match (row.kind, ladder.as_slice()) {
        (Kind::Calibration, [rung]) => format!(
            "the tuner expects {} ns/day ({} to {})",
            speed(rung.ns_per_day_p50),
            speed(rung.ns_per_day_p10),
            speed(rung.ns_per_day_p90)
        ),
        (_, [_]) => "the tuner proposes 1 configuration; the largest is tried first".to_owned(),
        _ => format!("the tuner proposes {} configurations; the largest is tried first", ladder.len()),
    };
    if let Some(outgrown) = row.status.private.outgrown_memory_bytes {
        reason = format!("{reason}, with more than {} MiB of memory", outgrown / MIB);
    }
    for (rung, why) in out.iter().filter_map(|rung| Some((rung, rules_out(row, rung, pool)?))) {
        reason.push_str(&format!("; not {}: {why}", asks_for(rung)));
    }
    let status = RowStatus {
        state: State::Submitted,
        reason: Some(reason),
        rung: first_to_try(&ladder, pool).or(ladder.first()).map(|rung| rung.rung),
        next_rung: None,
        failures: 0,
        ..row.status.clone()
    };
    Ok((status, ladder))
}

/// What keeps the row from a configuration, wherever that has capacity.
fn rules_out(row: &GromacsToTune, rung: &LadderRung, pool: Option<&PoolView>) -> Option<RuledOut> {
    if row.min_cpu_millicores.is_some_and(|least| rung.cpu_millicores < least) {
        Some(BELOW_LEAST_CPU)
    } else if row.min_ns_per_day.is_some_and(|least| rung.ns_per_day_p50 < least) {
        Some(BELOW_LEAST_SPEED)
    } else if row.is_minimisation()
        && rung.hours_to_finish.is_some_and(|hours| hours > LONGEST_MINIMISATION_HOURS)
    {
        Some(LONGER_THAN_A_DAY)
    } else if pool.is_some_and(|pool| needed_grace_seconds(row, rung) > pool.limits.max_grace_seconds) {
        Some(SLOW_TO_STOP)
    } else {
        None
    }
}

/// What is interrupted is lost with a minimisation, so it must not take long: it might never end.
const LONGEST_MINIMISATION_HOURS: f64 = 24.0;

/// Why nothing is left of a ladder whose configurations are all ruled out: by the last of the rules that any of them came to.
fn why_none(row: &GromacsToTune, ladder: &[LadderRung], pool: Option<&PoolView>) -> NoConfiguration {
    let of = |why: RuledOut| ladder.iter().filter(move |rung| rules_out(row, rung, pool) == Some(why));
    if of(SLOW_TO_STOP).next().is_some() {
        let least = of(SLOW_TO_STOP).map(|rung| needed_grace_seconds(row, rung)).min().unwrap_or(0);
        let most = pool.map_or(0, |pool| pool.limits.max_grace_seconds);
        return NoConfiguration::Ever(format!(
            "mdrun needs {least} s for its last checkpoint after SIGTERM, but the ScavengerPool allows \
             {most} (limits.maxTerminationGracePeriodSeconds): ask an admin to raise it, and retry"
        ));
    }
    if of(LONGER_THAN_A_DAY).next().is_some() {
        let hours = of(LONGER_THAN_A_DAY).filter_map(|rung| rung.hours_to_finish);
        let least = hours.fold(f64::INFINITY, f64::min);
        let steps = row.system.nsteps.unwrap_or(0) as f64 * LONGEST_MINIMISATION_HOURS / least;
        return NoConfiguration::Ever(format!(
            "the minimisation may take {least:.0} h, and begins again after each interruption: allow at most {steps:.0} \
             steps, which take a day, and retry"
        ));
    }
    too_small(row, ladder, pool)
}

/// What is less than the row's own minimum is not tried: the row waits for room instead, or for nodes that are large enough,
/// which an autoscaler may add. Only limits that are smaller than the minimum leave nothing to wait for.
fn too_small(row: &GromacsToTune, ladder: &[LadderRung], pool: Option<&PoolView>) -> NoConfiguration {
    let least_cpu = row.min_cpu_millicores.unwrap_or(0);
    let least_speed = row.min_ns_per_day.unwrap_or(0.0);
    let most_cpu = ladder.iter().map(|rung| rung.cpu_millicores).max().unwrap_or(0);
    let most_speed = ladder.iter().map(|rung| rung.ns_per_day_p50).fold(0.0, f64::max);
    let own = row.limits();
    let limit = pool.map_or(own.max_cpu_millicores, |pool| pool.limits.bound(&own).max_cpu_millicores);
    if let Some(limit) = limit.and_then(|limit| i32::try_from(limit).ok()).filter(|limit| *limit < least_cpu)
    {
        return NoConfiguration::Ever(format!(
            "min_cpu_millicores is {least_cpu}, but max_cpu_millicores and the pool's limits allow {limit}: lower \
             min_cpu_millicores, and retry"
        ));
    }
    let waits = "the row waits for other nodes; to run on these, cancel it, lower";
    NoConfiguration::Now(if most_cpu < least_cpu {
        format!(
            "no configuration that nodes and mdrun allow has {} (min_cpu_millicores), the largest has {}; {waits} \
             min_cpu_millicores, and retry",
            cores(least_cpu.into()),
            cores(most_cpu.into())
        )
    } else {
        let large =
            if least_cpu > 0 { format!(" of at least {}", cores(least_cpu.into())) } else { String::new() };
        format!(
            "no configuration{large} is predicted to do {} ns/day (min_ns_per_day), the fastest of all does {}; {waits} \
             min_ns_per_day, and retry",
            speed(least_speed),
            speed(most_speed)
        )
    })
}

fn with_more_memory(
    row: &GromacsToTune,
    ladder: Vec<LadderRung>,
    pool: Option<&PoolView>,
    kills: &[Kill],
) -> Result<Vec<LadderRung>, String> {
    let Some(outgrown) = row.status.private.outgrown_memory_bytes else { return Ok(ladder) };
    let mut most_anywhere = 0;
    let mut larger = Vec::new();
    let too_little: Vec<i64> = ladder.iter().map(|rung| too_little(rung, &ladder, outgrown, kills)).collect();
    for (mut rung, too_little) in ladder.into_iter().zip(too_little) {
        let most = most_memory(row, &rung, pool) / MIB * MIB;
        most_anywhere = most_anywhere.max(most);
        // Doubled, so that few attempts find what it needs; more than a node has, nobody gets.
        let memory = rung.memory_bytes.max(whole_mib(too_little.saturating_mul(2))).min(most);
        if memory <= too_little {
            continue;
        }
        if memory > rung.memory_bytes {
            rung.reason = format!(
                "{}; {} MiB of memory instead of {}, since mdrun was killed with {}",
                rung.reason,
                memory / MIB,
                rung.memory_bytes / MIB,
                outgrown / MIB
            );
            rung.memory_bytes = memory;
        }
        rung.fits_now = pool.is_some_and(|pool| pool.has_room_for(&rung));
        larger.push(rung);
    }
    if larger.is_empty() {
        return Err(format!(
            "mdrun was killed with {} MiB of memory, and no configuration has more: nodes, max_memory_bytes and the \
             pool's limits allow {} MiB; allow more, and retry",
            outgrown / MIB,
            most_anywhere / MIB
        ));
    }
    Ok(larger)
}

/// Memory with which a configuration would be killed, as far as `kills` say; `outgrown` if they say nothing.
fn too_little(rung: &LadderRung, ladder: &[LadderRung], outgrown: i64, kills: &[Kill]) -> i64 {
    let scaled = |kill: &Kill| {
        // The tuner may have learned of the kill since: like is compared with like.
        let now = ladder.iter().find(|found| found.layout == kill.layout);
        let predicted = now.map_or(kill.predicted_memory_bytes, |found| found.predicted_memory_bytes);
        let ratio = rung.predicted_memory_bytes as f64 / predicted as f64;
        if ratio.is_finite() && ratio > 0.0 { (kill.memory_bytes as f64 * ratio) as i64 } else { outgrown }
    };
    kills.iter().map(scaled).max().unwrap_or(outgrown)
}

fn whole_mib(bytes: i64) -> i64 {
    bytes.saturating_add(MIB - 1) / MIB * MIB
}

/// Most memory that nodes and limits allow beside the rung's cores.
fn most_memory(row: &GromacsToTune, rung: &LadderRung, pool: Option<&PoolView>) -> i64 {
    let own = row.limits();
    let limits = pool.map_or_else(|| own.clone(), |pool| pool.limits.bound(&own));
    let of_nodes = pool.and_then(|pool| pool.most_memory_beside(rung)).unwrap_or(0);
    let most = limits.max_memory_bytes.map_or(of_nodes, |limit| limit.min(of_nodes));
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// Room that was measured before an interruption counts the interrupted attempt itself. The operator writes the pool's
/// status every 5 seconds if anything changed; after twice that it is what it would be.
const ROOM_IS_KNOWN_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// Goes on with another configuration. What was measured on CPUs says nothing of a GPU, nor the other way round.
pub(super) fn take(status: &mut RowStatus, rung: Option<i32>, ladder: &[LadderRung]) {
    let Some(rung) = rung else { return };
    if !is_of_one_kind(status.rung, rung, ladder) {
        status.private.speed_ratio = None;
    }
    status.rung = Some(rung);
}

/// False if one of two configurations has a GPU and the other none.
pub(super) fn is_of_one_kind(one: Option<i32>, other: i32, ladder: &[LadderRung]) -> bool {
    let on_gpu = |rung: i32| ladder.iter().find(|found| found.rung == rung).map(|found| found.gpus > 0);
    one.and_then(on_gpu).zip(on_gpu(other)).is_none_or(|(one, other)| one == other)
}

/// What was measured over a while is slower by so much for the rest, in bad times.
const MEASURED_AND_SLOW: f64 = 0.9;

/// Seconds that the rest of the row takes with a configuration: at the speed that was predicted, relative to that which was measured,
/// if that was with a GPU or without one as this is. What the running attempt measures counts at once. The `slow` end is a tenth
/// slower than what was measured, and what nine of ten reach where nothing was.
pub(super) fn rest_seconds(
    row: &GromacsToTune,
    status: &RowStatus,
    rung: &LadderRung,
    ladder: &[LadderRung],
    slow: bool,
) -> Option<f64> {
    if slow && row.is_minimisation() {
        // It begins again each time.
        return Some(rung.hours_to_finish? * 3600.0 * rung.ns_per_day_p50 / rung.ns_per_day_p10);
    }
    let first_step = row.system.init_step.unwrap_or(0);
    let steps = row.system.last_step()? - status.step.unwrap_or(first_step);
    let simulated_ns = steps.max(0) as f64 * row.system.dt_ps? / 1000.0;
    let running = ladder.iter().find(|found| Some(found.rung) == status.rung);
    let measured = status.first_step.and(status.ns_per_day).filter(|speed| *speed > 0.0);
    let now = running.zip(measured).map(|(running, measured)| measured / running.ns_per_day_p50);
    let ratio = now.or(status.private.speed_ratio).filter(|_| is_of_one_kind(status.rung, rung.rung, ladder));
    let speed = match ratio {
        Some(ratio) => rung.ns_per_day_p50 * ratio * if slow { MEASURED_AND_SLOW } else { 1.0 },
        None if slow => rung.ns_per_day_p10,
        None => rung.ns_per_day_p50,
    };
    Some(simulated_ns / speed * 86400.0).filter(|seconds| seconds.is_finite())
}

/// True if the pool's status tells of the room after `end_time`: when that end, and when that status came to be known, by
/// the clock of the database.
pub(super) fn knows_room(pool: &PoolView, end_time: Timestamp, now: Timestamp) -> bool {
    pool.update_time.is_some_and(|time| time > end_time)
        || now.duration_since(end_time) >= ROOM_IS_KNOWN_AFTER
}

/// The place of a configuration on the ladder, counted from 1, fastest first; its number may be another one.
pub(super) fn place(ladder: &[LadderRung], rung: i32) -> usize {
    ladder.iter().position(|found| found.rung == rung).map_or(0, |index| index + 1)
}

/// The configurations below one; none below what is no configuration of the ladder.
pub(super) fn below(ladder: &[LadderRung], rung: i32) -> &[LadderRung] {
    ladder.iter().position(|found| found.rung == rung).map_or(&[], |index| &ladder[index + 1..])
}

/// The first of `ladder` that is worth a try. What is bound to a kind of node is tried only while that kind has capacity: the
/// same configuration for any node stands below.
pub(super) fn first_to_try<'a>(ladder: &'a [LadderRung], pool: Option<&PoolView>) -> Option<&'a LadderRung> {
    let is_worth = |rung: &LadderRung| !rung.is_bound() || pool.is_some_and(|pool| pool.has_room_for(rung));
    ladder.iter().find(|rung| is_worth(rung))
}

/// What a configuration asks for, as people say it.
pub(super) fn asks_for(rung: &LadderRung) -> String {
    let mut text = describe(rung.resources());
    if rung.is_bound() {
        text.push_str(&format!(" on nodes with {}", pairs(&rung.node_labels).join(", ")));
    }
    text
}

/// CPU and GPUs as people say them.
pub(super) fn describe(resources: Resources) -> String {
    let cpu = cores(resources.cpu_millicores.into());
    match resources.gpus {
        0 => cpu,
        gpus => format!("{cpu} and {}", number_of(gpus as usize, "GPU")),
    }
}

/// A time as people say it.
pub(crate) fn hours(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{seconds:.0} s")
    } else if seconds < 5400.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}
