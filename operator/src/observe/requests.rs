//! What a pod occupies on its node, as kube-scheduler counts it (`PodRequests` of k8s.io/component-helpers).
//!
//! While a pod is resized in place its spec, what the node has allocated to it and what its containers have differ. The
//! largest of the three counts. A resize that the kubelet calls Infeasible will never be made, so there the spec does
//! not count.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use scavenger_planner::resources::{CPU, MEMORY, Resources};
use scavenger_schema::{names, quantity};
use scavenger_vocabulary::Accounting;

/// What a pod occupies on its node.
pub(super) fn counted(pod: &Pod) -> Resources {
    requests(pod, resize_pending(pod) != Some("Infeasible"))
}

/// What a pod may use whose capacity is counted by use: its requests with the limits of cpu and memory. None for others.
pub(super) fn limits_by_use(pod: &Pod) -> Option<Resources> {
    let accounting = pod.metadata.labels.as_ref()?.get(names::LABEL_ACCOUNTING)?;
    if accounting != Accounting::Usage.name() {
        return None;
    }
    let mut together = counted(pod);
    let containers = pod.spec.as_ref()?.containers.iter();
    let limits =
        containers.filter_map(|container| container.resources.as_ref()?.limits.as_ref()).map(amounts);
    let overhead = pod.spec.as_ref()?.overhead.as_ref().map(amounts).unwrap_or_default();
    let (mut cpu_milli, mut memory_bytes) = (overhead.cpu_milli, overhead.memory_bytes);
    for limit in limits {
        cpu_milli = cpu_milli.saturating_add(limit.cpu_milli);
        memory_bytes = memory_bytes.saturating_add(limit.memory_bytes);
    }
    together.cpu_milli = together.cpu_milli.max(cpu_milli);
    together.memory_bytes = together.memory_bytes.max(memory_bytes);
    Some(together)
}

/// Millicores that a kubelet with the static CPU manager keeps for the pod alone: the whole cores of the containers of a
/// Guaranteed pod.
pub(super) fn exclusive_milli(pod: &Pod) -> i64 {
    let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    let Some(spec) = pod.spec.as_ref().filter(|_| class == Some("Guaranteed")) else { return 0 };
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let cores = spec.containers.iter().chain(sidecars).map(|container| of_spec(container).cpu_milli);
    cores.filter(|milli| *milli > 0 && milli % 1000 == 0).sum()
}

/// What a resize that the kubelet deferred adds to what the node has allocated to the pod; none if there is no such
/// resize.
pub(super) fn deferred_resize(pod: &Pod) -> Option<Resources> {
    if resize_pending(pod) != Some("Deferred") {
        return None;
    }
    let more = requests(pod, true).minus(&requests(pod, false)).map(|_, amount| amount.max(0));
    (more != Resources::default()).then_some(more)
}

/// Why the kubelet has not begun to resize a pod.
fn resize_pending(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "PodResizePending")?.reason.as_deref()
}

/// The larger of what runs together (containers and sidecars) and what an init container needs while the sidecars
/// before it run; plus the overhead. A pod-level request takes the place of its containers' for the resource that it
/// names.
fn requests(pod: &Pod, spec_counts: bool) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let status = pod.status.as_ref();
    let statuses: BTreeMap<&str, &ContainerStatus> = status
        .into_iter()
        .flat_map(|status| [&status.container_statuses, &status.init_container_statuses])
        .flatten()
        .flatten()
        .map(|status| (status.name.as_str(), status))
        .collect();
    let resized = |container: &Container| {
        let status = statuses.get(container.name.as_str());
        effective(
            of_spec(container),
            status.and_then(|status| status.resources.as_ref()),
            status.and_then(|status| status.allocated_resources.as_ref()),
            spec_counts,
        )
    };
    let mut together = Resources::default();
    for container in &spec.containers {
        together.add(&resized(container));
    }
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&resized(container));
            starting = starting.larger(&sidecars);
        } else {
            // These cannot be resized.
            starting = starting.larger(&sidecars.plus(&of_spec(container)));
        }
    }
    let mut requests = together.plus(&sidecars).larger(&starting);
    if let Some(given) = spec.resources.as_ref().and_then(|pod_level| pod_level.requests.as_ref()) {
        let amounts = effective(
            amounts(given),
            status.and_then(|status| status.resources.as_ref()),
            status.and_then(|status| status.allocated_resources.as_ref()),
            spec_counts,
        );
        for name in given.keys() {
            match name.as_str() {
                CPU => requests.cpu_milli = amounts.cpu_milli,
                MEMORY => requests.memory_bytes = amounts.memory_bytes,
                name if name.starts_with("hugepages-") => {
                    requests.other.insert(name.into(), amounts.get(name));
                }
                // The API server accepts no others here.
                _ => {}
            }
        }
        requests.other.retain(|_, amount| *amount != 0);
    }
    if let Some(overhead) = &spec.overhead {
        requests.add(&amounts(overhead));
    }
    requests.pods = 1;
    requests
}

/// What counts of something that can be resized. Only a status that tells what it really has says more than the spec.
fn effective(
    spec: Resources,
    actual: Option<&ResourceRequirements>,
    allocated: Option<&BTreeMap<String, Quantity>>,
    spec_counts: bool,
) -> Resources {
    let Some(actual) = actual else { return spec };
    let has = requirements(actual).larger(&allocated.map(amounts).unwrap_or_default());
    if spec_counts { spec.larger(&has) } else { has }
}

