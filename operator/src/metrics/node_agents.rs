//! What the endpoint for the agents of nodes measures.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use scavenger_planner::{report::NodeReport, values::KillCause};

use super::reports::ResultLabel;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabel {
    node: String,
}

/// The agents of nodes, as the operator sees them.
#[derive(Debug, Default)]
pub(crate) struct NodeAgentMetrics {
    agents: Gauge,
    failed: Gauge,
    live: Family<NodeLabel, Gauge>,
    explained: Family<CauseLabel, Counter>,
    requests: Family<ResultLabel, Counter>,
}

impl NodeAgentMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "node_agents",
            "Nodes whose agent is live: it has asked within the last five minutes",
            self.agents.clone(),
        );
        registry.register(
            "node_agent_live",
            "1 for each node of the pool whose agent is live, 0 for the others; nothing while no agent is live",
            self.live.clone(),
        );
        registry.register(
            "node_agent_kills",
            "Kills for memory about which the agent of the node has answered, by the cause that it gave: limit, node, unknown",
            self.explained.clone(),
        );
        registry.register(
            "node_agent_failed_pods",
            "Pods of ScavengerJobs whose cgroup the agent of their node could not change",
            self.failed.clone(),
        );
        registry.register(
            "node_agent_requests",
            "Requests of the agents of nodes, by what became of them",
            self.requests.clone(),
        );
    }

    /// Takes in how many agents are live, and how many pods they could not change.
    pub(crate) fn live(&self, agents: usize, failed: usize) {
        self.agents.set(i64::try_from(agents).unwrap_or(i64::MAX));
        self.failed.set(i64::try_from(failed).unwrap_or(i64::MAX));
    }

    /// Takes in which nodes of the pool have a live agent.
    pub(super) fn nodes(&self, nodes: &[NodeReport<'_>]) {
        self.live.clear();
        if !nodes.iter().any(|node| node.has_agent) {
            return;
        }
        for node in nodes {
            let label = NodeLabel { node: node.name.to_string() };
            self.live.get_or_create(&label).set(node.has_agent.into());
        }
    }

    /// Counts a kill whose cause an agent gave.
    pub(crate) fn explained(&self, cause: KillCause) {
        let cause = match cause {
            KillCause::Limit => "limit",
            KillCause::Node => "node",
            KillCause::Unknown => "unknown",
        };
        self.explained.get_or_create(&CauseLabel { cause }).inc();
    }

    /// Counts a request.
    pub(crate) fn answered(&self, result: &'static str) {
        self.requests.get_or_create(&ResultLabel { result }).inc();
    }
}
