//! The circuit breaker: a node on which accounting Usage did harm is counted by requests for a day, and what was started there by
//! use is interrupted.
//!
//! Harm is an ordinary pod that the kubelet evicted for lack of memory, or an ordinary container that was killed because its node
//! had no memory left, while pods of ScavengerJobs were there. A container that outgrew its own limit is no harm: it would have
//! been killed on an empty node, and in a large cluster some pod always is. The Kubernetes API does not distinguish the two:
//! the agent of the node does, or else what was measured of the node
//! ([`cause`]). The agent is asked when a kill is seen, and answers within a second. Until then the kill is not judged: what is
//! interrupted for a container that reached its own limit would be interrupted for nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::{
    backoff::timed::{Rule, Timed},
    faults::kubelet::is_evicted_for_memory,
    values::{
        Harm, Key, KillCause, KillReport, Name, Node, Pod, Settings, earlier, later,
        resources::{MEMORY, Share},
    },
};

/// For how long a node is counted by requests.
const FOR: SignedDuration = SignedDuration::from_hours(24);

/// A kill counts if ScavengerJobs were on the node so long before it.
const BEFORE: SignedDuration = SignedDuration::from_secs(60);

/// Samples of a node say something about a kill there that was so long before or after them.
const AROUND: SignedDuration = SignedDuration::from_mins(2);

/// How long samples are kept: a kubelet without memory shows a kill late.
const KEPT: SignedDuration = SignedDuration::from_mins(5);

/// A node was short of memory if it used more than its `interruptThreshold` without this share of its memory: between two samples
/// it may have used more than in either.
const NEAR: f64 = 0.1;

/// The nodes on which accounting Usage did harm.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// Since when pods are looked at.
    began: Option<Timestamp>,
    open: Timed<Name>,
    /// When ScavengerJobs were last seen on each node.
    shared: BTreeMap<Name, Timestamp>,
    /// The newest kill of each pod that was looked at.
    counted: BTreeMap<Key, Timestamp>,
    /// Kills whose cause is not known yet.
    unjudged: Vec<Kill>,
    /// How much memory all pods of each node used, the oldest sample first.
    samples: BTreeMap<Name, VecDeque<(Timestamp, i64)>>,
    /// How many containers outgrew their own limits.
    own_limits: u64,
}

/// An ordinary container that was killed for memory beside ScavengerJobs.
#[derive(Debug)]
struct Kill {
    pod: Key,
    uid: Name,
    node: Name,
    /// When it ended, as the pod's status says.
    ended: Timestamp,
    /// The same, and not after it was seen.
    time: Timestamp,
    /// Until when the agent of the node may say why.
    awaited: Option<Timestamp>,
    /// What it has said.
    said: Option<KillCause>,
}

/// What killed a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Its node had no memory left, or nobody knows.
    Node,
    /// It used more than it may itself.
    OwnLimit,
}

/// What killed a container, judged by how much memory its node was measured to use around that time: more than `near`, or not.
/// None while a sample may still show it.
fn cause(
    kill: &Kill,
    samples: Option<&VecDeque<(Timestamp, i64)>>,
    near: i64,
    now: Timestamp,
) -> Option<Cause> {
    let is_around = |time: Timestamp| time.duration_since(kill.time).abs() <= AROUND;
    let around = samples.into_iter().flatten().filter(|(time, _)| is_around(*time));
    match around.map(|(_, memory)| *memory).max() {
        Some(most) if most > near => Some(Cause::Node),
        _ if now < later(kill.time, AROUND) => None,
        Some(_) => Some(Cause::OwnLimit),
        None => Some(Cause::Node),
    }
}

/// Above how much memory a node is short of it.
fn near(node: &Node, settings: &Settings) -> i64 {
    let whole = node.allocatable.memory_bytes;
    settings.interrupts_above(node, MEMORY).of(whole) - Share::from_fraction(NEAR).of(whole)
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            began: None,
            open: Timed::new(Rule::always(FOR)),
            shared: BTreeMap::new(),
            counted: BTreeMap::new(),
            unjudged: Vec::new(),
            samples: BTreeMap::new(),
            own_limits: 0,
        }
    }
}

impl Breaker {
    /// ScavengerJobs are on a node.
    pub(crate) fn shared(&mut self, node: &Name, now: Timestamp) {
        self.shared.insert(node.clone(), now);
    }

    /// A node was measured to use so much memory.
    pub(super) fn measured(&mut self, node: &Name, time: Timestamp, memory_bytes: i64) {
        let samples = self.samples.entry(node.clone()).or_default();
        samples.push_back((time, memory_bytes));
        while samples.front().is_some_and(|(oldest, _)| later(*oldest, KEPT) < time) {
            samples.pop_front();
        }
    }

    /// Nothing is measured any more.
    pub(super) fn forget_samples(&mut self) {
        self.samples.clear();
        self.unjudged.clear();
    }

