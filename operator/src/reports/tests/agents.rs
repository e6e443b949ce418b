//! Requests of the agents of nodes.

use http::header;
use scavenger_planner::values::Observation;
use scavenger_schema::node_agent::{self, HOLD_SECONDS, NodePods};

use super::*;

const HOLD: Duration = Duration::from_secs(HOLD_SECONDS);

/// A pod of a ScavengerJob on the node n1.
pub(super) fn pod(name: &str) -> Observation {
    let object = serde_json::json!({
        "metadata": { "name": name, "namespace": "lab", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": { "scavenger.dev/job": "j", "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "1" } },
        "spec": { "nodeName": "n1", "priorityClassName": "scavenger-3", "containers": [{ "name": "main" }] },
    });
    let object = serde_json::from_value(object).unwrap();
    Observation::Pod(Box::new(crate::observe::convert::pod(&object)))
}

impl Played {
    /// The token of the agent of a node, good for an hour.
    pub(super) fn agent(&self, node: &str) -> String {
        token(
            node_agent::AUDIENCE,
            self.time.now() + SignedDuration::from_hours(1),
            &format!("signed-{node}"),
        )
    }

    /// An agent's request, and its answer when it comes.
    pub(super) fn ask(&self, token: &str, version: &str) -> tokio::task::JoinHandle<Response<Full<Bytes>>> {
        let mut asked = request(token, &format!("{{\"version\":\"{version}\"}}"));
        *asked.uri_mut() = node_agent::PATH.parse().unwrap();
        let desk = Arc::clone(&self.desk);
        tokio::spawn(async move { desk.answer(PEER, asked).await })
    }

    pub(super) fn sees(&self, observation: &Observation) {
        self.link.nodes.see(observation, self.time.now());
        self.link.nodes.publish(self.time.now());
    }
}

pub(super) async fn pods(answer: Response<Full<Bytes>>) -> NodePods {
    assert_eq!(answer.status(), 200);
    serde_json::from_str(&text(answer).await).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_agent_hears_at_once_what_is_new_and_waits_for_the_next() {
    let played = Played::new();
    played.sees(&pod("a"));
    let token = played.agent("n1");
    let began = Instant::now();
    let first = pods(played.ask(&token, "").await.unwrap()).await;
    assert_eq!(first.pods.iter().map(|pod| pod.uid.as_str()).collect::<Vec<_>>(), ["uid-a"]);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // Nothing is new: the answer comes when the time is over, and is the same.
    assert_eq!(pods(played.ask(&token, &first.version).await.unwrap()).await, first);
    assert!((HOLD..HOLD + Duration::from_secs(1)).contains(&began.elapsed()), "{:?}", began.elapsed());
    // A change wakes it.
    let held = played.ask(&token, &first.version);
    tokio::time::sleep(HOLD / 2).await;
    assert!(!held.is_finished());
    played.sees(&pod("b"));
    let changed = Instant::now();
    let second = pods(held.await.unwrap()).await;
    assert!(changed.elapsed() < Duration::from_secs(1), "{:?}", changed.elapsed());
    assert_eq!(second.pods.len(), 2);
    // The agent of a node without ScavengerJobs is told so.
    let other = played.agent("n2");
    let none = pods(played.ask(&other, "").await.unwrap()).await;
    assert!(none.pods.is_empty());
    let held = played.ask(&other, &none.version);
    tokio::time::sleep(HOLD / 2).await;
    played.sees(&pod("c"));
    tokio::time::sleep(HOLD / 4).await;
    assert!(!held.is_finished(), "nothing has changed on its node");
}

#[tokio::test(start_paused = true)]
async fn of_one_node_one_request_is_held() {
    let played = Played::new();
    played.link.nodes.publish(played.time.now());
    let token = played.agent("n1");
    let version = pods(played.ask(&token, "").await.unwrap()).await.version;
    let older = played.ask(&token, &version);
    tokio::time::sleep(HOLD / 5).await;
    let began = Instant::now();
    let newer = played.ask(&token, &version);
    assert_eq!(pods(older.await.unwrap()).await.version, version);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(!newer.is_finished());
    // Ten at once, and then one in a second.
    tokio::time::sleep(HOLD).await;
    let mut statuses = BTreeMap::new();
    for _ in 0..20 {
        *statuses.entry(played.ask(&token, "").await.unwrap().status().as_u16()).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(200, 10), (429, 10)]));
    assert_eq!(played.ask(&token, "").await.unwrap().headers()[header::RETRY_AFTER], "1");
    assert_eq!(played.ask(&played.agent("n2"), "").await.unwrap().status(), 200, "another node");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_cannot_know_releases_every_agent() {
    let played = Played::new();
    let token = played.agent("n1");
    assert_eq!(played.ask(&token, "").await.unwrap().status(), 421, "the pods are not known yet");
    played.link.nodes.publish(played.time.now());
    let version = pods(played.ask(&token, "").await.unwrap()).await.version;
    let status = async |held: tokio::task::JoinHandle<Response<Full<Bytes>>>| {
        let began = Instant::now();
        let status = held.await.unwrap().status().as_u16();
        (status, began.elapsed() < Duration::from_secs(1))
    };
    // A new view.
    let held = played.ask(&token, &version);
    tokio::time::sleep(Duration::from_secs(2)).await;
    played.link.begin();
    assert_eq!(status(held).await, (421, true));
    // Another replica leads.
    played.link.requests.ask(std::iter::empty());
    played.link.nodes.publish(played.time.now());
    let held = played.ask(&token, &version);
    tokio::time::sleep(Duration::from_secs(2)).await;
    played.leadership.send_replace(Leadership::Lost);
    assert_eq!(status(held).await, (421, true));
    // The process ends.
    played.leadership.send_replace(leader());
    let held = played.ask(&token, &version);
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(played.leadership);
    assert_eq!(status(held).await, (421, true));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_for_one_of_the_two_alone() {
    let mut played = Played::new();
    played.link.nodes.publish(played.time.now());
    let (agent, supervisor) = (played.agent("n1"), played.time.token("water-1-x"));
    assert_eq!(played.ask(&supervisor, "").await.unwrap().status(), 401);
    assert_eq!(played.status(&agent, BODY).await, 401);
    assert!(played.link.reports.try_recv().is_err());
    assert_eq!(played.ask(&agent, "").await.unwrap().status(), 200);
    assert_eq!(played.status(&supervisor, BODY).await, 200);
    assert_eq!(played.metrics.reports.answered_so_far("unauthenticated"), 1, "the other is no report");
}

#[tokio::test(start_paused = true)]
async fn an_agent_may_name_all_pods_of_a_full_node_and_no_book() {
    let played = Played::new();
    played.link.nodes.publish(played.time.now());
    let token = played.agent("n1");
    let status = async |count: usize| {
        let uids = vec!["00000000-0000-0000-0000-000000000000"; count];
        let mut asked = request(&token, &serde_json::json!({ "failed": uids }).to_string());
        *asked.uri_mut() = node_agent::PATH.parse().unwrap();
        played.desk.answer(PEER, asked).await.status().as_u16()
    };
    assert_eq!((status(500).await, status(1000).await), (200, 413));
}
