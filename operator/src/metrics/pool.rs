//! What the pool has, and how much of it is used.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use scavenger_planner::{
    Closed,
    report::PoolReport,
    resources::{CPU, Resources, is_in_bytes},
};

use scavenger_vocabulary::Reason;

use super::Reason as ReasonLabel;

/// A resource with the unit in which it is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AmountLabels {
    pub(super) resource: String,
    pub(super) unit: &'static str,
}

/// The same of the nodes with certain taints.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct GroupLabels {
    pub(super) taints: String,
    pub(super) resource: String,
    pub(super) unit: &'static str,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TenantLabel {
    pub(super) tenant: String,
}

/// Tenants that have series of their own: those that used most.
const TENANTS: usize = 100;

/// Amounts by labels.
type Amounts<Labels> = Family<Labels, Gauge<f64, AtomicU64>>;

/// Figures of the pool, and of those of its nodes that have the same taints.
#[derive(Debug, Default)]
pub(super) struct PoolMetrics {
    pub(super) allocatable: Amounts<AmountLabels>,
    pub(super) used: Amounts<AmountLabels>,
    pub(super) pending_requests: Amounts<AmountLabels>,
    pub(super) threshold: Amounts<AmountLabels>,
    pub(super) group_allocatable: Amounts<GroupLabels>,
    pub(super) group_used: Amounts<GroupLabels>,
    pub(super) group_threshold: Amounts<GroupLabels>,
    closed: Family<ReasonLabel, Gauge>,
    overdue: Gauge,
    pub(super) held_back: Family<ReasonLabel, Gauge>,
    pub(super) tenant_share: Amounts<TenantLabel>,
    pub(super) tenant_used: Amounts<TenantLabel>,
    pub(super) tenant_waiting: Family<TenantLabel, Gauge>,
}

impl PoolMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let resources = "cpu in cores, memory and storage in bytes, others as a number";
        for (name, help, family) in [
            ("pool_allocatable", "What the pool's nodes have", &self.allocatable),
            ("pool_used", "What is used or promised", &self.used),
            (
                "pool_pending_requests",
                "What of that is held for ordinary pods that wait for a node",
                &self.pending_requests,
            ),
            ("pool_start_threshold", "Up to where ScavengerJobs start", &self.threshold),
        ] {
            registry.register(name, format!("{help}: {resources}"), family.clone());
        }
        for (name, help, family) in [
            ("pool_group_allocatable", "What they have", &self.group_allocatable),
            ("pool_group_used", "What pods use of them", &self.group_used),
            (
                "pool_group_start_threshold",
                "Up to where ScavengerJobs start that can go nowhere else",
                &self.group_threshold,
            ),
        ] {
            let group = "of the pool's nodes with the same taints, if it has several kinds";
            registry.register(name, format!("{help}, {group}: {resources}"), family.clone());
        }
        // Served from the beginning: an alert on a series that is not there never ends.
        Closed::CAUSES
            .into_iter()
            .for_each(|reason| drop(self.closed.get_or_create(&ReasonLabel { reason: reason.to_owned() })));
        registry.register(
            "closed_nodes",
            "Nodes of the pool that take no more ScavengerJobs although other pods go there, by reason",
            self.closed.clone(),
        );
        registry.register(
            "overdue_nodes",
            "Nodes whose time in the pool is over, and that still have pods of ScavengerJobs",
            self.overdue.clone(),
        );
        registry.register(
            "held_interruptions",
            "ScavengerJobs that would be interrupted if the pool's disruptionBudgets allowed it now, by reason",
            self.held_back.clone(),
        );
        registry.register(
            "tenant_share",
            "The largest share of any of the pool's resources that a tenant holds, from 0 to 1",
            self.tenant_share.clone(),
        );
        registry.register(
            "tenant_used",
            "What a tenant used of the pool, from 0 to 1: the average in which a half-life ago counts half as much",
            self.tenant_used.clone(),
        );
        registry.register(
            "tenant_waiting_jobs",
            "ScavengerJobs of a tenant that wait, for whatever reason",
            self.tenant_waiting.clone(),
        );
    }

    pub(super) fn set(&self, pool: &PoolReport<'_>) {
        for reason in Closed::CAUSES {
            let closed = pool.closed_nodes.iter().filter(|(_, closed)| closed.cause() == reason).count();
            self.closed
                .get_or_create(&ReasonLabel { reason: reason.to_owned() })
                .set(i64::try_from(closed).unwrap_or(i64::MAX));
        }
        self.overdue.set(i64::try_from(pool.overdue_nodes).unwrap_or(i64::MAX));
        // Where nobody is held back any more the figure is 0, and does not end.
        for reason in Reason::ALL.iter().filter(|reason| reason.is_planned()) {
            self.held_back.get_or_create(&ReasonLabel { reason: reason.to_string() }).set(0);
        }
        for held in &pool.held_back {
            let number = i64::try_from(held.jobs.len()).unwrap_or(i64::MAX);
            self.held_back.get_or_create(&ReasonLabel { reason: held.reason.to_string() }).set(number);
        }
        self.set_tenants(pool);
        for (family, amounts) in [
            (&self.allocatable, pool.allocatable),
            (&self.used, &pool.used),
            (&self.pending_requests, &pool.pending_requests),
            (&self.threshold, &pool.limit),
        ] {
            // A resource that the nodes no longer have must not keep its last figure.
            family.clear();
            set(family, amounts, |labels| labels);
        }
        for family in [&self.group_allocatable, &self.group_used, &self.group_threshold] {
            family.clear();
        }
        for group in &pool.groups {
            for (family, amounts) in [
                (&self.group_allocatable, group.allocatable),
                (&self.group_used, group.used),
                (&self.group_threshold, &group.limit),
            ] {
                set(family, amounts, |AmountLabels { resource, unit }| GroupLabels {
                    taints: group.taints.clone(),
                    resource,
                    unit,
                });
            }
        }
    }
}

impl PoolMetrics {
    /// Tenants come and go: the figures of those that went end.
    fn set_tenants(&self, pool: &PoolReport<'_>) {
        self.tenant_share.clear();
        self.tenant_used.clear();
        self.tenant_waiting.clear();
        for tenant in pool.shares.iter().flat_map(|shares| &shares.tenants).take(TENANTS) {
            let label = TenantLabel { tenant: tenant.name.to_string() };
            self.tenant_share.get_or_create(&label).set(tenant.share);
            self.tenant_used.get_or_create(&label).set(tenant.used);
            let waiting = i64::try_from(tenant.waiting).unwrap_or(i64::MAX);
            self.tenant_waiting.get_or_create(&label).set(waiting);
        }
    }
}

/// Sets amounts in the base units of their resources.
fn set<Labels>(family: &Amounts<Labels>, amounts: &Resources, labels: impl Fn(AmountLabels) -> Labels)
where
    Labels: Clone + std::hash::Hash + Eq,
{
    for (name, amount) in amounts.iter() {
        let (unit, value) = match name {
            CPU => ("core", amount as f64 / 1e3),
            _ if is_in_bytes(name) => ("byte", amount as f64),
            _ => ("integer", amount as f64),
        };
        family.get_or_create(&labels(AmountLabels { resource: name.to_owned(), unit })).set(value);
    }
}
