//! What measured runs add to the physics.
//!
//! A measured run tells by how much the predicted logarithm of its time was off. These residuals are taken to be a
//! Gaussian process: an offset that all sites of a hardware class share, one of a site and its GROMACS build, and
//! parts that change slowly with the number of atoms, of cores and of threads per rank, or belong to one system.
//! Without measurements only the class is known and the interval is wide; one run on the spot removes the offset
//! of the site; runs of the same system remove most of the rest. What was measured far away in cores or atoms
//! counts less.
//!
//! Robust in two ways: a residual counts as at most [`BOUND`], and runs that disagree with the others by more than
//! their noise get less weight.

use crate::model::Job;
use crate::performance::{Placement, StepTime};

/// Largest residual (of the logarithm) that is believed: a factor of 3.
pub const BOUND: f64 = 1.1;
/// Most runs per hardware class that are kept; of more, the newest of each situation.
const MOST_RUNS: usize = 64;

/// The parts of the error, as standard deviations of ln(time). Chosen by leaving out whole machines and whole
/// systems (`scavenger-tuner accuracy`).
mod sigma {
    /// Share of a class's variance that all its sites have in common.
    pub(super) const CLASS_SHARE: f64 = 0.35;
    /// Changes slowly with atoms per site.
    pub(super) const SIZE: f64 = 0.10;
    /// Changes slowly with cores per site.
    pub(super) const CORES: f64 = 0.08;
    /// Depends on threads per rank.
    pub(super) const THREADS: f64 = 0.10;
    /// Belongs to one system on one site.
    pub(super) const SYSTEM: f64 = 0.08;
    /// Per share of the step that is overhead.
    pub(super) const OVERHEAD: f64 = 0.30;
    /// Of a single layout.
    pub(super) const LAYOUT: f64 = 0.06;
    /// Of a single layout, per share that is overhead.
    pub(super) const LAYOUT_OVERHEAD: f64 = 0.25;
    /// Of a repetition.
    pub(super) const REPEAT: f64 = 0.02;
}

/// What decides how far one run tells of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features {
    class: u64,
    site: u64,
    system: u64,
    ln_atoms: f64,
    ln_cores: f64,
    ln_threads: f64,
    overhead: f64,
    /// Standard deviation of the class.
    class_sigma: f64,
}

impl Features {
    /// Features of a job on a placement whose step was predicted.
    #[must_use]
    pub fn new(
        class: &str,
        class_sigma: f64,
        site: &str,
        job: &Job,
        place: &Placement,
        step: &StepTime,
    ) -> Self {
        let system = &job.system;
        let grid = system.pme.map_or(0.0, |pme| pme.points());
        Self {
            class: hash(class.as_bytes()),
            site: hash(site.as_bytes()),
            system: [system.atoms, grid, system.cutoff_nm, system.dt_ps]
                .iter()
                .fold(0, |state, value| hash(&[state.to_le_bytes(), value.to_le_bytes()].concat())),
            ln_atoms: system.atoms.ln(),
            ln_cores: place.cores.ln(),
            ln_threads: place.threads.ln(),
            overhead: step.overhead_share(),
            class_sigma,
        }
    }

    /// Variance of what only this layout has.
    fn own_variance(&self) -> f64 {
        sigma::LAYOUT.powi(2) + (sigma::LAYOUT_OVERHEAD * self.overhead).powi(2)
    }
}

/// Covariance of the residuals of two runs.
fn covariance(a: &Features, b: &Features) -> f64 {
    if a.class != b.class {
        return 0.0;
    }
    let class = a.class_sigma.powi(2) * sigma::CLASS_SHARE;
    if a.site != b.site {
        return class;
    }
    let near = |x: f64, y: f64, scale: f64| (-0.5 * ((x - y) / scale).powi(2)).exp();
    let cores = near(a.ln_cores, b.ln_cores, 1.5);
    let system = if a.system == b.system { sigma::SYSTEM.powi(2) } else { 0.0 };
    class
        + a.class_sigma.powi(2) * (1.0 - sigma::CLASS_SHARE)
        + sigma::SIZE.powi(2) * near(a.ln_atoms, b.ln_atoms, 1.5)
        + sigma::CORES.powi(2) * cores
        + sigma::THREADS.powi(2) * near(a.ln_threads, b.ln_threads, 0.7)
        + system
        + sigma::OVERHEAD.powi(2) * a.overhead * b.overhead * cores * near(a.ln_atoms, b.ln_atoms, 1.0)
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A run and by how much it was off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Where it was.
    pub features: Features,
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
    key: u64,
    runs: Vec<Features>,
    /// Lower triangle of the Cholesky factor, by rows.
    factor: Vec<f64>,
    /// The inverse covariance times the residuals.
    weights: Vec<f64>,
}

