//! What measured runs add to the physics.
//!
//! A measured run tells by how much the predicted logarithm of its time was off. These residuals are taken to be a
//! Gaussian process: an offset that all sites of a hardware class share, one of the site, one of its GROMACS build,
//! and parts that change slowly with the number of atoms, of cores, of threads per rank and of nodes, or belong to
//! one system. Without measurements only the class is known and the interval is wide; one run on the spot removes
//! the offset of the site; runs of the same system remove most of the rest. What was measured far away in cores or
//! atoms counts less.
//!
//! Robust in five ways: a residual counts as at most [`BOUND`]; of repetitions the median counts; the runs of one owner
//! count as at most [`OWNER_BOUND`] away from what all other owners' runs say; however many runs one owner has, they
//! share an error of their own; and runs that disagree with the others by more than their noise get less weight.
//!
//! Whoever asks and has runs is answered with these as they are, and with the others' as far as the bound allows: nobody
//! moves an owner's own intervals by more. Who has none gets the common answer: there, of two owners who contradict each
//! other, nobody can tell who is right, so each moves it by up to half of what they differ by, and one who alone has runs
//! is believed.
//!
//! Runs of an older build count the less, the more runs there are of newer ones, and are the first to go where
//! there are too many.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Job;
use crate::performance::{Placement, StepTime};

/// Largest residual (of the logarithm) that is believed: a factor of 3.
pub const BOUND: f64 = 1.1;
/// Farthest that the runs of one owner may be from what the others' runs predict for them: a factor of 1.5.
pub const OWNER_BOUND: f64 = 0.4;
/// Most runs per hardware class that are kept; of more, the newest of each owner.
const MOST_RUNS: usize = 64;
/// Runs of newer builds that double the noise of an older one's.
const FORGETTING: f64 = 4.0;

/// The parts of the error, as standard deviations of ln(time). Chosen by leaving out whole machines and whole
/// systems (`scavenger-tuner accuracy`).
mod sigma {
    /// Share of a class's variance that all its sites have in common.
    pub(super) const CLASS_SHARE: f64 = 0.26;
    /// Share that all builds on one site have in common beyond that.
    pub(super) const SITE_SHARE: f64 = 0.30;
    /// Share of one build on one site.
    pub(super) const BUILD_SHARE: f64 = 0.17;
    /// Share that changes slowly with atoms per site.
    pub(super) const SIZE_SHARE: f64 = 0.15;
    /// Changes slowly with cores per site.
    pub(super) const CORES: f64 = 0.06;
    /// Grows with the logarithm of threads per rank.
    pub(super) const THREADS: f64 = 0.05;
    /// Grows with the logarithm of nodes: what the network is.
    pub(super) const NODES: f64 = 0.06;
    /// Belongs to one system on one site.
    pub(super) const SYSTEM: f64 = 0.06;
    /// Per share of the step that is overhead.
    pub(super) const OVERHEAD: f64 = 0.15;
    /// Of one owner's runs: how they were measured, what ran beside them.
    pub(super) const OWNER: f64 = 0.05;
    /// Of a single layout.
    pub(super) const LAYOUT: f64 = 0.05;
    /// Of a single layout, per share that is overhead.
    pub(super) const LAYOUT_OVERHEAD: f64 = 0.13;
    /// Of a repetition.
    pub(super) const REPEAT: f64 = 0.02;
}

/// How far apart in the logarithm two runs are that have little to do with each other.
mod scale {
    pub(super) const ATOMS: f64 = 1.5;
    pub(super) const CORES: f64 = 1.5;
    pub(super) const THREADS: f64 = 0.7;
}

/// A place and a GROMACS build on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    machine: u64,
    build: u64,
    /// Year and number of the release; zeros if the build does not say.
    release: (u32, u32),
}

