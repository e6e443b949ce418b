//! The supervisor: the program that a pool can put in front of a workload, and what it reports.

use jiff::{SignedDuration, Timestamp};
pub use scavenger_vocabulary::{Supervision, supervisor::Stop};
use serde::{Deserialize, Serialize};

use super::{Key, Name};

/// The supervisor of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervisor {
    /// Image that has the program.
    pub image: Name,
    /// Secrets with which it is pulled.
    pub image_pull_secrets: Vec<Name>,
    /// True if ScavengerJobs that do not say so run under it.
    pub by_default: bool,
}

/// What a ScavengerJob says about the supervisor, as far as the rules need it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisionSpec {
    /// Whether it is to run under the supervisor; none if that is the pool's choice.
    pub enabled: Option<bool>,
    /// True if it names its command, which the supervisor is put in front of.
    pub has_command: bool,
    /// True if it names the path of its checkpoints.
    pub names_checkpoint: bool,
    /// True if it writes a checkpoint when it is asked for one.
    pub can_be_asked: bool,
    /// The pod whose checkpoints count.
    pub rank: Rank,
}

/// The pods of a gang whose checkpoints count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rank {
    /// Every pod has its own: the oldest of them counts, once all have written one.
    #[default]
    Oldest,
    /// The pod with this index.
    One(u32),
}

impl Rank {
    /// True if the checkpoints of a pod with this index count.
    #[must_use]
    pub fn counts(self, index: Option<u32>) -> bool {
        match self {
            Self::Oldest => true,
            Self::One(rank) => index == Some(rank),
        }
    }
}

/// The wish that a workload write a checkpoint now, since its interruption is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRequest {
    /// UIDs of its pods.
    pub pods: Vec<Name>,
    /// When its interruption was decided: a checkpoint after that answers.
    pub since: Timestamp,
}

/// Whether an attempt runs under the supervisor: condition Supervised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervised {
    /// Why it does, or does not.
    pub why: Supervision,
    /// The same as a message.
    pub message: String,
    /// Since when that is so.
    pub since: Timestamp,
}

/// Whether a workload writes a checkpoint when it is told to stop, as its attempts showed: condition SavesOnSigterm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSaves {
    /// What the last attempt that showed it did.
    pub saves: bool,
    /// The same as a message.
    pub message: String,
    /// Since when that is so.
    pub since: Timestamp,
}

/// What was found out about the work of one attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// When it wrote its last checkpoint.
    pub last_checkpoint: Option<Timestamp>,
    /// Run time after its last checkpoint; none if that is not known.
    pub lost: Option<SignedDuration>,
    /// What the planner expected it to lose when it was taken away.
    pub expected: Option<SignedDuration>,
    /// Whether it wrote a checkpoint after it was told to stop; none if it was not, or if that is not known.
    pub answered_sigterm: Option<bool>,
}

impl Measured {
    /// True if anything was found out once the attempt had ended.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.lost.is_some() || self.last_checkpoint.is_some() || self.answered_sigterm.is_some()
    }
}

/// What the supervisor of one pod reports while the workload runs. The endpoint that receives it knows the pod by its token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveReport {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod. A report for another pod of that name is void.
    pub uid: Name,
    /// When the newest checkpoint was written, by the clock of the one who received the report: its age taken off the time
    /// of receipt. None before the first one.
    pub checkpoint: Option<Timestamp>,
    /// How far the workload has come, from 0 to 1, if it says so.
    pub progress: Option<f64>,
}

/// What the supervisor of one pod left when its workload had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct EndReport {
    /// When the newest checkpoint was written, not before the container started nor after it ended; none if there was
    /// none.
    pub checkpoint: Option<Timestamp>,
    /// How far the workload has come, from 0 to 1, if it says so.
    pub progress: Option<f64>,
    /// Whether it was told to stop, and what it did then.
    pub stop: Stop,
}
