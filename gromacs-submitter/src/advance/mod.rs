//! What happens next to a row: a pure function of the row, what is seen of its ScavengerJobs, the pool, the settings
//! and the time.
//!
//! A step either writes to Kubernetes or to the database, never both. What a write to Kubernetes brought about is
//! recorded when the next step sees it, so a step that is repeated after a crash finds what it made and goes on.

mod blocked;
mod calibration;
mod checkpoint;
mod deadline;
mod ending;
mod finished;
mod follow;
mod growth;
mod inspecting;
mod ladder;
mod observation;
mod renewal;
mod restart;
mod start;
#[cfg(test)]
mod tests;
mod waiting;

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, Kind, LadderRung, RowStatus, State, job_name};
use scavenger_schema::tuning::{CycleTable, PredictRequest, SystemDescription};
use scavenger_vocabulary::Phase;

pub use finished::probe_left_by;
pub use follow::take_progress;
pub use growth::may_grow;
pub(crate) use ladder::hours;
pub use ladder::{Kill, NoConfiguration, beside_ordinary_pods, with_ladder};
pub use observation::{Observation, Place};
pub use renewal::{renewed, was_asked};
pub use start::{Refusal, Refused, without_refused};

use crate::manifest::{Probe, probe_name};
use crate::mdrun_log::LogFacts;
use crate::mdrun_options::MdrunOptions;
use crate::probe::Inspection;
use crate::quota::QuotaRoom;
use crate::view::{AttemptView, JobView, PoolView};

/// How often a row is looked at although no event asked for it: heals whatever an event should have told.
const HEAL_INTERVAL: Duration = Duration::from_secs(30);

/// Why nothing is done for a row.
const NO_POOL: &str = "there is no ScavengerPool \"default\"";

/// How soon another configuration is thought of after one, or the way to it, was refused.
const AFTER_REFUSAL: Duration = Duration::from_secs(300);

/// How long after its end a cancelled row is looked at once more: a submitter that stood still while another one
/// cancelled the row may have made a ScavengerJob since. No request to Kubernetes takes as long.
const SWEEP_DELAY: Duration = Duration::from_secs(600);

/// What the admin of the submitter decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a row waits for room before it falls back, unless the row says otherwise.
    pub fallback_after: Duration,
    /// How often the progress of a running row is read.
    pub progress_interval: Duration,
    /// How long the ScavengerJob of a row that has ended stays, with its log.
    pub keep_jobs: Duration,
    /// True if logs are followed. Else the newest progress may be as old as what a container runtime holds back of a log,
    /// which for slow systems is minutes.
    pub follows_logs: bool,
    /// True if the end of md.log is read after each simulation, for where the time went.
    pub reads_md_log: bool,
}

/// Everything a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The row.
    pub row: &'a GromacsToTune,
    /// The configurations of its submission.
    pub ladder: &'a [LadderRung],
    /// The probe that its state is about: inspection, or verification while `verifying`.
    pub probe: Option<&'a JobView>,
    /// The ScavengerJob of its submission.
    pub job: Option<&'a JobView>,
    /// The ScavengerJob of the submission before.
    pub previous: Option<&'a JobView>,
    /// The probe that read the checkpoint of the submission before.
    pub previous_probe: Option<&'a JobView>,
    /// The pool, if there is one.
    pub pool: Option<&'a PoolView>,
    /// What the namespace's quotas leave; read only while the operator says that one is used up, and none if the
    /// submitter may not read them.
    pub quota: Option<&'a QuotaRoom>,
    /// The log of the last attempt, or of the probe.
    pub log: &'a Log,
    /// The log of the last attempt beside that of a probe that failed.
    pub job_log: &'a Log,
    /// The image that ran the inspection, by its digest.
    pub image: Option<&'a str>,
    /// True if somebody follows the log and writes the progress down.
    pub is_followed: bool,
    /// True if another row has taken a configuration because of the room that the pool says is free.
    pub room_is_taken: bool,
    /// Memory that the running attempt uses now, bytes; none where the cluster does not measure it.
    pub memory_bytes: Option<i64>,
    /// Settings.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
}

/// The log of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Log {
    /// Nothing asked for it.
    #[default]
    NotRead,
    /// The pod or its log is gone.
    Gone,
    /// Its beginning and its end.
    Read {
        /// What mdrun says in it.
        facts: LogFacts,
        /// The text.
        text: String,
    },
}

impl Log {
    fn text(&self) -> &str {
        match self {
            Self::Read { text, .. } => text,
            Self::NotRead | Self::Gone => "",
        }
    }

