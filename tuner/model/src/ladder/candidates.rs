//! What could be asked for: every useful amount of resources with its best layout.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use scavenger_schema::bounds::{self, HALF_CORE};
use scavenger_schema::tuning::{Alternative, Layout, Limits, NodeShape, PriceWeights, Resources};

use super::bound::{Bound, Labels, on_faster_kinds};
use super::explore::Restart;
use crate::hardware::{GpuClass, Hardware, hardware_of};
use crate::layout;
use crate::memory::request_bytes;
use crate::model::{Job, Model};

/// Most CPU that is considered for one pod.
const MOST_CPU: u32 = bounds::MAX_CPU_MILLICORES.max;
/// Most cores that are considered beside one GPU: from 20 to 40 cores was seen to gain 5 to 9%.
pub(crate) const MOST_CORES_PER_GPU: u32 = 24;

/// One amount of resources with its best layout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) resources: Resources,
    pub(crate) layout: Layout,
    pub(crate) peak_bytes: u64,
    /// Median speed in ns per day on the slowest hardware that holds it, or on that to which it is bound.
    pub(crate) speed: f64,
    /// The same if nothing else ran on its node.
    pub(crate) alone: f64,
    /// That hardware.
    pub(crate) slowest: Hardware,
    /// Why it is for this hardware alone; none if it may run wherever it fits.
    pub(crate) bound: Option<Bound>,
    /// Median speed on each kind of hardware that holds it, if there are several.
    pub(crate) on: Vec<(Hardware, f64)>,
    pub(crate) price: f64,
    /// The other of the two best layouts, at a restart on these resources.
    pub(crate) alternative: Option<Alternative>,
}

impl Candidate {
    /// Speed per price, as far as the simulation itself decides it.
    pub(crate) fn value(&self) -> f64 {
        self.alone / self.price
    }
}

/// Nodes whose processors are of the same classes.
pub(crate) struct Kind<'n> {
    pub(crate) hardware: Hardware,
    pub(crate) nodes: Vec<&'n NodeShape>,
    /// What its nodes offer, without those that offer no more than another.
    pub(crate) offers: Vec<Resources>,
    /// CPU of its nodes in thousandths of a core, ascending, each once.
    sizes: Vec<u32>,
}

/// Adds what a node offers, unless another offers as much; what offers no more than it is left out.
fn add(offers: &mut Vec<Resources>, offer: Resources) {
    if !offers.iter().any(|held| offer.fits_in(held)) {
        offers.retain(|held| !held.fits_in(&offer));
        offers.push(offer);
    }
}

/// Groups nodes by their hardware, so that a prediction is made once per kind and not once per shape.
fn grouped<'n>(nodes: impl Iterator<Item = (Hardware, &'n NodeShape, Resources)>) -> Vec<Kind<'n>> {
    let mut kinds: Vec<Kind<'n>> = Vec::new();
    for (hardware, node, offer) in nodes {
        let place = kinds.iter().position(|kind| kind.hardware == hardware).unwrap_or_else(|| {
            kinds.push(Kind { hardware, nodes: Vec::new(), offers: Vec::new(), sizes: Vec::new() });
            kinds.len() - 1
        });
        let kind = &mut kinds[place];
        kind.nodes.push(node);
        kind.sizes.push(offer.cpu_millicores);
        add(&mut kind.offers, offer);
    }
    for kind in &mut kinds {
        kind.sizes.sort_unstable();
        kind.sizes.dedup();
    }
    kinds
}

/// The kinds of the nodes of a request.
pub(crate) fn kinds_of(nodes: &[NodeShape]) -> Vec<Kind<'_>> {
    // Nodes of all sizes have the same labels, and to recognise a product takes many comparisons of texts.
    let mut recognised: BTreeMap<(&BTreeMap<String, String>, bool), Hardware> = BTreeMap::new();
    let mut kinds = grouped(nodes.iter().map(|node| {
        let gpus = node.allocatable.gpus;
        let recognise = || hardware_of(&node.labels, gpus);
        (*recognised.entry((&node.labels, gpus > 0)).or_insert_with(recognise), node, node.allocatable)
    }));
    // The order in which nodes are listed must not matter.
    kinds.sort_by_key(|Kind { hardware, .. }| {
        (hardware.cpu.key, hardware.smt, hardware.smt_known, hardware.gpu.map(|gpu| gpu.key))
    });
    kinds
}

/// What is asked, and whom.
pub(crate) struct Question<'a> {
    pub(crate) model: &'a Model,
    pub(crate) job: &'a Job,
    pub(crate) limits: &'a Limits,
    pub(crate) kinds: &'a [Kind<'a>],
    /// The processors of the kinds, each once: on CPUs alone, GPUs beside them make no difference.
    pub(crate) processors: Vec<Kind<'a>>,
    /// What earlier attempts of the same simulation measured.
    pub(crate) restart: Option<Restart<'a>>,
    /// What distinguishes kinds of nodes, without GPUs and with them, once it is asked for.
    pub(crate) labels: [OnceCell<Labels<'a>>; 2],
}

