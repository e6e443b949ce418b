//! Where the supervisor is in a pod, and what it says of a workload's end.

use serde::{Deserialize, Serialize};

/// Name of the init container that brings the program, and of the volume that it brings it to.
pub const NAME: &str = "scavenger-supervisor";

/// Where its files are mounted in the container of the workload. Nothing of the user's is mounted there.
pub const MOUNT_PATH: &str = "/.scavenger";

/// The program in the container of the workload. A runtime that cannot run it names it.
pub const PROGRAM: &str = "/.scavenger/bin/scavenger-supervisor";

/// Whether a workload was told to stop, and what it did then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// No signal to stop came.
    #[default]
    NotAsked,
    /// A checkpoint was written after the signal.
    Answered,
    /// No checkpoint was written after the signal.
    Unanswered,
    /// A signal came, and no checkpoint path is known, or none that could be read; or the checkpoint that followed can be
    /// the answer to an earlier request.
    Unknown,
}
