//! A system with its work counted, and who asks about it with which build.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{
    BONDED_ON_GPU, Build, GpuOffload, PME_ON_GPU, Settings, SystemDescription, UPDATE_ON_GPU, release_year,
};

use crate::error::{FieldError, length_within};
use crate::hardware::Simd;
use crate::interval::combine;
use crate::learn::hash;
use crate::system::System;
use crate::work::Work;

/// Uncertainty of ln(time) because of modules and biases: most cost a few percent, quantum mechanics a thousand times as much.
const SIGMA_UNMODELLED: f64 = 0.3;

/// A system with its work counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The checked system.
    pub system: System,
    /// Its work per step.
    pub work: Work,
    /// Vector instructions that the build of GROMACS uses; none if it is not known, and the processor's own are assumed.
    pub(super) simd: Option<Simd>,
    /// Tells the build of GROMACS from others. One that is not known is told by its version alone.
    pub(super) build: u64,
    /// Uncertainty of ln(time) because of its box; see [`System::doubt_of_box`].
    doubt_of_box: f64,
    /// Tells the system from others.
    pub(crate) key: u64,
}

impl Job {
    /// Checks a system and counts its work with a build of GROMACS of that version. Fields of the error are relative to the request.
    pub fn new(
        system: &SystemDescription,
        gromacs_version: Option<&str>,
        build: &Build,
    ) -> Result<Self, FieldError> {
        let mut system = System::check(system).map_err(|error| error.within("system"))?;
        length_within("gromacsVersion", gromacs_version.unwrap_or_default(), bounds::VERSION_LENGTH)?;
        let words = [
            ("build.simd", &build.simd),
            ("build.precision", &build.precision),
            ("build.mpi", &build.mpi),
            ("build.gpuBackend", &build.gpu_backend),
        ];
        for (field, word) in words {
            length_within(field, word.as_deref().unwrap_or_default(), bounds::BUILD_WORD_LENGTH)?;
        }
        system.double = build.is_double();
        system.gpu_offload = if build.lacks_gpus() {
            GpuOffload { nonbonded: false, pme: false, bonded: false, update: false }
        } else {
            offload_of_release(system.gpu_offload, gromacs_version)
        };
        let grid = system.pme.map_or(0.0, |pme| pme.points());
        let key = [system.atoms, grid, system.cutoff_nm, system.dt_ps]
            .iter()
            .fold(0, |state: u64, value| hash(&[state.to_le_bytes(), value.to_le_bytes()].concat()));
        // What is written makes no other system: it takes time of its own, which is counted.
        let settings = Settings { output_bytes_per_step: 0.0, ..system.settings.clone() };
        let key = if settings.is_plain() { key } else { key ^ hash(format!("{settings:?}").as_bytes()) };
        Ok(Self {
            work: Work::of(&system),
            simd: build.simd.as_deref().and_then(Simd::of_build),
            build: hash(format!("{} {}", gromacs_version.unwrap_or_default(), build.words()).as_bytes()),
            // Of the box as it is: that of a droplet that is filled looks like any other.
            doubt_of_box: system.doubt_of_box(),
            // In another precision it is another system: what one costs says little of the other.
            key: if system.double { !key } else { key },
            system,
        })
    }

    /// Uncertainty of ln(time) that it has and ordinary systems have not: because of settings, box and size.
    #[must_use]
    pub(crate) fn doubt(&self) -> f64 {
        let of_modules = if self.is_unmodelled() { SIGMA_UNMODELLED } else { 0.0 };
        combine(&[self.work.doubt, self.doubt_of_box, self.system.doubt_of_size(), of_modules])
    }

    /// True if it does something whose cost the model does not know, in memory neither.
    pub(super) fn is_unmodelled(&self) -> bool {
        self.system.settings.unmodelled
    }

    /// The same with its box filled, if it does not fill it; see [`System::filled`].
    pub(crate) fn filled(&self) -> Option<Self> {
        let system = self.system.filled()?;
        Some(Self { work: Work::of(&system), system, ..self.clone() })
    }

    /// Vector instructions that the build of GROMACS uses, if they are known.
    #[must_use]
    pub fn simd(&self) -> Option<Simd> {
        self.simd
    }
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
