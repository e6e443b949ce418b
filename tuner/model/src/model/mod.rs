//! The model in use: constants, what was learned, and the predictions they make.

use std::collections::{BTreeMap, HashMap};

use scavenger_schema::bounds::{self, Bounds};
use scavenger_schema::tuning::{
    BONDED_ON_GPU, ClassResidual, Device, GpuOffload, Interval, Layout, PME_ON_GPU, PredictReply,
    PredictRequest, Resources, StepCost, SystemDescription, UPDATE_ON_GPU, release_year,
};

use crate::error::{FieldError, TuneError, length_within, within};
use crate::hardware::{CpuClass, Hardware, Simd, hardware_of};
use crate::interval::{Z90, combine, log_normal};
use crate::learn::{About, Features, Knowledge, Origin, Residual, Site, hash, median};
use crate::memory::MeasuredPeaks;
use crate::performance::{ClassFactors, Constants, GpuPlacement, Placement, StepTime, step_time};
use crate::system::System;
use crate::work::Work;
use crate::{layout, memory};

/// What part of a core a hardware thread is worth, on nodes where Kubernetes counts hardware threads: two of them
/// together do about 1.18 times the work of one core.
const HARDWARE_THREAD: f64 = 0.59;
/// What part of the cores that a pod does not have is taken to be busy with other pods. Not known; between an idle
/// node and a full one lie some 30% of the clock.
const BUSY_NEIGHBOURS: f64 = 0.5;
/// Loss of a pod that is given half a core: it runs at full speed and is stopped half of the time, in slices of
/// 100 ms, and caches cool meanwhile.
const THROTTLED: f64 = 0.97;
/// Uncertainty of ln(speed) of cores that are shared with other pods.
const SIGMA_SHARED: f64 = 0.08;
/// The same if a CPU of Kubernetes is a hardware thread: what runs on the other one is not known.
const SIGMA_SMT: f64 = 0.15;
/// The same if it is not known whether it is one: between a thread and a core lies a factor of 1.7. A measurement on
/// such nodes tells.
const SIGMA_UNKNOWN_SMT: f64 = 0.25;
/// The same for several GPUs that were never measured together: seen were 0.1 to 1.8 times the speed of one.
const SIGMA_SEVERAL_GPUS: f64 = 1.2;
/// Seconds by which the start of a run may falsify its speed: first touches of memory, clocks that rise.
const START_SECONDS: f64 = 0.5;
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
    slowdown: f64,
    /// Vector instructions that the build of GROMACS uses; none if it is not known, and the processor's own are assumed.
    simd: Option<Simd>,
    /// Site of the knowledge that is asked: this cluster and the version of GROMACS.
    site: Site,
    /// Who asks, as a number.
    asker: Option<u64>,
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

/// What the model says of one layout on one kind of node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Speed in ns per day.
    pub ns_per_day: Interval,
    /// Where the time goes.
    pub step: StepTime,
}

impl Observation {
    /// A run of a pod on this cluster, from what its requests and the labels of its node said.
    pub fn local(
        system: &SystemDescription,
        gromacs_version: Option<&str>,
        layout: &Layout,
        resources: &Resources,
        labels: &BTreeMap<String, String>,
        ns_per_day: f64,
        owner: &str,
    ) -> Result<Self, FieldError> {
        let hardware = hardware_of(labels, resources.gpus);
        let job = Job::new(system, gromacs_version)?;
        layout::check(&job.system, layout, hardware.gpu)
            .map_err(|refusal| FieldError::combination("layout", refusal.to_string()))?;
        let some = Bounds { min: 1, ..bounds::CPU_MILLICORES };
        within("cpuMillicores", resources.cpu_millicores, some)?;
        Ok(Self {
            place: placement(&hardware, layout, resources.cpu_millicores),
            slowdown: throttling(resources.cpu_millicores),
            cpu: hardware.cpu,
            site: local_site(gromacs_version),
            job,
            ns_per_day,
            owner: hash(owner.as_bytes()),
            memory_residual: None,
            wall_seconds: None,
        })
    }

    /// The same run, which took `seconds` on the clock.
    #[must_use]
    pub fn lasting(self, seconds: f64) -> Self {
        Self { wall_seconds: Some(seconds), ..self }
    }

