//! How much there is to do in one step.
//!
//! The counts follow GROMACS's own estimate of its costs (`perf_est.cpp`): cycles of a reference core, later
//! scaled by what a hardware class does per cycle.

use crate::system::{Pme, System};

/// Operations of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Pairs that the kernel computes, those beyond the cut-off included.
    pub pairs: f64,
    /// PME spread and gather, in reference cycles: 5 order³ + 100 per charge.
    pub spread: f64,
    /// PME 3D FFT forth and back plus solve, in reference cycles: 3 G log2 G + 9 G.
    pub mesh: f64,
    /// Bonded interactions, in reference cycles.
    pub bonded: f64,
    /// Constraints, integration, pair search over its interval, in reference cycles.
    pub update: f64,
}

/// Pairs per atom inside the inner pair list.
///
/// Half a sphere of the cut-off, widened by what pruning leaves of the buffer and by the fact that the kernel
/// works on clusters of 4 x 4 or 4 x 8 atoms. The widening is nearly the cube root of the volume of the 3 + 3 other atoms
/// of two clusters: the pairs that md.log counts with releases since 2018 are those within 0.43 nm beyond the cut-off
/// (`tuner/data/cycles.csv`, 1.4 million atoms at the density of water, untuned).
fn pairs_per_atom(system: &System) -> f64 {
    let cluster = 0.97 * (6.0 / system.density).cbrt();
    let pruned_buffer = 0.5 * (system.rlist_nm - system.cutoff_nm).min(0.1);
    let radius = system.cutoff_nm + pruned_buffer + cluster.min(system.cutoff_nm);
    let sphere = 4.0 / 3.0 * std::f64::consts::PI * radius.powi(3) * system.density;
    // A tiny box cannot hold more partners than it has atoms.
    0.5 * sphere.min(system.atoms)
}

impl Work {
    /// Counts the work of one step.
    #[must_use]
    pub fn of(system: &System) -> Self {
        let (spread, mesh) = system.pme.map_or((0.0, 0.0), |pme| (spread(system, pme), mesh(pme)));
        Self {
            pairs: system.atoms * pairs_per_atom(system),
            spread,
            mesh,
            bonded: 60.0 * system.bonded,
            update: 80.0 * system.atoms + 40.0 * system.constraints,
        }
    }
}

fn spread(system: &System, pme: Pme) -> f64 {
    system.atoms * (5.0 * f64::from(pme.order).powi(3) + 100.0)
}

fn mesh(pme: Pme) -> f64 {
    let points = pme.points();
    3.0 * points * points.log2() + 9.0 * points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    fn work(atoms: u64) -> Work {
        Work::of(&System::check(&water(atoms)).expect("water should be accepted"))
    }

    #[test]
    fn pair_work_is_proportional_to_atoms_at_the_same_density() {
        let ratio = work(300_000).pairs / work(30_000).pairs;
        assert!((ratio - 10.0).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn a_longer_cutoff_is_more_pairs() {
        let mut long = water(30_000);
        long.cutoff_nm = 1.2;
        let long = Work::of(&System::check(&long).expect("water should be accepted"));
        let ratio = long.pairs / work(30_000).pairs;
        assert!((1.4..1.8).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_system_without_pme_has_no_mesh_work() {
        let mut raw = water(3000);
        raw.pme = None;
        let work = Work::of(&System::check(&raw).expect("water should be accepted"));
        assert_eq!((work.spread, work.mesh), (0.0, 0.0));
    }
}
