//! What forecasts of starts come to: each forecast that a run allows, beside the start that followed.

mod command;
mod history;
mod judge;
mod print;

pub use command::{Options, run};
pub use history::{History, Wait};
pub use judge::{Count, Coverage};
