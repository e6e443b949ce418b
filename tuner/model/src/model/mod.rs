//! The model in use: constants, what was learned, and the predictions they make.

mod answer;
mod asked;
mod builds;
mod job;
mod learning;
mod observation;
mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scavenger_schema::tuning::{ClassResidual, Layout};

use crate::hardware::{CpuClass, GpuClass, Hardware};
use crate::interval::combine;
use crate::learn::{Components, Features, Known, Knowledge, Origin, Residual, Site, hash};
use crate::memory;
use crate::memory::MeasuredPeaks;
use crate::performance::{
    ClassFactors, Constants, Overlap, Part, Parts, Placement, StepTime, step_parts,
};
use builds::Builds;
use place::{placement, throttling};

pub use answer::class_name;
pub(crate) use answer::{check_layout, check_node, display};
pub use asked::{Asked, Prediction};
pub use job::{Job, local_site};
pub use observation::Observation;

/// Uncertainty of ln(time) of the pairs with a build that is not the processor's own, relative to the logarithm of what it
/// costs: one setting of a compiler, kernels that are tuned less.
const SIGMA_BUILD: f64 = 0.4;

/// Uncertainty of ln(speed) of cores that are shared with other pods.
const SIGMA_SHARED: f64 = 0.08;

/// The same for several GPUs that were never measured together: seen were 0.1 to 1.8 times the speed of one.
const SIGMA_SEVERAL_GPUS: f64 = 1.2;

/// The speed model. Immutable: learning makes a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    constants: Constants,
    factors: Vec<ClassFactors>,
    knowledge: Knowledge,
    peaks: MeasuredPeaks,
    builds: Builds,
    /// By whether it is a class of GPUs, and by its name.
    classes: BTreeMap<(bool, &'static str), ClassResidual>,
    version: String,
}

