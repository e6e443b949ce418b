//! From measured runs to what they say of the model.

use std::collections::{BTreeMap, HashMap};

use scavenger_schema::tuning::ClassResidual;

use super::builds::Builds;
use super::{Model, Observation, origin};
use crate::learn::{Components, Features, Knowledge, Residual, median};
use crate::memory::MeasuredPeaks;

/// The repetitions of a run.
struct Repeated {
    features: Features,
    owner: u64,
    /// Predicted.
    ns_per_day: f64,
    values: Vec<f64>,
    noise: f64,
    /// Of the newest that has them.
    components: Components,
    /// When the newest was seen.
    newest: usize,
}

impl Repeated {
    fn residual(self) -> Residual {
        let count = self.values.len() as f64;
        Residual {
            features: self.features,
            owner: self.owner,
            value: median(self.values),
            count,
            noise: self.noise,
            components: self.components,
        }
    }
}

impl Model {
    /// The same model with what these runs tell; earlier knowledge is replaced. Runs without a positive speed
    /// tell of memory alone.
    #[must_use]
    pub fn learn(&self, observations: &[Observation]) -> Self {
        let mut by_class: BTreeMap<(bool, &'static str), Vec<f64>> = BTreeMap::new();
        // A step is predicted once for all repetitions: the place among the distinct runs by owner, key and output.
        let mut places: HashMap<(u64, u64, u64), usize> = HashMap::new();
        let mut distinct: Vec<Repeated> = Vec::new();
        for (index, run) in observations.iter().enumerate() {
            let is_speed = |speed: &f64| speed.is_finite() && *speed > 0.0;
            let Some(measured) = run.ns_per_day.filter(is_speed) else { continue };
            let origin = origin(&run.job, run.cpu, &run.place, run.site);
            let output = run.job.work.output_bytes.to_bits();
            let key = (run.owner, origin.run_key(&run.place), output);
            let place = *places.entry(key).or_insert_with(|| {
                let step = self.step_time(&run.job, run.cpu, &run.place).scaled(run.slowdown);
                distinct.push(Repeated {
                    features: Features::new(origin, &run.place, &step),
                    owner: run.owner,
                    ns_per_day: run.job.system.ns_per_day(step.total),
                    values: Vec::new(),
                    noise: f64::INFINITY,
                    components: Components::default(),
                    newest: index,
                });
                distinct.len() - 1
            });
            let repeated = &mut distinct[place];
            let value = (repeated.ns_per_day / measured).ln();
            repeated.values.push(value);
            let output = run.job.work.sigma_of_output(repeated.features.step().total);
            repeated.noise = repeated.noise.min(run.noise() + output.powi(2));
            repeated.newest = index;
            if run.cycles.is_some() {
                repeated.components = run.components(repeated.features.step());
            }
            by_class.entry((origin.gpus() > 0, origin.class())).or_default().push(value);
        }
        distinct.sort_by_key(|run| run.newest);
        let residuals: Vec<Residual> = distinct.into_iter().map(Repeated::residual).collect();
        let runs: usize = by_class.values().map(Vec::len).sum();
        let peaks = MeasuredPeaks::new(observations.iter().filter_map(|run| {
            Some((run.job.key, run.owner, run.memory_residual.filter(|residual| residual.is_finite())?))
        }));
        let digest = residuals.iter().fold(0_u64, |digest, residual| {
            let components = residual.components.iter().flatten();
            let components = components.fold(0, |all: u64, value| all.rotate_left(7) ^ value.to_bits());
            digest.rotate_left(5) ^ residual.value.to_bits() ^ residual.count.to_bits() ^ components
        });
        let digest = observations
            .iter()
            .filter_map(|run| run.memory_residual)
            .fold(digest, |digest, residual| digest.rotate_left(5) ^ residual.to_bits());
        Self {
            constants: self.constants,
            factors: self.factors.clone(),
            knowledge: Knowledge::new(&residuals),
            peaks,
            builds: Builds::of(observations),
            classes: by_class.into_iter().map(|(key, values)| (key, class_residual(key.1, values))).collect(),
            version: format!("{}+{}-{digest:016x}", env!("CARGO_PKG_VERSION"), runs),
        }
    }
}

fn class_residual(class: &str, mut values: Vec<f64>) -> ClassResidual {
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let middle = median(&mut values);
    let mut deviations = values.iter().map(|value| (value - middle).abs()).collect();
    ClassResidual {
        class: class.to_owned(),
        runs: values.len() as u64,
        median_ratio: middle.exp(),
        spread: median(&mut deviations),
    }
}