    /// Looks at a version of an ordinary pod. `is_shared` says whether a ScavengerJob is on its node now, `has_agent` whether the
    /// agent of the node is live. Returns the node if that is counted by requests from now on; what killed a container is judged
    /// later ([`Self::judge`]).
    pub(crate) fn see(
        &mut self,
        pod: &Pod,
        is_shared: bool,
        has_agent: bool,
        now: Timestamp,
    ) -> Option<Name> {
        let began = *self.began.get_or_insert(now);
        let node = pod.node.as_ref()?;
        let evicted = pod.status_reason.as_ref();
        let evicted = evicted.is_some_and(|(reason, message)| is_evicted_for_memory(reason, message));
        let (time, is_killed) = match (pod.out_of_memory, pod.disrupted_since.filter(|_| evicted)) {
            (Some(time), _) => (time, true),
            (None, Some(time)) => (time, false),
            (None, None) => return None,
        };
        if self.counted.get(&pod.key).is_some_and(|counted| *counted >= time) {
            return None;
        }
        self.counted.insert(pod.key.clone(), time);
        // What happened before this planner was there is over. What is shown late is not: a kubelet on a node without memory
        // is slow, and the time is by the node's clock.
        let is_news = later(time, BEFORE) >= began;
        let (ended, time) = (time, time.min(now));
        let was_shared = || self.shared.get(node).is_some_and(|shared| time <= later(*shared, BEFORE));
        if !is_news || !(is_shared || was_shared()) {
            return None;
        }
        if is_killed {
            let is_asked = has_agent && KillReport::is_recent(ended, now);
            self.unjudged.push(Kill {
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                node: node.clone(),
                ended,
                time,
                awaited: is_asked.then(|| later(now, KillCause::ANSWERED_WITHIN)),
                said: None,
            });
            return None;
        }
        self.trip(node, &pod.key, "the kubelet evicted it for lack of memory", now);
        Some(node.clone())
    }

    /// The agent of a node says what killed a container.
    pub(super) fn explain(&mut self, report: &KillReport) {
        let is_meant =
            |kill: &&mut Kill| kill.pod == report.pod && kill.uid == report.uid && kill.ended == report.time;
        if let Some(kill) = self.unjudged.iter_mut().find(is_meant) {
            (kill.said, kill.awaited) = (Some(report.cause), None);
        }
    }

