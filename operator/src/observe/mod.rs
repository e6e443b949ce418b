//! Reads the cluster: one watch for each kind, each turned into the planner's observations and sent through one
//! bounded channel, in the order in which the watch delivers them.

mod constraints;
mod container;
pub(crate) mod convert;
pub(crate) mod history;
mod owner;
pub(crate) mod progress;
mod requests;
mod scavenger_job;
pub(crate) mod supervision;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{Namespace, Node as ApiNode, PersistentVolume, Pod as ApiPod},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client, ResourceExt as _,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use scavenger_planner::values::{Key, Name, Observation};
use scavenger_schema::{names, scavenger_job::ScavengerJob, scavenger_pool::ScavengerPool, terminal::shown};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, task::JoinSet};
use tracing::warn;

use crate::{controller::Message, metrics::Metrics, node_use::Store, pool};
use progress::Progress;
pub(crate) use usage::of_pods as usage_of_pods;

/// The kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    ScavengerJobs,
    Jobs,
    Pods,
    Nodes,
    Volumes,
    RuntimeClasses,
    Namespaces,
    Pools,
}

impl Watched {
    pub(crate) const ALL: [Self; 8] = [
        Self::ScavengerJobs,
        Self::Jobs,
        Self::Pods,
        Self::Nodes,
        Self::Volumes,
        Self::RuntimeClasses,
        Self::Namespaces,
        Self::Pools,
    ];

    /// True if nothing is planned while this kind is unknown: half a view would show room that is not there and Jobs
    /// that seem to be gone. Of volumes and RuntimeClasses only starts need to know, and only those that name one:
    /// others who need room are not kept waiting for them. Without its labels a namespace is a tenant by its own name.
    pub(crate) fn is_vital(self) -> bool {
        self.known(true).is_none()
    }

    /// What is seen of a kind without which planning goes on: whether all of it is known.
    pub(crate) fn known(self, known: bool) -> Option<Observation> {
        match self {
            Self::Volumes => Some(Observation::VolumesKnown(known)),
            Self::RuntimeClasses => Some(Observation::RuntimeClassesKnown(known)),
            Self::Namespaces => Some(Observation::NamespacesKnown(known)),
            Self::ScavengerJobs | Self::Jobs | Self::Pods | Self::Nodes | Self::Pools => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ScavengerJobs => "scavengerjobs",
            Self::Jobs => "jobs",
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Volumes => "persistentvolumes",
            Self::RuntimeClasses => "runtimeclasses",
            Self::Namespaces => "namespaces",
            Self::Pools => "scavengerpools",
        }
    }
}

/// How one kind becomes observations.
struct Kind<K, I> {
    watched: Watched,
    /// What identifies an object once it is gone, and what is seen of it while it is there; none if it is not ours.
    see: fn(&K) -> Option<(I, Observation)>,
    gone: fn(I) -> Observation,
    /// What is seen of it beside that, each time or only in lists.
    beside: fn(&K, Listed) -> Option<Observation>,
    /// True if the object could be decoded.
    readable: fn(&K) -> bool,
    /// What is seen when the watch lists everything again.
    relisted: Option<fn() -> Observation>,
}

/// True for an object of a list.
type Listed = bool;

/// Where watches report how they get on, and what they begin with.
#[derive(Clone, Default)]
pub(crate) struct Reporting {
    /// Where it stands what the leader before this one knew of the use of nodes.
    pub(crate) node_use: Option<Store>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Reporting {
    fn failed(&self, watched: Watched, error: &watcher::Error) {
        self.progress.fail(watched);
        self.metrics.watch_failed(watched.name(), code(error));
        warn!(kind = watched.name(), error = shown(&error.to_string()), "watch failed; it is started again");
    }
}

/// What kind of error this is: an HTTP status, or a word.
pub(crate) fn code(error: &watcher::Error) -> String {
    use watcher::Error;
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            match error {
                kube::Error::Api(status) => status.code.to_string(),
                kube::Error::SerdeError(_) => "undecodable".to_owned(),
                _ => "connection".to_owned(),
            }
        }
        Error::WatchError(status) => status.code.to_string(),
        Error::NoResourceVersion => "undecodable".to_owned(),
    }
}

