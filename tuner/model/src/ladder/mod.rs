//! The ladder: configurations in the order in which a simulation should try them.
//!
//! 1. Candidates: for every useful amount of resources the best layout that mdrun accepts, on the slowest of the
//!    kinds of nodes that can hold it.
//! 2. What is not dominated: of two candidates the cheaper one must be the slower one.
//! 3. The first rung is the fastest whose speed per price reaches the limit: beyond that knee more cores are
//!    mostly waste. Whether it fits at this moment plays no part; the submitter climbs down.
//! 4. Each further rung is the largest that asks for at most two thirds of the one before.
//!
//! Ties go to the candidate with less memory, then fewer ranks, so the same request always gives the same ladder.

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(test)]
mod tests;

use scavenger_schema::bounds::{self, Bounds, HALF_CORE};
use scavenger_schema::tuning::{
    Interval, LadderReply, LadderRequest, Layout, Limits, NodeShape, PriceWeights, Resources, Rung,
};

use crate::error::{FieldError, TuneError, within};
use crate::hardware::{GpuClass, Hardware, UNKNOWN, hardware_of};
use crate::layout;
use crate::memory::request_bytes;
use crate::model::{Asked, Job, Model, check_node, class_name, display};

/// Most CPU that is considered for one pod.
const MOST_CPU: u32 = bounds::MAX_CPU_MILLICORES.max;
/// Most cores that are considered beside one GPU: from 20 to 40 cores was seen to gain 5 to 9%.
pub(crate) const MOST_CORES_PER_GPU: u32 = 24;
/// Steps between rungs that are tried in turn until there are no more rungs than asked for.
const STEPS: [f64; 8] = [1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0];

/// One amount of resources with its best layout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) resources: Resources,
    pub(crate) layout: Layout,
    pub(crate) peak_bytes: u64,
    /// Median speed in ns per day on the slowest hardware that holds it.
    pub(crate) speed: f64,
    /// That hardware.
    pub(crate) slowest: Hardware,
    pub(crate) price: f64,
}

impl Candidate {
    /// Speed per price.
    pub(crate) fn value(&self) -> f64 {
        self.speed / self.price
    }
}

/// Nodes whose processors are of the same classes.
pub(crate) struct Kind {
    hardware: Hardware,
    /// What its nodes offer, without those that offer no more than another.
    offers: Vec<Resources>,
}

impl Kind {
    fn holds(&self, resources: &Resources) -> bool {
        self.offers.iter().any(|offer| resources.fits_in(offer))
    }
}

/// Groups nodes by their processors, so that a prediction is made once per kind and not once per shape.
pub(crate) fn kinds_of(nodes: &[NodeShape]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for node in nodes {
        let hardware = hardware_of(&node.labels, node.allocatable.gpus);
        let offer = node.allocatable;
        match kinds.iter_mut().find(|kind| kind.hardware == hardware) {
            None => kinds.push(Kind { hardware, offers: vec![offer] }),
            Some(kind) => {
                if !kind.holds(&offer) {
                    kind.offers.retain(|held| !held.fits_in(&offer));
                    kind.offers.push(offer);
                }
            }
        }
    }
    // The order in which nodes are listed must not matter.
    kinds.sort_by_key(|kind| {
        (
            kind.hardware.cpu.key,
            kind.hardware.smt,
            kind.hardware.smt_known,
            kind.hardware.gpu.map(|gpu| gpu.key),
        )
    });
    kinds
}

/// What is asked, and whom.
pub(crate) struct Question<'a> {
    pub(crate) model: &'a Model,
    pub(crate) job: &'a Job,
    pub(crate) limits: &'a Limits,
    pub(crate) kinds: &'a [Kind],
    /// The processors of the kinds, each once: on CPUs alone, GPUs beside them make no difference.
    pub(crate) processors: Vec<Processors>,
    /// What was learned about them.
    pub(crate) asked: Asked<'a>,
}

/// Kinds that are the same for a layout without GPUs.
pub(crate) struct Processors {
    hardware: Hardware,
    /// What their nodes offer, GPUs aside.
    offers: Vec<Resources>,
}

