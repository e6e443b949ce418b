//! A simulated system, checked once: later steps cannot fail on it.

use scavenger_schema::bounds::{self, Bounds};
use scavenger_schema::tuning::{GpuOffload, PmeDescription, Settings, SystemDescription};

use crate::error::{FieldError, within};

/// Atoms per nm³ of water at room temperature, and nearly of every solvated biomolecule.
pub const WATER_ATOMS_PER_NM3: f64 = 100.0;

/// Atoms per nm³ below which atoms in solution do not fill their box: water has 100, oils and lipids 80 to 100.
const SPARSE: f64 = 50.0;
/// Time steps from here on are for coarse-grained systems, in ps.
const COARSE_DT_PS: f64 = 0.008;

/// Beads per nm³ below which coarse-grained systems do not fill their box: their water has 8.
pub(crate) const SPARSE_COARSE: f64 = 4.0;
/// Atoms of the measured systems that the model is fitted to (tuner/data).
pub const MEASURED_ATOMS: Bounds<f64> = Bounds { min: 14_235.0, max: 41_953_021.0 };
/// What ln(speed) may be off for each factor of e beyond these: one-core runs of 2 to 1,000 atoms were wrong by up to 2.6.
/// What calibrates intervals takes a quarter of it away.
const SIGMA_PER_LN_ATOMS: f64 = 0.13;
/// What ln(speed) of a droplet may be off for each factor of e by which its box is too large: it may be spread further.
const SIGMA_PER_LN_EMPTY: f64 = 0.15;

/// A system whose values are all in range, with the missing ones filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Atoms.
    pub atoms: f64,
    /// Edges of the box, the diagonal of the box matrix, in nm.
    pub box_nm: [f64; 3],
    /// Atoms per nm³.
    pub density: f64,
    /// Steps left; none for a run without an end.
    pub nsteps: Option<u64>,
    /// Time step in ps.
    pub dt_ps: f64,
    /// Cut-off in nm.
    pub cutoff_nm: f64,
    /// Radius of the pair list in nm.
    pub rlist_nm: f64,
    /// Particle-mesh Ewald.
    pub pme: Option<Pme>,
    /// Bonded interactions per step.
    pub bonded: f64,
    /// Constraints.
    pub constraints: f64,
    /// What may run on a GPU, made consistent.
    pub gpu_offload: GpuOffload,
    /// Settings that make a step dearer or cheaper.
    pub settings: Settings,
    /// True if it is computed in double precision.
    pub double: bool,
}

/// PME grid and order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pme {
    /// Grid points along each edge.
    pub grid: [u32; 3],
    /// Interpolation order.
    pub order: u32,
}

impl Pme {
    /// Grid points in all.
    #[must_use]
    pub fn points(&self) -> f64 {
        self.grid.iter().map(|&n| f64::from(n)).product()
    }
}

