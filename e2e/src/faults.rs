//! A proxy between an operator and the API server that does what networks and servers do at their worst, the operator
//! as a process of its own behind it, and a witness that sees the cluster directly.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DeleteParams,
    runtime::{WatchStreamExt, watcher},
};
use nix::{sys::signal::Signal, unistd::Pid};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
    scavenger_pool::ScavengerPool,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{metrics::Metrics, pool_border::Border, postgres::NAMESPACE, users, world::succeeded};

/// Environment variable with the path of the operator's program.
pub const OPERATOR: &str = "SCAVENGER_E2E_OPERATOR";

/// A write that the operator sends; Leases and events are not counted, since nothing rests on them.
#[derive(Debug, Clone)]
pub struct Write {
    /// Counted from 1 since the rules were set.
    pub number: usize,
    /// POST, PUT, PATCH or DELETE.
    pub method: Method,
    /// Path of the URL.
    pub path: String,
}

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Pass,
    /// It is answered with this status and not carried out.
    Refuse(u16),
    /// It is never carried out nor answered; [`Proxy::held`] tells.
    HoldBefore,
    /// It is carried out and never answered; [`Proxy::held`] tells.
    HoldAfter,
}

type Judge = Box<dyn FnMut(&Write) -> Fate + Send>;

type Answer = Box<dyn FnMut(&http::Uri) -> Option<Response> + Send>;

struct Rules {
    /// What the API server sends on a watch arrives so much later.
    watch_delay: Duration,
    /// Every request is refused, and watches end.
    down: bool,
    /// What is read elsewhere than in the cluster.
    answer: Answer,
    writes: usize,
    judge: Judge,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            watch_delay: Duration::ZERO,
            down: false,
            answer: Box::new(|_| None),
            writes: 0,
            judge: Box::new(|_| Fate::Pass),
        }
    }
}

struct Shared {
    client: Client,
    rules: Mutex<Rules>,
    held: watch::Sender<usize>,
    /// Changes when the connections of all watches are to be cut.
    cut: watch::Sender<u64>,
    /// Changes when all watches are to fall silent.
    wedged: watch::Sender<u64>,
}

impl Shared {
    fn rules<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        change(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A proxy on the loopback device that acts as the operator's service account, so that the operator behind it has that
/// account's rights and no others.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl Proxy {
    /// Starts it.
    ///
    /// # Errors
    /// If no port is free, or the kubeconfig of the tests cannot be read.
    pub async fn start() -> Result<Self> {
        Self::start_as(names::OPERATOR).await
    }

    /// Starts one that acts as another service account of ours.
    ///
    /// # Errors
    /// If no port is free, or the kubeconfig of the tests cannot be read.
    pub async fn start_as(account: &str) -> Result<Self> {
        let mut config = users::admin().await?;
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{NAMESPACE}:{account}"));
        config.auth_info.impersonate_groups =
            Some(vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()]);
        let shared = Arc::new(Shared {
            client: Client::try_from(config)?,
            rules: Mutex::default(),
            held: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            wedged: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().fallback(pass_on).with_state(Arc::clone(&shared));
        let mut server = JoinSet::new();
        server.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the proxy ended: {error}");
            }
        });
        Ok(Self { address, shared, _server: server })
    }

    /// A kubeconfig that leads through it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn kubeconfig(&self) -> Result<tempfile::NamedTempFile> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{ "name": "proxy", "cluster": { "server": format!("http://{}", self.address) } }],
            "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "namespace": NAMESPACE } }],
        });
        let file = tempfile::NamedTempFile::new()?;
        serde_json::to_writer(&file, &kubeconfig)?;
        Ok(file)
    }

    /// Lets every write pass again, and counts from 1.
    pub fn obey(&self) {
        self.shared.rules(|rules| *rules = Rules::default());
    }

    /// Decides about every write from now on, counted from 1.
    pub fn judge(&self, judge: impl FnMut(&Write) -> Fate + Send + 'static) {
        self.shared.rules(|rules| {
            rules.writes = 0;
            rules.judge = Box::new(judge);
        });
    }

    /// Delays what arrives on watches.
    pub fn delay_watches(&self, delay: Duration) {
        self.shared.rules(|rules| rules.watch_delay = delay);
    }

    /// Refuses every request, or no longer. Connections of watches are cut either way.
    pub fn set_down(&self, down: bool) {
        self.shared.rules(|rules| rules.down = down);
        self.cut_watches();
    }

    /// Cuts the connections of watches: the operator opens new ones.
    pub fn cut_watches(&self) {
        self.shared.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Lets nothing more arrive on the watches that are open; their connections stay. Later ones are not concerned.
    pub fn wedge_watches(&self) {
        self.shared.wedged.send_modify(|times| *times += 1);
    }

    /// Says that a node was just measured to use so much memory.
    #[expect(clippy::disallowed_methods, reason = "the stamp of a measurement is a time by the clock")]
    pub fn measure(&self, node: &str, memory: &str) {
        let usage = json!({
            "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{
                "metadata": { "name": node }, "timestamp": jiff::Timestamp::now(), "window": "15s",
                "usage": { "cpu": "1", "memory": memory },
            }],
        });
        self.answer(move |uri| {
            let asked = uri.path() == "/apis/metrics.k8s.io/v1beta1/nodes";
            asked.then(|| axum::Json(usage.clone()).into_response())
        });
    }

    /// Plays a cluster in which nobody measures what nodes and pods use.
    pub fn measure_nothing(&self) {
        self.answer(|uri| {
            let asked = uri.path().starts_with("/apis/metrics.k8s.io/");
            asked.then(|| StatusCode::NOT_FOUND.into_response())
        });
    }

    /// Answers what is read, where `answer` has an answer: what the cluster does not serve, or what a test plays.
    pub fn answer(&self, answer: impl FnMut(&http::Uri) -> Option<Response> + Send + 'static) {
        self.shared.rules(|rules| rules.answer = Box::new(answer));
    }

    /// Number of writes since the rules were set.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.shared.rules(|rules| rules.writes)
    }

    /// Ends when a write has been held.
    ///
    /// # Errors
    /// If the proxy is gone.
    pub async fn held(&self) -> Result<()> {
        let mut held = self.shared.held.subscribe();
        let before = *held.borrow_and_update();
        held.wait_for(|held| *held != before).await.context("the proxy is gone")?;
        Ok(())
    }
}