    /// Judges what killed containers, and returns the nodes that are counted by requests from now on because of it. `node` finds a
    /// node.
    pub(crate) fn judge<'a>(
        &mut self,
        settings: &Settings,
        node: impl Fn(&Name) -> Option<&'a Node>,
        now: Timestamp,
    ) -> Vec<Name> {
        let mut tripped = Vec::new();
        for mut kill in std::mem::take(&mut self.unjudged) {
            let Some(there) = node(&kill.node) else { continue };
            kill.awaited = kill.awaited.filter(|until| now < *until);
            let cause = match kill.said {
                _ if kill.awaited.is_some() => None,
                Some(KillCause::Limit) => Some(Cause::OwnLimit),
                Some(KillCause::Node) => Some(Cause::Node),
                Some(KillCause::Unknown) | None => {
                    cause(&kill, self.samples.get(&kill.node), near(there, settings), now)
                }
            };
            match cause {
                None => self.unjudged.push(kill),
                Some(Cause::OwnLimit) => self.own_limits += 1,
                Some(Cause::Node) => {
                    self.trip(&kill.node, &kill.pod, "a container of it was killed for memory", now);
                    tripped.push(kill.node);
                }
            }
        }
        tripped
    }

    fn trip(&mut self, node: &Name, pod: &Key, what: &str, now: Timestamp) {
        let why = || format!("ordinary pod {pod}: {what} while ScavengerJobs were on the node");
        self.open.begin(node.clone(), now, |_| why());
    }

    pub(crate) fn forget_node(&mut self, node: &Name) {
        self.open.end(node);
        self.shared.remove(node);
        self.samples.remove(node);
    }

    /// A pod is gone: its node's agent is not asked any more what killed it.
    pub(crate) fn forget(&mut self, pod: &Key) {
        self.counted.remove(pod);
        self.unjudged.iter_mut().filter(|kill| kill.pod == *pod).for_each(|kill| kill.awaited = None);
    }

    /// True while a node is counted by requests.
    pub(crate) fn is_open(&self, node: &Name) -> bool {
        self.open.get(node).is_some()
    }

    /// The nodes that are counted by requests, until when, and why.
    pub(crate) fn open(&self) -> impl Iterator<Item = (&Name, Timestamp, &str)> {
        self.open.iter().map(|(node, pause)| (node, pause.until, pause.why.as_str()))
    }

    /// How many containers were killed beside ScavengerJobs because they outgrew their own limits.
    pub(super) fn own_limits(&self) -> u64 {
        self.own_limits
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

    /// When the first day is over, or neither an agent nor a later sample can show what killed a container.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let judged = self.unjudged.iter().map(|kill| kill.awaited.unwrap_or(later(kill.time, AROUND))).min();
        earlier(self.open.wake_at(), judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, node, pod, seconds, settings};

    /// An ordinary pod on node n1. A container of it was killed at that time.
    fn killed(name: &str, second: Option<i64>) -> Pod {
        Pod { node: Some("n1".into()), out_of_memory: second.map(at), ..pod(name, 100) }
    }

    /// Whether node n1 is counted by requests because of what was seen. It has 10,000 MiB.
    fn trips(breaker: &mut Breaker, now: i64) -> bool {
        let n1 = node("n1", 10_000);
        !breaker.judge(&settings().by_use(), |_| Some(&n1), at(now)).is_empty()
    }

    #[test]
    fn a_kill_counts_however_late_it_is_shown_and_only_once() {
        let mut breaker = Breaker::default();
        breaker.see(&killed("web", None), true, false, at(1000));
        breaker.see(&killed("old", Some(900)), true, false, at(1000));
        assert!(!trips(&mut breaker, 1200), "before this planner was there");
        // The kubelet has no memory either: it is shown two minutes later, and nobody measured.
        breaker.see(&killed("web", Some(2000)), true, false, at(2120));
        assert!(trips(&mut breaker, 2120));
        breaker.see(&killed("web", Some(2000)), true, false, at(2130));
        breaker.see(&killed("old", Some(900)), true, false, at(2140));
        assert!(!trips(&mut breaker, 2400));
    }

    #[test]
    fn a_clock_that_is_ahead_hides_no_kill() {
        let mut breaker = Breaker::default();
        breaker.see(&killed("web", None), true, false, at(1000));
        breaker.shared(&"n1".into(), at(1990));
        breaker.see(&killed("web", Some(2300)), false, false, at(2000));
        assert_eq!(breaker.wake_at(), Some(at(2120)));
        assert!(trips(&mut breaker, 2120));
    }

    /// Its threshold is 90%, so it is short of memory above 8,000 MiB.
    #[test]
    fn the_samples_around_a_kill_say_what_killed() {
        for (samples, judged_at, is_harm) in [
            // It is known at once, or with a later sample.
            (vec![(-100, 9000), (-10, 3000)], 1, true),
            (vec![(-10, 3000), (50, 8001)], 51, true),
            // A sample is missing, or says nothing of this time.
            (vec![], 120, true),
            (vec![(-121, 3000), (121, 3000)], 121, true),
            // It was calm.
            (vec![(-121, 9900), (-10, 3000), (121, 9900)], 121, false),
            (vec![(110, 8000)], 120, false),
        ] {
            let mut breaker = Breaker::default();
            breaker.see(&killed("web", None), true, false, at(1000));
            breaker.see(&killed("web", Some(2000)), true, false, at(2000));
            for (second, mib) in &samples {
                breaker.measured(&"n1".into(), at(2000 + second), mib << 20);
            }
            assert_eq!(trips(&mut breaker, 2000 + judged_at), is_harm, "{samples:?}");
            assert_eq!(breaker.own_limits(), u64::from(!is_harm), "{samples:?}");
            assert!(!trips(&mut breaker, 3000), "once");
        }
    }

    #[test]
    fn samples_are_kept_for_five_minutes() {
        let mut breaker = Breaker::default();
        for step in 0..1000 {
            breaker.measured(&"n1".into(), at(0) + seconds(15 * step), 1);
        }
        assert_eq!(breaker.samples.values().map(VecDeque::len).collect::<Vec<_>>(), [21]);
    }

    #[test]
    fn what_the_agent_of_the_node_says_needs_no_samples() {
        let mut breaker = Breaker::default();
        breaker.see(&killed("web", None), true, true, at(1000));
        let explain = |breaker: &mut Breaker, pod: &Pod, cause| {
            let time = pod.out_of_memory.unwrap();
            breaker.explain(&KillReport { pod: pod.key.clone(), uid: pod.uid.clone(), time, cause });
        };
        let kill = killed("web", Some(2000));
        assert_eq!(breaker.see(&kill, true, true, at(2001)), None);
        assert_eq!(breaker.wake_at(), Some(at(2016)));
        assert!(!trips(&mut breaker, 2001), "the agent is waited for");
        explain(&mut breaker, &kill, KillCause::Limit);
        assert!(!trips(&mut breaker, 2002) && breaker.own_limits() == 1);
        breaker.see(&kill, true, true, at(2003));
        assert!(!trips(&mut breaker, 2300), "once is enough");
        let again = killed("web", Some(3000));
        breaker.see(&again, true, true, at(3001));
        explain(&mut breaker, &again, KillCause::Node);
        assert!(trips(&mut breaker, 3001));
        let unknown = killed("api", Some(3000));
        breaker.see(&unknown, true, true, at(3001));
        explain(&mut breaker, &unknown, KillCause::Unknown);
        assert!(!trips(&mut breaker, 3119));
        assert!(trips(&mut breaker, 3120), "nobody measured either");
    }
}
