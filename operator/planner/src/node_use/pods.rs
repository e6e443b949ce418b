//! The pods of nodes that are counted by use.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    capacity::ScavengerPod,
    values::{Key, Name, Pod, PodUsage, UsageRules, later, resources::Resources},
};

/// For how long it is remembered what a pod used that has ended.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(3);

/// Ordinary pods that are bound to nodes. Empty while nothing is counted by use.
#[derive(Debug, Default)]
pub(crate) struct OrdinaryPods {
    active: bool,
    nodes: BTreeMap<Name, BTreeMap<Key, Bound>>,
    /// Where each of them is.
    places: BTreeMap<Key, Name>,
    /// Those that were seen before they were bound.
    unbound: BTreeSet<Key>,
}

#[derive(Debug)]
struct Bound {
    /// When it was bound, as far as anybody saw.
    since: Timestamp,
    cpu_milli: i64,
    memory_bytes: i64,
    /// Of `cpu_milli`, what may be cores of its own.
    exclusive_milli: i64,
}

impl OrdinaryPods {
    /// Begins with those that are there. Nobody saw when they were bound: not before they were created.
    pub(crate) fn begin<'a>(
        &mut self,
        pods: impl Iterator<Item = (&'a Key, &'a Name, (&'a Resources, i64), Timestamp)>,
    ) {
        if std::mem::replace(&mut self.active, true) {
            return;
        }
        for (key, node, requests, creation_time) in pods {
            self.put(key, node, requests, creation_time);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes in a version of a pod that has not ended, and returns the nodes on which something changed.
    pub(crate) fn set(&mut self, pod: &Pod, now: Timestamp) -> Vec<Name> {
        if !self.active {
            return Vec::new();
        }
        let Some(node) = pod.node.as_ref().or(pod.nominated_node.as_ref()) else {
            self.unbound.insert(pod.key.clone());
            return Vec::new();
        };
        let was_unbound = self.unbound.remove(&pod.key);
        let known = self.places.get(&pod.key).filter(|place| *place == node);
        let since = known.and_then(|_| self.nodes.get(node)?.get(&pod.key)).map(|bound| bound.since);
        let since = since.unwrap_or(if was_unbound { now } else { pod.creation_time });
        let before = self.remove(&pod.key);
        self.put(&pod.key, node, (&pod.requests, pod.exclusive_milli), since);
        before.into_iter().chain([node.clone()]).collect()
    }

    fn put(
        &mut self,
        key: &Key,
        node: &Name,
        (requests, exclusive_milli): (&Resources, i64),
        since: Timestamp,
    ) {
        let (cpu_milli, memory_bytes) = (requests.cpu_milli, requests.memory_bytes);
        self.nodes
            .entry(node.clone())
            .or_default()
            .insert(key.clone(), Bound { since, cpu_milli, memory_bytes, exclusive_milli });
        self.places.insert(key.clone(), node.clone());
    }

    /// Takes a pod away, and returns the node on which it was.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Name> {
        self.unbound.remove(key);
        let node = self.places.remove(key)?;
        if let Some(pods) = self.nodes.get_mut(&node) {
            pods.remove(key);
            if pods.is_empty() {
                self.nodes.remove(&node);
            }
        }
        Some(node)
    }

    fn on(&self, node: &Name) -> impl Iterator<Item = &Bound> {
        self.nodes.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// What those of a node request that were bound less than `window` ago.
    pub(super) fn younger_than(&self, node: &Name, window: SignedDuration, now: Timestamp) -> Resources {
        let mut requests = Resources::default();
        for pod in self.on(node).filter(|pod| later(pod.since, window) > now) {
            requests.cpu_milli = requests.cpu_milli.saturating_add(pod.cpu_milli);
            requests.memory_bytes = requests.memory_bytes.saturating_add(pod.memory_bytes);
        }
        requests
    }

    /// Millicores that are kept for those of a node alone that were bound at least `window` ago.
    pub(crate) fn kept_for(&self, node: &Name, window: SignedDuration, now: Timestamp) -> i64 {
        self.on(node).filter(|pod| later(pod.since, window) <= now).map(|pod| pod.exclusive_milli).sum()
    }

    /// When the next of those will have been bound for that long.
    pub(super) fn ripens_at(&self, node: &Name, window: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        self.on(node).map(|pod| later(pod.since, window)).filter(|time| *time > now).min()
    }

    /// The most memory that one of them requests.
    pub(super) fn largest_memory(&self, node: &Name) -> i64 {
        self.on(node).map(|pod| pod.memory_bytes).max().unwrap_or(0)
    }
}

/// What pods of ScavengerJobs were measured to use.
#[derive(Debug, Default)]
pub(crate) struct ScavengerPods {
    pods: BTreeMap<Key, Peak>,
    /// What pods held that have just ended, and when.
    left: BTreeMap<Name, Vec<(Timestamp, Resources)>>,
}

#[derive(Debug)]
struct Peak {
    first: Timestamp,
    last: Timestamp,
    memory_bytes: i64,
}

impl ScavengerPods {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A pod has ended that held this on a node. What it was measured to use at most counts, if that is known.
    pub(crate) fn left(&mut self, pod: &Key, node: &Name, held: &Resources, now: Timestamp) {
        let mut used =
            Resources { cpu_milli: held.cpu_milli, memory_bytes: held.memory_bytes, ..Resources::default() };
        if let Some(peak) = self.pods.get(pod) {
            used.memory_bytes = used.memory_bytes.min(peak.memory_bytes);
        }
        let left = self.left.entry(node.clone()).or_default();
        left.retain(|(time, _)| later(*time, REMEMBERED) > now);
        left.push((now, used));
    }

    /// What pods used that were there when a node was measured, or shortly before, and are not now.
    pub(super) fn left_since(
        &mut self,
        node: &Name,
        measured: Timestamp,
        slack: SignedDuration,
    ) -> Resources {
        let mut used = Resources::default();
        let Some(left) = self.left.get_mut(node) else { return used };
        left.retain(|(time, _)| later(*time, slack) >= measured);
        left.iter().for_each(|(_, amounts)| used.add(amounts));
        if left.is_empty() {
            self.left.remove(node);
        }
        used
    }

    /// Takes in a sample.
    pub(crate) fn add(&mut self, pod: &Key, usage: &PodUsage) {
        let (time, memory) = (usage.time, usage.memory_bytes.max(0));
        let peak = self.pods.entry(pod.clone()).or_insert(Peak { first: time, last: time, memory_bytes: 0 });
        peak.last = time.max(peak.last);
        peak.memory_bytes = memory.max(peak.memory_bytes);
    }

    pub(crate) fn forget(&mut self, pod: &Key) {
        self.pods.remove(pod);
    }

    pub(crate) fn forget_node(&mut self, node: &Name) {
        self.left.remove(node);
    }

    /// How much of the memory that a pod may use it is not expected to use.
    pub(crate) fn spares(&self, pod: &ScavengerPod<'_>, rules: &UsageRules) -> i64 {
        let Some(peak) = self.pods.get(pod.key) else { return 0 };
        if peak.last.duration_since(peak.first) < rules.window {
            return 0;
        }
        let expected = peak.memory_bytes.saturating_add(rules.margin.of(peak.memory_bytes));
        // What it requests kube-scheduler has counted already.
        (pod.holds.memory_bytes - expected.max(pod.requests.memory_bytes)).max(0)
    }
}
