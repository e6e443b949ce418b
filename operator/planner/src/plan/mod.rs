//! The planner as a whole: what is seen goes in, and each plan brings together what the others know.

mod admission;
mod answers;
pub mod check;
pub mod guard;
mod observe;
