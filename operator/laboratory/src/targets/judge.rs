//! Which targets are met.

use serde::Serialize;

use super::{Beside, Outcome, Seed, equal::SAME};
use crate::measure::{Figures, Interval};

/// How a target stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Met {
    /// In the worst twentieth of the seeds, too.
    Yes,
    /// By the median of the seeds.
    ByMedian,
    /// Not even so.
    No,
    /// It cannot be said: the policies do not keep the same, or ordinary pods do not get the same.
    NotComparable,
}

impl Met {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Yes => "met",
            Self::ByMedian => "met by the median",
            Self::No => "not met",
            Self::NotComparable => "not comparable",
        }
    }
}

/// A target in a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The case.
    pub workload: String,
    /// What is looked at.
    pub figure: String,
    /// Over the seeds.
    pub interval: Interval,
    /// How many digits of it matter.
    #[serde(skip)]
    pub digits: usize,
    /// What it is to be.
    pub target: &'static str,
    /// Whether it is.
    pub met: Met,
    /// At which setting the other policy keeps as much: the median.
    pub setting: Option<f64>,
}

/// The most that mode Operator may lose, over what `greedy` loses.
const BESIDE_GREEDY: f64 = 1.1;

/// Of a hundred ordinary pods so many start as fast as without ScavengerJobs.
const AS_FAST: f64 = 99.9;

/// Every target in a case.
#[must_use]
pub fn judge(outcome: &Outcome) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for place in 0..outcome.seeds.first().map_or(0, |seed| seed.beside.len()) {
        let all: Vec<&Beside> = outcome.seeds.iter().filter_map(|seed| seed.beside.get(place)).collect();
        rows.push(beside(outcome, &all));
    }
    for (mode, of) in MODES {
        let values = |figure: fn(&Figures) -> f64| outcome.seeds.iter().map(move |seed| figure(of(seed)));
        let preempted: Vec<f64> = values(|figures| figures.ordinary_preempted_more).collect();
        let fast: Vec<f64> = values(|figures| 100.0 - figures.ordinary_later_percent).collect();
        // In any run, so there is no median to go by.
        let none = preempted.iter().all(|number| *number <= 0.0);
        rows.push(Row {
            workload: outcome.workload.clone(),
            figure: format!("mode {mode}: ordinary pods preempted that are not without"),
            interval: Interval {
                high: preempted.iter().copied().fold(0.0, f64::max),
                ..Interval::of(&preempted)
            },
            digits: 0,
            target: "none in any run",
            met: if none { Met::Yes } else { Met::No },
            setting: None,
        });
        let interval = Interval::of(&fast);
        rows.push(Row {
            workload: outcome.workload.clone(),
            figure: format!("mode {mode}: % of ordinary pods that start as fast as without"),
            interval,
            digits: 2,
            target: "at least 99.9",
            met: met(interval.median >= AS_FAST, interval.low >= AS_FAST),
            setting: None,
        });
    }
    rows
}

/// A mode of the operator, and its figures.
type Mode = (&'static str, fn(&Seed) -> &Figures);

const MODES: [Mode; 2] = [("Scheduler", |seed| &seed.scheduler), ("Operator", |seed| &seed.operator)];

fn met(by_median: bool, always: bool) -> Met {
    match (always, by_median) {
        (true, _) => Met::Yes,
        (false, true) => Met::ByMedian,
        (false, false) => Met::No,
    }
}

/// What the operator loses beside another policy.
fn beside(outcome: &Outcome, all: &[&Beside]) -> Row {
    let over =
        |figure: fn(&Beside) -> f64| Interval::of(&all.iter().map(|one| figure(one)).collect::<Vec<_>>());
    let (policy, mode) = all.first().map_or(("", ""), |first| (first.policy, first.mode));
    let lost = over(|one| one.lost);
    let is_same = |interval: Interval| (interval.median - 1.0).abs() <= SAME;
    let (target, is_met): (_, fn(f64) -> bool) = if policy == "greedy" {
        ("at most 1.1", |ratio| ratio <= BESIDE_GREEDY)
    } else {
        ("below 1", |ratio| ratio < 1.0)
    };
    let is_equal = is_same(over(|one| one.kept)) && is_same(over(|one| one.ordinary));
    Row {
        workload: outcome.workload.clone(),
        figure: format!("mode {mode}: lost core hours, over those of {policy}"),
        interval: lost,
        digits: 2,
        target,
        met: if is_equal { met(is_met(lost.median), is_met(lost.high)) } else { Met::NotComparable },
        setting: Some(over(|one| one.setting).median),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(lost: f64, kept: f64, later: f64, preempted: f64) -> Seed {
        let figures = Figures {
            ordinary_later_percent: later,
            ordinary_preempted_more: preempted,
            ..Figures::default()
        };
        let of = |policy, mode| Beside {
            policy,
            mode,
            setting: 0.6,
            kept,
            ordinary: 1.0,
            lost,
            lost_by_interruptions: lost,
        };
        Seed {
            scheduler: figures.clone(),
            operator: figures,
            beside: vec![of("greedy", "Operator"), of("stock", "Scheduler")],
        }
    }

    fn met_of(seeds: Vec<Seed>) -> Vec<Met> {
        judge(&Outcome { workload: "case".to_owned(), seeds }).iter().map(|row| row.met).collect()
    }

    #[test]
    fn a_target_is_met_by_nearly_all_seeds_by_half_of_them_or_not() {
        use Met::{ByMedian, No, NotComparable, Yes};
        let good = || seed(0.5, 1.0, 0.0, 0.0);
        assert_eq!(met_of(vec![good(), good(), good()]), [Yes, Yes, Yes, Yes, Yes, Yes]);
        // Between both limits, and one seed in which pods start late.
        let middling = || seed(1.05, 1.005, 0.0, 0.0);
        let late = || seed(1.05, 1.005, 0.2, 0.0);
        assert_eq!(met_of(vec![middling(), middling(), late()]), [Yes, No, Yes, ByMedian, Yes, ByMedian]);
        assert_eq!(met_of(vec![good(), good(), seed(2.0, 1.0, 0.2, 0.0)])[..2], [ByMedian, ByMedian]);
        // One preempted pod in one run is one too many, and who keeps less is not compared.
        assert_eq!(met_of(vec![good(), good(), seed(0.5, 1.0, 0.0, 1.0)]), [Yes, Yes, No, Yes, No, Yes]);
        assert_eq!(met_of(vec![seed(0.5, 0.9, 0.0, 0.0)])[0], NotComparable);
    }
}
