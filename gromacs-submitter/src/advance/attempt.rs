//! What is written down of an attempt.

use scavenger_schema::simulation::{GromacsToTune, RowStatus};

use super::seen::Input;
use crate::mdrun_log::LogFacts;
use crate::view::AttemptView;

/// An attempt and what its log said.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// What the ScavengerJob's status says.
    pub view: AttemptView,
    /// Step at which it started.
    pub first_step: Option<i64>,
    /// Last step seen.
    pub last_step: Option<i64>,
    /// What it measured.
    pub measured: Option<Measurement>,
    /// Most memory it was seen to use, bytes.
    pub peak_memory_bytes: Option<i64>,
    /// Last lines of its log, if it failed or ended before the last step; without a log, words that say so.
    pub log_end: Option<String>,
    /// Seconds from when it was first seen to its first step, if that was seen.
    pub restart_seconds: Option<i32>,
}

impl AttemptRecord {
    /// What the ScavengerJob's status says, and no more.
    #[must_use]
    pub fn of(view: &AttemptView) -> Self {
        Self {
            view: view.clone(),
            first_step: None,
            last_step: None,
            measured: None,
            peak_memory_bytes: None,
            log_end: None,
            restart_seconds: None,
        }
    }
}

/// How fast an attempt was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// Speed in ns of simulated time per day.
    pub ns_per_day: f64,
    /// Steps it was measured over.
    pub steps: i64,
    /// Wall time it was measured over.
    pub wall_seconds: f64,
}

/// What was seen of an attempt while it ran: the row's status, if its logs are followed and this attempt is the one that the
/// status is about.
pub(super) fn followed<'s>(
    status: &'s RowStatus,
    attempt: &AttemptView,
    input: &Input<'_>,
) -> Option<&'s RowStatus> {
    Some(status).filter(|status| input.settings.follows_logs && attempt.number == status.attempt)
}

/// What a log that mdrun ended tells; none for a run that had nothing left to do.
pub(super) fn measurement(
    row: &GromacsToTune,
    facts: &LogFacts,
    first_step: Option<i64>,
    last_step: i64,
) -> Option<Measurement> {
    // Time and speed speak of what came after the counters were reset.
    let reset_step = row.benchmark().map_or(0, |benchmark| benchmark.reset_step());
    let steps = last_step.checked_sub(first_step?.max(reset_step)).filter(|steps| *steps > 0)?;
    let (ns_per_day, wall_seconds) = facts.ns_per_day.zip(facts.wall_seconds)?;
    Some(Measurement { ns_per_day, steps, wall_seconds })
}

/// The peak in the row is that of the attempt that it speaks of.
pub(super) fn peak_of_last(status: &RowStatus, attempt: Option<&AttemptView>) -> Option<i64> {
    status.peak_memory_bytes.filter(|_| attempt.is_some_and(|attempt| attempt.number == status.attempt))
}
