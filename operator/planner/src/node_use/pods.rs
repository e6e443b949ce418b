//! The pods of nodes that are counted by use.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    capacity::{OrdinaryPod, ScavengerPod},
    values::{Key, Name, Pod, PodUsage, UsageRules, later, resources::Resources},
};

/// For how long it is remembered what a pod used that has ended.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(3);

/// Ordinary pods that are bound to nodes, or nominated for them. Empty while nothing is counted by use.
#[derive(Debug, Default)]
pub(crate) struct OrdinaryPods {
    active: bool,
    nodes: BTreeMap<Name, BTreeMap<Key, Bound>>,
    /// Where each of them is.
    places: BTreeMap<Key, Name>,
}

#[derive(Debug)]
struct Bound {
    /// When it was bound; none while it is only nominated for the node.
    since: Option<Timestamp>,
    /// What it requests: millicores and bytes.
    requests: (i64, i64),
    /// Of that, what it has: a resize that its node deferred is not part of it.
    has: (i64, i64),
    /// What resizes in place have added, and when the last of them was made.
    added: (Timestamp, (i64, i64)),
    /// Millicores that may be cores of its own.
    exclusive_milli: i64,
}

impl Bound {
    fn new(pod: &OrdinaryPod<'_>) -> Self {
        let requests = (pod.requests.cpu_milli, pod.requests.memory_bytes);
        let deferred = pod.deferred_resize.map_or((0, 0), |more| (more.cpu_milli, more.memory_bytes));
        Self {
            since: pod.bound_since,
            requests,
            has: (requests.0 - deferred.0, requests.1 - deferred.1),
            added: (Timestamp::MIN, (0, 0)),
            exclusive_milli: pod.exclusive_milli,
        }
    }

    /// The next version of a pod: nobody knows yet how it uses what it has got since the last one.
    fn after(self, old: &Self, now: Timestamp) -> Self {
        let more = (self.has.0 - old.has.0, self.has.1 - old.has.1);
        let (time, added) = old.added;
        let time = if more.0 > 0 || more.1 > 0 { now } else { time };
        Self { added: (time, ((added.0 + more.0).max(0), (added.1 + more.1).max(0))), ..self }
    }

    /// True if it was not bound `window` ago.
    fn is_young(&self, window: SignedDuration, now: Timestamp) -> bool {
        self.since.is_none_or(|since| later(since, window) > now)
    }

    /// What it requests and has had for less than `window`.
    fn young(&self, window: SignedDuration, now: Timestamp) -> (i64, i64) {
        let (time, added) = self.added;
        match self.is_young(window, now) {
            true => self.requests,
            false if later(time, window) > now => added,
            false => (0, 0),
        }
    }
}