/// Starts all watches. Each sends [`Message::Listed`] when its first list is complete. They end when the set is dropped.
pub(crate) fn start(client: &Client, sender: &mpsc::Sender<Message>, reporting: &Reporting) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    spawn(
        &mut watches,
        Api::<DeserializeGuard<ScavengerJob>>::all(client.clone()),
        // With 64 KiB of input each, and a status, a page is some 30 MB at most.
        watcher::Config::default().page_size(100),
        scavenger_jobs(),
        (sender, reporting),
    );

    spawn(
        &mut watches,
        Api::<BatchJob>::all(client.clone()),
        watcher::Config::default().labels(names::LABEL_JOB),
        jobs(),
        (sender, reporting),
    );

    let pods = Kind {
        watched: Watched::Pods,
        see: |pod: &ApiPod| Some((convert::key(pod), Observation::Pod(Box::new(convert::pod(pod))))),
        gone: Observation::PodGone,
        beside: |_, _| None,
        readable: |_| true,
        relisted: Some(|| Observation::PodsRelisted),
    };
    spawn(
        &mut watches,
        Api::<ApiPod>::all(client.clone()),
        watcher::Config::default(),
        pods,
        (sender, reporting),
    );

    let nodes = Kind {
        watched: Watched::Nodes,
        see: |node: &ApiNode| {
            let node = convert::node(node);
            Some((node.name.clone(), Observation::Node(node)))
        },
        gone: Observation::NodeGone,
        beside: |_, _| None,
        readable: |_| true,
        relisted: None,
    };
    spawn(
        &mut watches,
        Api::<ApiNode>::all(client.clone()),
        watcher::Config::default(),
        nodes,
        (sender, reporting),
    );

    let volumes = Kind {
        watched: Watched::Volumes,
        see: |volume: &PersistentVolume| {
            let volume = convert::volume(volume);
            Some((volume.name.clone(), Observation::Volume(volume)))
        },
        gone: Observation::VolumeGone,
        beside: |_, _| None,
        readable: |_| true,
        relisted: None,
    };
    let all = Api::<PersistentVolume>::all(client.clone());
    spawn(&mut watches, all, watcher::Config::default(), volumes, (sender, reporting));

    let classes = Kind {
        watched: Watched::RuntimeClasses,
        see: |class: &RuntimeClass| {
            let class = convert::runtime_class(class);
            Some((class.name.clone(), Observation::RuntimeClass(class)))
        },
        gone: Observation::RuntimeClassGone,
        beside: |_, _| None,
        readable: |_| true,
        relisted: None,
    };
    let all = Api::<RuntimeClass>::all(client.clone());
    spawn(&mut watches, all, watcher::Config::default(), classes, (sender, reporting));

    let all = Api::<Namespace>::all(client.clone());
    spawn(&mut watches, all, watcher::Config::default(), namespaces(), (sender, reporting));

    let pools = Kind {
        watched: Watched::Pools,
        see: see_pool,
        gone: |()| Observation::Pool(Box::new(Err(no_pool()))),
        beside: |guard, _| see_counted(guard),
        readable: |guard: &DeserializeGuard<ScavengerPool>| guard.0.is_ok(),
        relisted: None,
    };
    let only_default = watcher::Config::default().fields(&format!("metadata.name={}", names::DEFAULT_POOL));
    spawn(
        &mut watches,
        Api::<DeserializeGuard<ScavengerPool>>::all(client.clone()),
        only_default,
        pools,
        (sender, reporting),
    );
    // Not among the kinds: most clusters do without, and nothing waits for it.
    watches.spawn(usage::follow(client.clone(), reporting.node_use.clone(), sender.clone()));
    watches
}

fn scavenger_jobs() -> Kind<DeserializeGuard<ScavengerJob>, Key> {
    Kind {
        watched: Watched::ScavengerJobs,
        see: see_sj,
        gone: Observation::ScavengerJobGone,
        // Of an attempt that ends while a watch goes on, every version is seen.
        beside: |guard, is_listed| {
            guard.0.as_ref().ok().filter(|_| is_listed).and_then(convert::ended_attempts)
        },
        readable: |guard| guard.0.is_ok(),
        relisted: None,
    }
}

