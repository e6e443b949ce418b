//! Whether forecasts of starts hold.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use scavenger_forecast::Results;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    result: &'static str,
}

/// Forecasts that were decided.
#[derive(Debug, Default)]
pub(super) struct Forecasts(Family<Labels, Counter>);

impl Forecasts {
    pub(super) fn register(&self, registry: &mut Registry) {
        // Served from the beginning: a part of nothing is no number.
        self.set(Results::default());
        registry.register(
            "forecasts",
            "Forecasts of starts that were decided, of a sample: held, or the start was earlier or later",
            self.0.clone(),
        );
    }

    pub(super) fn set(&self, results: Results) {
        let Results { held, earlier, later } = results;
        for (result, number) in [("held", held), ("earlier", earlier), ("later", later)] {
            let counter = self.0.get_or_create(&Labels { result });
            counter.inc_by(number.saturating_sub(counter.get()));
        }
    }
}