    fn facts(&self) -> Option<&LogFacts> {
        match self {
            Self::Read { facts, .. } => Some(facts),
            Self::NotRead | Self::Gone => None,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Does it, or nothing.
    pub action: Action,
    /// What the row's columns shall be; written by [`Action::Record`] and [`Action::Settle`] only.
    pub status: RowStatus,
    /// What the inspection found.
    pub inspection: Option<Inspection>,
    /// Attempts to record.
    pub attempts: Vec<AttemptRecord>,
    /// What attempts that are recorded already have lost, in seconds: that is measured after their end.
    pub lost: Vec<(i32, i64)>,
    /// What these attempts measured.
    pub observations: Vec<Observation>,
    /// The configuration that mdrun refused.
    pub refused: Option<Refused>,
    /// Sets `append` to false, since the file system cannot lock files.
    pub stops_appending: bool,
    /// Takes back `cancel_requested` and `retry_requested`, and forgets what mdrun refused.
    pub clears_requests: bool,
    /// For how long the room that the pool says is free is nobody else's, since this row takes it; none if it takes none.
    /// With zero until the pool's next status, which says what is left.
    pub takes_room: Option<Duration>,
}

/// The one thing that a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Writes the row; more can be done at once.
    Record,
    /// Writes the row; nothing more until `status.next_attempt_time` or an event.
    Settle,
    /// Makes a probe's ScavengerJob.
    CreateProbe(Probe),
    /// Deletes it.
    DeleteProbe(Probe),
    /// Deletes the probe that read the checkpoint of a submission before.
    DeleteVerification {
        /// The submission.
        submission: i32,
        /// Its UID: another one of the same name is left alone.
        uid: String,
    },
    /// Asks the tuner, and records the ladder.
    AskTuner(Box<SystemDescription>),
    /// Asks the tuner after an interruption, and records what it proposes now beside what it had proposed.
    AskAgain(Box<SystemDescription>),
    /// Asks the tuner what it expects of the one configuration of a calibration, and records that as its ladder.
    Predict(Box<PredictRequest>),
    /// Makes the ScavengerJob with this rung.
    CreateJob(i32),
    /// Replaces its spec by that of a rung, if its version is still the one that was judged.
    ReplaceJob {
        /// The rung.
        rung: i32,
        /// True if the submitter has suspended it to be replaced, and it shall run again.
        resumes: bool,
        /// The version.
        resource_version: String,
    },
    /// Suspends it, if its version is still the one that was judged.
    SuspendJob {
        /// The version.
        resource_version: String,
    },
    /// Lets it run again as it is, if the submitter has suspended it and its version is still the one that was judged.
    ResumeJob {
        /// The version.
        resource_version: String,
    },
    /// Deletes the ScavengerJob of a submission.
    DeleteJob {
        /// The submission.
        submission: i32,
        /// Its UID: another one of the same name is left alone.
        uid: String,
    },
}

impl Action {
    /// Name in metrics and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Settle => "settle",
            Self::CreateProbe(_) => "create_probe",
            Self::DeleteProbe(_) | Self::DeleteVerification { .. } => "delete_probe",
            Self::AskTuner(_) => "ask_tuner",
            Self::AskAgain(_) => "ask_tuner_again",
            Self::Predict(_) => "predict",
            Self::CreateJob(_) => "create_job",
            Self::ReplaceJob { .. } => "replace_job",
            Self::SuspendJob { .. } => "suspend_job",
            Self::ResumeJob { .. } => "resume_job",
            Self::DeleteJob { .. } => "delete_job",
        }
    }
}

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
    /// Last lines of its log, if it failed.
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
    /// Where the time went, if the end of md.log was read.
    pub cycles: Option<CycleTable>,
}

