//! What others ask about single nodes and about parts of the pool: how they are counted, how far they may be filled, whether they
//! take pods, and which part of the pool a demand reaches ([`super::sums`]).

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

use super::{
    Capacity, NodeStanding,
    index::Ask,
    node::{Account, Entry, without_compute},
    promises::Ledger,
    sums::{Nodes, Own, Sums, own_group},
    table::{Reach, Table, View},
};
use crate::values::{Closed, Demand, Key, Name, Placement, Settings, resources::Resources};

/// So many nodes are kept out of a Job by name at most: each name is a requirement in every pod of every Job. Where more
/// are closed a Job names the nodes that its pods may go to instead.
const MAX_CLOSED: usize = 50;

/// A part of the pool in which capacity is kept free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The whole, without nodes that have thresholds of their own.
    Pool,
    /// The nodes with the same taints, where there are several kinds, by their number.
    Taints(usize),
    /// A group of nodes with thresholds of its own, by its number in the settings.
    Own(usize),
}

impl Capacity {
    /// Takes in how a node is counted.
    pub(crate) fn set_account(&mut self, node: &Name, account: Option<Account>) {
        let known = self.nodes.get(node).map(|entry| entry.account.as_deref());
        if known.is_none_or(|known| known == account.as_ref()) {
            return;
        }
        // Something else may never fit now, or fit after all.
        let at_best =
            |account: Option<&Account>| account.map(|account| (account.most.clone(), account.most_pods));
        let is_other_at_best = at_best(known.flatten()) != at_best(account.as_ref());
        self.change_node(node, |entry| entry.account = account.map(Box::new));
        self.version += 1;
        self.epoch += u64::from(is_other_at_best);
    }

    /// True if a ScavengerJob that starts on a node is counted there by what is really used.
    pub(crate) fn starts_by_use(&self, node: &Name) -> bool {
        self.account(node).is_some_and(|account| account.starts)
    }

    /// How a node is counted by use; none if it is counted by requests.
    pub(crate) fn account(&self, node: &Name) -> Option<&Account> {
        self.nodes.get(node)?.account.as_deref()
    }

    /// The node on which a pod of a ScavengerJob is, and what it holds there.
    pub(crate) fn held_by(&self, pod: &Key) -> Option<(&Name, &Resources)> {
        let occupant = self.occupants.get(pod).filter(|occupant| occupant.owner.is_some())?;
        Some((&occupant.node, occupant.holds()))
    }

    /// True if a pod is on a node whose ScavengerJob was started by what is used.
    pub(crate) fn is_shared_by_use(&self, node: &Name) -> bool {
        self.scavenger_pods(node).any(|pod| pod.holds != pod.requests)
    }

    pub(crate) fn requested_by_ordinary(&self, node: &Name) -> Resources {
        self.nodes.get(node).map(|entry| entry.ordinary.clone()).unwrap_or_default()
    }

    /// What a ScavengerJob of one pod may take of a node of the pool.
    pub(crate) fn free_for_one_pod(&self, node: &Name, ledger: &Ledger) -> Resources {
        let Some(entry) = self.nodes.get(node) else { return Resources::default() };
        let table = if self.chooses_nodes { Table::Usage } else { Table::Requests };
        let free = entry.free_by_view(ledger.promised(node), self.chooses_nodes);
        free.into_iter().nth(table.rows(View::Now)).flatten().unwrap_or_default()
    }

    /// What pods on a node request, and what is promised on it.
    pub(crate) fn taken_of(&self, node: &Name, ledger: &Ledger) -> Resources {
        let mut used = self.nodes.get(node).map(|entry| entry.used.clone()).unwrap_or_default();
        if let Some(promised) = ledger.promised(node) {
            used.add(promised);
        }
        used
    }

    /// What all pods take of a node, as it is counted.
    pub(crate) fn counted_on(&self, node: &Name) -> Resources {
        self.nodes.get(node).map(Entry::counted).unwrap_or_default()
    }

    /// True if the planner chooses the node for a ScavengerJob, and not kube-scheduler: by what is really used, because nodes
    /// have limits of their own, or because nothing but the name of a node keeps a gang together.
    pub(crate) fn chooses_node(&self, demand: &Demand) -> bool {
        demand.placement.one_node || self.chooses_nodes && demand.may_go_by_use()
    }

