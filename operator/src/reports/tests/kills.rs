//! What the agents of nodes say about kills for memory.

use scavenger_planner::values::{Key, KillCause, KillReport, Observation};
use scavenger_schema::node_agent::{self, Cause, KilledPod, NodePods};

use super::{agents::pods, *};

/// A pod on the node n1 with a container that was killed for memory so many seconds ago.
fn killed(played: &Played, name: &str, ago: i64) -> (Observation, KilledPod) {
    killed_on(played, "n1", name, ago)
}

/// That of a ScavengerJob has ended; an ordinary one goes on.
fn killed_on(played: &Played, node: &str, name: &str, ago: i64) -> (Observation, KilledPod) {
    let time = (played.time.now() - SignedDuration::from_secs(ago)).round(jiff::Unit::Second).unwrap();
    let ended = serde_json::json!({
        "terminated": { "reason": "OOMKilled", "exitCode": 137, "finishedAt": time.to_string() },
    });
    let is_own = name.starts_with("own");
    let mut object = serde_json::json!({
        "metadata": { "name": name, "namespace": "lab", "uid": format!("uid-{name}"), "resourceVersion": "1" },
        "spec": { "nodeName": node, "containers": [{ "name": "main" }] },
        "status": { "phase": if is_own { "Failed" } else { "Running" }, "containerStatuses": [{
            "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 1,
        }] },
    });
    object["status"]["containerStatuses"][0][if is_own { "state" } else { "lastState" }] = ended;
    if is_own {
        object["metadata"]["labels"] = serde_json::json!({
            "scavenger.dev/job": "j", "scavenger.dev/job-uid": "u", "scavenger.dev/attempt": "1",
        });
        object["spec"]["priorityClassName"] = "scavenger-3".into();
    }
    let pod = crate::observe::convert::pod(&serde_json::from_value(object).unwrap());
    (Observation::Pod(Box::new(pod)), KilledPod { uid: format!("uid-{name}"), time })
}

fn answer(killed: &KilledPod, cause: Cause) -> String {
    let KilledPod { uid, time } = killed.clone();
    serde_json::to_string(&node_agent::KillReport { uid, time, cause }).unwrap()
}

impl Played {
    async fn explain(&self, token: &str, body: &str) -> u16 {
        let mut said = request(token, body);
        *said.uri_mut() = node_agent::KILLS_PATH.parse().unwrap();
        self.desk.answer(PEER, said).await.status().as_u16()
    }

    /// What the agent of a node is asked.
    async fn asked(&self, token: &str) -> Vec<KilledPod> {
        let NodePods { killed, .. } = pods(self.ask(token, "").await.unwrap()).await;
        killed
    }
}

