//! The words of a ScavengerJob's status, each spelled once: schema, operator, planner and submitter use these types.
//!
//! A word is a variant, and its name in JSON, metrics, logs and SQL is the name of the variant.
//!
//! | word | says |
//! |---|---|
//! | [`Phase`] | where a ScavengerJob is in its life |
//! | [`Outcome`] | how an attempt ended |
//! | [`WaitingReason`] | why a ScavengerJob waits |
//! | [`Reason`] | why an attempt was interrupted or ended, or why a ScavengerJob failed |
//! | [`Supervision`] | why an attempt runs under the supervisor or without it |
//! | [`Event`] | reasons of the operator's events |
//! | [`condition`], [`pool_condition`] | types of conditions |
//! | [`supervisor`] | where the supervisor's files are in a container |
//! | [`hardware`] | labels of nodes that tell which hardware they are |

/// An enum with the list of its variants, their names, and the way back from a name.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $type:ident { $($(#[$variant_meta:meta])* $variant:ident,)+ }
    ) => {
        $(#[$meta])*
        pub enum $type { $($(#[$variant_meta])* $variant,)+ }

        impl $type {
            /// Every one of them, in the order of their definition.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The name, as it is written everywhere.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            /// The one of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($variant) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.name())
            }
        }
    };
}

pub mod hardware;
mod reason;
pub mod supervisor;
mod words;

/// `1 pod`, `2 pods`.
#[must_use]
pub fn number_of(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

pub use reason::Reason;
pub use words::{Accounting, Event, Outcome, Phase, Supervision, WaitingReason};

/// Condition types of a ScavengerJob.
pub mod condition {
    /// True while an attempt exists; False carries the reason why the ScavengerJob waits.
    pub const ADMITTED: &str = "Admitted";
    /// True once the workload succeeded.
    pub const COMPLETE: &str = "Complete";
    /// True once the ScavengerJob failed for good.
    pub const FAILED: &str = "Failed";
    /// Whether the active or last attempt runs under the supervisor, and why it does not.
    pub const SUPERVISED: &str = "Supervised";
    /// False once an attempt that was told to stop wrote no checkpoint although the spec promises one; True again once an
    /// attempt writes one.
    pub const SAVES_ON_SIGTERM: &str = "SavesOnSigterm";
    /// True while the active attempt gets next to none of the processor time that it could use.
    pub const STARVED: &str = "Starved";
}

/// Condition types of a ScavengerPool.
pub mod pool_condition {
    /// True while ScavengerJobs are admitted.
    pub const READY: &str = "Ready";
    /// True while pods are pending for which nothing is interrupted, because not all of their constraints can be judged.
    pub const UNJUDGED_PODS: &str = "UnjudgedPods";
    /// False while only pressure conditions of nodes are seen, not the memory that is really used.
    pub const MEMORY_MEASURED: &str = "MemoryMeasured";
    /// False while ScavengerJobs start without the supervisor because it could not be started. Only in a pool that has one.
    pub const SUPERVISOR_STARTS: &str = "SupervisorStarts";
}
