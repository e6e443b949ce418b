//! How much there is to do in one step.
//!
//! The counts follow GROMACS's own estimate of its costs (`perf_est.cpp`): cycles of a reference core, later
//! scaled by what a hardware class does per cycle.

use scavenger_schema::tuning::{LjPme, VdwModifier};

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
    /// Pairs with an atom that has two states, in reference cycles.
    pub perturbed: f64,
    /// Bytes of trajectory.
    pub output_bytes: f64,
    /// Uncertainty of ln(time) because of settings that no row of `tuner/data` has. It is an offset of the system, the same in
    /// all of its runs: its own runs show it, and they say nothing of other systems.
    pub doubt: f64,
}

/// Uncertainty of ln(time) because of any of the settings below. Their factors are physics (operations of the kernels, further
/// grids); runs of 5,184 atoms of water on one core with GROMACS 2022 agree within it (`tuner/data/settings.csv`).
const SIGMA_SETTINGS: f64 = 0.15;
/// Pairs with a potential that is switched: a polynomial of the distance and its derivative more.
const POTENTIAL_SWITCH: f64 = 1.3;
/// The same with a force that is switched.
const FORCE_SWITCH: f64 = 1.1;
/// Pairs without the Ewald correction: fewer operations, the same loads and stores.
const REACTION_FIELD: f64 = 0.9;
/// Pairs with the grid part of Lennard-Jones interactions taken out.
const LJ_PME_PAIR: f64 = 1.1;
/// A grid of Lennard-Jones interactions relative to that of charges, where many atoms have none.
const LJ_GRID: f64 = 0.7;
/// Charges of two states: two grids.
const TWO_STATES: f64 = 1.8;
/// Half as many numbers per vector instruction, and twice the bytes.
const DOUBLE_PAIR: f64 = 1.9;
/// The same of work that is vectorised less.
const DOUBLE_OTHER: f64 = 1.7;
/// Reference cycles of a pair with an atom that has two states: soft-core powers for both, one pair after the other.
const PERTURBED_PAIR: f64 = 90.0;
/// Perturbed atoms if their number is not known: those of a small molecule.
const SMALL_MOLECULE: f64 = 40.0;
/// Uncertainty of ln(time) that writing takes: volumes on the network differ by as much.
const SIGMA_OUTPUT: f64 = 1.0;
/// Bytes of trajectory that a run writes per second to a volume on the network.
const OUTPUT_BANDWIDTH: f64 = 150e6;

