//! Pods whose capacity is counted by use: kube-scheduler hears that they need next to nothing, and the kubelet what they
//! may use at most.

use k8s_openapi::{
    api::core::v1::{EnvVar, PodSpec},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use scavenger_planner::values::ByUse;
use scavenger_schema::names::LABEL_ACCOUNTING;
use scavenger_vocabulary::Accounting;

use super::CONTAINER;

/// CPU request. It must be written: a request that is not there is taken from the limit.
const CPU: &str = "0";

/// Memory request: what a container needs to begin. It keeps the pod from being BestEffort, and its score for the kernel's
/// OOM killer the worst that a pod can have.
const MEMORY: &str = "8Mi";

/// How OpenMP threads wait. Threads that spin use up what their group may use, and what ordinary pods leave them is little.
const WAIT: (&str, &str) = ("OMP_WAIT_POLICY", "passive");

/// Lets the pod run on what is reserved but not used.
pub(super) fn take_what_is_unused(pod: &mut PodSpec, by_use: ByUse) {
    let Some(main) = pod.containers.iter_mut().find(|container| container.name == CONTAINER) else { return };
    if let Some(requests) = main.resources.as_mut().and_then(|resources| resources.requests.as_mut()) {
        for (name, least) in [("cpu", CPU), ("memory", MEMORY)] {
            requests.insert(name.to_owned(), Quantity(least.to_owned()));
        }
    }
    let variables = main.env.get_or_insert_default();
    if !variables.iter().any(|variable| variable.name == WAIT.0) {
        variables.push(EnvVar { name: WAIT.0.to_owned(), value: Some(WAIT.1.to_owned()), value_from: None });
    }
    let longest = by_use.grace_period.as_secs();
    pod.termination_grace_period_seconds =
        pod.termination_grace_period_seconds.map(|seconds| seconds.min(longest));
}

/// So that everybody sees that its limits count.
pub(super) fn mark(metadata: &mut ObjectMeta) {
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(LABEL_ACCOUNTING.to_owned(), Accounting::Usage.name().to_owned());
}
