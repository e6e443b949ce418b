//! What pods really use, as metrics.k8s.io serves it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Key;

/// What one pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUsage {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// When it was measured.
    pub time: Timestamp,
    /// The mean over the time before that, usually 15 s, in millicores.
    pub cpu_milli: i64,
    /// Working set, in bytes.
    pub memory_bytes: i64,
}

/// What the pods of one attempt used together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptUsage {
    /// Number of the attempt.
    pub attempt: u32,
    /// How much of its run time was measured.
    pub measured: SignedDuration,
    /// CPU, in millicores.
    pub cpu: Figures,
    /// Working set, in bytes.
    pub memory: Figures,
}

/// Mean and peak of an amount over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// The mean.
    pub mean: i64,
    /// The most that was measured.
    pub peak: i64,
}
