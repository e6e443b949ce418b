//! Writes to the cluster: one function for each task of the planner. Each is idempotent, and none chooses anything.
//!
//! A start costs three writes: status Starting, the Job, status Running. Extra are the headless Service of a gang and the
//! finalizer where nobody has set it (each once in a ScavengerJob's life), and events.
//!
//! | module | does |
//! |---|---|
//! | `start` | what a start needs: finalizer, live list, references, Service, Job |
//! | `status` | writes a status over the version that was judged |
//! | `removal` | interrupts pods, deletes Jobs and ScavengerJobs, takes the finalizer off |
//! | `reads` | live reads: pods, Jobs, and what others' events say about them |
//! | `events` | publishes the operator's own events |
//! | `kept` | what one step of a start hands to the next |
//! | `found` | what was found to exist a moment ago |
//! | `errors` | what an answer of the API server means |

mod errors;
mod events;
mod found;
mod kept;
mod reads;
mod record;
mod removal;
mod start;
mod status;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Client, Resource, ResourceExt, api::GetParams};
use scavenger_planner::{
    action::{Action, ActionResult, Answer, Failure, Task},
    values::Key,
};
use scavenger_program::objects::Objects;
use scavenger_schema::{names, scavenger_job::ScavengerJob, terminal::shown};
use tokio::sync::watch;
use tracing::warn;

pub(crate) use self::errors::failure;
use self::{events::Events, found::Found, kept::Kept, start::Wanted};
use crate::{evict::Evictor, forecast::Forecasts, leader::Leadership, manifest, metrics::Metrics};

/// Longest time that one task may take. What takes longer failed, as far as the planner is concerned; since every task
/// is idempotent, one that was carried out after all is found when it is tried again.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Carries out tasks.
pub(crate) struct Executor {
    client: Client,
    /// Sends a request once: a Job must not be sent again when the Lease may have run out.
    once: Client,
    leadership: watch::Receiver<Leadership>,
    evictor: Evictor,
    events: Events,
    metrics: Arc<Metrics>,
    /// When those that wait are expected to start.
    pub(crate) forecasts: Arc<Forecasts>,
    manifests: manifest::Settings,
    kept: Kept,
    found: Found,
}

type Outcome = Result<Answer, Failure>;

impl Executor {
    pub(crate) fn new(
        client: Client,
        once: Client,
        leadership: watch::Receiver<Leadership>,
        metrics: Arc<Metrics>,
        manifests: manifest::Settings,
    ) -> Self {
        let events = Events::start(client.clone(), Arc::clone(&metrics));
        let evictor = Evictor::new(once.clone(), names::OPERATOR);
        Self {
            client,
            once,
            leadership,
            evictor,
            events,
            metrics,
            forecasts: Arc::default(),
            manifests,
            kept: Kept::default(),
            found: Found::default(),
        }
    }

    /// Refuses to begin an attempt when another replica may lead. Asked right before the write: a process may be frozen
    /// between any two of its steps, and by the time it goes on the attempt may have ended under another leader.
    fn must_lead(&self) -> Result<(), Failure> {
        if self.leadership.borrow().holds(tokio::time::Instant::now()) {
            return Ok(());
        }
        Err(Failure::Transient(
            "the Lease was not renewed in time: another replica may lead by now".to_owned(),
        ))
    }

    /// Says whether actions wait for others to end.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.events.set_busy(busy);
    }

    /// Publishes the events of what was carried out, for so long at most.
    pub(crate) async fn finish(&self, bound: Duration) {
        self.events.flush(bound).await;
    }

    /// Carries out one action.
    pub(crate) async fn execute(&self, action: Action) -> ActionResult {
        let kind = task_name(&action.task);
        let Action { sj, uid, task } = action;
        let began = tokio::time::Instant::now();
        let answer = match tokio::time::timeout(TIMEOUT, self.carry_out(&sj, &uid, task)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Transient(format!("no answer within {} s", TIMEOUT.as_secs()))),
        };
        self.metrics.action(kind, &answer, began.elapsed());
        match &answer {
            Ok(_) | Err(Failure::Conflict | Failure::Gone) => {}
            Err(failure) => {
                let error = shown(&failure.to_string());
                warn!(namespace = %sj.namespace, name = %sj.name, task = kind, error, "action failed");
            }
        }
        ActionResult { sj, uid, time: now(), answer }
    }

    async fn carry_out(&self, sj: &Key, uid: &str, task: Task) -> Outcome {
        match task {
            Task::Prepare { resource_version } => self.prepare(sj, uid, resource_version).await,
            Task::WriteStatus(write) => self.write_status(sj, uid, *write).await,
            Task::CreateJob { attempt, priority_class, confinement, supervisor, by_use } => {
                let wanted = Wanted { attempt, priority_class, confinement, supervisor, by_use };
                self.create_job(sj, uid, wanted).await
            }
            Task::ReadJob { job, uid } => self.read_job(&job, &uid).await,
            Task::LookForJob { attempt } => self.look_for_job(sj, uid, attempt).await,
            Task::ListPods { job } => self.list_pods(sj, uid, job.as_ref()).await,
            Task::ReadPodEvents { pods } => self.read_pod_events(&pods).await,
            Task::DeleteScavengerJob { resource_version } => self.delete_sj(sj, uid, resource_version).await,
            Task::DeleteJob { job, uid } => self.delete_job(&job, &uid).await,
            Task::Interrupt { pods } => self.interrupt(pods).await,
            Task::DeleteAgain { pods } => self.delete_again(pods).await,
            Task::RemoveFinalizer { last } => self.remove_finalizer(sj, uid, last.as_deref()).await,
        }
    }

    fn api<K>(&self, key: &Key) -> Objects<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Objects::namespaced(self.client.clone(), &key.namespace)
    }

    /// The ScavengerJob, if it is still the one that was judged.
    async fn get(&self, key: &Key, uid: &str) -> Result<ScavengerJob, Failure> {
        self.get_since(key, uid, None).await
    }

    /// The same in this version or a newer one, if one is named: the API server has that at hand, and asks etcd for the
    /// newest.
    async fn get_since(&self, key: &Key, uid: &str, version: Option<u64>) -> Result<ScavengerJob, Failure> {
        let since = GetParams { resource_version: version.map(|version| version.to_string()) };
        let sj = self.api::<ScavengerJob>(key).get_with(&key.name, &since).await.map_err(failure)?;
        if sj.uid().as_deref() == Some(uid) { Ok(sj) } else { Err(Failure::Gone) }
    }
}

/// Name of a task as metrics and log spell it.
fn task_name(task: &Task) -> &'static str {
    match task {
        Task::Prepare { .. } => "prepare",
        Task::WriteStatus(_) => "write_status",
        Task::CreateJob { .. } => "create_job",
        Task::ReadJob { .. } | Task::LookForJob { .. } => "read_job",
        Task::ListPods { .. } => "list_pods",
        Task::ReadPodEvents { .. } => "read_pod_events",
        Task::DeleteScavengerJob { .. } => "delete_scavenger_job",
        Task::DeleteJob { .. } => "delete_job",
        Task::Interrupt { .. } => "interrupt",
        Task::DeleteAgain { .. } => "delete_again",
        Task::RemoveFinalizer { .. } => "remove_finalizer",
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: answers are stamped when they are made")]
fn now() -> Timestamp {
    Timestamp::now()
}
