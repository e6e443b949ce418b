//! The constants of the model, fitted to measured rows and to the parts of a step in the logs.

use scavenger_tuner_model::Model;
use scavenger_tuner_model::performance::{ClassFactors, Constants};

use super::components::Log;
use super::data::Row;
use super::{components, fit, groups, seconds};

/// Standard deviation that a machine and system as a whole is given in a fit: what two sites with one chip differ by.
const GROUP_SIGMA: f64 = 0.1;
/// Beyond that the error of a row counts by its size and not by its square: one odd row does not rule a fit.
const ODD: f64 = 0.2;
/// Rounds of a fit in which the weights of odd rows are found.
const WEIGHINGS: usize = 4;

/// What a fit may move.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The factors of classes.
    pub classes: bool,
    /// Constants that are switched off, by name.
    pub off: &'a [&'a str],
}

impl Terms<'_> {
    /// Everything.
    pub const ALL: Self = Self { classes: true, off: &[] };
}

/// What a constant is that is switched off.
const OFF: f64 = 1e-9;

/// Constants and what is particular to the classes of the machines they were fitted to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Common to all hardware.
    pub constants: Constants,
    /// Of each class.
    pub classes: Vec<ClassFactors>,
}

impl Fitted {
    /// From logarithms: the constants, then two factors of each class.
    fn from_logs(logs: &[f64], classes: &[&'static str]) -> Self {
        let (constants, factors) = logs.split_at(Constants::COUNT.min(logs.len()));
        let constants = <[f64; Constants::COUNT]>::try_from(constants)
            .map_or(Constants::PHYSICS, |logs| Constants::from_logs(&logs));
        let of_class = |(class, factors): (&&'static str, &[f64])| ClassFactors {
            class,
            pair: factors[0].exp(),
            other: factors[1].exp(),
        };
        Self { constants, classes: classes.iter().zip(factors.chunks_exact(2)).map(of_class).collect() }
    }

    pub(super) fn model(&self) -> Model {
        Model::with_constants(self.constants, &self.classes)
    }
}

/// Fits constants and classes to `rows` and to the components of `logs`, each machine x system counting the same.
#[must_use]
pub fn fit_constants(rows: &[&Row], logs: &[&Log], rounds: usize, terms: &Terms<'_>) -> Fitted {
    let mut weighed: Vec<(&Row, f64)> = Vec::new();
    for members in groups(rows).values() {
        let weight = 1.0 / (GROUP_SIGMA * (members.len() as f64).sqrt());
        weighed.extend(members.iter().map(|row| (*row, weight)));
    }
    let of_row = |row: &&Row| [Some(row.cpu.key), row.place.gpu.map(|gpu| gpu.class.key)];
    let mut classes: Vec<&'static str> = rows.iter().flat_map(of_row).flatten().collect();
    classes.sort_unstable();
    classes.dedup();
    if !terms.classes {
        classes.clear();
    }
    let mut centre = Constants::PHYSICS.logs().to_vec();
    let mut spread = Constants::SPREAD.to_vec();
    centre.resize(Constants::COUNT + 2 * classes.len(), 0.0);
    spread.resize(centre.len(), ClassFactors::SPREAD);
    for (place, _) in Constants::NAMES.iter().enumerate().filter(|(_, name)| terms.off.contains(name)) {
        (centre[place], spread[place]) = (OFF.ln(), OFF);
    }
    let model_of = |logs: &[f64]| Fitted::from_logs(logs, &classes).model();
    let mut found = centre.clone();
    for _ in 0..WEIGHINGS {
        let model = model_of(&found);
        // The root of the weight that makes a square of what counts by its size.
        let tame = |error: f64| (ODD / error.abs().max(ODD)).sqrt();
        let of_rows: Vec<f64> = weighed
            .iter()
            .map(|(row, weight)| weight * tame((seconds(&model, row) / row.seconds()).ln()))
            .collect();
        let of_logs: Vec<f64> =
            components::errors(&model, logs).iter().map(|(error, weight)| weight * tame(*error)).collect();
        let residuals = |values: &[f64]| {
            let model = model_of(values);
            let rows = weighed
                .iter()
                .zip(&of_rows)
                .map(|((row, _), weight)| weight * (seconds(&model, row) / row.seconds()).ln());
            let parts = components::errors(&model, logs);
            let parts = parts.into_iter().zip(&of_logs).map(|((error, _), weight)| error * weight);
            let drawn = values.iter().zip(&centre).zip(&spread);
            let drawn = drawn.map(|((log, centre), spread)| (log - centre) / spread);
            rows.chain(parts).chain(drawn).collect::<Vec<f64>>()
        };
        found = fit::least_squares(&found, rounds, residuals);
    }
    Fitted::from_logs(&found, &classes)
}
