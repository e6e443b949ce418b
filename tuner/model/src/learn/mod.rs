//! What measured runs add to the physics.
//!
//! A measured run tells by how much the predicted logarithm of its time was off. What is off are factors on the parts
//! of a step, with a normal prior each (`kernel`); a run is a measurement of the sum that its own parts make. The
//! update is the Bayesian one for all runs together, made linear where the runs say that the parameters are
//! (Gauss-Newton). Without measurements only the class is known and the interval is wide; one run removes what its
//! parts have in common with the question, and no more. What is doubtful of a system is an offset of its own: its own runs
//! take the doubt away, and teach others the less, the more of what they say may be that offset.
//!
//! Robust in five ways: runs that disagree with the others count less, by Student's t, and widen what they do not
//! agree on; a residual beyond [`BOUND`] is no speed; of repetitions the median counts; the runs of one owner
//! count as at most [`OWNER_BOUND`] away from what all other owners' runs say; and however many runs one owner has, they
//! share an error of their own.
//!
//! Whoever asks and has runs is answered with these as they are, and with the others' as far as the bound allows: nobody
//! moves an owner's own intervals by more. Who has none gets the common answer: there, of two owners who contradict each
//! other, nobody can tell who is right, so each moves it by up to half of what they differ by, and one who alone has runs
//! is believed.
//!
//! Runs of an older build count the less, the more runs there are of newer ones, and are the first to go where
//! there are too many.

mod features;
mod fit;
mod kept;
mod kernel;
mod owners;
mod prepared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::hardware::CpuClass;
use crate::performance::{Component, Overlap, Part, Parts, PerPart, Placement};
use fit::Fit;
pub(crate) use kept::median;
use kept::{Kept, thinned};
use kernel::{DIMENSIONS, Direction, covariance};
use owners::Owners;
use prepared::Prepared;

pub use features::{Features, Learning, Origin, Site};

/// Largest residual (of the logarithm) that is a speed and not a mistake: a factor of 50.
pub const BOUND: f64 = 3.9;
/// Farthest that the runs of one owner may be from what the others' runs predict for them: a factor of 1.5.
pub const OWNER_BOUND: f64 = 0.4;
/// Most runs per hardware class that are kept; of more, the newest of each owner.
const MOST_RUNS: usize = 64;
/// Most runs of one system that are kept beside these.
const MOST_OF_SYSTEM: usize = 10;
/// Most runs that a question about one of many systems is answered from.
const MOST_NEAR: usize = 20;
/// Most runs of a view whose components count, beside the whole of each.
const MOST_TABLES: usize = 6;
/// Distance in the logarithm of atoms that a run on another machine counts as.
const FAR: f64 = 100.0;
/// Runs of newer builds that double the noise of an older one's.
const FORGETTING: f64 = 2.0;

/// Degrees of freedom of Student's t: how readily a run that disagrees is put down to chance.
const FREEDOM: f64 = 4.0;
/// Rounds of weighing the runs and of making the physics linear around what they say.
const ROUNDS: usize = 4;
/// How far the disagreement of runs with what was expected may narrow and widen, as a factor on the variance.
const SURPRISE: (f64, f64) = (0.8, 12.0);

/// How much of what a question is about was measured before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// Nothing of the machine: the class alone is known.
    Class,
    /// Another system on the machine.
    Machine,
    /// The system on the machine.
    System,
}

impl Known {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Class, Self::Machine, Self::System];
}

/// What has intervals of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stratum {
    /// All cores of a node, or of several.
    WholeNodes,
    /// Some cores of a node. How far their clock rises while others are idle is not well known.
    PartOfNode,
    /// GPUs.
    Gpus,
}

impl Stratum {
    /// That of a placement.
    #[must_use]
    pub fn of(place: &Placement) -> Self {
        // Two threads on each of half of the cores were measured as a whole node.
        let is_whole = place.nodes > 1.5 || place.smt > 1.5 || place.busy > 0.99;
        match place.gpu {
            Some(_) => Self::Gpus,
            None if is_whole => Self::WholeNodes,
            None => Self::PartOfNode,
        }
    }