fn jobs() -> Kind<BatchJob, (Name, Name, Name)> {
    Kind {
        watched: Watched::Jobs,
        see: |sj: &BatchJob| {
            let job = convert::job(sj)?;
            let identity = (job.key.namespace.clone(), job.owner.clone(), job.uid.clone());
            Some((identity, Observation::Job(job)))
        },
        gone: |(namespace, owner, uid): (Name, Name, Name)| Observation::JobGone { namespace, owner, uid },
        beside: |_, _| None,
        readable: |_| true,
        relisted: None,
    }
}

fn namespaces() -> Kind<Namespace, Name> {
    Kind {
        watched: Watched::Namespaces,
        see: |namespace: &Namespace| {
            let name = Name::from(namespace.name_any());
            Some((name.clone(), Observation::Namespace(name, convert::labels(namespace))))
        },
        gone: Observation::NamespaceGone,
        beside: |_, _| None,
        readable: |_| true,
        relisted: None,
    }
}

fn no_pool() -> String {
    format!("the ScavengerPool {:?} does not exist; an admin must create it", names::DEFAULT_POOL)
}

/// One object that cannot be read must not end the watch of all others. It is let alone, as a newer version of the
/// operator may have written it; but it can be deleted, for which its metadata are enough.
fn see_sj(guard: &DeserializeGuard<ScavengerJob>) -> Option<(Key, Observation)> {
    match &guard.0 {
        Ok(sj) => Some((convert::key(sj), Observation::ScavengerJob(Box::new(convert::sj(sj))))),
        Err(invalid) => {
            warn!(
                namespace = invalid.metadata.namespace.as_deref().unwrap_or_default(),
                name = invalid.metadata.name.as_deref().unwrap_or_default(),
                error = shown(&invalid.error),
                "skipped a ScavengerJob that cannot be decoded"
            );
            invalid.metadata.deletion_timestamp.as_ref()?;
            let seen = convert::undecodable_sj(guard, invalid.error.clone());
            Some((seen.key.clone(), Observation::ScavengerJob(Box::new(seen))))
        }
    }
}

fn see_pool(guard: &DeserializeGuard<ScavengerPool>) -> Option<((), Observation)> {
    let settings = match &guard.0 {
        Ok(pool) => {
            scavenger_specs::settings(&pool.spec, pool.metadata.generation).map_err(|error| error.to_string())
        }
        Err(invalid) => Err(invalid.error.clone()),
    };
    let named = |reason| format!("the ScavengerPool {:?} cannot be used: {reason}", names::DEFAULT_POOL);
    Some(((), Observation::Pool(Box::new(settings.map_err(named)))))
}

/// What the status of the pool says that tenants used.
fn see_counted(guard: &DeserializeGuard<ScavengerPool>) -> Option<Observation> {
    let status = guard.0.as_ref().ok()?.status.as_ref();
    Some(Observation::Counted(status.and_then(pool::counted).map(Box::new)))
}

fn spawn<K, I>(
    watches: &mut JoinSet<()>,
    api: Api<K>,
    config: watcher::Config,
    kind: Kind<K, I>,
    (sender, reporting): (&mpsc::Sender<Message>, &Reporting),
) where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    I: Ord + Clone + Send + 'static,
{
    let (sender, reporting) = (sender.clone(), reporting.clone());
    watches.spawn(async move {
        let watched = kind.watched;
        if let Err(mpsc::error::SendError(_)) = follow(api, config, kind, (&sender, &reporting)).await {
            // The controller is gone: the process is ending.
            return;
        }
        // A watch never ends by itself; if it does, the view would grow stale unseen.
        let _closed = sender.send(Message::WatchEnded(watched)).await;
    });
}

/// What a watch has seen so far.
struct Watch<'a, K, I> {
    kind: Kind<K, I>,
    /// What is there, by identity of the API object, so that what vanished during a gap is seen to be gone.
    there: BTreeMap<Key, I>,
    /// What could not be decoded.
    undecodable: BTreeSet<Key>,
    sender: &'a mpsc::Sender<Message>,
    reporting: &'a Reporting,
}

