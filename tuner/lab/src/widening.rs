//! Calibration of the intervals on what was left out (conformal prediction).

use std::collections::{BTreeMap, BTreeSet};

use scavenger_tuner_model::interval::Z90;
use scavenger_tuner_model::learn::{Known, Stratum};

use super::{Outcome, counts, fit};

/// Least factor by stratum and by what is known, as [`Stratum`] and [`Known`] have them.
const LEAST: [[f64; 3]; 3] = [
    // Six machines with CPUs are too few to narrow an interval by more. Where another system was measured, systems differ by
    // what no column tells.
    [0.75, 0.8, 0.75],
    // Two machines have rows on parts of a node, so the other one alone calibrates each: nothing is narrowed.
    [1.0; 3],
    // Nor by four machines with GPUs, whose five systems are much alike.
    [1.0; 3],
];

/// Factors on the standard deviation, by machine that was left out and by stratum.
pub(super) type Widenings = BTreeMap<(String, Stratum), f64>;

fn key(outcome: &Outcome<'_>) -> (String, Stratum) {
    (outcome.row.machine.clone(), Stratum::of(&outcome.row.place))
}

/// The factor for an outcome; 1 if there is none.
pub(super) fn factor(widenings: &Widenings, outcome: &Outcome<'_>) -> f64 {
    widenings.get(&key(outcome)).copied().unwrap_or(1.0)
}

/// The outcomes that calibrate a stratum, by regime. The rows on whole nodes are few, so all rows calibrate them. Parts of
/// nodes are calibrated by parts alone, and in all regimes together: on two machines the factors of single regimes are so
/// uncertain that a run which was measured would widen the interval.
fn calibrating<'o, 'a>(
    stratum: Stratum,
    known: Known,
    regimes: &'o [Vec<Outcome<'a>>],
) -> impl Iterator<Item = Vec<&'o Outcome<'a>>> {
    let is_part = stratum == Stratum::PartOfNode;
    let counts = move |outcome: &&Outcome<'_>| !is_part || Stratum::of(&outcome.row.place) == stratum;
    let meant = regimes.iter().enumerate().filter(move |(regime, _)| is_part || *regime == known as usize);
    meant.map(move |(_, outcomes)| outcomes.iter().filter(counts).collect())
}

/// The factor on the standard deviation with which the interval of 80% covers 80% of what calibrates a stratum, each group of
/// a regime counting the same. `regimes` are the outcomes by what is known; those on the machine `without` do not count.
pub(super) fn widening(
    stratum: Stratum,
    known: Known,
    regimes: &[Vec<Outcome<'_>>],
    without: Option<&str>,
) -> f64 {
    let mut scores: Vec<(f64, f64)> = Vec::new();
    for mut outcomes in calibrating(stratum, known, regimes) {
        outcomes.retain(|outcome| without != Some(outcome.row.machine.as_str()));
        let counts = counts(&outcomes);
        let score =
            |outcome: &&Outcome<'_>| (outcome.model.abs() / outcome.sigma, 1.0 / counts[&outcome.group]);
        scores.extend(outcomes.iter().map(score));
    }
    let least = LEAST[stratum as usize][known as usize];
    if scores.is_empty() { 1.0 } else { (fit::weighted_quantile(&scores, 0.8) / Z90).max(least) }
}

/// The same for each machine and stratum from the outcomes on all other machines.
pub(super) fn widenings(known: Known, regimes: &[Vec<Outcome<'_>>]) -> Widenings {
    let keys: BTreeSet<(String, Stratum)> = regimes[known as usize].iter().map(key).collect();
    let factor = |(machine, stratum): &(String, Stratum)| widening(*stratum, known, regimes, Some(machine));
    keys.into_iter().map(|key| (key.clone(), factor(&key))).collect()
}
