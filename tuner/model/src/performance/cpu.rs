//! A step on CPUs.

use super::{Constants, Placement, StepTime};
use crate::hardware::CpuClass;
use crate::system::System;
use crate::work::Work;

/// Reference cycles of a step that do not depend on the system: calls, timers, checks of signals, the state of the thermostat.
/// One molecule in an empty box shows them (`tuner/data/settings.csv`).
const STEP_CYCLES: f64 = 15_000.0;
/// Transposes of the PME grid per step: two forth, two back.
const TRANSPOSES: f64 = 4.0;
/// Largest factor on the volume of the cut-off that mdrun's tuning of PME goes to: 1.4 in its radius.
const MOST_TUNED: f64 = 2.7;
/// Sockets of a server.
const SOCKETS: f64 = 2.0;

/// How fast the cores of a placement work.
pub(super) struct Speed {
    /// Clock in Hz.
    pub clock: f64,
    /// Counted cycles per second of one core.
    pub reference: f64,
    /// Cores, hardware threads counted as what they add.
    pub cores: f64,
    /// Relative loss of a rank whose threads share a cache.
    pub loss: f64,
}

impl Speed {
    pub(super) fn of(cpu: &CpuClass, place: &Placement, constants: &Constants) -> Self {
        // The simulation is on one socket as long as it fits, and other work on all of them.
        let own = (SOCKETS * place.share).min(1.0);
        let others = (place.busy - place.share).max(0.0) / (1.0 - place.share).max(1e-9);
        let busy = own + (1.0 - own) * others.min(1.0);
        // All cores of a socket together have the power that they need at the clock of all, and each takes the cube of its own.
        let boosted = cpu.clock_ghz / busy.max(1e-3).cbrt();
        let clock = boosted.min(cpu.boost_ghz).max(cpu.clock_ghz);
        let per_rank = (place.cores / place.ranks).max(1.0);
        Self {
            clock: clock * 1e9,
            reference: clock * 1e9 * cpu.ipc,
            cores: place.cores * (1.0 + constants.smt * place.smt.log2()),
            loss: constants.thread * (per_rank - 1.0) / cpu.cache_cores,
        }
    }
}

/// The seconds of a step on CPUs. Ranks for PME alone, if there are any, work beside those of the domains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuParts {
    /// Pair interactions.
    pub pair: f64,
    /// Bonded interactions, constraints, update, pair search.
    pub other: f64,
    /// Exchange of atoms between domains.
    pub halo: f64,
    /// Cores that wait for the slowest of them, for imbalance of the domains, too.
    pub waiting: f64,
    /// What one thread of a rank does while the others wait.
    pub serial: f64,
    /// PME spread and gather.
    pub spread: f64,
    /// PME FFT and solve.
    pub mesh: f64,
    /// Cores that wait for the slowest of them in PME.
    pub mesh_waiting: f64,
    /// Transposes of the PME grid.
    pub transpose: f64,
    /// Atoms on their way to the ranks of PME and back.
    pub redistribution: f64,
    /// What follows all that: barriers, the fixed cost of a step, output.
    pub after: f64,
    /// True if some ranks are for PME alone.
    pub apart: bool,
}

impl CpuParts {
    /// The step that they make.
    #[must_use]
    pub fn step(&self) -> StepTime {
        let domains = self.pair + self.other + self.halo + self.waiting + self.serial;
        let movable = self.mesh + self.transpose;
        let grid = self.spread + movable + self.mesh_waiting + self.redistribution;
        let both = if self.apart { beside(domains, self.pair, grid, movable) } else { domains + grid };
        let (pair, pme, other) = (self.pair, self.spread + self.mesh, self.other);
        let overhead = domains + grid + self.after - (pair + pme + other);
        StepTime { pair, pme, other, overhead, total: both + self.after }
    }
}

/// Time of domains and PME ranks beside each other, after mdrun's tuning of PME.
///
/// While the PME ranks are the slower ones it makes the cut-off longer and the grid coarser by the same factor: with `u` the
/// volume of the cut-off relative to the input, `pair` grows as u and the `movable` part of PME shrinks as 1/u. It never makes
/// the cut-off shorter, so PME ranks that have too little to do stay idle.
fn beside(domains: f64, pair: f64, grid: f64, movable: f64) -> f64 {
    if domains >= grid {
        return domains;
    }
    if pair <= 0.0 || movable <= 0.0 {
        return grid;
    }
    // domains + pair (u - 1) = grid - movable + movable / u
    let half = 0.5 * (domains - pair - grid + movable);
    let u = ((half * half + pair * movable).sqrt() - half) / pair;
    if u < MOST_TUNED { domains + pair * (u - 1.0) } else { grid - movable + movable / MOST_TUNED }
}

