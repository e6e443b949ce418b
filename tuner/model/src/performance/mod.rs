//! How long one step takes.
//!
//! Work is divided among cores; what does not shrink with cores (threads that wait for each other, halos,
//! transposes of the PME grid, latency) is added. The form is physics; the few factors in [`Constants`] are
//! fitted over all measured machines at once, so that a machine that was never measured is predicted by its
//! class alone. The step is kept in its [`Part`]s: what a measured run teaches, it teaches the parts that took
//! the time ([`crate::learn`]).

mod constants;
mod cpu;
mod gpu;
mod parts;

pub use constants::Constants;
pub use parts::{Overlap, Part, Parts, PerPart, Total};

use crate::hardware::{CpuClass, GpuClass};
use crate::system::System;
use crate::work::Work;

/// A layout on given hardware, over one or several nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Nodes.
    pub nodes: f64,
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
    /// Share of the cores of its nodes that work, those of other pods included: decides the clock.
    pub busy: f64,
    /// Share of the cores of its nodes that it has itself.
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
    /// The same in finer parts.
    pub parts: Parts,
    /// Share of the whole that each of them has.
    pub shares: PerPart,
    /// Share of the clock that is boost.
    pub boost: f64,
}

impl StepTime {
    /// The step that these parts make.
    #[must_use]
    pub fn new(parts: Parts, boost: f64) -> Self {
        let Total { seconds, shares } = parts.total();
        let of = |part: Part| {
            let part = part as usize;
            parts.first[part] + parts.second[part] + parts.after[part]
        };
        let work = [Part::Pair, Part::Spread, Part::Mesh, Part::Other, Part::Host].map(of);
        let all: f64 = [parts.first, parts.second, parts.after].iter().flatten().sum();
        let [pair, spread, mesh, other, host] = work;
        Self {
            pair,
            pme: spread + mesh,
            other: other + host,
            overhead: all - work.iter().sum::<f64>(),
            total: seconds,
            parts,
            shares,
            boost,
        }
    }

    /// The same with all parts times a factor.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            pair: self.pair * factor,
            pme: self.pme * factor,
            other: self.other * factor,
            overhead: self.overhead * factor,
            total: self.total * factor,
            parts: self.parts.scaled(factor),
            ..*self
        }
    }

    /// Share of the step that is overhead, 0 to 1: the more, the less the prediction is worth.
    #[must_use]
    pub fn overhead_share(&self) -> f64 {
        let work = [Part::Pair, Part::Spread, Part::Mesh, Part::Other, Part::Host];
        1.0 - work.iter().map(|part| self.shares[*part as usize]).sum::<f64>()
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
    let (parts, boost) = step_parts(system, work, cpu, place, constants);
    StepTime::new(parts, boost)
}

/// The parts of one step, and the share of the clock that is boost: for comparing many layouts.
#[must_use]
pub fn step_parts(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    constants: &Constants,
) -> (Parts, f64) {
    match place.gpu {
        None => cpu::step(system, work, cpu, place, constants),
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
            nodes: 1.0,
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

    #[test]
    fn the_overhead_share_grows_with_cores() {
        let few = seconds(30_000, &cores(2.0, 1.0)).overhead_share();
        let many = seconds(30_000, &cores(64.0, 1.0)).overhead_share();
        assert!(few < many && many < 1.0);
    }
}
