//! Writes to the cluster: one function for each task of the planner. Each is idempotent, and none chooses anything.
//!
//! A start costs three writes: status Starting, the Job, status Running. Extra are the headless Service of a gang and the
//! finalizer where nobody has set it (each once in a ScavengerJob's life), and events.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{
        ConfigMap, Event as CoreEvent, ObjectReference, PersistentVolumeClaim, Pod as ApiPod, Service,
        ServiceAccount,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
    runtime::events::{Event as ApiEvent, EventType, Recorder, Reporter},
};
use scavenger_planner::{
    action::{Action, ActionResult, Answer, Event, Failure, PodEvent, StatusWrite, Task},
    refusal::{self, Refusal},
    snapshot::{JobStatus, Key, Name, Phase},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::{evict::Evictor, leader::Leadership, manifest, metrics::Metrics, observe::convert, status};

/// Longest time that one task may take. What takes longer failed, as far as the planner is concerned; since every task
/// is idempotent, one that was carried out after all is found when it is tried again.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Longest note of an event, in characters; the API allows 1 kB, and a character may take up to 4 bytes.
const MAX_NOTE: usize = 250;

/// Events that may wait to be published. More are dropped and counted: an event is news, the status is the truth.
const EVENTS: usize = 10_000;

/// Longest time that an event waits for the rest of the work to be done. While much is to be done, events come at this
/// pace: the API server is better used for starts.
const EVENT_PATIENCE: Duration = Duration::from_millis(100);

/// Events that are published at the same time.
const EVENTS_AT_ONCE: usize = 4;

/// Longest message of somebody else's event that goes on into a status, in bytes.
const MAX_EVENT: usize = 1024;

/// Longest time between the kubelet's summaries of what is not mounted, and between its tries to mount one volume: each
/// takes 2 min and 3 s.
const SUMMARY_EVERY: SignedDuration = SignedDuration::from_secs(150);

/// ScavengerJobs kept from one step of their start to the next. Where more start at the same time, some are read again.
const KEPT: usize = 1024;

/// Carries out tasks.
pub(crate) struct Executor {
    client: Client,
    /// Sends a request once: a Job must not be sent again when the Lease may have run out.
    once: Client,
    leadership: watch::Receiver<Leadership>,
    evictor: Evictor,
    events: mpsc::Sender<(ApiEvent, ObjectReference)>,
    busy: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    /// By UID: what one step of a start got back and the next one needs. Losing it costs a read.
    starting: Mutex<BTreeMap<String, ScavengerJob>>,
}

type Outcome = Result<Answer, Failure>;

impl Executor {
    pub(crate) fn new(
        client: Client,
        once: Client,
        leadership: watch::Receiver<Leadership>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (events, queued) = mpsc::channel(EVENTS);
        let busy = watch::Sender::new(false);
        tokio::spawn(publish(client.clone(), queued, busy.subscribe(), Arc::clone(&metrics)));
        let evictor = Evictor::new(once.clone(), names::OPERATOR);
        Self { client, once, leadership, evictor, events, busy, metrics, starting: Mutex::default() }
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
        self.busy.send_if_modified(|was| std::mem::replace(was, busy) != busy);
    }

    /// Carries out one action.
    pub(crate) async fn execute(&self, action: Action) -> ActionResult {
        let kind = task_name(&action.task);
        let Action { job, uid, task } = action;
        let began = tokio::time::Instant::now();
        let answer = match tokio::time::timeout(TIMEOUT, self.carry_out(&job, &uid, task)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Transient(format!("no answer within {} s", TIMEOUT.as_secs()))),
        };
        self.metrics.action(kind, &answer, began.elapsed());
        match &answer {
            Ok(_) | Err(Failure::Conflict | Failure::Gone) => {}
            Err(failure) => {
                warn!(namespace = %job.namespace, name = %job.name, task = kind, error = %failure, "action failed");
            }
        }
        ActionResult { job, uid, time: now(), answer }
    }

    async fn carry_out(&self, job: &Key, uid: &str, task: Task) -> Outcome {
        match task {
            Task::Prepare { resource_version } => self.prepare(job, uid, resource_version).await,
            Task::WriteStatus(write) => self.write_status(job, uid, *write).await,
            Task::CreateChild { attempt, priority_class } => {
                self.create_child(job, uid, attempt, priority_class).await
            }
            Task::ReadChild { child, uid } => self.read_child(&child, &uid).await,
            Task::ListPods { child } => self.list_pods(job, uid, child.as_ref()).await,
            Task::ReadPodEvents { pods } => self.read_pod_events(&pods).await,
            Task::DeleteJob { resource_version } => self.delete_job(job, uid, resource_version).await,
            Task::DeleteChild { child, uid } => self.delete_child(&child, &uid).await,
            Task::Interrupt { pods } => self.interrupt(pods).await,
            Task::RemoveFinalizer => self.remove_finalizer(job, uid).await,
        }
    }

    fn api<K>(&self, key: &Key) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    /// The ScavengerJob, if it is still the one that was judged.
    async fn get(&self, key: &Key, uid: &str) -> Result<ScavengerJob, Failure> {
        self.get_since(key, uid, None).await
    }

    /// The same in this version or a newer one, if one is named: the API server has that at hand, and asks etcd for the
    /// newest.
    async fn get_since(&self, key: &Key, uid: &str, version: Option<u64>) -> Result<ScavengerJob, Failure> {
        let since = GetParams { resource_version: version.map(|version| version.to_string()) };
        let job = self.api::<ScavengerJob>(key).get_with(&key.name, &since).await.map_err(failure)?;
        if job.uid().as_deref() == Some(uid) { Ok(job) } else { Err(Failure::Gone) }
    }

    async fn prepare(&self, key: &Key, uid: &str, version: u64) -> Outcome {
        let mut job = self.get_since(key, uid, Some(version)).await?;
        if !job.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER) {
            let mut finalizers = job.finalizers().to_vec();
            finalizers.push(names::FINALIZER.to_owned());
            job = self.patch_finalizers(&job, key, finalizers).await?;
        }
        // Nothing can be left of attempts if none was ever begun: each is in the status before its Job is made.
        let is_first = job.status.as_ref().is_none_or(|status| status.attempt.is_none());
        let pods_left = async { if is_first { Ok(0) } else { self.pods_left(key, uid).await } };
        let (pods_left, missing) = tokio::try_join!(pods_left, self.missing(key, &job))?;
        let answer = Answer::Prepared { job: Box::new(convert::job(&job)), pods_left, missing };
        self.keep(job);
        Ok(answer)
    }

    fn starting(&self) -> MutexGuard<'_, BTreeMap<String, ScavengerJob>> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, job: ScavengerJob) {
        let Some(uid) = job.uid() else { return };
        let mut starting = self.starting();
        if starting.len() >= KEPT {
            // Starts that came to nothing.
            starting.clear();
        }
        starting.insert(uid, job);
    }

    /// What the step before kept, if it did.
    fn take_kept(&self, uid: &str) -> Option<ScavengerJob> {
        self.starting().remove(uid)
    }

    /// The ScavengerJob in the version that was judged, as the step before kept it, or read again: then it may be newer.
    async fn kept(&self, key: &Key, uid: &str, version: u64) -> Result<ScavengerJob, Failure> {
        match self.take_kept(uid).filter(|job| convert::resource_version(job) == version) {
            Some(job) => Ok(job),
            None => self.get_since(key, uid, Some(version)).await,
        }
    }

    async fn patch_finalizers(
        &self,
        job: &ScavengerJob,
        key: &Key,
        finalizers: Vec<String>,
    ) -> Result<ScavengerJob, Failure> {
        // The resourceVersion makes this a compare-and-swap: a merge patch replaces the whole list.
        let patch =
            json!({ "metadata": { "resourceVersion": job.resource_version(), "finalizers": finalizers } });
        self.api::<ScavengerJob>(key)
            .patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(failure)
    }

    async fn live_pods(&self, key: &Key, uid: &str) -> Result<kube::core::ObjectList<ApiPod>, Failure> {
        // Without a resourceVersion the API server answers with the newest state, not from its cache's past.
        self.api::<ApiPod>(key)
            .list(&ListParams::default().labels(&manifest::selector(uid)))
            .await
            .map_err(failure)
    }

    /// Pods of the ScavengerJob that have not ended. Phases Succeeded and Failed are final: the kubelet reports them
    /// only once every container has ended.
    async fn pods_left(&self, key: &Key, uid: &str) -> Result<u32, Failure> {
        let pods = self.live_pods(key, uid).await?;
        let left = pods.iter().filter(|pod| !convert::pod(pod).phase.is_terminal()).count();
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// What the spec refers to and does not exist. Secrets are not looked up: the right to see whether one exists is
    /// the right to read it. The kubelet tells.
    async fn missing(&self, key: &Key, job: &ScavengerJob) -> Result<Vec<(String, String)>, Failure> {
        let mut missing = Vec::new();
        for claim in &job.spec.persistent_volume_claims {
            self.look::<PersistentVolumeClaim>(key, &claim.claim_name, &mut missing).await?;
        }
        let of_variables = job.spec.env.iter().filter_map(|variable| {
            let key = variable.value_from.as_ref()?.config_map_key_ref.as_ref()?;
            (key.optional != Some(true)).then_some(&key.name)
        });
        for map in job.spec.config_maps.iter().map(|map| &map.name).chain(of_variables) {
            self.look::<ConfigMap>(key, map, &mut missing).await?;
        }
        self.look::<ServiceAccount>(key, manifest::service_account(&job.spec), &mut missing).await?;
        Ok(missing)
    }

    async fn look<K>(&self, key: &Key, name: &str, missing: &mut Vec<(String, String)>) -> Result<(), Failure>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let entry = (K::kind(&K::DynamicType::default()).into_owned(), name.to_owned());
        if missing.contains(&entry) {
            return Ok(());
        }
        // What the API server has at hand may be a moment old. If it goes that very moment, the pod will tell; that it is
        // missing must be true.
        let api = self.api::<K>(key);
        let at_hand = api.get_metadata_opt_with(name, &GetParams::any()).await.map_err(failure)?;
        if at_hand.is_none() && api.get_metadata_opt(name).await.map_err(failure)?.is_none() {
            missing.push(entry);
        }
        Ok(())
    }

    async fn write_status(&self, key: &Key, uid: &str, write: StatusWrite) -> Outcome {
        let StatusWrite { resource_version, status: new, ended, event } = write;
        let mut job = self.kept(key, uid, resource_version).await?;
        if convert::resource_version(&job) != resource_version {
            return Err(Failure::Conflict);
        }
        let begins_to_run = begins_to_run(&job, &new);
        job.status = Some(status::replacing(&job, &new, ended.as_ref()));
        if new.phase == Phase::Starting {
            self.must_lead()?;
        }
        // The object carries the UID and the version that were judged: the API server refuses every other.
        let written = self
            .api::<ScavengerJob>(key)
            .replace_status(&key.name, &PostParams::default(), &job)
            .await
            .map_err(failure)?;
        info!(
            namespace = %key.namespace, name = %key.name,
            phase = new.phase.name(),
            attempt = new.attempt.as_ref().map(|attempt| attempt.number),
            reason = new.admitted.as_ref().and_then(|a| a.waiting.as_ref()).map(|w| w.reason.name()),
            message = %new.message,
            "status written"
        );
        let job = convert::job(&written);
        if begins_to_run {
            self.metrics.started(job.creation_time, &new);
        }
        if let Some(event) = event {
            self.metrics.event(event, &new);
            self.tell(&written, event, &new.message);
        }
        if new.phase == Phase::Starting {
            self.keep(written);
        }
        if ended.is_some() {
            self.metrics.ended(&job);
        }
        Ok(Answer::Job(Box::new(job)))
    }

    /// Has an event published, beside the action: how long that takes is no part of what the planner waits for.
    fn tell(&self, job: &ScavengerJob, event: Event, message: &str) {
        let type_ = match event {
            Event::Failed => EventType::Warning,
            Event::Started | Event::Interrupted | Event::Withdrawn | Event::Completed => EventType::Normal,
        };
        let event = ApiEvent {
            type_,
            reason: event.name().to_owned(),
            note: Some(message.chars().take(MAX_NOTE).collect()),
            // Events are merged when all but the note are equal: each attempt gets its own.
            action: job
                .status
                .as_ref()
                .and_then(|status| status.attempt.as_ref())
                .map_or_else(|| "Reconcile".to_owned(), |attempt| format!("Attempt{}", attempt.number)),
            secondary: None,
        };
        if self.events.try_send((event, job.object_ref(&()))).is_err() {
            self.metrics.lost_event();
        }
    }

    async fn create_child(&self, key: &Key, uid: &str, attempt: u32, priority_class: u32) -> Outcome {
        // Its spec cannot have changed since Starting was written, whatever version this is.
        let job = match self.take_kept(uid) {
            Some(job) => job,
            None => self.get(key, uid).await?,
        };
        if job.spec.pod_count > 1 {
            self.create_service(key, &job, uid).await?;
        }
        let wanted = manifest::child_job(&job, attempt, priority_class);
        let name = names::child_job(&key.name, attempt);
        let api = Api::<BatchJob>::namespaced(self.once.clone(), &key.namespace);
        self.must_lead()?;
        let made = match api.create(&PostParams::default(), &wanted).await {
            Ok(made) => made,
            Err(kube::Error::Api(error)) if error.is_already_exists() => {
                let existing = api.get(&name).await.map_err(failure)?;
                if !manifest::is_same(&existing, &wanted, uid) {
                    return Err(Failure::NameTaken(format!(
                        "Job {name:?} exists in namespace {:?} and is not this ScavengerJob's; delete or rename it",
                        &*key.namespace
                    )));
                }
                existing
            }
            Err(error) => return Err(refusal(error)),
        };
        // For the status Running.
        self.keep(job);
        convert::child(&made).map(|child| Answer::Child(child.into())).ok_or_else(|| {
            Failure::Transient(format!("Job {name:?} came back without the operator's labels"))
        })
    }

    async fn create_service(&self, key: &Key, job: &ScavengerJob, uid: &str) -> Result<(), Failure> {
        let wanted = manifest::service(job);
        let name = wanted.name_any();
        let api = self.api::<Service>(key);
        // All attempts but the first find it; what the API server has at hand is enough to know.
        let at_hand = api.get_metadata_opt_with(&name, &GetParams::any()).await.map_err(failure)?;
        if at_hand.is_some_and(|service| service.owner_references().iter().any(|owner| owner.uid == uid)) {
            return Ok(());
        }
        match api.create(&PostParams::default(), &wanted).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(error)) if error.is_already_exists() => {
                let existing = api.get(&name).await.map_err(failure)?;
                if existing.owner_references().iter().any(|reference| reference.uid == uid) {
                    return Ok(());
                }
                // The Service of a ScavengerJob that was deleted and made again goes a moment after it.
                if existing.owner_references().iter().any(|reference| reference.kind == "ScavengerJob") {
                    return Err(Failure::Transient(format!(
                        "Service {name:?} of an earlier ScavengerJob is still there"
                    )));
                }
                Err(Failure::NameTaken(format!(
                    "Service {name:?} exists in namespace {:?} and is not this ScavengerJob's; delete or rename it",
                    &*key.namespace
                )))
            }
            Err(error) => Err(refusal(error)),
        }
    }

    async fn read_child(&self, key: &Key, uid: &Name) -> Outcome {
        let there = self.api::<BatchJob>(key).get_opt(&key.name).await.map_err(failure)?;
        let child = there.as_ref().and_then(convert::child).filter(|child| child.uid == *uid);
        Ok(child.map_or_else(|| Answer::ChildGone { uid: uid.clone() }, |child| Answer::Child(child.into())))
    }

    async fn list_pods(&self, key: &Key, uid: &str, child: Option<&(Key, Name)>) -> Outcome {
        let list = self.live_pods(key, uid).await?;
        let resource_version =
            list.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0);
        let create_failure = match child {
            Some((child, uid)) => self.create_failure(child, uid).await?,
            None => None,
        };
        Ok(Answer::Pods { pods: list.iter().map(convert::pod).collect(), resource_version, create_failure })
    }

    /// Why the Job controller could not create pods: it says so only in events.
    async fn create_failure(&self, child: &Key, uid: &str) -> Result<Option<String>, Failure> {
        let newest = self.newest_event(child, uid, ",reason=FailedCreate").await?;
        let said = newest.and_then(|event| event.message);
        // What is before it are the Job controller's words; the sentence is the API server's.
        Ok(said.map(|said| said.strip_prefix("Error creating: ").map(str::to_owned).unwrap_or(said)))
    }

    async fn read_pod_events(&self, pods: &[(Key, Name)]) -> Outcome {
        let mut events = Vec::with_capacity(pods.len());
        for (pod, uid) in pods {
            let newest = self.newest_event(pod, uid, "").await?;
            let event = newest.map(|event| PodEvent {
                warning: event.type_.as_deref() == Some("Warning"),
                reason: event.reason.unwrap_or_default(),
                message: convert::shortened(event.message.as_deref().unwrap_or_default(), MAX_EVENT),
            });
            events.push((pod.name.clone(), event));
        }
        Ok(Answer::PodEvents(events))
    }

    /// The newest event about an object. By its UID: another one of the same name may have been there before.
    async fn newest_event(&self, object: &Key, uid: &str, also: &str) -> Result<Option<CoreEvent>, Failure> {
        let fields = format!("involvedObject.uid={uid}{also}");
        let events = self
            .api::<CoreEvent>(object)
            .list(&ListParams::default().fields(&fields))
            .await
            .map_err(failure)?;
        Ok(newest(&events.items))
    }

    /// Deletes a ScavengerJob that was finished for long enough. Its finalizer holds it until its Jobs are gone.
    async fn delete_job(&self, key: &Key, uid: &str, resource_version: u64) -> Outcome {
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
                Ok(Answer::JobDeleted)
            }
            Err(error) => Err(failure(error)),
        }
    }

    async fn delete_child(&self, child: &Key, uid: &str) -> Outcome {
        let parameters = DeleteParams {
            // Foreground: the Job stays until its pods are gone, and shows in the watch until then.
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api::<BatchJob>(child).delete(&child.name, &parameters).await {
            Ok(_) => Ok(Answer::Deleted { uid: uid.into() }),
            // Gone, or another one by that name.
            Err(kube::Error::Api(error)) if error.is_not_found() || error.is_conflict() => {
                Ok(Answer::Deleted { uid: uid.into() })
            }
            Err(error) => Err(failure(error)),
        }
    }

    /// Every pod is tried, so that one that can not be evicted does not keep the others of its gang.
    async fn interrupt(&self, pods: Vec<(Key, Name)>) -> Outcome {
        let tried = pods.iter().map(|(pod, uid)| self.evictor.evict(pod, uid));
        let failed = futures::future::join_all(tried).await.into_iter().find_map(Result::err);
        match failed {
            Some(failure) => Err(failure),
            None => Ok(Answer::Interrupted { pods: pods.into_iter().map(|(_, uid)| uid).collect() }),
        }
    }

    async fn remove_finalizer(&self, key: &Key, uid: &str) -> Outcome {
        let pods_left = self.pods_left(key, uid).await?;
        if pods_left > 0 {
            return Ok(Answer::Released { pods_left });
        }
        let released = Ok(Answer::Released { pods_left: 0 });
        let job = match self.get(key, uid).await {
            Ok(job) => job,
            Err(Failure::Gone) => return released,
            Err(failure) => return Err(failure),
        };
        let finalizers = job.finalizers().iter().filter(|name| *name != names::FINALIZER).cloned().collect();
        match self.patch_finalizers(&job, key, finalizers).await {
            Ok(_) | Err(Failure::Gone) => released,
            Err(failure) => Err(failure),
        }
    }
}

