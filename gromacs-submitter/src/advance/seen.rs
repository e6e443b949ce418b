//! What a decision rests on: what is read for a row, and what is seen of it.
//!
//! Each state says what it needs in two steps: first its ScavengerJobs, then what these make worth reading.

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{GromacsToTune, LadderRung};
use scavenger_vocabulary::Phase;

use crate::faults::Failure;
use crate::manifest::Probe;
use crate::mdrun_log::LogFacts;
use crate::quota::QuotaRoom;
use crate::view::{JobView, PoolView};

/// What is read first for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The configurations of its submission.
    pub ladder: bool,
    /// The ScavengerJob of its submission.
    pub job: bool,
    /// That of the submission before, and that of the probe that read its checkpoint.
    pub previous: bool,
    /// That of a probe.
    pub probe: Option<Probe>,
}

impl Needs {
    pub(super) fn probe(probe: Probe) -> Self {
        Self { probe: Some(probe), ..Self::default() }
    }
}

/// What is read then, given what its ScavengerJobs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Details {
    /// A log, and what it goes with.
    pub log: Option<LogToRead>,
    /// Also the log of the job, beside that of the probe.
    pub job_log: bool,
    /// The pool.
    pub pool: bool,
    /// What the namespace's quotas leave.
    pub quota: bool,
    /// The image that ran the probe.
    pub image: bool,
    /// What a restart of the row costs, as it was measured.
    pub restart: bool,
    /// How its newest submissions before this one ended.
    pub earlier: bool,
    /// Where its attempts failed, and why.
    pub failures: bool,
}

/// A log that is worth reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogToRead {
    /// Beginning and end of that of the probe, which has ended.
    OfProbe,
    /// Beginning and end of that of the job, which has ended.
    OfJob,
    /// That of the attempt that runs, and how much memory it uses.
    OfRunning {
        /// Its number.
        attempt: i32,
        /// True if its first step is known: from then on its log can be followed instead.
        knows_start: bool,
    },
}

/// True if the log of a ScavengerJob of the row grows no more.
pub(super) fn has_ended(job: Option<&JobView>) -> bool {
    job.is_some_and(|job| job.ours && matches!(job.phase, Phase::Completed | Phase::Failed))
}

/// What is seen of the outside. What was not asked for is not seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// What was read first.
    pub needs: Needs,
    /// The configurations of its submission that are tried.
    pub ladder: Vec<LadderRung>,
    /// Those that are not tried any more.
    pub replaced: Vec<LadderRung>,
    /// The probe that its state is about: inspection, or verification while `verifying`.
    pub probe: Option<JobView>,
    /// The ScavengerJob of its submission.
    pub job: Option<JobView>,
    /// The ScavengerJob of the submission before.
    pub previous: Option<JobView>,
    /// The probe that read the checkpoint of the submission before.
    pub previous_probe: Option<JobView>,
    /// The pool, if there is one.
    pub pool: Option<PoolView>,
    /// What the namespace's quotas leave; read only while the operator says that one is used up, and none if the
    /// submitter may not read them.
    pub quota: Option<QuotaRoom>,
    /// The log of the last attempt, or of the probe.
    pub log: Log,
    /// The log of the last attempt beside that of a probe that failed.
    pub job_log: Log,
    /// The image that ran the inspection, by its digest.
    pub image: Option<String>,
    /// True if somebody follows the log and writes the progress down.
    pub is_followed: bool,
    /// True if another row has taken a configuration because of the room that the pool says is free.
    pub room_is_taken: bool,
    /// How its newest submissions before this one ended, the newest first.
    pub earlier: Vec<Earlier>,
    /// Its newest attempts that failed, the newest first.
    pub failures: Vec<Failure>,
    /// Seconds that a restart of the row costs; none if nobody has measured one.
    pub restart_seconds: Option<i32>,
    /// Memory that the running attempt uses now, bytes; none where the cluster does not measure it.
    pub memory_bytes: Option<i64>,
}

/// How a submission ended.
#[derive(Debug, Clone, Copy, PartialEq, sqlx::FromRow)]
pub struct Earlier {
    /// True if mdrun ended it without an error, before its last step.
    pub is_short: bool,
    /// Seconds that its attempts ran, all together.
    pub seconds: f64,
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
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Read { text, .. } => text,
            Self::NotRead | Self::Gone => "",
        }
    }

    pub(super) fn facts(&self) -> Option<&LogFacts> {
        match self {
            Self::Read { facts, .. } => Some(facts),
            Self::NotRead | Self::Gone => None,
        }
    }
}

/// Everything a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The row.
    pub row: &'a GromacsToTune,
    /// What is seen of the outside.
    pub seen: &'a Seen,
    /// Settings.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
}

impl<'a> Input<'a> {
    pub(super) fn ladder(&self) -> &'a [LadderRung] {
        &self.seen.ladder
    }

    pub(super) fn probe(&self) -> Option<&'a JobView> {
        self.seen.probe.as_ref()
    }

    pub(super) fn job(&self) -> Option<&'a JobView> {
        self.seen.job.as_ref()
    }

    pub(super) fn pool(&self) -> Option<&'a PoolView> {
        self.seen.pool.as_ref()
    }

    pub(super) fn log(&self) -> &'a Log {
        &self.seen.log
    }
}

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

/// True if a person has suspended it.
pub(super) fn is_held(job: &JobView) -> bool {
    job.suspended && !job.suspended_to_grow
}
