//! What is really missing where nothing fits, for messages: a resource, a label, a volume's node, a tolerance for a
//! taint.

use super::{Capacity, state};
use crate::values::{
    Demand, Node, Placement, Settings, Shortage,
    resources::{Amount, Resources},
};

/// Nodes that a message names.
const NAMED: usize = 3;

impl Capacity {
    /// A resource that pods ask for and that no node has: it is misspelt, or somebody else than the nodes offers it.
    pub(crate) fn on_no_node<'a>(&self, requests: &'a Resources) -> Option<&'a str> {
        let mut asked = requests.other.iter().filter(|(_, amount)| **amount > 0);
        let is_anywhere = |name: &str| self.nodes().any(|node| node.allocatable.get(name) > 0);
        asked.find(|(name, _)| !is_anywhere(name)).map(|(name, _)| &**name)
    }

    /// The same of the pool, as the reason why a demand never fits.
    pub(super) fn lacks_resource(&self, demand: &Demand, settings: &Settings) -> Option<Shortage> {
        let mut asked = demand.per_pod.other.iter().filter(|(_, amount)| **amount > 0);
        let (name, _) = asked.find(|(name, _)| self.totals.pool.eligible.get(name) <= 0)?;
        let asked = Amount(name, demand.total().get(name));
        let there = self.nodes().find(|node| node.allocatable.get(name) > 0);
        let message = match there.map(|node| (&node.name, settings.lacks(node))) {
            Some((node, lacks)) => {
                let lacks = lacks.map(|lacks| format!(": {lacks}")).unwrap_or_default();
                format!(
                    "asks for {asked}, which no node of the pool has; node {node} has it, and is outside{lacks}"
                )
            }
            // Only devices have a domain in their name, and only devices are offered by a DeviceClass.
            None if name.contains('/') => format!(
                "asks for {asked}, which no node has in its allocatable; if a driver offers it by dynamic resource allocation \
                 (extendedResourceName of a DeviceClass), the operator cannot count it: run an ordinary Job, or offer it by a \
                 device plugin"
            ),
            None => format!("asks for {asked}, which no node has"),
        };
        Some(Shortage { resource: Some(name.to_string()), left: 0, whole: 0, message })
    }

    /// Why no node gives a resource that some nodes have: none of these takes pods now.
    pub(super) fn why_none_gives(&self, resource: &str, placement: &Placement) -> String {
        let has = |node: &&Node| node.allocatable.get(resource) > 0;
        let of_pool: Vec<&Node> = self.all_pool_nodes().filter(has).collect();
        let reached: Vec<&Node> =
            of_pool.iter().copied().filter(|node| placement.admits_when_ready(node)).collect();
        let (nodes, which) = match (1..of_pool.len()).contains(&reached.len()) {
            true => (reached, " that it can go to"),
            false => (of_pool, " of the pool"),
        };
        let says = |node: &&Node| format!("{} {}", node.name, state::why_unusable(node));
        match &*nodes {
            [] => "no node of the pool has any".to_owned(),
            [node] => format!("only node {} has it, and {}", node.name, says(node)),
            nodes => {
                let named: Vec<String> = nodes.iter().take(NAMED).map(says).collect();
                let more = if nodes.len() > NAMED { ", ..." } else { "" };
                let (count, named) = (nodes.len(), named.join(", "));
                format!("{count} nodes{which} have it, and none of them takes pods now: {named}{more}")
            }
        }
    }

    /// Why no node of the pool lets pods of a placement in, once all of them are ready: what has to hold is asked in
    /// the order label, volume, taint, and the first that holds on no node that is left is named.
    pub(crate) fn why_none_admits(&self, placement: &Placement) -> String {
        let has = |node: &&Node, (key, value): (&_, &_)| node.labels.get(key) == Some(value);
        let all: Vec<&Node> = self.all_pool_nodes().collect();
        let lacking = placement.node_selector.iter().find(|label| !all.iter().any(|node| has(node, *label)));
        if let Some((key, value)) = lacking {
            return format!("no node of the pool has label {key}={value}, which its nodeSelector asks for");
        }
        let selected = |node: &&Node| placement.node_selector.iter().all(|label| has(node, label));
        let labelled: Vec<&Node> = all.into_iter().filter(selected).collect();
        if labelled.is_empty() {
            return "no node of the pool has all labels of its nodeSelector".to_owned();
        }
        let without_taints = |node: &&&Node| placement.matches(node);
        let Some(tainted) = labelled.iter().find(without_taints) else {
            let which =
                if placement.node_selector.is_empty() { "" } else { " with the labels of its nodeSelector" };
            return format!("its volumes are bound to other nodes than those of the pool{which}");
        };
        let taint = tainted
            .taints
            .iter()
            .find(|taint| !taint.passes() && taint.repels() && !placement.tolerates(taint));
        let taint = taint.map(|taint| format!(": {} has {}:{}", tainted.name, taint.key, taint.effect));
        let which = if placement == &Placement::default() { "" } else { " that it could go to" };
        format!(
            "it does not tolerate the taints of the nodes of the pool{which}{}",
            taint.unwrap_or_default()
        )
    }

    /// What of a unit of a demand is more than any node has that lets it in.
    pub(super) fn beyond_every_node(&self, demand: &Demand) -> Option<String> {
        let (unit, _) = demand.units();
        let nodes = self.all_pool_nodes().filter(|node| demand.placement.admits_when_ready(node));
        let largest = nodes.fold(Resources::default(), |largest, node| largest.larger(&node.allocatable));
        let name = unit.exceeds(&largest)?;
        Some(match largest.get(name) {
            0 => format!("none of them has {name}"),
            most => format!("none of them has more than {}", Amount(name, most)),
        })
    }
}