/// True if with this status an attempt runs that did not before.
fn begins_to_run(job: &ScavengerJob, new: &JobStatus) -> bool {
    let before = job.status.as_ref().and_then(|status| status.phase);
    new.phase == Phase::Running && before != Some(Phase::Running)
}

/// The newest of an object's events. About every two minutes the kubelet sums up that some volumes of a pod are not
/// mounted; what it said of one of them since the summary before (it tries at least as often) tells why.
fn newest(events: &[CoreEvent]) -> Option<CoreEvent> {
    let time = |event: &CoreEvent| {
        let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
        series
            .map(|time| time.0)
            .or(event.last_timestamp.as_ref().map(|time| time.0))
            .or(event.event_time.as_ref().map(|time| time.0))
    };
    let sums_up = |event: &CoreEvent| {
        event.message.as_ref().is_some_and(|message| message.starts_with("Unable to attach or mount volumes"))
    };
    // Stamps have whole seconds; in one second, the complaint is what counts.
    let order = |event: &CoreEvent| (time(event), event.type_.as_deref() == Some("Warning"));
    let newest = events.iter().max_by_key(|event| order(event))?;
    let explains = |event: &&CoreEvent| {
        let recent =
            time(newest).zip(time(event)).is_some_and(|(newest, time)| newest - SUMMARY_EVERY <= time);
        recent && !sums_up(event) && event.type_.as_deref() == Some("Warning")
    };
    let telling = events.iter().filter(explains).max_by_key(|event| order(event));
    telling.filter(|_| sums_up(newest)).or(Some(newest)).cloned()
}

