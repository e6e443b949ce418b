//! What takes something away: pods, Jobs, ScavengerJobs and their finalizer.

use futures::StreamExt;
use jiff::SignedDuration;
use k8s_openapi::api::{batch::v1::Job as BatchJob, core::v1::Pod as ApiPod};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use scavenger_planner::{
    action::{Answer, Failure},
    values::{self, Key, Name},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::json;
use tracing::info;

use super::{
    Executor, Outcome,
    errors::{failure, invalidity},
};

/// Pods of one gang that are evicted or deleted at the same time: an action is one of many that are under way.
const PODS_AT_ONCE: usize = 8;

impl Executor {
    /// Deletes a ScavengerJob that was finished for long enough. Its finalizer holds it until its Jobs are gone.
    pub(super) async fn delete_sj(&self, key: &Key, uid: &str, resource_version: u64) -> Outcome {
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            // Somebody may just have asked for it to stay longer.
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(resource_version.to_string()),
            }),
            ..DeleteParams::default()
        };
        match self.api::<ScavengerJob>(key).delete(&key.name, &parameters).await {
            Ok(_) => {
                info!(namespace = %key.namespace, name = %key.name, "deleted, ttlSecondsAfterFinished after its end");
                Ok(Answer::ScavengerJobDeleted)
            }
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) async fn delete_job(&self, job: &Key, uid: &str) -> Outcome {
        let parameters = DeleteParams {
            // Foreground: the Job stays until its pods are gone, and shows in the watch until then.
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api::<BatchJob>(job).delete(&job.name, &parameters).await {
            Ok(_) => Ok(Answer::Deleted { uid: uid.into() }),
            // Gone, or another one by that name.
            Err(kube::Error::Api(error)) if error.is_not_found() || error.is_conflict() => {
                Ok(Answer::Deleted { uid: uid.into() })
            }
            Err(error) => Err(failure(error)),
        }
    }

    pub(super) async fn interrupt(&self, pods: Vec<(Key, Name)>) -> Outcome {
        every_one(pods.iter().map(|(pod, uid)| self.evictor.evict(pod, uid)).collect()).await?;
        Ok(Answer::Interrupted { pods: pods.into_iter().map(|(_, uid)| uid).collect() })
    }

    /// A second deletion can only shorten the grace period of the first. Never to 0, which would take the pod away before
    /// its containers have ended.
    pub(super) async fn delete_again(&self, pods: Vec<(Key, Name, SignedDuration)>) -> Outcome {
        let delete = async |pod: &Key, uid: &str, grace: SignedDuration| {
            let parameters = DeleteParams {
                grace_period_seconds: Some(u32::try_from(grace.as_secs()).unwrap_or(u32::MAX).max(1)),
                preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
                ..DeleteParams::default()
            };
            match self.api::<ApiPod>(pod).delete(&pod.name, &parameters).await {
                Ok(_) => Ok(()),
                // Gone, or another one by that name.
                Err(kube::Error::Api(error)) if error.is_not_found() || error.is_conflict() => Ok(()),
                Err(error) => Err(failure(error)),
            }
        };
        every_one(pods.iter().map(|(pod, uid, grace)| delete(pod, uid, *grace)).collect()).await?;
        Ok(Answer::DeletedAgain { pods: pods.into_iter().map(|(_, uid, _)| uid).collect() })
    }

    /// `last` is the ScavengerJob with its last attempt, if that has not been counted.
    pub(super) async fn remove_finalizer(
        &self,
        key: &Key,
        uid: &str,
        last: Option<&values::ScavengerJob>,
    ) -> Outcome {
        let pods_left = self.pods_left(key, uid).await?;
        if pods_left > 0 {
            return Ok(Answer::Released { pods_left });
        }
        let released = Ok(Answer::Released { pods_left: 0 });
        // The metadata alone: a ScavengerJob that cannot be decoded must be deletable.
        let sj = match self.api::<ScavengerJob>(key).get_metadata(&key.name).await.map_err(failure) {
            Ok(sj) if sj.uid().as_deref() == Some(uid) => sj,
            Ok(_) | Err(Failure::Gone) => return released,
            Err(failure) => return Err(failure),
        };
        let finalizers: Vec<&String> =
            sj.finalizers().iter().filter(|name| *name != names::FINALIZER).collect();
        let was_there = finalizers.len() < sj.finalizers().len();
        // The resourceVersion makes this a compare-and-swap: a merge patch replaces the whole list.
        let patch =
            json!({ "metadata": { "resourceVersion": sj.resource_version(), "finalizers": finalizers } });
        let parameters = PatchParams::default();
        let patched =
            self.api::<ScavengerJob>(key).patch_metadata(&key.name, &parameters, &Patch::Merge(&patch)).await;
        match patched.map_err(failure) {
            Ok(_) => {
                // Once: the watch may show the finalizer for a while yet, so that it is taken off again.
                if let Some(last) = last.filter(|_| was_there) {
                    self.metrics.gone(last);
                }
                self.forecasts.gone(key);
                released
            }
            Err(Failure::Gone) => released,
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn patch_finalizers(
        &self,
        sj: &ScavengerJob,
        key: &Key,
        finalizers: Vec<String>,
    ) -> Result<ScavengerJob, Failure> {
        // The resourceVersion makes this a compare-and-swap: a merge patch replaces the whole list.
        let patch =
            json!({ "metadata": { "resourceVersion": sj.resource_version(), "finalizers": finalizers } });
        self.api::<ScavengerJob>(key)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(invalidity)
    }
}

/// Tries every pod of a gang, so that one that cannot be taken away does not keep the others; a few at a time.
async fn every_one<T>(tries: Vec<impl Future<Output = Result<T, Failure>>>) -> Result<(), Failure> {
    let tried: Vec<_> = futures::stream::iter(tries).buffer_unordered(PODS_AT_ONCE).collect().await;
    tried.into_iter().find_map(Result::err).map_or(Ok(()), Err)
}
