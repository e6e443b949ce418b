//! From measured runs to what they say of the model.

use std::collections::BTreeMap;

use scavenger_schema::tuning::ClassResidual;

use super::{Model, Observation, origin};
use crate::learn::{BOUND, Knowledge, Residual, median};
use crate::memory::MeasuredPeaks;

impl Model {
    /// The same model with what these runs tell; earlier knowledge is replaced. Runs without a positive speed
    /// tell of memory alone, and those beyond [`BOUND`] of nothing.
    #[must_use]
    pub fn learn(&self, observations: &[Observation]) -> Self {
        let mut by_class: BTreeMap<(bool, &'static str), Vec<f64>> = BTreeMap::new();
        let mut residuals: Vec<Residual> = Vec::new();
        let mut absurd = 0;
        for run in observations {
            let is_speed = |speed: &f64| speed.is_finite() && *speed > 0.0;
            let Some(measured) = run.ns_per_day.filter(is_speed) else { continue };
            let origin = origin(&run.job, run.cpu, &run.place);
            let step = self.step_time(&run.job, run.cpu, &run.place).scaled(run.slowdown);
            let expected = run.job.system.ns_per_day(step.total);
            let value = (expected / measured).ln();
            if value.abs() > BOUND {
                absurd += 1;
            } else {
                residuals.push(Residual { origin, is_doubtful: run.job.doubt() > 0.0, value });
                by_class.entry((origin.gpus > 0, origin.class)).or_default().push(value);
            }
        }
        let peaks = MeasuredPeaks::new(observations.iter().filter_map(|run| {
            let residual = run.memory_residual.filter(|residual| residual.is_finite())?;
            Some((run.job.key, !run.job.is_unmodelled(), residual))
        }));
        let speeds = residuals.iter().map(|residual| residual.value);
        let digest = speeds
            .chain(observations.iter().filter_map(|run| run.memory_residual))
            .fold(0_u64, |digest, value| digest.rotate_left(5) ^ value.to_bits());
        let runs = residuals.len();
        Self {
            constants: self.constants,
            knowledge: Knowledge::new(&residuals),
            peaks,
            classes: by_class.into_iter().map(|(key, values)| (key, class_residual(key.1, values))).collect(),
            absurd,
            version: format!("{}+{runs}-{digest:016x}", env!("CARGO_PKG_VERSION")),
        }
    }
}

fn class_residual(class: &str, values: Vec<f64>) -> ClassResidual {
    let runs = values.len() as u64;
    let middle = median(values.clone());
    let spread = median(values.into_iter().map(|value| (value - middle).abs()).collect());
    ClassResidual { class: class.to_owned(), runs, median_ratio: middle.exp(), spread }
}
