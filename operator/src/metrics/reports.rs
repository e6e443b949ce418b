//! What the endpoint for reports of supervisors measures.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NamespaceLabel {
    namespace: String,
}

/// Counters of the endpoint.
#[derive(Debug, Default)]
pub(crate) struct ReportMetrics {
    reports: Family<ResultLabel, Counter>,
    reviews: Family<ResultLabel, Counter>,
    tokens: Gauge,
    connections: Family<ReasonLabel, Counter>,
    checkpoints: Family<NamespaceLabel, Counter>,
}

impl ReportMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("reports", "Reports of supervisors, by what became of them", self.reports.clone());
        registry.register(
            "token_reviews",
            "Tokens of supervisors that the API server was asked about, by its answer",
            self.reviews.clone(),
        );
        registry.register("known_tokens", "Tokens of supervisors that need no review", self.tokens.clone());
        registry.register(
            "refused_report_connections",
            "Connections of supervisors that brought no report, by reason",
            self.connections.clone(),
        );
        registry.register(
            "reported_checkpoints",
            "Checkpoints that supervisors reported of running ScavengerJobs, by namespace",
            self.checkpoints.clone(),
        );
    }

    /// Counts a checkpoint that a supervisor reported.
    pub(crate) fn checkpoint(&self, namespace: String) {
        self.checkpoints.get_or_create(&NamespaceLabel { namespace }).inc();
    }

    /// Counts a report.
    pub(crate) fn answered(&self, result: &'static str) {
        self.reports.get_or_create(&ResultLabel { result }).inc();
    }

    /// Counts a review.
    pub(crate) fn reviewed(&self, result: &'static str) {
        self.reviews.get_or_create(&ResultLabel { result }).inc();
    }

    /// Takes in how many tokens are known.
    pub(crate) fn known(&self, tokens: usize) {
        self.tokens.set(i64::try_from(tokens).unwrap_or(i64::MAX));
    }

    /// Counts a connection that brought no report.
    pub(crate) fn connection_refused(&self, reason: &'static str) {
        self.connections.get_or_create(&ReasonLabel { reason }).inc();
    }
}

#[cfg(test)]
impl ReportMetrics {
    /// How many reports came to this.
    pub(crate) fn answered_so_far(&self, result: &'static str) -> u64 {
        self.reports.get_or_create(&ResultLabel { result }).get()
    }

    /// How many connections ended so.
    pub(crate) fn refused_so_far(&self, reason: &'static str) -> u64 {
        self.connections.get_or_create(&ReasonLabel { reason }).get()
    }
}