type Sent = Result<(), mpsc::error::SendError<Message>>;

async fn follow<K, I>(
    api: Api<K>,
    config: watcher::Config,
    kind: Kind<K, I>,
    (sender, reporting): (&mpsc::Sender<Message>, &Reporting),
) -> Sent
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    I: Ord + Clone + Send + 'static,
{
    let watched = kind.watched;
    let mut watch = Watch::new(kind, sender, reporting);
    let mut relisted: BTreeSet<Key> = BTreeSet::new();
    let mut stream = watcher(api, config).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        match &event {
            // Said before anything is asked.
            Ok(watcher::Event::Init) => {}
            Ok(watcher::Event::InitDone) => reporting.progress.list(watched),
            Ok(_) => reporting.progress.hear(watched),
            Err(error) => reporting.failed(watched, error),
        }
        match event {
            Ok(watcher::Event::Init) => {
                relisted.clear();
                sender.send(Message::Listing(watched)).await?;
                if let Some(relisted) = watch.kind.relisted {
                    sender.send(Message::Seen(relisted())).await?;
                }
            }
            Ok(watcher::Event::InitApply(object)) => {
                relisted.insert(convert::key(&object));
                watch.apply(&object, true).await?;
            }
            Ok(watcher::Event::InitDone) => {
                let known = watch.there.keys().chain(&watch.undecodable);
                let vanished: BTreeSet<Key> = known.filter(|key| !relisted.contains(*key)).cloned().collect();
                for key in vanished {
                    watch.gone(&key).await?;
                }
                relisted.clear();
                sender.send(Message::Listed(watched)).await?;
            }
            Ok(watcher::Event::Apply(object)) => watch.apply(&object, false).await?,
            Ok(watcher::Event::Delete(object)) => {
                // The last version may carry news (a container's end) that no other version did.
                watch.apply(&object, false).await?;
                watch.gone(&convert::key(&object)).await?;
            }
            Err(error) if code(&error) == "403" => sender.send(Message::Forbidden(watched)).await?,
            Err(_) => {}
        }
    }
    Ok(())
}

impl<'a, K, I> Watch<'a, K, I>
where
    K: kube::Resource,
    I: Ord + Clone,
{
    fn new(kind: Kind<K, I>, sender: &'a mpsc::Sender<Message>, reporting: &'a Reporting) -> Self {
        Self { kind, there: BTreeMap::new(), undecodable: BTreeSet::new(), sender, reporting }
    }

    async fn apply(&mut self, object: &K, is_listed: Listed) -> Sent {
        let key = convert::key(object);
        if !convert::is_ordered(object) {
            let version = object.meta().resource_version.clone().unwrap_or_default();
            return self.sender.send(Message::Unordered(self.kind.watched, version)).await;
        }
        self.count_undecodable(&key, !(self.kind.readable)(object));
        let Some((identity, observation)) = (self.kind.see)(object) else { return Ok(()) };
        // An object of this name, and another after it, may both lie in one gap.
        if let Some(before) = self.there.insert(key, identity.clone())
            && before != identity
        {
            self.sender.send(Message::Seen((self.kind.gone)(before))).await?;
        }
        self.sender.send(Message::Seen(observation)).await?;
        match (self.kind.beside)(object, is_listed) {
            Some(beside) => self.sender.send(Message::Seen(beside)).await,
            None => Ok(()),
        }
    }

    async fn gone(&mut self, key: &Key) -> Sent {
        self.count_undecodable(key, false);
        match self.there.remove(key) {
            Some(identity) => self.sender.send(Message::Seen((self.kind.gone)(identity))).await,
            None => Ok(()),
        }
    }

    fn count_undecodable(&mut self, key: &Key, is_undecodable: bool) {
        let changes = match (is_undecodable, self.undecodable.contains(key)) {
            (true, false) => self.undecodable.insert(key.clone()),
            (false, true) => self.undecodable.remove(key),
            _ => false,
        };
        if changes {
            self.reporting.metrics.undecodable(self.kind.watched.name(), self.undecodable.len());
        }
    }
}

#[cfg(test)]
mod tests;
