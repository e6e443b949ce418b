//! The circuit breaker: a node on which accounting Usage did harm is counted by requests for a day.
//!
//! What was started there by use is interrupted. Harm is an ordinary container that was killed for memory, or an ordinary
//! pod that the kubelet evicted, while pods of ScavengerJobs were on the node. The Kubernetes API does not tell a kill by the node from one by the container's own
//! limit, so a pod that outgrows its own limit trips the breaker, too: it costs capacity, and never an ordinary pod.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::{
    backoff::timed::{Rule, Timed},
    faults::kubelet::is_evicted_for_memory,
    values::{Harm, Key, Name, Pod, later},
};

/// For how long a node is counted by requests.
const FOR: SignedDuration = SignedDuration::from_hours(24);

/// A kill counts if ScavengerJobs were on the node so long before it.
const BEFORE: SignedDuration = SignedDuration::from_secs(60);

/// The nodes on which accounting Usage did harm.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// Since when pods are looked at.
    began: Option<Timestamp>,
    open: Timed<Name>,
    /// When ScavengerJobs were last seen on each node.
    shared: BTreeMap<Name, Timestamp>,
    /// The newest kill of each pod that counted.
    counted: BTreeMap<Key, Timestamp>,
}

impl Default for Breaker {
    fn default() -> Self {
        let open = Timed::new(Rule::always(FOR));
        Self { began: None, open, shared: BTreeMap::new(), counted: BTreeMap::new() }
    }
}

impl Breaker {
    /// ScavengerJobs are on a node.
    pub(crate) fn shared(&mut self, node: &Name, now: Timestamp) {
        self.shared.insert(node.clone(), now);
    }

    /// Looks at a version of an ordinary pod, and returns its node if that is counted by requests from now on.
    /// `is_shared` says whether a ScavengerJob is there now.
    pub(crate) fn see(&mut self, pod: &Pod, is_shared: bool, now: Timestamp) -> Option<Name> {
        let began = *self.began.get_or_insert(now);
        let node = pod.node.as_ref()?;
        let evicted = pod.status_reason.as_ref();
        let evicted = evicted.is_some_and(|(reason, message)| is_evicted_for_memory(reason, message));
        let (time, what) = match (pod.out_of_memory, pod.disrupted_since.filter(|_| evicted)) {
            (Some(time), _) => (time, "a container of it was killed for memory"),
            (None, Some(time)) => (time, "the kubelet evicted it for lack of memory"),
            (None, None) => return None,
        };
        if self.counted.get(&pod.key).is_some_and(|counted| *counted >= time) {
            return None;
        }
        self.counted.insert(pod.key.clone(), time);
        // What happened before this planner was there is over. What is shown late is not: a kubelet on a node without memory
        // is slow, and the time is by the node's clock.
        let is_news = later(time, BEFORE) >= began;
        let was_shared =
            || self.shared.get(node).is_some_and(|shared| time.min(now) <= later(*shared, BEFORE));
        if !is_news || !(is_shared || was_shared()) {
            return None;
        }
        let why = || format!("ordinary pod {}: {what} while ScavengerJobs were on the node", pod.key);
        self.open.begin(node.clone(), now, |_| why());
        Some(node.clone())
    }

    pub(crate) fn forget_node(&mut self, node: &Name) {
        self.open.end(node);
        self.shared.remove(node);
    }

    pub(crate) fn forget(&mut self, pod: &Key) {
        self.counted.remove(pod);
    }

    /// True while a node is counted by requests.
    pub(crate) fn is_open(&self, node: &Name) -> bool {
        self.open.get(node).is_some()
    }

    /// What happened on a node that is counted by requests because of it.
    pub(super) fn harm(&self, node: &Name) -> Option<&str> {
        self.open.get(node).map(|pause| pause.why.as_str())
    }

    /// The nodes that are counted by requests, until when, and why.
    pub(crate) fn open(&self) -> impl Iterator<Item = (&Name, Timestamp, &str)> {
        self.open.iter().map(|(node, pause)| (node, pause.until, pause.why.as_str()))
    }

    /// Takes over what the planner before this one knew, and returns the nodes that it did not know of.
    pub(crate) fn recall(&mut self, harmed: BTreeMap<Name, Harm>, now: Timestamp) -> Vec<Name> {
        let mut news = Vec::new();
        for (node, Harm { until, why }) in harmed {
            // A clock that was set back must not close a node for long.
            let until = until.min(later(now, FOR));
            if until > now && self.open.recall(node.clone(), until, why, now) {
                news.push(node);
            }
        }
        news
    }

    /// Nodes whose day is over.
    pub(crate) fn close(&mut self, now: Timestamp) -> BTreeSet<Name> {
        self.open.take_over(now)
    }

    /// When the first day is over.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.open.wake_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, pod};

    /// An ordinary pod on node n1. A container of it was killed at that time.
    fn killed(name: &str, second: Option<i64>) -> Pod {
        Pod { node: Some("n1".into()), out_of_memory: second.map(at), ..pod(name, 100) }
    }

    #[test]
    fn a_kill_counts_however_late_it_is_shown_and_only_once() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.see(&killed("web", None), true, at(1000)), None);
        assert_eq!(
            breaker.see(&killed("old", Some(900)), true, at(1000)),
            None,
            "before this planner was there"
        );
        // The kubelet has no memory either: it is shown two minutes later.
        assert_eq!(breaker.see(&killed("web", Some(2000)), true, at(2120)), Some("n1".into()));
        assert_eq!(breaker.see(&killed("web", Some(2000)), true, at(2130)), None);
        assert_eq!(breaker.see(&killed("old", Some(900)), true, at(2140)), None);
    }

    #[test]
    fn a_clock_that_is_ahead_hides_no_kill() {
        let mut breaker = Breaker::default();
        breaker.see(&killed("web", None), true, at(1000));
        breaker.shared(&"n1".into(), at(1990));
        assert_eq!(breaker.see(&killed("web", Some(2300)), false, at(2000)), Some("n1".into()));
    }
}