/// Decides the next step of a row.
#[must_use]
pub fn advance(input: &Input<'_>) -> Step {
    let row = input.row;
    let mut step = match row.status.state {
        State::Completed | State::Failed | State::Cancelled => return finished::finished(input),
        State::Queued => queued(input),
        State::Inspecting => inspecting::inspecting(input),
        State::Tuning => tuning(input),
        State::Submitted | State::Running | State::Interrupted => follow::follow(input),
    };
    step.observations =
        step.attempts.iter().filter_map(|attempt| observation::of_attempt(attempt, input)).collect();
    step.status.blocked = blocked::is_blocked(&step.status, input);
    step.status.late_seconds = deadline::late_seconds(&step.status, input);
    let keeps = match step.status.state {
        State::Completed | State::Failed => input.settings.keep_jobs,
        State::Cancelled => SWEEP_DELAY,
        _ => return step,
    };
    step.status.job_expiry_time = Some(later(input.now, keeps).into());
    step
}

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
        grown_from: None,
        verifying: false,
        blocked: false,
        late_seconds: None,
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
    let delay = if row.status.grown_from.is_some() { Duration::ZERO } else { AFTER_REFUSAL };
    let mut status = RowStatus {
        reason: Some(format!("stays as it is; Kubernetes refuses configuration {rung}: {words}")),
        next_rung: None,
        grown_from: None,
        growth_failures: row
            .status
            .growth_failures
            .saturating_add(i32::from(row.status.grown_from.is_some())),
        next_attempt_time: later(now, delay).into(),
        ..row.status.clone()
    };
    waiting::reset_clock(&mut status);
    status
}

/// What the row becomes when its ScavengerJob may not be suspended to grow, in these `words`: it goes on as it is.
#[must_use]
pub fn without_growth(row: &GromacsToTune, words: &str, now: Timestamp) -> RowStatus {
    RowStatus {
        reason: Some(format!("stays as it is; Kubernetes refuses to suspend it: {words}")),
        next_rung: None,
        grown_from: None,
        growth_failures: row.status.growth_failures.saturating_add(1),
        next_attempt_time: later(now, AFTER_REFUSAL).into(),
        ..row.status.clone()
    }
}

/// 2 s, 4 s, 8 s ... up to 5 minutes, of which `jitter` takes away up to half.
#[must_use]
pub fn backoff(failures: i32, jitter: f64) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(10);
    let full = Duration::from_secs(2_u64 << doublings).min(Duration::from_secs(300));
    full.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
}

/// The row starts over, from its checkpoint, with a ScavengerJob of its own.
fn next_submission(row: &GromacsToTune, reason: String) -> RowStatus {
    RowStatus {
        state: State::Queued,
        reason: Some(reason),
        submission: row.status.submission.saturating_add(1),
        job_uid: None,
        rung: None,
        next_rung: None,
        grown_from: None,
        growth_failures: 0,
        laps: 0,
        next_lap_time: None,
        no_room_since: None,
        no_room_seconds: 0.0,
        attempt: 0,
        attempt_seen_time: None,
        attempts_recorded: 0,
        first_step: None,
        progress_from_step: None,
        progress_from_time: None,
        interruption_time: None,
        blocked: false,
        verifying: false,
        finish_time: None,
        failures: 0,
        peak_memory_bytes: None,
        job_expiry_time: None,
        not_before: None,
        checkpoint_step: checkpoint::saved_step(row, &row.status),
        speed_ratio: None,
        ladder_interruptions: row.status.interruptions,
        ..row.status.clone()
    }
}

fn queued(input: &Input<'_>) -> Step {
    let row = input.row;
    // One ScavengerJob at a time: the one before must be gone, and its pods with it (its finalizer sees to that).
    if let Some(previous) = input.previous.filter(|previous| previous.ours) {
        let submission = row.status.submission - 1;
        let reason = format!("waits until {} and its pods are gone", job_name(row.id, submission));
        return delete_and_wait(
            Action::DeleteJob { submission, uid: previous.uid.clone() },
            previous,
            reason,
            input,
        );
    }
    // Nobody reads it any more, and its name is of that submission: it need not be gone.
    if let Some(probe) = input.previous_probe.filter(|probe| probe.ours && !probe.deleting) {
        let submission = row.status.submission - 1;
        return act(Action::DeleteVerification { submission, uid: probe.uid.clone() }, row);
    }
    if let Some(probe) = input.probe.filter(|probe| probe.ours) {
        let reason = format!("waits until {} is gone", probe_name(row, Probe::Inspection));
        return delete_and_wait(Action::DeleteProbe(Probe::Inspection), probe, reason, input);
    }
    if row.cancel_requested {
        return cancelled(input);
    }
    if let Some(time) = row.status.not_before.map(|time| time.to_jiff()).filter(|time| *time > input.now) {
        return settle_until(row.status.clone(), None, time);
    }
    if let Err(error) = MdrunOptions::of_row(&row.mdrun_options, row.simulations()) {
        let advice = "change mdrun_options (gromacs-submitter edit), and retry";
        return fail(input, format!("{error}; {advice}"));
    }
    // The box of a calibration that is tried again is made again: nobody promised to keep it.
    let is_ready = row.is_inspected && row.kind == Kind::Simulation && !row.status.inspect_again;
    let state = if is_ready { State::Tuning } else { State::Inspecting };
    record(RowStatus { state, reason: None, ..row.status.clone() })
}

