//! What holds for any input. Cases that once failed are in `proptest-regressions/`.

mod evidence;
mod lives;
mod order;
mod room;
mod starvation;
