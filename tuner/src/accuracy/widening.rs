//! Calibration of the intervals on what was left out (conformal prediction).

use std::collections::{BTreeMap, BTreeSet};

use scavenger_tuner_model::interval::Z90;
use scavenger_tuner_model::learn::Known;

use super::{Outcome, counts, fit};

/// Least factor by what is known, as [`Known`] has it: six machines with CPUs are too few to narrow an interval by more.
/// Where another system was measured, systems differ by what no column tells.
const LEAST: [f64; 3] = [0.75, 0.8, 0.75];
/// The same of four machines with GPUs, whose five systems are much alike: nothing is narrowed.
const LEAST_ON_GPUS: f64 = 1.0;

/// The factor on the standard deviation with which the interval of 80% covers 80% of `outcomes`, each group counting the
/// same.
pub(super) fn widening<'a>(known: Known, outcomes: impl Iterator<Item = &'a Outcome<'a>>) -> f64 {
    let outcomes: Vec<&Outcome<'_>> = outcomes.collect();
    let on_gpus = outcomes.first().is_some_and(|outcome| outcome.row.on_gpu());
    let least = if on_gpus { LEAST_ON_GPUS } else { LEAST[known as usize] };
    let counts = counts(&outcomes);
    let scores: Vec<(f64, f64)> = outcomes
        .iter()
        .map(|outcome| (outcome.model.abs() / outcome.sigma, 1.0 / counts[&outcome.group]))
        .collect();
    if scores.is_empty() { 1.0 } else { (fit::weighted_quantile(&scores, 0.8) / Z90).max(least) }
}

/// The same for each machine from the outcomes on all other machines.
pub(super) fn widenings(known: Known, outcomes: &[Outcome<'_>]) -> BTreeMap<String, f64> {
    let machines = outcomes.iter().map(|outcome| outcome.row.machine.clone());
    let without =
        |machine: &str| widening(known, outcomes.iter().filter(|outcome| outcome.row.machine != machine));
    machines
        .collect::<BTreeSet<String>>()
        .into_iter()
        .map(|machine| {
            let factor = without(&machine);
            (machine, factor)
        })
        .collect()
}
