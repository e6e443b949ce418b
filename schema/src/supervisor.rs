//! What the custom resources say about the supervisor: the program that runs as process 1 of a ScavengerJob's container.

pub use scavenger_vocabulary::supervisor::{MOUNT_PATH, NAME, PROGRAM};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::form;

/// The supervisor of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSupervisor {
    /// Image that has the program as `/scavenger-supervisor`. Every node of the pool pulls it, into whatever namespace a
    /// ScavengerJob is.
    #[schemars(length(min = 1, max = form::IMAGE.longest), regex(pattern = form::IMAGE.pattern))]
    pub image: String,

    /// Names of the Secrets with which the image is pulled. They must exist in the namespaces of the ScavengerJobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = form::NAME.longest), regex(pattern = form::NAME.pattern)))]
    pub image_pull_secrets: Vec<String>,

    /// Whether ScavengerJobs that do not say so run under the supervisor: "On" (default) or "Off", in quotes, since YAML takes
    /// the bare words for true and false.
    #[serde(default)]
    pub default: Switch,
}

/// On or off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Switch {
    /// On.
    #[default]
    On,
    /// Off.
    Off,
}

/// What a ScavengerJob wants of the supervisor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobSupervisor {
    /// True runs the workload under the supervisor, false without it; the pool's default if not given. The supervisor needs
    /// `command`, and a pool with `spec.supervisor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// Which processes get SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalRule>,
}

/// Which processes of the workload get a signal. SIGTERM is sent to each process once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignalRule {
    /// Child (default): the command; if that is a shell, what the shell runs. Leaves: every process without children. All:
    /// every process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Recipients>,

    /// Only processes whose command line matches this regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub process: Option<String>,
}

/// Which processes get a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Recipients {
    /// The command; if that is a shell, what the shell runs.
    Child,
    /// Every process without children.
    Leaves,
    /// Every process.
    All,
}

impl Recipients {
    /// The word that the supervisor's flag `--signal-to` takes.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Leaves => "leaves",
            Self::All => "all",
        }
    }
}

/// How a workload can be asked for a checkpoint: by a signal, or by a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointRequest {
    /// Signal on which it writes a checkpoint and goes on. It goes to the same processes as SIGTERM, except for those that
    /// have no handler for it, which it would end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<RequestSignal>,

    /// Command that has it write a checkpoint and go on, for example `[touch, /data/write-now]`. It runs in the workload's
    /// container, as the same user. It need not wait for the checkpoint, which is seen at `path`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), inner(length(max = 1024)))]
    pub command: Vec<String>,
}

/// A signal that asks for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RequestSignal {
    /// SIGHUP.
    HUP,
    /// SIGUSR1.
    USR1,
    /// SIGUSR2.
    USR2,
}

impl RequestSignal {
    /// The word that the supervisor's flag `--request-signal` takes.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::HUP => "HUP",
            Self::USR1 => "USR1",
            Self::USR2 => "USR2",
        }
    }
}
