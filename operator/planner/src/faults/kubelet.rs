//! How a kubelet, a container runtime and kube-scheduler say what happened to a pod, as far as rules depend on it.

use super::{Meaning, Speaker, meaning};
use crate::values::{Container, Pod, tells_of_loss};

/// Why a container ended that was killed for memory.
pub(crate) const OUT_OF_MEMORY: &str = "OOMKilled";

/// Why a pod ended that the kubelet evicted.
pub(crate) const EVICTED: &str = "Evicted";

/// Why a Job failed of which a pod had condition DisruptionTarget: the only rule of its podFailurePolicy.
pub(crate) const POD_FAILURE_POLICY: &str = "PodFailurePolicy";

/// True if the kubelet evicted a pod because its node had no memory left. Disks and limits of its own are another matter.
pub(crate) fn is_evicted_for_memory(reason: &str, message: &str) -> bool {
    reason == EVICTED && meaning(Speaker::Eviction, message) == Some(Meaning::NodeOutOfMemory)
}

/// True if kube-scheduler says that a pod mounts a claim without a volume, unless the volume is made where the pod goes.
pub(crate) fn is_claim_unbound(message: &str) -> bool {
    meaning(Speaker::Scheduler, message).is_some()
}

/// True if the kubelet evicted a pod because of what the ScavengerJob itself may use.
pub(crate) fn is_own_limit(message: &str) -> bool {
    meaning(Speaker::Eviction, message) == Some(Meaning::OwnLimit)
}

/// The runtime's message, if the container was created and could not be started.
pub(crate) fn message_of(pod: &Pod) -> Option<&str> {
    match &pod.container {
        Container::Ended { exit_code, message, started: false, reason, .. }
            if *exit_code != 0 && !tells_of_loss(reason) =>
        {
            Some(message)
        }
        Container::Waiting(Some((reason, message))) if reason == "RunContainerError" => Some(message),
        _ => None,
    }
}