impl Site {
    /// The site where `machine` (a cluster) runs the release `build`.
    #[must_use]
    pub fn new(machine: &str, build: &str) -> Self {
        Self { machine: hash(machine.as_bytes()), build: hash(build.as_bytes()), release: release(build) }
    }
}

/// `2024.4-conda` as (2024, 4); zeros for what is no number.
fn release(build: &str) -> (u32, u32) {
    let from = build.find(|c: char| c.is_ascii_digit()).unwrap_or(build.len());
    let numbers = |text: &str| -> u32 {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().unwrap_or(0)
    };
    let (year, rest) = build[from..].split_once('.').unwrap_or((&build[from..], ""));
    (numbers(year), numbers(rest))
}

/// What decides how far one run tells of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    class: &'static str,
    /// GPUs that worked together: what several do says nothing of one, nor of another number.
    gpus: u32,
    site: Site,
    system: u64,
    ln_atoms: f64,
    ln_cores: f64,
    ln_threads: f64,
    ln_nodes: f64,
    overhead: f64,
    /// Standard deviation of the class.
    class_sigma: f64,
}

impl Features {
    /// Features of a job on a placement whose step was predicted.
    #[must_use]
    pub fn new(
        class: &'static str,
        class_sigma: f64,
        site: Site,
        job: &Job,
        place: &Placement,
        step: &StepTime,
    ) -> Self {
        Self {
            gpus: place.gpu.map_or(0, |gpu| gpu.count.round() as u32),
            ln_cores: place.cores.ln(),
            ln_threads: place.threads.ln(),
            ln_nodes: place.nodes.ln(),
            overhead: step.overhead_share(),
            ..Self::of_job(class, class_sigma, site, job)
        }
    }

    /// Features of a job that is not laid out yet: one core of one node.
    #[must_use]
    pub fn of_job(class: &'static str, class_sigma: f64, site: Site, job: &Job) -> Self {
        Self {
            class,
            gpus: 0,
            site,
            system: job.key,
            ln_atoms: job.ln_atoms,
            ln_cores: 0.0,
            ln_threads: 0.0,
            ln_nodes: 0.0,
            overhead: 0.0,
            class_sigma,
        }
    }

    /// The hardware class.
    #[must_use]
    pub fn class(&self) -> &'static str {
        self.class
    }

    /// GPUs that work together.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.gpus
    }

    /// What runs tell of each other by: the class, and the number of GPUs if it is above one.
    fn family(&self) -> (&'static str, u32) {
        (self.class, self.gpus.max(1))
    }

    /// Standard deviation before anything was measured.
    #[must_use]
    pub fn prior_sigma(&self) -> f64 {
        (covariance(self, self) + self.own_variance()).sqrt()
    }

    /// Variance of what only this layout has.
    fn own_variance(&self) -> f64 {
        sigma::LAYOUT.powi(2) + (sigma::LAYOUT_OVERHEAD * self.overhead).powi(2)
    }
}

/// 1 for the same, less the farther apart. A rational function: positive definite as a kernel must be, and a loop
/// over it has no call in it.
fn near(x: f64, y: f64, scale: f64) -> f64 {
    let distance = (x - y) / scale;
    1.0 / (1.0 + 0.5 * distance * distance)
}

/// The part of the covariance of two runs of a class that does not depend on how they were laid out.
fn covariance_of_jobs(a: &Features, b: &Features) -> f64 {
    let class = a.class_sigma.powi(2);
    if a.site.machine != b.site.machine {
        return class * sigma::CLASS_SHARE;
    }
    let build = if a.site.build == b.site.build { sigma::BUILD_SHARE } else { 0.0 };
    let system = if a.system == b.system { sigma::SYSTEM.powi(2) } else { 0.0 };
    let size = sigma::SIZE_SHARE * near(a.ln_atoms, b.ln_atoms, scale::ATOMS);
    class * (sigma::CLASS_SHARE + sigma::SITE_SHARE + build + size) + system
}