#[expect(clippy::disallowed_methods, reason = "the edge: answers are stamped when they are made")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Publishes events until the executor is gone. One that is lost is no reason to do anything twice.
async fn publish(
    client: Client,
    queued: mpsc::Receiver<(ApiEvent, ObjectReference)>,
    busy: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
) {
    let reporter = Reporter { controller: names::OPERATOR.to_owned(), instance: None };
    // One for the process: it knows which events to merge.
    let recorder = &Recorder::new(client, reporter);
    let metrics = &metrics;
    let next = async |(mut queued, mut busy): (mpsc::Receiver<_>, watch::Receiver<bool>)| {
        let event = queued.recv().await?;
        // Whichever comes first; if the executor is gone, so is what was to be done.
        drop(tokio::time::timeout(EVENT_PATIENCE, busy.wait_for(|busy| !busy)).await);
        Some((event, (queued, busy)))
    };
    futures::stream::unfold((queued, busy), next)
        .for_each_concurrent(EVENTS_AT_ONCE, |(event, object)| async move {
            if let Err(error) = recorder.publish(&event, &object).await {
                metrics.lost_event();
                warn!(namespace = object.namespace, name = object.name, %error, "event was not published");
            }
        })
        .await;
}

/// Name of a task as metrics and log spell it.
fn task_name(task: &Task) -> &'static str {
    match task {
        Task::Prepare { .. } => "prepare",
        Task::WriteStatus(_) => "write_status",
        Task::CreateChild { .. } => "create_child",
        Task::ReadChild { .. } => "read_child",
        Task::ListPods { .. } => "list_pods",
        Task::ReadPodEvents { .. } => "read_pod_events",
        Task::DeleteJob { .. } => "delete_job",
        Task::DeleteChild { .. } => "delete_child",
        Task::Interrupt { .. } => "interrupt",
        Task::RemoveFinalizer => "remove_finalizer",
    }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
