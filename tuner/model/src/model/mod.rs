//! The model in use: constants, what was learned, and the predictions they make.

mod answer;
mod job;
mod learning;
mod observation;
mod place;
mod predict;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scavenger_schema::tuning::{ClassResidual, Layout};

use crate::hardware::CpuClass;
use crate::interval::combine;
#[cfg(doc)]
use crate::learn::BOUND;
use crate::learn::{About, Knowledge, Known, Origin};
use crate::memory;
use crate::memory::MeasuredPeaks;
use crate::performance::{Constants, CpuParts, Placement, StepTime, cpu_parts, step_time};

pub(crate) use answer::{check_layout, check_node, display};
pub use job::Job;
pub use observation::Observation;
pub use predict::Prediction;

/// Uncertainty of ln(time) of the pairs with a build that is not the processor's own, relative to the logarithm of what it
/// costs: one setting of a compiler, kernels that are tuned less.
const SIGMA_BUILD: f64 = 0.4;

/// Uncertainty of ln(speed) of a single layout, on cores beside which other pods work.
const SIGMA_LAYOUT: f64 = 0.17;
/// The same for several GPUs that were never measured together: seen were 0.1 to 1.8 times the speed of one.
const SIGMA_SEVERAL_GPUS: f64 = 1.2;

/// The speed model. Immutable: learning makes a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    constants: Constants,
    knowledge: Knowledge,
    peaks: MeasuredPeaks,
    /// By whether it is a class of GPUs, and by its name.
    classes: BTreeMap<(bool, &'static str), ClassResidual>,
    /// Runs beyond [`BOUND`].
    absurd: u64,
    version: String,
}

/// What is expected of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Median, part by part.
    pub step: StepTime,
    /// Standard deviation of ln(time).
    pub sigma: f64,
    /// How much of it was measured before.
    pub known: Known,
}

impl Default for Model {
    fn default() -> Self {
        Self::prior()
    }
}

impl Model {
    /// The model that knows the classes and no measurement of the cluster it serves.
    #[must_use]
    pub fn prior() -> Self {
        Self {
            constants: Constants::FITTED,
            knowledge: Knowledge::default(),
            peaks: MeasuredPeaks::default(),
            classes: BTreeMap::new(),
            absurd: 0,
            version: concat!(env!("CARGO_PKG_VERSION"), "+prior").to_owned(),
        }
    }

    /// The same with other constants, to compare fits.
    #[must_use]
    pub fn with_constants(constants: Constants) -> Self {
        Self { constants, ..Self::prior() }
    }

    /// The same model if so many more systems had been measured on all hardware, each exactly as fast as expected: for
    /// choosing what to measure.
    #[must_use]
    pub fn supposing(&self, systems: usize) -> Self {
        Self { knowledge: self.knowledge.supposing(systems), ..self.clone() }
    }

    /// What is expected of a placement, for cores that are shared with other pods.
    #[must_use]
    pub fn expect(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> Expected {
        let origin = origin(job, cpu, place);
        let About { known, shift, sigma } = self.knowledge.about(&origin);
        let step = self.step_time(job, cpu, place);
        let of_job = if known < Known::System { job.doubt() } else { 0.0 };
        let of_build = SIGMA_BUILD * step.share(step.pair) * cpu.relative_pair_time(job.simd).ln().abs();
        let of_class = match origin.gpus {
            0 => of_build,
            1 => 0.0,
            _ => SIGMA_SEVERAL_GPUS,
        };
        let of_class = if known == Known::Nothing { of_class } else { 0.0 };
        let sigma = combine(&[sigma, SIGMA_LAYOUT, of_job, of_class]);
        Expected { step: step.scaled(shift.exp()), sigma, known }
    }

    /// True if it knows the speed of a run of this very system.
    pub(crate) fn has_run(&self, job: &Job) -> bool {
        self.knowledge.has_run(job.key)
    }

    /// Peak memory in bytes that must be reckoned with.
    #[must_use]
    pub fn peak_bytes(&self, job: &Job, layout: &Layout) -> u64 {
        // Far below 2^64, as the prediction is and the factor is at most 3.
        (memory::peak_bytes(&job.system, layout) as f64 * self.peaks.factor(job.key)) as u64
    }

    /// Measured runs whose speed it knows.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.classes.values().map(|class| class.runs).sum()
    }

    /// Measured runs that were left out, because no hardware is so fast or so slow.
    #[must_use]
    pub fn absurd(&self) -> u64 {
        self.absurd
    }

    /// What was learned of a class of CPUs or GPUs.
    #[must_use]
    pub fn residual(&self, class: &str, on_gpu: bool) -> Option<&ClassResidual> {
        self.classes.iter().find(|(key, _)| **key == (on_gpu, class)).map(|(_, residual)| residual)
    }

    /// Time of one step.
    #[must_use]
    pub fn step_time(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> StepTime {
        step_time(&job.system, &job.work, &built(cpu, job), place, &self.constants)
    }

    /// The parts of a step on CPUs with a recent release, to compare them with the accounting of mdrun.
    #[must_use]
    pub fn cpu_parts(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> CpuParts {
        cpu_parts(&job.system, &job.work, &built(cpu, job), place, &self.constants)
    }

    /// Version of code and knowledge: equal versions answer equally.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// The class with the cycles that pairs take with the build of the job.
fn built(cpu: &CpuClass, job: &Job) -> CpuClass {
    CpuClass { pair_cycles: cpu.pair_cycles_with(job.simd), ..*cpu }
}

/// Where a run belongs.
fn origin(job: &Job, cpu: &CpuClass, place: &Placement) -> Origin {
    let (class, sigma) = place.gpu.map_or((cpu.key, cpu.sigma), |gpu| (gpu.class.key, gpu.class.sigma));
    let gpus = place.gpu.map_or(0, |gpu| gpu.count.round() as u32);
    Origin { class, sigma, gpus, build: job.build, system: job.key }
}
