//! What the agents of nodes are told, and what they say.
//!
//! The controller sees the pods and publishes the lists that changed; the endpoint answers from them. An agent names the
//! list that it has. As long as that is the current one its request is held, and a change wakes the agent of that node
//! alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use scavenger_planner::values::{self, Key, Name, Observation, Pod};
use scavenger_schema::node_agent::{KillReport, KilledPod, NodePod, NodePods, NodeReport};
use sha2::{Digest as _, Sha256};
use tokio::{sync::oneshot, time::Instant};

use super::kills::Kills;
use crate::metrics::Metrics;

/// An agent that has not asked for so long is none any more. It asks at least once a minute. When it is replaced, or when no
/// operator leads for a while, a pause of two minutes is usual, and that must change nothing about its node.
const LIVE_FOR: Duration = Duration::from_mins(5);

/// How often it is looked which agents are live.
const MEASURED_EVERY: Duration = Duration::from_secs(10);

/// The pods of ScavengerJobs on each node, and the agents that ask for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Whether the lists are those of a complete view.
    known: bool,
    /// Where each pod is.
    places: HashMap<Key, Name>,
    /// Nodes with such pods.
    nodes: HashMap<Name, Node>,
    /// Nodes whose pods have changed since they were published.
    changed: HashSet<Name>,
    /// Agents by node.
    agents: HashMap<Name, Agent>,
    /// The nodes whose agents the planner takes to be live, and when that was looked at; none of a new planner.
    live: Option<(BTreeSet<Name>, Instant)>,
    /// Kills for memory about which agents are asked.
    kills: Kills,
}

#[derive(Debug, Default)]
struct Node {
    pods: BTreeMap<Key, NodePod>,
    /// What was published of them.
    list: Option<List>,
}

/// An answer.
#[derive(Debug, Clone)]
struct List {
    version: String,
    body: Bytes,
}

#[derive(Debug)]
struct Agent {
    heard: Instant,
    /// How many of its node's pods it could not change.
    failed: usize,
    /// Ends the request that is held, by being dropped.
    held: Option<oneshot::Sender<()>>,
}

impl Agent {
    fn is_live(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) < LIVE_FOR
    }
}

/// What comes of a question.
#[derive(Debug)]
pub(super) enum Asked {
    /// Nothing is known yet.
    Unknown,
    /// The agent has another list.
    Answer(Bytes),
    /// The agent has this list. The receiver ends when there is another one, or a newer question of this agent.
    Held(oneshot::Receiver<()>),
}

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new view: nothing is known until it is complete.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        state.known = false;
        state.places.clear();
        state.nodes.clear();
        state.changed.clear();
        state.kills.clear();
        state.live = None;
        for agent in state.agents.values_mut() {
            agent.held = None;
        }
    }

    /// Takes in what a watch saw.
    pub(crate) fn see(&self, observation: &Observation, now: Timestamp) {
        match observation {
            Observation::Pod(pod) => {
                let told = told(pod);
                let mut state = self.lock();
                // Ordinary pods, most of all, are in no list.
                if told.is_some() || state.places.contains_key(&pod.key) {
                    state.set(&pod.key, told);
                }
                let asked = state.kills.see(pod, now);
                state.changed.extend(asked);
            }
            Observation::PodGone(key) => {
                let mut state = self.lock();
                state.set(key, None);
                let asked = state.kills.forget(key);
                state.changed.extend(asked);
            }
            _ => {}
        }
    }

    /// The view is complete: lists that have changed hold from now on.
    pub(crate) fn publish(&self, now: Timestamp) {
        let mut state = self.lock();
        state.known = true;
        let late = state.kills.give_up(now);
        state.changed.extend(late);
        for name in std::mem::take(&mut state.changed) {
            state.publish(&name);
        }
    }

    /// What the agent of a node is told that says this.
    pub(super) fn ask(&self, node: &str, report: &NodeReport, now: Instant) -> Asked {
        let mut state = self.lock();
        if !state.known {
            return Asked::Unknown;
        }
        let failed = state.failed(node, report);
        let answer = state.answer(node);
        let (held, changed) = (answer.version == report.version).then(oneshot::channel).unzip();
        // An older request of this agent is answered: nobody waits for it any more.
        state.agents.insert(node.into(), Agent { heard: now, failed, held });
        changed.map_or(Asked::Answer(answer.body), Asked::Held)
    }

    /// Takes what the agent of a node says about a kill. None if it was not asked, about a pod of another node for example.
    pub(super) fn explain(&self, node: &str, said: &KillReport) -> Option<values::KillReport> {
        let mut state = self.lock();
        let kill = state.known.then(|| state.kills.answered(node, said))??;
        state.changed.insert(node.into());
        Some(kill)
    }

    /// The nodes whose agent is live, if these are others than the planner was told before.
    pub(crate) fn agents(&self, now: Instant) -> Option<BTreeSet<Name>> {
        let mut state = self.lock();
        let State { agents, live, .. } = &mut *state;
        if let Some((told, looked)) = &*live
            && told.len() == agents.len()
            && now.saturating_duration_since(*looked) < MEASURED_EVERY
        {
            return None;
        }
        let now_live: BTreeSet<Name> =
            agents.iter().filter(|(_, agent)| agent.is_live(now)).map(|(node, _)| node.clone()).collect();
        let is_news = match &*live {
            Some((told, _)) => *told != now_live,
            None => !now_live.is_empty(),
        };
        *live = Some((now_live.clone(), now));
        is_news.then_some(now_live)
    }

    /// What the agent of a node is told that has waited.
    pub(super) fn answer(&self, node: &str) -> Option<Bytes> {
        let state = self.lock();
        state.known.then(|| state.answer(node).body)
    }

    /// Keeps the metrics up.
    pub(super) async fn measure(self, now: impl Fn() -> Instant, metrics: Arc<Metrics>) {
        loop {
            let (live, failed) = self.live(now());
            metrics.node_agents.live(live, failed);
            tokio::time::sleep(MEASURED_EVERY).await;
        }
    }

    /// How many agents are live, and how many pods they could not change.
    pub(super) fn live(&self, now: Instant) -> (usize, usize) {
        let mut state = self.lock();
        state.agents.retain(|_, agent| agent.is_live(now));
        (state.agents.len(), state.agents.values().map(|agent| agent.failed).sum())
    }
}

