//! How much memory mdrun needs, and what to request so that it is not killed for it.
//!
//! The constants are for one process with thread-MPI, from peaks measured with GROMACS 2022 (`tuner/data/memory.csv`).

use std::collections::{BTreeMap, BTreeSet};

use scavenger_schema::tuning::{Layout, MIB};

use crate::system::System;

/// What a process with one rank takes before it has read a system, in bytes.
const BASE: f64 = 20e6;
/// Per atom with one rank and one thread.
const PER_ATOM: f64 = 900.0;
/// Per atom of a rank once it has more than one thread: forces are summed over threads.
const PER_THREADED_ATOM: f64 = 150.0;
/// Per atom of a rank and further thread: each has force buffers and the splines of PME for all atoms of its rank.
const PER_ATOM_AND_THREAD: f64 = 125.0;
/// Per further thread of a rank.
const PER_THREAD: f64 = 0.45e6;
/// Per atom that a rank keeps for its neighbours, buffers of messages included.
const PER_HALO_ATOM: f64 = 560.0;
/// Per further rank: stacks, its part of the grid.
const PER_RANK: f64 = 0.4e6;
/// Bytes per PME grid point: two real grids and one complex one, per set.
const PER_GRID_POINT: f64 = 12.0;
/// Memory per atom in double precision, relative to mixed.
const DOUBLE_ATOM: f64 = 1.7;
/// Host memory of a GPU context, its pinned buffers included.
const PER_GPU_CONTEXT: f64 = 450e6;

/// The request over the predicted peak. Measured peaks differ by less between runs, but an out-of-memory kill
/// costs a whole attempt and a request 25% too large costs little.
const MARGIN: f64 = 1.25;
/// Smallest request: the container's own processes, page tables and output buffers count too.
const LEAST: u64 = 64 * MIB;

/// Predicted peak of resident memory in bytes.
#[must_use]
pub fn peak_bytes(system: &System, layout: &Layout) -> u64 {
    let ranks = f64::from(layout.ntmpi.max(1));
    let threads = f64::from(layout.ntomp.max(1));
    let halo = system.atoms * halo_share(system, ranks);
    let threaded = if threads > 1.0 { PER_THREADED_ATOM } else { 0.0 };
    let per_thread = threaded + PER_ATOM_AND_THREAD * (threads - 1.0);
    // Coordinates, forces and grids take twice as much in double precision; lists of pairs and the topology do not.
    let (of_atoms, of_grid) = if system.double { (DOUBLE_ATOM, 2.0) } else { (1.0, 1.0) };
    let atoms =
        of_atoms * (PER_ATOM * system.atoms + PER_HALO_ATOM * halo + per_thread * (system.atoms + halo));
    let workers = PER_RANK * (ranks - 1.0) + PER_THREAD * ranks * (threads - 1.0);
    let states = if system.settings.free_energy { 2.0 } else { 1.0 };
    let grids = states + crate::work::lj_grids(system.settings.lj_pme);
    let grid = system.pme.map_or(0.0, |pme| pme.points() * PER_GRID_POINT * of_grid * grids);
    let gpu = if layout.gpus > 0 { PER_GPU_CONTEXT * f64::from(layout.gpus) } else { 0.0 };
    // Bounded: 1e9 atoms, each kept by at most 730 domains (of 1.25 nm, with lists of 10 nm), and 4096^3 points are far
    // below 2^63.
    (BASE + workers + atoms + grid + gpu) as u64
}

/// Atoms that all ranks keep for their neighbours, relative to the atoms of the system.
///
/// Domains are cut along one direction for 2 ranks, along two for 4, along three from 8 on; each cut adds a layer of
/// the radius of the pair list on one side.
fn halo_share(system: &System, ranks: f64) -> f64 {
    let (cuts, directions) = match ranks {
        ..2.0 => return 0.0,
        2.0..4.0 => (ranks, 1),
        4.0..8.0 => (ranks.sqrt(), 2),
        _ => (ranks.cbrt(), 3),
    };
    let edge = (system.atoms / system.density).cbrt() / cuts;
    ((1.0 + system.rlist_nm / edge).powi(directions) - 1.0).min(ranks - 1.0)
}

/// What to request for a predicted peak: with a margin, in whole MiB.
#[must_use]
pub fn request_bytes(peak: u64) -> u64 {
    let wanted = (peak as f64 * MARGIN) as u64;
    wanted.max(LEAST).div_ceil(MIB) * MIB
}

/// Bounds of the logarithm of measured over predicted peak that are believed. A measured peak is the largest of samples,
/// between which there may have been more: it never makes a request smaller.
const BELIEVED: (f64, f64) = (0.0, 1.1);
/// Systems from which on measured peaks say something of systems that were never measured.
const ENOUGH_SYSTEMS: usize = 3;

