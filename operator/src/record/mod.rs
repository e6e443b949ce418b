//! Records what happens in a cluster, for the laboratory to play it again. It only reads, and needs nothing of the operator.

mod ledger;
mod log;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context as _;
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node as ApiNode, Pod as ApiPod};
use kube::{
    Client,
    runtime::{WatchStreamExt as _, watcher},
};
use scavenger_planner::values::{Key, PodUsage};
use scavenger_program::{exit::Unusable, objects::Objects};
use scavenger_recording::{Event, Line};
use scavenger_schema::terminal::shown;
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tracing::{info, warn};

use crate::observe::{self, convert, history};
use ledger::Ledger;
use log::{Log, Written};

/// How often the recording says that it goes on. What happened after its last line may be missing.
const MARK_EVERY: Duration = Duration::from_secs(300);

/// An API server that takes longer than this does not answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// What is recorded, and into which file.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The file.
    pub(crate) path: PathBuf,
    /// The most bytes that it may have.
    pub(crate) max_size: u64,
    /// How often use is read, where it is measured.
    pub(crate) use_every: Duration,
    /// Keys of the labels of nodes that are kept.
    pub(crate) node_labels: Vec<String>,
}

/// Why a recording ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was asked to.
    Stopped,
    /// The file is as large as it may be.
    Full,
}

/// Records until `stop`, or until the file is full.
///
/// # Errors
/// If the file cannot be used or written, or if nodes or pods may not be read.
pub(crate) async fn record(
    client: &Client,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<End> {
    let mut recorder = Recorder::open(settings.path, settings.max_size, settings.node_labels)?;
    let mut stop = std::pin::pin!(stop);
    let mut nodes = watch(&Objects::<ApiNode>::all(client.clone()))?;
    let mut pods = watch(&Objects::<ApiPod>::all(client.clone()))?;
    let mut measured = measure(client.clone(), settings.use_every);
    let mut mark = tokio::time::interval(MARK_EVERY);
    mark.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // It comes at once, and the line `begin` says the same.
    mark.tick().await;
    let mut written = recorder.write([Line { time: now(), event: Event::Begin }])?;
    while written == Written::Yes {
        written = tokio::select! {
            () = &mut stop => {
                recorder.mark(client).await?;
                return Ok(End::Stopped);
            }
            Some(event) = nodes.next() => recorder.see_node(readable("nodes", event)?)?,
            // Which node a pod is on can be said once its node has a name.
            Some(event) = pods.next(), if recorder.nodes.is_listed => recorder.see_pod(readable("pods", event)?)?,
            Some(usage) = measured.recv() => recorder.see_use(&usage)?,
            _ = mark.tick() => recorder.mark(client).await?,
        };
    }
    Ok(End::Full)
}

/// True if the API server answers, be it with a refusal.
async fn answers(client: &Client) -> bool {
    match tokio::time::timeout(ANSWERS_WITHIN, client.apiserver_version()).await {
        Ok(Ok(_)) => true,
        Ok(Err(kube::Error::Api(status))) => status.code < 500,
        Ok(Err(_)) | Err(_) => false,
    }
}

type Watch<K> = std::pin::Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<K>>> + Send>>;

fn watch<K>(objects: &Objects<K>) -> anyhow::Result<Watch<K>>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let api = objects.unnamed().context("the API cannot be watched")?.clone();
    Ok(watcher(api, watcher::Config::default()).default_backoff().boxed())
}

/// Reads by the clock what pods use; nothing where nobody measures.
fn measure(client: Client, every: Duration) -> mpsc::Receiver<Vec<PodUsage>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut every = tokio::time::interval(every);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let usage = observe::usage_of_pods(&client).await;
            if sender.send(usage).await.is_err() {
                // The recording has ended.
                return;
            }
        }
    });
    receiver
}

/// What a watch says; none if it failed and is started again. A refusal is final: a right that is missing does not come with time.
fn readable<K>(
    kind: &str,
    event: watcher::Result<watcher::Event<K>>,
) -> anyhow::Result<Option<watcher::Event<K>>> {
    match event {
        Ok(event) => Ok(Some(event)),
        Err(error) if observe::code(&error) == "403" => Err(error).context(format!(
            "{kind} may not be listed and watched; deploy/record has the ClusterRole that a recorder needs"
        )),
        Err(error) => {
            warn!(kind, error = shown(&error.to_string()), "watch failed; it is started again");
            Ok(None)
        }
    }
}

/// What a watch has delivered.
#[derive(Debug, Default)]
struct Listing {
    /// Names in the recording, by the names that they stand for.
    names: BTreeMap<Key, String>,
    /// What the list that is being read has so far.
    relisted: BTreeMap<Key, String>,
    /// True once the first list is whole.
    is_listed: bool,
}

impl Listing {
    /// The list is whole. Returns the names of all that there are.
    fn done(&mut self) -> BTreeSet<String> {
        self.is_listed = true;
        self.names = std::mem::take(&mut self.relisted);
        self.names.values().cloned().collect()
    }
}

