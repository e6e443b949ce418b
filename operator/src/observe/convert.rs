//! From API objects to the planner's values. Only what the planner needs is kept.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{
        Node as ApiNode, PersistentVolume as ApiVolume, PersistentVolumeClaim, PersistentVolumeSpec,
        Pod as ApiPod, PodSpec, Toleration as ApiToleration,
    },
    node::v1::RuntimeClass as ApiRuntimeClass,
};
use kube::ResourceExt;
use scavenger_planner::values::{
    Access, Job, Key, Name, Node, Placement, Pod, PodPhase, Refused, RuntimeClass, Taint, Toleration, Volume,
};
use scavenger_schema::names;

pub(crate) use super::scavenger_job::{ended_attempts, sj, undecodable_sj};
use super::{
    constraints, container, owner,
    requests::{self, amounts},
    supervision,
};

/// Label with which the Job controller gives each pod of an Indexed Job its number.
const INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";

/// Namespace and name.
pub(crate) fn key<K: kube::Resource>(object: &K) -> Key {
    let meta = object.meta();
    Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

pub(super) fn uid<K: kube::Resource>(object: &K) -> Name {
    object.meta().uid.as_deref().unwrap_or_default().into()
}

fn version<K: kube::Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok())
}

/// True if the version is a number, which says what is newer. Kubernetes promises it from 1.35 on, and keeps it with etcd
/// before. Nothing else is taken in.
pub(crate) fn is_ordered<K: kube::Resource>(object: &K) -> bool {
    version(object).is_some()
}

/// `metadata.resourceVersion` of an object whose version [is a number](is_ordered).
pub(crate) fn resource_version<K: kube::Resource>(object: &K) -> u64 {
    version(object).unwrap_or(0)
}

