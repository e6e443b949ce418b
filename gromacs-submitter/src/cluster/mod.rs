//! All requests to Kubernetes: ScavengerJobs, the pool, logs, and the pod with which people read a volume.

mod access;
mod account;
mod exec;
mod logs;
mod memory;
mod missing;
mod volume_pod;
mod write;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::{AsyncBufRead, Stream, StreamExt};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{ListParams, LogParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use scavenger_program::objects::{Objects, wrong_name};
use scavenger_schema::names;
use scavenger_schema::scavenger_job::ScavengerJob;
use scavenger_schema::scavenger_pool::ScavengerPool;
use scavenger_schema::simulation::State;

pub use self::access::{Access, AccessError};
pub use self::account::{ApiServer, CHEMIST_ROLE, Login, account_of, kubeconfig};
pub use self::exec::{Ended, Exec, ExecError};
pub use self::logs::LogPart;
use self::missing::Missing;
pub use self::volume_pod::{
    Mount, Placement, Purpose, Readiness, VolumePod, placement, readiness, volume_pod,
};
pub use self::write::Replaced;
use crate::config::Kubernetes;
use crate::faults::{Meaning, of_api_server};
use crate::manifest::{row_of, selector_of_queue};
use crate::text::root_cause;

/// The container of a pod that runs what the ScavengerJob says.
const MAIN_CONTAINER: &str = "main";

/// Longest time for one request. A lease outlives several of them.
const TIMEOUT: Duration = Duration::from_secs(15);

/// How long one look at the pool serves all rows: it changes every 5 seconds at most.
const POOL_SERVES: Duration = Duration::from_secs(1);

/// So many lines are read of a log while it grows: the newest progress is in the last two.
const LOG_PROGRESS_LINES: i64 = 2;

/// Why Kubernetes did not do it. A refusal names its object; whether it is final depends on the row's state.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No cluster is configured.
    #[error("no Kubernetes cluster is configured: {0}")]
    FindCluster(String),
    /// It refuses, and will refuse the same request again.
    #[error(
        "Kubernetes refuses to {act} {name} in namespace {namespace}: {message}{}",
        remedy(*code, message, namespace)
    )]
    Allow {
        /// What was asked.
        act: &'static str,
        /// The object.
        name: String,
        /// Its namespace.
        namespace: String,
        /// HTTP status.
        code: u16,
        /// The API server's words.
        message: String,
    },
    /// It did not answer in time.
    #[error("Kubernetes did not {act} {name} within {} s", TIMEOUT.as_secs())]
    AnswerInTime {
        /// What was asked.
        act: &'static str,
        /// The object.
        name: String,
    },
    /// Anything else; asking again may help.
    #[error("Kubernetes cannot {act} {name}: {}", root_cause(source))]
    Request {
        /// What was asked.
        act: &'static str,
        /// The object.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// What an admin must do where the submitter has no rights; a quota says the same 403 in other words.
fn remedy(code: u16, message: &str, namespace: &str) -> String {
    // What is refused with another status is refused for what it is.
    if code != FORBIDDEN {
        return String::new();
    }
    match of_api_server(message) {
        Meaning::NoRight => format!(
            "; the submitter has no rights in this namespace: let an admin run `kubectl apply --server-side -k \
             deploy/tenant --namespace {namespace}`, and the row then continues on its own"
        ),
        Meaning::Denied => {
            "; ask an admin whether the row or that rule is wrong: once it is allowed, the row continues on its own".to_owned()
        }
        _ => String::new(),
    }
}

/// What [`ClusterError::Allow`] calls the making of an object.
const CREATE: &str = "create";

/// HTTP status of what the submitter may not do, or what a rule of the cluster forbids. Rights and rules change, and a
/// tool that applies them again takes them away for a moment.
const FORBIDDEN: u16 = 403;

impl ClusterError {
    /// True if the row cannot go on without a person.
    ///
    /// What is forbidden is tried again for as long as the row waits. Any other refusal is final only while the row has no
    /// ScavengerJob, or none that can start any more: a person who changes a limit for a minute must not fail simulations that are
    /// under way, and a row that failed must leave nothing behind that computes unseen.
    #[must_use]
    pub fn is_final(&self, state: State) -> bool {
        let Self::Allow { act, code, message, .. } = self else { return false };
        if matches!(of_api_server(message), Meaning::Quota | Meaning::NoRules) {
            return false;
        }
        match state {
            State::Completed | State::Failed | State::Cancelled => true,
            _ if *code == FORBIDDEN => false,
            State::Queued | State::Inspecting | State::Tuning => true,
            State::Submitted => *act == CREATE,
            State::Running | State::Interrupted => *act == CREATE && *code == 422,
        }
    }

    /// True if the cluster's rights or rules forbid it.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Allow { code, .. } if *code == FORBIDDEN)
    }
}

