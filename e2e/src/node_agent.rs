//! The node agent of the tests' clusters: it runs on nodes with a label, which no node has unless a test asks for it.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use scavenger_schema::names;
use serde_json::json;

use crate::world::{World, real_node, until};

/// Label of the nodes that have the agent: `cargo xtask test` installs it so.
const LABEL: &str = "e2e.example/node-agent";

/// The pods of the agent.
///
/// # Errors
/// If they cannot be listed.
pub async fn agents(world: &World) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), names::NODE_AGENT);
    Ok(pods.list(&ListParams::default()).await?.items)
}

/// Gives the node the agent, or takes it away, and waits until it is ready or gone.
///
/// # Errors
/// If that does not come about.
pub async fn on_the_node(world: &World, on: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let label = json!({ "metadata": { "labels": { LABEL: on.then_some("true") } } });
    let node = real_node(&nodes).await?;
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&label)).await?;
    let what = if on { "the agent is ready" } else { "the agent is gone" };
    until(what, || async {
        let agents = agents(world).await?;
        let ready = agents.iter().filter(|pod| is_ready(pod)).count();
        Ok((agents.len() == usize::from(on) && ready == agents.len()).then_some(()))
    })
    .await
}

/// Whether a pod says that it is ready.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