async fn pass_on(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    match forward(&shared, request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

async fn forward(shared: &Arc<Shared>, request: Request) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let mut cut = shared.cut.subscribe();
    cut.borrow_and_update();
    let mut wedged = shared.wedged.subscribe();
    wedged.borrow_and_update();
    if shared.rules(|rules| rules.down) {
        return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
    }
    if parts.method == Method::GET
        && let Some(answer) = shared.rules(|rules| (rules.answer)(&parts.uri))
    {
        return Ok(answer);
    }
    let fate = fate(shared, &parts.method, parts.uri.path());
    match fate {
        Fate::Refuse(status) => return Ok(refusal(status)),
        Fate::HoldBefore => return hold(shared).await,
        Fate::Pass | Fate::HoldAfter => {}
    }
    let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
    let body = body.collect().await.context("the operator's request broke off")?.to_bytes();
    let mut forwarded = http::Request::builder().method(parts.method).uri(parts.uri);
    for header in ["accept", "content-type"] {
        if let Some(value) = parts.headers.get(header) {
            forwarded = forwarded.header(header, value);
        }
    }
    let answer = shared.client.send(forwarded.body(kube::client::Body::from(body.to_vec()))?).await?;
    if fate == Fate::HoldAfter {
        // The write is carried out once its answer is complete.
        answer.into_body().collect().await.ok();
        return hold(shared).await;
    }
    let (mut parts, body) = answer.into_parts();
    parts.headers.remove("transfer-encoding");
    parts.headers.remove("content-length");
    if !is_watch {
        return Ok(Response::from_parts(parts, Body::new(body)));
    }
    let delay = shared.rules(|rules| rules.watch_delay);
    Ok(Response::from_parts(parts, delayed(body, delay, cut, wedged)))
}

fn fate(shared: &Shared, method: &Method, path: &str) -> Fate {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    // The pool's status is no step of anything either; it comes by the clock.
    if reads || ["/leases", "/events", "/scavengerpools"].iter().any(|kind| path.contains(kind)) {
        return Fate::Pass;
    }
    shared.rules(|rules| {
        rules.writes += 1;
        let write = Write { number: rules.writes, method: method.clone(), path: path.to_owned() };
        (rules.judge)(&write)
    })
}

/// A refusal as the API server words it.
fn refusal(status: u16) -> Response {
    let reason = match status {
        409 => "Conflict",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the proxy says so", "reason": reason, "code": status,
    });
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(body)).into_response()
}