#[tokio::test(start_paused = true)]
async fn the_agent_of_its_node_is_asked_why_a_container_was_killed() {
    let mut played = Played::new();
    let agent = played.agent("n1");
    played.link.nodes.publish(played.time.now());
    let version = pods(played.ask(&agent, "").await.unwrap()).await.version;
    let held = played.ask(&agent, &version);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!held.is_finished());
    let ((own, own_kill), (web, web_kill)) = (killed(&played, "own", 1), killed(&played, "web", 1));
    played.link.nodes.see(&web, played.time.now());
    played.sees(&own);
    let questions = pods(held.await.unwrap()).await;
    assert!(questions.pods.is_empty(), "one has ended, and the other is nobody's");
    assert_eq!(questions.killed, [own_kill.clone(), web_kill.clone()], "of whomever they are");
    assert!(played.asked(&played.agent("n2")).await.is_empty(), "they are on another node");
    assert_eq!(played.explain(&agent, &answer(&own_kill, Cause::Limit)).await, 200);
    assert_eq!(played.explain(&agent, &answer(&web_kill, Cause::Node)).await, 200);
    let report = |name: &str, time, cause| KillReport {
        pod: Key::new("lab", name),
        uid: format!("uid-{name}").as_str().into(),
        time,
        cause,
    };
    assert_eq!(played.link.kills.try_recv().unwrap(), report("own", own_kill.time, KillCause::Limit));
    assert_eq!(played.link.kills.try_recv().unwrap(), report("web", web_kill.time, KillCause::Node));
    played.link.nodes.publish(played.time.now());
    assert!(played.asked(&agent).await.is_empty(), "it has answered");
    assert_eq!(played.explain(&agent, &answer(&own_kill, Cause::Node)).await, 403, "once");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_believed_about_a_pod_that_is_elsewhere_or_was_not_seen_killed() {
    let mut played = Played::new();
    let (agent, other) = (played.agent("n1"), played.agent("n2"));
    let (own, kill) = killed(&played, "own", 1);
    assert_eq!(played.explain(&agent, &answer(&kill, Cause::Node)).await, 403, "the view is not complete");
    played.sees(&agents::pod("alive"));
    let alive = KilledPod { uid: "uid-alive".to_owned(), ..kill.clone() };
    assert_eq!(played.explain(&agent, &answer(&alive, Cause::Node)).await, 403, "nobody killed it");
    assert_eq!(played.explain(&agent, &answer(&kill, Cause::Node)).await, 403, "nobody has seen it");
    played.sees(&own);
    assert_eq!(played.explain(&other, &answer(&kill, Cause::Node)).await, 403, "it is on another node");
    let earlier = KilledPod { time: kill.time - SignedDuration::from_secs(60), ..kill.clone() };
    assert_eq!(played.explain(&agent, &answer(&earlier, Cause::Node)).await, 403, "that was another kill");
    let supervisor = played.time.token("own");
    assert_eq!(played.explain(&supervisor, &answer(&kill, Cause::Node)).await, 401);
    assert_eq!(played.explain("nonsense", &answer(&kill, Cause::Node)).await, 401);
    assert!(played.link.kills.try_recv().is_err());
    // After some seconds nobody waits for the answer any more.
    tokio::time::sleep(Duration::from_secs(20)).await;
    played.link.nodes.publish(played.time.now());
    assert_eq!(played.explain(&agent, &answer(&kill, Cause::Node)).await, 403, "too late");
    assert!(played.asked(&agent).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn answers_are_small_and_few() {
    let mut played = Played::new();
    let agent = played.agent("n1");
    let mut kills = Vec::new();
    for number in 0..60 {
        let (web, kill) = killed(&played, &format!("web-{number:02}"), 1);
        played.link.nodes.see(&web, played.time.now());
        kills.push(kill);
    }
    played.link.nodes.publish(played.time.now());
    assert_eq!(played.asked(&agent).await.len(), 50);
    for (body, status) in [
        ("", 400),
        ("[]", 400),
        (r#"{"uid":"uid-web-00","time":"2026-01-02T03:04:04Z","cause":"Weather"}"#, 400),
        (&format!("{{\"uid\":\"{}\"}}", "x".repeat(5000)), 413),
    ] {
        assert_eq!(played.explain(&agent, body).await, status, "{body:.80}");
    }
    let mut statuses = BTreeMap::new();
    for kill in &kills {
        *statuses.entry(played.explain(&agent, &answer(kill, Cause::Unknown)).await).or_insert(0) += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(200, 46), (429, 14)]));
    assert_eq!(std::iter::from_fn(|| played.link.kills.try_recv().ok()).count(), 46);
    let rendered = played.metrics.render().unwrap();
    assert!(rendered.contains("scavenger_node_agent_kills_total{cause=\"unknown\"} 46"), "{rendered}");
}

#[tokio::test(start_paused = true)]
async fn what_the_loop_has_no_time_for_stays_a_question() {
    let mut played = Played::new();
    let mut said = Vec::new();
    for number in 0..10 {
        let node = format!("n{number}");
        for pod in 0..40 {
            let (web, kill) = killed_on(&played, &node, &format!("web-{number}-{pod}"), 1);
            played.link.nodes.see(&web, played.time.now());
            said.push((played.agent(&node), answer(&kill, Cause::Node)));
        }
    }
    played.link.nodes.publish(played.time.now());
    for (agent, body) in &said[..KILLS] {
        assert_eq!(played.explain(agent, body).await, 200);
    }
    let (agent, body) = &said[KILLS];
    assert_eq!(played.explain(agent, body).await, 503);
    played.link.kills.try_recv().unwrap();
    assert_eq!(played.explain(agent, body).await, 200);
}