impl Knowledge {
    /// Puts residuals together. Later ones win where there are too many.
    #[must_use]
    pub fn new(residuals: &[Residual]) -> Self {
        let mut keys: Vec<u64> = residuals.iter().map(|residual| residual.features.class).collect();
        keys.sort_unstable();
        keys.dedup();
        let classes = keys.into_iter().map(|key| {
            let of_class: Vec<&Residual> = residuals.iter().filter(|r| r.features.class == key).collect();
            Class::new(key, &thinned(&of_class))
        });
        Self { classes: classes.collect() }
    }

    /// Number of runs that are kept.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.classes.iter().map(|class| class.runs.len()).sum()
    }

    /// Expected residual alone.
    #[must_use]
    pub fn mean(&self, features: &Features) -> f64 {
        self.class(features).map_or(0.0, |class| class.mean(features))
    }

    /// Expected residual and its standard deviation.
    #[must_use]
    pub fn ask(&self, features: &Features) -> (f64, f64) {
        let prior = covariance(features, features) + features.own_variance();
        match self.class(features) {
            None => (0.0, prior.sqrt()),
            Some(class) => {
                let explained = class.explained(features);
                let least = features.own_variance().max(sigma::REPEAT.powi(2));
                (class.mean(features), (prior - explained).max(least).sqrt())
            }
        }
    }

    fn class(&self, features: &Features) -> Option<&Class> {
        self.classes.iter().find(|class| class.key == features.class)
    }
}

/// Merges repetitions and keeps at most [`MOST_RUNS`], the last ones.
fn thinned(residuals: &[&Residual]) -> Vec<Residual> {
    let mut kept: Vec<(Residual, f64)> = Vec::new();
    for residual in residuals.iter().rev() {
        if let Some((first, count)) = kept.iter_mut().find(|(first, _)| first.features == residual.features) {
            *count += 1.0;
            first.value += (residual.value - first.value) / *count;
        } else if kept.len() < MOST_RUNS {
            kept.push((**residual, 1.0));
        }
    }
    kept.into_iter().map(|(residual, _)| residual).collect()
}

impl Class {
    fn new(key: u64, residuals: &[Residual]) -> Self {
        let runs: Vec<Features> = residuals.iter().map(|residual| residual.features).collect();
        let values: Vec<f64> = residuals.iter().map(|residual| residual.value.clamp(-BOUND, BOUND)).collect();
        let noise = |features: &Features| features.own_variance() + sigma::REPEAT.powi(2);
        let mut inflation = vec![1.0; runs.len()];
        let mut class = Self { key, runs, factor: Vec::new(), weights: Vec::new() };
        // Twice: the second time, runs that the others contradict count less.
        for _ in 0..2 {
            let noises: Vec<f64> =
                class.runs.iter().zip(&inflation).map(|(run, factor)| noise(run) * factor).collect();
            class.factor = cholesky(&class.runs, &noises);
            class.weights = class.solve(&values);
            for index in 0..class.runs.len() {
                // What is left of a residual in units of its noise.
                let left = class.weights[index] * noises[index];
                let spread = 2.0 * noise(&class.runs[index]).sqrt();
                inflation[index] = (left / spread).powi(2).max(1.0);
            }
        }
        class
    }

    fn mean(&self, features: &Features) -> f64 {
        self.runs.iter().zip(&self.weights).map(|(run, weight)| covariance(run, features) * weight).sum()
    }

    /// Variance that the runs explain: the squared length of L^-1 k.
    fn explained(&self, features: &Features) -> f64 {
        let k: Vec<f64> = self.runs.iter().map(|run| covariance(run, features)).collect();
        self.forward(&k).iter().map(|value| value * value).sum()
    }

