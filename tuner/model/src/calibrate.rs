//! Which short benchmark runs to make on a kind of node.
//!
//! What a run teaches of others does not depend on what it is, so the benchmarks are boxes of different sizes, up to three.
//! How much they would narrow the interval does not depend on what they will measure, so it is known before.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{
    Benchmark, CalibrationReply, CalibrationRequest, Interval, Layout, Resources, SystemDescription,
};
use scavenger_schema::water::WaterBox;

use crate::error::{FieldError, TuneError, within};
use crate::hardware::{Hardware, hardware_of};
use crate::ladder::MOST_CORES_PER_GPU;
use crate::ladder::runnable::{refused, simd_of};
use crate::layout::{cpu_layouts, gpu_layout};
use crate::memory::{peak_bytes, request_bytes};
use crate::model::{Job, Model, check_node, display};
use crate::system::{cube_of_water, usual_water};

/// Atoms of the boxes of water that a benchmark may have.
const BENCHMARK_ATOMS: [u64; 4] = [12_000, 48_000, 192_000, 768_000];
/// Atoms of a simulation that one may want to know about.
const WANTED_ATOMS: u64 = 100_000;
/// Steps come in multiples of it, so that half of them is a step at which pairs are searched.
const STEPS: f64 = 200.0;
/// A benchmark whose fewest steps take so many times the seconds that were asked for is none to propose.
const MOST_TIMES_LONGER: f64 = 2.0;
/// Atoms per core that a benchmark has at least, if it can: with fewer it would measure what cores wait for.
const ATOMS_PER_CORE: u64 = 1500;
/// A further benchmark must take away at least this share of what is left.
const WORTH_IT: f64 = 0.03;

/// A box of water that a benchmark can have.
#[must_use]
pub fn water(found: WaterBox) -> SystemDescription {
    usual_water(found.atoms(), found.edges_nm())
}

/// A simulation that one may want to run: a cube with the density of water.
pub(crate) fn wanted(atoms: u64) -> SystemDescription {
    usual_water(atoms, cube_of_water(atoms as f64))
}

/// A benchmark that may be proposed.
struct Run {
    job: Job,
    system: SystemDescription,
    layout: Layout,
    resources: Resources,
    peak_bytes: u64,
}

/// Proposes benchmarks for a kind of node.
pub fn propose(model: &Model, request: &CalibrationRequest) -> Result<CalibrationReply, TuneError> {
    check_node(&request.node).map_err(|error| error.within("node"))?;
    within("maxBenchmarks", request.max_benchmarks, bounds::BENCHMARKS)?;
    let most_cores = match request.max_cpu_millicores {
        Some(most) => {
            within("maxCpuMillicores", most, bounds::BENCHMARK_CPU_MILLICORES)? / bounds::WHOLE_CORE
        }
        None => u32::MAX,
    };
    let seconds = within("seconds", request.seconds, bounds::BENCHMARK_SECONDS)?;
    let hardware = hardware_of(&request.node.labels, request.node.allocatable.gpus)
        .on_node(request.node.allocatable.cpu_millicores);
    if let Some(simd) = simd_of(&request.build).filter(|simd| !hardware.cpu.runs(*simd)) {
        return Err(refused(format!(
            "GROMACS is built for {simd}, and the node's processor does not have it"
        )));
    }
    let boxes: Vec<SystemDescription> = boxes(request.max_atoms)?.into_iter().map(water).collect();
    let possible = short_enough(model, &hardware, runs(request, &hardware, &boxes, most_cores)?, seconds);
    let job = Job::new(&wanted(WANTED_ATOMS), request.gromacs_version.as_deref(), &request.build)?;
    let fastest = |cores: u32| Some((fastest_layout(&job, &hardware, cores)?, cores * bounds::WHOLE_CORE));
    let wanted = (1..=useful_cores(request, &hardware)).rev().find_map(fastest);
    let (Some((layout, cpu_millicores)), false) = (wanted, possible.is_empty()) else {
        let offer = display(&request.node.allocatable);
        let problem = format!("the smallest benchmark does not fit; the node offers {offer}");
        return Err(TuneError::NothingFits(FieldError::new("node.allocatable", problem)));
    };
    let half_width = |systems: usize| {
        let speed = model.supposing(systems).predict(&job, &hardware, &layout, cpu_millicores).ns_per_day;
        speed.p90 / speed.p50
    };
    let before = half_width(0);
    let mut left = before;
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    for run in in_order(&possible).into_iter().take(request.max_benchmarks as usize) {
        let after = half_width(benchmarks.len() + 1);
        if !benchmarks.is_empty() && after.ln() > (1.0 - WORTH_IT) * left.ln() {
            break;
        }
        benchmarks.push(benchmark(model, &hardware, run, request, after));
        left = after;
    }
    Ok(CalibrationReply {
        model_version: model.version().to_owned(),
        hardware_class: hardware.class(possible[possible.len() - 1].layout.gpus),
        half_width: before,
        benchmarks,
    })
}

