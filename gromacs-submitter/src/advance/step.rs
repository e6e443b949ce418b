//! What a rule decides: one step.

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, RowStatus};
use scavenger_schema::tuning::{PredictRequest, SystemDescription};

use super::attempt::AttemptRecord;
use super::clock::later;
use super::observation::Observation;
use super::seen::Input;
use crate::manifest::Probe;
use crate::probe::Inspection;

/// How often a row is looked at although no event asked for it: heals whatever an event should have told.
pub(super) const HEAL_INTERVAL: Duration = Duration::from_secs(30);

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
    /// Makes that of a command.
    CreateCommand,
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
            Self::CreateJob(_) | Self::CreateCommand => "create_job",
            Self::ReplaceJob { .. } => "replace_job",
            Self::SuspendJob { .. } => "suspend_job",
            Self::ResumeJob { .. } => "resume_job",
            Self::DeleteJob { .. } => "delete_job",
        }
    }
}

/// The configuration that mdrun refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its rung.
    pub rung: i32,
    /// Why, in mdrun's words.
    pub words: String,
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

pub(super) fn record(status: RowStatus) -> Step {
    step(Action::Record, status)
}

pub(super) fn act(action: Action, row: &GromacsToTune) -> Step {
    step(action, row.status.clone())
}

/// Nothing to do until the next event; `reason` if the row shall say something new.
pub(super) fn settle(status: RowStatus, reason: Option<String>, input: &Input<'_>) -> Step {
    settle_until(status, reason, later(input.now, HEAL_INTERVAL))
}

pub(super) fn settle_until(status: RowStatus, reason: Option<String>, time: Timestamp) -> Step {
    let reason = reason.or_else(|| status.reason.clone());
    step(Action::Settle, RowStatus { reason, failures: 0, next_attempt_time: time.into(), ..status })
}
