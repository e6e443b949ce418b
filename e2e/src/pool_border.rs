//! On which side of the pool's border pods were bound, as the API server tells it: the rule of the ScavengerPool, stated
//! a second time and apart from the operator.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use scavenger_schema::scavenger_pool::{ScavengerPool, ScavengerPoolSpec};

/// What counts for where a pod may be bound.
#[derive(Clone)]
enum Step {
    /// A node is like this now, or gone.
    Node(String, Option<Box<Node>>),
    /// The pool is like this now, or gone.
    Pool(Option<Box<ScavengerPoolSpec>>),
    /// A Job was made.
    Job(String),
    /// A pod of this Job was bound to a node.
    Bound { pod: String, job: String, node: String },
}

/// What was seen of nodes, pool, Jobs and pods, with resourceVersions: numbers of the one history that all kinds have.
/// Each kind has a watch of its own, and one may be ahead of the other.
#[derive(Default)]
pub(crate) struct Border {
    steps: Vec<(u64, Step)>,
    /// UIDs of pods that have a node: where a pod is never changes.
    bound: BTreeSet<String>,
}

impl Border {
    pub(crate) fn node(&mut self, version: u64, node: &Node, gone: bool) {
        let now = (!gone).then(|| Box::new(node.clone()));
        self.steps.push((version, Step::Node(node.name_any(), now)));
    }

    pub(crate) fn pool(&mut self, version: u64, pool: &ScavengerPool, gone: bool) {
        let now = (!gone).then(|| Box::new(pool.spec.clone()));
        self.steps.push((version, Step::Pool(now)));
    }

    pub(crate) fn job(&mut self, version: u64, name: &str) {
        self.steps.push((version, Step::Job(name.to_owned())));
    }

    pub(crate) fn pod(&mut self, version: u64, pod: &Pod, job: &str) {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { return };
        if self.bound.insert(pod.uid().unwrap_or_default()) {
            self.steps.push((version, Step::Bound { pod: pod.name_any(), job: job.to_owned(), node }));
        }
    }

    /// Pods that were bound to a node outside the pool. A Job keeps the rule with which it was made, so every pool since
    /// then counts. Nothing is said of a node that was not seen yet when the pod was bound.
    pub(crate) fn crossed(&self) -> Vec<String> {
        let mut steps = self.steps.clone();
        steps.sort_by_key(|(version, _)| *version);
        let mut nodes: BTreeMap<String, Box<Node>> = BTreeMap::new();
        let mut pools: Vec<Option<Box<ScavengerPoolSpec>>> = Vec::new();
        // How many pools there were before each Job was made.
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        let mut crossed = Vec::new();
        for (_, step) in steps {
            match step {
                Step::Node(name, Some(node)) => _ = nodes.insert(name, node),
                Step::Node(name, None) => _ = nodes.remove(&name),
                Step::Pool(pool) => pools.push(pool),
                Step::Job(name) => _ = made.entry(name).or_insert(pools.len().saturating_sub(1)),
                Step::Bound { pod, job, node: name } => {
                    let Some((node, since)) = nodes.get(&name).zip(made.get(&job)) else { continue };
                    let pools = pools.get(*since..).unwrap_or_default();
                    if !pools.iter().flatten().any(|pool| includes(pool, node)) {
                        crossed
                            .push(format!("pod {pod} was bound to node {name}, which is outside the pool"));
                    }
                }
            }
        }
        crossed
    }
}

/// True if the node has every label of the pool, and no taint that keeps pods away and that the pool does not tolerate.
fn includes(pool: &ScavengerPoolSpec, node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    pool.node_selector.iter().all(|(key, value)| node.labels().get(key) == Some(value))
        && taints.iter().all(|taint| {
            taint.effect == "PreferNoSchedule"
                || taint.key.starts_with("node.kubernetes.io/")
                || pool.tolerated_taints.contains(&taint.key)
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(labels: &serde_json::Value, taint: Option<&str>) -> Node {
        let taints: Vec<_> = taint.iter().map(|key| json!({ "key": key, "effect": "NoSchedule" })).collect();
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": labels }, "spec": { "taints": taints },
        }))
        .unwrap()
    }

    fn pool(spec: serde_json::Value) -> ScavengerPool {
        ScavengerPool::new("default", serde_json::from_value(spec).unwrap())
    }

    fn pod(uid: &str) -> Pod {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": uid, "uid": uid },
            "spec": { "nodeName": "n", "containers": [] },
        }))
        .unwrap()
    }

    /// A node was there, then a Job was made and its pod bound.
    fn bound(pool: &ScavengerPool, node: &Node) -> Border {
        let mut border = Border::default();
        border.pool(1, pool, false);
        border.pod(4, &pod("p"), "a-1");
        border.node(2, node, false);
        border.job(3, "a-1");
        border
    }

    #[test]
    fn a_pod_outside_is_found_whatever_watch_was_first() {
        let selecting = pool(json!({ "nodeSelector": { "pool": "s" }, "toleratedTaints": ["gpu"] }));
        for (node, inside) in [
            (node(&json!({ "pool": "s" }), None), true),
            (node(&json!({ "pool": "s" }), Some("gpu")), true),
            (node(&json!({ "pool": "s" }), Some("node.kubernetes.io/unschedulable")), true),
            (node(&json!({ "pool": "t" }), None), false),
            (node(&json!({}), None), false),
            (node(&json!({ "pool": "s" }), Some("other")), false),
        ] {
            assert_eq!(bound(&selecting, &node).crossed().is_empty(), inside, "{node:?}");
        }
    }

    #[test]
    fn what_changes_after_the_binding_does_not_count() {
        let selecting = pool(json!({ "nodeSelector": { "pool": "s" } }));
        let mut border = bound(&selecting, &node(&json!({ "pool": "s" }), None));
        border.node(5, &node(&json!({}), None), false);
        border.pod(6, &pod("p"), "a-1");
        assert!(border.crossed().is_empty(), "the pod stays where it was");
        border.job(7, "b-1");
        border.pod(8, &pod("q"), "b-1");
        assert_eq!(border.crossed(), ["pod q was bound to node n, which is outside the pool"]);
    }
}