impl System {
    /// Checks a description. Fields of the error are relative to it.
    pub fn check(raw: &SystemDescription) -> Result<Self, FieldError> {
        let atoms = within("atoms", raw.atoms, bounds::ATOMS)? as f64;
        let cutoff_nm = within("cutoffNm", raw.cutoff_nm, bounds::CUTOFF_NM)?;
        let rlist_nm = match raw.rlist_nm {
            Some(rlist) => check_rlist(rlist, cutoff_nm)?,
            // The Verlet buffer that mdrun's default tolerance gives at 2 fs and 20 to 40 steps.
            None => cutoff_nm + 0.1,
        };
        let box_nm = match raw.box_nm {
            Some(edges) => {
                for (axis, edge) in edges.iter().enumerate() {
                    within(&format!("boxNm[{axis}]"), *edge, bounds::BOX_NM)?;
                }
                edges
            }
            None => cube_of_water(atoms),
        };
        let density = atoms / box_nm.iter().product::<f64>();
        // Metals, coarse-grained systems and gases lie inside.
        if !(1e-6..=1000.0).contains(&density) {
            return Err(FieldError::combination(
                "boxNm",
                format!(
                    "{} atoms in {} x {} x {} nm are {density:.1e} atoms per nm³, must be 0.000001 to 1000; \
                     the edges are in nm",
                    raw.atoms, box_nm[0], box_nm[1], box_nm[2]
                ),
            ));
        }
        if let Some(nstlist) = raw.nstlist {
            within("nstlist", nstlist, bounds::NSTLIST)?;
        }
        // Only the -1 of a run without an end is below 0.
        let nsteps = u64::try_from(within("nsteps", raw.nsteps, bounds::NSTEPS)?).ok();
        let pme = raw.pme.as_ref().map(check_pme).transpose().map_err(|error| error.within("pme"))?;
        let interactions = |field: &str, value: Option<u64>, per_atom: f64| match value {
            Some(value) => within(field, value, bounds::INTERACTIONS).map(|value| value as f64),
            None => Ok(per_atom * atoms),
        };
        Ok(Self {
            atoms,
            box_nm,
            density,
            nsteps,
            dt_ps: within("dtPs", raw.dt_ps, bounds::DT_PS)?,
            cutoff_nm,
            rlist_nm,
            bonded: interactions("bondedInteractions", raw.bonded_interactions, 0.4)?,
            constraints: interactions("constraints", raw.constraints, 0.9)?,
            gpu_offload: offload(raw.gpu_offload, pme, raw.bonded_interactions),
            settings: check_settings(&raw.settings).map_err(|error| error.within("settings"))?,
            double: false,
            pme,
        })
    }

    /// The same with its box filled, if its atoms leave much of it empty: atoms attract each other, so what does not fill
    /// its box is a droplet, a slab or a molecule in vacuum, and each atom has about as many neighbours as in water. Both
    /// what is predicted and what is learned of such a system is computed for that.
    #[must_use]
    pub fn filled(&self) -> Option<Self> {
        if self.is_coarse() || self.density >= SPARSE {
            return None;
        }
        let box_nm = cube_of_water(self.atoms);
        Some(Self { box_nm, density: self.atoms / box_nm.iter().product::<f64>(), ..self.clone() })
    }

    /// True if its particles stand for several atoms each.
    fn is_coarse(&self) -> bool {
        self.dt_ps >= COARSE_DT_PS
    }

    /// How many times fewer or more atoms it has than any measured system; 1 if neither.
    pub(crate) fn beyond_measured(&self) -> f64 {
        (MEASURED_ATOMS.min / self.atoms).max(self.atoms / MEASURED_ATOMS.max).max(1.0)
    }

