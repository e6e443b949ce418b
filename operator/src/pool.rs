//! The status of the ScavengerPool: what everyone may know about the room there is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use scavenger_planner::{
    Planner,
    resources::{CPU, Resources, is_in_bytes},
    snapshot::{Name, Phase, PreemptionMode},
};
use scavenger_schema::{
    quantity::{format_bytes, format_milli},
    reasons::pool_condition::{MEMORY_MEASURED, READY, UNJUDGED_PODS},
    scavenger_job::Quantity,
    scavenger_pool::{NodeShape, Queue, ScavengerPoolStatus},
};

/// Prefixes and names of labels that describe hardware; the tuner recognises the processor and the GPU by them.
const HARDWARE_LABELS: [&str; 5] = [
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "feature.node.kubernetes.io/",
    "nvidia.com/",
    "amd.com/",
];

/// The status at one moment, without `updateTime` and `observedGeneration`, which the writer adds.
pub(crate) fn status(planner: &Planner, now: Timestamp) -> ScavengerPoolStatus {
    let capacity = planner.capacity();
    let allocatable = capacity.allocatable();
    let used = capacity.used(planner.ledger());
    let (ready, free) = match planner.settings() {
        Ok(settings) => {
            let free = settings.start_thresholds.of(allocatable).minus(&used);
            let ready = |ready, reason, message| condition(READY, ready, reason, message, now);
            let ready = if settings.drain {
                ready(false, "Draining", "every ScavengerJob is interrupted and none starts (spec.drain)")
            } else if settings.paused {
                ready(false, "Paused", "no ScavengerJob starts (spec.paused)")
            } else {
                ready(true, "Admitting", "ScavengerJobs are admitted")
            };
            (ready, free)
        }
        Err(reason) => (condition(READY, false, "Unusable", reason, now), Resources::default()),
    };
    let counts = planner.counts();
    let of = |phase| counts.phases.get(&phase).copied().unwrap_or(0);
    ScavengerPoolStatus {
        observed_generation: None,
        update_time: None,
        conditions: vec![ready, unjudged_pods(planner, now), memory_measured(planner, now)],
        nodes: count(capacity.pool_nodes().count()),
        allocatable: quantities(allocatable),
        used: quantities(&used),
        free: quantities(&free),
        node_shapes: node_shapes(planner),
        queue: Queue {
            waiting: count(of(Phase::Waiting) + of(Phase::Interrupted)),
            starting: count(of(Phase::Starting)),
            running: count(of(Phase::Running)),
            waiting_by_reason: counts
                .waiting
                .iter()
                .filter(|(_, number)| **number > 0)
                .map(|(reason, number)| (reason.name().to_owned(), count(*number)))
                .collect(),
        },
    }
}

/// How many pods a message names.
const NAMED: usize = 5;

/// Pending pods for which nothing is interrupted because not all of their constraints can be judged.
fn unjudged_pods(planner: &Planner, now: Timestamp) -> Condition {
    let operator = planner.settings().is_ok_and(|pool| pool.preemption_mode == PreemptionMode::Operator);
    let pods: Vec<String> = planner
        .preemption()
        .unjudged()
        .filter(|_| operator)
        .map(|(pod, constraints)| format!("{pod} ({})", constraints.join(", ")))
        .collect();
    if pods.is_empty() {
        return condition(UNJUDGED_PODS, false, "AllJudged", "", now);
    }
    let more = if pods.len() > NAMED { ", ..." } else { "" };
    let message = format!(
        "for {} pending pods nothing is interrupted, since the operator can not judge these of their constraints: {}{more}",
        pods.len(),
        pods[..pods.len().min(NAMED)].join("; "),
    );
    condition(UNJUDGED_PODS, true, "ConstraintNotJudged", &message, now)
}

/// Whether memory pressure is seen in time.
fn memory_measured(planner: &Planner, now: Timestamp) -> Condition {
    if planner.measures_memory() {
        let message =
            "ScavengerJobs go when their node uses more than 90% of its memory, as metrics.k8s.io tells";
        return condition(MEMORY_MEASURED, true, "MetricsApi", message, now);
    }
    let message = "metrics.k8s.io is not served: ScavengerJobs go when their node reports a pressure condition, which \
                   can be too late where the kubelet has hard eviction thresholds only: set soft ones";
    condition(MEMORY_MEASURED, false, "PressureConditionsOnly", message, now)
}

fn condition(kind: &str, is: bool, reason: &str, message: &str, now: Timestamp) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if is { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(now),
        observed_generation: None,
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Nodes with equal allocatable resources and hardware labels, in a fixed order.
fn node_shapes(planner: &Planner) -> Vec<NodeShape> {
    let none = Resources::default();
    let mut shapes: BTreeMap<(Resources, BTreeMap<Name, Name>), (i32, Resources)> = BTreeMap::new();
    for (node, used) in planner.capacity().pool_nodes() {
        let labels = node.labels.iter().filter(|(key, _)| describes_hardware(key));
        let labels = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
        let promised = planner.ledger().promised(&node.name).unwrap_or(&none);
        let free = node.allocatable.minus(used).minus(promised);
        let (count, largest) = shapes.entry((node.allocatable.clone(), labels)).or_insert((0, none.clone()));
        *count += 1;
        *largest = largest.larger(&free);
    }
    shapes
        .into_iter()
        .map(|((allocatable, labels), (count, largest_free))| NodeShape {
            count,
            labels: labels.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            allocatable: quantities(&allocatable),
            largest_free: quantities(&largest_free),
        })
        .collect()
}

fn describes_hardware(label: &str) -> bool {
    // The moment at which the labels were made: of each node its own, so that no two would look alike.
    label != "nvidia.com/gfd.timestamp"
        && HARDWARE_LABELS
            .iter()
            .any(|known| if known.ends_with('/') { label.starts_with(known) } else { label == *known })
}

/// Amounts as Kubernetes writes them. What is overcommitted shows as 0.
fn quantities(resources: &Resources) -> BTreeMap<String, Quantity> {
    resources
        .iter()
        .map(|(name, amount)| {
            let amount = amount.max(0);
            let text = match name {
                CPU => format_milli(amount),
                _ if is_in_bytes(name) => format_bytes(amount),
                _ => amount.to_string(),
            };
            (name.to_owned(), Quantity(text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::describes_hardware;

    #[test]
    fn labels_that_differ_between_equal_nodes_make_no_shapes() {
        assert!(describes_hardware("nvidia.com/gpu.product") && describes_hardware("kubernetes.io/arch"));
        assert!(
            !describes_hardware("nvidia.com/gfd.timestamp") && !describes_hardware("kubernetes.io/hostname")
        );
    }
}
