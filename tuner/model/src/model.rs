//! The model in use: constants, what was learned, and the predictions they make.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{
    ClassResidual, Device, Interval, Layout, PredictReply, PredictRequest, Resources, StepCost,
    SystemDescription,
};

use crate::error::{FieldError, TuneError, count_within};
use crate::hardware::{CpuClass, Hardware, hardware_of};
use crate::interval::{combine, log_normal};
use crate::learn::{Features, Knowledge, Residual};
use crate::performance::{Constants, GpuPlacement, Placement, StepTime, step_time};
use crate::system::System;
use crate::work::Work;
use crate::{layout, memory};

/// What part of a core a hardware thread is worth, on nodes where Kubernetes counts hardware threads: two of them
/// together do about 1.18 times the work of one core.
const HARDWARE_THREAD: f64 = 0.59;
/// Loss of a pod that is given half a core: it runs at full speed and is stopped half of the time, in slices of
/// 100 ms, and caches cool meanwhile.
const THROTTLED: f64 = 0.97;
/// Uncertainty of ln(speed) of cores that are shared with other pods.
const SIGMA_SHARED: f64 = 0.08;
/// The same if a CPU of Kubernetes is a hardware thread: what runs on the other one is not known.
const SIGMA_SMT: f64 = 0.15;
/// The same for several GPUs that were never measured together: seen were 0.1 to 1.8 times the speed of one.
const SIGMA_SEVERAL_GPUS: f64 = 1.2;
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
    /// Site of the knowledge that is asked: this cluster and the version of GROMACS.
    site: String,
}

impl Job {
    /// Checks a system and counts its work. Fields of the error are relative to the request.
    pub fn new(system: &SystemDescription, gromacs_version: Option<&str>) -> Result<Self, FieldError> {
        let system = System::check(system).map_err(|error| error.within("system"))?;
        let work = Work::of(&system);
        let slowdown = match gromacs_version.and_then(release_year) {
            Some(year) if year < 2018 => BEFORE_2018,
            _ => 1.0,
        };
        let site = local_site(gromacs_version);
        Ok(Self { system, work, slowdown, site })
    }
}

/// Name under which runs on this cluster with that version are known.
#[must_use]
pub fn local_site(gromacs_version: Option<&str>) -> String {
    format!("local {}", gromacs_version.unwrap_or_default())
}

/// Year of a version as `gmx --version` prints it; releases before 2016 count as 5.
fn release_year(version: &str) -> Option<u32> {
    let digits: String = version
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
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
    ) -> Result<Self, FieldError> {
        let hardware = hardware_of(labels, resources.gpus);
        let job = Job::new(system, gromacs_version)?;
        layout::check(&job.system, layout, hardware.gpu)
            .map_err(|refusal| FieldError::new("layout", refusal.to_string()))?;
        count_within("cpuMillicores", resources.cpu_millicores, 1, 10_000_000)?;
        Ok(Self {
            place: placement(&hardware, layout, resources.cpu_millicores),
            cpu: hardware.cpu,
            site: local_site(gromacs_version),
            job,
            ns_per_day,
        })
    }
}