/// The file, and what is known beside it.
#[derive(Debug)]
struct Recorder {
    path: PathBuf,
    log: Log,
    ledger: Ledger,
    node_labels: Vec<String>,
    nodes: Listing,
    pods: Listing,
}

impl Recorder {
    fn open(path: PathBuf, max_size: u64, node_labels: Vec<String>) -> Result<Self, Unusable> {
        let (log, ledger) = Log::open(&path, max_size)?;
        let (nodes, pods) = (Listing::default(), Listing::default());
        Ok(Self { path, log, ledger, node_labels, nodes, pods })
    }

    fn write(&mut self, lines: impl IntoIterator<Item = Line>) -> anyhow::Result<Written> {
        for line in lines {
            let written = self.log.append(&line).with_context(|| self.cannot_write())?;
            if written == Written::Full {
                return Ok(Written::Full);
            }
            self.ledger.take(&line);
        }
        Ok(Written::Yes)
    }

    fn cannot_write(&self) -> String {
        format!("{} cannot be written", self.path.display())
    }

    /// Says that the recorder was there until now. Not while the API server does not answer: a time in which nothing was seen
    /// must not look like one in which nothing happened. Watches may be silent for long, so it is asked.
    async fn mark(&mut self, client: &Client) -> anyhow::Result<Written> {
        let now = now();
        if answers(client).await {
            return self.log.keep(now).with_context(|| self.cannot_write());
        }
        warn!("the API server does not answer; this time will be missing in the recording");
        Ok(Written::Yes)
    }

    fn see_node(&mut self, event: Option<watcher::Event<ApiNode>>) -> anyhow::Result<Written> {
        let now = now();
        let seen =
            |object: &ApiNode, labels: &[String]| (convert::key(object), history::node(object, labels));
        let lines: Vec<Line> = match event {
            None => Vec::new(),
            Some(watcher::Event::Init) => {
                self.nodes.relisted.clear();
                Vec::new()
            }
            Some(watcher::Event::InitApply(object)) => {
                let (key, node) = seen(&object, &self.node_labels);
                self.nodes.relisted.insert(key, node.name.clone());
                self.ledger.node(node, now).into_iter().collect()
            }
            Some(watcher::Event::InitDone) => {
                let there = self.nodes.done();
                self.ledger.nodes_listed(&there, now)
            }
            Some(watcher::Event::Apply(object)) => {
                let (key, node) = seen(&object, &self.node_labels);
                self.nodes.names.insert(key, node.name.clone());
                self.ledger.node(node, now).into_iter().collect()
            }
            Some(watcher::Event::Delete(object)) => {
                let (key, node) = seen(&object, &self.node_labels);
                self.nodes.names.remove(&key);
                self.ledger.node_gone(&node.name, now).into_iter().collect()
            }
        };
        self.write(lines)
    }

    fn see_pod(&mut self, event: Option<watcher::Event<ApiPod>>) -> anyhow::Result<Written> {
        let now = now();
        match event {
            None => Ok(Written::Yes),
            Some(watcher::Event::Init) => {
                self.pods.relisted.clear();
                Ok(Written::Yes)
            }
            Some(watcher::Event::InitApply(object)) => {
                self.pods.relisted.insert(convert::key(&object), history::pod_name(&object));
                let lines = self.of_pod(&object, now);
                self.write(lines)
            }
            Some(watcher::Event::InitDone) => {
                let is_first = !self.pods.is_listed;
                let there = self.pods.done();
                let lines = self.ledger.pods_listed(&there, now);
                let written = self.write(lines)?;
                if is_first {
                    let (nodes, pods) = self.ledger.counts();
                    info!(file = %self.path.display(), bytes = self.log.size(), nodes, pods, "recording");
                }
                Ok(written)
            }
            Some(watcher::Event::Apply(object)) => {
                self.pods.names.insert(convert::key(&object), history::pod_name(&object));
                let lines = self.of_pod(&object, now);
                self.write(lines)
            }
            Some(watcher::Event::Delete(object)) => {
                let name = history::pod_name(&object);
                self.pods.names.remove(&convert::key(&object));
                // The last version may have news that no other had.
                let mut lines = self.of_pod(&object, now);
                if !lines.iter().any(|line| matches!(line.event, Event::Ended { .. })) {
                    lines.extend(self.ledger.pod_gone(&name, history::ended(&object, now)));
                }
                let written = self.write(lines)?;
                self.ledger.forget(&name);
                Ok(written)
            }
        }
    }

    fn of_pod(&self, object: &ApiPod, now: Timestamp) -> Vec<Line> {
        let seen = history::pod(object, now);
        let node = seen.bound.as_ref().map(|(node, _)| Key::new("", node.as_str()));
        let node = node.and_then(|node| self.nodes.names.get(&node));
        self.ledger.pod(&seen, node.map(String::as_str))
    }

    fn see_use(&mut self, usage: &[PodUsage]) -> anyhow::Result<Written> {
        let lines: Vec<Line> = usage
            .iter()
            .filter_map(|used| {
                let name = self.pods.names.get(&used.pod)?;
                self.ledger.used(name, (used.cpu_milli, used.memory_bytes >> 20), used.time)
            })
            .collect();
        self.write(lines)
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: when something was seen")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests;