impl OrdinaryPods {
    /// Begins with those that are there.
    pub(crate) fn begin<'a>(&mut self, pods: impl Iterator<Item = OrdinaryPod<'a>>) {
        if std::mem::replace(&mut self.active, true) {
            return;
        }
        for pod in pods {
            self.put(&pod, Bound::new(&pod));
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
        let Some(pod) = OrdinaryPod::of(pod) else { return self.remove(&pod.key).into_iter().collect() };
        let new = Bound::new(&pod);
        let old = self.places.get(pod.key).filter(|place| *place == pod.node);
        let old = old.and_then(|node| self.nodes.get(node)?.get(pod.key));
        // Another time of its binding is that of another pod with its name.
        let new = match old.filter(|old| old.since == new.since) {
            Some(old) => new.after(old, now),
            None => new,
        };
        let before = self.remove(pod.key);
        self.put(&pod, new);
        before.into_iter().chain([pod.node.clone()]).collect()
    }

    fn put(&mut self, pod: &OrdinaryPod<'_>, bound: Bound) {
        self.nodes.entry(pod.node.clone()).or_default().insert(pod.key.clone(), bound);
        self.places.insert(pod.key.clone(), pod.node.clone());
    }

    /// Takes a pod away, and returns the node on which it was.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Name> {
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

    /// What those of a node request that were bound, or have grown, less than `window` ago.
    pub(super) fn younger_than(&self, node: &Name, window: SignedDuration, now: Timestamp) -> Resources {
        let mut requests = Resources::default();
        for (cpu_milli, memory_bytes) in self.on(node).map(|pod| pod.young(window, now)) {
            requests.cpu_milli = requests.cpu_milli.saturating_add(cpu_milli);
            requests.memory_bytes = requests.memory_bytes.saturating_add(memory_bytes);
        }
        requests
    }

    /// Millicores that are kept for those of a node alone that were bound at least `window` ago.
    pub(crate) fn kept_for(&self, node: &Name, window: SignedDuration, now: Timestamp) -> i64 {
        self.on(node).filter(|pod| !pod.is_young(window, now)).map(|pod| pod.exclusive_milli).sum()
    }

    /// When the next of those will have been there for that long, or have what it has.
    pub(super) fn ripens_at(&self, node: &Name, window: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let times = self.on(node).flat_map(|pod| [pod.since, Some(pod.added.0)]).flatten();
        times.map(|time| later(time, window)).filter(|time| *time > now).min()
    }

    /// The most memory that one of them requests.
    pub(super) fn largest_memory(&self, node: &Name) -> i64 {
        self.on(node).map(|pod| pod.requests.1).max().unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, pod, requests, seconds};

    const WINDOW: SignedDuration = SignedDuration::from_secs(300);

    /// Millicores that are young on node n1.
    fn young(pods: &OrdinaryPods, second: i64) -> i64 {
        pods.younger_than(&"n1".into(), WINDOW, at(second)).cpu_milli
    }

    fn begun() -> OrdinaryPods {
        let mut pods = OrdinaryPods::default();
        pods.begin(std::iter::empty());
        pods
    }

    #[test]
    fn a_pod_is_as_old_as_its_binding() {
        let mut pods = begun();
        let waits = pod("web", 1000);
        pods.set(&waits, at(1000));
        let nominated = Pod { nominated_node: Some("n1".into()), ..waits };
        pods.set(&nominated, at(1000));
        assert_eq!(young(&pods, 9000), 1000, "it is about to be bound, however long it has waited");
        assert_eq!(pods.ripens_at(&"n1".into(), WINDOW, at(9000)), None);
        let bound = Pod { scheduled: Some(at(9000)), ..nominated.clone().on("n1") };
        pods.set(&bound, at(9001));
        assert_eq!((young(&pods, 9299), young(&pods, 9300)), (1000, 0));
        // Its nomination is taken back.
        pods.set(&nominated, at(9002));
        pods.set(&Pod { nominated_node: None, ..nominated }, at(9003));
        assert_eq!(young(&pods, 9004), 0);
    }

    #[test]
    fn what_a_resize_adds_is_young_once_the_pod_has_it() {
        let mut pods = begun();
        let web = Pod { scheduled: Some(at(0)), ..pod("web", 1000).on("n1") };
        pods.set(&web, at(0));
        let grown = Pod { requests: requests(6000), ..web.clone() };
        let deferred = Pod { deferred_resize: Some(requests(5000)), ..grown.clone() };
        pods.set(&deferred, at(1000));
        assert_eq!(young(&pods, 1000), 0, "it has not got it");
        pods.set(&grown, at(2000));
        assert_eq!((young(&pods, 2299), young(&pods, 2300)), (5000, 0));
        assert_eq!(pods.ripens_at(&"n1".into(), WINDOW, at(2000)), Some(at(2000) + seconds(300)));
        // It shrinks by more than it has grown lately, and grows by a little.
        pods.set(&Pod { requests: requests(500), ..web.clone() }, at(2100));
        assert_eq!(young(&pods, 2100), 0);
        pods.set(&Pod { requests: requests(700), ..web }, at(2200));
        assert_eq!((young(&pods, 2499), young(&pods, 2500)), (200, 0));
    }
}
