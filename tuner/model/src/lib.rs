//! Predicts how fast GROMACS runs on which resources, and builds the ladder of configurations.
//!
//! Pure: no client, clock, file or log. The order of reading:
//!
//! | module | from | to |
//! |---|---|---|
//! | [`system`] | a request's system | a checked [`system::System`] |
//! | [`hardware`] | node labels, `/proc/cpuinfo` | hardware classes with their speeds and sources |
//! | [`work`] | a system | operations per step |
//! | [`layout`] | ranks, threads, GPUs | what mdrun accepts, or a typed refusal |
//! | [`npme`] | a number of ranks | how many of them mdrun gives to PME |
//! | [`performance`] | work, hardware, layout | time per step |
//! | [`memory`] | system, layout | peak memory and what to request |
//! | [`learn`] | measured runs | corrections and narrower intervals |
//! | [`model`] | all of these | speeds with an interval |
//! | [`calibrate`] | a kind of node | the benchmarks that tell most about it |
//! | [`ladder`] | a request | the ordered configurations |
//! | [`description`] | a model | what it knows of each class, for people |
//! | [`text`] | a number | the same for people |

pub mod calibrate;
pub mod description;
pub mod error;
pub mod hardware;
pub mod interval;
pub mod ladder;
pub mod layout;
pub mod learn;
pub mod memory;
pub mod model;
pub mod npme;
pub mod performance;
pub mod system;
pub mod text;
pub mod work;

pub use error::{FieldError, TuneError};
pub use model::Model;
