//! A step on CPUs.

use super::parts::{Overlap, Part, Parts};
use super::{Constants, Placement};
use crate::hardware::{CpuClass, Turbo};
use crate::system::System;
use crate::work::Work;

/// Reference cycles of a step that do not depend on the system: calls, timers, checks of signals, the state of the thermostat.
/// One molecule in an empty box shows them (`tuner/data/settings.csv`).
const STEP_CYCLES: f64 = 15_000.0;
/// Transposes of the PME grid per step: two forth, two back.
const TRANSPOSES: f64 = 4.0;
/// Bytes per grid point and transpose: one complex number for two real points.
const BYTES_PER_GRID_POINT: f64 = 4.0;
/// Bytes per halo atom and step: position there, force back.
const BYTES_PER_HALO_ATOM: f64 = 24.0;
/// Sockets of a server. A pod's cores, and those of one simulation, are on one of them as long as they fit.
const SOCKETS: f64 = 2.0;

/// How fast the cores of a placement work.
pub(super) struct Speed {
    /// Clock in Hz.
    pub clock: f64,
    /// Counted cycles per second of one core.
    pub reference: f64,
    /// Share of the clock that is boost: 0 where all cores work.
    pub boost: f64,
    /// Cores, hardware threads counted as what they add.
    pub cores: f64,
    /// Relative loss of a rank whose threads share a cache, and of cores that share the memory of a node.
    pub loss: f64,
}

impl Speed {
    pub(super) fn of(cpu: &CpuClass, place: &Placement, constants: &Constants) -> Self {
        let busy = match cpu.turbo {
            Turbo::Cores => (SOCKETS * place.busy).clamp(0.0, 1.0).powf(constants.boost_cores),
            Turbo::Power => place.busy.clamp(0.0, 1.0).powf(constants.boost_power),
        };
        let boost = constants.boost * (cpu.boost_ghz - cpu.clock_ghz).max(0.0) * (1.0 - busy);
        let clock = cpu.clock_ghz + boost;
        let per_rank = (place.cores / place.ranks).max(1.0);
        Self {
            clock: clock * 1e9,
            reference: clock * 1e9 * cpu.ipc,
            boost: boost / clock,
            cores: place.cores * (1.0 + constants.smt * place.smt.log2()),
            // Its cores share what the node has once, and wait for the slowest of them.
            loss: constants.thread * (per_rank - 1.0) / cpu.cache_cores
                + constants.crowding * (place.cores / place.nodes).max(1.0).ln(),
        }
    }
}