async fn hold(shared: &Shared) -> Result<Response> {
    shared.held.send_modify(|held| *held += 1);
    std::future::pending().await
}

/// Frames of a watch, each as much later; ends when the connections are cut, and says nothing more once it is wedged.
fn delayed(
    mut body: kube::client::Body,
    delay: Duration,
    mut cut: watch::Receiver<u64>,
    mut wedged: watch::Receiver<u64>,
) -> Body {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = cut.changed() => break,
                _ = wedged.changed() => {
                    // The sender lives on, and with it the connection, until the operator has had enough of it.
                    sender.closed().await;
                    break;
                }
            };
            let Some(Ok(frame)) = frame else { break };
            if sender.send((tokio::time::Instant::now() + delay, frame)).is_err() {
                break;
            }
        }
    });
    let frames = futures::stream::unfold(receiver, |mut receiver| async move {
        let (due, frame) = receiver.recv().await?;
        tokio::time::sleep_until(due).await;
        let data = frame.into_data().unwrap_or_default();
        Some((Ok::<_, std::io::Error>(data), receiver))
    });
    Body::from_stream(frames)
}

/// Removes the Lease of an operator that was killed, so that the next one need not wait for its end.
///
/// # Errors
/// What the API server says.
pub async fn free_lease(client: &Client) -> Result<()> {
    delete_if_there(&Api::<Lease>::namespaced(client.clone(), NAMESPACE), names::OPERATOR).await
}

/// Deletes an object, if it is there.
///
/// # Errors
/// What else the API server says.
pub async fn delete_if_there<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An operator as a process of its own, which reaches the API server through a proxy.
pub struct Operator {
    child: Child,
    health: SocketAddr,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Operator {
    /// Starts one. It leads at once: the Lease of one that was killed, or rests, is removed first.
    ///
    /// # Errors
    /// If the program does not start.
    pub async fn start(proxy: &Proxy, client: &Client) -> Result<Self> {
        free_lease(client).await?;
        let program =
            PathBuf::from(std::env::var_os(OPERATOR).context("the tests have no operator to start")?);
        let file = proxy.kubeconfig()?;
        let log = std::env::var_os("SCAVENGER_E2E_OPERATOR_LOG");
        let stderr = match log {
            Some(path) => std::fs::File::options().create(true).append(true).open(path)?.into(),
            None => Stdio::null(),
        };
        let health = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let child = Command::new(program)
            .args(["run", &format!("--listen={health}"), "--max-watch-age=90s", "--reports-listen=off"])
            // Beside other clusters the API server may answer late, and nobody starts it again, as a kubelet would.
            .arg("--lease-duration=30s")
            .env("KUBECONFIG", file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .context("the operator does not start")?;
        Ok(Self { child, health, _kubeconfig: file })
    }

    /// What it says of its health: whether it is well, and its own words.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn health(&self) -> Result<(bool, String)> {
        self.get("healthz").await
    }

    /// Whether it is ready: a leader that plans, or a replica that stands by.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn is_ready(&self) -> Result<bool> {
        Ok(self.get("readyz").await?.0)
    }

    /// Value of a metric, as the text of the metrics has its name and labels; 0 if it is not there.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        Ok(Metrics::from(self.get("metrics").await?.1).value(name))
    }

    /// True if a page answers 200, and what it says.
    async fn get(&self, page: &str) -> Result<(bool, String)> {
        let mut connection = TcpStream::connect(self.health).await?;
        connection.write_all(format!("GET /{page} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, said) = answer.split_once("\r\n\r\n").context("the operator's answer is no HTTP")?;
        Ok((head.contains(" 200 "), said.trim().to_owned()))
    }

    /// Waits until it ends by itself, as a leader does that could not renew its Lease; in a cluster the kubelet then
    /// starts it again.
    ///
    /// # Errors
    /// If it does not.
    pub async fn ends(mut self) -> Result<()> {
        let status = tokio::time::timeout(crate::world::LIMIT, self.child.wait());
        let status = status.await.context("the operator leads on although it cannot renew its Lease")??;
        ensure!(!status.success(), "the operator ended as if all were well");
        Ok(())
    }

    /// Ends it as a kubelet does, and waits until it has ended in good order.
    ///
    /// # Errors
    /// If it had ended before, or does not end well.
    pub async fn stop(mut self) -> Result<()> {
        let id = self.child.id().context("the operator had ended before it was told to")?;
        nix::sys::signal::kill(Pid::from_raw(id.try_into()?), Signal::SIGTERM)?;
        let status = tokio::time::timeout(crate::world::LIMIT, self.child.wait()).await;
        let status = status.context("the operator goes on after SIGTERM")??;
        ensure!(status.success(), "the operator ended with {status}");
        Ok(())
    }

    /// Kills it: no signal that it could handle, no time to end anything.
    ///
    /// # Errors
    /// If it had ended by itself, which it never should.
    pub async fn kill(mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the operator had ended by itself: {ended:?}");
        self.child.kill().await?;
        Ok(())
    }
}

/// Sees everything directly, and remembers what must never be.
#[derive(Clone)]
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
    _watches: Arc<JoinSet<()>>,
}