impl State {
    fn set(&mut self, key: &Key, told: Option<(Name, NodePod)>) {
        let (place, pod) = told.unzip();
        let before = match &place {
            Some(place) => self.places.insert(key.clone(), place.clone()),
            None => self.places.remove(key),
        };
        // Of the same name, and on another node: another pod after the one that was there.
        if let Some(before) = before.filter(|before| Some(before) != place.as_ref()) {
            if let Some(node) = self.nodes.get_mut(&before) {
                node.pods.remove(key);
            }
            self.changed.insert(before);
        }
        if let (Some(place), Some(pod)) = (place, pod) {
            let node = self.nodes.entry(place.clone()).or_default();
            if node.pods.get(key) != Some(&pod) {
                node.pods.insert(key.clone(), pod);
                self.changed.insert(place);
            }
        }
    }

    fn publish(&mut self, name: &Name) {
        let killed = self.kills.questions(name);
        let node = self.nodes.entry(name.clone()).or_default();
        if node.pods.is_empty() && killed.is_empty() {
            self.nodes.remove(name);
        } else {
            node.list = Some(list(node.pods.values().cloned().collect(), killed));
        }
        if let Some(agent) = self.agents.get_mut(name) {
            agent.held = None;
        }
    }

    fn answer(&self, node: &str) -> List {
        let published = self.nodes.get(node).and_then(|node| node.list.clone());
        published.unwrap_or_else(|| list(Vec::new(), Vec::new()))
    }

    /// How many pods of its node the agent could not change. It cannot speak of others.
    fn failed(&self, node: &str, report: &NodeReport) -> usize {
        let pods = self.nodes.get(node).into_iter().flat_map(|node| node.pods.values());
        let failed: HashSet<&str> = report.failed.iter().map(String::as_str).collect();
        pods.filter(|pod| failed.contains(pod.uid.as_str())).count()
    }
}

/// Where a pod of a ScavengerJob is that has not ended, and what is said of it.
fn told(pod: &Pod) -> Option<(Name, NodePod)> {
    let node = pod.node.clone().filter(|_| pod.owner.is_some() && !pod.phase.is_terminal())?;
    let milli_cpu = u64::try_from(pod.requests.cpu_milli).unwrap_or(0);
    let idle = pod.deletion_requested.is_none();
    Some((node, NodePod { uid: pod.uid.to_string(), milli_cpu, idle }))
}

