//! How far the runs of one owner are believed by others.

use std::collections::BTreeMap;

use super::features::Origin;
use super::fit::Fit;
use super::kernel::{Direction, Priors, covariance};
use super::{Kept, OWNER_BOUND, median, noise};

/// How far a run of one owner may be from what the others' runs say of it: less than [`OWNER_BOUND`], because what
/// several such runs say of other layouts may be more than any of them.
const RUN_BOUND: f64 = 0.5 * OWNER_BOUND;
/// Runs that explain less of the variance that systems on one site have in common say nothing of a run.
const INFORMED: f64 = 0.5;

/// The runs of one owner alone, and what they say of others.
struct Opinion<'a> {
    runs: Vec<&'a Kept>,
    priors: Priors,
    directions: Vec<Direction>,
    fit: Fit,
}

impl<'a> Opinion<'a> {
    fn new(runs: Vec<&'a Kept>, priors: Priors, values: &[f64]) -> Self {
        let directions: Vec<Direction> = runs.iter().map(|run| run.residual.features.direction()).collect();
        let origins: Vec<&Origin> = runs.iter().map(|run| run.origin()).collect();
        let pairs = priors.pairs(&origins);
        let noises: Vec<f64> = runs.iter().map(|run| noise(run)).collect();
        let owners: Vec<u64> = runs.iter().map(|run| run.residual.owner).collect();
        let fit = Fit::new(&owners, &pairs, &directions, &noises, values);
        Self { runs, priors, directions, fit }
    }

    /// The residual that is expected of `run`; none if these runs have little to do with it.
    fn of(&self, run: &Kept) -> Option<f64> {
        let direction = run.residual.features.direction();
        // What a run of another system there could tell at best.
        let another = Origin { system: !run.origin().system, ..*run.origin() };
        let prior = covariance(&self.priors.shared(&another, run.origin()), &direction, &direction);
        let with_runs: Vec<f64> = self
            .runs
            .iter()
            .zip(&self.directions)
            .map(|(own, other)| {
                covariance(&self.priors.shared(own.origin(), run.origin()), other, &direction)
            })
            .collect();
        let product = |weights: &[f64]| with_runs.iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
        let explained = product(&self.fit.solve(&with_runs));
        (explained >= INFORMED * prior).then(|| product(&self.fit.weights))
    }
}

/// What each owner's runs say.
pub(super) struct Owners<'a> {
    kept: &'a [Kept],
    values: &'a [f64],
    opinions: BTreeMap<u64, Opinion<'a>>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(kept: &'a [Kept], values: &'a [f64]) -> Self {
        let mut by_owner: BTreeMap<u64, (Vec<&Kept>, Vec<f64>)> = BTreeMap::new();
        for (run, value) in kept.iter().zip(values) {
            let (runs, values) = by_owner.entry(run.residual.owner).or_default();
            runs.push(run);
            values.push(*value);
        }
        let several = by_owner.len() > 1;
        let opinion = |(owner, (runs, values)): (u64, (Vec<&'a Kept>, Vec<f64>))| {
            let priors = runs[0].origin().priors();
            (owner, Opinion::new(runs, priors, &values))
        };
        let opinions = by_owner.into_iter().filter(|_| several).map(opinion).collect();
        Self { kept, values, opinions }
    }

    /// The residuals as all see them: each near the middle of what it says and what each other owner's runs say of it.
    /// One owner against two or more who agree is overruled; two who contradict each other meet in the middle.
    pub(super) fn common(&self) -> Vec<f64> {
        let seen = |(run, value): (&Kept, &f64)| {
            let others = self.opinions.iter().filter(|(owner, _)| **owner != run.residual.owner);
            let mut said: Vec<f64> = others.filter_map(|(_, opinion)| opinion.of(run)).collect();
            if said.is_empty() {
                return *value;
            }
            said.push(*value);
            let middle = median(said);
            value.clamp(middle - RUN_BOUND, middle + RUN_BOUND)
        };
        self.kept.iter().zip(self.values).map(seen).collect()
    }

    /// The residuals as `owner` sees them: the own ones as they are, the others near what these say.
    pub(super) fn of(&self, owner: u64) -> Vec<f64> {
        let common = self.common();
        // An owner without runs gets the common answer.
        let Some(own) = self.opinions.get(&owner) else { return common };
        let seen = |((run, value), common): ((&Kept, &f64), f64)| {
            if run.residual.owner == owner {
                return *value;
            }
            own.of(run).map_or(common, |said| value.clamp(said - RUN_BOUND, said + RUN_BOUND))
        };
        self.kept.iter().zip(self.values).zip(common).map(seen).collect()
    }
}