fn tuning(input: &Input<'_>) -> Step {
    let row = input.row;
    if row.cancel_requested {
        return cancel_probe(Probe::Inspection, input);
    }
    // What it found is recorded, so it is not needed any more.
    if input.probe.is_some_and(|probe| probe.ours && !probe.deleting) {
        return act(Action::DeleteProbe(Probe::Inspection), row);
    }
    let Some(pool) = input.pool else {
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
            let reason = "the number of atoms is not known; add the file again with a value for atoms";
            fail(input, reason.to_owned())
        }
    }
}

/// Nodes come and go, so the row waits.
fn no_nodes(row: &GromacsToTune) -> String {
    if row.node_labels.is_empty() {
        return "the ScavengerPool \"default\" shows no nodes (status.nodeShapes is empty)".to_owned();
    }
    let labels: Vec<String> = row.node_labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!(
        "no kind of node that the ScavengerPool \"default\" shows has the labels {} (status.nodeShapes); to run \
         elsewhere, cancel the row, change node_labels (gromacs-submitter edit), and retry",
        labels.join(", ")
    )
}

/// Cancels a row of which at most a probe may still be at work.
fn cancel_probe(kind: Probe, input: &Input<'_>) -> Step {
    match input.probe.filter(|probe| probe.ours) {
        Some(probe) => {
            let what = match kind {
                Probe::Inspection => "the inspection",
                Probe::Verification => "the reading of its checkpoint",
            };
            let reason = format!("cancel requested; waits until {what} is gone");
            delete_and_wait(Action::DeleteProbe(kind), probe, reason, input)
        }
        None => cancelled(input),
    }
}

fn cancelled(input: &Input<'_>) -> Step {
    record(RowStatus {
        state: State::Cancelled,
        reason: Some("cancelled by its owner".to_owned()),
        finish_time: Some(input.now.into()),
        no_room_since: None,
        next_rung: None,
        verifying: false,
        failures: 0,
        ..input.row.status.clone()
    })
}

fn delete_and_wait(action: Action, job: &JobView, reason: String, input: &Input<'_>) -> Step {
    if job.deleting { settle(input.row.status.clone(), Some(reason), input) } else { act(action, input.row) }
}

/// The operator's sentence, or that there is none yet.
fn said(job: &JobView) -> String {
    job.message.clone().unwrap_or_else(|| match job.phase {
        Phase::Waiting => "waits for the operator".to_owned(),
        Phase::Starting => "starts".to_owned(),
        Phase::Running => "runs".to_owned(),
        Phase::Interrupted => "was interrupted".to_owned(),
        Phase::Completed => "is complete".to_owned(),
        Phase::Failed => "failed".to_owned(),
    })
}

fn name_taken(name: &str, row: &GromacsToTune) -> String {
    format!(
        "a ScavengerJob {name} that is not this row's exists in namespace {}; delete it there and set retry_requested",
        row.namespace
    )
}

fn step(action: Action, status: RowStatus) -> Step {
    Step {
        action,
        status,
        inspection: None,
        attempts: Vec::new(),
        lost: Vec::new(),
        observations: Vec::new(),
        refused: None,
        stops_appending: false,
        clears_requests: false,
        takes_room: None,
    }
}

fn record(status: RowStatus) -> Step {
    step(Action::Record, status)
}

fn act(action: Action, row: &GromacsToTune) -> Step {
    step(action, row.status.clone())
}

fn fail(input: &Input<'_>, reason: String) -> Step {
    record(with_failure(input.row, reason, input.settings.keep_jobs, input.now))
}

/// Nothing to do until the next event; `reason` if the row shall say something new.
fn settle(status: RowStatus, reason: Option<String>, input: &Input<'_>) -> Step {
    settle_until(status, reason, later(input.now, HEAL_INTERVAL))
}

fn settle_until(status: RowStatus, reason: Option<String>, time: Timestamp) -> Step {
    let reason = reason.or_else(|| status.reason.clone());
    step(Action::Settle, RowStatus { reason, failures: 0, next_attempt_time: time.into(), ..status })
}

fn later(time: Timestamp, delay: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(delay)
        .ok()
        .and_then(|delay| time.checked_add(delay).ok())
        .unwrap_or(Timestamp::MAX)
}

fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64().max(0.0)
}