/// The pool as it was read last, and when.
type PoolRead = (Instant, Option<ScavengerPool>);

/// The cluster.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    pool: Arc<tokio::sync::Mutex<Option<PoolRead>>>,
    metrics_missing: Arc<Mutex<Missing>>,
}

impl Cluster {
    /// Connects to the cluster that KUBECONFIG or the pod's service account names. No request is made.
    ///
    /// # Errors
    /// If neither is there.
    pub async fn connect() -> Result<Self, ClusterError> {
        Self::connect_to(&Kubernetes::default()).await
    }

    /// The same, unless the user names a kubeconfig or a context.
    ///
    /// # Errors
    /// If it is not there.
    pub async fn connect_to(kubernetes: &Kubernetes) -> Result<Self, ClusterError> {
        Ok(Self::with_client(client(config(kubernetes).await?)?))
    }

    /// The cluster behind a connection.
    #[must_use]
    pub fn with_client(client: Client) -> Self {
        Self { client, pool: Arc::default(), metrics_missing: Arc::default() }
    }

    fn jobs(&self, namespace: &str) -> Objects<ScavengerJob> {
        Objects::namespaced(self.client.clone(), namespace)
    }

    fn pods(&self, namespace: &str) -> Objects<Pod> {
        Objects::namespaced(self.client.clone(), namespace)
    }

    /// Reads a ScavengerJob.
    ///
    /// # Errors
    /// [`ClusterError`]; its absence is none.
    pub async fn job(&self, namespace: &str, name: &str) -> Result<Option<ScavengerJob>, ClusterError> {
        within("read", namespace, name, self.jobs(namespace).get_opt(name)).await
    }

    /// Reads the pool; many rows that ask at the same time share one request.
    ///
    /// # Errors
    /// [`ClusterError`]; its absence is none.
    pub async fn pool(&self) -> Result<Option<ScavengerPool>, ClusterError> {
        let mut known = self.pool.lock().await;
        if let Some((_, pool)) = known.as_ref().filter(|(read, _)| read.elapsed() < POOL_SERVES) {
            return Ok(pool.clone());
        }
        let pools: Objects<ScavengerPool> = Objects::all(self.client.clone());
        let request = pools.get_opt(names::DEFAULT_POOL);
        let pool = within("read the ScavengerPool", "", names::DEFAULT_POOL, request).await?;
        *known = Some((Instant::now(), pool.clone()));
        Ok(pool)
    }

