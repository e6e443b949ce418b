//! Which short benchmark runs tell most about a kind of node.
//!
//! How much a run would narrow the interval does not depend on what it will measure, so it can be computed before:
//! of all benchmarks that are possible on the node, the one is taken that leaves the least uncertainty on average
//! over the simulations one may want to run there, then the next one beside it, up to three.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{
    Benchmark, CalibrationReply, CalibrationRequest, GpuOffload, Layout, PmeDescription, Resources,
    SystemDescription,
};

use crate::error::{FieldError, TuneError, within};
use crate::hardware::{Hardware, hardware_of};
use crate::layout::{cpu_layouts, gpu_layout};
use crate::memory::{peak_bytes, request_bytes};
use crate::model::{Job, Model, check_node, class_name, display};

/// Atoms of the boxes of water that a benchmark may have.
const BENCHMARK_ATOMS: [u64; 4] = [12_000, 48_000, 192_000, 768_000];
/// Atoms of the simulations that one may want to know about.
const WANTED_ATOMS: [u64; 5] = [10_000, 30_000, 100_000, 300_000, 1_000_000];
/// Length of a benchmark at the predicted speed; half of it is measured, after caches and clocks have settled.
const SECONDS: f64 = 60.0;
/// A further benchmark must take away at least this share of what is left.
const WORTH_IT: f64 = 0.03;

/// A cube of water with the usual settings.
fn water(atoms: u64) -> SystemDescription {
    let edge = (atoms as f64 / crate::system::WATER_ATOMS_PER_NM3).cbrt();
    SystemDescription {
        atoms,
        box_nm: Some([edge; 3]),
        nsteps: -1,
        dt_ps: 0.002,
        cutoff_nm: 1.0,
        rlist_nm: None,
        nstlist: None,
        pme: Some(PmeDescription { grid: [((edge / 0.12).ceil() as u32).max(4); 3], order: 4 }),
        bonded_interactions: Some(0),
        constraints: Some(atoms),
        gpu_offload: GpuOffload::default(),
    }
}

/// A benchmark that may be proposed, or a simulation that one may want to know about.
struct Run {
    job: Job,
    system: SystemDescription,
    layout: Layout,
    resources: Resources,
    peak_bytes: u64,
}

