//! What is told of the use of nodes: to people, by the pool's status and the metrics, and to the planner after this one.
//!
//! # What a planner hands on to the one after it
//!
//! That is what nodes use, where the breaker is open, and which namespaces are counted by requests
//! ([`crate::backoff::namespaces`]).
//!
//! Of a node's samples the predicted peak and their weight are kept. The next planner begins as if all of them had been at
//! the peak: it expects no less than the one before it did, and forgets it as fast. A node counts as known for as long as
//! before if the gap between the last sample of the one and the first of the other is short.

use jiff::{SignedDuration, Timestamp};

use super::{DryRun, Measured, NodeUse};
use crate::{
    capacity::{Capacity, compute},
    values::{Harm, Name, RememberedNode, RememberedUse, Settings, UsageRules, resources::Resources},
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
            without_agent: 0,
            tripped: self.breaker.open().collect(),
            own_limits: self.breaker.own_limits(),
            requested: Resources::default(),
            expected: Resources::default(),
            held: Resources::default(),
            dry_run: rules.dry_run.then(|| self.dry_run.clone()),
        };
        for node in capacity.all_pool_nodes().filter(|node| rules.select(node)) {
            if self.breaker.is_open(&node.name) {
                continue;
            }
            if !self.may_start(&node.name, rules) {
                report.without_agent += 1;
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

/// How a node that is counted by use stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// It was measured for long enough.
    Known,
    /// What its pods request is expected of them.
    Estimated,
    /// Its last sample is too old.
    Unmeasured,
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
    /// Nodes on which ScavengerJobs start by requests, because their agent is not live and one is required.
    pub without_agent: usize,
    /// Nodes that are counted by requests for a day, until when, and why.
    pub tripped: Vec<(&'a Name, Timestamp, &'a str)>,
    /// How many ordinary containers were killed for memory on nodes that had enough, beside ScavengerJobs: by their own limits.
    pub own_limits: u64,
    /// Cpu and memory that ordinary pods request on these nodes.
    pub requested: Resources,
    /// Cpu and memory that they are expected to use at most.
    pub expected: Resources,
    /// Cpu and memory that ScavengerJobs hold there.
    pub held: Resources,
    /// What would have happened, if it is only calculated.
    pub dry_run: Option<DryRun>,
}

impl Measured {
    fn remember(&self, rules: &UsageRules) -> Option<RememberedNode> {
        let time = self.last?.time;
        Some(RememberedNode {
            time,
            known: self.known,
            cpu_milli: self.cpu.percentile(rules.percentile),
            memory_bytes: self.memory.percentile(rules.percentile),
            weight: self.cpu.weight(time),
        })
    }

    /// What another planner knew counts as if it had been seen here.
    fn recall(&mut self, node: &RememberedNode, rules: &UsageRules) {
        // A peak is the end of a bucket, and rounding must not move it to the next one.
        let within = |peak: i64| (peak - 1).max(0);
        let weight = if node.weight.is_finite() { node.weight.max(0.0) } else { 0.0 };
        self.cpu.add_weighted(within(node.cpu_milli), weight, node.time, rules.half_life);
        self.memory.add_weighted(within(node.memory_bytes), weight, node.time, rules.half_life);
        self.known = node.known.max(SignedDuration::ZERO);
        self.before = Some(node.time);
    }
}

impl NodeUse {
    /// What is known of the nodes that there are, for the planner after this one; none if nothing is counted by use. Some may
    /// have gone while no planner worked.
    pub(crate) fn remember(&self, is_there: impl Fn(&Name) -> bool) -> Option<RememberedUse> {
        let rules = self.rules.as_deref()?;
        let known = self.nodes.iter();
        let known = known.filter_map(|(name, node)| Some((name.clone(), node.remember(rules)?)));
        let mut nodes = self.remembered.clone();
        nodes.extend(known);
        nodes.retain(|name, _| is_there(name));
        let harmed = self.breaker.open();
        let harmed =
            harmed.map(|(name, until, why)| (name.clone(), Harm { until, why: why.to_owned() })).collect();
        Some(RememberedUse { nodes, harmed, ..RememberedUse::default() })
    }

    /// Takes over what the planner before this one knew. What this one knows itself already is not touched.
    pub(crate) fn recall(&mut self, remembered: RememberedUse, now: Timestamp) {
        let RememberedUse { nodes, harmed, .. } = remembered;
        // A time in the future is of a clock that was set back since.
        let nodes = nodes.into_iter().filter(|(_, node)| node.time <= now);
        self.remembered = nodes.collect();
        self.dirty.extend(self.breaker.recall(harmed, now));
    }

    /// What was measured of a node, by the planner before this one, too.
    pub(super) fn measured(&mut self, name: &Name, rules: &UsageRules, now: Timestamp) -> &mut Measured {
        let measured = self.nodes.entry(name.clone()).or_insert_with(|| Measured::new(rules.half_life, now));
        if measured.last.is_none()
            && let Some(node) = self.remembered.remove(name)
        {
            measured.recall(&node, rules);
        }
        measured
    }
}