/// The parts of one step.
#[must_use]
pub fn parts(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    constants: &Constants,
) -> CpuParts {
    let speed = Speed::of(cpu, place, constants);
    let apart = place.npme > 0.0;
    let pp_ranks = place.ranks - place.npme;
    let pme_ranks = if apart { place.npme } else { place.ranks };
    // Time of a core's work on the cores of each side.
    let side = |ranks: f64| (1.0 + speed.loss) / (speed.cores * ranks / place.ranks);
    let (of_pp, of_pme) = (side(pp_ranks), side(pme_ranks));
    let pair = work.pairs * constants.pair * cpu.pair_cycles / speed.clock * of_pp;
    let other = (work.bonded + work.update + work.perturbed) * constants.other / speed.reference * of_pp;
    let spread = work.spread * constants.spread / speed.reference * of_pme;
    let mesh = work.mesh * constants.mesh / speed.reference * of_pme;
    // How much the slowest of some cores is behind grows with the logarithm of their number. Pairs are computed in registers and
    // the cache of a core, and differ little.
    let waiting = constants.crowding * place.cores.max(1.0).ln();

    let halo = Halo::of(system, pp_ranks);
    let points = system.pme.filter(|_| pme_ranks > 1.0 || apart).map_or(0.0, |pme| pme.points());
    let charges = if points > 0.0 { system.atoms } else { 0.0 };
    let transposed = if pme_ranks > 1.0 { points } else { 0.0 };
    // Each rank has a part of the grid for each other one.
    let transposes = TRANSPOSES * (pme_ranks - 1.0);
    CpuParts {
        pair,
        other,
        halo: halo.atoms * constants.halo / speed.reference + halo.messages * constants.latency,
        serial: work_of_one_thread(system, place, pp_ranks, constants) / speed.reference,
        spread,
        mesh,
        waiting: waiting * other,
        mesh_waiting: waiting * (spread + mesh),
        transpose: transposed / pme_ranks * constants.mesh_serial / speed.reference
            + transposes * constants.latency,
        redistribution: charges / pme_ranks * constants.redistribution / speed.reference,
        after: constants.barrier * (barrier_growth(place.threads) - 1.0)
            + STEP_CYCLES / speed.reference
            + work.output_seconds(),
        apart,
    }
}

/// How much longer a barrier of OpenMP takes with so many threads: the power 3/4. A step has some fifty parallel regions
/// and barriers; published measurements of one are below 1 µs for a few threads and 10 to 20 µs for 128.
fn barrier_growth(threads: f64) -> f64 {
    let root = threads.sqrt();
    root * root.sqrt()
}

/// Reference cycles of a rank during which its other threads wait.
fn work_of_one_thread(system: &System, place: &Placement, pp_ranks: f64, constants: &Constants) -> f64 {
    system.atoms / pp_ranks * (1.0 - 1.0 / place.threads) * constants.serial
}

/// What a domain needs of its neighbours.
pub(super) struct Halo {
    /// Atoms that one rank receives.
    pub(super) atoms: f64,
    /// Messages per step that follow one another.
    pub(super) messages: f64,
}

impl Halo {
    pub(super) fn of(system: &System, ranks: f64) -> Self {
        if ranks <= 1.0 {
            return Self { atoms: 0.0, messages: 0.0 };
        }
        let own = system.atoms / ranks;
        let edge = (own / system.density).cbrt();
        // The eighth shell: a layer of the list radius on three of the six faces.
        let volume = (edge + system.rlist_nm).powi(3) - edge.powi(3);
        let atoms = (0.5 * volume * system.density).min(system.atoms - own);
        let pulses = (system.rlist_nm / edge).ceil().clamp(1.0, 4.0);
        Self { atoms, messages: 6.0 * pulses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuning_moves_work_to_the_faster_side() {
        assert_eq!(beside(1.2, 1.0, 0.7, 0.4), 1.2);
        let slow = beside(1.2, 1.0, 1.8, 1.5);
        assert!(1.2 < slow && slow < 1.8, "{slow}");
        assert!((beside(0.3, 0.1, 9.3, 9.0) - (0.3 + 9.0 / MOST_TUNED)).abs() < 1e-9);
    }
}