/// What is expected of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Median.
    pub seconds: f64,
    /// Standard deviation of the logarithm as the model has it.
    pub deviation: f64,
    /// The same as it is served: calibrated, so that the interval covers what it says.
    pub sigma: f64,
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
            factors: ClassFactors::FITTED.to_vec(),
            knowledge: Knowledge::default(),
            peaks: MeasuredPeaks::default(),
            builds: Builds::default(),
            classes: BTreeMap::new(),
            version: concat!(env!("CARGO_PKG_VERSION"), "+prior").to_owned(),
        }
    }

    /// The same with other constants and factors of classes, to compare fits.
    #[must_use]
    pub fn with_constants(constants: Constants, factors: &[ClassFactors]) -> Self {
        Self { constants, factors: factors.to_vec(), ..Self::prior() }
    }

    /// The same model with one more run that measured exactly what is expected: medians stay, intervals get
    /// narrower. For choosing what to measure.
    #[must_use]
    pub fn supposing(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Self {
        let (place, step) = self.physical_step(job, hardware, layout, cpu_millicores);
        let features = features(job, hardware.cpu, &place, job.site, &step);
        let value = self.knowledge.ask(&features, job.asker).0;
        let owner = hash(b"supposed");
        let components = Components::default();
        let residual = Residual { features, owner, value, count: 1.0, noise: 0.0, components };
        Self { knowledge: self.knowledge.with(residual), ..self.clone() }
    }

    /// What is expected of a placement that may be larger than one pod. The deviation is the one that is served, for
    /// cores that are shared with other pods.
    #[must_use]
    pub fn expect(&self, job: &Job, cpu: &CpuClass, place: &Placement, site: Site) -> Expected {
        let step = self.step_time(job, cpu, place);
        let asked = features(job, cpu, place, site, &step);
        let about = self.knowledge.about(asked.origin(), job.asker);
        let (shift, sigma) = about.ask(&asked);
        let of_build = sigma_of_build(job, cpu, &step, about.known());
        let deviation = combine(&[sigma, SIGMA_SHARED, of_build, self.unmeasured_gpus(&asked)]);
        let widening = asked.widening(about.known());
        Expected { seconds: step.total * shift.exp(), deviation, sigma: deviation * widening }
    }

    /// True if it knows the speed of a run of this very system.
    pub(crate) fn has_run(&self, job: &Job) -> bool {
        self.knowledge.has_run(job.key)
    }

    /// Uncertainty of several GPUs that were never measured together.
    fn unmeasured_gpus(&self, features: &Features) -> f64 {
        let several = features.origin().gpus() > 1;
        if several && !self.knowledge.knows(features.origin().class(), features.origin().gpus()) {
            SIGMA_SEVERAL_GPUS
        } else {
            0.0
        }
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

    /// What was learned of a class of CPUs or GPUs.
    #[must_use]
    pub fn residual(&self, class: &str, on_gpu: bool) -> Option<&ClassResidual> {
        self.classes.iter().find(|(key, _)| **key == (on_gpu, class)).map(|(_, residual)| residual)
    }

    /// Seconds of one step on a placement that may be larger than one pod.
    #[must_use]
    pub fn step_time(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> StepTime {
        let (parts, boost) = self.parts(job, cpu, place);
        StepTime::new(parts, boost)
    }

    /// The parts of that step, and the share of the clock that is boost.
    fn parts(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> (Parts, f64) {
        let (built, constants) = self.built(job, cpu, place.gpu.map(|gpu| gpu.class));
        let (parts, boost) = step_parts(&job.system, &job.work, &built, place, &constants);
        (parts.scaled(job.slowdown), boost)
    }

    /// A class as this model has it with the build of `job`, and the constants that go with it and the GPU beside it.
    fn built(&self, job: &Job, cpu: &CpuClass, gpu: Option<&GpuClass>) -> (CpuClass, Constants) {
        let (pair, other) = self.factors_of(cpu.key);
        let pair_cycles = cpu.pair_cycles_with(job.simd) * pair;
        let built = CpuClass { pair_cycles, ipc: cpu.ipc / other, ..*cpu };
        let mut constants =
            Constants { gpu_launch: self.constants.gpu_launch * job.launch, ..self.constants };
        if let Some(gpu) = gpu {
            let (pair, other) = self.factors_of(gpu.key);
            constants.gpu_pair *= pair;
            constants.gpu_mesh *= other;
            constants.gpu_atom *= other;
        }
        (built, constants)
    }

    /// Factors on the time of pairs and of all other work on a class.
    pub(crate) fn factors_of(&self, key: &str) -> (f64, f64) {
        let found = self.factors.iter().find(|factors| factors.class == key);
        found.map_or((1.0, 1.0), |factors| (factors.pair, factors.other))
    }

    /// Version of code and knowledge: equal versions answer equally.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What was learned, as far as it concerns `job` on hardware of one of `kinds`.
    #[must_use]
    pub fn about<'a>(&'a self, job: &'a Job, kinds: &[Hardware]) -> Asked<'a> {
        let mut origins: Vec<Origin> = Vec::new();
        for kind in kinds {
            origins.push(Origin::new(kind.cpu.key, kind.cpu.sigma, 0, job.site, job));
            origins.extend(
                kind.gpu.map(|gpu| Origin::new(gpu.key, gpu.sigma, 1, job.site, job).beside(kind.cpu.key)),
            );
        }
        origins.sort_by_key(Origin::hardware);
        origins.dedup_by_key(|origin| origin.hardware());
        origins.retain(|origin| self.knowledge.knows(origin.class(), origin.gpus()));
        let about = origins
            .into_iter()
            .map(|origin| (origin.hardware(), self.knowledge.about(&origin, job.asker)))
            .collect();
        Asked { model: self, job, about }
    }

    /// Speed in ns per day by physics alone.
    #[must_use]
    pub fn physics(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        let place = placement(hardware, layout, cpu_millicores);
        let (parts, _) = self.parts(job, hardware.cpu, &place);
        job.system.ns_per_day(parts.seconds() * throttling(cpu_millicores))
    }

    fn physical_step(
        &self,
        job: &Job,
        hardware: &Hardware,
        layout: &Layout,
        cpu_millicores: u32,
    ) -> (Placement, StepTime) {
        let place = placement(hardware, layout, cpu_millicores);
        (place, self.step_time(job, hardware.cpu, &place).scaled(throttling(cpu_millicores)))
    }
}

/// Uncertainty of ln(time) of a step because of a build that is not the processor's own, until something was measured.
fn sigma_of_build(job: &Job, cpu: &CpuClass, step: &StepTime, known: Known) -> f64 {
    if known > Known::Class || step.parts.overlap == Overlap::Gpu {
        return 0.0;
    }
    let share = step.shares[Part::Pair as usize];
    SIGMA_BUILD * share * cpu.relative_pair_time(job.simd).ln().abs()
}

/// What the knowledge is asked with.
fn features(job: &Job, cpu: &CpuClass, place: &Placement, site: Site, step: &StepTime) -> Features {
    Features::new(origin(job, cpu, place, site), place, step)
}

/// Where a run belongs. Beside a GPU the GPU is the class.
fn origin(job: &Job, cpu: &CpuClass, place: &Placement, site: Site) -> Origin {
    let (class, sigma) = match place.gpu {
        Some(gpu) => (gpu.class.key, gpu.class.sigma),
        None => (cpu.key, cpu.sigma),
    };
    let gpus = place.gpu.map_or(0, |gpu| gpu.count.round() as u32);
    let origin = Origin::new(class, sigma, gpus, site, job);
    if gpus > 0 { origin.beside(cpu.key) } else { origin }
}