    /// What the headroom of a part looks at: what its nodes have, and what pods use of it that are bound to them, or nominated
    /// for them. None if it has no nodes.
    pub(crate) fn headroom(&self, part: Part) -> Option<(&Resources, &Resources)> {
        let sums = match part {
            Part::Pool => Some(&self.totals.pool),
            Part::Taints(group) => {
                self.groups().find(|one| one.number == group).map(|group| &group.nodes.sums)
            }
            Part::Own(group) => self.totals.own.get(&group),
        };
        sums.map(|sums| (&sums.headroom.0, &sums.headroom.1))
    }

    /// Of the second, what pods use that are bound.
    pub(crate) fn headroom_of_bound(&self, part: Part) -> Resources {
        let mut taken = self.headroom(part).map(|(_, taken)| taken.clone()).unwrap_or_default();
        for occupant in self.nominated.iter().filter_map(|pod| self.occupants.get(pod)) {
            let Some(entry) = self.nodes.get(&occupant.node) else { continue };
            // Nodes with thresholds of their own count for their group alone.
            let counts = matches!(part, Part::Own(_)) || !entry.is_in_own_group();
            if counts && self.is_in(&occupant.node, part) {
                let requests = &occupant.requests;
                let by_use = entry.account.is_some();
                taken.subtract(&if by_use { without_compute(requests) } else { requests.clone() });
            }
        }
        taken
    }

    /// True if a node is of this part, and takes pods now.
    pub(crate) fn is_in(&self, node: &Name, part: Part) -> bool {
        let is_of = |entry: &Entry| match part {
            Part::Pool => true,
            Part::Taints(group) => entry.group == Some(group),
            Part::Own(group) => own_group(entry) == Some(group),
        };
        self.nodes.get(node).is_some_and(|entry| entry.is_in_pool() && is_of(entry))
    }

    /// How far ScavengerJobs may fill the pool now.
    pub fn limit(&self, settings: &Settings) -> Resources {
        self.totals.pool.limit(settings)
    }

    /// True if nodes have limits of their own: then kube-scheduler, which knows none, never chooses.
    pub(crate) fn has_limits_of_nodes(&self) -> bool {
        self.totals.pool.own_eligible != Own::default()
    }

