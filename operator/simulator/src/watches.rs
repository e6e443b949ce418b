//! The watches: what changes reaches the planner later, in order within each of them.

use std::collections::BTreeSet;

use super::cluster::{Cluster, Event};
use scavenger_planner::values::{Key, Name, Observation, ScavengerJob};

/// The watches. Order holds within each, not between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// ScavengerJobs.
    ScavengerJobs,
    /// Their Jobs.
    Jobs,
    /// All pods.
    Pods,
    /// Nodes, and RuntimeClasses.
    Nodes,
    /// The pool.
    Pool,
}

impl Stream {
    /// Every watch.
    pub const ALL: [Self; 5] = [Self::ScavengerJobs, Self::Jobs, Self::Pods, Self::Nodes, Self::Pool];
}

/// What the planner was told last, by watch.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub scavenger_jobs: BTreeSet<Key>,
    /// Key, UID of the owner, own UID.
    pub jobs: BTreeSet<(Key, Name, Name)>,
    pub pods: BTreeSet<Key>,
    pub nodes: BTreeSet<Name>,
}

impl Cluster {
    /// A change becomes an event of its watch, in order.
    pub(super) fn emit(&mut self, stream: Stream, observation: Observation) {
        if self.held.contains(&stream) {
            self.held_back.entry(stream).or_default().push(observation);
            return;
        }
        let delay = self.delay(self.delays.watch[&stream]);
        let last = self.last_delivery.get(&stream).copied().unwrap_or(self.now);
        let time = (self.now + delay).max(last);
        self.last_delivery.insert(stream, time);
        self.serial += 1;
        let event = Event::Deliver(stream, Box::new(observation));
        self.events.insert((time, self.serial), (self.instance, event));
    }

    /// A watch delivers nothing until it is let go.
    pub fn hold_watch(&mut self, stream: Stream) {
        self.held.insert(stream);
    }

    /// A watch that was held delivers everything now.
    pub fn let_go(&mut self, stream: Stream) {
        self.held.remove(&stream);
        for observation in self.held_back.remove(&stream).unwrap_or_default() {
            self.emit(stream, observation);
        }
    }

    /// A watch is cut and lists everything again: versions in between are never seen.
    pub fn relist(&mut self, stream: Stream) {
        self.held.remove(&stream);
        self.held_back.remove(&stream);
        self.events.retain(|_, (_, event)| !matches!(event, Event::Deliver(of, _) if *of == stream));
        for observation in self.full_list(stream) {
            self.tell(observation);
        }
        self.turn();
    }

    /// Everything there is, as observations.
    #[must_use]
    pub fn objects(&self) -> Vec<Observation> {
        Stream::ALL.into_iter().flat_map(|stream| self.full_list(stream)).collect()
    }

    pub(super) fn full_list(&self, stream: Stream) -> Vec<Observation> {
        match stream {
            Stream::ScavengerJobs => {
                let there =
                    self.scavenger_jobs.values().map(|sj| Observation::ScavengerJob(Box::new(sj.clone())));
                let ended = |sj: &ScavengerJob| {
                    let ended = self.ended.get(&sj.uid)?.clone();
                    Some(Observation::EndedAttempts(sj.key.clone(), sj.uid.clone(), ended))
                };
                let ended: Vec<_> = self.scavenger_jobs.values().filter_map(ended).collect();
                let gone =
                    self.told.scavenger_jobs.iter().filter(|key| !self.scavenger_jobs.contains_key(*key));
                there.chain(gone.cloned().map(Observation::ScavengerJobGone)).chain(ended).collect()
            }
            Stream::Jobs => {
                let uids: BTreeSet<&Name> = self.jobs.values().map(|job| &job.uid).collect();
                let gone = self.told.jobs.iter().filter(|(_, _, uid)| !uids.contains(uid));
                let gone = gone
                    .cloned()
                    .map(|(key, owner, uid)| Observation::JobGone { namespace: key.namespace, owner, uid })
                    .collect::<Vec<_>>();
                self.jobs.values().cloned().map(Observation::Job).chain(gone).collect()
            }
            Stream::Pods => {
                let there = self.pods.values().map(|pod| Observation::Pod(Box::new(pod.clone())));
                let gone = self.told.pods.iter().filter(|key| !self.pods.contains_key(*key));
                [Observation::PodsRelisted]
                    .into_iter()
                    .chain(there)
                    .chain(gone.cloned().map(Observation::PodGone))
                    .collect()
            }
            Stream::Nodes => {
                let gone = self.told.nodes.iter().filter(|name| !self.nodes.contains_key(*name));
                let gone = gone.cloned().map(Observation::NodeGone).collect::<Vec<_>>();
                let classes = self.runtime_classes.values().cloned().map(Observation::RuntimeClass);
                self.nodes.values().cloned().map(Observation::Node).chain(gone).chain(classes).collect()
            }
            Stream::Pool => {
                let namespaces = self.namespaces.iter();
                let namespaces =
                    namespaces.map(|(name, labels)| Observation::Namespace(name.clone(), labels.clone()));
                [Observation::Pool(Box::new(self.pool.clone()))]
                    .into_iter()
                    .chain(
                        self.shares_written
                            .clone()
                            .map(|counted| Observation::Counted(Some(Box::new(counted)))),
                    )
                    .chain(namespaces)
                    .collect()
            }
        }
    }

    /// Hands one observation to the planner right now.
    pub fn tell(&mut self, observation: Observation) {
        match &observation {
            Observation::ScavengerJob(sj) => {
                self.told.scavenger_jobs.insert(sj.key.clone());
            }
            Observation::ScavengerJobGone(key) => {
                self.told.scavenger_jobs.remove(key);
            }
            Observation::Job(job) => {
                self.told.jobs.insert((job.key.clone(), job.owner.clone(), job.uid.clone()));
            }
            Observation::JobGone { uid, .. } => {
                self.told.jobs.retain(|(_, _, told)| told != uid);
            }
            Observation::Pod(pod) => {
                self.told.pods.insert(pod.key.clone());
            }
            Observation::PodGone(key) => {
                self.told.pods.remove(key);
            }
            Observation::Node(node) => {
                self.told.nodes.insert(node.name.clone());
            }
            Observation::NodeGone(name) => {
                self.told.nodes.remove(name);
            }
            Observation::Pool(pool) => {
                let former = std::mem::replace(&mut self.heard_pool, pool.as_ref().clone().ok());
                self.former_pools.extend(former.map(|settings| (self.now, settings)));
            }
            Observation::EndedAttempts(..)
            | Observation::Namespace(..)
            | Observation::NamespaceGone(_)
            | Observation::NamespacesKnown(_)
            | Observation::Counted(_)
            | Observation::PodsRelisted
            | Observation::Volume(_)
            | Observation::VolumeGone(_)
            | Observation::VolumesKnown(_)
            | Observation::RuntimeClass(_)
            | Observation::RuntimeClassGone(_)
            | Observation::RuntimeClassesKnown(_)
            | Observation::Usage(_)
            | Observation::UsageNotServed
            | Observation::PodUsage(_)
            | Observation::RememberedUse(_)
            | Observation::Report(_)
            | Observation::Kill(_)
            | Observation::NodeAgents(_)
            | Observation::Done(_) => {}
        }
        self.planner.observe(observation, self.now);
    }
}
