//! The ladder: configurations in the order in which a simulation should try them.
//!
//! 1. `runnable`: nodes that cannot run the build are left out, and a label keeps pods off them.
//! 2. `candidates`: for every useful amount of resources the best layout that mdrun accepts, on the slowest of the
//!    kinds of nodes that can hold it.
//! 3. `bound`: the same for nodes of one kind alone, where that kind is much faster and a label distinguishes it.
//! 4. `lines`: what asks for no less of anything and is no faster than another is left out. The rest is a line per
//!    kind of hardware; each begins with the largest configuration that pays and goes down in steps of speed.
//! 5. `sanity`: where the system is far from what was measured, intervals are wider and a sentence says why.
//! 6. `explore`: at a restart, the second-best layout has its chance.
//! 7. Fastest first.
//! 8. `shared_gpu`: what several simulations on one GPU would do together, if that is asked.
//!
//! Ties go to the candidate with less memory, then fewer ranks, so the same request always gives the same ladder.

mod bound;
mod candidates;
mod explore;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod lines;
pub(crate) mod runnable;
mod sanity;
mod shared_gpu;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scavenger_schema::bounds::{self, Bounds, HALF_CORE};
use scavenger_schema::tuning::{
    HardwareSpeed, Interval, LadderReply, LadderRequest, Layout, Limits, NodeShape, PriceWeights, Resources,
    Rung,
};

use bound::Bound;
pub(crate) use candidates::MOST_CORES_PER_GPU;
use candidates::{Candidate, Kind, Question, candidates, holding_it, kinds_of};
use explore::Restart;
use lines::{Chosen, choose, lines_of};
use runnable::{Label, on_runnable};
pub(crate) use sanity::Sane;

use crate::error::{FieldError, TuneError, within};
use crate::hardware::{GpuClass, Hardware, UNKNOWN};
use crate::memory::request_bytes;
use crate::model::{Job, Model, check_node, display};

/// Builds the ladder for a request.
pub fn build(model: &Model, request: &LadderRequest) -> Result<LadderReply, TuneError> {
    let Checked { sane, restart } = checked(model, request)?;
    let job = &sane.job;
    let (request, needed) = on_runnable(request)?;
    let request = &*request;
    let kinds = kinds_of(&request.nodes);
    let question = Question { restart, ..Question::new(model, job, &request.limits, &kinds) };
    let candidates = candidates(&question);
    if candidates.is_empty() {
        return Err(nothing_fits(model, job, request));
    }
    let lines = lines_of(&question, &candidates);
    let chosen = choose(&question, &lines, &candidates);
    let rungs: Vec<Rung> =
        chosen.iter().map(|chosen| describe(&question, chosen, request, needed.as_ref())).collect();
    let fastest = rungs.first().and_then(|rung| rung.hours_to_finish);
    let shared_gpu = shared_gpu::shared_gpus(&question, &candidates);
    let mut notes = notes(&kinds, job);
    if !shared_gpu.is_empty() {
        notes.push(
            "several simulations on one GPU were predicted from published figures and never run; they need MPS or time \
             slicing, or one mdrun with -multidir of a GROMACS with MPI"
                .to_owned(),
        );
    }
    notes.extend(Sane::note_on_hours("even the fastest configuration", fastest));
    notes.extend(sane.notes);
    Ok(LadderReply { model_version: model.version().to_owned(), rungs, shared_gpu, notes })
}

/// The fastest layout of one amount of resources on one kind of hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// The kind of hardware, as in [`Rung::hardware_class`], and whether a CPU of Kubernetes is a hardware thread there: a line of
    /// its own.
    pub name: String,
    /// What it asks for.
    pub resources: Resources,
    /// How mdrun would divide it.
    pub layout: Layout,
    /// Predicted speed in ns per day.
    pub ns_per_day: Interval,
    /// Parallel efficiency on this hardware, 0 to 1, as in [`Rung::efficiency`].
    pub efficiency: f64,
}

/// Speed over cores for each kind of hardware of the request by itself, with and without its GPU: a line each, in the
/// order of the kinds, fewest cores first.
pub fn curve(model: &Model, request: &LadderRequest) -> Result<Vec<CurvePoint>, TuneError> {
    let Checked { sane, .. } = checked(model, request)?;
    let job = &sane.job;
    let (request, _) = on_runnable(request)?;
    let mut points: Vec<CurvePoint> = Vec::new();
    for kind in kinds_of(&request.nodes) {
        let kinds = [kind];
        let question = Question::new(model, job, &request.limits, &kinds);
        let mut found = candidates(&question);
        found.sort_by_key(|candidate| (candidate.resources.gpus, candidate.resources.cpu_millicores));
        let lines = lines_of(&question, &found);
        for candidate in &found {
            let Some(line) = lines.iter().find(|line| line.is_of(candidate)) else { continue };
            let threads = if candidate.slowest.smt { ", hardware threads" } else { "" };
            points.push(CurvePoint {
                name: candidate.slowest.class(candidate.layout.gpus) + threads,
                resources: candidate.resources,
                layout: candidate.layout,
                ns_per_day: interval(candidate, &predictions(&question, candidate)),
                efficiency: line.efficiency(candidate),
            });
        }
    }
    // Two kinds of node with the same processors have one line for both: that of the first.
    points.sort_by(|a, b| {
        a.name.cmp(&b.name).then(a.resources.cpu_millicores.cmp(&b.resources.cpu_millicores))
    });
    points.dedup_by(|b, a| (&a.name, a.resources.cpu_millicores) == (&b.name, b.resources.cpu_millicores));
    Ok(points)
}