    /// The shortest edge of its box.
    pub(crate) fn shortest_edge(&self) -> f64 {
        self.box_nm.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Standard deviation of ln(time) because it has far fewer or more atoms than the systems that the model was fitted to.
    pub(crate) fn doubt_of_size(&self) -> f64 {
        SIGMA_PER_LN_ATOMS * self.beyond_measured().ln()
    }

    /// The same because it does not fill its box.
    pub(crate) fn doubt_of_box(&self) -> f64 {
        match self.density {
            density if self.is_coarse() => (SPARSE_COARSE / density).ln().max(0.0),
            density if density < SPARSE => SIGMA_PER_LN_EMPTY * (WATER_ATOMS_PER_NM3 / density).ln(),
            _ => 0.0,
        }
    }

    /// Hours that the run takes at this speed; none for a run without an end.
    #[must_use]
    pub fn hours(&self, ns_per_day: f64) -> Option<f64> {
        let ns = self.nsteps? as f64 * self.dt_ps / 1000.0;
        Some(ns / ns_per_day * 24.0)
    }

    /// Speed in ns per day for a time per step in seconds.
    #[must_use]
    pub fn ns_per_day(&self, seconds_per_step: f64) -> f64 {
        self.dt_ps / 1000.0 * 86_400.0 / seconds_per_step
    }
}

/// Points of the PME grid with GROMACS's usual spacing of 0.12 nm. Casting saturates: the check of the system refuses what is out
/// of range.
fn usual_grid(box_nm: [f64; 3]) -> [u32; 3] {
    box_nm.map(|edge| ((edge / 0.12).ceil() as u32).max(bounds::PME_GRID.min))
}

/// Water with the usual settings in a box of these edges, without an end.
#[must_use]
pub fn usual_water(atoms: u64, box_nm: [f64; 3]) -> SystemDescription {
    SystemDescription {
        atoms,
        box_nm: Some(box_nm),
        nsteps: -1,
        dt_ps: 0.002,
        cutoff_nm: 1.0,
        rlist_nm: None,
        nstlist: None,
        pme: Some(PmeDescription { grid: usual_grid(box_nm), order: 4 }),
        bonded_interactions: Some(0),
        constraints: Some(atoms),
        gpu_offload: GpuOffload::default(),
        settings: Settings::default(),
    }
}

/// Edges of the box that so many atoms of water fill.
#[must_use]
pub fn cube_of_water(atoms: f64) -> [f64; 3] {
    [(atoms / WATER_ATOMS_PER_NM3).cbrt().max(bounds::BOX_NM.min); 3]
}

fn check_settings(raw: &Settings) -> Result<Settings, FieldError> {
    if let Some(atoms) = raw.perturbed_atoms {
        within("perturbedAtoms", atoms, bounds::PERTURBED_ATOMS)?;
    }
    within("mtsInterval", raw.mts_interval, bounds::MTS_INTERVAL)?;
    within("outputBytesPerStep", raw.output_bytes_per_step, bounds::OUTPUT_BYTES)?;
    Ok(raw.clone())
}

/// The radius of the pair list; it may be shorter than the cut-off by rounding only.
fn check_rlist(rlist_nm: f64, cutoff_nm: f64) -> Result<f64, FieldError> {
    within("rlistNm", rlist_nm, bounds::RLIST_NM)?;
    if rlist_nm < 0.99 * cutoff_nm {
        let problem = format!("must be at least the cut-off of {cutoff_nm}, is {rlist_nm}");
        return Err(FieldError::combination("rlistNm", problem));
    }
    Ok(rlist_nm.max(cutoff_nm))
}

fn check_pme(raw: &PmeDescription) -> Result<Pme, FieldError> {
    for (axis, points) in raw.grid.iter().enumerate() {
        within(&format!("grid[{axis}]"), *points, bounds::PME_GRID)?;
    }
    Ok(Pme { grid: raw.grid, order: within("order", raw.order, bounds::PME_ORDER)? })
}

/// PME on a GPU needs order 4, mdrun refuses to put bonded interactions there if there are none, and everything there
/// needs the nonbonded interactions there.
fn offload(raw: GpuOffload, pme: Option<Pme>, bonded: Option<u64>) -> GpuOffload {
    let nonbonded = raw.nonbonded;
    GpuOffload {
        nonbonded,
        pme: nonbonded && raw.pme && pme.is_some_and(|pme| pme.order == 4),
        bonded: nonbonded && raw.bonded && bonded != Some(0),
        update: nonbonded && raw.update,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::water;

    #[test]
    fn fills_in_a_cube_of_water() {
        let system = System::check(&water(2700)).expect("water should be accepted");
        assert!((system.box_nm[0] - 3.0).abs() < 1e-9);
        assert!((system.density - 100.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for spoil in [f64::NAN, f64::INFINITY] {
            let mut raw = water(3000);
            raw.dt_ps = spoil;
            assert_eq!(System::check(&raw).expect_err("it should be refused").field, "dtPs");
        }
    }

    #[test]
    fn no_bonded_interactions_go_to_no_gpu() {
        let mut raw = water(3000);
        for (bonded, on_gpu) in [(None, true), (Some(1), true), (Some(0), false)] {
            raw.bonded_interactions = bonded;
            let system = System::check(&raw).expect("water should be accepted");
            assert_eq!(system.gpu_offload.bonded, on_gpu, "{bonded:?}");
        }
    }

    #[test]
    fn a_run_takes_as_long_as_its_steps() {
        let mut raw = water(3000);
        raw.nsteps = 500_000;
        let system = System::check(&raw).expect("water should be accepted");
        assert_eq!(system.hours(24.0), Some(1.0));
        raw.nsteps = -1;
        assert_eq!(System::check(&raw).expect("water should be accepted").hours(24.0), None);
    }
}
