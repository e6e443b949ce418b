//! A namespace on the cluster and what a test does in it.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        batch::v1::Job as BatchJob,
        coordination::v1::Lease,
        core::v1::{Event, Namespace, Node, PersistentVolumeClaim, Pod},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        AttachParams, AttachedProcess, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams,
    },
    runtime::{WatchStreamExt, watcher},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::{postgres::NAMESPACE, users};

/// Events that are printed when a test fails.
const MOST_EVENTS: usize = 60;

/// Longest wait for a condition. Ten times what anything here takes on a slow machine; a wait ends when the condition
/// arrives.
pub const LIMIT: Duration = Duration::from_secs(180);

/// An image with a shell's usual programs.
const TOOLS: &str = "scavenger.dev/postgres:15";

/// Replicas of the operator as deploy/ has them.
pub const OPERATORS: i32 = 2;

/// Image of the demo workload.
pub const COUNTER: &str = concat!("scavenger.dev/counter:", env!("CARGO_PKG_VERSION"));

/// A namespace on the cluster.
pub struct World {
    /// Connection to the API server.
    pub client: Client,
    /// Name of the namespace.
    pub namespace: String,
}

/// Runs a test in a namespace of its own, which is removed afterwards. When the test fails, what is in the namespace
/// is printed first. Ten times the usual limit if tests that repeat shall do so more often.
///
/// # Panics
/// If the test fails.
pub fn run<F>(name: &str, test: impl FnOnce(&'static World) -> F)
where
    F: Future<Output = Result<()>>,
{
    let longer = if crate::repetitions(1) > 1 { 10 } else { 1 };
    run_within(longer * 5 * LIMIT, name, test);
}

/// Like [`run`], with another limit for the whole test.
///
/// # Panics
/// If the test fails.
pub fn run_within<F>(limit: Duration, name: &str, test: impl FnOnce(&'static World) -> F)
where
    F: Future<Output = Result<()>>,
{
    if std::env::var_os(crate::KUBECONFIG).is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{} is not set: these tests need a cluster; run `cargo xtask test`",
            crate::KUBECONFIG
        );
        eprintln!("skipped {name}: {} is not set; `cargo xtask test` makes a cluster", crate::KUBECONFIG);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime should start in any process");
    runtime.block_on(async {
        let world = World::new(name).await.expect("a namespace should be made on the test cluster");
        // Leaked: one for each test of a process that ends after its tests, and futures may borrow it freely.
        let world: &'static World = Box::leak(Box::new(world));
        let began = Instant::now();
        let result = tokio::time::timeout(limit, test(world))
            .await
            .unwrap_or_else(|_| bail!("the test took too long"));
        let (took, ended) = (began.elapsed(), Instant::now());
        if let Err(error) = &result {
            eprintln!("{name} failed: {error:?}");
            world.describe_surroundings().await;
            world.describe().await;
        }
        if result.is_ok() || std::env::var_os(crate::KEEP).is_none() {
            world.remove().await;
        }
        // Where the time of a run goes.
        println!(
            "{name}: {:.0} s, and {:.0} s to clear up",
            took.as_secs_f64(),
            ended.elapsed().as_secs_f64()
        );
        if let Err(error) = result {
            panic!("{name}: {error:#}");
        }
    });
}

impl World {
    async fn new(name: &str) -> Result<Self> {
        let client = Client::try_from(users::admin().await?)?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": {
                "generateName": format!("e2e-{name}-"),
                "labels": { "scavenger.dev/e2e": name, "pod-security.kubernetes.io/warn": "restricted" },
            }
        }))?;
        let namespace = namespaces.create(&PostParams::default(), &namespace).await?;
        Ok(Self { client, namespace: namespace.name_any() })
    }

    async fn remove(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        if let Err(error) = namespaces.delete(&self.namespace, &DeleteParams::default()).await {
            eprintln!("namespace {} was not removed: {error}", self.namespace);
        }
        // The namespace controller begins only after 5 s.
        self.remove_all::<ScavengerJob>().await;
        self.remove_all::<BatchJob>().await;
        self.remove_all::<Pod>().await;
        // Volumes and room of one test must not be missed by the next.
        let pods: Api<Pod> = self.api();
        let gone = until("the namespace's pods are gone", || async {
            Ok(pods.list(&ListParams::default()).await?.items.is_empty().then_some(()))
        });
        if let Err(error) = gone.await {
            eprintln!("{error}");
        }
    }

    /// Deletes the objects of a kind. What is not deleted is left to the namespace controller.
    async fn remove_all<K>(&self)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let delete = DeleteParams::background();
        if let Err(error) = self.api::<K>().delete_collection(&delete, &ListParams::default()).await {
            eprintln!("not everything in namespace {} was deleted: {error}", self.namespace);
        }
    }

    /// Prints what is wrong with the nodes and the installation: a full disk or an operator that cannot start fails tests
    /// whose own objects say nothing of it.
    async fn describe_surroundings(&self) {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await;
        for node in nodes.into_iter().flatten() {
            let status = node.status.as_ref();
            for condition in status.and_then(|status| status.conditions.as_deref()).unwrap_or_default() {
                let good = if condition.type_ == "Ready" { "True" } else { "False" };
                if condition.status != good {
                    let message = condition.message.as_deref().unwrap_or_default();
                    eprintln!(
                        "node {}: {} is {}: {message}",
                        node.name_any(),
                        condition.type_,
                        condition.status
                    );
                }
            }
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pods = pods.list(&ListParams::default()).await;
        for pod in pods.into_iter().flatten() {
            let status = pod.status.as_ref();
            let mut conditions =
                status.into_iter().filter_map(|status| status.conditions.as_deref()).flatten();
            if !conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True") {
                eprintln!("pod {NAMESPACE}/{} is not ready: {}", pod.name_any(), json!(status));
            }
        }
    }

    /// Prints the newest events of the namespace, its ScavengerJobs, and its pods with the ends of their logs.
    async fn describe(&self) {
        let events = self.api::<Event>().list(&ListParams::default()).await;
        let mut events: Vec<Event> = events.into_iter().flatten().collect();
        events.sort_by_key(|event| event.last_timestamp.clone().or(event.creation_timestamp()));
        for event in &events[events.len().saturating_sub(MOST_EVENTS)..] {
            let time = event.last_timestamp.clone().or(event.creation_timestamp());
            let said = [&event.involved_object.name, &event.reason, &event.message];
            let said = said.map(|text| text.as_deref().unwrap_or_default());
            eprintln!(
                "event {} {}",
                time.map_or_else(String::new, |time| time.0.to_string()),
                said.join(": ")
            );
        }
        let jobs = self.api::<ScavengerJob>().list(&ListParams::default()).await;
        for job in jobs.into_iter().flatten() {
            eprintln!("ScavengerJob {}: {}", job.name_any(), json!(job.status));
        }
        let pods = self.api::<Pod>().list(&ListParams::default()).await;
        for pod in pods.into_iter().flatten() {
            eprintln!("pod {}: {}", pod.name_any(), json!(pod.status));
            let parameters = LogParams { tail_lines: Some(20), ..LogParams::default() };
            if let Ok(log) = self.api::<Pod>().logs(&pod.name_any(), &parameters).await {
                eprintln!("{log}");
            }
        }
    }

    /// Objects of one kind in the namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn create<K>(&self, object: Value) -> kube::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        // Sent as it was written: typed structs would drop or fill in what is being tested.
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let dynamic: kube::core::DynamicObject =
            serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        let kind = kube::core::ApiResource::erase::<K>(&K::DynamicType::default());
        let api: Api<kube::core::DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        api.create(&PostParams::default(), &dynamic).await?;
        self.api::<K>().get(&name).await
    }

    /// Makes a PersistentVolumeClaim.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn claim(&self, name: &str) -> Result<()> {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "10Mi" } } },
        });
        self.create::<PersistentVolumeClaim>(claim).await?;
        Ok(())
    }

    /// Waits until a ScavengerJob satisfies `condition`; an end that it was not waiting for is an error at once.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub async fn job_until(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&ScavengerJob) -> bool,
    ) -> Result<ScavengerJob> {
        let api = self.api::<ScavengerJob>();
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut stream = watcher(api, only).default_backoff().applied_objects().boxed();
        let mut last = None;
        let found = tokio::time::timeout(LIMIT, async {
            while let Some(event) = stream.next().await {
                let Ok(job) = event else { continue };
                if condition(&job) {
                    return Ok(job);
                }
                let phase = job.status.as_ref().and_then(|status| status.phase);
                if matches!(phase, Some(Phase::Completed | Phase::Failed)) {
                    bail!("{name} ended before {what}: {}", json!(job.status));
                }
                last = job.status;
            }
            bail!("the watch ended")
        });
        found.await.unwrap_or_else(|_| {
            bail!("{name}: not {what} within {} s; status {}", LIMIT.as_secs(), json!(last))
        })
    }

    /// Waits until a ScavengerJob is in a phase.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub async fn phase(&self, name: &str, phase: Phase) -> Result<ScavengerJob> {
        self.job_until(name, &format!("{phase:?}"), |job| {
            job.status.as_ref().is_some_and(|status| status.phase == Some(phase))
        })
        .await
    }

    /// Pods of a ScavengerJob.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn pods(&self, job: &str) -> Result<Vec<Pod>> {
        let selector = format!("{}={job}", names::LABEL_JOB);
        Ok(self.api::<Pod>().list(&ListParams::default().labels(&selector)).await?.items)
    }

    /// A pod of a ScavengerJob, the only one if it has one.
    ///
    /// # Errors
    /// What the API server says, or if there is none.
    pub async fn pod(&self, job: &str) -> Result<Pod> {
        let pod = self.pods(job).await?.into_iter().next();
        pod.with_context(|| format!("ScavengerJob {job} has no pod"))
    }

    /// Scales the operator of the cluster and waits until so many are ready and no more are there.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn operators(&self, replicas: i32) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let scale = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        deployments.patch(names::OPERATOR, &PatchParams::default(), &scale).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        until("the operator is scaled", || async {
            let label = ListParams::default().labels("app.kubernetes.io/name=scavenger-operator");
            let pods = pods.list(&label).await?.items.len();
            let status = deployments.get(names::OPERATOR).await?.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or(0);
            Ok((ready == replicas && i32::try_from(pods)? == replicas).then_some(()))
        })
        .await
    }

    /// Name of the operator's pod that leads.
    ///
    /// # Errors
    /// What the API server says, or if none leads now.
    pub async fn leader(&self) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let holder = leases.get(names::OPERATOR).await?.spec.and_then(|spec| spec.holder_identity);
        // One that leaves in good order empties it.
        let holder = holder.filter(|holder| !holder.is_empty()).context("no operator leads")?;
        // Then follow what tells one process of a pod from the next.
        Ok(holder.split('_').next().unwrap_or_default().to_owned())
    }

    /// How often another replica of the operator has taken the lead.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn changes_of_leader(&self) -> Result<i32> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        Ok(leases.get(names::OPERATOR).await?.spec.and_then(|spec| spec.lease_transitions).unwrap_or(0))
    }

    /// Waits until a pod's log holds a line that satisfies `condition`, and returns the whole log.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub async fn log_until(&self, pod: &str, what: &str, condition: impl Fn(&str) -> bool) -> Result<String> {
        until(what, || async {
            match self.api::<Pod>().logs(pod, &LogParams::default()).await {
                Ok(log) => Ok(log.lines().any(&condition).then_some(log)),
                // Not started yet.
                Err(kube::Error::Api(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// What a file on the volume of `claim` holds.
    ///
    /// # Errors
    /// What the API server says, or that the file cannot be read.
    pub async fn file(&self, claim: &str, file: &str) -> Result<String> {
        let name = format!("reads-{file}");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": {
                "restartPolicy": "Never",
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
                "containers": [{
                    "name": "reads", "image": TOOLS, "imagePullPolicy": "IfNotPresent",
                    "command": ["cat", format!("/data/{file}")],
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
            },
        });
        self.create::<Pod>(pod).await?;
        until(&format!("{file} is read"), || async {
            let pod = self.api::<Pod>().get(&name).await?;
            let phase = pod.status.and_then(|status| status.phase);
            ensure!(phase.as_deref() != Some("Failed"), "{file} cannot be read");
            Ok((phase.as_deref() == Some("Succeeded")).then_some(()))
        })
        .await?;
        Ok(self.api::<Pod>().logs(&name, &LogParams::default()).await?)
    }

    /// Gives the real node an extended resource of the test's own, so that a preemption in one test touches no other,
    /// and returns its name.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn slots(&self, count: u32) -> Result<String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let name = format!("{}.e2e.scavenger.dev/slot", self.namespace);
        let node = real_node(&nodes).await?;
        let amount = count.to_string();
        let patch = json!({ "status": { "capacity": { &name: amount }, "allocatable": { &name: amount } } });
        nodes.patch_status(&node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        until("the node has the test's resource", || async {
            let node = nodes.get(&node).await?;
            let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
            Ok(allocatable.contains_key(&name).then_some(()))
        })
        .await?;
        Ok(name)
    }

    /// An ordinary pod of somebody else, without a class: it sleeps until it is deleted.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn owner_pod(&self, name: &str, resource: &str, amount: u32) -> Result<Pod> {
        let requests: BTreeMap<&str, String> =
            [(resource, amount.to_string()), ("cpu", "10m".to_owned()), ("memory", "16Mi".to_owned())].into();
        Ok(self.create(ordinary_pod(name, &json!(requests))).await?)
    }

    /// Waits until a pod runs.
    ///
    /// # Errors
    /// If that does not happen in time.
    pub async fn pod_runs(&self, name: &str) -> Result<()> {
        until(&format!("pod {name} runs"), || async {
            let pod = self.api::<Pod>().get(name).await?;
            let phase = pod.status.and_then(|status| status.phase);
            Ok((phase.as_deref() == Some("Running")).then_some(()))
        })
        .await
    }
}

/// Name of the node that has a kubelet.
///
/// # Errors
/// If there is none, or what the API server says.
pub async fn real_node(nodes: &Api<Node>) -> Result<String> {
    let nodes = nodes.list(&ListParams::default()).await?;
    let real = nodes.iter().find(|node| {
        node.spec.as_ref().is_none_or(|spec| spec.taints.as_ref().is_none_or(Vec::is_empty))
            && !node.annotations().contains_key("kwok.x-k8s.io/node")
    });
    Ok(real.context("the cluster has no real node")?.name_any())
}

/// Runs a command in a container and returns what it prints.
///
/// # Errors
/// What it complains about, if it fails.
pub async fn exec(pods: &Api<Pod>, pod: &str, container: &str, command: &[&str]) -> Result<String> {
    let parameters = AttachParams::default().container(container).stdout(true).stderr(true);
    let mut process: AttachedProcess = pods.exec(pod, command.iter().copied(), &parameters).await?;
    let mut stdout = process.stdout().context("exec gave no standard output")?;
    let mut stderr = process.stderr().context("exec gave no standard error")?;
    let status = process.take_status().context("exec gave no status")?;
    let (mut printed, mut complaint) = (String::new(), String::new());
    tokio::try_join!(stdout.read_to_string(&mut printed), stderr.read_to_string(&mut complaint))?;
    let status = status.await.context("exec ended without a status")?;
    if status.status.as_deref() != Some("Success") {
        let program = command.first().copied().unwrap_or_default();
        bail!("{program} failed: {} ({})", complaint.trim(), status.message.unwrap_or_default());
    }
    Ok(printed.trim().to_owned())
}

/// How soon a question is asked for the second time.
const SOON: Duration = Duration::from_millis(200);

/// How seldom it is asked in the end: what has taken seconds takes no notice of another, and many tests ask one API server.
const SELDOM: Duration = Duration::from_millis(500);

/// Asks again and again until there is an answer.
///
/// # Errors
/// If there is none within [`LIMIT`], or the question fails.
pub async fn until<T, F>(what: &str, question: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    until_within(LIMIT, what, question).await
}

/// Like [`until`], with another limit.
///
/// # Errors
/// If there is no answer within `limit`, or the question fails.
pub async fn until_within<T, F>(limit: Duration, what: &str, question: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let asked = async {
        let mut pause = SOON;
        loop {
            if let Some(answer) = question().await? {
                return Ok(answer);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 5 / 4).min(SELDOM);
        }
    };
    tokio::time::timeout(limit, asked)
        .await
        .unwrap_or_else(|_| bail!("{what}: not within {} s", limit.as_secs()))
}

/// True if a Job has succeeded, false if it has failed; none until then.
#[must_use]
pub fn succeeded(job: &BatchJob) -> Option<bool> {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is =
        |kind: &str| conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True");
    if is("Complete") { Some(true) } else { is("Failed").then_some(false) }
}

/// A pod without a class that sleeps until it is deleted.
#[must_use]
pub fn ordinary_pod(name: &str, resources: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "owner", "image": COUNTER, "imagePullPolicy": "IfNotPresent",
                "command": ["scavenger-counter", "--to=1000000", "--every=1s", "--checkpoint=/tmp/count"],
                "resources": { "requests": resources, "limits": resources },
            }],
        },
    })
}