pub(super) fn creation_time<K: kube::Resource>(object: &K) -> Timestamp {
    object.meta().creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// A batch/v1 Job that belongs to a ScavengerJob; none if its labels do not say so.
pub(crate) fn job(object: &BatchJob) -> Option<Job> {
    let owner = object.labels().get(names::LABEL_JOB_UID)?;
    let attempt = object.labels().get(names::LABEL_ATTEMPT)?.parse().ok()?;
    // Labels can be set by anybody; the controller reference cannot be forged without the right to create Jobs.
    let controlled = object.owner_references().iter().any(|reference| {
        reference.controller == Some(true) && reference.uid == *owner && reference.kind == "ScavengerJob"
    });
    if !controlled {
        return None;
    }
    let conditions = object.status.as_ref().and_then(|status| status.conditions.as_ref());
    let true_condition = |kinds: &[&str]| {
        conditions?
            .iter()
            .find(|condition| condition.status == "True" && kinds.contains(&condition.type_.as_str()))
    };
    Some(Job {
        key: key(object),
        uid: uid(object),
        resource_version: resource_version(object),
        creation_time: creation_time(object),
        owner: owner.as_str().into(),
        attempt,
        deleting: object.metadata.deletion_timestamp.is_some(),
        complete: true_condition(&["Complete", "SuccessCriteriaMet"]).is_some(),
        failed: true_condition(&["FailureTarget", "Failed"]).map(|condition| {
            (condition.reason.clone().unwrap_or_default(), condition.message.clone().unwrap_or_default())
        }),
        over_since: ["Complete", "SuccessCriteriaMet", "FailureTarget", "Failed"]
            .into_iter()
            .filter_map(|kind| Some(true_condition(&[kind])?.last_transition_time.as_ref()?.0))
            .min(),
    })
}

/// When the deletion of a pod was asked for.
fn deletion_requested(object: &ApiPod) -> Option<Timestamp> {
    // The stamp is when the grace period ends.
    let time = object.metadata.deletion_timestamp.as_ref()?.0;
    let grace = object.metadata.deletion_grace_period_seconds.unwrap_or(0);
    Some(time.saturating_sub(SignedDuration::from_secs(grace)).unwrap_or(time))
}

/// True while a pod is deleted without a grace period, and in the last version before any pod is removed.
pub(super) fn deletion_forced(object: &ApiPod) -> bool {
    object.metadata.deletion_timestamp.is_some()
        && object.metadata.deletion_grace_period_seconds.unwrap_or(0) == 0
}

/// A pod.
pub(crate) fn pod(object: &ApiPod) -> Pod {
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let owner = owner::of_pod(object);
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let condition = |kind: &str, value: &str| {
        conditions.iter().find(|condition| condition.type_ == kind && condition.status == value)
    };
    let said = |reason: &Option<String>, message: &Option<String>| {
        (reason.clone().unwrap_or_default(), message.clone().unwrap_or_default())
    };
    Pod {
        key: key(object),
        uid: uid(object),
        resource_version: resource_version(object),
        limits: owner.as_ref().and_then(|_| requests::limits_by_use(object)).map(Box::new),
        owner,
        requests: requests::counted(object),
        exclusive_milli: requests::exclusive_milli(object),
        out_of_memory: container::killed_for_memory(object, deletion_requested(object)),
        deferred_resize: requests::deferred_resize(object),
        node: spec.and_then(|spec| spec.node_name.as_deref()).map(Name::from),
        nominated_node: status
            .and_then(|status| status.nominated_node_name.as_deref())
            .filter(|name| !name.is_empty())
            .map(Name::from),
        placement: spec.map(placement).unwrap_or_default(),
        priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
        creation_time: creation_time(object),
        scheduled: condition("PodScheduled", "True")
            .and_then(|condition| Some(condition.last_transition_time.as_ref()?.0)),
        preempts: spec.is_none_or(|spec| spec.preemption_policy.as_deref() != Some("Never")),
        claims: constraints::claims(object),
        unjudged: constraints::unjudged(object),
        refused: Refused::default(),
        phase: match status.and_then(|status| status.phase.as_deref()) {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            _ => PodPhase::Pending,
        },
        deletion_requested: deletion_requested(object),
        deletion_forced: deletion_forced(object),
        grace_period: SignedDuration::from_secs(
            spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30),
        ),
        deletion_due: object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        disruption_target: condition("DisruptionTarget", "True")
            .map(|condition| said(&condition.reason, &condition.message)),
        disrupted_since: condition("DisruptionTarget", "True")
            .and_then(|condition| Some(condition.last_transition_time.as_ref()?.0)),
        unschedulable: condition("PodScheduled", "False")
            .filter(|condition| condition.reason.as_deref() == Some("Unschedulable"))
            .map(|condition| condition.message.clone().unwrap_or_default()),
        scheduler: spec
            .and_then(|spec| spec.scheduler_name.as_deref())
            .filter(|name| *name != constraints::DEFAULT_SCHEDULER)
            .map(Name::from),
        gated: spec.is_some_and(|spec| spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())),
        status_reason: status
            .filter(|status| status.reason.as_ref().is_some_and(|reason| !reason.is_empty()))
            .map(|status| said(&status.reason, &status.message)),
        failed_init: container::failed_init(object),
        has_injected: container::has_injected(object),
        container: container::of_main(object),
        started: container::main(object).and_then(container::started),
        index: object.labels().get(INDEX_LABEL).and_then(|index| index.parse().ok()),
        supervisor: supervision::bringer(object),
        end_report: supervision::end_report(container::main(object)),
    }
}

/// The end of a text, at most `bytes` long: of a log, the last lines tell why.
pub(crate) fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut start = text.len() - bytes;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

fn placement(spec: &PodSpec) -> Placement {
    Placement {
        node_selector: spec
            .node_selector
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect(),
        tolerations: tolerations(spec.tolerations.as_deref()),
        affinity: constraints::node_affinity(spec),
        ..Placement::default()
    }
}

fn tolerations(all: Option<&[ApiToleration]>) -> Vec<Toleration> {
    let toleration = |toleration: &ApiToleration| Toleration {
        key: toleration.key.as_deref().filter(|key| !key.is_empty()).map(Name::from),
        value: match toleration.operator.as_deref() {
            Some("Exists") => None,
            _ => Some(toleration.value.as_deref().unwrap_or_default().into()),
        },
        effect: toleration.effect.as_deref().filter(|effect| !effect.is_empty()).map(Name::from),
    };
    all.unwrap_or_default().iter().map(toleration).collect()
}

/// A RuntimeClass.
pub(crate) fn runtime_class(object: &ApiRuntimeClass) -> RuntimeClass {
    let scheduling = object.scheduling.as_ref();
    let labels = scheduling.and_then(|scheduling| scheduling.node_selector.as_ref()).into_iter().flatten();
    let pod_fixed = object.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
    RuntimeClass {
        name: object.name_any().as_str().into(),
        overhead: pod_fixed.map(amounts).unwrap_or_default(),
        node_selector: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        tolerations: tolerations(scheduling.and_then(|scheduling| scheduling.tolerations.as_deref())),
    }
}