impl<'a> Question<'a> {
    pub(crate) fn new(model: &'a Model, job: &'a Job, limits: &'a Limits, kinds: &'a [Kind]) -> Self {
        let mut processors: Vec<Processors> = Vec::new();
        for kind in kinds {
            let hardware = Hardware { gpu: None, ..kind.hardware };
            match processors.iter_mut().find(|one| one.hardware == hardware) {
                Some(same) => same.offers.extend(&kind.offers),
                None => processors.push(Processors { hardware, offers: kind.offers.clone() }),
            }
        }
        let hardware: Vec<Hardware> = kinds.iter().map(|kind| kind.hardware).collect();
        Self { model, job, limits, kinds, processors, asked: model.about(job, &hardware) }
    }
}

/// Builds the ladder for a request.
pub fn build(model: &Model, request: &LadderRequest) -> Result<LadderReply, TuneError> {
    let job = checked(request)?;
    let kinds = kinds_of(&request.nodes);
    let question = Question::new(model, &job, &request.limits, &kinds);
    let candidates = candidates(&question);
    if candidates.is_empty() {
        return Err(nothing_fits(model, &job, request));
    }
    let best_value = candidates.iter().map(Candidate::value).fold(0.0, f64::max);
    let largest = candidates.iter().map(|c| c.price).fold(0.0, f64::max);
    let frontier = undominated(candidates);
    let chosen = choose(&question, &frontier, best_value);
    let mut rungs = describe(&question, &chosen, best_value, largest);
    for rung in &mut rungs {
        rung.fits_now = fits_now(&rung.resources, &request.nodes);
    }
    Ok(LadderReply { model_version: model.version().to_owned(), rungs, notes: notes(&kinds, &job) })
}

/// The fastest layout of one amount of resources.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// What it asks for.
    pub resources: Resources,
    /// How mdrun would divide it.
    pub layout: Layout,
    /// Predicted speed in ns per day.
    pub ns_per_day: Interval,
    /// Speed per unit of price, relative to the best; 0 to 1.
    pub efficiency: f64,
}

/// What the rungs are chosen from: every useful amount of resources, fewest cores first, those without GPUs first.
pub fn curve(model: &Model, request: &LadderRequest) -> Result<Vec<CurvePoint>, TuneError> {
    let job = checked(request)?;
    let kinds = kinds_of(&request.nodes);
    let question = Question::new(model, &job, &request.limits, &kinds);
    let mut found = candidates(&question);
    let best_value = found.iter().map(Candidate::value).fold(0.0, f64::max);
    found.sort_by_key(|candidate| (candidate.resources.gpus, candidate.resources.cpu_millicores));
    let point = |candidate: &Candidate| CurvePoint {
        resources: candidate.resources,
        layout: candidate.layout,
        ns_per_day: interval(&question, candidate),
        efficiency: (candidate.value() / best_value).min(1.0),
    };
    Ok(found.iter().map(point).collect())
}

/// Checks a request and counts the work of its system.
fn checked(request: &LadderRequest) -> Result<Job, TuneError> {
    let job =
        Job::new(&request.system, request.gromacs_version.as_deref())?.asked_by(request.owner.as_deref())?;
    check_limits(&request.limits).map_err(|error| error.within("limits"))?;
    let Bounds { min, max } = bounds::NODE_SHAPES;
    if !bounds::NODE_SHAPES.contain(&request.nodes.len()) {
        let problem = format!("must hold {min} to {max} node shapes, holds {}", request.nodes.len());
        return Err(FieldError::new("nodes", problem).into());
    }
    for (index, node) in request.nodes.iter().enumerate() {
        check_node(&format!("nodes[{index}]"), node)?;
    }
    Ok(job)
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
    within("maxRungs", limits.max_rungs, bounds::MAX_RUNGS)?;
    within("minEfficiency", limits.min_efficiency, bounds::MIN_EFFICIENCY)?;
    let PriceWeights { core, memory_gib, gpu } = limits.weights;
    within("weights.core", core, bounds::CORE_PRICE)?;
    within("weights.memoryGib", memory_gib, bounds::PRICE)?;
    within("weights.gpu", gpu, bounds::PRICE)?;
    Ok(())
}

