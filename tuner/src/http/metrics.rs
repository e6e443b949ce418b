//! What `/metrics` shows.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use scavenger_program::metrics::{self as program, Process};
use scavenger_schema::tuning::DroppedRuns;
use scavenger_tuner_model::Model;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    path: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PathLabels {
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ModelLabels {
    version: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DroppedLabels {
    reason: String,
}

/// The metrics of one service.
pub(super) struct Metrics {
    registry: Registry,
    process: Process,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<PathLabels, Histogram>,
    rungs: Histogram,
    versions: Family<ModelLabels, Gauge>,
    dropped: Family<DroppedLabels, Gauge>,
}

impl Metrics {
    pub(super) fn new(model: &Model) -> Self {
        let mut registry = Registry::with_prefix("scavenger_tuner");
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("requests", "Requests by path and status", requests.clone());
        // 50 µs to 1.6 s: a ladder takes about a millisecond.
        let seconds = Family::<PathLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(50e-6, 2.0, 16))
        });
        registry.register("request_seconds", "Time to answer a request, by path", seconds.clone());
        let rungs = Histogram::new((1..=16).map(f64::from));
        registry.register("ladder_configurations", "Configurations per ladder", rungs.clone());
        let versions = Family::<ModelLabels, Gauge>::default();
        registry.register(
            "model_runs",
            "Measured runs known to the model in use, by its version",
            versions.clone(),
        );
        let dropped = Family::<DroppedLabels, Gauge>::default();
        registry.register(
            "dropped_runs",
            "Measured runs that were read and are not learned from, by reason",
            dropped.clone(),
        );
        program::register_build(&mut registry, env!("CARGO_PKG_VERSION"));
        let process = Process::default();
        let metrics = Self { registry, process, requests, seconds, rungs, versions, dropped };
        metrics.model(model);
        metrics
    }

    pub(super) fn request(&self, path: String, status: u16, took: Duration) {
        self.seconds.get_or_create(&PathLabels { path: path.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { path, status }).inc();
    }

    /// Only the version in use is shown.
    pub(super) fn model(&self, model: &Model) {
        let runs = model.runs();
        self.versions.clear();
        let labels = ModelLabels { version: model.version().to_owned() };
        self.versions.get_or_create(&labels).set(i64::try_from(runs).unwrap_or(i64::MAX));
    }

    /// What is not dropped any more is shown no more.
    pub(super) fn dropped(&self, dropped: &[DroppedRuns]) {
        self.dropped.clear();
        for runs in dropped {
            let labels = DroppedLabels { reason: runs.kind.clone() };
            self.dropped.get_or_create(&labels).set(i64::try_from(runs.runs).unwrap_or(i64::MAX));
        }
    }

    pub(super) fn ladder(&self, rungs: usize) {
        self.rungs.observe(rungs as f64);
    }

    pub(super) fn encode(&self) -> Result<String, fmt::Error> {
        program::text(&self.registry, &self.process)
    }
}

#[cfg(test)]
mod tests {
    use scavenger_program::metrics_page::assert_explained;

    use super::*;

    #[test]
    fn every_metric_is_explained() {
        let metrics = Metrics::new(&Model::prior());
        metrics.request("/v1/ladder".to_owned(), 200, Duration::from_millis(1));
        metrics.ladder(3);
        metrics.dropped(&[DroppedRuns { kind: "any".to_owned(), reason: String::new(), runs: 1 }]);
        assert_explained(&metrics.encode().unwrap(), "The tuner");
    }
}