/// A node.
pub(crate) fn node(object: &ApiNode) -> Node {
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_true =
        |kind: &str| conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True");
    let schedulable = spec.is_none_or(|spec| spec.unschedulable != Some(true));
    let pressure = ["MemoryPressure", "DiskPressure", "PIDPressure"].into_iter().find(|kind| is_true(kind));
    let ready = is_true("Ready") && object.metadata.deletion_timestamp.is_none();
    Node {
        name: object.name_any().as_str().into(),
        allocatable: status.and_then(|status| status.allocatable.as_ref()).map(amounts).unwrap_or_default(),
        labels: labels(object),
        taints: spec
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default()
            .iter()
            .map(|taint| Taint {
                key: taint.key.as_str().into(),
                value: taint.value.as_deref().unwrap_or_default().into(),
                effect: taint.effect.as_str().into(),
            })
            .collect(),
        usable: ready && schedulable && pressure.is_none() && !is_true("NetworkUnavailable"),
        ready,
        pressure: pressure.map(Name::from),
        closed: closed(object),
        until: until(object).and_then(Result::ok),
    }
}

/// Why an admin has closed a node. One that leaves the pool at a time that cannot be read is closed until that is mended: nobody
/// knows what could save before.
fn closed(object: &ApiNode) -> Option<Name> {
    if let Some(why) = object.annotations().get(names::ANNOTATION_CLOSED) {
        return Some(one_line(why).into());
    }
    until(object)?.err().map(Name::from)
}

/// Until when a node is in the pool, as an admin has announced.
///
/// # Errors
/// What is wrong with that.
fn until(object: &ApiNode) -> Option<Result<Timestamp, String>> {
    let text = object.annotations().get(names::ANNOTATION_UNTIL)?;
    Some(text.trim().parse().map_err(|_| {
        format!(
            "its annotation {} is {:?}, and must be a time such as 2027-01-31T08:00:00Z",
            names::ANNOTATION_UNTIL,
            one_line(text)
        )
    }))
}

/// The beginning of a text that people wrote, without what would break a line of ours.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    text.split(char::is_control).next().unwrap_or_default().trim().chars().take(LONGEST).collect()
}

/// The labels of an object.
pub(crate) fn labels<K: kube::Resource>(object: &K) -> BTreeMap<Name, Name> {
    let labels = object.labels().iter();
    labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

/// A PersistentVolume. One whose claim was deleted is bound to nobody, although it names it yet.
pub(crate) fn volume(object: &ApiVolume) -> Volume {
    let spec = object.spec.as_ref();
    let is_bound = object.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    let claim = spec
        .and_then(|spec| spec.claim_ref.as_ref())
        .filter(|_| is_bound)
        .and_then(|claim| Some(Key::new(claim.namespace.as_deref()?, claim.name.as_deref()?)));
    let affinity = spec.and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    Volume {
        name: object.name_any().as_str().into(),
        claim,
        affinity: affinity.map(constraints::node_terms).unwrap_or_default(),
        access: spec.map(access).unwrap_or_default(),
    }
}

/// How many may mount a PersistentVolume at a time. ReadWriteOnce is enforced where a volume is attached to its node;
/// directories of the node itself and NFS are not attached.
fn access(spec: &PersistentVolumeSpec) -> Access {
    let is_attached = spec.host_path.is_none() && spec.local.is_none() && spec.nfs.is_none();
    access_by_modes(spec.access_modes.as_deref().unwrap_or_default(), is_attached)
}

/// How many will be able to mount the volume of a claim that has none yet; none if it has one. What kind of volume it will
/// be nobody knows, so it counts as one that is attached.
pub(crate) fn access_without_volume(claim: &PersistentVolumeClaim) -> Option<Access> {
    let spec = claim.spec.as_ref()?;
    if spec.volume_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return None;
    }
    let access = access_by_modes(spec.access_modes.as_deref().unwrap_or_default(), true);
    (access != Access::ManyNodes).then_some(access)
}

