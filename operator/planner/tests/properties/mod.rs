//! What holds for any input. Cases that once failed are in `proptest-regressions/`.

mod evidence;
mod headroom;
mod lives;
mod order;
mod preemption;
mod room;
mod starvation;
