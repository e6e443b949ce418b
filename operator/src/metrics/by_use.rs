//! How the nodes stand that are counted by use.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use scavenger_planner::{
    node_use::UsageReport,
    resources::{CPU, MEMORY, Resources},
};

use super::pool::AmountLabels;

/// How well the use of nodes is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

/// What has no further labels, and is there only while nodes are counted by use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Figures of the nodes that are counted by use.
#[derive(Debug, Default)]
pub(super) struct ByUse {
    nodes: Family<StateLabels, Gauge>,
    requested: Family<AmountLabels, Gauge<f64, AtomicU64>>,
    expected: Family<AmountLabels, Gauge<f64, AtomicU64>>,
    held: Family<AmountLabels, Gauge<f64, AtomicU64>>,
    own_limits: Family<NoLabels, Gauge<f64, AtomicU64>>,
    core_hours: Family<NoLabels, Gauge<f64, AtomicU64>>,
    interruptions: Family<NoLabels, Gauge<f64, AtomicU64>>,
}

impl ByUse {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "usage_nodes",
            "Nodes that are counted by use, by how well their use is known (known, estimated, unmeasured) or why they are not (tripped, without_agent)",
            self.nodes.clone(),
        );
        let resources = "cpu in cores, memory in bytes";
        for (name, help, family) in [
            (
                "usage_requested",
                "What ordinary pods request on nodes that are counted by use",
                &self.requested,
            ),
            ("usage_expected", "What ordinary pods are expected to use there at most", &self.expected),
            ("usage_held", "What ScavengerJobs hold there", &self.held),
        ] {
            registry.register(name, format!("{help}: {resources}"), family.clone());
        }
        for (name, help, family) in [
            (
                "usage_own_limit_kills",
                "Ordinary containers that were killed for memory beside ScavengerJobs on nodes that had enough, since this \
                 leader began: their own limits killed them",
                &self.own_limits,
            ),
            (
                "usage_dry_run_core_hours",
                "Core-hours that accounting Usage would have brought since this leader began to calculate",
                &self.core_hours,
            ),
            (
                "usage_dry_run_interruptions",
                "How often accounting Usage would have taken something back since then",
                &self.interruptions,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
    }

    pub(super) fn set(&self, report: Option<&UsageReport<'_>>) {
        self.nodes.clear();
        for family in [&self.requested, &self.expected, &self.held] {
            family.clear();
        }
        for family in [&self.own_limits, &self.core_hours, &self.interruptions] {
            family.clear();
        }
        let Some(report) = report else { return };
        for (state, number) in [
            ("known", report.known),
            ("estimated", report.estimated),
            ("unmeasured", report.unmeasured),
            ("tripped", report.tripped.len()),
            ("without_agent", report.without_agent),
        ] {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            self.nodes.get_or_create(&StateLabels { state }).set(number);
        }
        for (family, amounts) in [
            (&self.requested, &report.requested),
            (&self.expected, &report.expected),
            (&self.held, &report.held),
        ] {
            set(family, amounts);
        }
        self.own_limits.get_or_create(&NoLabels {}).set(report.own_limits as f64);
        if let Some(run) = &report.dry_run {
            self.core_hours.get_or_create(&NoLabels {}).set(run.core_hours());
            self.interruptions.get_or_create(&NoLabels {}).set(run.interruptions as f64);
        }
    }
}

fn set(family: &Family<AmountLabels, Gauge<f64, AtomicU64>>, amounts: &Resources) {
    for (resource, unit, value) in
        [(CPU, "core", amounts.cpu_milli as f64 / 1e3), (MEMORY, "byte", amounts.memory_bytes as f64)]
    {
        family.get_or_create(&AmountLabels { resource: resource.to_owned(), unit }).set(value);
    }
}
