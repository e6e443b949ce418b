//! The one path on which a pod of a ScavengerJob is interrupted, for the operator and for its guard.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod as ApiPod, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Client,
    api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions},
    core::Status,
};
use scavenger_planner::{action::Failure, values::Key};
use scavenger_program::objects::Objects;
use scavenger_vocabulary::Reason;
use serde_json::json;
use tracing::info;

use crate::execute::failure;

/// Interrupts pods.
pub(crate) struct Evictor {
    /// Returns a 429 at once: that is how a PodDisruptionBudget refuses an eviction.
    client: Client,
    /// Who interrupts, as the pod's condition names it.
    by: &'static str,
}

/// How a pod went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Through the eviction API.
    Evicted,
    /// Marked and deleted, since a PodDisruptionBudget forbids its eviction.
    Deleted,
    /// It was gone already, or another one has its name by now.
    Before,
}

impl Evictor {
    pub(crate) fn new(client: Client, by: &'static str) -> Self {
        Self { client, by }
    }

    /// Interrupts one pod, and none that took its name since.
    pub(crate) async fn evict(&self, pod: &Key, uid: &str) -> Result<Gone, Failure> {
        let api: Objects<ApiPod> = Objects::namespaced(self.client.clone(), &pod.namespace);
        let only_this = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let eviction = EvictParams { delete_options: Some(only_this.clone()), ..EvictParams::default() };
        match api.evict(&pod.name, &eviction).await {
            Ok(_) => return Ok(Gone::Evicted),
            Err(kube::Error::Api(error)) if is_another(&error) => return Ok(Gone::Before),
            Err(kube::Error::Api(error)) if forbidden_by_budget(&error) => {
                info!(namespace = %pod.namespace, pod = %pod.name, reason = %error.message, "deleted instead of evicted");
            }
            Err(error) => return Err(failure(error)),
        }
        // A budget of somebody's own must not make a ScavengerJob keep room that an owner needs. The condition comes
        // first: with it the Job controller and whoever judges the attempt see that the pod did not fail by itself.
        let marked = json!({
            "metadata": { "uid": uid },
            "status": { "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": Reason::InterruptedByScavenger,
                "message": format!("interrupted by {}; a PodDisruptionBudget forbade the eviction", self.by),
                "lastTransitionTime": Time(now()),
            }] },
        });
        match api.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(&marked)).await {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if error.is_not_found() || error.is_conflict() => {
                return Ok(Gone::Before);
            }
            Err(error) => return Err(failure(error)),
        }
        match api.delete(&pod.name, &only_this).await {
            Ok(_) => Ok(Gone::Deleted),
            Err(kube::Error::Api(error)) if is_another(&error) => Ok(Gone::Before),
            Err(error) => Err(failure(error)),
        }
    }
}

/// True if the pod is gone, or another one has its name by now.
fn is_another(error: &Status) -> bool {
    error.is_not_found() || error.is_conflict() && error.message.contains("UID in precondition")
}

/// True if a PodDisruptionBudget stands against an eviction: 429, which also means that the API server is busy, or 500
/// where two budgets match.
fn forbidden_by_budget(error: &Status) -> bool {
    let causes = error.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "DisruptionBudget")
        || error.code == 500 && error.message.contains("PodDisruptionBudget")
}

#[expect(clippy::disallowed_methods, reason = "the edge: the condition is stamped when it is set")]
fn now() -> Timestamp {
    Timestamp::now()
}
