//! Nodes that are counted by use: ScavengerJobs go when ordinary pods come to use what they hold, node by node.
//!
//! | what the node lacks | reason | when |
//! |---|---|---|
//! | memory: expected use and what ScavengerJobs hold are above `interruptThreshold` | NodeMemoryShort | at once |
//! | cpu: the last sample and what ScavengerJobs hold are above it | NodeCPUShort | after `usage.linger` |
//! | samples, for `usage.metricsGracePeriod` | NodeNotMeasured | at once, all that were started by use |
//! | trust: an ordinary container was killed for memory there | NodeMemoryShort | at once, all that were started by use |
//!
//! Those that lose least go, until the headroom target is reached. What an ordinary pod requests that was just bound is
//! expected of it, so a start that was planned too early is taken back as soon as both are seen on the node.

use std::collections::BTreeMap;

use super::{
    headroom,
    least_loss::Candidate,
    pool::{Cause, Needs, Pool, Standing},
};
use crate::{
    node_use::Lack,
    values::{
        Headroom, Key, Name, Reason,
        resources::{Amount, CPU, MEMORY, Resources},
    },
};

/// The nodes that lack something.
#[derive(Debug, Default)]
pub(crate) struct NodesInUse {
    lacking: BTreeMap<Name, Vec<Lack>>,
}

impl NodesInUse {
    /// Takes in what nodes lack.
    pub(crate) fn set(&mut self, lacking: Vec<(Name, Vec<Lack>)>) {
        for (node, lacks) in lacking {
            if lacks.is_empty() {
                self.lacking.remove(&node);
            } else {
                self.lacking.insert(node, lacks);
            }
        }
    }

    /// Forgets a node.
    pub(crate) fn remove_node(&mut self, node: &Name) {
        self.lacking.remove(node);
    }
}

impl Cause for NodesInUse {
    fn is_idle(&mut self, _: &Pool<'_>) -> bool {
        self.lacking.is_empty()
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        for (node, lacks) in &self.lacking {
            for lack in lacks {
                match lack {
                    Lack::Memory(used) => relieve(node, MEMORY, *used, &Reason::NodeMemoryShort, pool),
                    Lack::Cpu(used) => relieve(node, CPU, *used, &Reason::NodeCPUShort, pool),
                    Lack::Measurements(since) => {
                        let minutes = pool.now.duration_since(*since).as_mins();
                        let message = format!("what node {node} uses was not measured for {minutes} minutes");
                        give_up(node, &Reason::NodeNotMeasured, &message, pool);
                    }
                    Lack::Trust(why) => give_up(node, &Reason::NodeMemoryShort, why, pool),
                }
            }
        }
    }

    fn relies_on(&self) -> Vec<(&Name, Needs)> {
        let lacks_memory = |lacks: &Vec<Lack>| lacks.iter().any(|lack| matches!(lack, Lack::Memory(_)));
        let lacking = self.lacking.iter().filter(|(_, lacks)| lacks_memory(lacks));
        lacking.map(|(node, _)| (node, Needs::Everything)).collect()
    }
}

/// Orders the interruption of those that lose least, until the node is down to the headroom target of a resource of which
/// ordinary pods use this much. What is terminating counts as gone. Of memory comes back what was counted of a pod: what it
/// holds without what it was not expected to use.
pub(crate) fn relieve(node: &Name, resource: &str, used: i64, reason: &Reason, pool: &mut Pool<'_>) {
    let Some(room) = pool.capacity.node(node) else { return };
    let whole = room.node.allocatable.get(resource);
    let threshold = pool.settings.interrupts_above(room.node, resource);
    let target = pool.settings.headroom_of(room.node).target(resource).min(threshold);
    let only = |amount: i64| match resource {
        CPU => Resources { cpu_milli: amount, ..Resources::default() },
        _ => Resources { memory_bytes: amount, ..Resources::default() },
    };
    let mut held = 0_i64;
    let mut candidates = Vec::new();
    for (sj, holds) in pool.counted_on(node, resource) {
        if matches!(pool.standing_of(sj), Standing::Terminating(_)) {
            continue;
        }
        held = held.saturating_add(holds);
        if let Some(loss) = pool.loss_of(sj).filter(|_| holds > 0) {
            candidates.push(Candidate { sj: sj.clone(), held: only(holds), loss });
        }
    }
    let limits = Headroom {
        interrupt_threshold: Some(threshold),
        interrupt_threshold_overrides: BTreeMap::new(),
        target,
        target_overrides: BTreeMap::new(),
    };
    let message = format!(
        "ordinary pods of node {node} use {} and ScavengerJobs hold {} of its {}: more than {threshold}",
        Amount(resource, used),
        Amount(resource, held),
        Amount(resource, whole),
    );
    let taken = only(used.saturating_add(held));
    for (sj, _) in headroom::choose(&taken, &only(whole), &limits, "", candidates) {
        pool.order(&sj, reason.clone(), message.clone());
    }
}

/// Orders the interruption of all whose capacity was counted by use, those that lose least first.
fn give_up(node: &Name, reason: &Reason, message: &str, pool: &mut Pool<'_>) {
    let mut holders: Vec<_> = pool
        .started_by_use_on(node)
        .into_iter()
        .filter_map(|sj| Some((pool.loss_of(sj)?, sj.clone())))
        .collect();
    holders.sort();
    for (_, sj) in holders {
        pool.order(&sj, reason.clone(), message.to_owned());
    }
}

impl Pool<'_> {
    /// What is counted of a resource for each ScavengerJob on a node.
    fn counted_on(&self, node: &Name, resource: &str) -> BTreeMap<&Key, i64> {
        let spares =
            self.capacity.account(node).filter(|_| resource == MEMORY).map(|account| &account.spares);
        self.sums_on(node, |counted: &mut i64, pod| {
            let spares = spares.and_then(|spares| spares.get(pod.key)).copied().unwrap_or(0);
            *counted += pod.holds.get(resource) - spares;
        })
    }

    /// The ScavengerJobs on a node that were started by what is used.
    fn started_by_use_on(&self, node: &Name) -> Vec<&Key> {
        let pods = self.capacity.scavenger_pods(node).filter(|pod| pod.holds != pod.requests);
        pods.filter_map(|pod| self.seen.key_of(pod.owner, &pod.key.namespace)).collect()
    }
}