/// What counts for how many are starting.
#[derive(Clone)]
enum Step {
    /// A ScavengerJob is in phase Starting, with so many pods of this Job.
    Starting { name: String, job: String, pod_count: usize },
    /// It is in another phase, or gone.
    NotStarting { name: String },
    /// A pod of this Job has a node.
    Bound { job: String, pod: String },
}

/// How many were starting at the same time at most: in phase Starting, and not all of their pods with a node yet. Each
/// kind of object has a watch of its own, and one may be ahead of the other; resourceVersions are numbers of the one
/// history that all kinds have in etcd.
fn most_starting(mut steps: Vec<(u64, Step)>) -> usize {
    steps.sort_by_key(|(version, _)| *version);
    let mut starting: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut bound: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut most = 0;
    for (_, step) in steps {
        match step {
            Step::Starting { name, job, pod_count } => _ = starting.insert(name, (job, pod_count)),
            Step::NotStarting { name } => _ = starting.remove(&name),
            Step::Bound { job, pod } => _ = bound.entry(job).or_default().insert(pod),
        }
        let waits = |(job, pods): &&(String, usize)| bound.get(job).map_or(0, BTreeSet::len) < *pods;
        most = most.max(starting.values().filter(waits).count());
    }
    most
}

#[derive(Default)]
struct Seen {
    /// Jobs that are not over, by name.
    active: BTreeSet<String>,
    /// Most that were active at one time.
    most: usize,
    /// UID of the Job of each name.
    jobs: BTreeMap<String, String>,
    /// What ScavengerJobs and pods came to, each with its resourceVersion.
    steps: Vec<(u64, Step)>,
    /// Pods that have not ended: their ScavengerJob and attempt.
    pods: BTreeMap<String, (String, String)>,
    /// Where pods were bound.
    border: Border,
    wrong: Vec<String>,
    last_start: Option<Instant>,
}

impl Witness {
    /// Watches a namespace.
    #[must_use]
    pub fn start(client: &Client, namespace: &str) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut watches = JoinSet::new();
        let (starts, jobs, pods) = (Arc::clone(&seen), Arc::clone(&seen), Arc::clone(&seen));
        let (nodes, pools) = (Arc::clone(&seen), Arc::clone(&seen));
        follow_all(&mut watches, Api::all(client.clone()), move |node: &Node, gone| {
            nodes.lock().unwrap_or_else(PoisonError::into_inner).border.node(version(node), node, gone);
        });
        follow_all(&mut watches, Api::all(client.clone()), move |pool: &ScavengerPool, gone| {
            pools.lock().unwrap_or_else(PoisonError::into_inner).border.pool(version(pool), pool, gone);
        });
        follow(&mut watches, client, namespace, move |job: &ScavengerJob, gone| {
            starts.lock().unwrap_or_else(PoisonError::into_inner).scavenger_job(job, gone);
        });
        follow(&mut watches, client, namespace, move |job: &BatchJob, gone| {
            jobs.lock().unwrap_or_else(PoisonError::into_inner).job(job, gone);
        });
        follow(&mut watches, client, namespace, move |pod: &Pod, gone| {
            pods.lock().unwrap_or_else(PoisonError::into_inner).pod(pod, gone);
        });
        Self { seen, _watches: Arc::new(watches) }
    }

    /// How many Jobs were active at the same time at most, and how many are now.
    #[must_use]
    pub fn active(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.most, seen.active.len())
    }

    /// How many ScavengerJobs were starting at the same time at most: admitted, and not all of their pods on a node.
    #[must_use]
    pub fn most_starting(&self) -> usize {
        most_starting(self.seen.lock().unwrap_or_else(PoisonError::into_inner).steps.clone())
    }

    /// Time since a Job was last made.
    #[must_use]
    pub fn since_last_start(&self) -> Option<Duration> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).last_start.map(|last| last.elapsed())
    }

    /// Nothing was seen that must never be.
    ///
    /// # Errors
    /// What was seen.
    pub fn is_content(&self) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = [seen.wrong.clone(), seen.border.crossed()].concat();
        ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(())
    }
}