/// One run of each box: the middle box first, on the most cores that it keeps busy.
fn in_order(possible: &[Run]) -> Vec<&Run> {
    let mut sizes: Vec<u64> = possible.iter().map(|run| run.system.atoms).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let middle = sizes.len() / 2;
    let mut places: Vec<usize> = (0..sizes.len()).collect();
    places.sort_by_key(|place| place.abs_diff(middle));
    let of_size = |place: usize| {
        let runs = possible.iter().filter(|run| run.system.atoms == sizes[place]);
        let most = sizes[place] / ATOMS_PER_CORE * u64::from(bounds::WHOLE_CORE);
        let cores = |run: &&Run| {
            let cpu = u64::from(run.resources.cpu_millicores);
            if cpu <= most { (1, cpu) } else { (0, u64::MAX - cpu) }
        };
        runs.max_by_key(cores)
    };
    places.into_iter().filter_map(of_size).collect()
}

/// The boxes that a benchmark may have.
fn boxes(max_atoms: Option<u64>) -> Result<Vec<WaterBox>, FieldError> {
    let mut boxes = BENCHMARK_ATOMS.map(WaterBox::near).to_vec();
    if let Some(most) = max_atoms {
        within("maxAtoms", most, bounds::BENCHMARK_ATOMS)?;
        boxes.push(WaterBox::at_most(most));
        boxes.retain(|found| found.atoms() <= most);
    }
    boxes.sort_by_key(WaterBox::atoms);
    boxes.dedup();
    Ok(boxes)
}

/// Leaves out the runs that would take much longer than wanted; if that are all, the one that takes least stays.
fn short_enough(model: &Model, hardware: &Hardware, runs: Vec<Run>, seconds: f64) -> Vec<Run> {
    let least = |run: &Run| STEPS * run.job.system.ns_per_day(predicted(model, hardware, run).p50);
    let mut runs: Vec<(f64, Run)> = runs.into_iter().map(|run| (least(&run), run)).collect();
    let quickest = runs.iter().map(|(least, _)| *least).fold(f64::INFINITY, f64::min);
    runs.retain(|(least, _)| *least <= (MOST_TIMES_LONGER * seconds).max(quickest));
    runs.into_iter().map(|(_, run)| run).collect()
}

fn predicted(model: &Model, hardware: &Hardware, run: &Run) -> Interval {
    model.predict(&run.job, hardware, &run.layout, run.resources.cpu_millicores).ns_per_day
}

/// The layout of so many cores that is fastest before anything is measured; beside a GPU if the node has any.
#[must_use]
pub fn fastest_layout(job: &Job, hardware: &Hardware, cores: u32) -> Option<Layout> {
    let layouts = match hardware.gpu {
        Some(gpu) => Vec::from_iter(gpu_layout(&job.system, cores, gpu)),
        None => cpu_layouts(&job.system, cores),
    };
    let prior = Model::prior();
    let speed = |layout: &Layout| prior.speed(job, hardware, layout, cores * bounds::WHOLE_CORE);
    layouts.into_iter().max_by(|a, b| speed(a).total_cmp(&speed(b)))
}

/// The most cores of the node that a ladder proposes.
fn useful_cores(request: &CalibrationRequest, hardware: &Hardware) -> u32 {
    let most = request.node.allocatable.cpu_millicores / bounds::WHOLE_CORE;
    if hardware.gpu.is_some() { most.min(MOST_CORES_PER_GPU) } else { most }
}

