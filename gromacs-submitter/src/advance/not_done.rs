//! What a row becomes when a step could not be done.

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, PrivateState, RowStatus, State};

use super::clock::{later, reset_clock};

/// How soon another configuration is thought of after one, or the way to it, was refused.
const AFTER_REFUSAL: Duration = Duration::from_secs(300);

/// What the row becomes when a step cannot be done for good. What is left of it in the cluster is removed at
/// `job_expiry_time`.
#[must_use]
pub fn with_failure(row: &GromacsToTune, reason: String, keep_jobs: Duration, now: Timestamp) -> RowStatus {
    RowStatus {
        job_expiry_time: Some(later(now, keep_jobs).into()),
        state: State::Failed,
        reason: Some(reason),
        finish_time: Some(now.into()),
        next_rung: None,
        blocked: false,
        late_seconds: None,
        private: PrivateState { grown_from: None, verifying: false, ..row.status.private.clone() },
        ..row.status.clone()
    }
}

/// What the row becomes when a step could not be done now. `jitter` between 0 and 1 spreads the rows that failed
/// together.
#[must_use]
pub fn with_backoff(row: &GromacsToTune, reason: String, jitter: f64, now: Timestamp) -> RowStatus {
    let failures = row.status.failures.saturating_add(1);
    // Why a row ended stays, whatever comes up when its remains are removed.
    let reason = if row.status.state.is_final() { row.status.reason.clone() } else { Some(reason) };
    RowStatus {
        reason,
        failures,
        next_attempt_time: later(now, backoff(failures, jitter)).into(),
        ..row.status.clone()
    }
}

/// What the row becomes when its ScavengerJob cannot have another configuration, since the API server refuses that one
/// in these `words`: it goes on with the one it has. One that was stopped to grow is resumed at once.
#[must_use]
pub fn with_refusal(row: &GromacsToTune, rung: i32, words: &str, now: Timestamp) -> RowStatus {
    let was_stopped = row.status.private.grown_from.is_some();
    let delay = if was_stopped { Duration::ZERO } else { AFTER_REFUSAL };
    let what = format!("configuration {rung}");
    let mut status = as_it_is(row, &what, words, was_stopped, later(now, delay));
    reset_clock(&mut status);
    status
}

/// What the row becomes when its ScavengerJob may not be suspended to grow, in these `words`: it goes on as it is.
#[must_use]
pub fn without_growth(row: &GromacsToTune, words: &str, now: Timestamp) -> RowStatus {
    as_it_is(row, "to suspend it", words, true, later(now, AFTER_REFUSAL))
}

/// The row goes on as it is, since Kubernetes refuses `what`; with one more growth that came to nothing, if it is about one.
fn as_it_is(row: &GromacsToTune, what: &str, words: &str, was_to_grow: bool, again: Timestamp) -> RowStatus {
    let private = &row.status.private;
    RowStatus {
        reason: Some(format!("stays as it is; Kubernetes refuses {what}: {words}")),
        next_rung: None,
        next_attempt_time: again.into(),
        private: PrivateState {
            grown_from: None,
            growth_failures: private.growth_failures.saturating_add(i32::from(was_to_grow)),
            ..private.clone()
        },
        ..row.status.clone()
    }
}

/// 2 s, 4 s, 8 s ... up to 5 minutes. `jitter` takes away up to half of that.
#[must_use]
pub fn backoff(failures: i32, jitter: f64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(10);
    let full = Duration::from_secs(2_u64 << doublings).min(Duration::from_secs(300));
    full.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
}
