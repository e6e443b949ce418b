//! Requests that users make with their own rights: for what the pods of a simulation printed, and for a pod that reads a
//! volume.

use std::fmt;

use futures::AsyncBufRead;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::api::{AttachParams, DeleteParams, ListParams, LogParams};
use kube::client::UpgradeConnectionError;
use kube::{Client, ResourceExt};
use scavenger_program::objects::Objects;
use scavenger_schema::names;
use scavenger_schema::scavenger_job::ScavengerJob;

use super::volume_pod::{LABEL_NAME, READER, WRITER};
use super::write::as_submitter;
use super::{Cluster, ClusterError, Exec, MAIN_CONTAINER, TIMEOUT};
use crate::config::Kubernetes;
use crate::manifest::selector_of_row;
use crate::text::root_cause;

/// Bytes of a command's input and output that wait here to be read. The client's own 1 kB would make each piece a round trip.
const BUFFER_BYTES: usize = 1 << 20;

/// What a request needs of RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To find pods.
    ListPods,
    /// To see how a pod is.
    GetPod,
    /// To read what it prints.
    ReadLog,
    /// To make one.
    CreatePod,
    /// To remove it.
    DeletePod,
    /// To run a command in it.
    Exec,
    /// To see which pods can mount a claim.
    GetClaim,
    /// To see what of a row is there, and which image it runs in.
    ListScavengerJobs,
    /// To make an account for a tenant.
    ApplyAccount,
    /// To give it rights.
    ApplyBinding,
    /// To log in as it.
    CreateToken,
}

impl Right {
    /// As a role names it.
    fn rule(self) -> &'static str {
        match self {
            Self::ListPods => "list pods",
            Self::GetPod => "get pods",
            Self::ReadLog => "get pods/log",
            Self::CreatePod => "create pods",
            Self::DeletePod => "delete pods",
            Self::Exec => "get and create pods/exec",
            Self::GetClaim => "get persistentvolumeclaims",
            Self::ListScavengerJobs => "list scavengerjobs.scavenger.dev",
            Self::ApplyAccount => "create and patch serviceaccounts",
            Self::ApplyBinding => "create and patch rolebindings.rbac.authorization.k8s.io",
            Self::CreateToken => "create serviceaccounts/token",
        }
    }

    /// What it is used for; the name of an object follows.
    fn act(self) -> &'static str {
        match self {
            Self::ListPods => "list the pods of",
            Self::GetPod => "read pod",
            Self::ReadLog => "read the log of pod",
            Self::CreatePod => "create pod",
            Self::DeletePod => "delete pod",
            Self::Exec => "run a command in pod",
            Self::GetClaim => "read PersistentVolumeClaim",
            Self::ListScavengerJobs => "list the ScavengerJobs of the row with the UUID",
            Self::ApplyAccount => "apply ServiceAccount",
            Self::ApplyBinding => "apply RoleBinding",
            Self::CreateToken => "make a token of ServiceAccount",
        }
    }

    /// The cluster's own role that has it.
    fn role(self) -> &'static str {
        match self {
            Self::ApplyAccount | Self::ApplyBinding | Self::CreateToken => "admin",
            _ => "edit",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.rule())
    }
}

