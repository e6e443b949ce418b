//! What nodes and the pods of ScavengerJobs really use, where the cluster serves metrics.k8s.io (metrics-server, for
//! example). There is no watch of it: it is read by the clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use scavenger_planner::values::{Key, Observation, PodUsage, Usage};
use scavenger_schema::{names::LABEL_JOB_UID, quantity, terminal::shown};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tracing::warn;

use crate::{controller::Message, node_use::Store};

/// What metrics-server measures by default.
const EVERY: Duration = Duration::from_secs(15);

/// What is older than this says nothing about now.
const OLDEST: SignedDuration = SignedDuration::from_mins(2);

/// Readings in a row, five minutes, after which what is not served has been taken away for good. An installer that deletes
/// the API service of metrics-server and makes it again needs seconds.
const NOT_SERVED: u32 = 20;

/// A metrics-server that hangs must not keep what it says afterwards from being read.
const LIMIT: Duration = Duration::from_secs(10);

const API: &str = "/apis/metrics.k8s.io/v1beta1";

#[derive(Debug, Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Debug, Deserialize)]
struct Node {
    metadata: Metadata,
    timestamp: Timestamp,
    usage: Amounts,
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    timestamp: Timestamp,
    containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Container {
    usage: Amounts,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Amounts {
    cpu: String,
    memory: String,
}

/// Reads until the controller is gone; first of all what the leader before this one knew, so that it is older than every
/// sample.
pub(super) async fn follow(client: Client, store: Option<Store>, sender: mpsc::Sender<Message>) {
    if let Some(store) = store
        && let Some(remembered) = store.read().await
        && sender.send(Message::Seen(Observation::RememberedUse(Box::new(remembered)))).await.is_err()
    {
        return;
    }
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = Told::default();
    let pods = format!("pods?labelSelector={LABEL_JOB_UID}");
    loop {
        every.tick().await;
        let Some(observation) = told.next(read(&client, "nodes").await) else { continue };
        if sender.send(Message::Seen(observation)).await.is_err() {
            return;
        }
        if let Answer::List(pods) = read(&client, &pods).await
            && sender.send(Message::Seen(Observation::PodUsage(self::pods(pods)))).await.is_err()
        {
            return;
        }
    }
}

/// What all pods of the cluster use, as it was measured lately; nothing where nobody measures.
pub(crate) async fn of_pods(client: &Client) -> Vec<PodUsage> {
    match read(client, "pods").await {
        Answer::List(list) => pods(list),
        Answer::NotServed | Answer::No => Vec::new(),
    }
}

/// What became of a reading.
#[derive(Debug)]
enum Answer<T> {
    List(Vec<T>),
    /// Nobody serves it.
    NotServed,
    /// What serves it is down, too slow, or refuses.
    No,
}

/// What the planner was told.
#[derive(Debug, Default)]
struct Told {
    /// True if it was told that somebody measures, or should.
    anything: bool,
    /// In how many readings in a row nobody has served it since then.
    not_served: u32,
}

impl Told {
    /// What a reading of nodes means; nothing if it is no news.
    fn next(&mut self, answer: Answer<Node>) -> Option<Observation> {
        let not_served = self.not_served;
        self.not_served = 0;
        match answer {
            Answer::NotServed if !self.anything => return None,
            Answer::NotServed if not_served + 1 >= NOT_SERVED => {
                self.anything = false;
                return Some(Observation::UsageNotServed);
            }
            Answer::NotServed => self.not_served = not_served + 1,
            Answer::List(_) | Answer::No => self.anything = true,
        }
        Some(Observation::Usage(match answer {
            Answer::List(list) => Some(nodes(list)),
            Answer::NotServed | Answer::No => None,
        }))
    }
}

/// What was measured lately.
async fn read<T: DeserializeOwned>(client: &Client, what: &str) -> Answer<T> {
    let Ok(request) = http::Request::get(format!("{API}/{what}")).body(Vec::new()) else { return Answer::No };
    let answer = tokio::time::timeout(LIMIT, client.request::<List<T>>(request)).await;
    let Ok(answer) = answer else {
        warn!(what, seconds = LIMIT.as_secs(), "what is measured was not answered in time");
        return Answer::No;
    };
    match answer {
        Ok(list) => Answer::List(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Answer::NotServed,
        Err(kube::Error::Api(status)) if status.code == 503 => Answer::No,
        Err(error) => {
            warn!(error = shown(&error.to_string()), what, "what is measured could not be read");
            Answer::No
        }
    }
}

fn is_fresh(time: Timestamp, now: Timestamp) -> bool {
    now.duration_since(time) <= OLDEST
}

fn nodes(nodes: Vec<Node>) -> Vec<Usage> {
    let now = now();
    let fresh = nodes.into_iter().filter(|node| is_fresh(node.timestamp, now));
    fresh.filter_map(|one| node(&one)).collect()
}

fn node(node: &Node) -> Option<Usage> {
    let cpu_milli = quantity::parse_milli(&node.usage.cpu).ok()?;
    let memory_bytes = quantity::parse_units(&node.usage.memory).ok()?;
    Some(Usage { node: node.metadata.name.as_str().into(), cpu_milli, memory_bytes, time: node.timestamp })
}

fn pods(pods: Vec<Pod>) -> Vec<PodUsage> {
    let now = now();
    let fresh = pods.into_iter().filter(|pod| is_fresh(pod.timestamp, now));
    fresh.filter_map(pod).collect()
}

/// None if the amount of a container cannot be read: the others are not what the pod uses.
fn pod(pod: Pod) -> Option<PodUsage> {
    let (mut cpu_milli, mut memory_bytes) = (0_i64, 0_i64);
    for Container { usage } in &pod.containers {
        cpu_milli = cpu_milli.saturating_add(quantity::parse_milli(&usage.cpu).ok()?);
        memory_bytes = memory_bytes.saturating_add(quantity::parse_units(&usage.memory).ok()?);
    }
    let key = Key::new(pod.metadata.namespace, pod.metadata.name);
    Some(PodUsage { pod: key, time: pod.timestamp, cpu_milli, memory_bytes })
}

#[expect(clippy::disallowed_methods, reason = "the edge: how old a measurement is")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As metrics-server says it.
    fn list<T: DeserializeOwned>(items: &serde_json::Value) -> Vec<T> {
        let list = serde_json::json!({
            "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items,
        });
        serde_json::from_value::<List<T>>(list).unwrap().items
    }

    #[test]
    fn a_reading_without_an_answer_is_not_the_end_of_measuring() {
        let mut told = Told::default();
        let is_unanswered =
            |observation: Option<Observation>| matches!(observation, Some(Observation::Usage(None)));
        assert!(told.next(Answer::NotServed).is_none(), "a cluster without metrics-server has no news");
        assert!(is_unanswered(told.next(Answer::No)), "it is there, and is down");
        for _ in 0..2 {
            assert!(
                matches!(told.next(Answer::List(Vec::new())), Some(Observation::Usage(Some(nodes))) if nodes.is_empty())
            );
            for _ in 1..NOT_SERVED {
                assert!(is_unanswered(told.next(Answer::NotServed)), "it is being installed again");
            }
        }
        assert!(matches!(told.next(Answer::NotServed), Some(Observation::UsageNotServed)));
        assert!(told.next(Answer::NotServed).is_none(), "once is enough");
        for _ in 0..100 {
            assert!(is_unanswered(told.next(Answer::No)), "it is away for long, and may come back");
        }
    }

    #[test]
    fn what_a_node_uses_is_read() {
        let nodes = list::<Node>(&serde_json::json!([
            { "metadata": { "name": "n1", "creationTimestamp": "2026-01-01T00:00:10Z" },
              "timestamp": "2026-01-01T00:00:00Z", "window": "20.042s",
              "usage": { "cpu": "156340172n", "memory": "1903220Ki" } },
        ]));
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let expected = Usage { node: "n1".into(), cpu_milli: 157, memory_bytes: 1_903_220 << 10, time };
        assert_eq!(node(&nodes[0]), Some(expected));
        assert!(is_fresh(time, time + SignedDuration::from_secs(15)));
        assert!(!is_fresh(time, time + SignedDuration::from_secs(121)));
    }

    #[test]
    fn what_a_pod_uses_is_the_sum_over_its_containers() {
        let items = serde_json::json!([
            { "metadata": { "name": "a-1-0-x7", "namespace": "lab" }, "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
              "containers": [
                  { "name": "main", "usage": { "cpu": "156340172n", "memory": "1903220Ki" } },
                  { "name": "proxy", "usage": { "cpu": "1m", "memory": "1Mi" } } ] },
            { "metadata": { "name": "b-1-0-x7", "namespace": "lab" }, "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
              "containers": [
                  { "name": "main", "usage": { "cpu": "1", "memory": "1Gi" } },
                  { "name": "proxy", "usage": { "cpu": "much", "memory": "1Mi" } } ] },
        ]);
        let found: Vec<Option<PodUsage>> = list::<Pod>(&items).into_iter().map(pod).collect();
        let expected = PodUsage {
            pod: Key::new("lab", "a-1-0-x7"),
            time: "2026-01-01T00:00:00Z".parse().unwrap(),
            cpu_milli: 158,
            memory_bytes: (1_903_220 << 10) + (1 << 20),
        };
        assert_eq!(found, [Some(expected), None]);
    }
}