/// Largest prime factor of the numbers of cores that ranks and threads divide well.
const SMOOTH: u32 = 7;

/// The largest number up to `cores` without a prime factor above [`SMOOTH`]. Clusters that keep a core for the system
/// leave 31, 127 or 191, which no number of ranks divides.
fn smooth(cores: u32) -> u32 {
    (1..=cores).rev().find(|cores| layout::largest_prime_factor(*cores) <= SMOOTH).unwrap_or(cores)
}

/// Numbers of cores that are tried: those with many small factors, so that ranks and threads divide them well,
/// and the whole of each kind of node, or nearly.
fn core_counts(kinds: &[Kind], most: u32) -> Vec<u32> {
    let mut whole_nodes: Vec<u32> = kinds
        .iter()
        .flat_map(|kind| &kind.offers)
        .map(|offer| (offer.cpu_millicores / bounds::WHOLE_CORE).min(most))
        .chain([most])
        .collect();
    whole_nodes.sort_unstable();
    whole_nodes.dedup();
    let nearly: Vec<u32> = whole_nodes.iter().map(|cores| smooth(*cores)).collect();
    let mut counts: Vec<u32> = [1_u32, 3, 9, 5]
        .into_iter()
        .flat_map(|odd| (0..11).map(move |power| odd << power))
        .chain(whole_nodes)
        .chain(nearly)
        .filter(|&cores| (1..=most).contains(&cores))
        .collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

pub(crate) fn candidates(question: &Question<'_>) -> Vec<Candidate> {
    let &Question { job, limits, kinds, .. } = question;
    let offers = || kinds.iter().flat_map(|kind| &kind.offers);
    let largest_node = offers().map(|offer| offer.cpu_millicores).max().unwrap_or(0);
    let most = limits.max_cpu_millicores.unwrap_or(u32::MAX).min(largest_node).min(MOST_CPU) / 1000;
    let mut gpus: Vec<&GpuClass> = kinds.iter().filter_map(|kind| kind.hardware.gpu).collect();
    gpus.sort_by_key(|gpu| gpu.key);
    gpus.dedup_by_key(|gpu| gpu.key);
    let pick = |layouts: &[Layout], cpu_millicores: u32| best_of(question, layouts, cpu_millicores);

    let mut found = Vec::new();
    if limits.max_cpu_millicores.is_none_or(|most| most >= HALF_CORE) {
        found.extend(pick(&[Layout::cpu(1, 1)], HALF_CORE));
    }
    for cores in core_counts(kinds, most) {
        found.extend(pick(&layout::cpu_layouts(&job.system, cores), cores * 1000));
        if limits.max_gpus != Some(0) && cores <= MOST_CORES_PER_GPU {
            let mut layouts: Vec<Layout> =
                gpus.iter().filter_map(|gpu| layout::gpu_layout(&job.system, cores, gpu)).collect();
            layouts.dedup();
            found.extend(pick(&layouts, cores * 1000));
        }
    }
    found
}

/// The fastest of `layouts` on the slowest hardware that holds it.
///
/// Layouts are first ranked by physics on the kind of hardware that is slowest for the first of them, and only the
/// best few are looked at on all kinds with what was learned: every layout on every kind would take many times
/// longer and hardly ever choose another.
fn best_of(question: &Question<'_>, layouts: &[Layout], cpu_millicores: u32) -> Option<Candidate> {
    let &Question { model, job, limits, .. } = question;
    let allowed: Vec<(Layout, Resources, u64)> = layouts
        .iter()
        .map(|layout| {
            let peak = model.peak_bytes(job, layout);
            let memory_bytes = request_bytes(peak);
            (*layout, Resources { cpu_millicores, memory_bytes, gpus: layout.gpus }, peak)
        })
        .filter(|(layout, resources, _)| is_allowed(question, layout, resources))
        .collect();
    let (first, resources, _) = allowed.first()?;
    let physics = |hardware: &Hardware, layout: &Layout| model.physics(job, hardware, layout, cpu_millicores);
    let slowest = holding(question, resources)
        .map(|hardware| (physics(hardware, first), hardware))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, hardware)| *hardware)?;

    let mut ranked: Vec<(f64, &(Layout, Resources, u64))> = if allowed.len() == 1 {
        vec![(1.0, &allowed[0])]
    } else {
        allowed.iter().map(|one| (physics(&slowest, &one.0), one)).collect()
    };
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.1.memory_bytes.cmp(&b.1.1.memory_bytes)));
    // Where nothing was learned, the ranking stands.
    ranked.truncate(if question.asked.is_prior() { 1 } else { 2 });

    let mut best: Option<Candidate> = None;
    for (_, (layout, resources, peak_bytes)) in ranked {
        let slowest = holding(question, resources)
            .map(|hardware| (question.asked.speed(hardware, layout, cpu_millicores), hardware))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((speed, hardware)) = slowest else { continue };
        if best.as_ref().is_none_or(|best| speed > best.speed) {
            best = Some(Candidate {
                resources: *resources,
                layout: *layout,
                peak_bytes: *peak_bytes,
                speed,
                slowest: *hardware,
                price: price(resources, &limits.weights),
            });
        }
    }
    best
}