/// Covariance of the residuals of two runs of one class.
fn covariance(a: &Features, b: &Features) -> f64 {
    let jobs = covariance_of_jobs(a, b);
    if a.site.machine != b.site.machine {
        return jobs;
    }
    let cores = near(a.ln_cores, b.ln_cores, scale::CORES);
    let atoms = near(a.ln_atoms, b.ln_atoms, scale::ATOMS);
    let threads = a.ln_threads * b.ln_threads * near(a.ln_threads, b.ln_threads, scale::THREADS);
    jobs + sigma::CORES.powi(2) * cores
        + sigma::THREADS.powi(2) * threads
        + sigma::NODES.powi(2) * a.ln_nodes * b.ln_nodes
        + sigma::OVERHEAD.powi(2) * a.overhead * b.overhead * cores * atoms
}

/// FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A run and by how much it was off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Where it was.
    pub features: Features,
    /// Whose run it was, as a number.
    pub owner: u64,
    /// ln(measured time / predicted time).
    pub value: f64,
}

/// Residuals, ready to be asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knowledge {
    classes: Vec<Class>,
}

/// The residuals of one hardware class.
#[derive(Clone, Debug, PartialEq)]
struct Class {
    key: (&'static str, u32),
    kept: Vec<Residual>,
    common: View,
    /// For each owner whose runs the others contradict, the same with these runs as they are.
    of_owners: BTreeMap<u64, View>,
}

/// The runs of a class, each believed as far as it is for one who asks.
#[derive(Clone, Debug, PartialEq)]
struct View {
    /// The inverse of the covariance, row by row.
    inverse: Vec<f64>,
    /// The same times the residuals.
    weights: Vec<f64>,
}

impl Knowledge {
    /// Puts residuals together, oldest first.
    #[must_use]
    pub fn new(residuals: &[Residual]) -> Self {
        let mut classes: BTreeMap<(&'static str, u32), Vec<&Residual>> = BTreeMap::new();
        for residual in residuals {
            classes.entry(residual.features.family()).or_default().push(residual);
        }
        Self {
            classes: classes
                .into_iter()
                .map(|(key, of_class)| Class::new(key, &thinned(&of_class)))
                .collect(),
        }
    }

    /// The same with one residual more.
    #[must_use]
    pub fn with(&self, residual: Residual) -> Self {
        // Kept are the newest first.
        let kept = self.classes.iter().flat_map(|class| class.kept.iter().rev());
        let residuals: Vec<Residual> = kept.copied().chain([residual]).collect();
        Self::new(&residuals)
    }

    /// Number of runs that are kept.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.classes.iter().map(|class| class.kept.len()).sum()
    }

    /// Expected residual and its standard deviation, for `owner` if it is known who asks.
    #[must_use]
    pub fn ask(&self, features: &Features, owner: Option<u64>) -> (f64, f64) {
        self.about(features, owner).ask(features)
    }

    /// True if there are runs on this hardware class with that many GPUs; one and none are the same.
    #[must_use]
    pub fn knows(&self, class: &str, gpus: u32) -> bool {
        self.classes.iter().any(|known| known.key.0 == class && known.key.1 == gpus.max(1))
    }

    /// What is known about the class, site and system of `features`, whatever the layout, for `owner` if it is known
    /// who asks. Asking it about many layouts is much faster than asking from the start.
    #[must_use]
    pub fn about(&self, features: &Features, owner: Option<u64>) -> About<'_> {
        let class = self.classes.iter().find(|class| class.key == features.family());
        About {
            view: class.map(|class| class.view(owner)),
            jobs: class.map_or_else(Vec::new, |class| class.jobs(features)),
        }
    }
}

/// The runs of a class as seen from one job on one site.
#[derive(Clone, Debug)]
pub struct About<'a> {
    view: Option<&'a View>,
    jobs: Vec<Seen>,
}

