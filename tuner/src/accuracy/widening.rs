//! Calibration of the intervals on what was left out (conformal prediction).

use std::collections::{BTreeMap, BTreeSet};

use scavenger_tuner_model::interval::Z90;

use super::{Outcome, counts, fit};

/// Six machines with CPUs are too few to narrow an interval by more.
const LEAST_WIDENING: f64 = 0.8;
/// The same of four machines with GPUs.
const LEAST_GPU_WIDENING: f64 = 0.85;

/// The factor on the standard deviation with which the interval of 80% covers 80% of `outcomes`, each group counting the
/// same.
pub(super) fn widening<'a>(outcomes: impl Iterator<Item = &'a Outcome<'a>>) -> f64 {
    let outcomes: Vec<&Outcome<'_>> = outcomes.collect();
    let on_gpus = outcomes.first().is_some_and(|outcome| outcome.row.on_gpu());
    let least = if on_gpus { LEAST_GPU_WIDENING } else { LEAST_WIDENING };
    let counts = counts(&outcomes);
    let scores: Vec<(f64, f64)> = outcomes
        .iter()
        .map(|outcome| (outcome.model.abs() / outcome.sigma, 1.0 / counts[&outcome.group]))
        .collect();
    if scores.is_empty() { 1.0 } else { (fit::weighted_quantile(&scores, 0.8) / Z90).max(least) }
}

/// The same for each machine from the outcomes on all other machines.
pub(super) fn widenings(outcomes: &[Outcome<'_>]) -> BTreeMap<String, f64> {
    let machines = outcomes.iter().map(|outcome| outcome.row.machine.clone());
    let without = |machine: &str| widening(outcomes.iter().filter(|outcome| outcome.row.machine != machine));
    machines
        .collect::<BTreeSet<String>>()
        .into_iter()
        .map(|machine| {
            let factor = without(&machine);
            (machine, factor)
        })
        .collect()
}
