//! What measured runs have in common: the physics.
//!
//! The parameters are logarithms of factors on the parts of a step ([`Part`]), on all work, on the whole step, on the
//! boost of the clock, and slopes with the logarithms of threads and nodes. Each has a normal prior around zero, in
//! four levels that add up: of a hardware class, of a machine of it, of a build of GROMACS there, and of a system
//! there. The direction of a run is the gradient of the logarithm of its time, so two runs tell of each other through
//! the parts that both spend time in, and a run tells little of a part that it hardly has. What is doubtful of a system adds
//! to the priors of its own parameters, on all machines alike.

use std::sync::LazyLock;

use super::features::Origin;
use crate::performance::{Overlap, Part, Parts, PerPart, Placement, StepTime};
use crate::work::Doubts;

/// Number of parameters.
pub(super) const DIMENSIONS: usize = Part::COUNT + 5;
/// All work that shrinks with the cores.
pub(super) const WORK: usize = Part::COUNT;
/// The whole step.
pub(super) const ALL: usize = Part::COUNT + 1;
/// What a core gains where others are idle.
pub(super) const BOOST: usize = Part::COUNT + 2;
/// Per logarithm of threads per rank.
pub(super) const THREADS: usize = Part::COUNT + 3;
/// Per logarithm of nodes.
pub(super) const NODES: usize = Part::COUNT + 4;

/// A gradient, or a set of parameters.
pub(super) type Direction = [f64; DIMENSIONS];

/// How far apart in the logarithm of atoms two runs are that have little to do with each other.
const ATOMS_SCALE: f64 = 1.5;

/// Gradient of the logarithm of the time of a step.
pub(super) fn direction(step: &StepTime, ln_threads: f64, ln_nodes: f64) -> Direction {
    let mut direction = [0.0; DIMENSIONS];
    direction[..Part::COUNT].copy_from_slice(&step.shares);
    let sum = |parts: &[Part]| parts.iter().map(|part| step.shares[*part as usize]).sum::<f64>();
    let clocked = sum(clocked(step.parts.overlap));
    direction[WORK] = sum(work(step.parts.overlap));
    direction[ALL] = 1.0;
    direction[BOOST] = -clocked * step.boost;
    if step.parts.overlap == Overlap::Gpu {
        direction[Part::Host as usize] = clocked;
    }
    direction[THREADS] = ln_threads;
    direction[NODES] = ln_nodes;
    direction
}

/// The parts that a faster core makes shorter, on CPUs.
const ON_CORES: [Part; 5] = [Part::Pair, Part::Spread, Part::Mesh, Part::Other, Part::Sharing];
/// The same beside a GPU: PME on the host, and its other work. What is learned of the host moves both.
const BESIDE_GPU: [Part; 2] = [Part::Spread, Part::Host];
/// The parts that a faster GPU makes shorter.
const ON_GPU: [Part; 3] = [Part::Pair, Part::Mesh, Part::Other];

/// The parts that one faster processor makes shorter: the GPU where there is one. Its host has a residual of its own.
fn work(overlap: Overlap) -> &'static [Part] {
    if overlap == Overlap::Gpu { &ON_GPU } else { &ON_CORES }
}

/// The parts that the clock of the cores makes shorter.
fn clocked(overlap: Overlap) -> &'static [Part] {
    if overlap == Overlap::Gpu { &BESIDE_GPU } else { &ON_CORES }
}

/// Factors on the parts that `theta` makes beyond those of each part alone, for a step whose share of boost is `boost`.
fn common(overlap: Overlap, theta: &Direction, boost: f64) -> PerPart {
    let mut logs = [0.0; Part::COUNT];
    for part in work(overlap) {
        logs[*part as usize] += theta[WORK];
    }
    for part in clocked(overlap) {
        logs[*part as usize] -= boost * theta[BOOST];
    }
    if overlap == Overlap::Gpu {
        logs[Part::Spread as usize] += theta[Part::Host as usize];
    }
    logs
}

/// Logarithm of the time with the parameters `theta` relative to that without, and the gradient there.
pub(super) fn moved(step: &StepTime, ln_threads: f64, ln_nodes: f64, theta: &Direction) -> (f64, Direction) {
    let mut logs = common(step.parts.overlap, theta, step.boost);
    for (log, theta) in logs.iter_mut().zip(theta) {
        *log += theta;
    }
    let there = step.with(&logs.map(f64::exp));
    let shift = (there.total / step.total).ln() + straight(theta, ln_threads, ln_nodes);
    (shift, direction(&there, ln_threads, ln_nodes))
}

/// What `theta` adds to the logarithm of the time whatever the parts of the step.
fn straight(theta: &Direction, ln_threads: f64, ln_nodes: f64) -> f64 {
    theta[ALL] + theta[THREADS] * ln_threads + theta[NODES] * ln_nodes
}

/// Factors on the parts that `theta` makes, the boost of the clock aside.
pub(super) fn factors(overlap: Overlap, theta: &Direction) -> PerPart {
    let common = common(overlap, theta, 0.0);
    std::array::from_fn(|part| (theta[part] + common[part]).exp())
}

