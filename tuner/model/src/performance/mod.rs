//! How long one step takes.
//!
//! Work is divided among cores; what does not shrink with cores (threads that wait for each other, halos,
//! transposes of the PME grid, latency) is added. The form is physics; the few factors in [`Constants`] are
//! fitted over all measured machines at once, so that a machine that was never measured is predicted by its
//! class alone.

mod constants;
mod cpu;
mod gpu;

pub use constants::Constants;
pub use cpu::{CpuParts, parts as cpu_parts};

use crate::hardware::{CpuClass, GpuClass};
use crate::system::System;
use crate::work::Work;

/// A layout on a node of given hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Ranks in all, PME ranks included.
    pub ranks: f64,
    /// Threads per rank.
    pub threads: f64,
    /// Ranks for PME alone.
    pub npme: f64,
    /// Cores in all; may be a part of one.
    pub cores: f64,
    /// Threads per core.
    pub smt: f64,
    /// Share of the cores of its node that work, those of other pods included: decides the clock.
    pub busy: f64,
    /// Share of the cores of its node that it has itself.
    pub share: f64,
    /// What is used of GPUs.
    pub gpu: Option<GpuPlacement>,
}

/// The part of a placement that is on GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuPlacement {
    /// Product.
    pub class: &'static GpuClass,
    /// How many.
    pub count: f64,
    /// PME is there.
    pub pme: bool,
    /// Bonded interactions are there.
    pub bonded: bool,
    /// Update and constraints are there.
    pub update: bool,
}

/// Where the seconds of a step go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// Pair interactions.
    pub pair: f64,
    /// PME without communication.
    pub pme: f64,
    /// Bonded, constraints, update.
    pub other: f64,
    /// What does not shrink with cores.
    pub overhead: f64,
    /// The whole step. Less than the sum where parts overlap.
    pub total: f64,
}

impl StepTime {
    /// The same with all times multiplied by a factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            pair: self.pair * factor,
            pme: self.pme * factor,
            other: self.other * factor,
            overhead: self.overhead * factor,
            total: self.total * factor,
        }
    }

    /// Share that one of its times has in their sum.
    pub(crate) fn share(&self, time: f64) -> f64 {
        time / (self.pair + self.pme + self.other + self.overhead)
    }
}

/// Time of one step of `system`, whose work was counted before.
#[must_use]
pub fn step_time(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    constants: &Constants,
) -> StepTime {
    match place.gpu {
        None => cpu::parts(system, work, cpu, place, constants).step(),
        Some(gpu) => gpu::step(system, work, cpu, place, &gpu, constants),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    fn seconds(atoms: u64, place: &Placement) -> StepTime {
        let system = System::check(&water(atoms)).expect("water should be accepted");
        let cpu = CpuClass::by_key("zen2").expect("Zen 2 should be in the table");
        step_time(&system, &Work::of(&system), cpu, place, &Constants::FITTED)
    }

    fn cores(ranks: f64, threads: f64) -> Placement {
        Placement {
            ranks,
            threads,
            npme: 0.0,
            cores: ranks * threads,
            smt: 1.0,
            busy: 1.0,
            share: ranks * threads / 64.0,
            gpu: None,
        }
    }

    #[test]
    fn half_a_core_takes_twice_as_long() {
        let whole = seconds(3000, &cores(1.0, 1.0));
        let half = seconds(3000, &Placement { cores: 0.5, ..cores(1.0, 1.0) });
        assert!((half.total / whole.total - 2.0).abs() < 0.01);
    }

    #[test]
    fn more_cores_are_faster_until_overhead_eats_them() {
        let one = seconds(1_000_000, &cores(1.0, 1.0)).total;
        let many = seconds(1_000_000, &cores(64.0, 1.0)).total;
        assert!((30.0..64.0).contains(&(one / many)), "{}", one / many);
        let small = seconds(3000, &cores(1.0, 1.0)).total / seconds(3000, &cores(16.0, 1.0)).total;
        assert!(small < 14.0, "{small}");
    }
}
