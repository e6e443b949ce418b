//! What the agent of a node and the operator say to each other.
//!
//! A request carries no name of a node: its sender is known by its token, which is bound to a pod, and the pod to a node.

use serde::{Deserialize, Serialize};

/// For whom the tokens of agents are made. A token for reports of supervisors is not good here, nor one of these there.
pub const AUDIENCE: &str = "scavenger.dev/node-agent";

/// Where agents ask, on the endpoint that takes reports.
pub const PATH: &str = "/nodes";

/// So long the operator holds a request to which it has nothing new to say, in seconds. The agent waits a little longer.
pub const HOLD_SECONDS: u64 = 50;

/// What an agent says: what it was told last, and what it could not do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// The `version` of the last answer, empty before the first. To another version the operator answers at once.
    #[serde(default)]
    pub version: String,
    /// UIDs of pods whose cgroup the kernel did not let the agent change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// The answer: every pod of a ScavengerJob on the node that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePods {
    /// Names this answer; the same pods have the same version, whichever replica answers.
    pub version: String,
    /// In the order of their UIDs.
    pub pods: Vec<NodePod>,
}

/// A pod of a ScavengerJob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePod {
    /// `metadata.uid`, by which the kubelet names the cgroup.
    pub uid: String,
    /// What the pod requests in thousandths of a processor, as the kubelet adds it up: the weight that it has when it is not
    /// idle.
    pub milli_cpu: u64,
    /// Whether its cgroup shall be idle. False from the deletion timestamp on: the last checkpoint must be written within
    /// the grace period, on a full node too.
    pub idle: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_the_wire_stay_as_they_are() {
        let pods = vec![NodePod { uid: "u".to_owned(), milli_cpu: 200, idle: true }];
        let answer = NodePods { version: "v".to_owned(), pods };
        let text = r#"{"version":"v","pods":[{"uid":"u","milliCpu":200,"idle":true}]}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(serde_json::from_str::<NodePods>(text).unwrap(), answer);
        let report = NodeReport { version: "v".to_owned(), failed: vec!["u".to_owned()] };
        assert_eq!(serde_json::to_string(&report).unwrap(), r#"{"version":"v","failed":["u"]}"#);
        assert_eq!(serde_json::from_str::<NodeReport>("{}").unwrap(), NodeReport::default());
    }
}