    /// Factor on the standard deviation of a class of one design that makes the interval of 80% cover 80% of what was measured
    /// on machines that were left out (conformal prediction; `scavenger-tuner-lab --show-constants`).
    #[must_use]
    pub fn widening(self, known: Known) -> f64 {
        WIDENING[self as usize][known as usize]
    }
}

impl Features {
    /// Factor on the standard deviation that calibrates it. No machine that was left out was of a class of many designs, so
    /// nothing says that the interval of such a class may be narrower than it is.
    #[must_use]
    pub fn widening(&self, known: Known) -> f64 {
        let factor = self.stratum.widening(known);
        if CpuClass::is_of_many_designs(self.origin.class) { factor.max(1.0) } else { factor }
    }
}

/// See [`Stratum::widening`], by stratum and by what is known.
const WIDENING: [[f64; 3]; 3] = [[0.75, 0.9, 0.75], [1.2, 1.2, 1.2], [1.0, 1.0, 1.0]];

/// What is only one run's, as standard deviations of ln(time).
mod sigma {
    /// Of one owner's runs: how they were measured, what ran beside them.
    pub(super) const OWNER: f64 = 0.05;
    /// Of a single layout.
    pub(super) const LAYOUT: f64 = 0.04;
    /// Of a single layout, per share that is overhead.
    pub(super) const LAYOUT_OVERHEAD: f64 = 0.12;
    /// Of a repetition.
    pub(super) const REPEAT: f64 = 0.02;
}

impl Features {
    /// Standard deviation before anything was measured.
    #[must_use]
    pub fn prior_sigma(&self) -> f64 {
        let direction = self.direction();
        let shared = self.origin.priors().shared(&self.origin, &self.origin);
        (covariance(&shared, &direction, &direction) + self.own_variance()).sqrt()
    }

    /// Variance of what only this layout has.
    fn own_variance(&self) -> f64 {
        sigma::LAYOUT.powi(2) + (sigma::LAYOUT_OVERHEAD * self.step.overhead_share()).powi(2)
    }
}

/// FNV-1a: short, and the same with every release of Rust, unlike the hash of its maps.
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
    /// ln(measured time / predicted time); of repetitions the median.
    pub value: f64,
    /// Repetitions that it stands for.
    pub count: f64,
    /// Variance that it has because it was short.
    pub noise: f64,
    /// The same of each component of its step.
    pub components: Components,
}

/// ln(measured time / predicted time) of the components of a step, in the order of [`Component::ALL`]; none of those that
/// nobody measured.
pub type Components = [Option<f64>; Component::COUNT];

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
    /// The newest runs of each system, if there are more runs than are kept.
    by_system: BTreeMap<u64, Vec<Residual>>,
    common: View,
    /// For each owner whose runs the others contradict, the same with these runs as they are.
    of_owners: BTreeMap<u64, View>,
    prepared: Prepared,
}

/// The runs of a class, each believed as far as it is for one who asks.
#[derive(Clone, Debug, PartialEq)]
struct View {
    /// Where the measurements are from: the runs that are kept, then components of their steps.
    origins: Vec<Origin>,
    /// The directions of the runs where the physics was made linear.
    directions: Vec<Direction>,
    /// The inverse of the covariance, row by row.
    inverse: Vec<f64>,
    /// The same times the residuals.
    weights: Vec<f64>,
    /// Variance relative to what was expected.
    surprise: f64,
}