/// What measured peaks say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPeaks {
    /// By system, the logarithm of the largest measured over predicted peak.
    systems: BTreeMap<u64, f64>,
    /// The same for all others.
    others: f64,
}

impl MeasuredPeaks {
    /// Puts measurements together: system, whether it says something of others, ln(measured over predicted peak).
    ///
    /// For a system that was measured the largest counts: a request below it would be killed. For others it is what
    /// nine of ten systems stay below.
    #[must_use]
    pub fn new(measured: impl IntoIterator<Item = (u64, bool, f64)>) -> Self {
        let mut systems: BTreeMap<u64, f64> = BTreeMap::new();
        let mut teaching: BTreeSet<u64> = BTreeSet::new();
        for (system, is_teaching, ratio) in measured {
            let largest = systems.entry(system).or_insert(BELIEVED.0);
            *largest = largest.max(ratio.clamp(BELIEVED.0, BELIEVED.1));
            teaching.extend(is_teaching.then_some(system));
        }
        let mut typical: Vec<f64> = teaching.iter().map(|system| systems[system]).collect();
        typical.sort_by(f64::total_cmp);
        let is_enough = typical.len() >= ENOUGH_SYSTEMS;
        let others = if is_enough { typical[typical.len() * 9 / 10] } else { 0.0 };
        Self { systems, others }
    }

    /// Measured over predicted peak that must be reckoned with for a system.
    #[must_use]
    pub fn factor(&self, system: u64) -> f64 {
        self.systems.get(&system).copied().unwrap_or(self.others).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    fn peak(atoms: u64, ranks: u32, threads: u32) -> u64 {
        let system = System::check(&water(atoms)).expect("water should be accepted");
        peak_bytes(&system, &Layout::cpu(ranks, threads))
    }

    #[test]
    fn covers_what_was_measured_by_at_most_half_again() {
        for (atoms, threads, measured_per_atom) in
            [(30_000, 1, 1000.0), (300_000, 1, 1000.0), (300_000, 2, 1250.0)]
        {
            let measured = 20e6 + measured_per_atom * atoms as f64;
            let request = request_bytes(peak(atoms, 1, threads)) as f64;
            assert!(request >= measured, "{atoms}");
            assert!(request <= 1.5 * measured + LEAST as f64, "{atoms}: {request} for {measured}");
        }
    }

    #[test]
    fn grows_with_ranks_and_threads_but_not_without_bound() {
        assert!(peak(30_000, 8, 1) > peak(30_000, 1, 1));
        assert!(peak(30_000, 1, 8) > peak(30_000, 1, 1));
        assert!(peak(1_000_000, 128, 1) < 128 * 45_000_000 + 8_500_000_000 + 200_000_000);
    }

    #[test]
    fn requests_are_whole_mebibytes() {
        for peak in [0, 1, 50 * MIB, 64 * MIB + 1, 1_234_567_890] {
            assert_eq!(request_bytes(peak) % MIB, 0);
            assert!(request_bytes(peak) >= peak.max(LEAST));
        }
    }

    #[test]
    fn a_measured_peak_is_requested_and_little_more() {
        let peaks = MeasuredPeaks::new([(1, true, 0.3), (1, true, 0.1), (1, true, -0.2)]);
        for measured in [0.3_f64, 0.1, -0.2] {
            let request = request_bytes((1e9 * peaks.factor(1)) as u64) as f64;
            assert!(request > 1e9 * measured.exp());
        }
        let request = request_bytes((1e9 * peaks.factor(1)) as u64) as f64;
        assert!(request < 1.5 * 1e9 * 0.3_f64.exp());
        assert_eq!(peaks.factor(2), 1.0);
    }

    #[test]
    fn a_measured_peak_never_lowers_the_request() {
        let peaks = MeasuredPeaks::new((0..10).map(|n| (n, true, -0.2)));
        assert_eq!((peaks.factor(1), peaks.factor(1000)), (1.0, 1.0));
    }

    #[test]
    fn what_most_systems_need_is_requested_for_all() {
        let with = |others: u64| {
            let odd = (100..100 + others).map(|n| (n, true, 40.0));
            let unmodelled = (200..400).map(|n| (n, false, 40.0));
            let usual = (0..30).map(|n| (n, true, 0.05));
            MeasuredPeaks::new(usual.chain(odd).chain(unmodelled)).factor(1000)
        };
        assert!((with(2) - 0.05_f64.exp()).abs() < 1e-12 && with(10) > 2.0, "{} {}", with(2), with(10));
    }
}