fn of_spec(container: &Container) -> Resources {
    container.resources.as_ref().map(requirements).unwrap_or_default()
}

fn requirements(requirements: &ResourceRequirements) -> Resources {
    requirements.requests.as_ref().map(amounts).unwrap_or_default()
}

/// Amounts of a list that the API server accepted; what cannot be read all the same counts as none.
pub(super) fn amounts(list: &BTreeMap<String, Quantity>) -> Resources {
    let mut sum = Resources::default();
    for (name, Quantity(text)) in list {
        match name.as_str() {
            CPU => sum.cpu_milli = quantity::parse_milli(text).unwrap_or(0),
            MEMORY => sum.memory_bytes = quantity::parse_units(text).unwrap_or(0),
            "pods" => sum.pods = quantity::parse_units(text).unwrap_or(0),
            other => {
                sum.other.insert(other.into(), quantity::parse_units(text).unwrap_or(0));
            }
        }
    }
    sum.other.retain(|_, amount| *amount != 0);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value, status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": {}, "spec": spec, "status": status })).unwrap()
    }

    fn container(cpu: &str) -> Value {
        json!({ "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Mi" } } })
    }

    /// A container whose spec asks for `spec` cpu, to which the node has allocated `allocated`, and that has `actual`.
    fn resized(spec: &str, allocated: &str, actual: &str, pending: Option<&str>) -> Pod {
        let status = json!({
            "conditions": pending.map(|reason| json!([
                { "type": "PodResizePending", "status": "True", "reason": reason }])),
            "containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": { "cpu": allocated, "memory": "1Mi" },
                "resources": { "requests": { "cpu": actual, "memory": "1Mi" } } }],
        });
        pod(&json!({ "containers": [container(spec)] }), &status)
    }

    #[test]
    fn the_overhead_of_a_runtime_class_comes_on_top_of_what_a_pod_may_use() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": { "labels": { names::LABEL_ACCOUNTING: "Usage" } },
            "spec": { "overhead": { "cpu": "250m", "memory": "160Mi" }, "containers": [{ "name": "main", "resources": {
                "requests": { "cpu": "0", "memory": "8Mi" }, "limits": { "cpu": "2", "memory": "1Gi" } } }] },
        }))
        .unwrap();
        let (held, requested) = (limits_by_use(&pod).unwrap(), counted(&pod));
        assert_eq!((held.cpu_milli, held.memory_bytes), (2250, (1 << 30) + (160 << 20)));
        assert_eq!((requested.cpu_milli, requested.memory_bytes), (250, 168 << 20));
    }

    #[test]
    fn sidecars_init_containers_and_overhead_count() {
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = "Always".into();
        let both = counted(&pod(
            &json!({
                "initContainers": [sidecar, container("700m")],
                "containers": [container("200m"), container("300m")],
                "overhead": { "cpu": "50m" },
            }),
            &json!({}),
        ));
        // The init container beside the sidecar (800m) needs more than all containers with it (600m).
        assert_eq!(both.cpu_milli, 850);
        assert_eq!(both.memory_bytes, 3 << 20);
        assert_eq!(both.pods, 1);
    }

    #[test]
    fn pod_level_requests_take_the_place_of_the_containers() {
        let spec = json!({
            "containers": [container("200m")],
            "resources": { "requests": { "cpu": "1", "hugepages-2Mi": "4Mi" } },
        });
        let pod_level = counted(&pod(&spec, &json!({})));
        assert_eq!((pod_level.cpu_milli, pod_level.memory_bytes), (1000, 1 << 20));
        assert_eq!(pod_level.get("hugepages-2Mi"), 4 << 20);
        // It is resized as its containers are.
        let status =
            json!({ "allocatedResources": { "cpu": "3" }, "resources": { "requests": { "cpu": "2" } } });
        assert_eq!(counted(&pod(&spec, &status)).cpu_milli, 3000);
    }

    #[test]
    fn during_a_resize_the_largest_counts() {
        assert_eq!(counted(&resized("1", "1", "1", None)).cpu_milli, 1000);
        assert_eq!(counted(&resized("1", "2", "2", None)).cpu_milli, 2000, "smaller, not allocated yet");
        assert_eq!(counted(&resized("1", "1", "2", None)).cpu_milli, 2000, "smaller, not made yet");
        assert_eq!(counted(&resized("3", "2", "2", Some("Deferred"))).cpu_milli, 3000);
    }

    #[test]
    fn the_spec_of_an_infeasible_resize_does_not_count() {
        let infeasible = resized("10000", "2", "1", Some("Infeasible"));
        assert_eq!(counted(&infeasible).cpu_milli, 2000);
        assert_eq!(deferred_resize(&infeasible), None);
    }

    #[test]
    fn a_deferred_resize_is_what_the_spec_adds_to_what_the_node_gave() {
        let more = deferred_resize(&resized("3", "1", "2", Some("Deferred")));
        assert_eq!(more, Some(Resources { cpu_milli: 1000, ..Resources::default() }));
        assert_eq!(deferred_resize(&resized("3", "1", "1", None)), None, "the kubelet is at it");
        assert_eq!(deferred_resize(&resized("1", "1", "1", Some("Deferred"))), None, "it was taken back");
    }
}