/// Proposes benchmarks for a kind of node.
pub fn propose(model: &Model, request: &CalibrationRequest) -> Result<CalibrationReply, TuneError> {
    check_node("node", &request.node)?;
    within("maxBenchmarks", request.max_benchmarks, bounds::BENCHMARKS)?;
    let hardware = hardware_of(&request.node.labels, request.node.allocatable.gpus);
    let possible = runs(request, &hardware, &BENCHMARK_ATOMS)?;
    let wanted = runs(request, &hardware, &WANTED_ATOMS)?;
    if possible.is_empty() || wanted.is_empty() {
        let offer = display(&request.node.allocatable);
        let problem = format!("the smallest benchmark does not fit; the node offers {offer}");
        return Err(TuneError::NothingFits(FieldError::new("node.allocatable", problem)));
    }
    let before = mean_sigma(model, &hardware, &wanted);
    let mut known = model.clone();
    let mut left = before;
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    while benchmarks.len() < request.max_benchmarks as usize {
        let best = possible
            .iter()
            .map(|run| {
                let with = known.supposing(&run.job, &hardware, &run.layout, run.resources.cpu_millicores);
                (mean_sigma(&with, &hardware, &wanted), with, run)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((after, with, run)) = best else { break };
        if !benchmarks.is_empty() && after > (1.0 - WORTH_IT) * left {
            break;
        }
        benchmarks.push(benchmark(model, &hardware, run, after));
        (known, left) = (with, after);
    }
    Ok(CalibrationReply {
        model_version: model.version().to_owned(),
        hardware_class: class_name(hardware.cpu, &hardware, &possible[possible.len() - 1].layout),
        half_width: half_width(before),
        benchmarks,
    })
}

fn half_width(sigma: f64) -> f64 {
    (crate::interval::Z90 * sigma).exp()
}

/// Mean standard deviation of the logarithm over the simulations one may want to run.
fn mean_sigma(model: &Model, hardware: &Hardware, wanted: &[Run]) -> f64 {
    let sigma = |run: &Run| {
        let asked = model.about(&run.job, &[*hardware]);
        let speed = asked.predict(hardware, &run.layout, run.resources.cpu_millicores).ns_per_day;
        (speed.p90 / speed.p50).ln() / crate::interval::Z90
    };
    wanted.iter().map(sigma).sum::<f64>() / wanted.len() as f64
}

/// Boxes of water on 1, 2, 4, ... cores of the node and all of them, each with the layout that is fastest by
/// physics; beside a GPU if the node has any.
fn runs(request: &CalibrationRequest, hardware: &Hardware, atoms: &[u64]) -> Result<Vec<Run>, FieldError> {
    let most = request.node.allocatable.cpu_millicores / 1000;
    let mut counts: Vec<u32> = (0..11).map(|power| 1 << power).filter(|cores| *cores < most).collect();
    counts.extend((most > 0).then_some(most));
    let model = Model::prior();
    let mut found = Vec::new();
    for atoms in atoms {
        let system = water(*atoms);
        let job = Job::new(&system, request.gromacs_version.as_deref())?;
        for cores in &counts {
            let layouts = match hardware.gpu {
                Some(gpu) => Vec::from_iter(gpu_layout(&job.system, *cores, gpu)),
                None => cpu_layouts(&job.system, *cores),
            };
            let speed = |layout: &Layout| model.physics(&job, hardware, layout, cores * 1000);
            let Some(layout) = layouts.into_iter().max_by(|a, b| speed(a).total_cmp(&speed(b))) else {
                continue;
            };
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

fn benchmark(model: &Model, hardware: &Hardware, run: &Run, after: f64) -> Benchmark {
    let speed = model
        .about(&run.job, &[*hardware])
        .predict(hardware, &run.layout, run.resources.cpu_millicores)
        .ns_per_day;
    let seconds_per_step = run.job.system.ns_per_day(speed.p50);
    // A multiple of 200, so that the half is a step at which pairs are searched.
    let steps = ((SECONDS / seconds_per_step / 200.0).ceil() as u64).clamp(1, 1_000_000) * 200;
    let mut mdrun_args = run.layout.mdrun_args();
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
        half_width_after: half_width(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::{labelled, node};
    use crate::model::Observation;

    fn request(cores: u32, gpus: u32) -> CalibrationRequest {
        CalibrationRequest {
            node: labelled(&node(cores * 1000, 64), &[], gpus),
            gromacs_version: Some("2024.1".to_owned()),
            max_benchmarks: 3,
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
        assert!(before < 1.4, "{before}");
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
                let (version, labels) = (request.gromacs_version.as_deref(), &request.node.labels);
                let speed = run.ns_per_day.p50 / 1.6;
                Observation::local(&run.system, version, &run.layout, &run.resources, labels, speed, "admin")
                    .expect("the benchmark should be accepted")
            })
            .collect();
        let learned = model.learn(&runs);
        let hardware = hardware_of(&request.node.labels, 0);
        for run in super::runs(&request, &hardware, &[25_000, 400_000]).expect("water should be accepted") {
            let of = |model: &Model| {
                let asked = model.about(&run.job, &[hardware]);
                asked.predict(&hardware, &run.layout, run.resources.cpu_millicores).ns_per_day
            };
            let (before, after) = (of(&model), of(&learned));
            let measured = before.p50 / 1.6;
            assert!(after.p90 / after.p10 < before.p90 / before.p10);
            assert!(after.p10 < measured && measured < after.p90, "{after:?} {measured}");
            assert!((after.p50 / measured - 1.0).abs() < 0.15, "{after:?} {measured}");
        }
        let again = propose(&learned, &request).expect("there should be a proposal");
        assert!(again.half_width < reply.half_width);
    }

    #[test]
    fn a_node_with_a_gpu_is_measured_on_its_gpu() {
        let reply = propose(&Model::prior(), &request(16, 1)).expect("there should be a proposal");
        assert!(reply.benchmarks.iter().all(|benchmark| benchmark.resources.gpus == 1));
    }

    #[test]
    fn impossible_requests_name_the_field() {
        let field = |request: CalibrationRequest| {
            propose(&Model::prior(), &request).expect_err("it should be refused").field().to_owned()
        };
        assert_eq!(field(CalibrationRequest { max_benchmarks: 4, ..request(4, 0) }), "maxBenchmarks");
        assert_eq!(field(request(0, 0)), "node.allocatable");
        let mut many = request(4, 0);
        many.node.allocatable.gpus = 1_000_000;
        assert_eq!(field(many), "node.allocatable.gpus");
    }
}