/// Systems on 1, 2, 4, ... cores of the node and all of them, but at most `most_cores`, each with its
/// [`fastest_layout`].
fn runs(
    request: &CalibrationRequest,
    hardware: &Hardware,
    systems: &[SystemDescription],
    most_cores: u32,
) -> Result<Vec<Run>, FieldError> {
    let most = useful_cores(request, hardware).min(most_cores);
    let mut counts: Vec<u32> = (0..11).map(|power| 1 << power).filter(|cores| *cores < most).collect();
    counts.extend((most > 0).then_some(most));
    let mut found = Vec::new();
    for system in systems {
        let job = Job::new(system, request.gromacs_version.as_deref(), &request.build)?;
        for cores in &counts {
            let Some(layout) = fastest_layout(&job, hardware, *cores) else { continue };
            let peak_bytes = peak_bytes(&job.system, &layout);
            let memory_bytes = request_bytes(peak_bytes);
            let resources = Resources { cpu_millicores: cores * 1000, memory_bytes, gpus: layout.gpus };
            if resources.fits_in(&request.node.allocatable) {
                found.push(Run { job: job.clone(), system: system.clone(), layout, resources, peak_bytes });
            }
        }
    }
    Ok(found)
}

fn benchmark(
    model: &Model,
    hardware: &Hardware,
    run: &Run,
    request: &CalibrationRequest,
    after: f64,
) -> Benchmark {
    let speed = predicted(model, hardware, run);
    let seconds_per_step = run.job.system.ns_per_day(speed.p50);
    let steps =
        ((request.seconds / seconds_per_step / STEPS).ceil() as u64).clamp(1, 1_000_000) * STEPS as u64;
    let mut mdrun_args = run.layout.mdrun_args(request.gromacs_version.as_deref());
    // The counters cannot be reset while PME is being tuned.
    for argument in
        ["-notunepme", "-noconfout", "-nsteps", &steps.to_string(), "-resetstep", &(steps / 2).to_string()]
    {
        mdrun_args.push(argument.to_owned());
    }
    Benchmark {
        system: SystemDescription { nsteps: i64::try_from(steps).unwrap_or(i64::MAX), ..run.system.clone() },
        layout: run.layout,
        resources: run.resources,
        memory_bytes: run.peak_bytes,
        mdrun_args,
        ns_per_day: speed,
        seconds: steps as f64 * seconds_per_step,
        half_width_after: after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::{labelled, node};
    use crate::model::Observation;
    use scavenger_schema::tuning::{Build, PredictRequest};

    fn request(cores: u32, gpus: u32) -> CalibrationRequest {
        CalibrationRequest {
            node: labelled(&node(cores * 1000, 64), &[], gpus),
            gromacs_version: Some("2024.1".to_owned()),
            build: Build::default(),
            max_benchmarks: 3,
            max_cpu_millicores: None,
            max_atoms: None,
            seconds: 60.0,
        }
    }

    #[test]
    fn benchmarks_of_unknown_hardware_narrow_the_interval_by_much() {
        let reply = propose(&Model::prior(), &request(16, 0)).expect("there should be a proposal");
        assert!((1..=3).contains(&reply.benchmarks.len()));
        assert!(reply.half_width > 1.8, "{}", reply.half_width);
        let mut before = reply.half_width;
        for benchmark in &reply.benchmarks {
            assert!(benchmark.half_width_after < before);
            before = benchmark.half_width_after;
            assert!((30.0..120.0).contains(&benchmark.seconds), "{}", benchmark.seconds);
            assert!(benchmark.mdrun_args.contains(&"-notunepme".to_owned()));
        }
        assert!(before < 1.45, "{before}");
    }

    #[test]
    fn what_is_measured_on_the_spot_is_covered_for_a_system_of_another_size() {
        // Hardware that is 1.6 times slower than its class says.
        let (model, request) = (Model::prior(), request(16, 0));
        let reply = propose(&model, &request).expect("there should be a proposal");
        let runs: Vec<Observation> = reply
            .benchmarks
            .iter()
            .map(|run| {
                let asked = PredictRequest {
                    system: run.system.clone(),
                    layout: run.layout,
                    node: request.node.clone(),
                    cpu_millicores: None,
                    gromacs_version: request.gromacs_version.clone(),
                    build: Build::default(),
                };
                Observation::new(&asked, None, run.ns_per_day.p50 / 1.6)
                    .expect("the benchmark should be accepted")
            })
            .collect();
        let learned = model.learn(&runs);
        let hardware = hardware_of(&request.node.labels, 0);
        let others = [25_000, 400_000].map(wanted);
        for run in super::runs(&request, &hardware, &others, u32::MAX).expect("water should be accepted") {
            let (before, after) = (predicted(&model, &hardware, &run), predicted(&learned, &hardware, &run));
            let measured = before.p50 / 1.6;
            assert!(after.p90 / after.p10 < before.p90 / before.p10);
            assert!(after.p10 < measured && measured < after.p90, "{after:?} {measured}");
            assert!((after.p50 / measured - 1.0).abs() < 0.15, "{after:?} {measured}");
        }
        let again = propose(&learned, &request).expect("there should be a proposal");
        assert!(again.half_width < reply.half_width);
    }

    #[test]
    fn limits_bound_the_benchmarks_and_not_what_they_are_for() {
        let whole = propose(&Model::prior(), &request(64, 0)).expect("there should be a proposal");
        let bounded = CalibrationRequest {
            max_cpu_millicores: Some(1999),
            max_atoms: Some(60_000),
            seconds: 20.0,
            ..request(64, 0)
        };
        let reply = propose(&Model::prior(), &bounded).expect("there should be a proposal");
        assert_eq!(reply.half_width, whole.half_width, "the same simulations are wanted");
        for run in &reply.benchmarks {
            assert_eq!(run.resources.cpu_millicores, 1000);
            assert!(run.system.atoms <= 60_000 && run.seconds < 60.0, "{run:?}");
        }
        assert!(reply.benchmarks.last().expect("there should be one").half_width_after < reply.half_width);
        let smallest = CalibrationRequest { max_atoms: Some(5184), ..request(4, 0) };
        let reply = propose(&Model::prior(), &smallest).expect("there should be a proposal");
        assert!(reply.benchmarks.iter().all(|run| run.system.atoms == 5184));
    }

    #[test]
    fn a_benchmark_is_what_a_row_can_say() {
        let old = |version: &str| CalibrationRequest {
            gromacs_version: Some(version.to_owned()),
            ..request(16, 1)
        };
        for request in [request(16, 0), request(64, 0), request(16, 1), old("2018.8"), old("2016.4")] {
            let version = request.gromacs_version.as_deref();
            for run in propose(&Model::prior(), &request).expect("there should be a proposal").benchmarks {
                let Layout { ntmpi, ntomp, npme, gpus, .. } = run.layout;
                assert_eq!(
                    run.layout,
                    Layout { npme, ..Layout::water(ntmpi, ntomp, gpus) }.known_to(version)
                );
                assert_eq!(run.resources.cpu_millicores, run.layout.threads() * 1000);
                assert_eq!(WaterBox::near(run.system.atoms).atoms(), run.system.atoms);
                assert_eq!(run.system.nsteps % 200, 0);
                assert!(run.seconds <= 121.0, "{run:?}");
            }
        }
    }

    #[test]
    fn a_node_with_a_gpu_is_measured_on_its_gpu() {
        let reply = propose(&Model::prior(), &request(64, 1)).expect("there should be a proposal");
        assert!(reply.benchmarks.iter().all(|benchmark| benchmark.resources.gpus == 1));
        assert!(reply.benchmarks.iter().all(|benchmark| benchmark.resources.cpu_millicores <= 24_000));
    }

    #[test]
    fn impossible_requests_name_the_field() {
        let field = |request: CalibrationRequest| {
            propose(&Model::prior(), &request).expect_err("it should be refused").field().to_owned()
        };
        assert_eq!(field(request(0, 0)), "node.allocatable");
        let mut many = request(4, 0);
        many.node.allocatable.gpus = 1_000_000;
        assert_eq!(field(many), "node.allocatable.gpus");
    }
}