/// The list of these pods. Its version is made from nothing but them, so every replica gives the same.
fn list(mut pods: Vec<NodePod>, killed: Vec<KilledPod>) -> List {
    pods.sort_by(|left, right| left.uid.cmp(&right.uid));
    let text = serde_json::to_vec(&(&pods, &killed)).unwrap_or_default();
    let version = hex(&Sha256::digest(text)[..16]);
    let body = serde_json::to_vec(&NodePods { version: version.clone(), pods, killed }).unwrap_or_default();
    List { version, body: body.into() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use scavenger_planner::fixtures::at;

    use super::*;

    fn pod(name: &str, uid: &str, change: impl FnOnce(&mut serde_json::Value)) -> Observation {
        let mut object = serde_json::json!({
            "metadata": { "name": name, "namespace": "lab", "uid": uid, "resourceVersion": "1",
                "labels": { "scavenger.dev/job": "j", "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "1" } },
            "spec": { "nodeName": "n1", "priorityClassName": "scavenger-3", "containers": [
                { "name": "main", "resources": { "requests": { "cpu": "200m" } } }] },
            "status": { "phase": "Running" },
        });
        change(&mut object);
        let object = serde_json::from_value(object).unwrap();
        Observation::Pod(Box::new(crate::observe::convert::pod(&object)))
    }

    fn told(nodes: &Nodes, node: &str) -> NodePods {
        serde_json::from_slice(&nodes.answer(node).unwrap()).unwrap()
    }

    fn ask(nodes: &Nodes, node: &str, version: &str) -> Asked {
        let report = NodeReport { version: version.to_owned(), failed: Vec::new() };
        nodes.ask(node, &report, Instant::now())
    }

    #[test]
    fn a_node_has_the_pods_of_scavengerjobs_until_they_end() {
        let nodes = Nodes::default();
        nodes.see(&pod("b", "2", |_| ()), at(0));
        nodes.see(&pod("a", "3", |_| ()), at(0));
        nodes.see(&pod("c", "1", |pod| pod["spec"]["nodeName"] = "n2".into()), at(0));
        nodes.see(&pod("waits", "4", |pod| pod["spec"]["nodeName"] = serde_json::Value::Null), at(0));
        nodes.see(&pod("ordinary", "5", |pod| pod["spec"]["priorityClassName"] = "high".into()), at(0));
        assert!(nodes.answer("n1").is_none(), "the view is not complete");
        nodes.publish(at(0));
        let both = told(&nodes, "n1");
        let running = |uid: &str| NodePod { uid: uid.to_owned(), milli_cpu: 200, idle: true };
        assert_eq!(both.pods, [running("2"), running("3")], "by UID");
        assert_eq!(told(&nodes, "n2").pods, [running("1")]);
        // What changes nothing that an agent is told is no other version.
        nodes.see(&pod("a", "3", |pod| pod["metadata"]["resourceVersion"] = "2".into()), at(0));
        nodes.publish(at(0));
        assert_eq!(told(&nodes, "n1"), both);
        // From the deletion timestamp on the pod has its weight back.
        nodes.see(
            &pod("a", "3", |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()),
            at(0),
        );
        nodes.publish(at(0));
        let deleted = told(&nodes, "n1");
        assert_eq!(deleted.pods[1], NodePod { idle: false, ..running("3") });
        assert_ne!(deleted.version, both.version);
        for phase in ["Succeeded", "Failed"] {
            nodes.see(&pod("a", "3", |pod| pod["status"]["phase"] = phase.into()), at(0));
            nodes.publish(at(0));
            assert_eq!(told(&nodes, "n1").pods, [running("2")], "{phase}");
        }
        // Another pod of the same name, elsewhere.
        nodes.see(&pod("b", "6", |pod| pod["spec"]["nodeName"] = "n2".into()), at(0));
        nodes.publish(at(0));
        assert_eq!((told(&nodes, "n1").pods.len(), told(&nodes, "n2").pods.len()), (0, 2));
        for name in ["b", "c", "ordinary"] {
            nodes.see(&Observation::PodGone(Key::new("lab", name)), at(0));
        }
        nodes.publish(at(0));
        assert_eq!(told(&nodes, "n2"), told(&nodes, "n1"), "no pods have one version, wherever");
        assert!(nodes.lock().nodes.is_empty() && nodes.lock().places.is_empty());
    }

    #[test]
    fn two_replicas_give_the_same_version() {
        let (one, other) = (Nodes::default(), Nodes::default());
        let pods = [pod("a", "1", |_| ()), pod("b", "2", |_| ())];
        pods.iter().for_each(|pod| one.see(pod, at(0)));
        pods.iter().rev().for_each(|pod| other.see(pod, at(0)));
        one.publish(at(0));
        other.publish(at(0));
        assert_eq!(told(&one, "n1"), told(&other, "n1"));
        assert_eq!(told(&one, "n1").version.len(), 32);
    }

    #[test]
    fn a_change_wakes_the_agent_of_its_node_and_a_newer_request_ends_the_older() {
        let nodes = Nodes::default();
        assert!(matches!(ask(&nodes, "n1", ""), Asked::Unknown));
        nodes.publish(at(0));
        let version = told(&nodes, "n1").version;
        assert!(matches!(ask(&nodes, "n1", ""), Asked::Answer(_)));
        let Asked::Held(mut older) = ask(&nodes, "n1", &version) else { panic!("the agent has this list") };
        let Asked::Held(mut first) = ask(&nodes, "n1", &version) else { panic!("the agent has this list") };
        let Asked::Held(mut second) = ask(&nodes, "n2", &version) else { panic!("the agent has this list") };
        let is_held = |receiver: &mut oneshot::Receiver<()>| {
            matches!(receiver.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        };
        assert_eq!((is_held(&mut older), is_held(&mut first), is_held(&mut second)), (false, true, true));
        nodes.see(&pod("a", "1", |_| ()), at(0));
        assert!(is_held(&mut first), "not before the view is complete");
        nodes.publish(at(0));
        assert_eq!((is_held(&mut first), is_held(&mut second)), (false, true));
        nodes.begin();
        assert!(!is_held(&mut second));
        assert!(nodes.answer("n2").is_none());
        assert!(matches!(ask(&nodes, "n2", &version), Asked::Unknown));
        nodes.publish(at(0));
        assert!(told(&nodes, "n1").pods.is_empty(), "of the view before nothing is left");
    }

    #[test]
    fn agents_are_counted_while_they_ask_and_speak_of_their_own_pods_alone() {
        let (nodes, start) = (Nodes::default(), Instant::now());
        nodes.see(&pod("a", "1", |_| ()), at(0));
        nodes.see(&pod("b", "2", |pod| pod["spec"]["nodeName"] = "n2".into()), at(0));
        nodes.publish(at(0));
        let failed = ["1", "1", "2", "none"].map(str::to_owned).to_vec();
        let report = NodeReport { version: String::new(), failed };
        assert!(matches!(nodes.ask("n1", &report, start), Asked::Answer(_)));
        assert!(matches!(nodes.ask("n3", &report, start + LIVE_FOR / 2), Asked::Answer(_)));
        assert_eq!(nodes.live(start + LIVE_FOR / 2), (2, 1));
        assert_eq!(nodes.live(start + LIVE_FOR), (1, 0));
        assert_eq!(nodes.live(start + 2 * LIVE_FOR), (0, 0));
    }

    #[test]
    fn the_planner_is_told_which_agents_are_live_whenever_that_changes() {
        let (nodes, start) = (Nodes::default(), Instant::now());
        nodes.publish(at(0));
        let asks = |node: &str, now| drop(nodes.ask(node, &NodeReport::default(), now));
        let names =
            |names: &[&str]| Some(names.iter().map(|name| Name::from(*name)).collect::<BTreeSet<_>>());
        assert_eq!(nodes.agents(start), None, "there is none");
        asks("n1", start);
        assert_eq!(nodes.agents(start), names(&["n1"]), "at once");
        assert_eq!(nodes.agents(start + MEASURED_EVERY), None);
        asks("n2", start + MEASURED_EVERY);
        assert_eq!(nodes.agents(start + MEASURED_EVERY), names(&["n1", "n2"]));
        asks("n2", start + LIVE_FOR / 2);
        let just_before = start + LIVE_FOR - Duration::from_millis(1);
        assert_eq!(nodes.agents(just_before), None, "it may be in the middle of an update");
        assert_eq!(nodes.agents(just_before + MEASURED_EVERY), names(&["n2"]));
        // Another planner knows nothing.
        nodes.begin();
        assert_eq!(nodes.agents(start + LIVE_FOR), names(&["n2"]));
        assert_eq!(nodes.agents(start + 2 * LIVE_FOR), names(&[]));
        assert_eq!(nodes.agents(start + 3 * LIVE_FOR), None);
    }
}