impl<'a> Question<'a> {
    pub(crate) fn new(model: &'a Model, job: &'a Job, limits: &'a Limits, kinds: &'a [Kind<'a>]) -> Self {
        let processors = grouped(kinds.iter().flat_map(|kind| {
            let hardware = Hardware { gpu: None, ..kind.hardware };
            kind.nodes.iter().map(move |node| (hardware, *node, Resources { gpus: 0, ..node.allocatable }))
        }));
        Self { model, job, limits, kinds, processors, restart: None, labels: Default::default() }
    }
}

/// Largest prime factor of the numbers of cores that ranks and threads divide well.
const SMOOTH: u32 = 7;

/// The largest number up to `cores` that `suits` and has no prime factor above [`SMOOTH`]. Clusters that keep a core for
/// the system leave 31, 127 or 191, which no number of ranks divides.
fn smooth(cores: u32, suits: impl Fn(u32) -> bool) -> u32 {
    let divides = |cores: &u32| suits(*cores) && layout::largest_prime_factor(*cores) <= SMOOTH;
    (1..=cores).rev().find(divides).unwrap_or(cores)
}

/// Numbers of cores that are tried: those with many small factors, so that ranks and threads divide them well,
/// and the whole of each kind of node, or nearly.
///
/// Where all nodes have two hardware threads per core, an odd number leaves half a core to others, and kubelets that hand
/// out whole cores (`full-pcpus-only`) refuse it. Odd is then only a single thread, and the whole of a node, which would be
/// left in part unused otherwise.
pub(crate) fn core_counts(kinds: &[Kind<'_>], most: u32) -> Vec<u32> {
    let mut whole_nodes: Vec<u32> = kinds
        .iter()
        .flat_map(|kind| &kind.offers)
        .map(|offer| (offer.cpu_millicores / bounds::WHOLE_CORE).min(most))
        .chain([most])
        .collect();
    whole_nodes.sort_unstable();
    whole_nodes.dedup();
    let in_pairs = !kinds.is_empty() && kinds.iter().all(|kind| kind.hardware.smt);
    let suits = |cores: u32| !in_pairs || cores == 1 || cores.is_multiple_of(2);
    let nearly: Vec<u32> = whole_nodes.iter().map(|cores| smooth(*cores, suits)).collect();
    let mut counts: Vec<u32> = [1_u32, 3, 9, 5]
        .into_iter()
        .flat_map(|odd| (0..11).map(move |power| odd << power))
        .filter(|cores| suits(*cores))
        .chain(whole_nodes)
        .chain(nearly)
        .filter(|&cores| (1..=most).contains(&cores))
        .collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Every useful amount of resources with its best layout, as far as nodes and limits allow; after those for any node the
/// same for each kind that is much faster.
pub(crate) fn candidates(question: &Question<'_>) -> Vec<Candidate> {
    let &Question { job, limits, kinds, .. } = question;
    let offers = || kinds.iter().flat_map(|kind| &kind.offers);
    let largest_node = offers().map(|offer| offer.cpu_millicores).max().unwrap_or(0);
    let most = limits.max_cpu_millicores.unwrap_or(u32::MAX).min(largest_node).min(MOST_CPU) / 1000;
    let mut gpus: Vec<&GpuClass> = kinds.iter().filter_map(|kind| kind.hardware.gpu).collect();
    gpus.sort_by_key(|gpu| gpu.key);
    gpus.dedup_by_key(|gpu| gpu.key);
    // Who shares a GPU shares the cores beside it.
    let pods = gpus.iter().map(|gpu| gpu.pods).min().unwrap_or(1);
    let pick = |layouts: &[Layout], cpu_millicores: u32| best_of(question, layouts, cpu_millicores);

    let mut found = Vec::new();
    if limits.max_cpu_millicores.is_none_or(|most| most >= HALF_CORE) {
        found.extend(pick(&[Layout::cpu(1, 1)], HALF_CORE));
    }
    for cores in core_counts(kinds, most) {
        found.extend(pick(&layout::cpu_layouts(&job.system, cores), cores * 1000));
        if limits.max_gpus != Some(0) && cores <= MOST_CORES_PER_GPU / pods {
            let mut layouts: Vec<Layout> =
                gpus.iter().filter_map(|gpu| layout::gpu_layout(&job.system, cores, gpu)).collect();
            layouts.dedup();
            found.extend(pick(&layouts, cores * 1000));
        }
    }
    raise_memory(question, &mut found);
    let bound = on_faster_kinds(question, &found);
    found.extend(bound);
    found
}

/// A layout with fewer cores may need more memory, since it has more ranks. A smaller configuration must not ask for more of
/// anything, so the larger ones ask for as much, as far as the same nodes hold them then.
fn raise_memory(question: &Question<'_>, found: &mut [Candidate]) {
    for gpus in [0, 1] {
        let mut most = 0;
        for one in found.iter_mut().filter(|one| one.resources.gpus == gpus) {
            let raised = Resources { memory_bytes: one.resources.memory_bytes.max(most), ..one.resources };
            if holding(question, &raised).count() == holding(question, &one.resources).count() {
                one.price = price_on(&one.slowest, &raised, &question.limits.weights);
                one.resources = raised;
            }
            most = most.max(one.resources.memory_bytes);
        }
    }
}

/// The fastest of `layouts` on the slowest hardware that holds it.
///
/// Layouts are ranked on the kind of hardware that is slowest for the first of them, and only the best is looked at on all
/// kinds.
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
    let speed = |hardware: &Hardware, layout: &Layout| model.speed(job, hardware, layout, cpu_millicores);
    let slowest = holding(question, resources)
        .map(|hardware| (speed(&hardware, first), hardware))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, hardware)| hardware)?;

