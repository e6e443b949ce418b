//! What happens next to a row: a pure function of the row, what is seen of its ScavengerJobs, the pool, the settings
//! and the time. Each rule stands in one place, those of a state and those that several states share:
//!
//! | question | file | function |
//! |---|---|---|
//! | What does a queued row wait for? | `queued.rs` | `queued` |
//! | What does the reading of its file say? | `inspecting.rs` | `inspecting` |
//! | When is the tuner asked for configurations? | `tuning.rs` | `tuning` |
//! | What happens while it is submitted, runs, or was interrupted? | `follow.rs` | `follow` |
//! | What happens to a row that has ended? | `finished.rs` | `finished` |
//! | What does it do while its ScavengerJob waits? | `waiting.rs` | `wait_for_room` |
//! | When does it stop to go on with more? | `growth.rs` | `intend` |
//! | When is the tuner asked again? | `renewal.rs` | `due` |
//! | What does a complete ScavengerJob mean? | `ending.rs` | `completed` |
//! | What does a failed ScavengerJob mean, and whose fault was it? | `failing.rs` | `failed` |
//! | What do the words mean with which GROMACS ends? | `../faults/mod.rs` | `of_gromacs` |
//! | On which kinds of nodes can it not run? | `elsewhere.rs` | `other_kind` |
//! | When is tried again what goes by? | `start.rs` | `again_later` |
//! | What follows if mdrun ends before the last step? | `short.rs` | `stopped_short` |
//! | Which configurations does it try? | `ladder.rs` | `with_ladder` |
//! | Which configuration would be done sooner? | `ladder.rs` | `better` |
//! | Which step has its checkpoint reached? | `checkpoint.rs` | `saved_step` |
//! | Has it lost its checkpoint? | `checkpoint.rs` | `lost` |
//! | Will it miss its deadline? | `deadline.rs` | `late_seconds` |
//! | Does it wait for something that others do not wait for? | `blocked.rs` | `is_blocked` |
//! | What does the tuner learn of an attempt? | `observation.rs` | `of_attempt` |
//! | What did the restart of an attempt cost? | `restart.rs` | `measured` |
//! | What is a restart taken to cost? | `../manifest/checkpoint.rs` | `restart_seconds` |
//! | What is different about a calibration? | `calibration.rs` | `tune` |
//! | What becomes of it if a step can be done later? | `not_done.rs` | `with_backoff` |
//! | What becomes of it if a step can never be done? | `not_done.rs` | `with_failure` |
//!
//! A step either writes to Kubernetes or to the database, never both. What a write to Kubernetes brought about is
//! recorded when the next step sees it, so a step that is repeated after a crash finds what it made and goes on.

mod blocked;
mod calibration;
mod checkpoint;
mod deadline;
mod elsewhere;
mod ending;
mod failing;
mod finished;
mod follow;
mod growth;
mod inspecting;
mod ladder;
mod not_done;
mod observation;
mod queued;
mod renewal;
mod restart;
mod seen;
mod short;
mod start;
#[cfg(test)]
mod tests;
mod tuning;
mod waiting;

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, RowStatus, State};
use scavenger_schema::tuning::{PredictRequest, SystemDescription};
use scavenger_vocabulary::Phase;

pub use elsewhere::{bound_to, count_gpus, other_kind, with_label};
pub use follow::take_progress;
pub(crate) use ladder::hours;
pub use ladder::{Kill, NoConfiguration, beside_ordinary_pods, with_ladder};
pub use not_done::{backoff, with_backoff, with_failure, with_refusal, without_growth};
pub use observation::{Observation, Place};
pub use renewal::{renewed, was_asked};
use seen::has_ended;
pub use seen::{Details, Earlier, Input, Log, LogToRead, Needs, Seen};
pub(crate) use short::MOST_SHORT_ENDS;
pub use start::{Refusal, Refused, on_one_rank, without_refused};

use crate::manifest::Probe;
use crate::probe::Inspection;
use crate::view::{AttemptView, JobView};

/// How often a row is looked at although no event asked for it: heals whatever an event should have told.
const HEAL_INTERVAL: Duration = Duration::from_secs(30);

/// Why nothing is done for a row.
const NO_POOL: &str = "there is no ScavengerPool \"default\"";

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
    /// That mdrun went on from the checkpoint before, and what it computes again; a line of the history.
    pub went_back: Option<String>,
    /// What these attempts measured.
    pub observations: Vec<Observation>,
    /// The configuration that mdrun refused.
    pub refused: Option<Refused>,
    /// Sets `append` to false, since the file system cannot lock files.
    pub stops_appending: bool,
    /// Forgets the image by its digest, which is gone: the tag says what the row goes on with.
    pub forgets_image: bool,
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

/// The rules of a state, which stand in a file of its own.
struct Rules {
    /// What is read first.
    needs: fn(&GromacsToTune, Timestamp) -> Needs,
    /// What is read then.
    details: fn(&GromacsToTune, &Seen) -> Details,
    /// What happens next.
    next: fn(&Input<'_>) -> Step,
}

fn rules_of(state: State) -> Rules {
    let nothing_more = |_: &GromacsToTune, _: &Seen| Details::default();
    match state {
        State::Queued => Rules { needs: queued::needs, details: nothing_more, next: queued::queued },
        State::Inspecting => {
            Rules { needs: inspecting::needs, details: inspecting::details, next: inspecting::inspecting }
        }
        State::Tuning => Rules { needs: tuning::needs, details: tuning::details, next: tuning::tuning },
        State::Submitted | State::Running | State::Interrupted => {
            Rules { needs: follow::needs, details: follow::details, next: follow::follow }
        }
        State::Completed | State::Failed | State::Cancelled => {
            Rules { needs: finished::needs, details: nothing_more, next: finished::finished }
        }
    }
}

/// What is read first for a row: what its state is about, and nothing else.
#[must_use]
pub fn needs(row: &GromacsToTune, now: Timestamp) -> Needs {
    (rules_of(row.status.state).needs)(row, now)
}

/// What is read then, given the configurations and the ScavengerJobs in `seen`.
#[must_use]
pub fn details(row: &GromacsToTune, seen: &Seen) -> Details {
    (rules_of(row.status.state).details)(row, seen)
}

/// Decides the next step of a row.
#[must_use]
pub fn advance(input: &Input<'_>) -> Step {
    let state = input.row.status.state;
    let mut step = (rules_of(state).next)(input);
    if state.is_final() {
        return step;
    }
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

/// Cancels a row of which at most a probe may still be at work.
fn cancel_probe(kind: Probe, input: &Input<'_>) -> Step {
    match input.probe().filter(|probe| probe.ours) {
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

/// Deletes the ScavengerJob of the row's submission, if it is still this one.
fn delete_job(row: &GromacsToTune, job: &JobView) -> Action {
    Action::DeleteJob { submission: row.status.submission, uid: job.uid.clone() }
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
        went_back: None,
        observations: Vec::new(),
        refused: None,
        stops_appending: false,
        forgets_image: false,
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