/// A run as seen from one job on one site.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// Covariance, the layouts aside.
    jobs: f64,
    ln_cores: f64,
    ln_threads: f64,
    /// Factors of the parts that depend on the layout; 0 for another site.
    cores: f64,
    threads: f64,
    nodes: f64,
    overhead: f64,
}

impl Seen {
    fn covariance(&self, features: &Features) -> f64 {
        let cores = near(self.ln_cores, features.ln_cores, scale::CORES);
        let threads = near(self.ln_threads, features.ln_threads, scale::THREADS);
        self.jobs
            + cores * (self.cores + self.overhead * features.overhead)
            + threads * self.threads * features.ln_threads
            + self.nodes * features.ln_nodes
    }
}

impl About<'_> {
    /// Expected residual alone. `features` must be of the class, site and system this is about.
    #[must_use]
    pub fn mean(&self, features: &Features) -> f64 {
        let Some(view) = self.view else { return 0.0 };
        self.jobs.iter().zip(&view.weights).map(|(run, weight)| run.covariance(features) * weight).sum()
    }

    /// Expected residual and its standard deviation.
    #[must_use]
    pub fn ask(&self, features: &Features) -> (f64, f64) {
        let prior = covariance(features, features) + features.own_variance();
        let Some(view) = self.view else { return (0.0, prior.sqrt()) };
        let k: Vec<f64> = self.jobs.iter().map(|run| run.covariance(features)).collect();
        let mut explained_by = vec![0.0; k.len()];
        for (row, k) in view.inverse.chunks_exact(k.len()).zip(&k) {
            for (sum, value) in explained_by.iter_mut().zip(row) {
                *sum += value * k;
            }
        }
        let explained: f64 = explained_by.iter().zip(&k).map(|(a, b)| a * b).sum();
        let mean = k.iter().zip(&view.weights).map(|(k, weight)| k * weight).sum();
        let least = features.own_variance().max(sigma::REPEAT.powi(2));
        (mean, (prior - explained).max(least).sqrt())
    }
}

/// A run that is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    residual: Residual,
    /// Repetitions that it stands for.
    count: f64,
    /// Kept runs of builds on its site that are newer than its own.
    newer: f64,
}

/// Merges repetitions and keeps at most [`MOST_RUNS`]: the owners take turns, each with its newest run of the newest
/// build first.
fn thinned(residuals: &[&Residual]) -> Vec<Kept> {
    // By release, and of builds of one release by which was seen first: which was used last says nothing where owners
    // use several at the same time.
    let mut builds: BTreeMap<(u64, u64), ((u32, u32), usize)> = BTreeMap::new();
    for (index, residual) in residuals.iter().enumerate() {
        let Site { machine, build, release } = residual.features.site;
        builds.entry((machine, build)).or_insert((release, index));
    }
    let age = |residual: &Residual| {
        let Site { machine, build, .. } = residual.features.site;
        let own = builds[&(machine, build)];
        builds.range((machine, 0)..=(machine, u64::MAX)).filter(|(_, other)| **other > own).count()
    };
    let mut by_owner: BTreeMap<u64, Vec<(usize, Kept, Vec<f64>)>> = BTreeMap::new();
    for residual in residuals.iter().rev() {
        let kept = by_owner.entry(residual.owner).or_default();
        let value = residual.value.clamp(-BOUND, BOUND);
        if let Some((_, first, values)) =
            kept.iter_mut().find(|(_, kept, _)| kept.residual.features == residual.features)
        {
            first.count += 1.0;
            values.push(value);
        } else if kept.len() < 4 * MOST_RUNS {
            kept.push((age(residual), Kept { residual: **residual, count: 1.0, newer: 0.0 }, vec![value]));
        }
    }
    let mut queues: Vec<_> = by_owner
        .into_values()
        .map(|mut kept| {
            kept.sort_by_key(|(age, ..)| *age);
            kept.into_iter().map(|(age, kept, values)| {
                let residual = Residual { value: median(values), ..kept.residual };
                (age, Kept { residual, ..kept })
            })
        })
        .collect();
    let mut chosen: Vec<(usize, Kept)> = Vec::new();
    while chosen.len() < MOST_RUNS {
        let turn: Vec<_> =
            queues.iter_mut().filter_map(Iterator::next).take(MOST_RUNS - chosen.len()).collect();
        if turn.is_empty() {
            break;
        }
        chosen.extend(turn);
    }
    let ages: Vec<(u64, usize)> =
        chosen.iter().map(|(age, kept)| (kept.residual.features.site.machine, *age)).collect();
    chosen
        .into_iter()
        .map(|(age, kept)| {
            let machine = kept.residual.features.site.machine;
            let newer = ages.iter().filter(|(other, younger)| *other == machine && *younger < age).count();
            Kept { newer: newer as f64, ..kept }
        })
        .collect()
}

