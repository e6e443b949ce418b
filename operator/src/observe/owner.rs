//! To which ScavengerJob a pod belongs.

use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::ResourceExt;
use scavenger_planner::values::Name;
use scavenger_schema::names;

/// UID of the ScavengerJob that a pod belongs to, and number of the attempt. Labels alone prove nothing, since anybody
/// may set them: the pod must be controlled by a Job of the name that the operator gives, or have one of our
/// PriorityClasses. With such a class only the Job controller makes pods, for Jobs of the operator, and a pod keeps its
/// class: a pod that its Job released counts as before.
pub(super) fn of_pod(object: &ApiPod) -> Option<(Name, u32)> {
    let labels = object.labels();
    let uid = labels.get(names::LABEL_JOB_UID)?;
    let attempt = labels.get(names::LABEL_ATTEMPT)?.parse().ok()?;
    let job = names::job(labels.get(names::LABEL_JOB)?, attempt);
    let controlled = object.owner_references().iter().any(|reference| {
        reference.controller == Some(true) && reference.kind == "Job" && reference.name == job
    });
    let class = object.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref());
    (controlled || class.is_some_and(names::is_priority_class)).then(|| (uid.as_str().into(), attempt))
}
