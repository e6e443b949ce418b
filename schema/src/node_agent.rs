//! What the agent of a node and the operator say to each other.
//!
//! A request carries no name of a node: its sender is known by its token, which is bound to a pod, and the pod to a node.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// For whom the tokens of agents are made. A token for reports of supervisors is not good here, nor one of these there.
pub const AUDIENCE: &str = "scavenger.dev/node-agent";

/// Where agents ask, on the endpoint that takes reports.
pub const PATH: &str = "/nodes";

/// Where agents say why a container was killed for memory.
pub const KILLS_PATH: &str = "/kills";

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
    /// Pods of the node, of whomever, with a container that was killed for memory a moment ago. The operator asks why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<KilledPod>,
}

/// A pod with a container that was killed for memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KilledPod {
    /// `metadata.uid`.
    pub uid: String,
    /// When its last one ended. It only names the kill: an answer repeats it.
    pub time: Timestamp,
}

/// What an agent says about one kill that it was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KillReport {
    /// `uid` of the question.
    pub uid: String,
    /// `time` of the question.
    pub time: Timestamp,
    /// Why the container was killed.
    pub cause: Cause,
}

/// Why a container was killed for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It, or its pod, reached its own limit.
    Limit,
    /// The node had no memory left.
    Node,
    /// The kernel's counters do not say.
    Unknown,
}

/// The answer to a [`KillReport`] that was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillTaken {}

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
        let mut answer = NodePods { version: "v".to_owned(), pods, killed: Vec::new() };
        let text = r#"{"version":"v","pods":[{"uid":"u","milliCpu":200,"idle":true}]}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(serde_json::from_str::<NodePods>(text).unwrap(), answer);
        let time = Timestamp::from_second(1_800_000_000).unwrap();
        answer.killed.push(KilledPod { uid: "k".to_owned(), time });
        let killed = r#","killed":[{"uid":"k","time":"2027-01-15T08:00:00Z"}]}"#;
        let text = format!("{}{killed}", text.trim_end_matches('}'));
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(serde_json::from_str::<NodePods>(&text).unwrap(), answer);
        let report = KillReport { uid: "k".to_owned(), time, cause: Cause::Node };
        let text = r#"{"uid":"k","time":"2027-01-15T08:00:00Z","cause":"Node"}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), text);
        assert_eq!(serde_json::from_str::<KillReport>(text).unwrap(), report);
        let report = NodeReport { version: "v".to_owned(), failed: vec!["u".to_owned()] };
        assert_eq!(serde_json::to_string(&report).unwrap(), r#"{"version":"v","failed":["u"]}"#);
        assert_eq!(serde_json::from_str::<NodeReport>("{}").unwrap(), NodeReport::default());
    }
}
