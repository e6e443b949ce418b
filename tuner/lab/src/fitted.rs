//! The constants of the model, fitted to measured rows and to the parts of a step in the logs.

use scavenger_tuner_model::Model;
use scavenger_tuner_model::performance::Constants;

use super::components::Log;
use super::data::Row;
use super::{components, fit, groups, seconds};

/// Standard deviation that a machine and system as a whole is given in a fit.
const GROUP_SIGMA: f64 = 0.1;
/// The same of a machine: what two sites with one chip differ by. It is fitted beside the constants and forgotten, so that no
/// constant stands for a machine.
const MACHINE_SIGMA: f64 = 0.2;
/// Beyond that the error of a row counts by its size and not by its square: one odd row does not rule a fit.
const ODD: f64 = 0.2;
/// Most rounds of a fit; it ends where it finds nothing better.
const ROUNDS: usize = 60;
/// Rounds of a fit in which the weights of odd rows are found.
const WEIGHINGS: usize = 4;

/// Constants, and by how much each machine that they were fitted to is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Common to all hardware.
    pub constants: Constants,
    /// Measured over predicted time of each machine.
    pub machines: Vec<(String, f64)>,
}

impl Fitted {
    pub(super) fn model(&self) -> Model {
        Model::with_constants(self.constants)
    }
}

fn constants_of(logs: &[f64]) -> Constants {
    let constants = &logs[..Constants::COUNT.min(logs.len())];
    <[f64; Constants::COUNT]>::try_from(constants)
        .map_or(Constants::PHYSICS, |logs| Constants::from_logs(&logs))
}

/// The machine of a row, its GPUs apart from its cores.
fn machine(row: &Row) -> String {
    if row.on_gpu() { format!("{}, GPU", row.machine) } else { row.machine.clone() }
}

/// Fits constants to `rows` and to the components of `logs`, each machine x system counting the same.
#[must_use]
pub fn fit_constants(rows: &[&Row], logs: &[&Log]) -> Fitted {
    let mut machines: Vec<String> = rows.iter().map(|row| machine(row)).collect();
    machines.sort_unstable();
    machines.dedup();
    let place = |row: &Row| {
        let name = machine(row);
        Constants::COUNT + machines.iter().position(|known| *known == name).unwrap_or(0)
    };
    let mut weighed: Vec<(&Row, usize, f64)> = Vec::new();
    for members in groups(rows).values() {
        let weight = 1.0 / (GROUP_SIGMA * (members.len() as f64).sqrt());
        weighed.extend(members.iter().map(|row| (*row, place(row), weight)));
    }
    let mut centre = Constants::PHYSICS.logs().to_vec();
    let mut spread = Constants::SPREAD.to_vec();
    centre.resize(Constants::COUNT + machines.len(), 0.0);
    spread.resize(centre.len(), MACHINE_SIGMA);
    let model_of = |logs: &[f64]| Model::with_constants(constants_of(logs));
    // ln(predicted / measured) of a row, its machine counted.
    let error = |model: &Model, values: &[f64], row: &Row, machine: usize| {
        (seconds(model, row) / row.seconds()).ln() + values[machine]
    };
    let mut found = centre.clone();
    for _ in 0..WEIGHINGS {
        let model = model_of(&found);
        // The root of the weight that makes a square of what counts by its size.
        let tame = |error: f64| (ODD / error.abs().max(ODD)).sqrt();
        let of_rows: Vec<f64> = weighed
            .iter()
            .map(|(row, machine, weight)| weight * tame(error(&model, &found, row, *machine)))
            .collect();
        let of_logs: Vec<f64> =
            components::errors(&model, logs).iter().map(|(error, weight)| weight * tame(*error)).collect();
        let residuals = |values: &[f64]| {
            let model = model_of(values);
            let rows = weighed.iter().zip(&of_rows);
            let rows = rows.map(|((row, machine, _), weight)| weight * error(&model, values, row, *machine));
            let parts = components::errors(&model, logs);
            let parts = parts.into_iter().zip(&of_logs).map(|((error, _), weight)| error * weight);
            let drawn = values.iter().zip(&centre).zip(&spread);
            let drawn = drawn.map(|((log, centre), spread)| (log - centre) / spread);
            rows.chain(parts).chain(drawn).collect::<Vec<f64>>()
        };
        found = fit::least_squares(&found, ROUNDS, residuals);
    }
    let machines = machines.iter().cloned().zip(found[Constants::COUNT..].iter().map(|log| log.exp()));
    Fitted { machines: machines.collect(), constants: constants_of(&found) }
}