impl Knowledge {
    /// Puts residuals together, oldest first.
    #[must_use]
    pub fn new(residuals: &[Residual]) -> Self {
        let mut classes: BTreeMap<(&'static str, u32), Vec<&Residual>> = BTreeMap::new();
        for residual in residuals {
            classes.entry(residual.features.origin.family()).or_default().push(residual);
        }
        Self { classes: classes.into_iter().map(|(key, of_class)| Class::new(key, &of_class)).collect() }
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
        self.about(&features.origin, owner).ask(features)
    }

    /// True if there are runs on this hardware class with that many GPUs.
    #[must_use]
    pub fn knows(&self, class: &str, gpus: u32) -> bool {
        self.classes.iter().any(|known| known.key == (class, gpus))
    }

    /// True if there are runs of that system.
    pub(crate) fn has_run(&self, system: u64) -> bool {
        let is_of = |run: &Residual| run.features.origin.system == system;
        self.classes.iter().any(|class| class.by_system.contains_key(&system) || class.kept.iter().any(is_of))
    }

    /// What is known of a class, site and system, whatever the layout, for `owner` if it is known who asks. Asking it
    /// about many layouts is much faster than asking from the start.
    #[must_use]
    pub fn about(&self, origin: &Origin, owner: Option<u64>) -> Arc<About> {
        let class = self.classes.iter().find(|class| class.key == origin.family());
        class.map_or_else(|| Arc::new(About::prior(origin)), |class| class.about(origin, owner))
    }
}

/// What is known of the parameters of one job on one site.
#[derive(Clone, Debug)]
pub struct About {
    known: Known,
    theta: Direction,
    /// What these make of the parts.
    factors: PerPart,
    /// Covariance of the parameters, row by row.
    covariance: [Direction; DIMENSIONS],
}

impl About {
    fn prior(origin: &Origin) -> Self {
        let shared = origin.priors().shared(origin, origin);
        let mut covariance = [[0.0; DIMENSIONS]; DIMENSIONS];
        for (parameter, variance) in shared.into_iter().enumerate() {
            covariance[parameter][parameter] = variance;
        }
        Self { known: Known::Class, theta: [0.0; DIMENSIONS], factors: [1.0; Part::COUNT], covariance }
    }

    /// How much of it was measured before.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known
    }

    /// Expected seconds alone, of a step in its parts. They must be of the class, site and system this is about.
    #[must_use]
    pub fn seconds(&self, parts: &Parts, boost: f64, place: &Placement) -> f64 {
        kernel::seconds(parts, boost, place, &self.theta, &self.factors)
    }

    /// Expected residual and its standard deviation.
    #[must_use]
    pub fn ask(&self, features: &Features) -> (f64, f64) {
        let (mean, direction) = features.moved(&self.theta);
        let mut variance = 0.0;
        for (row, left) in self.covariance.iter().zip(&direction) {
            variance += left * row.iter().zip(&direction).map(|(value, right)| value * right).sum::<f64>();
        }
        let least = sigma::REPEAT.powi(2);
        (mean, (variance + features.own_variance()).max(least).sqrt())
    }
}