pub(crate) fn failure(error: kube::Error) -> Failure {
    match &error {
        kube::Error::Api(status) if status.is_not_found() => Failure::Gone,
        kube::Error::Api(status) if status.is_conflict() => Failure::Conflict,
        kube::Error::Api(status) => Failure::Transient(status.message.clone()),
        other => Failure::Transient(other.to_string()),
    }
}

/// Why the API server did not take an object; what its sentence means is the planner's to know.
fn refusal(error: kube::Error) -> Failure {
    let kube::Error::Api(status) = &error else { return failure(error) };
    match refusal::judge(&status.message) {
        Refusal::Quota => Failure::QuotaExceeded(status.message.clone()),
        Refusal::Final => Failure::Refused(status.message.clone()),
        _ if status.code == 400 => Failure::Refused(status.message.clone()),
        Refusal::Reference | Refusal::Passing => failure(error),
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use scavenger_planner::snapshot::Attempt;

    use super::*;

    /// An API server that keeps the one object that is created in it, and notes how it was asked.
    fn server(asked: &Arc<Mutex<Vec<Method>>>) -> Client {
        let asked = Arc::clone(asked);
        let stored: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (asked, stored) = (Arc::clone(&asked), Arc::clone(&stored));
            async move {
                let (parts, body) = request.into_parts();
                asked.lock().unwrap().push(parts.method.clone());
                if parts.method == Method::POST {
                    *stored.lock().unwrap() = Some(body.collect_bytes().await?.to_vec());
                }
                let (code, text) = match stored.lock().unwrap().clone() {
                    Some(object) => (StatusCode::OK, object),
                    None => {
                        let status = json!({
                            "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "gone",
                        });
                        (StatusCode::NOT_FOUND, status.to_string().into_bytes())
                    }
                };
                let mut response = Response::new(Body::from(text));
                *response.status_mut() = code;
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, "lab")
    }

    /// An executor that leads for as long as the test takes.
    fn executor(client: Client) -> Executor {
        leading(client, watch::Sender::new(led_for(Duration::from_secs(600))).subscribe())
    }

    fn leading(client: Client, leadership: watch::Receiver<Leadership>) -> Executor {
        Executor::new(client.clone(), client, leadership, Arc::new(Metrics::new()))
    }

    /// The leadership that ends after this time.
    fn led_for(time: Duration) -> Leadership {
        Leadership::Leader { until: tokio::time::Instant::now() + time }
    }

    #[tokio::test]
    async fn the_service_of_a_gang_is_written_once() {
        let asked = Arc::default();
        let client = server(&asked);
        let executor = executor(client);
        let gang: ScavengerJob = serde_json::from_value(json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
            "metadata": { "name": "gang", "namespace": "lab", "uid": "u" },
            "spec": {
                "image": "counter", "podCount": 2, "interruptionAfter": "10m",
                "resources": { "requests": { "cpu": 1, "memory": "1Gi" } },
            },
        }))
        .unwrap();
        for _attempt in 0..3 {
            executor.create_service(&Key::new("lab", "gang"), &gang, "u").await.unwrap();
        }
        assert_eq!(*asked.lock().unwrap(), [Method::GET, Method::POST, Method::GET, Method::GET]);
    }

    /// An API server for one ScavengerJob and its Job: it counts versions, refuses old ones, and notes the writes and the
    /// live reads.
    fn cluster(job: &ScavengerJob, asked: &Arc<Mutex<Vec<String>>>) -> Client {
        let asked = Arc::clone(asked);
        let stored = Arc::new(Mutex::new(json!(job)));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (asked, stored) = (Arc::clone(&asked), Arc::clone(&stored));
            async move {
                let (parts, body) = request.into_parts();
                let path = parts.uri.path().rsplit("/namespaces/lab/").next().unwrap_or_default().to_owned();
                let sent = body.collect_bytes().await?;
                let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap_or_default();
                let mut stored = stored.lock().unwrap();
                let answer = match (&parts.method, &*path) {
                    (&Method::GET, "pods") => {
                        json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [] })
                    }
                    (&Method::GET, "serviceaccounts/default") => json!({
                        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": "default" },
                    }),
                    (&Method::GET, _) => {
                        asked.lock().unwrap().push(format!("GET {path}"));
                        stored.clone()
                    }
                    (&Method::PUT, _)
                        if sent["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"] =>
                    {
                        asked.lock().unwrap().push(format!("PUT {path}"));
                        let version: u64 =
                            stored["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                        stored["status"] = sent["status"].clone();
                        stored["metadata"]["resourceVersion"] = json!((version + 1).to_string());
                        stored.clone()
                    }
                    (&Method::POST, "jobs") => {
                        asked.lock().unwrap().push(format!("POST {path}"));
                        let mut made = sent;
                        made["metadata"]["uid"] = json!("child");
                        made["metadata"]["resourceVersion"] = json!("1");
                        made["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
                        made
                    }
                    (method, _) => {
                        asked.lock().unwrap().push(format!("{method} {path} refused"));
                        let status = json!({
                            "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "newer",
                        });
                        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
                        *response.status_mut() = StatusCode::CONFLICT;
                        return Ok::<_, kube::Error>(response);
                    }
                };
                Ok(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        Client::new(service, "lab")
    }

    fn waiting_job() -> ScavengerJob {
        serde_json::from_value(json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
            "metadata": {
                "name": "one", "namespace": "lab", "uid": "u", "resourceVersion": "7", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": [names::FINALIZER],
            },
            "spec": {
                "image": "counter", "args": ["a"], "interruptionAfter": "10m",
                "resources": { "requests": { "cpu": 1, "memory": "1Gi" } },
            },
        }))
        .unwrap()
    }

    /// The write of a status in this phase, with the first attempt.
    fn write(version: u64, phase: Phase, job: &ScavengerJob) -> Task {
        let demand = convert::job(job).spec.expect("the spec should be valid").demand;
        let status = JobStatus {
            phase,
            attempt: Some(Box::new(Attempt::first(demand, Timestamp::UNIX_EPOCH))),
            ..JobStatus::default()
        };
        Task::WriteStatus(Box::new(StatusWrite {
            resource_version: version,
            status,
            ended: None,
            event: None,
        }))
    }

    #[tokio::test]
    async fn a_start_writes_three_times_and_reads_the_scavenger_job_once() {
        let (job, asked) = (waiting_job(), Arc::default());
        let client = cluster(&job, &asked);
        let executor = executor(client);
        let tasks = [
            Task::Prepare { resource_version: 7 },
            write(7, Phase::Starting, &job),
            Task::CreateChild { attempt: 1, priority_class: 0 },
            write(8, Phase::Running, &job),
        ];
        let mut last = None;
        for task in tasks {
            let action = Action { job: Key::new("lab", "one"), uid: "u".into(), task };
            last = Some(executor.execute(action).await.answer.unwrap());
        }
        let Some(Answer::Job(last)) = last else { panic!("{last:?}") };
        assert_eq!((last.resource_version, last.status.phase), (9, Phase::Running));
        assert_eq!(
            *asked.lock().unwrap(),
            [
                "GET scavengerjobs/one",
                "PUT scavengerjobs/one/status",
                "POST jobs",
                "PUT scavengerjobs/one/status"
            ]
        );
    }

    #[tokio::test]
    async fn a_leader_that_was_frozen_begins_nothing() {
        let (job, asked) = (waiting_job(), Arc::default());
        let lease = watch::Sender::new(led_for(Duration::from_secs(10)));
        let executor = leading(cluster(&job, &asked), lease.subscribe());
        let carry_out = async |task| {
            executor.execute(Action { job: Key::new("lab", "one"), uid: "u".into(), task }).await.answer
        };
        carry_out(write(7, Phase::Starting, &job)).await.unwrap();
        // Frozen until its time was over; nobody has told it so.
        lease.send_replace(led_for(Duration::ZERO));
        asked.lock().unwrap().clear();
        let create = || Task::CreateChild { attempt: 1, priority_class: 0 };
        for task in [create(), write(8, Phase::Starting, &job)] {
            let refused = carry_out(task).await.unwrap_err();
            assert!(
                matches!(&refused, Failure::Transient(message) if message.contains("Lease")),
                "{refused}"
            );
        }
        assert!(!asked.lock().unwrap().iter().any(|request| !request.starts_with("GET ")), "{asked:?}");
        // The end of an attempt rests on the version alone.
        carry_out(write(8, Phase::Interrupted, &job)).await.unwrap();
        lease.send_replace(led_for(Duration::from_secs(10)));
        carry_out(create()).await.unwrap();
        assert_eq!(asked.lock().unwrap().last().map(String::as_str), Some("POST jobs"));
    }

    #[tokio::test]
    async fn a_status_is_written_only_over_the_version_that_was_judged() {
        let (job, asked) = (waiting_job(), Arc::default());
        let client = cluster(&job, &asked);
        let executor = executor(client);
        let task = write(6, Phase::Waiting, &job);
        let action = Action { job: Key::new("lab", "one"), uid: "u".into(), task };
        assert_eq!(executor.execute(action).await.answer.unwrap_err(), Failure::Conflict);
        assert_eq!(*asked.lock().unwrap(), ["GET scavengerjobs/one"], "nothing is written");
    }

    fn event(second: u32, kind: &str, message: &str) -> CoreEvent {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {}, "type": kind, "message": message,
            "lastTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60),
        }))
        .expect("the event should be valid")
    }

    fn said(events: &[CoreEvent]) -> Option<String> {
        newest(events).and_then(|event| event.message)
    }

    #[test]
    fn the_newest_event_counts_and_a_complaint_before_other_news_of_the_same_second() {
        let pulled = event(60, "Normal", "pulled");
        let failed = event(60, "Warning", "failed");
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[event(59, "Warning", "old"), pulled.clone()]).as_deref(), Some("pulled"));
        assert_eq!(said(&[failed, pulled]).as_deref(), Some("failed"));
    }

    #[test]
    fn a_summary_gives_way_to_what_was_said_of_a_volume_since_the_one_before() {
        let summary =
            event(300, "Warning", "Unable to attach or mount volumes: unmounted volumes=[a]: timed out");
        let earlier =
            event(177, "Warning", "Unable to attach or mount volumes: unmounted volumes=[a]: timed out");
        let reason = |second| event(second, "Warning", "MountVolume.SetUp failed");
        let all = |second| [reason(second), summary.clone(), earlier.clone(), event(290, "Normal", "news")];
        assert_eq!(said(&all(180)).as_deref(), Some("MountVolume.SetUp failed"));
        assert_eq!(said(&all(100)), summary.message, "it was mounted since");
    }
}