/// True if some node holds the layout, and the limits and all nodes that hold it allow it.
fn is_allowed(question: &Question<'_>, layout: &Layout, resources: &Resources) -> bool {
    let &Question { job, limits, .. } = question;
    if limits.max_memory_bytes.is_some_and(|most| resources.memory_bytes > most) {
        return false;
    }
    // The scheduler may choose any node that holds the pod, so a GPU that is too small on one of them forbids the
    // layout.
    let refused =
        |hardware: &Hardware| layout.gpus > 0 && layout::check(&job.system, layout, hardware.gpu).is_err();
    let mut holders = holding(question, resources).peekable();
    holders.peek().is_some() && !holders.any(refused)
}

/// The hardware whose nodes can hold `resources` when empty; what differs in GPUs only is one if none is asked for.
fn holding<'a>(question: &'a Question<'_>, resources: &'a Resources) -> impl Iterator<Item = &'a Hardware> {
    let fits = |offers: &[Resources]| offers.iter().any(|offer| resources.fits_in(offer));
    let on_cpus = question.processors.iter().filter(move |one| resources.gpus == 0 && fits(&one.offers));
    let on_gpus = question.kinds.iter().filter(move |kind| resources.gpus > 0 && fits(&kind.offers));
    on_cpus.map(|one| &one.hardware).chain(on_gpus.map(|kind| &kind.hardware))
}

/// Interval over all kinds that can hold a candidate: the low end of the slowest, the high end of the fastest,
/// the median of the slowest.
fn interval(question: &Question<'_>, candidate: &Candidate) -> Interval {
    let start = Interval { p10: candidate.speed, p50: candidate.speed, p90: candidate.speed };
    holding(question, &candidate.resources).fold(start, |all, hardware| {
        let millicores = candidate.resources.cpu_millicores;
        let one = question.asked.predict(hardware, &candidate.layout, millicores).ns_per_day;
        Interval { p10: all.p10.min(one.p10), p50: all.p50, p90: all.p90.max(one.p90) }
    })
}

fn price(resources: &Resources, weights: &PriceWeights) -> f64 {
    let gib = resources.memory_bytes as f64 / 1024.0_f64.powi(3);
    f64::from(resources.cpu_millicores) / 1000.0 * weights.core
        + gib * weights.memory_gib
        + f64::from(resources.gpus) * weights.gpu
}

/// Those of which no other is both cheaper (or as cheap) and faster (or as fast), cheapest first.
fn undominated(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by(|a, b| {
        a.price
            .total_cmp(&b.price)
            .then(b.speed.total_cmp(&a.speed))
            .then(a.resources.memory_bytes.cmp(&b.resources.memory_bytes))
            .then(a.layout.ntmpi.cmp(&b.layout.ntmpi))
    });
    let mut fastest = 0.0;
    candidates.retain(|candidate| {
        let faster = candidate.speed > fastest;
        if faster {
            fastest = candidate.speed;
        }
        faster
    });
    candidates
}