/// Seconds of a placement with the parameters `theta`, which make `factors`; `boost` is the share of the clock that is
/// boost. That of [`moved`] without its gradient.
pub(super) fn seconds(
    parts: &Parts,
    boost: f64,
    place: &Placement,
    theta: &Direction,
    factors: &PerPart,
) -> f64 {
    let clock = boost * theta[BOOST];
    let straight = straight(theta, place.threads.ln(), place.nodes.ln()).exp();
    if clock == 0.0 {
        return parts.with(factors).seconds() * straight;
    }
    let (mut factors, faster) = (*factors, (-clock).exp());
    for part in clocked(parts.overlap) {
        factors[*part as usize] *= faster;
    }
    parts.with(&factors).seconds() * straight
}

/// Standard deviation of a class that is well known: builds and systems differ by as much on a class that is not.
const KNOWN_CLASS: f64 = 0.2;

/// Standard deviations of each parameter on the levels class, machine, build and system. Those of work count relative to
/// the standard deviation of the class, the others as they are.
const OF_WORK: [(usize, [f64; 4]); 6] = [
    (WORK, [0.65, 0.45, 0.50, 0.0]),
    (ALL, [0.20, 0.30, 0.60, 0.80]),
    (Part::Pair as usize, [0.30, 0.30, 1.00, 0.80]),
    (Part::Spread as usize, [0.40, 0.40, 0.40, 0.30]),
    (Part::Mesh as usize, [0.50, 0.50, 0.40, 0.30]),
    (Part::Other as usize, [0.40, 0.40, 0.40, 0.60]),
];
/// See [`OF_WORK`].
const OF_OVERHEAD: [(usize, [f64; 4]); 10] = [
    (Part::Sharing as usize, [0.25, 0.35, 0.0, 0.20]),
    (Part::Threads as usize, [0.15, 0.30, 0.10, 0.10]),
    (Part::Halo as usize, [0.20, 0.40, 0.15, 0.20]),
    (Part::Imbalance as usize, [0.15, 0.30, 0.10, 0.40]),
    (Part::Transpose as usize, [0.20, 0.40, 0.15, 0.10]),
    (Part::Redistribution as usize, [0.15, 0.30, 0.10, 0.10]),
    (Part::Network as usize, [0.15, 0.50, 0.15, 0.10]),
    (BOOST, [0.25, 0.35, 0.0, 0.0]),
    (THREADS, [0.02, 0.04, 0.02, 0.02]),
    (NODES, [0.02, 0.05, 0.02, 0.02]),
];
/// The same on GPUs. What is wrong of the whole step is little: pairs, grid and the rest of the device, launches and the
/// host are wrong each for reasons of their own.
const OF_GPU_WORK: [(usize, [f64; 4]); 5] = [
    (WORK, [0.60, 0.40, 0.40, 0.0]),
    (ALL, [0.15, 0.25, 0.40, 0.50]),
    (Part::Pair as usize, [0.40, 0.20, 0.40, 0.60]),
    (Part::Mesh as usize, [0.60, 0.30, 0.60, 0.80]),
    (Part::Other as usize, [0.60, 0.30, 0.60, 0.80]),
];
/// See [`OF_GPU_WORK`]: the host is no property of the GPU.
const OF_HOST: [(usize, [f64; 4]); 7] = [
    (Part::Launch as usize, [0.20, 0.30, 0.20, 0.10]),
    (Part::Host as usize, [0.15, 0.40, 0.15, 0.15]),
    (Part::Spread as usize, [0.15, 0.20, 0.10, 0.10]),
    (Part::Halo as usize, [0.20, 0.40, 0.15, 0.20]),
    (BOOST, [0.25, 0.35, 0.0, 0.0]),
    (THREADS, [0.02, 0.04, 0.02, 0.02]),
    (NODES, [0.02, 0.05, 0.02, 0.02]),
];
/// The same of a model that knows of no parts: one factor on all work, and one on the step.
const WHOLE: [(usize, [f64; 4]); 2] = [(WORK, [0.75, 0.60, 0.90, 0.60]), (ALL, [0.20, 0.30, 0.60, 0.80])];
/// What changes slowly with the atoms, on one machine, relative to the standard deviation of the class.
const SIZE: f64 = 0.30;

/// Prior variances of one level: relative to the variance of the class, and as they are.
#[derive(Clone, Copy)]
struct Level {
    relative: Direction,
    own: Direction,
}

/// The levels class, machine, build and system.
type Levels = [Level; 4];

fn levels(relative: &[(usize, [f64; 4])], own: &[(usize, [f64; 4])]) -> Levels {
    std::array::from_fn(|level| {
        let variances = |table: &[(usize, [f64; 4])]| {
            let mut variances = [0.0; DIMENSIONS];
            for (parameter, sigmas) in table {
                variances[*parameter] = sigmas[level].powi(2);
            }
            variances
        };
        Level { relative: variances(relative), own: variances(own) }
    })
}