    let mut ranked: Vec<(f64, &(Layout, Resources, u64))> = if allowed.len() == 1 {
        vec![(1.0, &allowed[0])]
    } else {
        allowed.iter().map(|one| (speed(&slowest, &one.0), one)).collect()
    };
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.1.memory_bytes.cmp(&b.1.1.memory_bytes)));
    let restart = question.restart.as_ref().filter(|restart| restart.knows(cpu_millicores, first.gpus));
    // At a restart all have their chance.
    if restart.is_none() {
        ranked.truncate(1);
    }

    let mut found: Vec<Candidate> = Vec::with_capacity(ranked.len());
    for (_, (layout, resources, peak_bytes)) in ranked {
        let on: Vec<(Hardware, f64)> =
            holding(question, resources).map(|hardware| (hardware, speed(&hardware, layout))).collect();
        let slowest = on.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((hardware, speed)) = slowest else { continue };
        found.push(Candidate {
            resources: *resources,
            layout: *layout,
            peak_bytes: *peak_bytes,
            speed,
            alone: model.speed_alone(job, &hardware, layout, cpu_millicores),
            slowest: hardware,
            bound: None,
            on: if on.len() > 1 { on } else { Vec::new() },
            price: price_on(&hardware, resources, &limits.weights),
            alternative: None,
        });
    }
    let speeds: Vec<(Layout, f64)> = found.iter().map(|one| (one.layout, one.speed)).collect();
    if let Some((layout, alternative)) = restart.and_then(|restart| restart.choose(cpu_millicores, &speeds)) {
        let taken = found.into_iter().find(|one| one.layout == layout)?;
        return Some(Candidate { alternative: Some(alternative), ..taken });
    }
    // The first of equal ones, which is the one with less memory.
    found.into_iter().reduce(|best, other| if other.speed > best.speed { other } else { best })
}

/// True if some node holds the layout, and the limits and all nodes that hold it allow it.
fn is_allowed(question: &Question<'_>, layout: &Layout, resources: &Resources) -> bool {
    let &Question { job, limits, .. } = question;
    if limits.max_memory_bytes.is_some_and(|most| resources.memory_bytes > most) {
        return false;
    }
    let mut holders = holding(question, resources).peekable();
    // The scheduler may choose any node that holds the pod, so a GPU that is too small on one of them forbids the
    // layout.
    let refused = |hardware: &Hardware| layout::check(&job.system, layout, hardware.gpu).is_err();
    holders.peek().is_some() && (layout.gpus == 0 || !holders.any(|hardware| refused(&hardware)))
}

/// The hardware whose nodes can hold `resources` when empty, each on the smallest node that has the cores: there the pod
/// leaves the fewest cores idle, and is the slowest. What differs in GPUs only is one if none is asked for.
pub(crate) fn holding<'a>(
    question: &'a Question<'_>,
    resources: &'a Resources,
) -> impl Iterator<Item = Hardware> + 'a {
    let kinds = if resources.gpus == 0 { &question.processors } else { question.kinds };
    let holding = kinds.iter().filter(|kind| kind.offers.iter().any(|offer| resources.fits_in(offer)));
    holding.map(|Kind { hardware, sizes, .. }| {
        let place = sizes.partition_point(|size| *size < resources.cpu_millicores);
        sizes.get(place).map_or(*hardware, |size| hardware.on_node(*size))
    })
}

/// The hardware on which a candidate may run.
pub(crate) fn holding_it<'a>(
    question: &'a Question<'_>,
    candidate: &'a Candidate,
) -> impl Iterator<Item = Hardware> + 'a {
    let kinds = holding(question, &candidate.resources);
    kinds.filter(|hardware| candidate.bound.is_none() || *hardware == candidate.slowest)
}

/// What `resources` cost on hardware whose GPUs may be shared.
pub(crate) fn price_on(hardware: &Hardware, resources: &Resources, weights: &PriceWeights) -> f64 {
    let pods = hardware.gpu.map_or(1, |gpu| gpu.pods);
    price(resources, &PriceWeights { gpu: weights.gpu / f64::from(pods), ..*weights })
}

/// What `resources` cost.
pub(crate) fn price(resources: &Resources, weights: &PriceWeights) -> f64 {
    let gib = resources.memory_bytes as f64 / 1024.0_f64.powi(3);
    f64::from(resources.cpu_millicores) / 1000.0 * weights.core
        + gib * weights.memory_gib
        + f64::from(resources.gpus) * weights.gpu
}
