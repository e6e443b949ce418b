//! What `scavenger-operator`, `scavenger-tuner` and `gromacs-submitter` share as processes: how they log, how they are asked
//! for their health and metrics, how they stop, and how they end.
//!
//! What they share as parts of one system (CRDs, messages, tables) is in `scavenger-schema`. The supervisor uses neither
//! an async runtime nor this crate: it is copied into every pod.

pub mod completions;
pub mod exit;
pub mod logging;
pub mod metrics;
#[cfg(any(test, feature = "fixtures"))]
pub mod metrics_page;
#[cfg(feature = "kubernetes")]
pub mod objects;
pub mod output;
pub mod probes;
pub mod server;
pub mod signal;