/// Why Kubernetes did not do it for a user.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The user has no right to it.
    #[error(
        "you have no right to {right} in namespace {namespace} ({message}); ask its admin for the role {}, or for \
         the rights in docs/permissions.md",
        right.role()
    )]
    Allow {
        /// What is missing.
        right: Right,
        /// Where.
        namespace: String,
        /// The API server's words.
        message: String,
    },
    /// The cluster does not know the user any more.
    #[error(
        "the cluster does not accept the login of your kubeconfig any more ({0}); ask your admin for a new one (gromacs-submitter \
         tenant card)"
    )]
    LogIn(String),
    /// The rights that are to be given are defined nowhere.
    #[error(
        "the cluster has no ClusterRole gromacs-chemist; install the submitter of this version first (deploy/submitter)"
    )]
    FindRole,
    /// No user may do it, for example beyond a quota.
    #[error("Kubernetes refuses to {} {name} in namespace {namespace}: {message}", right.act())]
    Refuse {
        /// What was asked.
        right: Right,
        /// The object.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The API server's words.
        message: String,
    },
    /// It did not answer in time.
    #[error("Kubernetes did not {} {name} within {} s; is the cluster of your kubeconfig reachable?", right.act(), TIMEOUT.as_secs())]
    AnswerInTime {
        /// What was asked.
        right: Right,
        /// The object.
        name: String,
    },
    /// Anything else.
    #[error("Kubernetes cannot {} {name} in namespace {namespace}: {}", right.act(), root_cause(source))]
    Request {
        /// What was asked.
        right: Right,
        /// The object.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// A namespace with the rights of a user.
#[derive(Clone)]
pub struct Access {
    pub(super) client: Client,
    pub(super) namespace: String,
}

impl Access {
    /// The namespace in the cluster that the user names. No request is made.
    ///
    /// # Errors
    /// If there is no such kubeconfig or context.
    pub async fn connect(kubernetes: &Kubernetes, namespace: &str) -> Result<Self, ClusterError> {
        let cluster = Cluster::connect_to(kubernetes).await?;
        Ok(Self { client: cluster.client, namespace: namespace.to_owned() })
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn pods(&self) -> Objects<Pod> {
        Objects::namespaced(self.client.clone(), &self.namespace)
    }

    /// The ScavengerJobs that the row with this UUID has made, and that are there: those of its newest submission, of the one
    /// before for a moment, and of its probes.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn jobs_of(&self, uuid: &str) -> Result<Vec<ScavengerJob>, AccessError> {
        let jobs: Objects<ScavengerJob> = Objects::namespaced(self.client.clone(), &self.namespace);
        let parameters = ListParams::default().labels(&selector_of_row(uuid));
        Ok(self.ask(Right::ListScavengerJobs, uuid, jobs.list(&parameters)).await?.items)
    }

    /// The pods of these ScavengerJobs, and not those of others that had the same names.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn pods_of(&self, jobs: &[ScavengerJob]) -> Result<Vec<Pod>, AccessError> {
        let Some(first) = jobs.first() else { return Ok(Vec::new()) };
        let uids: Vec<String> = jobs.iter().filter_map(ResourceExt::uid).collect();
        let labels = format!("{} in ({})", names::LABEL_JOB_UID, uids.join(","));
        let parameters = ListParams::default().labels(&labels);
        Ok(self.ask(Right::ListPods, &first.name_any(), self.pods().list(&parameters)).await?.items)
    }

    /// What a pod printed, the last so many lines of it, as it grows if it is followed; none if it has printed nothing
    /// yet, or is gone.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn log(
        &self,
        pod: &str,
        follow: bool,
        lines: Option<u32>,
    ) -> Result<Option<impl AsyncBufRead + Send + use<>>, AccessError> {
        let parameters = LogParams {
            container: Some(MAIN_CONTAINER.to_owned()),
            follow,
            tail_lines: lines.map(i64::from),
            ..LogParams::default()
        };
        let pods = self.pods();
        let request = async {
            match pods.log_stream(pod, &parameters).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 400 => Ok(None),
                result => result.map(Some),
            }
        };
        self.ask(Right::ReadLog, pod, request).await
    }

    /// A PersistentVolumeClaim, if it is there.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn claim(&self, name: &str) -> Result<Option<PersistentVolumeClaim>, AccessError> {
        let claims: Objects<PersistentVolumeClaim> =
            Objects::namespaced(self.client.clone(), &self.namespace);
        self.ask(Right::GetClaim, name, claims.get_opt(name)).await
    }

    /// Pods that have not ended and mount a claim, each with its node.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn mounts(&self, claim: &str) -> Result<Vec<(String, String)>, AccessError> {
        let alive = ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        let name = format!("namespace {}", self.namespace);
        let pods = self.ask(Right::ListPods, &name, self.pods().list(&alive)).await?;
        let mounting = pods.items.into_iter().filter_map(|pod| {
            let name = pod.name_any();
            let spec = pod.spec?;
            let mounts = spec.volumes.iter().flatten().any(|volume| {
                volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == claim)
            });
            Some((name, spec.node_name?)).filter(|_| mounts)
        });
        Ok(mounting.collect())
    }

    /// Pods that read or wrote volumes and have ended.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn ended_pods(&self) -> Result<Vec<String>, AccessError> {
        let ours = ListParams::default().labels(&format!("{LABEL_NAME} in ({READER},{WRITER})"));
        let name = format!("namespace {}", self.namespace);
        let pods = self.ask(Right::ListPods, &name, self.pods().list(&ours)).await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let has_ended = |pod: &&Pod| matches!(phase(pod).as_deref(), Some("Succeeded" | "Failed"));
        Ok(pods.items.iter().filter(has_ended).map(ResourceExt::name_any).collect())
    }

    /// Makes a pod.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn create_pod(&self, pod: &Pod) -> Result<(), AccessError> {
        let pods = self.pods();
        self.ask(Right::CreatePod, &pod.name_any(), pods.create(&as_submitter(), pod)).await.map(|_| ())
    }

    /// A pod, if it is there.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn pod(&self, name: &str) -> Result<Option<Pod>, AccessError> {
        self.ask(Right::GetPod, name, self.pods().get_opt(name)).await
    }

    /// Deletes a pod.
    ///
    /// # Errors
    /// [`AccessError`]; its absence is none.
    pub async fn delete_pod(&self, name: &str) -> Result<(), AccessError> {
        let pods = self.pods();
        let parameters = DeleteParams::default();
        let request = async {
            match pods.delete(name, &parameters).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
                result => result.map(|_| ()),
            }
        };
        self.ask(Right::DeletePod, name, request).await
    }

    /// The newest warning about a pod. It is a help only: without the right to read events there is none.
    pub async fn warning(&self, pod: &str) -> Option<String> {
        let events: Objects<Event> = Objects::namespaced(self.client.clone(), &self.namespace);
        let about = format!("involvedObject.kind=Pod,involvedObject.name={pod},type=Warning");
        let parameters = ListParams::default().fields(&about);
        let listed = tokio::time::timeout(TIMEOUT, events.list(&parameters)).await.ok()?.ok()?;
        let time = |event: &Event| event.last_timestamp.as_ref().map(|time| time.0);
        listed.items.into_iter().max_by_key(time)?.message
    }

    /// Runs a command in a pod's container. With `takes_input` it reads what is sent to it.
    ///
    /// # Errors
    /// [`AccessError`] if it cannot be started.
    pub async fn exec(
        &self,
        pod: &str,
        container: &str,
        command: Vec<String>,
        takes_input: bool,
    ) -> Result<Exec, AccessError> {
        let parameters = AttachParams {
            container: Some(container.to_owned()),
            stdin: takes_input,
            max_stdin_buf_size: Some(BUFFER_BYTES),
            max_stdout_buf_size: Some(BUFFER_BYTES),
            ..AttachParams::default()
        };
        let process = self.ask(Right::Exec, pod, self.pods().exec(pod, command, &parameters)).await?;
        Ok(Exec::new(pod, process))
    }

    pub(super) async fn ask<T>(
        &self,
        right: Right,
        name: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, AccessError> {
        match tokio::time::timeout(TIMEOUT, request).await {
            Ok(result) => result.map_err(|error| self.refusal(right, name, error)),
            Err(_) => Err(AccessError::AnswerInTime { right, name: name.to_owned() }),
        }
    }

    fn refusal(&self, right: Right, name: &str, error: kube::Error) -> AccessError {
        let namespace = self.namespace.clone();
        let name = name.to_owned();
        match error {
            kube::Error::Api(status) if status.code == 401 => AccessError::LogIn(status.message.clone()),
            // A quota and Pod Security say the same 403 in other words.
            kube::Error::Api(status) if status.is_forbidden() && status.message.contains(" cannot ") => {
                AccessError::Allow { right, namespace, message: status.message.clone() }
            }
            kube::Error::Api(status) if matches!(status.code, 403 | 404 | 422) => {
                AccessError::Refuse { right, name, namespace, message: status.message.clone() }
            }
            // The answer to a request for a connection comes without its words.
            kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code))
                if code.as_u16() == 403 =>
            {
                AccessError::Allow { right, namespace, message: code.to_string() }
            }
            source => AccessError::Request { right, name, namespace, source: Box::new(source) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use axum::extract::Query;
    use axum::routing::get;
    use axum::{Json, Router};
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{client, ladder, manifest_settings, namesake, row, terms};
    use crate::manifest::simulation_job;

    fn forbidden(message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "Forbidden").with_code(403)))
    }

    #[tokio::test]
    async fn a_missing_right_is_named_and_a_quota_is_none() {
        let config = kube::Config::new("http://localhost:1".parse().expect("should be an address"));
        let client = Client::try_from(config).expect("should make a client");
        let access = Access { client, namespace: "chem".to_owned() };
        let message = "pods is forbidden: User \"alice\" cannot create resource \"pods\" in API group \"\" in the \
                       namespace \"chem\"";
        let sentence = access.refusal(Right::CreatePod, "reader", forbidden(message)).to_string();
        assert!(
            sentence.starts_with("you have no right to create pods in namespace chem (pods is forbidden: "),
            "{sentence}"
        );
        assert!(sentence.contains("ask its admin for the role edit"), "{sentence}");
        let quota = "pods \"reader\" is forbidden: exceeded quota: objects";
        assert_eq!(
            access.refusal(Right::CreatePod, "reader", forbidden(quota)).to_string(),
            format!("Kubernetes refuses to create pod reader in namespace chem: {quota}")
        );
        let sentence = access.refusal(Right::ApplyBinding, "alice", forbidden(message)).to_string();
        assert!(sentence.contains("ask its admin for the role admin"), "{sentence}");
        let ended = Status::failure("Unauthorized", "Unauthorized").with_code(401);
        let sentence = access.refusal(Right::GetPod, "reader", kube::Error::Api(Box::new(ended))).to_string();
        assert!(sentence.contains("(Unauthorized); ask your admin for a new one"), "{sentence}");
    }

    /// A list of what has the labels that are asked for; a label may have one of several values.
    fn having(labels: &str, objects: impl IntoIterator<Item = Value>) -> Json<Value> {
        let (label, values) = match labels.split_once('=') {
            Some((label, value)) => (label, vec![value]),
            None => {
                let (label, values) = labels.split_once(" in (").expect("should be a selector");
                (label, values.trim_end_matches(')').split(',').collect())
            }
        };
        let has = |object: &Value| {
            let value = object["metadata"]["labels"][label].as_str();
            value.is_some_and(|value| values.contains(&value))
        };
        let items: Vec<Value> = objects.into_iter().filter(has).collect();
        Json(json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": items }))
    }

    #[tokio::test]
    async fn the_pods_of_another_row_of_the_same_number_are_not_found() {
        let made = |row, uid: &str| {
            let mut job = simulation_job(row, &ladder()[0], &manifest_settings(), &terms());
            (job.metadata.uid, job.spec.image) = (Some(uid.to_owned()), format!("image-of-{uid}"));
            serde_json::to_value(job).expect("should be JSON")
        };
        let jobs = [made(&row(), "mine"), made(&namesake(), "its")];
        let pods = ["mine", "its"].map(|uid| {
            json!({ "metadata": { "name": format!("pod-of-{uid}"),
                "labels": { "scavenger.dev/job": "gromacs-7-1", "scavenger.dev/job-uid": uid } } })
        });
        let asked = |Query(asked): Query<HashMap<String, String>>| async move {
            asked.get("labelSelector").cloned().unwrap_or_default()
        };
        let router = Router::new()
            .route(
                "/apis/scavenger.dev/v1alpha1/namespaces/lab/scavengerjobs",
                get(move |query| async move { having(&asked(query).await, jobs) }),
            )
            .route(
                "/api/v1/namespaces/lab/pods",
                get(move |query| async move { having(&asked(query).await, pods) }),
            );
        let access = Access { client: client(router).await, namespace: "lab".to_owned() };
        for (row, uid) in [(row(), "mine"), (namesake(), "its")] {
            let jobs = access.jobs_of(&row.uuid).await.expect("should be listed");
            let images: Vec<&str> = jobs.iter().map(|job| job.spec.image.as_str()).collect();
            assert_eq!(images, [format!("image-of-{uid}")]);
            let pods = access.pods_of(&jobs).await.expect("should be listed");
            assert_eq!(pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), [format!("pod-of-{uid}")]);
        }
        let none = access.jobs_of("0a1b2c3d-2222-4222-8222-222222222227").await.expect("should be listed");
        assert!(none.is_empty() && access.pods_of(&none).await.expect("should not be asked").is_empty());
    }

    #[test]
    fn rights_are_spelled_as_in_a_role() {
        assert_eq!(Right::Exec.to_string(), "get and create pods/exec");
        assert_eq!(Right::ReadLog.to_string(), "get pods/log");
    }
}
