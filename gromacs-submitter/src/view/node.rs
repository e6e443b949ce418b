//! The node of an attempt as far as a row needs it.

use std::collections::BTreeMap;

use scavenger_schema::scavenger_job::{AttemptNode, Quantity};

use crate::gpus;

/// The node of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// Labels that tell which hardware it is.
    pub labels: BTreeMap<String, String>,
    /// CPU that it has for pods, millicores.
    pub cpu_millicores: Option<i32>,
    /// CPU that all pods on it requested when the attempt began to run, millicores.
    pub requested_millicores: Option<i32>,
}

impl NodeView {
    /// None also for a node that the operator did not see: nothing is known of it.
    pub(super) fn new(nodes: &[AttemptNode], requests: &BTreeMap<String, Quantity>) -> Option<Self> {
        match nodes {
            [node] if !node.allocatable.is_empty() => {
                let mut labels = node.labels.clone();
                for (name, _) in gpu_requests(requests) {
                    gpus::label_by_resource(&mut labels, name);
                }
                let millicores = |amounts: &BTreeMap<String, Quantity>| {
                    amounts.get("cpu").and_then(|cpu| i32::try_from(cpu.milli().ok()?).ok())
                };
                Some(Self {
                    name: node.name.clone(),
                    labels,
                    cpu_millicores: millicores(&node.allocatable).filter(|cpu| *cpu > 0),
                    requested_millicores: millicores(&node.requested).filter(|cpu| *cpu >= 0),
                })
            }
            _ => None,
        }
    }
}

/// The GPUs that a pod asks for; a number that is none is none.
pub(super) fn gpu_requests(
    requests: &BTreeMap<String, Quantity>,
) -> impl Iterator<Item = (&String, Option<i32>)> {
    let gpus = requests.iter().filter(|(name, _)| gpus::is_gpu(name));
    gpus.map(|(name, count)| (name, count.units().ok().and_then(|count| count.try_into().ok())))
}

#[cfg(test)]
mod tests {
    use scavenger_vocabulary::hardware;
    use serde_json::json;

    use super::*;

    fn view(nodes: serde_json::Value, requests: serde_json::Value) -> Option<NodeView> {
        let nodes: Vec<AttemptNode> = serde_json::from_value(nodes).expect("should be nodes");
        NodeView::new(&nodes, &serde_json::from_value(requests).expect("should be requests"))
    }

    #[test]
    fn a_node_is_known_if_there_is_one_and_the_operator_saw_it() {
        let node = |name: &str| {
            json!({ "name": name, "podCount": 1, "labels": { "kind": "a" }, "allocatable": { "cpu": "8" },
                "requested": { "cpu": "2500m" } })
        };
        let found = view(json!([node("n1")]), json!({ "cpu": "1" })).expect("should be a node");
        let kind = BTreeMap::from([("kind".to_owned(), "a".to_owned())]);
        assert_eq!((found.name.as_str(), found.labels), ("n1", kind));
        assert_eq!((found.cpu_millicores, found.requested_millicores), (Some(8000), Some(2500)));
        assert_eq!(view(json!([]), json!({})), None);
        assert_eq!(view(json!([node("n1"), node("n2")]), json!({})), None, "which of them is not known");
        assert_eq!(view(json!([{ "name": "n1", "podCount": 1 }]), json!({})), None, "nobody saw it");
    }

    #[test]
    fn a_slice_is_part_of_what_a_node_is_known_by() {
        let nodes = json!([{ "name": "n1", "podCount": 1, "allocatable": { "cpu": "8" } }]);
        let partition = |gpu: &str| {
            let found = view(nodes.clone(), json!({ "cpu": "1", gpu: "1" })).expect("should be a node");
            found.labels.get(hardware::GPU_PARTITION).cloned()
        };
        assert_eq!(partition("nvidia.com/mig-1g.5gb").as_deref(), Some("1g.5gb"));
        assert_eq!(partition("nvidia.com/gpu"), None);
        let found = view(nodes.clone(), json!({ "cpu": "1", "nvidia.com/gpu.shared": "1" }));
        let labels = found.expect("should be a node").labels;
        assert_eq!(labels.get(hardware::GPU_REPLICAS).map(String::as_str), Some("several"));
    }
}