/// Picks the rungs out of the frontier (cheapest first), largest first.
fn choose(question: &Question<'_>, frontier: &[Candidate], best_value: f64) -> Vec<Candidate> {
    let limits = question.limits;
    // The candidate of best value is never dominated, so one always qualifies.
    let first = frontier
        .iter()
        .rposition(|candidate| candidate.value() >= limits.min_efficiency * best_value)
        .unwrap_or(0);
    let most = limits.max_rungs as usize;
    let mut chosen = Vec::new();
    for step in STEPS {
        chosen = climb_down(question, &frontier[..=first], step);
        if chosen.len() <= most {
            break;
        }
    }
    chosen.truncate(most);
    chosen
}

/// From the last of `frontier` down, each rung asking for at most `1/step` of the one before.
fn climb_down(question: &Question<'_>, frontier: &[Candidate], step: f64) -> Vec<Candidate> {
    let mut rungs: Vec<Candidate> = Vec::new();
    for candidate in frontier.iter().rev() {
        let Some(last) = rungs.last() else {
            rungs.push(candidate.clone());
            continue;
        };
        let steps_down = if last.resources.gpus == candidate.resources.gpus {
            f64::from(last.resources.cpu_millicores) >= step * f64::from(candidate.resources.cpu_millicores)
        } else {
            last.price >= step * candidate.price
        };
        if steps_down && raise_memory(question, &mut rungs, candidate.resources.memory_bytes) {
            rungs.push(candidate.clone());
        }
    }
    rungs
}

/// A layout with fewer cores may need more memory (more ranks). A smaller rung must not ask for more of
/// anything, so the rungs above it ask for as much; false if no node or limit allows that.
fn raise_memory(question: &Question<'_>, rungs: &mut [Candidate], bytes: u64) -> bool {
    let limits = question.limits;
    let raised = |rung: &Candidate| Resources {
        memory_bytes: rung.resources.memory_bytes.max(bytes),
        ..rung.resources
    };
    let same_kinds = |rung: &Candidate| {
        holding(question, &raised(rung)).count() == holding(question, &rung.resources).count()
    };
    if limits.max_memory_bytes.is_some_and(|most| bytes > most) || !rungs.iter().all(same_kinds) {
        return false;
    }
    for rung in rungs {
        let resources = raised(rung);
        rung.price += price(&resources, &limits.weights) - price(&rung.resources, &limits.weights);
        rung.resources = resources;
    }
    true
}

fn describe(question: &Question<'_>, chosen: &[Candidate], best_value: f64, largest: f64) -> Vec<Rung> {
    let mut rungs = Vec::with_capacity(chosen.len());
    for (index, candidate) in chosen.iter().enumerate() {
        let efficiency = (candidate.value() / best_value).min(1.0);
        let reason = match index.checked_sub(1).map(|above| &chosen[above]) {
            None if candidate.price >= largest => {
                format!("the most that nodes and limits allow, at {:.0}% efficiency", efficiency * 100.0)
            }
            None => format!(
                "the fastest with at least {:.0}% efficiency: more would gain little",
                question.limits.min_efficiency * 100.0
            ),
            Some(above) => format!(
                "{:.0}% of the speed of the rung above for {:.0}% of its price",
                candidate.speed / above.speed * 100.0,
                candidate.price / above.price * 100.0
            ),
        };
        rungs.push(Rung {
            resources: candidate.resources,
            layout: candidate.layout,
            ns_per_day: interval(question, candidate),
            hours_to_finish: question.job.system.hours(candidate.speed),
            efficiency,
            memory_bytes: candidate.peak_bytes,
            hardware_class: class_name(candidate.slowest.cpu, &candidate.slowest, &candidate.layout),
            // Said by the nodes, which the caller knows.
            fits_now: false,
            reason,
        });
    }
    rungs
}

fn fits_now(resources: &Resources, nodes: &[NodeShape]) -> bool {
    nodes.iter().any(|node| resources.fits_in(node.largest_free.as_ref().unwrap_or(&node.allocatable)))
}

fn notes(kinds: &[Kind], job: &Job) -> Vec<String> {
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
        if kinds.iter().flat_map(|kind| &kind.offers).any(|offer| offer.gpus > 1) {
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