    /// L^-1 b
    fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (row, value) in b.iter().enumerate() {
            let start = row * (row + 1) / 2;
            let known: f64 = self.factor[start..start + row].iter().zip(&x).map(|(l, x)| l * x).sum();
            x.push((value - known) / self.factor[start + row]);
        }
        x
    }

    /// (L L^T)^-1 b
    fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.forward(b);
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
}

/// Lower triangle of the Cholesky factor of the covariance plus noise, by rows. The noise is positive, so the
/// matrix is positive definite.
fn cholesky(runs: &[Features], noises: &[f64]) -> Vec<f64> {
    let mut factor: Vec<f64> = Vec::with_capacity(runs.len() * (runs.len() + 1) / 2);
    for row in 0..runs.len() {
        let start = factor.len();
        for column in 0..=row {
            let other = column * (column + 1) / 2;
            let known: f64 = (0..column).map(|k| factor[start + k] * factor[other + k]).sum();
            let value = covariance(&runs[row], &runs[column]) - known;
            factor.push(if row == column {
                (value + noises[row]).max(1e-9).sqrt()
            } else {
                value / factor[other + column]
            });
        }
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::CpuClass;
    use crate::ladder::fixtures::water;
    use crate::model::Model;

    fn run(atoms: u64, cores: f64, site: &str, value: f64) -> Residual {
        let job = Job::new(&water(atoms), None).expect("water should be accepted");
        let place =
            Placement { nodes: 1.0, ranks: 1.0, threads: cores, npme: 0.0, cores, smt: 1.0, gpu: None };
        let cpu = CpuClass::by_key("zen3").expect("Zen 3 should be in the table");
        let step = Model::prior().step_time(&job, cpu, &place);
        Residual { features: Features::new(cpu.key, cpu.sigma, site, &job, &place, &step), value }
    }

    #[test]
    fn without_measurements_the_class_is_all() {
        let (mean, sigma) = Knowledge::default().ask(&run(30_000, 8.0, "here", 0.0).features);
        assert_eq!(mean, 0.0);
        assert!((0.2..0.4).contains(&sigma), "{sigma}");
    }

    #[test]
    fn a_run_on_the_spot_moves_and_narrows() {
        let knowledge = Knowledge::new(&[run(30_000, 8.0, "here", 0.3)]);
        let before = Knowledge::default().ask(&run(60_000, 8.0, "here", 0.0).features);
        let here = knowledge.ask(&run(60_000, 8.0, "here", 0.0).features);
        let same = knowledge.ask(&run(30_000, 8.0, "here", 0.0).features);
        let there = knowledge.ask(&run(60_000, 8.0, "there", 0.0).features);
        assert!(0.2 < here.0 && here.0 < same.0 && same.0 < 0.3, "{here:?} {same:?}");
        assert!(same.1 < here.1 && here.1 < there.1 && there.1 < before.1, "{same:?} {here:?} {there:?}");
        assert!(0.0 < there.0 && there.0 < here.0);
    }

    #[test]
    fn one_absurd_run_among_many_hardly_counts() {
        let mut runs: Vec<Residual> = (1..=12).map(|n| run(10_000 * n, 8.0, "here", 0.1)).collect();
        let asked = run(55_000, 8.0, "here", 0.0).features;
        let before = Knowledge::new(&runs).mean(&asked);
        runs.push(run(52_000, 8.0, "here", 40.0));
        let after = Knowledge::new(&runs).mean(&asked);
        assert!((after - before).abs() < 0.1, "{before} {after}");
    }

    #[test]
    fn more_runs_than_are_kept_are_no_harm() {
        let runs: Vec<Residual> =
            (0..2000).map(|n| run(1000 + 37 * n, f64::from((n % 64) as u32 + 1), "here", 0.2)).collect();
        let knowledge = Knowledge::new(&runs);
        assert_eq!(knowledge.runs(), MOST_RUNS);
        let (mean, sigma) = knowledge.ask(&run(40_000, 16.0, "here", 0.0).features);
        assert!((mean - 0.2).abs() < 0.05 && sigma < 0.15, "{mean} {sigma}");
    }
}