/// Time of one step by part, and the share of the clock that is boost.
pub(super) fn step(
    system: &System,
    work: &Work,
    cpu: &CpuClass,
    place: &Placement,
    constants: &Constants,
) -> (Parts, f64) {
    let speed = Speed::of(cpu, place, constants);
    let apart = place.npme > 0.0;
    let pp_ranks = place.ranks - place.npme;
    let pme_ranks = if apart { place.npme } else { place.ranks };
    let pp_cores = speed.cores * pp_ranks / place.ranks;
    let pme_cores = speed.cores * pme_ranks / place.ranks;

    let per_core = 1.0 + speed.loss;
    let (of_pp, of_pme) = (per_core / pp_cores, per_core / pme_cores);
    let pair = work.pairs * constants.pair * cpu.pair_cycles / speed.clock * of_pp;
    let other = (work.bonded + work.update + work.perturbed) * constants.other / speed.reference * of_pp;
    let spread = work.spread * constants.spread / speed.reference * of_pme;
    let mesh = work.mesh * constants.mesh / speed.reference * of_pme;

    let latency = if place.nodes > 1.0 {
        constants.net_latency * (1.0 + constants.net_growth * place.nodes)
    } else {
        constants.latency
    };
    let halo = Halo::of(system, pp_ranks);
    let pme = system.pme.filter(|_| pme_ranks > 1.0 || apart);
    let points = pme.map_or(0.0, |pme| pme.points());
    let charges = if pme.is_some() { system.atoms } else { 0.0 };

    let mut parts = Parts::new(if apart { Overlap::PmeRanks } else { Overlap::None });
    let first = &mut parts.first;
    first[Part::Pair as usize] = pair;
    first[Part::Other as usize] = other;
    first[Part::Halo as usize] = halo.atoms * constants.halo / speed.reference + halo.messages * latency;
    first[Part::Threads as usize] = work_of_one_thread(system, place, pp_ranks, constants) / speed.reference;
    first[Part::Imbalance as usize] = constants.imbalance * halo.relative.ln_1p() * (pair + other);
    first[Part::Network as usize] = network(place, constants, halo.atoms * pp_ranks * BYTES_PER_HALO_ATOM);
    let second = &mut parts.second;
    second[Part::Spread as usize] = spread;
    second[Part::Mesh as usize] = mesh;
    if pme_ranks > 1.0 {
        second[Part::Transpose as usize] = points / pme_ranks * constants.mesh_serial / speed.reference
            + TRANSPOSES * pme_ranks.powf(constants.mesh_growth) * latency;
        second[Part::Network as usize] =
            network(place, constants, TRANSPOSES * points * BYTES_PER_GRID_POINT);
    }
    second[Part::Redistribution as usize] = charges / pme_ranks * constants.redistribution / speed.reference;
    parts.after[Part::Threads as usize] = constants.barrier * (barrier_growth(place.threads) - 1.0)
        + STEP_CYCLES / speed.reference
        + work.output_seconds();
    if apart {
        parts.after[Part::Redistribution as usize] = 2.0 * (pp_ranks / place.npme) * latency;
    }
    (parts, speed.boost)
}

/// How much longer a barrier of OpenMP takes with so many threads: the power 3/4. A step has some fifty parallel regions
/// and barriers; published measurements of one are below 1 µs for a few threads and 10 to 20 µs for 128.
fn barrier_growth(threads: f64) -> f64 {
    let root = threads.sqrt();
    root * root.sqrt()
}

/// Reference cycles of a rank during which its other threads wait.
fn work_of_one_thread(system: &System, place: &Placement, pp_ranks: f64, constants: &Constants) -> f64 {
    let waiting = 1.0 - 1.0 / place.threads;
    let domains = if pp_ranks > 1.0 { 1.0 } else { 0.0 };
    system.atoms / pp_ranks * waiting * (constants.serial + domains * constants.serial_domain)
}

/// Seconds to move `bytes` (of all ranks) between nodes.
fn network(place: &Placement, constants: &Constants, bytes: f64) -> f64 {
    if place.nodes <= 1.0 {
        return 0.0;
    }
    // What stays inside a node does not use the network; of the surface of a node's block about a cube root of
    // its ranks shows on each side.
    let ranks_per_node = (place.ranks / place.nodes).max(1.0);
    bytes / place.nodes / ranks_per_node.cbrt() / constants.net_bandwidth
}

/// What a domain needs of its neighbours.
pub(super) struct Halo {
    /// Atoms that one rank receives.
    pub(super) atoms: f64,
    /// The same relative to its own atoms, at most 8.
    pub(super) relative: f64,
    /// Messages per step that follow one another.
    pub(super) messages: f64,
}

impl Halo {
    pub(super) fn of(system: &System, ranks: f64) -> Self {
        if ranks <= 1.0 {
            return Self { atoms: 0.0, relative: 0.0, messages: 0.0 };
        }
        let own = system.atoms / ranks;
        let edge = (own / system.density).cbrt();
        // The eighth shell: a layer of the list radius on three of the six faces.
        let volume = (edge + system.rlist_nm).powi(3) - edge.powi(3);
        let atoms = (0.5 * volume * system.density).min(system.atoms - own);
        let pulses = (system.rlist_nm / edge).ceil().clamp(1.0, 4.0);
        Self { atoms, relative: (atoms / own).min(8.0), messages: 6.0 * pulses }
    }
}