impl Class {
    fn new(key: (&'static str, u32), residuals: &[&Residual]) -> Self {
        let kept = &thinned(residuals, MOST_RUNS)[..];
        let mut by_system: BTreeMap<u64, Vec<Residual>> = BTreeMap::new();
        if residuals.len() > kept.len() {
            for residual in residuals.iter().rev() {
                let runs = by_system.entry(residual.features.origin.system).or_default();
                if runs.len() < MOST_OF_SYSTEM {
                    runs.push(**residual);
                }
            }
        }
        let believed: Vec<f64> = kept.iter().map(|kept| kept.residual.value).collect();
        let owners = Owners::new(kept, &believed);
        let bounded = owners.common();
        let owner_of = |index: usize| kept[index].residual.owner;
        let contradicted = (0..kept.len()).filter(|index| believed[*index] != bounded[*index]).map(owner_of);
        let of_owners = contradicted
            .collect::<BTreeSet<u64>>()
            .into_iter()
            .map(|owner| (owner, View::new(kept, &owners.of(owner))))
            .collect();
        let common = View::new(kept, &bounded);
        let kept = kept.iter().map(|kept| kept.residual).collect();
        Self { key, kept, by_system, common, of_owners, prepared: Prepared::default() }
    }

    /// What is known of `origin`: from the runs of its system and those nearest to it, if not all runs are kept.
    fn about(&self, origin: &Origin, owner: Option<u64>) -> Arc<About> {
        let Some(own) = self.by_system.get(&origin.system) else {
            let contradicted = owner.and_then(|owner| Some((owner, self.of_owners.get(&owner)?)));
            let (owner, view) =
                contradicted.map_or((None, &self.common), |(owner, view)| (Some(owner), view));
            return self.prepared.get(origin.key(owner), || about(view, origin));
        };
        // An owner without runs here gets the common answer.
        let owner = owner.filter(|owner| {
            self.kept.iter().any(|run| run.owner == *owner) || own.iter().any(|run| run.owner == *owner)
        });
        self.prepared.get(origin.key(owner), || about(&self.near(own, origin, owner), origin))
    }

    /// The runs of the system of `origin` and those nearest to it, as `owner` sees them.
    fn near(&self, own: &[Residual], origin: &Origin, owner: Option<u64>) -> View {
        let distance = |run: &Residual| {
            let other = &run.features.origin;
            let elsewhere = if other.site.machine == origin.site.machine { 0.0 } else { FAR };
            (other.ln_atoms - origin.ln_atoms).abs() + elsewhere
        };
        let mut others: Vec<&Residual> =
            self.kept.iter().filter(|run| run.features.origin.system != origin.system).collect();
        others.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        others.truncate(MOST_NEAR - own.len().min(MOST_NEAR));
        // Oldest first, and the system's own last.
        let near: Vec<&Residual> = others.into_iter().rev().chain(own.iter().rev()).collect();
        let kept = thinned(&near, MOST_NEAR);
        let believed: Vec<f64> = kept.iter().map(|kept| kept.residual.value).collect();
        let owners = Owners::new(&kept, &believed);
        let values = owner.map_or_else(|| owners.common(), |owner| owners.of(owner));
        View::new(&kept, &values)
    }
}

/// What the measurements of `view` tell of the parameters of `origin`.
fn about(view: &View, origin: &Origin) -> About {
    let (prior, priors) = (About::prior(origin), origin.priors());
    // Covariance of each run with each parameter.
    let with_runs: Vec<Direction> = view
        .origins
        .iter()
        .zip(&view.directions)
        .map(|(other, direction)| {
            let shared = priors.shared(origin, other);
            std::array::from_fn(|parameter| shared[parameter] * direction[parameter])
        })
        .collect();
    let mut theta = [0.0; DIMENSIONS];
    for (run, weight) in with_runs.iter().zip(&view.weights) {
        for (theta, value) in theta.iter_mut().zip(run) {
            *theta += value * weight;
        }
    }
    let mut covariance = prior.covariance;
    for (row, run) in view.inverse.chunks_exact(view.origins.len().max(1)).zip(&with_runs) {
        let mut explained = [0.0; DIMENSIONS];
        for (inverse, other) in row.iter().zip(&with_runs) {
            for (explained, value) in explained.iter_mut().zip(other) {
                *explained += inverse * value;
            }
        }
        for (covariance, value) in covariance.iter_mut().zip(run) {
            for (covariance, explained) in covariance.iter_mut().zip(&explained) {
                *covariance -= value * explained;
            }
        }
    }
    for value in covariance.iter_mut().flatten() {
        *value *= view.surprise;
    }
    let known = |of: &Origin| match (of.site.machine == origin.site.machine, of.system == origin.system) {
        (true, true) => Known::System,
        (true, false) => Known::Machine,
        _ => Known::Class,
    };
    let known = view.origins.iter().map(known).max().unwrap_or(Known::Class);
    let overlap = if origin.gpus() > 0 { Overlap::Gpu } else { Overlap::None };
    About { known, theta, factors: kernel::factors(overlap, &theta), covariance }
}

impl View {
    fn new(kept: &[Kept], values: &[f64]) -> Self {
        let Measurements { runs, owners, noises, values } = Measurements::of(kept, values);
        let origins: Vec<&Origin> = runs.iter().map(Features::origin).collect();
        let pairs = origins.first().map_or_else(Vec::new, |first| first.priors().pairs(&origins));
        let mut directions: Vec<Direction> = runs.iter().map(Features::direction).collect();
        let mut straight = values.clone();
        let mut inflation = vec![1.0; runs.len()];
        let origins = origins.into_iter().copied().collect();
        let mut view =
            Self { origins, directions: Vec::new(), inverse: Vec::new(), weights: Vec::new(), surprise: 1.0 };
        let robust = runs.first().is_none_or(|run| run.origin().learning.robust);
        let rounds = if robust { ROUNDS } else { 1 };
        for round in 0..rounds {
            let inflated: Vec<f64> =
                noises.iter().zip(&inflation).map(|(noise, factor)| noise * factor).collect();
            let fit = Fit::new(&owners, &pairs, &directions, &inflated, &straight);
            let disagreement: f64 =
                fit.weights.iter().zip(&straight).map(|(weight, value)| weight * value).sum();
            let surprise = (FREEDOM + disagreement) / (FREEDOM + runs.len() as f64);
            view.directions.clone_from(&directions);
            view.surprise = if robust { surprise.clamp(SURPRISE.0, SURPRISE.1) } else { 1.0 };
            view.weights = fit.weights.clone();
            if round + 1 == rounds {
                view.inverse = fit.inverse();
                break;
            }
            for (index, run) in runs.iter().enumerate() {
                // What is left of a residual in units of its noise, and the weight that Student's t gives it.
                let left = fit.weights[index] * inflated[index];
                inflation[index] = ((FREEDOM + left * left / noises[index]) / (FREEDOM + 1.0)).max(1.0);
                let mut theta = [0.0; DIMENSIONS];
                for (other, weight) in fit.weights.iter().enumerate() {
                    let shared = &pairs[index * runs.len() + other];
                    for (parameter, theta) in theta.iter_mut().enumerate() {
                        *theta += shared[parameter] * view.directions[other][parameter] * weight;
                    }
                }
                let (moved, direction) = run.moved(&theta);
                let predicted: f64 = direction.iter().zip(&theta).map(|(slope, theta)| slope * theta).sum();
                directions[index] = direction;
                straight[index] = values[index] - moved + predicted;
            }
        }
        view
    }
}

/// What runs measured: each the whole of its step, and the newest that have them their components, too.
struct Measurements {
    runs: Vec<Features>,
    owners: Vec<u64>,
    noises: Vec<f64>,
    values: Vec<f64>,
}

impl Measurements {
    /// `values` are the residuals of `kept` as far as they are believed; components are believed as far as their run.
    fn of(kept: &[Kept], values: &[f64]) -> Self {
        let mut all = Self {
            runs: kept.iter().map(|kept| kept.residual.features).collect(),
            owners: kept.iter().map(|kept| kept.residual.owner).collect(),
            noises: kept.iter().map(noise).collect(),
            values: values.to_vec(),
        };
        let has_components = |kept: &Kept| kept.residual.components.iter().any(Option::is_some);
        let newest = kept.iter().zip(values).filter(|(kept, _)| has_components(kept)).take(MOST_TABLES);
        for (kept, believed) in newest {
            let Residual { features, owner, value, components, .. } = &kept.residual;
            for (component, measured) in Component::ALL.into_iter().zip(components) {
                let Some(measured) = measured else { continue };
                all.runs.push(features.component(component));
                all.owners.push(*owner);
                all.noises.push(component.sigma().powi(2) + noise(kept));
                all.values.push(measured.clamp(-BOUND, BOUND) + believed - value);
            }
        }
        all
    }
}

fn noise(kept: &Kept) -> f64 {
    let own = kept.residual.features.own_variance()
        + sigma::REPEAT.powi(2) / kept.residual.count
        + kept.residual.noise;
    own * (1.0 + kept.newer / FORGETTING)
}

#[cfg(test)]
mod tests;
