//! What a recording keeps of nodes and pods. Their names stay behind: each gets one that is made from its UID. The API server
//! draws UIDs at random, so that nobody can guess a name from them, and a recorder that goes on after another needs no list
//! of who is who.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Node as ApiNode, Pod as ApiPod};
use kube::ResourceExt as _;
use scavenger_planner::{resources::Resources, values::PodPhase};
use scavenger_recording::{Class, GPU, Node, Pod};
use sha2::{Digest as _, Sha256};

use super::{container, convert};

/// Bytes of a digest that make a name: with ten million pods the odds that two of them share one are below 1 in 300,000.
const NAME_BYTES: usize = 8;

/// What is seen of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// What is written when it arrives.
    pub(crate) pod: Pod,
    /// When it was created.
    pub(crate) created: Timestamp,
    /// The real name of its node, and since when it is bound there.
    pub(crate) bound: Option<(String, Timestamp)>,
    /// When its first container started.
    pub(crate) started: Option<Timestamp>,
    /// When it ended. It may still be there.
    pub(crate) ended: Option<Timestamp>,
}

/// A node, with those of its labels that are asked for.
pub(crate) fn node(object: &ApiNode, labels: &[String]) -> Node {
    let node = convert::node(object);
    let keeps_off = node.taints.iter().any(scavenger_planner::values::Taint::repels);
    let asked_for = labels.iter().filter_map(|key| object.labels().get_key_value(key));
    Node {
        name: stand_in("node", &convert::uid(object)),
        cpu_milli: node.allocatable.cpu_milli,
        memory_mib: node.allocatable.memory_bytes >> 20,
        gpus: node.allocatable.get(GPU),
        max_pods: node.allocatable.pods,
        is_open: node.usable && !keeps_off,
        labels: asked_for.map(|(key, value)| (key.clone(), value.clone())).collect(),
    }
}

/// A pod. What has ended without saying when, ended now.
pub(crate) fn pod(object: &ApiPod, now: Timestamp) -> Seen {
    let pod = convert::pod(object);
    let statuses = || {
        let statuses = object.status.as_ref().and_then(|status| status.container_statuses.as_deref());
        statuses.unwrap_or_default().iter()
    };
    let ended = pod.phase.is_terminal().then(|| statuses().filter_map(finished).max().unwrap_or(now));
    let Resources { cpu_milli, memory_bytes, .. } = pod.requests;
    Seen {
        pod: Pod {
            name: pod_name(object),
            cpu_milli,
            memory_mib: memory_bytes.saturating_add((1 << 20) - 1) >> 20,
            gpus: pod.requests.get(GPU),
            priority: pod.priority,
            class: if pod.owner.is_some() { Class::Scavenger } else { class(object) },
        },
        created: pod.creation_time,
        bound: pod.bound_since().and_then(|since| Some((pod.node.as_ref()?.to_string(), since))),
        started: started(object, statuses()).filter(|_| pod.phase != PodPhase::Pending),
        ended,
    }
}

/// When a pod whose deletion was seen had ended: with its last container, if all of them had.
pub(crate) fn ended(object: &ApiPod, now: Timestamp) -> Timestamp {
    let statuses = object.status.as_ref().and_then(|status| status.container_statuses.as_deref());
    let ends: Option<Vec<Timestamp>> = statuses.unwrap_or_default().iter().map(finished).collect();
    ends.and_then(|ends| ends.into_iter().max()).unwrap_or(now)
}

/// The name of a pod in a recording.
pub(crate) fn pod_name(object: &ApiPod) -> String {
    stand_in("pod", &convert::uid(object))
}

fn stand_in(kind: &str, uid: &str) -> String {
    let digest = Sha256::digest(uid.as_bytes());
    digest.iter().take(NAME_BYTES).fold(format!("{kind}-"), |name, byte| format!("{name}{byte:02x}"))
}

/// Pods of a DaemonSet, and those that the kubelet has from its own files, come and go with their node.
fn class(object: &ApiPod) -> Class {
    let is_of_node = |kind: &str| matches!(kind, "DaemonSet" | "Node");
    if object.owner_references().iter().any(|owner| is_of_node(&owner.kind)) {
        Class::Daemon
    } else {
        Class::Ordinary
    }
}

fn finished(status: &ContainerStatus) -> Option<Timestamp> {
    let time = status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0;
    Some(time).filter(|time| *time > Timestamp::UNIX_EPOCH)
}