    /// The quotas of a namespace; none if the submitter may not read them.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn quotas(&self, namespace: &str) -> Result<Option<Vec<ResourceQuota>>, ClusterError> {
        let quotas: Objects<ResourceQuota> = Objects::namespaced(self.client.clone(), namespace);
        let request = async {
            match quotas.list(&ListParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
                result => result.map(|list| Some(list.items)),
            }
        };
        within("read the quotas of", "", namespace, request).await
    }

    /// Name of the pod of an attempt.
    async fn pod_of(
        &self,
        namespace: &str,
        job: &ScavengerJob,
        attempt: i32,
    ) -> Result<Option<String>, kube::Error> {
        let list = self.pods(namespace).list_metadata(&pod_of_attempt(job, attempt)).await?;
        Ok(list.items.first().map(ResourceExt::name_any))
    }

    /// The image that an attempt's pod runs, as the node names it; none if the pod is gone, or the node says nothing.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn image_id(
        &self,
        namespace: &str,
        job: &ScavengerJob,
        attempt: i32,
    ) -> Result<Option<String>, ClusterError> {
        let request = async {
            let list = self.pods(namespace).list(&pod_of_attempt(job, attempt)).await?;
            let statuses = list.items.into_iter().filter_map(|pod| pod.status?.container_statuses).flatten();
            let main = statuses.into_iter().find(|status| status.name == MAIN_CONTAINER);
            Ok(main.map(|status| status.image_id).filter(|image| !image.is_empty()))
        };
        within("read the image of", namespace, &job.name_any(), request).await
    }

    /// The log of an attempt's pod from its newest lines on, as it grows; none if the pod is gone.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn follow(
        &self,
        namespace: &str,
        job: &ScavengerJob,
        attempt: i32,
    ) -> Result<Option<impl AsyncBufRead + Send + use<>>, ClusterError> {
        let pods = self.pods(namespace);
        let request = async {
            let Some(pod) = self.pod_of(namespace, job, attempt).await? else { return Ok(None) };
            let parameters =
                LogParams { follow: true, tail_lines: Some(LOG_PROGRESS_LINES), ..LogParams::default() };
            match pods.log_stream(&pod, &parameters).await {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 400 => Ok(None),
                result => result.map(Some),
            }
        };
        within("follow the log of", namespace, &job.name_any(), request).await
    }

    /// Rows of this queue whose ScavengerJobs in `namespace` changed. The stream goes on forever; errors are in it
    /// and heal by themselves.
    pub fn changed_rows(
        &self,
        namespace: &str,
        queue_id: &str,
    ) -> impl Stream<Item = Result<i64, watcher::Error>> + Send + use<> {
        let config = watcher::Config::default().labels(&selector_of_queue(queue_id));
        let events = match self.jobs(namespace).unnamed() {
            Ok(jobs) => watcher(jobs.clone(), config).default_backoff().left_stream(),
            // Nothing changes where nothing can be; that is said once.
            Err(error) => {
                let error = Err(watcher::Error::InitialListFailed(error));
                futures::stream::iter([error]).chain(futures::stream::pending()).right_stream()
            }
        };
        events.filter_map(|event| async {
            match event {
                Ok(
                    watcher::Event::Apply(job) | watcher::Event::InitApply(job) | watcher::Event::Delete(job),
                ) => row_of(job.labels()).map(Ok),
                Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                Err(error) => Some(Err(error)),
            }
        })
    }
}

/// Where the cluster is, and as whom it is spoken to.
async fn config(kubernetes: &Kubernetes) -> Result<kube::Config, ClusterError> {
    let options = KubeConfigOptions { context: kubernetes.context.clone(), ..KubeConfigOptions::default() };
    let config = match (&kubernetes.kubeconfig, &kubernetes.context) {
        (None, None) => kube::Config::infer().await.map_err(|error| error.to_string()),
        (None, Some(_)) => kube::Config::from_kubeconfig(&options).await.map_err(|error| error.to_string()),
        (Some(path), _) => match Kubeconfig::read_from(path) {
            Ok(file) => kube::Config::from_custom_kubeconfig(file, &options).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        },
    };
    config.map_err(ClusterError::FindCluster)
}

fn client(config: kube::Config) -> Result<Client, ClusterError> {
    Client::try_from(config).map_err(|error| ClusterError::FindCluster(error.to_string()))
}

/// Selects the pod of an attempt.
fn pod_of_attempt(job: &ScavengerJob, attempt: i32) -> ListParams {
    let uid = job.uid().unwrap_or_default();
    ListParams::default().labels(&format!(
        "{}={uid},{}={attempt}",
        names::LABEL_JOB_UID,
        names::LABEL_ATTEMPT
    ))
}