    /// Variance of ln(time) because the run was short.
    fn noise(&self) -> f64 {
        let seconds = self.wall_seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        seconds.map_or(0.0, |seconds| (START_SECONDS / seconds).min(1.0).powi(2))
    }

    /// The same run, whose memory was at most `bytes` with this layout.
    #[must_use]
    pub fn with_peak_memory(self, layout: &Layout, bytes: u64) -> Self {
        let predicted = memory::peak_bytes(&self.job.system, layout);
        let memory_residual = (bytes > 0).then(|| (bytes as f64 / predicted as f64).ln());
        Self { memory_residual, ..self }
    }
}

/// The speed model. Immutable: learning makes a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    constants: Constants,
    factors: Vec<ClassFactors>,
    knowledge: Knowledge,
    peaks: MeasuredPeaks,
    classes: Vec<ClassResidual>,
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

/// A measured run.
#[derive(Clone, Debug)]
pub struct Observation {
    /// What ran.
    pub job: Job,
    /// CPU it ran on.
    pub cpu: &'static CpuClass,
    /// How it ran.
    pub place: Placement,
    /// Time relative to the same cores without a limit below one; see [`Model::physics`].
    pub slowdown: f64,
    /// Where and with which build: [`local_site`] for runs on this cluster.
    pub site: Site,
    /// Measured speed.
    pub ns_per_day: f64,
    /// Whose run it was, as a number.
    pub owner: u64,
    /// ln(measured peak memory / predicted), if it was measured.
    pub memory_residual: Option<f64>,
    /// Seconds on the clock, if they are known: a short run says less.
    pub wall_seconds: Option<f64>,
}

/// The repetitions of a run.
struct Repeated {
    features: Features,
    owner: u64,
    /// Predicted.
    ns_per_day: f64,
    values: Vec<f64>,
    noise: f64,
    /// When the newest was seen.
    newest: usize,
}