/// A request whose fields are all right.
struct Checked<'a> {
    sane: Sane,
    restart: Option<Restart<'a>>,
}

/// Checks a request and counts the work of its system.
fn checked<'a>(model: &Model, request: &'a LadderRequest) -> Result<Checked<'a>, TuneError> {
    let sane = Sane::new(model, &request.system, request.gromacs_version.as_deref(), &request.build)?;
    let restart = request.explore.as_ref().map(Restart::new).transpose();
    let restart = restart.map_err(|error| error.within("explore"))?;
    check_limits(&request.limits).map_err(|error| error.within("limits"))?;
    let Bounds { min, max } = bounds::NODE_SHAPES;
    if !bounds::NODE_SHAPES.contain(&request.nodes.len()) {
        let problem = format!("must hold {min} to {max} node shapes, holds {}", request.nodes.len());
        return Err(FieldError::new("nodes", problem).into());
    }
    for (index, node) in request.nodes.iter().enumerate() {
        check_node(node).map_err(|error| error.within(&format!("nodes[{index}]")))?;
    }
    Ok(Checked { sane, restart })
}

fn check_limits(limits: &Limits) -> Result<(), FieldError> {
    if let Some(cpu) = limits.max_cpu_millicores {
        within("maxCpuMillicores", cpu, bounds::MAX_CPU_MILLICORES)?;
    }
    if let Some(bytes) = limits.max_memory_bytes {
        within("maxMemoryBytes", bytes, bounds::MAX_MEMORY_BYTES)?;
    }
    if let Some(gpus) = limits.max_gpus {
        within("maxGpus", gpus, bounds::MAX_GPUS)?;
    }
    within("maxConfigurations", limits.max_configurations, bounds::MAX_CONFIGURATIONS)?;
    within("maxSimulationsPerGpu", limits.max_simulations_per_gpu, bounds::SIMULATIONS_PER_GPU)?;
    within("minEfficiency", limits.min_efficiency, bounds::MIN_EFFICIENCY)?;
    let PriceWeights { core, memory_gib, gpu } = limits.weights;
    within("weights.core", core, bounds::CORE_PRICE)?;
    within("weights.memoryGib", memory_gib, bounds::PRICE)?;
    within("weights.gpu", gpu, bounds::PRICE)?;
    Ok(())
}

/// The prediction of a candidate on each kind of hardware that can hold it.
fn predictions(question: &Question<'_>, candidate: &Candidate) -> Vec<(Hardware, Interval)> {
    let millicores = candidate.resources.cpu_millicores;
    let predict =
        |hardware: &Hardware| question.model.predict(question.job, hardware, &candidate.layout, millicores);
    let kinds = holding_it(question, candidate);
    kinds.map(|hardware| (hardware, predict(&hardware).ns_per_day)).collect()
}

/// Interval over all kinds that can hold a candidate: the low end of the slowest, the high end of the fastest,
/// the median of the slowest.
fn interval(candidate: &Candidate, kinds: &[(Hardware, Interval)]) -> Interval {
    let start = Interval { p10: candidate.speed, p50: candidate.speed, p90: candidate.speed };
    kinds.iter().fold(start, |all, (_, one)| Interval {
        p10: all.p10.min(one.p10),
        p50: all.p50,
        p90: all.p90.max(one.p90),
    })
}

/// The prediction on each class of hardware that can hold a candidate, if there are several.
fn on_hardware(candidate: &Candidate, kinds: &[(Hardware, Interval)]) -> Vec<HardwareSpeed> {
    let mut speeds: Vec<HardwareSpeed> = Vec::new();
    for (hardware, interval) in kinds {
        let hardware_class = hardware.class(candidate.layout.gpus);
        if !speeds.iter().any(|known| known.hardware_class == hardware_class) {
            speeds.push(HardwareSpeed { hardware_class, ns_per_day: *interval });
        }
    }
    if speeds.len() > 1 { speeds } else { Vec::new() }
}