/// The middle of the values of repetitions: one that hung or was disturbed does not move it.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] }
}

impl Class {
    fn new(key: (&'static str, u32), kept: &[Kept]) -> Self {
        let believed: Vec<f64> = kept.iter().map(|kept| kept.residual.value).collect();
        let bounded = bounded_by_owner(kept, &believed);
        let owner_of = |index: usize| kept[index].residual.owner;
        let contradicted = (0..kept.len()).filter(|index| believed[*index] != bounded[*index]).map(owner_of);
        let of_owners = contradicted
            .collect::<BTreeSet<u64>>()
            .into_iter()
            .map(|owner| {
                let as_they_are: Vec<f64> = (0..kept.len())
                    .map(|index| if owner_of(index) == owner { believed[index] } else { bounded[index] })
                    .collect();
                (owner, View::new(kept, &as_they_are))
            })
            .collect();
        let common = View::new(kept, &bounded);
        Self { key, kept: kept.iter().map(|kept| kept.residual).collect(), common, of_owners }
    }

    fn view(&self, owner: Option<u64>) -> &View {
        owner.and_then(|owner| self.of_owners.get(&owner)).unwrap_or(&self.common)
    }

    /// The runs as seen from the job, site and system of `features`.
    fn jobs(&self, features: &Features) -> Vec<Seen> {
        let seen = |run: &Features| {
            let here = if run.site.machine == features.site.machine { 1.0 } else { 0.0 };
            let atoms = near(run.ln_atoms, features.ln_atoms, scale::ATOMS);
            Seen {
                jobs: covariance_of_jobs(run, features),
                ln_cores: run.ln_cores,
                ln_threads: run.ln_threads,
                cores: here * sigma::CORES.powi(2),
                threads: here * sigma::THREADS.powi(2) * run.ln_threads,
                nodes: here * sigma::NODES.powi(2) * run.ln_nodes,
                overhead: here * sigma::OVERHEAD.powi(2) * run.overhead * atoms,
            }
        };
        self.kept.iter().map(|kept| seen(&kept.features)).collect()
    }
}

impl View {
    fn new(kept: &[Kept], values: &[f64]) -> Self {
        let noises: Vec<f64> = kept.iter().map(noise).collect();
        let mut inflation = vec![1.0; kept.len()];
        let mut fit = Fit::default();
        // Twice: the second time, runs that the others contradict count less.
        for _ in 0..2 {
            let inflated: Vec<f64> =
                noises.iter().zip(&inflation).map(|(noise, factor)| noise * factor).collect();
            fit = Fit::new(kept, &inflated, values);
            for index in 0..kept.len() {
                // What is left of a residual in units of its noise.
                let left = fit.weights[index] * inflated[index];
                let spread = 2.0 * noises[index].sqrt();
                inflation[index] = (left / spread).powi(2).max(1.0);
            }
        }
        Self { inverse: fit.inverse(), weights: fit.weights }
    }
}

fn noise(kept: &Kept) -> f64 {
    let own = kept.residual.features.own_variance() + sigma::REPEAT.powi(2) / kept.count;
    own * (1.0 + kept.newer / FORGETTING)
}

/// The residuals, each at most [`OWNER_BOUND`] away from what the runs of all other owners say of it.
fn bounded_by_owner(kept: &[Kept], values: &[f64]) -> Vec<f64> {
    let mut bounded = values.to_vec();
    let mut owners: Vec<u64> = kept.iter().map(|kept| kept.residual.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    if owners.len() < 2 {
        return bounded;
    }
    for owner in owners {
        let (others, theirs): (Vec<Kept>, Vec<f64>) = kept
            .iter()
            .zip(values)
            .filter(|(kept, _)| kept.residual.owner != owner)
            .map(|(kept, value)| (*kept, *value))
            .unzip();
        let noises: Vec<f64> = others.iter().map(noise).collect();
        let fit = Fit::new(&others, &noises, &theirs);
        for (index, own) in kept.iter().enumerate().filter(|(_, kept)| kept.residual.owner == owner) {
            let expected: f64 = others
                .iter()
                .zip(&fit.weights)
                .map(|(run, weight)| covariance(&run.residual.features, &own.residual.features) * weight)
                .sum();
            bounded[index] = values[index].clamp(expected - OWNER_BOUND, expected + OWNER_BOUND);
        }
    }
    bounded
}

/// A fit of the process to residuals.
#[derive(Clone, Debug, Default)]
struct Fit {
    /// Lower triangle of the Cholesky factor, by rows.
    factor: Vec<f64>,
    /// The inverse covariance times the residuals.
    weights: Vec<f64>,
}

impl Fit {
    fn new(kept: &[Kept], noises: &[f64], values: &[f64]) -> Self {
        let mut fit = Self { factor: cholesky(kept, noises), weights: Vec::new() };
        fit.weights = fit.solve(values);
        fit
    }

    /// (L L^T)^-1 b
    fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (row, value) in b.iter().enumerate() {
            let start = row * (row + 1) / 2;
            let known: f64 = self.factor[start..start + row].iter().zip(&x).map(|(l, x)| l * x).sum();
            x.push((value - known) / self.factor[start + row]);
        }
        for row in (0..x.len()).rev() {
            let start = row * (row + 1) / 2;
            x[row] /= self.factor[start + row];
            let value = x[row];
            for (known, l) in x[..row].iter_mut().zip(&self.factor[start..start + row]) {
                *known -= l * value;
            }
        }
        x
    }

    /// (L L^T)^-1, row by row.
    fn inverse(&self) -> Vec<f64> {
        let size = self.weights.len();
        let mut inverse = Vec::with_capacity(size * size);
        for row in 0..size {
            let mut unit = vec![0.0; size];
            unit[row] = 1.0;
            inverse.extend(self.solve(&unit));
        }
        inverse
    }
}

/// Lower triangle of the Cholesky factor of the covariance plus noise, by rows. The noise is positive, so the
/// matrix is positive definite.
fn cholesky(kept: &[Kept], noises: &[f64]) -> Vec<f64> {
    let mut factor: Vec<f64> = Vec::with_capacity(kept.len() * (kept.len() + 1) / 2);
    for (row, noise) in noises.iter().enumerate() {
        let start = factor.len();
        for column in 0..=row {
            let other = column * (column + 1) / 2;
            let known: f64 = (0..column).map(|k| factor[start + k] * factor[other + k]).sum();
            let (a, b) = (&kept[row].residual, &kept[column].residual);
            let owner = if a.owner == b.owner { sigma::OWNER.powi(2) } else { 0.0 };
            let value = covariance(&a.features, &b.features) + owner - known;
            factor.push(if row == column {
                (value + noise).max(1e-9).sqrt()
            } else {
                value / factor[other + column]
            });
        }
    }
    factor
}

#[cfg(test)]
mod tests;
