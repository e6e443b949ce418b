//! What the endpoint for the agents of nodes measures.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::reports::ResultLabel;

/// The agents of nodes, as the operator sees them.
#[derive(Debug, Default)]
pub(crate) struct NodeAgentMetrics {
    agents: Gauge,
    failed: Gauge,
    requests: Family<ResultLabel, Counter>,
}

impl NodeAgentMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "node_agents",
            "Nodes whose agent has asked within the last two minutes",
            self.agents.clone(),
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

    /// Counts a request.
    pub(crate) fn answered(&self, result: &'static str) {
        self.requests.get_or_create(&ResultLabel { result }).inc();
    }
}