fn access_by_modes(modes: &[String], is_attached: bool) -> Access {
    let has = |mode: &str| modes.iter().any(|other| other == mode);
    if has("ReadWriteMany") || has("ReadOnlyMany") {
        Access::ManyNodes
    } else if has("ReadWriteOncePod") {
        Access::OnePod
    } else if has("ReadWriteOnce") && is_attached {
        Access::OneNode
    } else {
        Access::ManyNodes
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::values::Container;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_says_until_when_it_is_in_the_pool() {
        let annotated = |annotations: serde_json::Value| {
            let object = json!({ "metadata": { "name": "n1", "annotations": annotations } });
            let node = node(&serde_json::from_value(object).unwrap());
            (node.closed.map(|why| why.to_string()), node.until.map(|until| until.to_string()))
        };
        let until = |text: &str| annotated(json!({ "scavenger.dev/until": text }));
        let time = Some("2027-01-31T08:00:00Z".to_owned());
        assert_eq!(until("2027-01-31T08:00:00Z"), (None, time.clone()));
        assert_eq!(until(" 2027-01-31T09:00:00+01:00\n"), (None, time.clone()));
        let both = json!({ "scavenger.dev/until": "2027-01-31T08:00:00Z", "scavenger.dev/closed": "disk" });
        assert_eq!(annotated(both), (Some("disk".to_owned()), time));
        assert_eq!(annotated(json!({})), (None, None));
        // Nothing starts there until it is mended.
        for wrong in ["tomorrow", "", "2027-01-31", "2027-01-31T08:00:00"] {
            let (why, time) = until(wrong);
            let expected = format!(
                "its annotation scavenger.dev/until is {wrong:?}, and must be a time such as 2027-01-31T08:00:00Z"
            );
            assert_eq!((why, time), (Some(expected), None));
        }
    }

    #[test]
    fn a_cordoned_node_is_ready_but_not_usable() {
        let object = |unschedulable: bool, ready: &str| {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": "n" }, "spec": { "unschedulable": unschedulable },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            }))
            .unwrap()
        };
        let seen = |unschedulable, ready| {
            let node = node(&object(unschedulable, ready));
            (node.usable, node.ready)
        };
        assert_eq!(seen(false, "True"), (true, true));
        assert_eq!(seen(true, "True"), (false, true));
        assert_eq!(seen(false, "Unknown"), (false, false));
    }

    #[test]
    fn a_pod_is_bound_since_its_condition_says_so() {
        let scheduled = |status: &str| {
            let object = serde_json::json!({
                "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
                "spec": { "nodeName": "n", "containers": [] },
                "status": { "conditions": [{ "type": "PodScheduled", "status": status,
                    "lastTransitionTime": "2026-01-01T00:20:00Z" }] },
            });
            pod(&serde_json::from_value(object).unwrap()).bound_since()
        };
        assert_eq!(scheduled("True"), Some("2026-01-01T00:20:00Z".parse().unwrap()));
        // One that was bound by hand has none until its kubelet says so.
        assert_eq!(scheduled("False"), Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }

    #[test]
    fn scratch_space_is_counted_where_it_is_and_where_it_is_used() {
        let object: ApiNode = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "n" },
            "status": { "allocatable": { "cpu": "4", "ephemeral-storage": "10Gi", "hugepages-2Mi": "0" } },
        }))
        .unwrap();
        let has = node(&object).allocatable;
        assert_eq!(
            has.iter().find(|(name, _)| *name == "ephemeral-storage"),
            Some(("ephemeral-storage", 10 << 30))
        );
        assert_eq!(has.other.len(), 1, "what a node has none of is not named");
        let using: ApiPod =
            serde_json::from_value(serde_json::json!({ "metadata": {}, "spec": { "containers": [
            { "name": "c", "resources": { "requests": { "cpu": "1", "ephemeral-storage": "4Gi" } } }] } }))
            .unwrap();
        let room = has.minus(&pod(&using).requests);
        let asks =
            |bytes| scavenger_specs::resources("requests", &[("ephemeral-storage".to_owned(), bytes)].into());
        assert_eq!(asks("6Gi".into()).unwrap().exceeds(&room), None);
        assert_eq!(asks("7Gi".into()).unwrap().exceeds(&room), Some("ephemeral-storage"));
    }

    #[test]
    fn a_runtime_class_says_what_it_takes_and_where_its_pods_go() {
        // As Kata Containers and GKE Sandbox have them.
        let object = |more: serde_json::Value| {
            let mut object = serde_json::json!({ "metadata": { "name": "c" }, "handler": "h" });
            object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            runtime_class(&serde_json::from_value(object).unwrap())
        };
        let plain = object(serde_json::json!({}));
        assert_eq!(plain, RuntimeClass { name: "c".into(), ..RuntimeClass::default() });
        let whole = object(serde_json::json!({
            "overhead": { "podFixed": { "cpu": "250m", "memory": "160Mi" } },
            "scheduling": {
                "nodeSelector": { "sandbox.gke.io/runtime": "gvisor" },
                "tolerations": [{ "key": "sandbox.gke.io/runtime", "operator": "Equal", "value": "gvisor",
                                  "effect": "NoSchedule" }],
            },
        }));
        assert_eq!(
            (whole.overhead.cpu_milli, whole.overhead.memory_bytes, whole.overhead.pods),
            (250, 160 << 20, 0)
        );
        assert_eq!(whole.node_selector.len(), 1);
        let taint = Toleration {
            key: Some("sandbox.gke.io/runtime".into()),
            value: Some("gvisor".into()),
            effect: Some("NoSchedule".into()),
        };
        assert_eq!(whole.tolerations, [taint]);
    }

    #[test]
    fn a_volume_counts_while_it_is_bound() {
        let object = |phase: &str| {
            serde_json::from_value(serde_json::json!({
                "metadata": { "name": "pv" }, "status": { "phase": phase },
                "spec": {
                    "claimRef": { "namespace": "lab", "name": "data" },
                    "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                        { "key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"] }] }] } },
                },
            }))
            .unwrap()
        };
        let bound = volume(&object("Bound"));
        assert_eq!(bound.claim, Some(Key::new("lab", "data")));
        assert_eq!(bound.affinity[0].labels[0].values, ["n1".into()]);
        assert_eq!(volume(&object("Released")).claim, None);
    }

    #[test]
    fn a_volume_says_how_many_may_mount_it() {
        let access = |source: &str, modes: &[&str]| {
            let object = serde_json::json!({ "metadata": {}, "spec": { "accessModes": modes, source: {
                "driver": "d", "volumeHandle": "h", "path": "/p", "server": "s" } } });
            volume(&serde_json::from_value(object).unwrap()).access
        };
        assert_eq!(access("csi", &["ReadWriteOnce"]), Access::OneNode);
        assert_eq!(access("csi", &["ReadWriteOncePod"]), Access::OnePod);
        assert_eq!(access("csi", &["ReadWriteOnce", "ReadOnlyMany"]), Access::ManyNodes);
        assert_eq!(access("csi", &["ReadWriteMany"]), Access::ManyNodes);
        let of_claim = |modes: &[&str], volume: Option<&str>| {
            let object = serde_json::json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "c" },
                "spec": { "accessModes": modes, "volumeName": volume },
            });
            access_without_volume(&serde_json::from_value(object).unwrap())
        };
        assert_eq!(of_claim(&["ReadWriteOnce"], None), Some(Access::OneNode));
        assert_eq!(of_claim(&["ReadWriteOncePod"], Some("")), Some(Access::OnePod));
        assert_eq!(of_claim(&["ReadWriteOnce", "ReadWriteMany"], None), None);
        assert_eq!(of_claim(&["ReadWriteOnce"], Some("pv")), None, "its volume says more");
        for source in ["hostPath", "local", "nfs"] {
            assert_eq!(access(source, &["ReadWriteOnce"]), Access::ManyNodes, "{source} is not attached");
        }
    }

    #[test]
    fn a_long_message_keeps_its_end() {
        assert_eq!(shortened("abcdef", 3), "def");
        assert_eq!(shortened("aé", 2), "é");
        assert_eq!(shortened("éa", 2), "a");
    }

    #[test]
    fn a_job_is_over_since_its_first_condition_that_says_so() {
        let object: BatchJob = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "j-1", "namespace": "n", "uid": "c", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "1" },
                "ownerReferences": [{ "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "name": "j",
                    "uid": "u", "controller": true }] },
            "status": { "conditions": [
                { "type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:01:10Z" },
                { "type": "FailureTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z" },
                { "type": "Complete", "status": "False", "lastTransitionTime": "2026-01-01T00:00:30Z" },
            ] },
        }))
        .unwrap();
        let job = job(&object).unwrap();
        assert_eq!(job.creation_time, "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(job.over_since, Some("2026-01-01T00:01:00Z".parse().unwrap()));
    }

    /// A pod of a namespace in a mesh, with the statuses in the kubelet's order: by name.
    fn meshed(proxy: serde_json::Value, main: serde_json::Value, native: bool) -> Pod {
        let status = |name: &str, state: serde_json::Value| {
            serde_json::json!({ "name": name, "image": name, "imageID": "", "ready": true, "restartCount": 0,
                "started": true, "state": state })
        };
        let proxy = status("istio-proxy", proxy);
        let init = status(
            "istio-init",
            serde_json::json!({ "terminated": { "exitCode": 0, "reason": "Completed",
            "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:02Z" } }),
        );
        let main = status("main", main);
        let (inits, containers) =
            if native { (vec![init, proxy], vec![main]) } else { (vec![init], vec![proxy, main]) };
        let object: ApiPod = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "j-1-0-x", "namespace": "n", "resourceVersion": "7",
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "j-1", "uid": "c", "controller": true }],
                "labels": { "scavenger.dev/job": "j", "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "1",
                    "security.istio.io/tlsMode": "istio" } },
            "spec": { "nodeName": "n1", "containers": [
                { "name": "istio-proxy", "image": "proxyv2" }, { "name": "main", "image": "gromacs" }] },
            "status": { "phase": "Running", "initContainerStatuses": inits, "containerStatuses": containers },
        }))
        .unwrap();
        pod(&object)
    }

    #[test]
    fn the_main_container_decides_and_no_sidecar() {
        let running = || serde_json::json!({ "running": { "startedAt": "2026-01-01T00:00:03Z" } });
        let ended = |code: i32, reason: &str, message: &str| {
            serde_json::json!({ "terminated": { "exitCode": code, "reason": reason, "message": message,
                "startedAt": "2026-01-01T00:00:03Z", "finishedAt": "2026-01-01T00:00:09Z" } })
        };
        let pulling = serde_json::json!({ "waiting": { "reason": "ErrImagePull", "message": "not found" } });
        for native in [false, true] {
            assert_eq!(
                meshed(running(), pulling.clone(), native).container,
                Container::Waiting(Some(("ErrImagePull".to_owned(), "not found".to_owned()))),
                "that the proxy runs is no start"
            );
            let killed = meshed(running(), ended(137, "OOMKilled", "step 1000"), native);
            let Container::Ended { exit_code, reason, message, started, .. } = &killed.container else {
                panic!("{:?}", killed.container)
            };
            assert_eq!((*exit_code, &**reason, &**message, *started), (137, "OOMKilled", "step 1000", true));
            assert_eq!(
                meshed(ended(143, "Error", "draining"), running(), native).container,
                Container::Running,
                "that the proxy ended is no end"
            );
        }
    }

    #[test]
    fn a_deletion_was_requested_before_its_stamp() {
        let object: ApiPod = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "p", "namespace": "n", "resourceVersion": "7",
                "deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30,
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "j-2", "uid": "c", "controller": true }],
                "labels": { "scavenger.dev/job": "j", "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "2" } },
            "status": { "phase": "Failed",
                "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "lastTransitionTime": "2026-01-01T00:00:29Z" }],
                "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "terminated": { "exitCode": 128, "reason": "StartError", "message": "no such file",
                    "startedAt": "1970-01-01T00:00:00Z" } } }] },
        }))
        .unwrap();
        let pod = pod(&object);
        assert_eq!(pod.owner, Some(("u".into(), 2)));
        assert_eq!(pod.deletion_requested, Some("2026-01-01T00:00:30Z".parse().unwrap()));
        assert_eq!(pod.deletion_due, Some("2026-01-01T00:01:00Z".parse().unwrap()));
        assert_eq!((pod.due(), pod.outstays()), (pod.deletion_due, None));
        assert!(!pod.deletion_forced);
        assert_eq!(pod.disrupted_since, Some("2026-01-01T00:00:29Z".parse().unwrap()));
        assert!(matches!(&pod.container, Container::Ended { exit_code: 128, started: false, .. }));
        let mut forged = object;
        forged.metadata.owner_references = None;
        assert_eq!(super::pod(&forged).owner, None, "labels alone prove nothing");
        forged.spec =
            Some(PodSpec { priority_class_name: Some("scavenger-3".to_owned()), ..PodSpec::default() });
        let released = super::pod(&forged);
        assert_eq!(released.owner, Some(("u".into(), 2)), "a pod that its Job released is no ordinary pod");
    }
}