/// A ScavengerJob that counts to `to`, ten steps a second, with its checkpoint on claim `data`.
#[must_use]
pub fn counter(name: &str, to: u32) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": COUNTER,
            "command": ["scavenger-counter"],
            "args": [
                format!("--to={to}"), "--every=100ms", "--checkpoint=/data/count", "--checkpoint-interval=1s",
                "--journal=/data/journal",
            ],
            "resources": { "requests": { "cpu": "20m", "memory": "16Mi" } },
            "persistentVolumeClaims": [{ "claimName": "data", "mountPath": "/data" }],
            "interruptionAfter": "3s",
            "checkpoint": { "interval": "1s", "savesOnSigterm": true, "restartSeconds": 1 },
            "terminationGracePeriodSeconds": 5,
        },
    })
}

/// The same with files of its own, for several beside each other on the claim: checkpoint `NAME`, journal `journal-NAME`.
#[must_use]
pub fn counter_beside(name: &str, to: u32) -> Value {
    let mut job = counter(name, to);
    job["spec"]["args"][2] = json!(format!("--checkpoint=/data/{name}"));
    job["spec"]["args"][4] = json!(format!("--journal=/data/journal-{name}"));
    job
}

/// The same, which counts on until its attempt of this number: a test can interrupt those before it, however late it sees them
/// run.
#[must_use]
pub fn over_attempts(mut job: Value, attempts: u32) -> Value {
    argument(&mut job, &format!("--not-before-attempt={attempts}"));
    job
}

/// A ScavengerJob that tolerates the played nodes; the pool says whether it may go to others. It runs until something is done to its pods.
#[must_use]
pub fn played(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": "played", "command": ["played"],
            "resources": { "requests": { "cpu": cpu, "memory": "16Mi" } },
            "tolerations": [{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }],
            "interruptionAfter": "60s",
            "terminationGracePeriodSeconds": 1,
        },
    })
}

/// Adds an argument to a counter's command line.
pub fn argument(job: &mut Value, argument: &str) {
    if let Some(args) = job["spec"]["args"].as_array_mut() {
        args.push(argument.into());
    }
}

/// The count at which the newest run of a counter began, from its log line `resumed at N`.
///
/// # Errors
/// If the log has no such line.
pub fn resumed_at(log: &str) -> Result<u32> {
    let line = log
        .lines()
        .find_map(|line| line.strip_prefix("resumed at "))
        .context("the log has no line `resumed at`")?;
    line.trim().parse().with_context(|| format!("`resumed at {line}` names no count"))
}