impl Repeated {
    fn residual(self) -> Residual {
        let count = self.values.len() as f64;
        Residual {
            features: self.features,
            owner: self.owner,
            value: median(self.values),
            count,
            noise: self.noise,
        }
    }
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
            classes: Vec::new(),
            version: concat!(env!("CARGO_PKG_VERSION"), "+prior").to_owned(),
        }
    }

    /// The same with other constants and factors of classes, to compare fits.
    #[must_use]
    pub fn with_constants(constants: Constants, factors: &[ClassFactors]) -> Self {
        Self { constants, factors: factors.to_vec(), ..Self::prior() }
    }

    /// The same model with what these runs tell; earlier knowledge is replaced. Runs without a positive speed
    /// are left out.
    #[must_use]
    pub fn learn(&self, observations: &[Observation]) -> Self {
        let mut by_class: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        // A step is predicted once for all repetitions: the place among the distinct runs by owner and key.
        let mut places: HashMap<(u64, u64), usize> = HashMap::new();
        let mut distinct: Vec<Repeated> = Vec::new();
        for (index, run) in observations.iter().enumerate() {
            if !(run.ns_per_day.is_finite() && run.ns_per_day > 0.0) {
                continue;
            }
            let origin = origin(&run.job, run.cpu, &run.place, run.site);
            let key = (run.owner, origin.run_key(&run.place));
            let place = *places.entry(key).or_insert_with(|| {
                let step = self.step_time(&run.job, run.cpu, &run.place).scaled(run.slowdown);
                distinct.push(Repeated {
                    features: Features::new(origin, &run.place, &step),
                    owner: run.owner,
                    ns_per_day: run.job.system.ns_per_day(step.total),
                    values: Vec::new(),
                    noise: f64::INFINITY,
                    newest: index,
                });
                distinct.len() - 1
            });
            let repeated = &mut distinct[place];
            let value = (repeated.ns_per_day / run.ns_per_day).ln();
            repeated.values.push(value);
            repeated.noise = repeated.noise.min(run.noise());
            repeated.newest = index;
            by_class.entry(origin.class()).or_default().push(value);
        }
        distinct.sort_by_key(|run| run.newest);
        let residuals: Vec<Residual> = distinct.into_iter().map(Repeated::residual).collect();
        let runs: usize = by_class.values().map(Vec::len).sum();
        let peaks = MeasuredPeaks::new(observations.iter().filter_map(|run| {
            Some((run.job.key, run.owner, run.memory_residual.filter(|residual| residual.is_finite())?))
        }));
        let digest = residuals.iter().fold(0_u64, |digest, residual| {
            digest.rotate_left(5) ^ residual.value.to_bits() ^ residual.count.to_bits()
        });
        let digest = observations
            .iter()
            .filter_map(|run| run.memory_residual)
            .fold(digest, |digest, residual| digest.rotate_left(5) ^ residual.to_bits());
        Self {
            constants: self.constants,
            factors: self.factors.clone(),
            knowledge: Knowledge::new(&residuals),
            peaks,
            classes: by_class.into_iter().map(|(class, values)| class_residual(class, values)).collect(),
            version: format!("{}+{}-{digest:016x}", env!("CARGO_PKG_VERSION"), runs),
        }
    }

    /// The same model with one more run that measured exactly what is expected: medians stay, intervals get
    /// narrower. For choosing what to measure.
    #[must_use]
    pub fn supposing(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Self {
        let (place, step) = self.physical_step(job, hardware, layout, cpu_millicores);
        let features = features(job, hardware.cpu, &place, job.site, &step);
        let value = self.knowledge.ask(&features, job.asker).0;
        let residual = Residual { features, owner: hash(b"supposed"), value, count: 1.0, noise: 0.0 };
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
        let deviation = combine(&[sigma, SIGMA_SHARED, self.unmeasured_gpus(&asked)]);
        let widening = about.known().widening(place.gpu.is_some());
        Expected { seconds: step.total * shift.exp(), deviation, sigma: deviation * widening }
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

    /// What was learned, by hardware class.
    #[must_use]
    pub fn classes(&self) -> &[ClassResidual] {
        &self.classes
    }

    /// Seconds of one step on a placement that may be larger than one pod.
    #[must_use]
    pub fn step_time(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> StepTime {
        let (pair, other) = self
            .factors
            .iter()
            .find(|factors| factors.class == cpu.key)
            .map_or((1.0, 1.0), |factors| (factors.pair, factors.other));
        let pair_cycles = cpu.pair_cycles_with(job.simd) * pair;
        let built = CpuClass { pair_cycles, ipc: cpu.ipc / other, ..*cpu };
        step_time(&job.system, &job.work, &built, place, &self.constants).scaled(job.slowdown)
    }

    /// Version of code and knowledge: equal versions answer equally.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What was learned, as far as it concerns `job` on hardware of one of `kinds`.
    #[must_use]
    pub fn about<'a>(&'a self, job: &'a Job, kinds: &[Hardware]) -> Asked<'a> {
        let mut classes: Vec<(&'static str, f64)> = Vec::new();
        for kind in kinds {
            classes.push((kind.cpu.key, kind.cpu.sigma));
            classes.extend(kind.gpu.map(|gpu| (gpu.key, gpu.sigma)));
        }
        classes.sort_by_key(|(key, _)| *key);
        classes.dedup_by_key(|(key, _)| *key);
        classes.retain(|(key, _)| self.knowledge.knows(key, 0) || self.knowledge.knows(key, 1));
        let about = classes
            .into_iter()
            .map(|(key, sigma)| {
                let origin = Origin::new(key, sigma, 0, job.site, job);
                (key, self.knowledge.about(&origin, job.asker))
            })
            .collect();
        Asked { model: self, job, about }
    }

    /// Speed in ns per day by physics alone.
    #[must_use]
    pub fn physics(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        job.system.ns_per_day(self.physical_step(job, hardware, layout, cpu_millicores).1.total)
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

    /// Answers a whole request for one layout.
    pub fn answer(&self, request: &PredictRequest) -> Result<PredictReply, TuneError> {
        let job = Job::new(&request.system, request.gromacs_version.as_deref())?
            .asked_by(request.owner.as_deref())?;
        let node = &request.node;
        check_node("node", node)?;
        let layout = request.layout;
        check_layout(&layout)?;
        if let Some(cpu) = request.cpu_millicores.filter(|cpu| !bounds::is_pod_cpu(*cpu)) {
            let (half, whole, most) = (bounds::HALF_CORE, bounds::WHOLE_CORE, bounds::CPU_MILLICORES.max);
            let problem = format!("must be {half} or a multiple of {whole}, at most {most}, is {cpu}");
            return Err(FieldError::new("cpuMillicores", problem).into());
        }
        let hardware = hardware_of(&node.labels, node.allocatable.gpus);
        layout::check(&job.system, &layout, hardware.gpu)
            .map_err(|refusal| FieldError::combination("layout", refusal.to_string()))?;
        let cpu_millicores =
            request.cpu_millicores.unwrap_or_else(|| layout.threads().saturating_mul(bounds::WHOLE_CORE));
        let peak = self.peak_bytes(&job, &layout);
        let resources =
            Resources { cpu_millicores, memory_bytes: memory::request_bytes(peak), gpus: layout.gpus };
        if !resources.fits_in(&node.allocatable) {
            return Err(TuneError::NothingFits(FieldError::new(
                "node.allocatable",
                format!(
                    "the layout needs {} and the node offers {}",
                    display(&resources),
                    display(&node.allocatable)
                ),
            )));
        }
        let prediction = self.about(&job, &[hardware]).predict(&hardware, &layout, cpu_millicores);
        Ok(PredictReply {
            model_version: self.version.clone(),
            hardware_class: class_name(hardware.cpu, &hardware, &layout),
            ns_per_day: prediction.ns_per_day,
            hours_to_finish: job.system.hours(prediction.ns_per_day.p50),
            memory_bytes: peak,
            resources,
            step: step_cost(&prediction.step),
        })
    }
}

/// A model that is asked about one job; see [`Model::about`].
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    model: &'a Model,
    job: &'a Job,
    about: Vec<(&'static str, About)>,
}

impl Asked<'_> {
    fn about(&self, features: &Features) -> Option<&About> {
        let origin = features.origin();
        let mine = |key: &str| origin.gpus() <= 1 && key == origin.class();
        self.about.iter().find(|(key, _)| mine(key)).map(|(_, about)| about)
    }

    /// Expected residual, its standard deviation, and the factor that calibrates it.
    fn learned(&self, features: &Features, on_gpu: bool) -> (f64, f64, f64) {
        let answer = |about: &About| {
            let (shift, sigma) = about.ask(features);
            (shift, sigma, about.known().widening(on_gpu))
        };
        match self.about(features) {
            Some(about) => answer(about),
            None => answer(&self.model.knowledge.about(features.origin(), self.job.asker)),
        }
    }

    /// Uncertainty from hardware threads.
    fn sigma_of_threads(&self, hardware: &Hardware, features: &Features) -> f64 {
        if hardware.smt {
            SIGMA_SMT
        } else if !hardware.smt_known
            && !self.model.knowledge.knows(features.origin().class(), features.origin().gpus())
        {
            SIGMA_UNKNOWN_SMT
        } else {
            0.0
        }
    }

    /// Median speed in ns per day of `layout` with `cpu_millicores` on `hardware`: [`Self::predict`] without
    /// the interval, for comparing many layouts.
    #[must_use]
    pub fn speed(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        let (place, step) = self.model.physical_step(self.job, hardware, layout, cpu_millicores);
        if self.about.is_empty() {
            return self.job.system.ns_per_day(step.total);
        }
        let features = features(self.job, hardware.cpu, &place, self.job.site, &step);
        let shift = self.about(&features).map_or(0.0, |about| about.mean(&features));
        self.job.system.ns_per_day(step.total * shift.exp())
    }

    /// True if nothing was learned about any of the hardware.
    #[must_use]
    pub fn is_prior(&self) -> bool {
        self.about.is_empty()
    }

    /// Speed of `layout` with `cpu_millicores` on `hardware`, with its interval.
    #[must_use]
    pub fn predict(&self, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Prediction {
        let (place, physics) = self.model.physical_step(self.job, hardware, layout, cpu_millicores);
        let features = features(self.job, hardware.cpu, &place, self.job.site, &physics);
        let (shift, sigma, widening) = self.learned(&features, place.gpu.is_some());
        let step = physics.scaled(shift.exp());
        let sigma = widening
            * combine(&[
                sigma,
                SIGMA_SHARED,
                self.sigma_of_threads(hardware, &features),
                self.model.unmeasured_gpus(&features),
            ]);
        Prediction { ns_per_day: log_normal(self.job.system.ns_per_day(step.total), sigma), step }
    }
}

fn class_residual(class: &str, mut values: Vec<f64>) -> ClassResidual {
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let middle = median(&mut values);
    let mut deviations = values.iter().map(|value| (value - middle).abs()).collect();
    ClassResidual {
        class: class.to_owned(),
        runs: values.len() as u64,
        median_ratio: middle.exp(),
        spread: median(&mut deviations),
    }
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
    Origin::new(class, sigma, gpus, site, job)
}

/// Half-width of the 80% interval of a class that was never measured, as a factor: what a prediction on nodes that others
/// use too has.
#[must_use]
pub fn half_width(class_sigma: f64) -> f64 {
    (Z90 * combine(&[class_sigma, SIGMA_SHARED])).exp()
}

/// Time of a pod that is given less than a core, relative to what its share of one would do.
fn throttling(cpu_millicores: u32) -> f64 {
    if cpu_millicores < bounds::WHOLE_CORE { 1.0 / THROTTLED } else { 1.0 }
}

fn step_cost(step: &StepTime) -> StepCost {
    StepCost {
        pair_us: step.pair * 1e6,
        pme_us: step.pme * 1e6,
        other_us: step.other * 1e6,
        overhead_us: step.overhead * 1e6,
        total_us: step.total * 1e6,
    }
}

fn placement(hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Placement {
    let on = |device: Device| device == Device::Gpu;
    let worth = if hardware.smt { HARDWARE_THREAD } else { 1.0 };
    let cores = f64::from(cpu_millicores) / 1000.0 * worth;
    let own = (cores / hardware.cpu.node_cores).min(1.0);
    Placement {
        nodes: 1.0,
        ranks: f64::from(layout.ntmpi),
        threads: f64::from(layout.ntomp),
        npme: f64::from(layout.npme),
        cores,
        smt: 1.0,
        busy: own + BUSY_NEIGHBOURS * (1.0 - own),
        gpu: hardware.gpu.filter(|_| layout.gpus > 0).map(|class| GpuPlacement {
            class,
            count: f64::from(layout.gpus),
            pme: on(layout.pme),
            bonded: on(layout.bonded),
            update: on(layout.update),
        }),
    }
}

/// Name of what a prediction was made for: `zen2`, `zen2+a100`.
#[must_use]
pub fn class_name(cpu: &CpuClass, hardware: &Hardware, layout: &Layout) -> String {
    match hardware.gpu {
        Some(gpu) if layout.gpus > 0 => format!("{}+{}", cpu.key, gpu.key),
        _ => cpu.key.to_owned(),
    }
}

/// Checks what a request says of a node.
pub(crate) fn check_node(path: &str, node: &scavenger_schema::tuning::NodeShape) -> Result<(), FieldError> {
    let check = || {
        within("count", node.count, bounds::NODES)?;
        for (name, amount) in
            [("allocatable", Some(&node.allocatable)), ("largestFree", node.largest_free.as_ref())]
        {
            let Some(amount) = amount else { continue };
            within(&format!("{name}.cpuMillicores"), amount.cpu_millicores, bounds::CPU_MILLICORES)?;
            within(&format!("{name}.memoryBytes"), amount.memory_bytes, bounds::MEMORY_BYTES)?;
            within(&format!("{name}.gpus"), amount.gpus, bounds::GPUS)?;
        }
        for (name, value) in &node.labels {
            length_within("labels", name, bounds::LABEL_NAME_LENGTH)?;
            length_within(&format!("labels.{name}"), value, bounds::LABEL_VALUE_LENGTH)?;
        }
        Ok(())
    };
    check().map_err(|error: FieldError| error.within(path))
}

/// Checks the numbers of a layout one by one; whether they go together is for [`layout::check`].
pub(crate) fn check_layout(layout: &Layout) -> Result<(), FieldError> {
    within("layout.ntmpi", layout.ntmpi, bounds::RANKS)?;
    within("layout.ntomp", layout.ntomp, bounds::THREADS)?;
    within("layout.npme", layout.npme, bounds::PME_RANKS)?;
    within("layout.gpus", layout.gpus, bounds::GPUS)?;
    Ok(())
}

/// Resources for a person.
pub(crate) fn display(resources: &Resources) -> String {
    let cores = f64::from(resources.cpu_millicores) / 1000.0;
    let mebibytes = resources.memory_bytes / scavenger_schema::tuning::MIB;
    let gpus = match resources.gpus {
        0 => String::new(),
        1 => ", 1 GPU".to_owned(),
        n => format!(", {n} GPUs"),
    };
    format!("{cores} cores, {mebibytes} MiB{gpus}")
}

#[cfg(test)]
mod tests;