static OF_THE_WHOLE: LazyLock<Levels> = LazyLock::new(|| levels(&WHOLE, &[]));
static ON_CPUS: LazyLock<Levels> = LazyLock::new(|| levels(&OF_WORK, &OF_OVERHEAD));
static ON_GPUS: LazyLock<Levels> = LazyLock::new(|| levels(&OF_GPU_WORK, &OF_HOST));

/// What the processor beside a GPU decides.
const OF_ANY_HOST: [usize; 4] =
    [Part::Launch as usize, Part::Host as usize, Part::Spread as usize, Part::Halo as usize];

/// The prior variances on hardware of one class: what two runs share depends on few things, so it is added up once.
#[derive(Clone, Debug)]
pub(super) struct Priors {
    /// What two runs share that have the class alone in common.
    of_class: Direction,
    /// On one machine: with neither build nor system in common, the build, the system, both.
    of_machine: [Direction; 4],
    /// What changes with the atoms, of a system of the same size.
    of_size: f64,
}

impl Priors {
    /// Those of a class with this standard deviation.
    pub(super) fn new(class_sigma: f64, on_gpu: bool, by_part: bool) -> Self {
        let levels = match (by_part, on_gpu) {
            (false, _) => &*OF_THE_WHOLE,
            (true, true) => &*ON_GPUS,
            (true, false) => &*ON_CPUS,
        };
        let [class, machine, build, system] = levels;
        let sigma = class_sigma.powi(2);
        let known = class_sigma.min(KNOWN_CLASS).powi(2);
        let of_class: Direction =
            std::array::from_fn(|parameter| sigma * class.relative[parameter] + class.own[parameter]);
        let of_machine = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)].map(|(same_build, same_system)| {
            std::array::from_fn(|parameter| {
                of_class[parameter]
                    + (sigma * machine.relative[parameter]
                        + machine.own[parameter]
                        + same_build * (known * build.relative[parameter] + build.own[parameter])
                        + same_system * (known * system.relative[parameter] + system.own[parameter]))
            })
        });
        Self { of_class, of_machine, of_size: SIZE.powi(2) * known }
    }

    /// Prior variance of each parameter that two runs share.
    pub(super) fn shared(&self, a: &Origin, b: &Origin) -> Direction {
        let mut shared = self.shared_without_doubts(a, b);
        if a.system == b.system && a.doubts != Doubts::default() {
            for ((parameter, a), (_, b)) in by_parameter(&a.doubts).into_iter().zip(by_parameter(&b.doubts)) {
                shared[parameter] += a * b;
            }
        }
        // What the model has wrong of a size, it has wrong of all systems of about that size.
        if a.doubts.size > 0.0 && b.doubts.size > 0.0 {
            shared[ALL] += a.doubts.size * b.doubts.size * near(a.ln_atoms, b.ln_atoms, ATOMS_SCALE);
        }
        shared
    }

    fn shared_without_doubts(&self, a: &Origin, b: &Origin) -> Direction {
        if a.site.machine != b.site.machine {
            return self.of_class;
        }
        let of_build = usize::from(a.site.build == b.site.build);
        let of_system = usize::from(a.system == b.system);
        let mut shared = self.of_machine[of_build + 2 * of_system];
        // Another host beside the same GPU is as little known as that of another machine.
        if a.host != b.host {
            for parameter in OF_ANY_HOST {
                shared[parameter] = self.of_class[parameter];
            }
        }
        shared[ALL] += self.of_size * near(a.ln_atoms, b.ln_atoms, ATOMS_SCALE);
        shared
    }

    /// The same of each pair of runs, row by row.
    pub(super) fn pairs(&self, runs: &[&Origin]) -> Vec<Direction> {
        let mut pairs: Vec<Direction> = Vec::with_capacity(runs.len() * runs.len());
        for (row, a) in runs.iter().enumerate() {
            for (column, b) in runs.iter().enumerate() {
                // What `a` shares with `b`, `b` shares with `a`.
                let known = (column < row).then(|| pairs[column * runs.len() + row]);
                pairs.push(known.unwrap_or_else(|| self.shared(a, b)));
            }
        }
        pairs
    }
}

/// The parameters that carry what is doubtful of a system, each with its standard deviation.
fn by_parameter(doubts: &Doubts) -> [(usize, f64); 7] {
    let Doubts { pair, pme, other, step, .. } = *doubts;
    [
        (Part::Pair as usize, pair),
        (Part::Spread as usize, pme),
        (Part::Mesh as usize, pme),
        (Part::Transpose as usize, pme),
        (Part::Other as usize, other),
        (Part::Host as usize, other),
        (ALL, step),
    ]
}

/// 1 for the same, less the farther apart. A rational function, positive definite as a kernel must be.
fn near(x: f64, y: f64, scale: f64) -> f64 {
    let distance = (x - y) / scale;
    1.0 / (1.0 + 0.5 * distance * distance)
}

/// Covariance of two runs with these directions.
pub(super) fn covariance(shared: &Direction, a: &Direction, b: &Direction) -> f64 {
    shared.iter().zip(a).zip(b).map(|((variance, a), b)| variance * a * b).sum()
}
