//! Whether the ladder's own rule finds the number of cores that pays.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{Layout, Limits};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::hardware::Hardware;

use super::Fold;
use super::data::Row;

/// Fewest numbers of cores among which there is something to choose.
const FEWEST_SIZES: usize = 3;

/// The largest number of cores that pays, of those that were measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Computer and build.
    pub site: String,
    /// System.
    pub system: String,
    /// By what was measured.
    pub measured: u64,
    /// By what is served for a machine and a system that are left out of the fit.
    pub predicted: u64,
    /// How many measured sizes lie between the two; 1 for neighbours.
    pub apart: usize,
}

/// A pick for each system, machine and build with enough sizes on one node.
pub(super) fn picks(folds: &[Fold<'_>], rows: &[&Row]) -> Vec<Pick> {
    let mut picks = Vec::new();
    for fold in folds {
        let is_asked = |row: &&&Row| fold.judges(row) && row.place.smt < 1.5;
        let mut sizes: BTreeMap<&str, BTreeMap<u64, Vec<&Row>>> = BTreeMap::new();
        for row in rows.iter().filter(is_asked) {
            let of_build = sizes.entry(row.version.as_str()).or_default();
            of_build.entry(row.place.cores as u64).or_default().push(row);
        }
        for (version, sizes) in sizes.into_iter().filter(|(_, sizes)| sizes.len() >= FEWEST_SIZES) {
            let of = |speed: &dyn Fn(&Row) -> f64| {
                let fastest = |rows: &Vec<&Row>| rows.iter().map(|row| speed(row)).fold(0.0, f64::max);
                pays(&sizes.iter().map(|(cores, rows)| (*cores, fastest(rows))).collect::<Vec<_>>())
            };
            let first = sizes.values().flatten().next().expect("a build has rows");
            let (measured, predicted) = (of(&|row| row.ns_per_day), of(&|row| served(&fold.model, row)));
            let place = |size: u64| sizes.keys().position(|cores| *cores == size).unwrap_or(0);
            picks.push(Pick {
                site: format!("{} {version}", first.machine),
                system: first.system.clone(),
                measured,
                predicted,
                apart: place(measured).abs_diff(place(predicted)),
            });
        }
    }
    picks
}

/// The most cores with the efficiency that a ladder asks for by default.
fn pays(speeds: &[(u64, f64)]) -> u64 {
    let per_core = |(cores, speed): &(u64, f64)| speed / *cores as f64;
    let best = speeds.iter().map(per_core).fold(0.0, f64::max);
    let least = Limits::default().min_efficiency * best;
    speeds.iter().filter(|one| per_core(one) >= least).map(|(cores, _)| *cores).max().unwrap_or(0)
}

/// The speed by which a ladder counts the efficiency of a pod of this size.
fn served(model: &Model, row: &Row) -> f64 {
    let place = &row.place;
    let hardware = Hardware::of_cores(row.cpu, (place.cores / place.share).round() as u32);
    let layout = Layout { npme: place.npme as u32, ..Layout::cpu(place.ranks as u32, place.threads as u32) };
    model.speed_alone(&row.job, &hardware, &layout, place.cores as u32 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_cores_that_are_efficient_enough_pay() {
        assert_eq!(pays(&[(1, 10.0), (2, 18.0), (4, 29.0), (8, 40.0)]), 4);
        // Fewer cores may be less efficient than more.
        assert_eq!(pays(&[(1, 5.0), (2, 20.0), (4, 30.0)]), 4);
        assert_eq!(pays(&[]), 0);
    }
}