/// Further grids that PME for Lennard-Jones interactions needs.
#[must_use]
pub(crate) fn lj_grids(lj_pme: LjPme) -> f64 {
    match lj_pme {
        LjPme::None => 0.0,
        LjPme::Geometric => 1.0,
        LjPme::LorentzBerthelot => 7.0,
    }
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
        let mut work = Self {
            pairs: system.atoms * pairs_per_atom(system),
            spread,
            mesh,
            bonded: 60.0 * system.bonded,
            update: 80.0 * system.atoms + 40.0 * system.constraints,
            perturbed: 0.0,
            output_bytes: system.settings.output_bytes_per_step,
            doubt: 0.0,
        };
        work.set(system);
        work
    }

    /// Seconds of a step in which trajectory is written: one rank writes, and the others wait.
    pub(crate) fn output_seconds(&self) -> f64 {
        self.output_bytes / OUTPUT_BANDWIDTH
    }

    /// Uncertainty of ln(time) of a step of so many seconds, because nobody knows how fast its output is written.
    pub(crate) fn sigma_of_output(&self, seconds: f64) -> f64 {
        SIGMA_OUTPUT * (self.output_seconds() / seconds).min(1.0)
    }

    /// Applies the settings.
    fn set(&mut self, system: &System) {
        let settings = &system.settings;
        let plain = *self;
        self.pairs *= match settings.vdw_modifier {
            VdwModifier::None => 1.0,
            VdwModifier::PotentialSwitch => POTENTIAL_SWITCH,
            VdwModifier::ForceSwitch => FORCE_SWITCH,
        };
        if system.pme.is_none() {
            self.pairs *= REACTION_FIELD;
        }
        let mut grids = 1.0;
        if settings.free_energy {
            grids *= TWO_STATES;
            // Soft-core pairs are looked up as far as the list goes.
            let sphere = 4.0 / 3.0 * std::f64::consts::PI * system.rlist_nm.powi(3) * system.density;
            let atoms =
                settings.perturbed_atoms.map_or(SMALL_MOLECULE, |atoms| atoms as f64).min(system.atoms);
            self.perturbed = atoms * sphere.min(system.atoms) * PERTURBED_PAIR;
        }
        if settings.lj_pme != LjPme::None {
            self.pairs *= LJ_PME_PAIR;
            grids += lj_grids(settings.lj_pme) * LJ_GRID;
        }
        grids /= f64::from(settings.mts_interval.max(1));
        self.spread *= grids;
        self.mesh *= grids;
        if system.double {
            self.pairs *= DOUBLE_PAIR;
            for work in
                [&mut self.spread, &mut self.mesh, &mut self.bonded, &mut self.update, &mut self.perturbed]
            {
                *work *= DOUBLE_OTHER;
            }
            self.output_bytes *= 2.0;
        }
        if *self != plain {
            self.doubt = SIGMA_SETTINGS;
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
    use scavenger_schema::tuning::SystemDescription;

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

    fn with(spoil: impl FnOnce(&mut SystemDescription)) -> Work {
        let mut raw = water(30_000);
        spoil(&mut raw);
        Work::of(&System::check(&raw).expect("water should be accepted"))
    }

    /// Work relative to plain molecular dynamics: pairs and PME.
    fn relative(spoil: impl FnOnce(&mut SystemDescription)) -> (f64, f64) {
        let (plain, other) = (work(30_000), with(spoil));
        (other.pairs / plain.pairs, other.mesh / plain.mesh)
    }

    #[test]
    fn settings_that_were_not_measured_leave_doubts() {
        assert_eq!(work(30_000).doubt, 0.0);
        let free = with(|raw| raw.settings.free_energy = true);
        assert!(free.perturbed > 0.0 && free.doubt > 0.1, "{free:?}");
        let few = with(|raw| {
            raw.settings.free_energy = true;
            raw.settings.perturbed_atoms = Some(10);
        });
        assert!(few.perturbed < free.perturbed, "{few:?}");
        let output = with(|raw| raw.settings.output_bytes_per_step = 360_000.0);
        assert_eq!((output.output_bytes, output.doubt), (360_000.0, 0.0));
        assert!((output.sigma_of_output(0.012) - 0.2).abs() < 1e-9 && output.sigma_of_output(1e-6) == 1.0);
    }

    #[test]
    fn settings_multiply_their_part_of_the_work() {
        let near = |(pairs, mesh): (f64, f64), expected: (f64, f64)| {
            assert!((pairs - expected.0).abs() < 0.05 && (mesh - expected.1).abs() < 0.05, "{pairs} {mesh}");
        };
        near(relative(|raw| raw.settings.free_energy = true), (1.0, 1.8));
        near(relative(|raw| raw.settings.lj_pme = LjPme::Geometric), (1.1, 1.7));
        near(relative(|raw| raw.settings.lj_pme = LjPme::LorentzBerthelot), (1.1, 5.9));
        near(relative(|raw| raw.settings.vdw_modifier = VdwModifier::PotentialSwitch), (1.3, 1.0));
        near(relative(|raw| raw.settings.vdw_modifier = VdwModifier::ForceSwitch), (1.1, 1.0));
        near(relative(|raw| raw.settings.mts_interval = 2), (1.0, 0.5));
        near(relative(|raw| raw.pme = None), (0.9, 0.0));
    }
}
