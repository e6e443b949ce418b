//! How the nodes that are counted by use stand, for the pool's status and the metrics.

use jiff::Timestamp;

use super::{DryRun, Knowledge, NodeUse};
use crate::{
    capacity::{Capacity, compute},
    values::{Name, Settings, resources::Resources},
};

impl NodeUse {
    /// How the nodes that are counted by use stand, and the nodes that the breaker has taken out.
    pub(crate) fn report<'a>(
        &'a self,
        settings: &'a Settings,
        capacity: &'a Capacity,
        now: Timestamp,
    ) -> Option<UsageReport<'a>> {
        let rules = settings.usage.as_deref()?;
        let mut report = UsageReport {
            known: 0,
            estimated: 0,
            unmeasured: 0,
            tripped: self.breaker.open().collect(),
            requested: Resources::default(),
            expected: Resources::default(),
            held: Resources::default(),
            dry_run: rules.dry_run.then(|| self.dry_run.clone()),
        };
        for node in capacity.all_pool_nodes().filter(|node| rules.select(node)) {
            if self.breaker.is_open(&node.name) {
                continue;
            }
            let knowledge =
                self.nodes.get(&node.name).map_or(Knowledge::Unmeasured, |one| one.knowledge(rules, now));
            *match knowledge {
                Knowledge::Known => &mut report.known,
                Knowledge::Estimated => &mut report.estimated,
                Knowledge::Unmeasured => &mut report.unmeasured,
            } += 1;
            report.requested.add(&compute(&capacity.requested_by_ordinary(&node.name)));
            let expected = self.account(node, settings, rules, capacity, now).expected;
            report.expected.add(&expected);
            for pod in capacity.scavenger_pods(&node.name) {
                report.held.add(&compute(pod.holds));
            }
        }
        Some(report)
    }
}

/// How the nodes that are counted by use stand.
#[derive(Debug)]
pub struct UsageReport<'a> {
    /// Nodes that were measured for long enough.
    pub known: usize,
    /// Nodes whose pods are expected to use what they request.
    pub estimated: usize,
    /// Nodes whose last sample is too old.
    pub unmeasured: usize,
    /// Nodes that are counted by requests for a day, until when, and why.
    pub tripped: Vec<(&'a Name, Timestamp, &'a str)>,
    /// Cpu and memory that ordinary pods request on these nodes.
    pub requested: Resources,
    /// Cpu and memory that they are expected to use at most.
    pub expected: Resources,
    /// Cpu and memory that ScavengerJobs hold there.
    pub held: Resources,
    /// What would have happened, if it is only calculated.
    pub dry_run: Option<DryRun>,
}
