//! What follows when mdrun ended before its first step: another configuration, another try, or a person.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{LadderRung, RowStatus};
use scavenger_schema::tuning::Layout;
use sqlx::types::Json;

use super::ending::{end_of, with_history};
use super::{Input, Step, later, next_submission, record};
use crate::manifest::appends;
use crate::start_failure::{StartFailure, classify, is_plainest, rules_out};
use crate::view::JobView;

/// Delay before the first new try after what goes by; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_secs(30);

/// The longest such delay.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// So many tries take 13 hours: what has not gone by then needs a person.
const MOST_TRIES: i32 = 20;

/// How much slower one rank on the CPU is expected to be than a configuration with GPUs.
const WITHOUT_GPU: f64 = 0.1;

/// The configuration that mdrun refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its rung.
    pub rung: i32,
    /// Why, in mdrun's words.
    pub words: String,
}

/// A layout that mdrun refused, in an earlier submission.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Refusal {
    /// The layout.
    pub layout: Json<Layout>,
    /// Why, in mdrun's words.
    pub words: String,
}

/// The row after mdrun ended in these `words`; `reason` is the sentence with which it fails if nothing else helps.
pub(super) fn failed(
    status: RowStatus,
    words: &str,
    reason: String,
    input: &Input<'_>,
    job: &JobView,
) -> Step {
    let ran = job.last_attempt().and_then(|attempt| attempt.rung).or(status.rung);
    match (classify(words), ran) {
        (StartFailure::Layout(_), Some(rung)) => {
            let reason = format!("mdrun refuses configuration {rung}: {words}; tries the next one");
            let next = with_history(next_submission(input.row, reason), &status);
            let refused = Some(Refused { rung, words: words.to_owned() });
            Step { refused, ..record(next) }
        }
        (StartFailure::NoLocks, _) if appends(input.row) => {
            let reason = format!("mdrun could not start: {words}; starts again and writes new output files");
            let next = with_history(next_submission(input.row, reason), &status);
            Step { stops_appending: true, ..record(next) }
        }
        (StartFailure::Input(Some(remedy)), _) => {
            record(end_of(status, format!("{reason}; {remedy}"), input, job))
        }
        // It has nothing to lock, so what it found no locks for may have them later.
        (StartFailure::Transient | StartFailure::NoLocks, _) => {
            match again_later(&status, &format!("mdrun could not start: {words}"), input) {
                Some(step) => step,
                None => record(end_of(status, too_often(&reason), input, job)),
            }
        }
        (StartFailure::Input(None), Some(rung)) if !is_plainest(&layout_of(rung, input)) => {
            let reason = format!("{reason}; tries one rank on the CPU before it gives up");
            let next = with_history(next_submission(input.row, reason), &status);
            let refused = Some(Refused { rung, words: words.to_owned() });
            Step { refused, ..record(next) }
        }
        (StartFailure::Layout(_) | StartFailure::Input(None), _) => {
            record(end_of(status, reason, input, job))
        }
    }
}

/// The plainest layout for what is no configuration of the ladder.
fn layout_of(rung: i32, input: &Input<'_>) -> Layout {
    input.ladder().iter().find(|found| found.rung == rung).map_or(Layout::cpu(1, 1), |found| found.layout.0)
}

/// The next submission of a row that is tried again after a delay; none if it was tried often enough. `what` says what
/// happened.
pub(super) fn again_later(status: &RowStatus, what: &str, input: &Input<'_>) -> Option<Step> {
    let (start_failures, time) = next_try(status, input)?;
    let reason = format!("{what}; tries again at {time:.0}");
    let next = with_history(next_submission(input.row, reason), status);
    Some(record(RowStatus {
        start_failures,
        not_before: Some(time.into()),
        next_attempt_time: time.into(),
        ..next
    }))
}

/// How many tries that is, and when; none if there were enough.
pub(super) fn next_try(status: &RowStatus, input: &Input<'_>) -> Option<(i32, Timestamp)> {
    let tries = status.start_failures.saturating_add(1);
    (tries <= MOST_TRIES).then(|| (tries, later(input.now, delay(tries))))
}

/// Why a row fails that was tried often enough.
pub(super) fn too_often(reason: &str) -> String {
    format!("{reason}; {MOST_TRIES} starts ended so: remove the cause, and retry")
}

fn delay(tries: i32) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(0).min(10);
    (FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY)
}

/// The tuner's ladder without what mdrun refused, or would refuse for the same reason. If nothing is left, one rank on
/// the CPU with the resources of the smallest configuration: every input that GROMACS can run at all runs so.
///
/// # Errors
/// mdrun's words, if it refused that as well.
pub fn without_refused(ladder: Vec<LadderRung>, refusals: &[Refusal]) -> Result<Vec<LadderRung>, String> {
    let refusal = |layout: &Layout| {
        refusals.iter().find(|refusal| rules_out(&refusal.words, &refusal.layout.0, layout))
    };
    let Some(smallest) = ladder.last().cloned() else { return Ok(ladder) };
    let left: Vec<LadderRung> = ladder.into_iter().filter(|rung| refusal(&rung.layout.0).is_none()).collect();
    if !left.is_empty() {
        return Ok(left);
    }
    let threads = u32::try_from(smallest.cpu_millicores / 1000).unwrap_or(1).max(1);
    let layout = Layout::cpu(1, threads);
    if let Some(refusal) = refusal(&layout) {
        return Err(format!("mdrun refuses every configuration: {}", refusal.words));
    }
    let slower = if smallest.gpus > 0 { WITHOUT_GPU } else { 1.0 };
    Ok(vec![LadderRung {
        gpus: 0,
        node_labels: Json(BTreeMap::new()),
        layout: Json(layout),
        ns_per_day_p10: smallest.ns_per_day_p10 * slower,
        ns_per_day_p50: smallest.ns_per_day_p50 * slower,
        ns_per_day_p90: smallest.ns_per_day_p90,
        hours_to_finish: smallest.hours_to_finish.map(|hours| hours / slower),
        reason: "one rank on the CPU, since mdrun refuses all others".to_owned(),
        ..smallest
    }])
}
