//! A system with its work counted, and who asks about it with which build.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{
    BONDED_ON_GPU, GpuOffload, PME_ON_GPU, SystemDescription, UPDATE_ON_GPU, release_year,
};

use crate::error::{FieldError, length_within};
use crate::hardware::Simd;
use crate::learn::{Site, hash};
use crate::system::System;
use crate::work::Work;

/// Releases before 2018 lack the dual pair list: the same machine was 18 to 20% slower with 2016.
const BEFORE_2018: f64 = 1.2;

/// A system with its work counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The checked system.
    pub system: System,
    /// Its work per step.
    pub work: Work,
    /// Time per step relative to a recent release of GROMACS.
    pub(super) slowdown: f64,
    /// Vector instructions that the build of GROMACS uses; none if it is not known, and the processor's own are assumed.
    pub(super) simd: Option<Simd>,
    /// Site of the knowledge that is asked: this cluster and the version of GROMACS.
    pub(super) site: Site,
    /// Who asks, as a number.
    pub(super) asker: Option<u64>,
    /// Tells the system from others.
    pub(crate) key: u64,
    pub(crate) ln_atoms: f64,
}

impl Job {
    /// Checks a system and counts its work. Fields of the error are relative to the request.
    pub fn new(system: &SystemDescription, gromacs_version: Option<&str>) -> Result<Self, FieldError> {
        let mut system = System::check(system).map_err(|error| error.within("system"))?;
        length_within("gromacsVersion", gromacs_version.unwrap_or_default(), bounds::VERSION_LENGTH)?;
        system.gpu_offload = offload_of_release(system.gpu_offload, gromacs_version);
        let work = Work::of(&system);
        let slowdown = match gromacs_version.and_then(release_year) {
            Some(year) if year < 2018 => BEFORE_2018,
            _ => 1.0,
        };
        let site = local_site(gromacs_version);
        let grid = system.pme.map_or(0.0, |pme| pme.points());
        let key = [system.atoms, grid, system.cutoff_nm, system.dt_ps]
            .iter()
            .fold(0, |state: u64, value| hash(&[state.to_le_bytes(), value.to_le_bytes()].concat()));
        let ln_atoms = system.atoms.ln();
        Ok(Self { system, work, slowdown, simd: None, site, asker: None, key, ln_atoms })
    }

    /// The same with a build of GROMACS for these vector instructions.
    #[must_use]
    pub fn built_for(self, simd: Option<Simd>) -> Self {
        Self { simd, ..self }
    }

    /// Vector instructions that the build of GROMACS uses, if they are known.
    #[must_use]
    pub fn simd(&self) -> Option<Simd> {
        self.simd
    }

    /// The same, asked about by the owner of that name: their own runs are believed before those of others.
    pub fn asked_by(self, owner: Option<&str>) -> Result<Self, FieldError> {
        if let Some(owner) = owner {
            length_within("owner", owner, bounds::OWNER_LENGTH)?;
        }
        Ok(Self { asker: owner.map(|owner| hash(owner.as_bytes())), ..self })
    }
}

/// Where runs on this cluster with that version are known to be from.
#[must_use]
pub fn local_site(gromacs_version: Option<&str>) -> Site {
    Site::new("local", gromacs_version.unwrap_or_default())
}

/// What this release of GROMACS does not compute on GPUs, a run of it keeps off them.
fn offload_of_release(allowed: GpuOffload, gromacs_version: Option<&str>) -> GpuOffload {
    let Some(year) = gromacs_version.and_then(release_year) else { return allowed };
    GpuOffload {
        nonbonded: allowed.nonbonded,
        pme: allowed.pme && year >= PME_ON_GPU,
        bonded: allowed.bonded && year >= BONDED_ON_GPU,
        update: allowed.update && year >= UPDATE_ON_GPU,
    }
}
