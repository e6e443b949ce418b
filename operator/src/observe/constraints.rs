//! Where a pod may go: what the planner can judge, and what it cannot.

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, Pod as ApiPod, PodSpec, Volume as ApiVolume,
};
use kube::ResourceExt;
use scavenger_planner::values::{Expression, Name, NodeTerm, Operator};

/// The scheduler whose rules the planner knows.
pub(super) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The pod's required node affinity. What the API server accepted is understood; an operator of a newer version
/// matches nothing.
pub(super) fn node_affinity(spec: &PodSpec) -> Vec<NodeTerm> {
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.map(node_terms).unwrap_or_default()
}

/// The terms of a node selector.
pub(super) fn node_terms(selector: &NodeSelector) -> Vec<NodeTerm> {
    let expressions = |list: &Option<Vec<NodeSelectorRequirement>>| {
        list.iter().flatten().map(expression).collect::<Option<Vec<_>>>()
    };
    let term = |term: &k8s_openapi::api::core::v1::NodeSelectorTerm| {
        match (expressions(&term.match_expressions), expressions(&term.match_fields)) {
            (Some(labels), Some(names)) => NodeTerm { labels, names },
            // A term without expressions matches nothing.
            _ => NodeTerm::default(),
        }
    };
    selector.node_selector_terms.iter().map(term).collect()
}

/// PersistentVolumeClaims that a pod mounts: those that its spec names, and those that are made for it.
pub(super) fn claims(object: &ApiPod) -> Vec<Name> {
    let Some(spec) = &object.spec else { return Vec::new() };
    let of_volume = |volume: &ApiVolume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.as_str().into()),
        (None, Some(_)) => Some(format!("{}-{}", object.name_any(), volume.name).into()),
        (None, None) => None,
    };
    spec.volumes.iter().flatten().filter_map(of_volume).collect()
}

fn expression(requirement: &NodeSelectorRequirement) -> Option<Expression> {
    let operator = match requirement.operator.as_str() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    };
    let values = requirement.values.iter().flatten().map(|value| Name::from(value.as_str())).collect();
    Some(Expression { key: requirement.key.as_str().into(), operator, values })
}

/// What of the spec of an unschedulable pod the planner cannot judge. Looked at only for pods that wait for the operator to make
/// room.
pub(super) fn unjudged(object: &ApiPod) -> Vec<Name> {
    let Some(spec) = object
        .spec
        .as_ref()
        .filter(|spec| spec.node_name.is_none() && spec.preemption_policy.as_deref() == Some("Never"))
    else {
        return Vec::new();
    };
    let mut unjudged: Vec<Name> = Vec::new();
    let affinity = spec.affinity.as_ref();
    let required = |terms: Option<bool>| terms.unwrap_or(false);
    let pod_affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref()).map(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
            .is_some_and(|all| !all.is_empty())
    });
    let anti_affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref()).map(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
            .is_some_and(|all| !all.is_empty())
    });
    let mut found = |is: bool, what: &str| {
        if is {
            unjudged.push(what.into());
        }
    };
    found(required(pod_affinity), "podAffinity");
    found(required(anti_affinity), "podAntiAffinity");
    let spread = spec.topology_spread_constraints.iter().flatten();
    found(
        spread.into_iter().any(|one| one.when_unsatisfiable == "DoNotSchedule"),
        "topologySpreadConstraints",
    );
    found(spec.volumes.iter().flatten().any(|volume| volume.csi.is_some()), "csi volumes");
    found(spec.resource_claims.iter().flatten().next().is_some(), "resourceClaims");
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    found(ports.into_iter().any(|port| port.host_port.is_some_and(|port| port > 0)), "hostPort");
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER);
    found(scheduler != DEFAULT_SCHEDULER, "schedulerName");
    unjudged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &serde_json::Value) -> ApiPod {
        serde_json::from_value(serde_json::json!({ "metadata": {}, "spec": spec })).unwrap()
    }

    #[test]
    fn what_can_not_be_judged_is_named_and_the_rest_is_understood() {
        let spec = serde_json::json!({
            "preemptionPolicy": "Never", "containers": [{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80 }] }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "kubernetes.io/hostname" }] } },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" }],
            "volumes": [
                { "name": "v", "persistentVolumeClaim": { "claimName": "data" } }, { "name": "e", "emptyDir": {} },
                { "name": "s", "ephemeral": {} }, { "name": "c", "csi": { "driver": "d" } },
            ],
        });
        let names: Vec<String> = unjudged(&pod(&spec)).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["podAntiAffinity", "csi volumes", "hostPort"]);
        let mut named = pod(&spec);
        named.metadata.name = Some("shop".to_owned());
        let claims: Vec<String> = claims(&named).iter().map(ToString::to_string).collect();
        assert_eq!(claims, ["data", "shop-s"]);
        let preempting = pod(&serde_json::json!({ "containers": [], "volumes": spec["volumes"] }));
        assert!(unjudged(&preempting).is_empty(), "kube-scheduler makes room for it");
    }

    #[test]
    fn node_affinity_is_a_choice_of_terms() {
        let spec: PodSpec = serde_json::from_value(serde_json::json!({
            "containers": [],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["fast"] }] },
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] },
                { "matchExpressions": [{ "key": "disk", "operator": "Newer" }] }] } } },
        }))
        .unwrap();
        let terms = node_affinity(&spec);
        assert_eq!(terms.len(), 3);
        assert_eq!((terms[0].labels.len(), terms[1].names.len()), (1, 1));
        assert_eq!(terms[2], NodeTerm::default(), "what is not understood matches nothing");
    }
}
