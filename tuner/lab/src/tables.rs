//! What the table at the end of md.log adds to the speed of a run.
//!
//! Each log of `cycles.csv` is taken as the one run that is known of its machine: once with its speed alone, and once with
//! its table.

use std::collections::BTreeMap;

use super::components::Log;
use super::data::Row;
use super::{Errors, Fold, Outcome, groups, regime};

/// Most nodes of the runs that are known and asked about.
const FEW_NODES: f64 = 8.5;

/// How a question was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Errors.
    pub errors: Errors,
    /// Share of measurements inside p10 to p90, before it is calibrated.
    pub coverage: f64,
    /// Median of p90 / p50.
    pub half_width: f64,
}

/// The same questions answered without and with the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// Which run is known.
    pub name: &'static str,
    /// Systems on machines.
    pub groups: usize,
    /// With its speed alone.
    pub alone: Known,
    /// With its table, too.
    pub with: Known,
}

/// Both regimes in which a run is known.
pub(super) fn worth(folds: &[Fold<'_>], rows: &[&Row], logs: &[Log]) -> Vec<Worth> {
    let few = |row: &Row| row.place.nodes < FEW_NODES;
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| few(row)).collect();
    let known: Vec<Row> = logs.iter().map(|log| log.row.clone()).filter(few).collect();
    let without: Vec<Row> = known.iter().map(|row| Row { cycles: None, ..row.clone() }).collect();
    let regimes: [(&'static str, bool); 2] =
        [("of another system", false), ("of this system, other cores within 4x", true)];
    regimes
        .into_iter()
        .map(|(name, same)| {
            let answered = |known: &[Row]| {
                let outcomes = outcomes(folds, &rows, known, same);
                let all: Vec<&Outcome<'_>> = outcomes.iter().collect();
                regime(name, (0.0, 0.0, 0.0), &all, &BTreeMap::new())
            };
            let (alone, with) = (answered(&without), answered(&known));
            let groups = alone.groups;
            let [alone, with] = [alone, with].map(|regime| Known {
                errors: regime.model,
                coverage: regime.coverage,
                half_width: regime.half_width,
            });
            Worth { name, groups, alone, with }
        })
        .collect()
}

/// Each run of `known` in turn, of the system that is asked about or of the others on the machine.
fn outcomes<'a>(folds: &[Fold<'_>], rows: &[&'a Row], known: &[Row], same: bool) -> Vec<Outcome<'a>> {
    let mut outcomes = Vec::new();
    for fold in folds {
        let judged: Vec<&Row> = rows.iter().copied().filter(|row| fold.judges(row)).collect();
        let sources = known.iter().filter(|row| row.machine == fold.machine && fold.judges(row) == same);
        for source in sources {
            let asked = |row: &&Row| {
                let ratio = row.place.cores / source.place.cores;
                !same || ((ratio - 1.0).abs() > 0.01 && (0.249..=4.01).contains(&ratio))
            };
            for members in groups(&judged).values() {
                let targets: Vec<&Row> = members.iter().copied().filter(asked).collect();
                outcomes.extend(fold.outcomes(&[source], &targets));
            }
        }
    }
    outcomes
}