/// When the first container started. One that was restarted says only when it did so last; then the kubelet's first look at
/// the pod is nearer.
fn started<'a>(
    object: &ApiPod,
    statuses: impl Iterator<Item = &'a ContainerStatus> + Clone,
) -> Option<Timestamp> {
    if statuses.clone().any(|status| status.restart_count > 0) {
        return object.status.as_ref()?.start_time.as_ref().map(|time| time.0);
    }
    statuses.filter_map(|status| container::started(status.state.as_ref()?)).min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn read(status: &serde_json::Value) -> ApiPod {
        serde_json::from_value(json!({
            "metadata": { "name": "payroll-db-0", "namespace": "finance", "uid": "8d7c5c7e-0000-4000-8000-1",
                          "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "team": "secret" } },
            "spec": { "nodeName": "rack-7", "priority": 5, "containers": [
                { "name": "db", "image": "registry.example/payroll:1",
                  "resources": { "requests": { "cpu": "1500m", "memory": "100M", GPU: "2" } } } ] },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_has_the_times_of_the_cluster_and_a_name_that_stands_for_its_own() {
        let terminated = json!({ "terminated": {
            "exitCode": 0, "startedAt": "2026-01-01T00:00:05Z", "finishedAt": "2026-01-01T00:01:00Z" } });
        let object = read(&json!({
            "phase": "Succeeded",
            "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z" }],
            "containerStatuses": [{ "name": "db", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": terminated }],
        }));
        let seen = pod(&object, at(500));
        assert_eq!((seen.pod.cpu_milli, seen.pod.memory_mib, seen.pod.gpus), (1500, 96, 2));
        assert_eq!((seen.pod.priority, seen.pod.class), (5, Class::Ordinary));
        assert_eq!(seen.created, at(0));
        assert_eq!(seen.bound, Some(("rack-7".to_owned(), at(2))));
        assert_eq!((seen.started, seen.ended), (Some(at(5)), Some(at(60))));
        assert_eq!(ended(&object, at(500)), at(60));
        assert_eq!(seen.pod.name.len(), "pod-".len() + 2 * NAME_BYTES);
        assert_eq!(seen.pod.name, pod(&object, at(900)).pod.name, "every recorder gives it this name");
    }

    #[test]
    fn a_pod_that_does_not_say_when_it_ended_ended_now() {
        let rejected = read(&json!({ "phase": "Failed", "reason": "OutOfcpu" }));
        let seen = pod(&rejected, at(9));
        assert_eq!((seen.started, seen.ended), (None, Some(at(9))));
        let running = read(&json!({ "phase": "Running", "startTime": "2026-01-01T00:00:03Z",
            "containerStatuses": [{ "name": "db", "image": "", "imageID": "", "ready": true, "restartCount": 2,
                                    "state": { "running": { "startedAt": "2026-01-01T00:00:30Z" } } }] }));
        let seen = pod(&running, at(40));
        assert_eq!((seen.started, seen.ended), (Some(at(3)), None), "it was restarted");
        assert_eq!(ended(&running, at(40)), at(40), "its node was lost");
    }

    #[test]
    fn daemons_and_scavenger_jobs_are_known_by_their_owners() {
        let mut object = read(&json!({}));
        let owned_by = |kind: &str, name: &str| {
            serde_json::from_value(
                json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true }]),
            )
            .unwrap()
        };
        for (kind, expected) in
            [("DaemonSet", Class::Daemon), ("Node", Class::Daemon), ("Job", Class::Ordinary)]
        {
            object.metadata.owner_references = owned_by(kind, "water-1");
            assert_eq!(pod(&object, at(0)).pod.class, expected, "{kind}");
        }
        let labels =
            [("scavenger.dev/job", "water"), ("scavenger.dev/job-uid", "u"), ("scavenger.dev/attempt", "1")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        object.metadata.labels = Some(labels.into());
        assert_eq!(pod(&object, at(0)).pod.class, Class::Scavenger);
    }

    #[test]
    fn a_node_keeps_the_labels_that_were_asked_for_alone() {
        let object = |taints: serde_json::Value, ready: &str| -> ApiNode {
            serde_json::from_value(json!({
                "metadata": { "name": "rack-7", "uid": "n", "labels": { "disk": "ssd", "owner": "finance" } },
                "spec": { "taints": taints },
                "status": { "allocatable": { "cpu": "7910m", "memory": "16Gi", "pods": "110" },
                            "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap()
        };
        let open = node(&object(json!([]), "True"), &["disk".to_owned(), "zone".to_owned()]);
        assert_eq!((open.cpu_milli, open.memory_mib, open.max_pods, open.gpus), (7910, 16_384, 110, 0));
        assert_eq!(open.labels, [("disk".to_owned(), "ssd".to_owned())].into());
        assert!(open.is_open);
        assert!(!node(&object(json!([]), "False"), &[]).is_open);
        let control_plane =
            json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
        assert!(!node(&object(control_plane, "True"), &[]).is_open);
        let preferred = json!([{ "key": "spot", "effect": "PreferNoSchedule" }]);
        assert!(node(&object(preferred, "True"), &[]).is_open);
    }
}
