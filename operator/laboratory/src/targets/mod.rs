//! The targets of the operator: what it loses beside other policies at equal capacity, and what ordinary pods notice of it.
//!
//! Policies differ in how much they let ScavengerJobs get done, and who does nothing loses nothing. So the others are played with
//! the setting at which they keep as many core hours as the operator, within 1%, on the same workload and seed; then core hours
//! lost are compared for each one kept. docs/contributing/laboratory.md says more.

mod equal;
mod judge;

use scavenger_planner::{
    resources::Share,
    values::{PreemptionMode, Settings},
};
use serde::Serialize;

use crate::{
    compare::{self, baseline, mode_name},
    measure::{Baseline, Figures},
    policy::Kind,
    pool::Pool,
    run::Conditions,
    seeds,
    values::Time,
    workload::Workload,
};

pub use judge::{Met, Row, judge};

/// A workload on which the targets are looked at.
pub struct Case<'a> {
    /// What it is called.
    pub name: String,
    /// The workload of a seed.
    pub draw: Box<dyn Fn(u64) -> Workload + Sync + 'a>,
}

/// Another policy beside the operator, at equal capacity.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Beside {
    /// The policy.
    pub policy: &'static str,
    /// The mode of the operator that it is compared with.
    pub mode: &'static str,
    /// Its start threshold; under `stock` the part of all ScavengerJobs that are submitted.
    pub setting: f64,
    /// Core hours that it keeps, over those that the operator keeps.
    pub kept: f64,
    /// Core hours that ordinary pods hold, over those that they hold beside the operator.
    pub ordinary: f64,
    /// Core hours that the operator loses for each one that it keeps, over the same of this policy.
    pub lost: f64,
    /// The same without the writing of checkpoints, which no policy can spare.
    pub lost_by_interruptions: f64,
}

/// What one seed of a case gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seed {
    /// Mode Scheduler.
    pub scheduler: Figures,
    /// Mode Operator.
    pub operator: Figures,
    /// The other policies.
    pub beside: Vec<Beside>,
}

/// What all seeds of a case gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The case.
    pub workload: String,
    /// Its seeds, from 1 on.
    pub seeds: Vec<Seed>,
}

/// Who is compared with which mode.
const COMPARED: [(Kind, PreemptionMode); 4] = [
    (Kind::Greedy, PreemptionMode::Operator),
    (Kind::Stock, PreemptionMode::Scheduler),
    (Kind::Newest, PreemptionMode::Scheduler),
    (Kind::Predecessor, PreemptionMode::Scheduler),
];

/// Plays a case with so many seeds.
#[must_use]
pub fn play(case: &Case<'_>, number: u64, late: Time, threads: usize) -> Outcome {
    let one = |seed, first: &[f64]| Play::new((case.draw)(seed), Conditions { late, seed }).all(first);
    let start = Pool::usual(PreemptionMode::Scheduler).settings.start_thresholds.share("cpu").fraction();
    let first = (number > 0).then(|| one(1, &[start; COMPARED.len()]));
    // What made capacity equal with one seed is close to what does so with another.
    let settings: Vec<f64> = first.iter().flat_map(|seed| &seed.beside).map(|one| one.setting).collect();
    let others = seeds::each(threads, number.saturating_sub(1), |seed| one(seed + 1, &settings));
    Outcome { workload: case.name.clone(), seeds: first.into_iter().chain(others).collect() }
}

/// One seed of a case.
struct Play {
    workload: Workload,
    baseline: Baseline,
    conditions: Conditions,
}

impl Play {
    fn new(workload: Workload, conditions: Conditions) -> Self {
        let baseline = baseline(&workload, conditions.seed);
        Self { workload, baseline, conditions }
    }

    fn figures(&self, kind: Kind, settings: &Settings) -> Figures {
        compare::play(&self.workload, kind, settings, self.conditions, &self.baseline).1
    }

    /// Everything, with the settings of the other policies that are tried first.
    fn all(&self, first: &[f64]) -> Seed {
        let of = |mode| self.figures(Kind::Operator, &Pool::usual(mode).settings);
        let (scheduler, operator) = (of(PreemptionMode::Scheduler), of(PreemptionMode::Operator));
        let beside = COMPARED.into_iter().zip(first).map(|((kind, mode), first)| {
            let with = if mode == PreemptionMode::Operator { &operator } else { &scheduler };
            let (setting, other) = self.at_equal_capacity(kind, with.kept_core_hours, *first);
            compared(kind, mode, setting, with, &other)
        });
        Seed { beside: beside.collect(), scheduler, operator }
    }

    /// Finds how a policy keeps so many core hours.
    fn at_equal_capacity(&self, kind: Kind, wanted: f64, first: f64) -> (f64, Figures) {
        let usual = Pool::usual(PreemptionMode::Scheduler).settings;
        if kind == Kind::Stock {
            return equal::keeping(wanted, (first, 0.0, 1.0), |part| {
                let workload = part_of(&self.workload, part);
                compare::play(&workload, kind, &usual, self.conditions, &self.baseline).1
            });
        }
        // Who has headroom cannot start above it; `greedy` has none.
        let most = if kind == Kind::Greedy { 1.0 } else { usual.headroom.target.fraction() };
        equal::keeping(wanted, (first, 0.0, most), |threshold| {
            let mut settings = usual.clone();
            settings.start_thresholds.default = Share::from_fraction(threshold);
            self.figures(kind, &settings)
        })
    }
}

/// The same with this part of its ScavengerJobs. What a smaller part has a larger one has, too.
fn part_of(workload: &Workload, part: f64) -> Workload {
    // A multiplier of Knuth's spreads neighbours evenly.
    let place = |number: u32| f64::from(number.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX);
    let numbered = workload.scavengers.iter().zip(0..);
    let scavengers = numbered.filter(|(_, number)| place(*number) < part).map(|(sj, _)| *sj).collect();
    Workload { scavengers, ..workload.clone() }
}

fn compared(kind: Kind, mode: PreemptionMode, setting: f64, with: &Figures, other: &Figures) -> Beside {
    let per_kept = |figures: &Figures, less: f64| (figures.lost_core_hours - less) / figures.kept_core_hours;
    let ratio = |less: fn(&Figures) -> f64| per_kept(with, less(with)) / per_kept(other, less(other));
    Beside {
        policy: kind.name(),
        mode: mode_name(mode),
        setting,
        kept: other.kept_core_hours / with.kept_core_hours,
        ordinary: other.ordinary_utilisation / with.ordinary_utilisation,
        lost: ratio(|_| 0.0),
        lost_by_interruptions: ratio(|figures| figures.checkpoint_core_hours),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::scenario::Scenario;

    #[test]
    fn a_smaller_part_of_a_workload_is_in_a_larger_one() {
        let whole = Scenario::named("steady").unwrap().draw(1);
        let number = |part| part_of(&whole, part).scavengers.len() as f64 / whole.scavengers.len() as f64;
        for part in [0.0, 0.25, 0.5, 1.0] {
            assert!((number(part) - part).abs() < 0.02, "{part}: {}", number(part));
        }
        let larger = part_of(&whole, 0.5).scavengers;
        assert!(part_of(&whole, 0.4).scavengers.iter().all(|sj| larger.contains(sj)));
    }
}