    /// Checks that what was promised is within the limits of nodes, where pods that are bound leave that to choose.
    ///
    /// # Errors
    /// The first node beyond its limit, and what is beyond it.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn check_limits_of_nodes(&self, ledger: &Ledger) -> Result<(), String> {
        for (name, entry) in &self.nodes {
            let Some((own, promised)) = entry.limit.as_ref().zip(ledger.promised(name)) else { continue };
            // By use the account has the limit of cpu and memory.
            if entry.account.is_some() {
                continue;
            }
            let used = entry.used.plus(promised);
            let beyond = promised
                .iter()
                .find(|(resource, amount)| *amount > 0 && used.get(resource) > own.limit.get(resource));
            if let Some((resource, _)) = beyond {
                return Err(format!(
                    "{} {resource} of node {name} are used or promised, beyond its limit of {}",
                    used.get(resource),
                    own.limit.get(resource)
                ));
            }
        }
        Ok(())
    }

    /// How a node stands, for people; none if there is no such node.
    pub(crate) fn standing(&self, node: &Name, settings: Option<&Settings>) -> Option<NodeStanding> {
        let entry = self.nodes.get(node)?;
        Some(entry.state.standing(entry.node.as_ref()?, settings))
    }

    /// Nodes of the pool that a new pod of a ScavengerJob must not go to now, although kube-scheduler might send it there.
    pub fn nodes_to_avoid(&self) -> &BTreeSet<Name> {
        &self.borders.closed
    }

    /// Nodes that are closed to ScavengerJobs, and why.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&Name, &Closed)> {
        self.borders.closed.iter().filter_map(|name| Some((name, self.nodes.get(name)?.closed()?)))
    }

    /// Nodes of the pool that leave it, and when.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (&Name, Timestamp)> {
        let until = |name: &Name| self.nodes.get(name)?.node.as_ref()?.until;
        self.borders.leaving.iter().filter_map(move |name| Some((name, until(name)?)))
    }

    /// The nodes that new pods of a placement must not go to now, although kube-scheduler might send them there.
    pub(crate) fn kept_off<'a>(&'a self, placement: &'a Placement) -> impl Iterator<Item = &'a Name> {
        let avoided = placement.avoided.iter();
        let avoided = avoided.filter(|node| self.is_in_pool(node) && !self.borders.closed.contains(*node));
        self.borders.closed.iter().chain(avoided)
    }

    /// True if these are more than a Job keeps its pods off by name, so that it names the nodes that the planner chose.
    pub(crate) fn are_too_many(&self, placement: &Placement) -> bool {
        self.borders.closed.len() + placement.avoided.len() > MAX_CLOSED
    }

    /// Nodes outside the pool with pods of ScavengerJobs on them. Without settings every node is outside.
    pub fn outside(&self) -> &BTreeSet<Name> {
        &self.borders.outside
    }

    /// Finds out what a demand reaches.
    pub(crate) fn set_reach(&mut self, ask: Ask) {
        let mut reach = Reach::default();
        if self.totals.taints.are_several() {
            for (number, group) in self.totals.taints.iter() {
                if self.places.lets_in_some_of(ask, &group.nodes)
                    && group.has_all_that(&self.places.demand(ask).per_pod)
                {
                    reach.add(number);
                }
            }
        }
        let is_whole = reach.is_empty() || reach == self.totals.taints.all();
        self.places.set_reach(ask, reach, is_whole);
    }

    /// Finds it out for every demand, after nodes or settings have changed.
    pub(super) fn reach_anew(&mut self) {
        if !self.totals.taints.are_several() && !self.places.has_parts() {
            return;
        }
        self.places.forget_reaches();
        for ask in self.places.all_asks() {
            self.set_reach(ask);
        }
    }

    /// The sums of what a demand reaches, if that is not the whole pool, and what pending pods are about to take there.
    pub(super) fn part_of(&self, ask: Ask) -> Option<(Sums, Option<&Resources>)> {
        let (part, reach) = self.places.part_reached(ask)?;
        Some((self.totals.taints.sums(reach), self.places.takeable_in(part)))
    }

    /// Amounts of the pool, and the same of each part of it, for [`Places::is_within`](super::index::Places::is_within).
    pub(super) fn row_of_parts(&self, pool: &Resources, part: impl Fn(Sums) -> Resources) -> Vec<i64> {
        self.places.row_of_parts(pool, |number, reach| {
            let mut amounts = part(self.totals.taints.sums(reach));
            if let Some(takeable) = self.places.takeable_in(number) {
                amounts.subtract(takeable);
            }
            amounts
        })
    }

    /// The groups, if there are several.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let groups = self.totals.taints.iter().filter(|_| self.totals.taints.are_several());
        groups.map(|(number, nodes)| Group {
            number,
            nodes,
            allocatable: &nodes.sums.allocatable,
            used: &nodes.sums.used,
        })
    }

    /// For each demand whether it reaches this group and no other.
    pub(crate) fn reach_only(&mut self, demands: &[Option<Arc<Demand>>], group: usize) -> Vec<bool> {
        // All at once: who may go where is found out once for those that are alike.
        let asks: Vec<Option<Ask>> = demands.iter().map(|demand| Some(self.ask(demand.as_ref()?))).collect();
        let mut only = Reach::default();
        only.add(group);
        let reaches_only = |ask: &Option<Ask>| {
            ask.and_then(|ask| self.places.part_reached(ask)).is_some_and(|(_, reach)| reach == only)
        };
        let answers = asks.iter().map(reaches_only).collect();
        asks.into_iter().flatten().for_each(|ask| self.forget(ask));
        answers
    }
}

/// Nodes of the pool with the same taints, and what pods use of them, those included that are not bound yet.
pub(crate) struct Group<'a> {
    pub(crate) number: usize,
    nodes: &'a Nodes,
    pub(crate) allocatable: &'a Resources,
    pub(crate) used: &'a Resources,
}

impl Group<'_> {
    /// How far ScavengerJobs that reach nothing else may fill it now.
    pub(crate) fn limit(&self, settings: &Settings) -> Resources {
        self.nodes.sums.limit(settings)
    }

    /// The taints as kubectl writes them, separated by commas; empty for plain nodes.
    pub(crate) fn taints(&self) -> String {
        self.nodes.taints()
    }

    /// The nodes, for a message: "nodes with taint nvidia.com/gpu:NoSchedule".
    pub(crate) fn describe(&self) -> String {
        match self.taints() {
            taints if taints.is_empty() => "nodes without taints".to_owned(),
            taints => format!("nodes with taint {taints}"),
        }
    }
}