impl Seen {
    fn scavenger_job(&mut self, job: &ScavengerJob, gone: bool) {
        let name = job.name_any();
        let status = job.status.as_ref().filter(|status| !gone && status.phase == Some(Phase::Starting));
        let step = match status.and_then(|status| status.attempt.as_ref()) {
            Some(attempt) => {
                let pod_count = usize::try_from(job.spec.pod_count).unwrap_or_default();
                Step::Starting { name, job: attempt.job_name.clone(), pod_count }
            }
            None => Step::NotStarting { name },
        };
        self.steps.push((version(job), step));
    }

    fn job(&mut self, job: &BatchJob, gone: bool) {
        let (name, uid) = (job.name_any(), job.uid().unwrap_or_default());
        if !self.jobs.contains_key(&name) {
            self.border.job(version(job), &name);
        }
        match self.jobs.insert(name.clone(), uid.clone()) {
            Some(old) if old != uid => {
                self.wrong.push(format!("there were two Jobs {name}: an attempt was made twice"));
            }
            Some(_) => {}
            None => self.last_start = Some(Instant::now()),
        }
        if gone || succeeded(job).is_some() {
            self.active.remove(&name);
        } else {
            self.active.insert(name);
        }
        self.most = self.most.max(self.active.len());
    }

    fn pod(&mut self, pod: &Pod, gone: bool) {
        let Some(owner) = pod.labels().get(names::LABEL_JOB) else { return };
        let attempt = pod.labels().get("batch.kubernetes.io/job-name").cloned().unwrap_or_default();
        if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            self.steps.push((version(pod), Step::Bound { job: attempt.clone(), pod: pod.name_any() }));
            self.border.pod(version(pod), pod, &attempt);
        }
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if gone || matches!(phase, Some("Succeeded" | "Failed")) {
            self.pods.remove(&pod.name_any());
            return;
        }
        let other = self.pods.values().find(|(job, other)| job == owner && *other != attempt);
        if let Some((_, other)) = other {
            self.wrong.push(format!("pods of {other} and {attempt} were there at the same time"));
        }
        self.pods.insert(pod.name_any(), (owner.clone(), attempt));
    }
}

fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Tells `see` of every object of a kind in a namespace and of each change of it, with true when it is gone, as long as
/// `watches` lives.
pub fn follow<K>(
    watches: &mut JoinSet<()>,
    client: &Client,
    namespace: &str,
    see: impl FnMut(&K, bool) + Send + 'static,
) where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
    K::DynamicType: Default,
{
    follow_all(watches, Api::<K>::namespaced(client.clone(), namespace), see);
}

/// The same of every object that `api` reaches.
fn follow_all<K>(watches: &mut JoinSet<()>, api: Api<K>, mut see: impl FnMut(&K, bool) + Send + 'static)
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    watches.spawn(async move {
        let mut stream = watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => see(&object, false),
                Ok(watcher::Event::Delete(object)) => see(&object, true),
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whose_pods_all_have_a_node_is_not_starting_any_more() {
        let starting = |name: &str, pod_count| Step::Starting {
            name: name.to_owned(),
            job: format!("{name}-1"),
            pod_count,
        };
        let bound = |name: &str, pod: &str| Step::Bound { job: format!("{name}-1"), pod: pod.to_owned() };
        let ends = |name: &str| Step::NotStarting { name: name.to_owned() };
        // The watch of pods was behind: it showed the first one's pod only after the second one had begun.
        let steps =
            [(1, starting("a", 1)), (4, starting("b", 2)), (3, bound("a", "x")), (5, bound("b", "y"))];
        assert_eq!(most_starting(steps.to_vec()), 1);
        let another = [(6, starting("c", 1)), (7, bound("b", "z")), (8, ends("c")), (9, starting("d", 1))];
        assert_eq!(most_starting([&steps[..], &another[..]].concat()), 2);
    }
}
