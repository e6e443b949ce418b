//! Reads the cluster: one watch for each kind, each turned into the planner's observations and sent through one
//! bounded channel, in the order in which the watch delivers them.

mod constraints;
pub(crate) mod convert;
mod owner;
pub(crate) mod progress;
mod usage;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{Node as ApiNode, PersistentVolume, Pod as ApiPod},
};
use kube::{
    Api, Client,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use scavenger_planner::values::{Key, Name, Observation};
use scavenger_schema::{names, scavenger_job::ScavengerJob, scavenger_pool::ScavengerPool};
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, task::JoinSet};
use tracing::warn;

use crate::{controller::Message, metrics::Metrics, validate};
use progress::Progress;

/// The kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    ScavengerJobs,
    Jobs,
    Pods,
    Nodes,
    Volumes,
    Pools,
}

impl Watched {
    pub(crate) const ALL: [Self; 6] =
        [Self::ScavengerJobs, Self::Jobs, Self::Pods, Self::Nodes, Self::Volumes, Self::Pools];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ScavengerJobs => "scavengerjobs",
            Self::Jobs => "jobs",
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Volumes => "persistentvolumes",
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
    /// What is seen when the watch lists everything anew.
    relisted: Option<fn() -> Observation>,
}

/// Where watches report how they get on.
#[derive(Clone, Default)]
pub(crate) struct Reporting {
    pub(crate) progress: Arc<Progress>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Reporting {
    fn failed(&self, watched: Watched, error: &watcher::Error) {
        self.progress.fail(watched);
        self.metrics.watch_failed(watched.name(), code(error));
        warn!(kind = watched.name(), %error, "watch failed; it is started again");
    }
}

/// What kind of error this is: an HTTP status, or a word.
fn code(error: &watcher::Error) -> String {
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
    let scavenger_jobs = Kind {
        watched: Watched::ScavengerJobs,
        see: see_sj,
        gone: Observation::ScavengerJobGone,
        relisted: None,
    };
    spawn(
        &mut watches,
        Api::<DeserializeGuard<ScavengerJob>>::all(client.clone()),
        watcher::Config::default(),
        scavenger_jobs,
        (sender, reporting),
    );

    let jobs = Kind {
        watched: Watched::Jobs,
        see: |sj: &BatchJob| {
            let job = convert::job(sj)?;
            let identity = (job.key.namespace.clone(), job.owner.clone(), job.uid.clone());
            Some((identity, Observation::Job(job)))
        },
        gone: |(namespace, owner, uid): (Name, Name, Name)| Observation::JobGone { namespace, owner, uid },
        relisted: None,
    };
    spawn(
        &mut watches,
        Api::<BatchJob>::all(client.clone()),
        watcher::Config::default().labels(names::LABEL_JOB),
        jobs,
        (sender, reporting),
    );

    let pods = Kind {
        watched: Watched::Pods,
        see: |pod: &ApiPod| Some((convert::key(pod), Observation::Pod(Box::new(convert::pod(pod))))),
        gone: Observation::PodGone,
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
        relisted: None,
    };
    let all = Api::<PersistentVolume>::all(client.clone());
    spawn(&mut watches, all, watcher::Config::default(), volumes, (sender, reporting));

    let pools = Kind {
        watched: Watched::Pools,
        see: see_pool,
        gone: |()| Observation::Pool(Box::new(Err(no_pool()))),
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
    watches.spawn(usage::follow(client.clone(), sender.clone()));
    watches
}

fn no_pool() -> String {
    format!("the ScavengerPool {:?} does not exist; an admin must create it", names::DEFAULT_POOL)
}

fn see_sj(guard: &DeserializeGuard<ScavengerJob>) -> Option<(Key, Observation)> {
    match &guard.0 {
        Ok(sj) => Some((convert::key(sj), Observation::ScavengerJob(Box::new(convert::sj(sj))))),
        Err(invalid) => {
            // One object that can not be read must not end the watch of all others.
            warn!(
                namespace = invalid.metadata.namespace.as_deref().unwrap_or_default(),
                name = invalid.metadata.name.as_deref().unwrap_or_default(),
                error = %invalid.error,
                "skipped a ScavengerJob that can not be decoded"
            );
            None
        }
    }
}

fn see_pool(guard: &DeserializeGuard<ScavengerPool>) -> Option<((), Observation)> {
    let settings = match &guard.0 {
        Ok(pool) => validate::settings(&pool.spec).map_err(|error| error.to_string()),
        Err(invalid) => Err(invalid.error.clone()),
    };
    let named = |reason| format!("the ScavengerPool {:?} can not be used: {reason}", names::DEFAULT_POOL);
    Some(((), Observation::Pool(Box::new(settings.map_err(named)))))
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

async fn follow<K, I>(
    api: Api<K>,
    config: watcher::Config,
    kind: Kind<K, I>,
    (sender, reporting): (&mpsc::Sender<Message>, &Reporting),
) -> Result<(), mpsc::error::SendError<Message>>
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    I: Ord + Clone + Send + 'static,
{
    // What is there, by identity of the API object, so that what vanished during a gap is seen to be gone.
    let mut there: BTreeMap<Key, I> = BTreeMap::new();
    let mut relisted: BTreeSet<Key> = BTreeSet::new();
    let mut stream = watcher(api, config).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        match &event {
            // Said before anything is asked.
            Ok(watcher::Event::Init) => {}
            Ok(watcher::Event::InitDone) => reporting.progress.list(kind.watched),
            Ok(_) => reporting.progress.hear(kind.watched),
            Err(error) => reporting.failed(kind.watched, error),
        }
        match event {
            Ok(watcher::Event::Init) => {
                relisted.clear();
                sender.send(Message::Listing(kind.watched)).await?;
                if let Some(relisted) = kind.relisted {
                    sender.send(Message::Seen(relisted())).await?;
                }
            }
            Ok(watcher::Event::InitApply(object)) => {
                relisted.insert(convert::key(&object));
                apply(&kind, &object, &mut there, sender).await?;
            }
            Ok(watcher::Event::InitDone) => {
                let vanished: Vec<Key> =
                    there.keys().filter(|key| !relisted.contains(*key)).cloned().collect();
                for key in vanished {
                    if let Some(identity) = there.remove(&key) {
                        sender.send(Message::Seen((kind.gone)(identity))).await?;
                    }
                }
                relisted.clear();
                sender.send(Message::Listed(kind.watched)).await?;
            }
            Ok(watcher::Event::Apply(object)) => apply(&kind, &object, &mut there, sender).await?,
            Ok(watcher::Event::Delete(object)) => {
                // The last version may carry news (a container's end) that no other version did.
                apply(&kind, &object, &mut there, sender).await?;
                if let Some(identity) = there.remove(&convert::key(&object)) {
                    sender.send(Message::Seen((kind.gone)(identity))).await?;
                }
            }
            Err(_) => {}
        }
    }
    Ok(())
}

async fn apply<K, I>(
    kind: &Kind<K, I>,
    object: &K,
    there: &mut BTreeMap<Key, I>,
    sender: &mpsc::Sender<Message>,
) -> Result<(), mpsc::error::SendError<Message>>
where
    K: kube::Resource,
    I: Clone,
{
    if let Some((identity, observation)) = (kind.see)(object) {
        there.insert(convert::key(object), identity);
        sender.send(Message::Seen(observation)).await?;
    }
    Ok(())
}