fn describe(
    question: &Question<'_>,
    chosen: &Chosen<'_>,
    request: &LadderRequest,
    needed: Option<&Label>,
) -> Rung {
    let Chosen { candidate, line, above } = chosen;
    let kinds = predictions(question, candidate);
    let hardware_class = candidate.slowest.class(candidate.layout.gpus);
    let mut reason = match above {
        None if line.is_largest(candidate) => {
            format!("the most that nodes and limits allow on {hardware_class}")
        }
        None => format!("the largest that pays on {hardware_class}: more cores would gain little"),
        Some((speed, millicores)) => format!(
            "{:.0}% of the speed of {} on {hardware_class}",
            candidate.speed / speed * 100.0,
            match *millicores {
                bounds::WHOLE_CORE => "1 core".to_owned(),
                cpu => format!("{} cores", f64::from(cpu) / f64::from(bounds::WHOLE_CORE)),
            }
        ),
    };
    let shared = candidate.slowest.gpu.filter(|gpu| candidate.resources.gpus > 0 && gpu.pods > 1);
    if let Some(GpuClass { pods, .. }) = shared {
        let total = candidate.speed * f64::from(*pods);
        reason.push_str(&format!("; {pods} such simulations share a GPU, {total:.1} ns/day together"));
    }
    let mut node_labels = BTreeMap::new();
    if let Some((Bound { than, times }, (label, value))) =
        candidate.bound.zip(bound::label_of(question, candidate))
    {
        let than = than.class(candidate.layout.gpus);
        reason
            .push_str(&format!("; for nodes with {label}={value} alone, {times:.1} times as fast as {than}"));
        node_labels.insert(label.to_owned(), value.to_owned());
    }
    if let (Some((name, value)), Some(simd)) = (needed, &request.build.simd) {
        reason.push_str(&format!(
            "; for nodes with {name}={value} alone: others cannot run a build for {simd}"
        ));
        node_labels.insert((*name).to_owned(), value.clone());
    }
    Rung {
        resources: candidate.resources,
        layout: candidate.layout,
        ns_per_day: interval(candidate, &kinds),
        hours_to_finish: question.job.system.hours(candidate.speed),
        efficiency: line.efficiency(candidate),
        memory_bytes: candidate.peak_bytes,
        hardware_class,
        on_hardware: on_hardware(candidate, &kinds),
        fits_now: fits_now(&candidate.resources, &node_labels, &request.nodes),
        node_labels,
        alternative: candidate.alternative,
        reason,
    }
}

fn fits_now(resources: &Resources, labels: &BTreeMap<String, String>, nodes: &[NodeShape]) -> bool {
    let mut nodes = nodes.iter().filter(|node| node.has(labels));
    nodes.any(|node| resources.fits_in(node.largest_free.as_ref().unwrap_or(&node.allocatable)))
}

fn notes(kinds: &[Kind<'_>], job: &Job) -> Vec<String> {
    let mut notes = Vec::new();
    if kinds.iter().any(|kind| kind.hardware.cpu.key == UNKNOWN) {
        notes.push(
            "the CPU of some nodes is unknown, so their speeds are uncertain; \
             labels of Node Feature Discovery tell it"
                .to_owned(),
        );
    }
    if job.system.gpu_offload.nonbonded {
        if kinds.iter().any(|kind| kind.hardware.gpu.is_some_and(|gpu| gpu.key == UNKNOWN)) {
            notes.push("the GPU of some nodes is unknown, so its speeds are uncertain".to_owned());
        }
        let is_shared = |kind: &Kind<'_>| kind.hardware.gpu.is_some_and(|gpu| gpu.pods > 1);
        if kinds.iter().any(is_shared) {
            notes.push(
                "several pods share the GPUs of some nodes: speeds are those while all of them compute, predicted from \
                 published figures and never run"
                    .to_owned(),
            );
        }
        let whole = kinds.iter().filter(|kind| !is_shared(kind));
        if whole.flat_map(|kind| &kind.offers).any(|offer| offer.gpus > 1) {
            notes.push("several GPUs are not proposed: unmeasured, they may be slower than one".to_owned());
        }
    }
    notes
}

/// Says which of limits and nodes is in the way of the smallest configuration.
fn nothing_fits(model: &Model, job: &Job, request: &LadderRequest) -> TuneError {
    let least = Layout::cpu(1, 1);
    let needed = Resources {
        cpu_millicores: HALF_CORE,
        memory_bytes: request_bytes(model.peak_bytes(job, &least)),
        gpus: 0,
    };
    let (field, offer) = match request.limits.max_memory_bytes {
        Some(most) if most < needed.memory_bytes => {
            ("limits.maxMemoryBytes", format!("{most} bytes are allowed"))
        }
        _ => {
            let largest = request
                .nodes
                .iter()
                .map(|node| node.allocatable)
                .max_by_key(|offer| (offer.memory_bytes, offer.cpu_millicores));
            let largest = largest.map_or_else(String::new, |offer| display(&offer));
            ("nodes", format!("the largest node offers {largest}"))
        }
    };
    let problem = format!("the smallest configuration needs {}; {offer}", display(&needed));
    TuneError::NothingFits(FieldError::new(field, problem))
}