/// The speed model. Immutable: learning makes a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    constants: Constants,
    knowledge: Knowledge,
    classes: Vec<ClassResidual>,
    version: String,
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
    /// Where and with which build: [`local_site`] for runs on this cluster.
    pub site: String,
    /// Measured speed.
    pub ns_per_day: f64,
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
            classes: Vec::new(),
            version: concat!(env!("CARGO_PKG_VERSION"), "+prior").to_owned(),
        }
    }

    /// The same with other constants, to compare fits.
    #[must_use]
    pub fn with_constants(constants: Constants) -> Self {
        Self { constants, ..Self::prior() }
    }

    /// The same model with what these runs tell; earlier knowledge is replaced. Runs without a positive speed
    /// are left out.
    #[must_use]
    pub fn learn(&self, observations: &[Observation]) -> Self {
        let mut by_class: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut residuals = Vec::with_capacity(observations.len());
        for run in observations.iter().filter(|run| run.ns_per_day.is_finite() && run.ns_per_day > 0.0) {
            let step = self.step_time(&run.job, run.cpu, &run.place);
            let features = features(&run.job, run.cpu, &run.place, &run.site, &step);
            let value = (run.job.system.ns_per_day(step.total) / run.ns_per_day).ln();
            let class = run.place.gpu.map_or(run.cpu.key, |gpu| gpu.class.key);
            by_class.entry(class).or_default().push(value);
            residuals.push(Residual { features, value });
        }
        let digest =
            residuals.iter().fold(0_u64, |digest, residual| digest.rotate_left(5) ^ residual.value.to_bits());
        Self {
            constants: self.constants,
            knowledge: Knowledge::new(&residuals),
            classes: by_class.into_iter().map(|(class, values)| class_residual(class, values)).collect(),
            version: format!("{}+{}-{digest:016x}", env!("CARGO_PKG_VERSION"), residuals.len()),
        }
    }

    /// Seconds per step at the median and the standard deviation of its logarithm, for a placement that may be
    /// larger than one pod.
    #[must_use]
    pub fn expect(&self, job: &Job, cpu: &CpuClass, place: &Placement, site: &str) -> (f64, f64) {
        let step = self.step_time(job, cpu, place);
        let (shift, sigma) = self.knowledge.ask(&features(job, cpu, place, site, &step));
        (step.total * shift.exp(), combine(&[sigma, unmeasured_gpus(place)]))
    }

    /// What was learned, by hardware class.
    #[must_use]
    pub fn classes(&self) -> &[ClassResidual] {
        &self.classes
    }

    /// Seconds of one step on a placement that may be larger than one pod.
    #[must_use]
    pub fn step_time(&self, job: &Job, cpu: &CpuClass, place: &Placement) -> StepTime {
        let step = step_time(&job.system, &job.work, cpu, place, &self.constants);
        scaled(&step, job.slowdown)
    }

    /// Version of code and knowledge: equal versions answer equally.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Median speed in ns per day of `layout` with `cpu_millicores` on `hardware`: [`Self::predict`] without
    /// the interval, for comparing many layouts.
    #[must_use]
    pub fn speed(&self, job: &Job, hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> f64 {
        let (place, step) = self.physical_step(job, hardware, layout, cpu_millicores);
        let shift = if self.classes.is_empty() {
            0.0
        } else {
            self.knowledge.mean(&features(job, hardware.cpu, &place, &job.site, &step))
        };
        job.system.ns_per_day(step.total * shift.exp())
    }

    /// [`Self::speed`] without what was learned.
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
        let throttled = if cpu_millicores < 1000 { THROTTLED } else { 1.0 };
        (place, scaled(&self.step_time(job, hardware.cpu, &place), 1.0 / throttled))
    }

    /// Speed of `layout` with `cpu_millicores` on `hardware`, with its interval.
    #[must_use]
    pub fn predict(
        &self,
        job: &Job,
        hardware: &Hardware,
        layout: &Layout,
        cpu_millicores: u32,
    ) -> Prediction {
        let (place, physics) = self.physical_step(job, hardware, layout, cpu_millicores);
        let (shift, sigma) = self.knowledge.ask(&features(job, hardware.cpu, &place, &job.site, &physics));
        let step = scaled(&physics, shift.exp());
        let sigma = combine(&[
            sigma,
            SIGMA_SHARED,
            if hardware.smt { SIGMA_SMT } else { 0.0 },
            unmeasured_gpus(&place),
        ]);
        Prediction { ns_per_day: log_normal(job.system.ns_per_day(step.total), sigma), step }
    }

    /// Answers a whole request for one layout.
    pub fn answer(&self, request: &PredictRequest) -> Result<PredictReply, TuneError> {
        let job = Job::new(&request.system, request.gromacs_version.as_deref())?;
        let node = &request.node;
        check_node("node", node)?;
        let layout = request.layout;
        let hardware = hardware_of(&node.labels, node.allocatable.gpus);
        layout::check(&job.system, &layout, hardware.gpu)
            .map_err(|refusal| FieldError::new("layout", refusal.to_string()))?;
        let cpu_millicores = request.cpu_millicores.unwrap_or_else(|| layout.threads().saturating_mul(1000));
        if cpu_millicores != 500 && (cpu_millicores == 0 || !cpu_millicores.is_multiple_of(1000)) {
            return Err(FieldError::new(
                "cpuMillicores",
                format!("must be 500 or a multiple of 1000, is {cpu_millicores}"),
            )
            .into());
        }
        let peak = memory::peak_bytes(&job.system, &layout);
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
        let prediction = self.predict(&job, &hardware, &layout, cpu_millicores);
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

/// What the knowledge is asked with. Beside a GPU the GPU is the class.
fn features(job: &Job, cpu: &CpuClass, place: &Placement, site: &str, step: &StepTime) -> Features {
    let (class, sigma) = match place.gpu {
        Some(gpu) => (gpu.class.key, gpu.class.sigma),
        None => (cpu.key, cpu.sigma),
    };
    Features::new(class, sigma, site, job, place, step)
}

/// Several GPUs that were never measured together.
fn unmeasured_gpus(place: &Placement) -> f64 {
    if place.gpu.is_some_and(|gpu| gpu.count > 1.0) { SIGMA_SEVERAL_GPUS } else { 0.0 }
}

fn scaled(step: &StepTime, factor: f64) -> StepTime {
    StepTime {
        pair: step.pair * factor,
        pme: step.pme * factor,
        other: step.other * factor,
        overhead: step.overhead * factor,
        total: step.total * factor,
    }
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
    Placement {
        nodes: 1.0,
        ranks: f64::from(layout.ntmpi),
        threads: f64::from(layout.ntomp),
        npme: f64::from(layout.npme),
        cores: f64::from(cpu_millicores) / 1000.0 * worth,
        smt: 1.0,
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
pub(crate) fn class_name(cpu: &CpuClass, hardware: &Hardware, layout: &Layout) -> String {
    match hardware.gpu {
        Some(gpu) if layout.gpus > 0 => format!("{}+{}", cpu.key, gpu.key),
        _ => cpu.key.to_owned(),
    }
}

/// Checks what a request says of a node.
pub(crate) fn check_node(path: &str, node: &scavenger_schema::tuning::NodeShape) -> Result<(), FieldError> {
    let check = || {
        count_within("count", node.count, 1, 1_000_000)?;
        for (name, amount) in
            [("allocatable", Some(&node.allocatable)), ("largestFree", node.largest_free.as_ref())]
        {
            let Some(amount) = amount else { continue };
            count_within(&format!("{name}.cpuMillicores"), amount.cpu_millicores, 0, 10_000_000)?;
            count_within(&format!("{name}.memoryBytes"), amount.memory_bytes, 0, 1 << 50)?;
            count_within(&format!("{name}.gpus"), amount.gpus, 0, 64)?;
        }
        Ok(())
    };
    check().map_err(|error: FieldError| error.within(path))
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
mod tests {
    use super::*;
    use crate::ladder::fixtures::{node, water};

    fn request() -> PredictRequest {
        PredictRequest {
            system: water(30_000),
            layout: Layout::cpu(1, 2),
            node: node(2000, 4),
            cpu_millicores: None,
            gromacs_version: None,
        }
    }

    #[test]
    fn predicts_an_interval_around_the_median() {
        let reply = Model::prior().answer(&request()).expect("two threads should run on two cores");
        let speed = reply.ns_per_day;
        assert!(0.0 < speed.p10 && speed.p10 < speed.p50 && speed.p50 < speed.p90);
        assert_eq!(reply.hardware_class, "unknown");
        assert_eq!(reply.resources.cpu_millicores, 2000);
    }

    #[test]
    fn runs_on_the_cluster_move_and_narrow_its_predictions() {
        let model = Model::prior();
        let request = request();
        let before = model.answer(&request).expect("the layout should run");
        let measured = before.ns_per_day.p50 * 0.6;
        let mut other = request.system.clone();
        other.atoms = 60_000;
        let other_before = model
            .answer(&PredictRequest { system: other.clone(), ..request.clone() })
            .expect("the layout should run");
        let run = Observation::local(
            &request.system,
            None,
            &request.layout,
            &before.resources,
            &request.node.labels,
            measured,
        )
        .expect("the run should be accepted");
        let learned = model.learn(&[run]);
        assert_ne!(learned.version(), model.version());
        assert_eq!(learned.classes()[0].runs, 1);
        let after = learned.answer(&request).expect("the layout should run").ns_per_day;
        assert!((after.p50 / measured - 1.0).abs() < 0.1, "{after:?} {measured}");
        assert!(after.p90 / after.p50 < 1.25, "{after:?}");
        let after = learned
            .answer(&PredictRequest { system: other, ..request })
            .expect("the layout should run")
            .ns_per_day;
        assert!((after.p50 / (0.6 * other_before.ns_per_day.p50) - 1.0).abs() < 0.15, "{after:?}");
    }

    #[test]
    fn unknown_hardware_is_less_certain() {
        let mut known = request();
        known.node.labels.insert("node.kubernetes.io/instance-type".into(), "m6i.large".into());
        let model = Model::prior();
        let width = |request: &PredictRequest| {
            let speed = model.answer(request).expect("the layout should run").ns_per_day;
            speed.p90 / speed.p50
        };
        assert!(width(&request()) > 1.8);
        assert!(width(&known) < 1.6);
    }

    #[test]
    fn old_releases_are_slower() {
        let mut old = request();
        old.gromacs_version = Some("2016.4".to_owned());
        let model = Model::prior();
        let speed =
            |request: &PredictRequest| model.answer(request).expect("the layout should run").ns_per_day.p50;
        assert!(speed(&old) < speed(&request()));
        assert_eq!(release_year("2022.5-Debian_2022.5_2"), Some(2022));
        assert_eq!(release_year("VERSION 5.1"), Some(5));
        assert_eq!(release_year("unknown"), None);
    }

    #[test]
    fn refuses_what_mdrun_or_the_node_would_refuse() {
        let model = Model::prior();
        let field = |spoil: fn(&mut PredictRequest)| {
            let mut request = request();
            spoil(&mut request);
            model.answer(&request).expect_err("the spoilt request should be refused").field().to_owned()
        };
        assert_eq!(field(|r| r.layout.npme = 1), "layout");
        assert_eq!(field(|r| r.layout.ntomp = 4), "node.allocatable");
        assert_eq!(field(|r| r.layout.ntmpi = u32::MAX), "layout");
        assert_eq!(field(|r| r.cpu_millicores = Some(1500)), "cpuMillicores");
        assert_eq!(field(|r| r.node.allocatable.gpus = 1_000_000), "node.allocatable.gpus");
        assert_eq!(field(|r| r.system.atoms = 0), "system.atoms");
    }
}