async fn within<T>(
    act: &'static str,
    namespace: &str,
    name: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClusterError> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Err(_) => Err(ClusterError::AnswerInTime { act, name: name.to_owned() }),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if wrong_name(&error).is_some() => {
            let message = wrong_name(&error).unwrap_or_default().to_owned();
            let (name, namespace) = (name.to_owned(), namespace.to_owned());
            // As the API server would say it of what was asked for.
            Err(ClusterError::Allow { act, name, namespace, code: 422, message })
        }
        // 403 no right, 404 no namespace (an absent object is handled before), 422 the object is refused.
        Ok(Err(kube::Error::Api(status)))
            if matches!(status.code, 403 | 404 | 422) && !namespace.is_empty() =>
        {
            Err(ClusterError::Allow {
                act,
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                code: status.code,
                message: status.message.clone(),
            })
        }
        Ok(Err(source)) => {
            Err(ClusterError::Request { act, name: name.to_owned(), source: Box::new(source) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(act: &'static str, code: u16, message: &str) -> ClusterError {
        ClusterError::Allow {
            act,
            name: "gromacs-7-1".to_owned(),
            namespace: "lab".to_owned(),
            code,
            message: message.to_owned(),
        }
    }

    /// What a GitOps tool does that deletes a RoleBinding and makes it again.
    #[test]
    fn a_missing_right_fails_no_row_whatever_it_does() {
        for message in [
            "pods is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \"pods\" in API group \"\" in the \
             namespace \"lab\"",
            "admission webhook \"rules.example.com\" denied the request: label team is missing",
        ] {
            for state in State::ALL.into_iter().filter(|state| !state.is_final()) {
                for act in ["read", "replace", CREATE] {
                    let error = refused(act, 403, message);
                    assert!(!error.is_final(state), "{act} {state}");
                    assert!(error.to_string().ends_with("continues on its own"), "{error}");
                }
            }
            assert!(
                refused("delete", 403, message).is_final(State::Completed),
                "its remains are left behind"
            );
        }
    }

    #[test]
    fn what_is_refused_for_what_it_is_fails_no_simulation_that_is_under_way() {
        let read = refused("read", 404, "no");
        assert!(read.is_final(State::Inspecting) && read.is_final(State::Completed));
        // Its ScavengerJob may be there, and would run unseen.
        for state in [State::Submitted, State::Running, State::Interrupted] {
            assert!(!read.is_final(state) && !refused("replace", 422, "no").is_final(state), "{state}");
        }
        let create = |code| refused(CREATE, code, "no");
        assert!(create(422).is_final(State::Submitted) && !create(404).is_final(State::Running));
        assert!(create(422).is_final(State::Running));
        // The policy that checks ScavengerJobs says with 422 what no row may ask for.
        let limit = "scavengerjobs.scavenger.dev \"gromacs-7-1\" is forbidden: ValidatingAdmissionPolicy 'scavengerjob-limits' \
                     with binding 'scavengerjob-limits' denied request: spec.interruptionAfter: at most 2h";
        let refused = refused(CREATE, 422, limit);
        assert!(refused.is_final(State::Tuning) && refused.to_string().ends_with("at most 2h"), "{refused}");
    }

    #[test]
    fn what_the_whole_queue_is_refused_for_fails_no_row() {
        for message in [
            "scavengerjobs.scavenger.dev \"gromacs-7-1\" is forbidden: exceeded quota: objects, requested: \
             count/scavengerjobs.scavenger.dev=1, used: count/scavengerjobs.scavenger.dev=50, limited: \
             count/scavengerjobs.scavenger.dev=50",
            "ValidatingAdmissionPolicy 'scavengerjob-limits' with binding 'scavengerjob-limits-create' denied request: \
             failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            "ValidatingAdmissionPolicy 'scavengerjob-limits' with binding 'scavengerjob-limits' denied request: \
             spec.tolerations: the ScavengerPool has no 'nvidia.com/gpu' in toleratedTaints",
        ] {
            for code in [403, 422] {
                assert!(!refused(CREATE, code, message).is_final(State::Inspecting), "{message}");
            }
        }
    }

    fn sentence_of(message: &str) -> String {
        ClusterError::Allow {
            act: "read",
            name: "gromacs-7-inspect".to_owned(),
            namespace: "chem".to_owned(),
            code: 403,
            message: message.to_owned(),
        }
        .to_string()
    }

    #[test]
    fn a_namespace_that_is_not_bound_says_what_to_do() {
        let sentence = sentence_of(
            "scavengerjobs.scavenger.dev \"gromacs-7-inspect\" is forbidden: User \"system:serviceaccount:scavenger-system:gromacs-submitter\" cannot get resource \"scavengerjobs\" in API group \"scavenger.dev\" in the namespace \"chem\"",
        );
        assert!(
            sentence.contains("kubectl apply --server-side -k deploy/tenant --namespace chem"),
            "{sentence}"
        );
        let quota =
            sentence_of("scavengerjobs.scavenger.dev \"gromacs-7-1\" is forbidden: exceeded quota: jobs");
        assert!(!quota.contains("deploy/tenant"), "{quota}");
    }
}
