//! What is written to Kubernetes: ScavengerJobs are made, changed and deleted.

use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams, Preconditions};
use scavenger_schema::names;
use scavenger_schema::scavenger_job::{ScavengerJob, ScavengerJobSpec};
use scavenger_schema::simulation::ANNOTATION_CONFIGURATIONS;

use super::{CREATE, Cluster, ClusterError, within};
use crate::manifest::Configurations;
use crate::suspension;

/// What became of the replacement of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaced {
    /// It is replaced.
    Done,
    /// The ScavengerJob is another one by now, or runs: it is left alone.
    Changed,
    /// The API server does not take that spec, in its words; the one there is stays.
    Refused(String),
}

/// Writes in the name of the submitter.
pub(super) fn as_submitter() -> PostParams {
    PostParams { field_manager: Some(names::SUBMITTER.to_owned()), ..PostParams::default() }
}

impl Cluster {
    /// Makes a ScavengerJob. One of that name that is there already is no error: the next look shows whether it
    /// is the one that was to be made.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn create(&self, job: &ScavengerJob) -> Result<(), ClusterError> {
        let namespace = job.namespace().unwrap_or_default();
        let jobs = self.jobs(&namespace);
        let request = async {
            match jobs.create(&as_submitter(), job).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                result => result.map(|_| ()),
            }
        };
        within(CREATE, &namespace, &job.name_any(), request).await
    }

    /// Replaces the spec of a ScavengerJob if its version is still `resource_version`; [`Replaced::Changed`] if it is
    /// not, or if the operator started it meanwhile. With `resumes` the submitter's suspension ends.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn replace(
        &self,
        job: &ScavengerJob,
        resource_version: &str,
        resumes: bool,
    ) -> Result<Replaced, ClusterError> {
        let namespace = job.namespace().unwrap_or_default();
        // The pool's limits may have changed since the tuner was asked.
        let is_refusal = |code: u16| code == 422 || (code == 403 && resumes);
        let change = |current: &mut ScavengerJob| {
            // Everything but the spec stays as it is, the operator's finalizer above all; so does what somebody may
            // have set by hand meanwhile, since it is no part of a configuration.
            let by_hand = current.spec.clone();
            let before = Configurations::of(current);
            current.spec = ScavengerJobSpec {
                suspend: by_hand.suspend && !resumes,
                active_deadline_seconds: by_hand.active_deadline_seconds,
                ttl_seconds_after_finished: by_hand.ttl_seconds_after_finished,
                ..job.spec.clone()
            };
            if !current.spec.suspend {
                suspension::forget(current);
            }
            if let Some(rung) = Configurations::of(job).last() {
                // A spec that changes becomes the next generation.
                let generation =
                    current.metadata.generation.unwrap_or(1) + i64::from(current.spec != by_hand);
                let configurations = before.and(generation, rung).text();
                current.annotations_mut().insert(ANNOTATION_CONFIGURATIONS.to_owned(), configurations);
            }
        };
        self.change("replace", &namespace, &job.name_any(), resource_version, is_refusal, change).await
    }

    /// Suspends a ScavengerJob in the submitter's name if its version is still `resource_version`;
    /// [`Replaced::Changed`] if it is not.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn suspend(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
    ) -> Result<Replaced, ClusterError> {
        let is_refusal = |code: u16| matches!(code, 403 | 422);
        self.change("suspend", namespace, name, resource_version, is_refusal, suspension::suspend).await
    }

    /// Ends the submitter's suspension of a ScavengerJob, which keeps its configuration, if its version is still
    /// `resource_version`; [`Replaced::Changed`] if it is not.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn resume(
        &self,
        namespace: &str,
        name: &str,
        resource_version: &str,
    ) -> Result<Replaced, ClusterError> {
        self.change("resume", namespace, name, resource_version, |_| false, suspension::resume).await
    }

    /// Changes a ScavengerJob if its version is still the one that was judged. With an HTTP status that `is_refusal` names,
    /// the API server does not take the change, which ends a growth or the way to another configuration, not a row.
    async fn change(
        &self,
        act: &'static str,
        namespace: &str,
        name: &str,
        resource_version: &str,
        is_refusal: impl Fn(u16) -> bool,
        change: impl FnOnce(&mut ScavengerJob),
    ) -> Result<Replaced, ClusterError> {
        let jobs = self.jobs(namespace);
        let request = async {
            let Some(mut current) = jobs.get_opt(name).await? else { return Ok(Replaced::Changed) };
            if current.resource_version().as_deref() != Some(resource_version) {
                return Ok(Replaced::Changed);
            }
            change(&mut current);
            match jobs.replace(name, &as_submitter(), &current).await {
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                    Ok(Replaced::Changed)
                }
                Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                    Ok(Replaced::Refused(status.message.clone()))
                }
                result => result.map(|_| Replaced::Done),
            }
        };
        within(act, namespace, name, request).await
    }

    /// Deletes the ScavengerJob with this UID. The operator's finalizer holds its name until its pods are gone.
    ///
    /// # Errors
    /// [`ClusterError`]; that it is gone, or that another one has its name, is none.
    pub async fn delete(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ClusterError> {
        let is_this_one = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let parameters = DeleteParams::foreground().preconditions(is_this_one);
        let jobs = self.jobs(namespace);
        let request = async {
            match jobs.delete(name, &parameters).await {
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
                result => result.map(|_| ()),
            }
        };
        within("delete", namespace, name, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use axum::extract::State;
    use axum::http::StatusCode;
    use axum::{Json, Router, routing::get};
    use futures::StreamExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{client, ladder, manifest_settings, row, terms};
    use crate::manifest::simulation_job;
    use crate::suspension::is_ours;

    /// The ScavengerJob that an API server holds, and with which status it refuses to change it.
    #[derive(Clone, Default)]
    struct Api {
        job: Arc<Mutex<Value>>,
        refuses: Arc<Mutex<Option<u16>>>,
    }

    impl Api {
        async fn start() -> (Self, Cluster) {
            let mut job = job(0);
            (job.metadata.generation, job.metadata.resource_version) = (Some(1), Some("1".to_owned()));
            let api = Self::default();
            *api.held() = serde_json::to_value(job).expect("should be JSON");
            let router = Router::new()
                .route(
                    "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs/gromacs-7-1",
                    get(read).put(replace),
                )
                .with_state(api.clone());
            (api, Cluster::with_client(client(router).await))
        }

        fn held(&self) -> std::sync::MutexGuard<'_, Value> {
            self.job.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn refuses(&self, code: Option<u16>) {
            *self.refuses.lock().unwrap_or_else(PoisonError::into_inner) = code;
        }

        fn job(&self) -> ScavengerJob {
            serde_json::from_value(self.held().clone()).expect("should be a ScavengerJob")
        }

        fn version(&self) -> String {
            self.job().resource_version().expect("should have a version")
        }
    }

    fn refusal(code: u16) -> (StatusCode, Json<Value>) {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "denied", "reason": if code == 409 { "Conflict" } else { "Forbidden" }, "code": code });
        (StatusCode::from_u16(code).expect("should be a status"), Json(status))
    }

    async fn read(State(api): State<Api>) -> Json<Value> {
        Json(api.held().clone())
    }

    async fn replace(State(api): State<Api>, Json(mut job): Json<Value>) -> (StatusCode, Json<Value>) {
        if let Some(code) = *api.refuses.lock().unwrap_or_else(PoisonError::into_inner) {
            return refusal(code);
        }
        let mut held = api.held();
        let version = &held["metadata"]["resourceVersion"];
        if job["metadata"]["resourceVersion"] != *version {
            return refusal(409);
        }
        let next: u32 =
            version.as_str().and_then(|version| version.parse().ok()).expect("should be a number");
        job["metadata"]["resourceVersion"] = (next + 1).to_string().into();
        *held = job.clone();
        (StatusCode::OK, Json(job))
    }

    fn job(rung: usize) -> ScavengerJob {
        simulation_job(&row(), &ladder()[rung], &manifest_settings(), &terms())
    }

    #[tokio::test]
    async fn its_suspension_is_marked_in_the_same_write_and_ends_with_the_mark() {
        let (api, cluster) = Api::start().await;
        let suspended = cluster.suspend("lab", "gromacs-7-1", "1").await.expect("should answer");
        assert_eq!(suspended, Replaced::Done);
        assert!(is_ours(&api.job()));
        // Somebody else has written meanwhile: nothing is done.
        for changed in [
            cluster.suspend("lab", "gromacs-7-1", "1").await,
            cluster.resume("lab", "gromacs-7-1", "1").await,
            cluster.replace(&job(1), "1", true).await,
        ] {
            assert_eq!(changed.expect("should answer"), Replaced::Changed);
        }
        let replaced = cluster.replace(&job(1), &api.version(), true).await.expect("should answer");
        assert_eq!(replaced, Replaced::Done);
        let grown = api.job();
        assert!(
            !grown.spec.suspend && !grown.annotations().contains_key(names::ANNOTATION_SUSPENDED_TO_GROW)
        );
        assert_eq!(grown.spec.resources, job(1).spec.resources);

        cluster.suspend("lab", "gromacs-7-1", &api.version()).await.expect("should answer");
        let resumed = cluster.resume("lab", "gromacs-7-1", &api.version()).await.expect("should answer");
        assert_eq!((resumed, api.job().spec), (Replaced::Done, grown.spec), "as it was");
        assert!(!api.job().annotations().contains_key(names::ANNOTATION_SUSPENDED_TO_GROW));
    }

    #[tokio::test]
    async fn a_persons_suspension_outlives_another_configuration() {
        let (api, cluster) = Api::start().await;
        api.held()["spec"]["suspend"] = true.into();
        let replaced = cluster.replace(&job(1), "1", false).await.expect("should answer");
        assert_eq!((replaced, api.job().spec.suspend), (Replaced::Done, true));
        // A mark that was left behind goes with the next write.
        api.held()["spec"]["suspend"] = false.into();
        api.held()["metadata"]["annotations"][names::ANNOTATION_SUSPENDED_TO_GROW] = "true".into();
        cluster.replace(&job(0), &api.version(), false).await.expect("should answer");
        assert!(!api.job().annotations().contains_key(names::ANNOTATION_SUSPENDED_TO_GROW));
    }

    /// The API server would be asked for something else, or not at all.
    #[tokio::test]
    async fn what_cannot_be_a_name_in_a_path_ends_the_row_and_is_not_asked_for() {
        let (_, cluster) = Api::start().await;
        for (namespace, name) in
            [("lab", "../gromacs-7-1"), ("lab", "A B"), ("../lab", "gromacs-7-1"), ("lab?a", "gromacs-7-1")]
        {
            let read = cluster.job(namespace, name).await.expect_err("should not be asked for");
            let deleted = cluster.delete(namespace, name, "uid").await.expect_err("should not be asked for");
            for error in [read, deleted] {
                assert!(error.is_final(scavenger_schema::simulation::State::Queued), "{error}");
                assert!(error.to_string().contains("cannot exist"), "{error}");
            }
        }
        let mut changes = Box::pin(cluster.changed_rows("../lab", "queue"));
        let changed = changes.next().await;
        assert!(changed.is_some_and(|change| change.is_err()), "it says so once");
    }

    #[tokio::test]
    async fn what_is_refused_ends_the_growth_and_nothing_else() {
        let (api, cluster) = Api::start().await;
        for code in [403, 422] {
            api.refuses(Some(code));
            let refused = Replaced::Refused("denied".to_owned());
            let suspended = cluster.suspend("lab", "gromacs-7-1", "1").await.expect("should answer");
            assert_eq!(suspended, refused, "{code}");
            let replaced = cluster.replace(&job(1), "1", true).await.expect("should answer");
            assert_eq!(replaced, refused, "{code}");
        }
        // It may pass: what is suspended is resumed as soon as that is allowed.
        let resumed = cluster.resume("lab", "gromacs-7-1", "1").await;
        assert!(
            resumed.is_err_and(|error| !error.is_final(scavenger_schema::simulation::State::Interrupted))
        );
    }
}
