use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use scavenger_planner::{
    action::StatusWrite,
    values::{Attempt, Name, Phase, ScavengerJobStatus},
};
use serde_json::json;

use super::*;
use crate::observe::convert;

/// An API server that keeps the one object that is created in it, and notes how it was asked.
fn server(asked: &Arc<Mutex<Vec<Method>>>) -> Client {
    let asked = Arc::clone(asked);
    let stored: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (asked, stored) = (Arc::clone(&asked), Arc::clone(&stored));
        async move {
            let (parts, body) = request.into_parts();
            asked.lock().unwrap().push(parts.method.clone());
            if parts.method == Method::POST {
                *stored.lock().unwrap() = Some(body.collect_bytes().await?.to_vec());
            }
            let (code, text) = match stored.lock().unwrap().clone() {
                Some(object) => (StatusCode::OK, object),
                None => {
                    let status = json!({
                        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "gone",
                    });
                    (StatusCode::NOT_FOUND, status.to_string().into_bytes())
                }
            };
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = code;
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, "lab")
}

/// An executor that leads for as long as the test takes.
fn executor(client: Client) -> Executor {
    leading(client, watch::Sender::new(led_for(Duration::from_secs(600))).subscribe())
}

fn leading(client: Client, leadership: watch::Receiver<Leadership>) -> Executor {
    let manifests = manifest::Settings::default();
    Executor::new(client.clone(), client, leadership, Arc::new(Metrics::new()), manifests)
}

/// The leadership that ends after this time.
fn led_for(time: Duration) -> Leadership {
    Leadership::Leader { until: tokio::time::Instant::now() + time }
}

#[tokio::test]
async fn the_service_of_a_gang_is_written_once() {
    let asked = Arc::default();
    let client = server(&asked);
    let executor = executor(client);
    let gang: ScavengerJob = serde_json::from_value(json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
        "metadata": { "name": "gang", "namespace": "lab", "uid": "u" },
        "spec": {
            "image": "counter", "podCount": 2, "interruptionAfter": "10m",
            "resources": { "requests": { "cpu": 1, "memory": "1Gi" } },
        },
    }))
    .unwrap();
    for _attempt in 0..3 {
        executor.create_service(&Key::new("lab", "gang"), &gang, "u").await.unwrap();
    }
    assert_eq!(*asked.lock().unwrap(), [Method::GET, Method::POST, Method::GET, Method::GET]);
}

/// An API server for one ScavengerJob and its Job: it counts versions, refuses old ones, and notes the writes and the
/// live reads.
fn cluster(sj: &ScavengerJob, asked: &Arc<Mutex<Vec<String>>>) -> Client {
    let asked = Arc::clone(asked);
    let stored = Arc::new(Mutex::new(json!(sj)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (asked, stored) = (Arc::clone(&asked), Arc::clone(&stored));
        async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path().rsplit("/namespaces/lab/").next().unwrap_or_default().to_owned();
            let sent = body.collect_bytes().await?;
            let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap_or_default();
            let mut stored = stored.lock().unwrap();
            let answer = match (&parts.method, &*path) {
                (&Method::GET, "pods") => {
                    json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [] })
                }
                (&Method::GET, "serviceaccounts/default") => json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": { "name": "default" },
                }),
                (&Method::GET, _) => {
                    asked.lock().unwrap().push(format!("GET {path}"));
                    stored.clone()
                }
                (&Method::PUT, _)
                    if sent["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"] =>
                {
                    asked.lock().unwrap().push(format!("PUT {path}"));
                    let version: u64 =
                        stored["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                    stored["status"] = sent["status"].clone();
                    stored["metadata"]["resourceVersion"] = json!((version + 1).to_string());
                    stored.clone()
                }
                (&Method::PATCH, _) => {
                    asked.lock().unwrap().push(format!("PATCH {path}"));
                    stored["metadata"]["finalizers"] = sent["metadata"]["finalizers"].clone();
                    stored.clone()
                }
                (&Method::POST, "jobs") => {
                    asked.lock().unwrap().push(format!("POST {path}"));
                    let mut made = sent;
                    made["metadata"]["uid"] = json!("child");
                    made["metadata"]["resourceVersion"] = json!("1");
                    made["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
                    made
                }
                (method, _) => {
                    asked.lock().unwrap().push(format!("{method} {path} refused"));
                    let status = json!({
                        "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "newer",
                    });
                    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
                    *response.status_mut() = StatusCode::CONFLICT;
                    return Ok::<_, kube::Error>(response);
                }
            };
            Ok(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    Client::new(service, "lab")
}

fn waiting_sj() -> ScavengerJob {
    serde_json::from_value(json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
        "metadata": {
            "name": "one", "namespace": "lab", "uid": "u", "resourceVersion": "7", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": [names::FINALIZER],
        },
        "spec": {
            "image": "counter", "args": ["a"], "interruptionAfter": "10m",
            "resources": { "requests": { "cpu": 1, "memory": "1Gi" } },
        },
    }))
    .unwrap()
}

/// The write of a status in this phase, with the first attempt.
fn write(version: u64, phase: Phase, sj: &ScavengerJob) -> Task {
    let demand = convert::sj(sj).spec.expect("the spec should be valid").demand;
    let status = ScavengerJobStatus {
        phase,
        attempt: Some(Box::new(Attempt::first(demand, Timestamp::UNIX_EPOCH))),
        ..ScavengerJobStatus::default()
    };
    Task::WriteStatus(Box::new(StatusWrite { resource_version: version, status, ended: None, event: None }))
}

#[tokio::test]
async fn a_start_writes_three_times_and_reads_the_scavenger_job_once() {
    let (sj, asked) = (waiting_sj(), Arc::default());
    let client = cluster(&sj, &asked);
    let executor = executor(client);
    let tasks = [
        Task::Prepare { resource_version: 7 },
        write(7, Phase::Starting, &sj),
        Task::CreateJob {
            attempt: 1,
            priority_class: 0,
            confinement: Box::default(),
            supervisor: None,
            by_use: None,
        },
        write(8, Phase::Running, &sj),
    ];
    let mut last = None;
    for task in tasks {
        let action = Action { sj: Key::new("lab", "one"), uid: "u".into(), task };
        last = Some(executor.execute(action).await.answer.unwrap());
    }
    let Some(Answer::ScavengerJob(last)) = last else { panic!("{last:?}") };
    assert_eq!((last.resource_version, last.status.phase), (9, Phase::Running));
    assert_eq!(
        *asked.lock().unwrap(),
        [
            "GET scavengerjobs/one",
            "PUT scavengerjobs/one/status",
            "POST jobs",
            "PUT scavengerjobs/one/status"
        ]
    );
}

/// Such a spec has failed before anything is prepared; should it get here, no request is made of its names.
#[tokio::test]
async fn what_cannot_be_a_name_in_a_path_is_asked_for_by_nobody_and_is_the_specs_own_fault() {
    let at = "/data";
    for (field, value, named) in [
        (
            "persistentVolumeClaims",
            json!([{ "claimName": "../x", "mountPath": at }]),
            "PersistentVolumeClaim \"../x\"",
        ),
        ("persistentVolumeClaims", json!([{ "claimName": "x/status", "mountPath": at }]), "\"x/status\""),
        ("configMaps", json!([{ "name": "A B", "mountPath": at }]), "ConfigMap \"A B\""),
        ("serviceAccountName", json!("default?a"), "ServiceAccount \"default?a\""),
        (
            "env",
            json!([{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "x#", "key": "a" } } }]),
            "\"x#\"",
        ),
    ] {
        let mut sj = json!(waiting_sj());
        sj["spec"][field] = value;
        let (sj, asked) = (serde_json::from_value(sj).unwrap(), Arc::default());
        let executor = executor(cluster(&sj, &asked));
        let task = Task::Prepare { resource_version: 7 };
        let action = Action { sj: Key::new("lab", "one"), uid: "u".into(), task };
        let answer = executor.execute(action).await.answer.unwrap_err();
        assert!(matches!(&answer, Failure::Refused(why) if why.contains(named)), "{answer:?}");
        assert_eq!(*asked.lock().unwrap(), ["GET scavengerjobs/one"], "nothing else is asked");
    }
}

/// An API server that answers every PATCH of a ScavengerJob without finalizer with this.
async fn prepared_with(code: u16, message: &str) -> Failure {
    let mut sj = waiting_sj();
    sj.metadata.finalizers = None;
    let status =
        json!({ "kind": "Status", "status": "Failure", "code": code, "message": message }).to_string();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_write = request.method() == Method::PATCH;
        let text = if is_write { status.clone() } else { json!(sj).to_string() };
        let mut response = Response::new(Body::from(text.into_bytes()));
        *response.status_mut() = if is_write { StatusCode::from_u16(code).unwrap() } else { StatusCode::OK };
        std::future::ready(Ok::<_, kube::Error>(response))
    });
    let executor = executor(Client::new(service, "lab"));
    let task = Task::Prepare { resource_version: 7 };
    executor.execute(Action { sj: Key::new("lab", "one"), uid: "u".into(), task }).await.answer.unwrap_err()
}

#[tokio::test]
async fn an_object_that_the_api_server_finds_invalid_has_failed_and_what_a_policy_denies_may_pass() {
    let invalid = "ScavengerJob.scavenger.dev \"one\" is invalid: metadata.name: Invalid value";
    for code in [400, 422] {
        assert_eq!(prepared_with(code, invalid).await, Failure::Refused(invalid.to_owned()), "{code}");
    }
    let denied =
        "scavengerjobs.scavenger.dev \"one\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no";
    let by_webhook = "admission webhook \"rules.example.com\" denied the request: spec is invalid: no team";
    for (code, message) in [
        (422, denied),
        (403, denied),
        (400, by_webhook),
        (422, by_webhook),
        (500, "etcdserver: request timed out"),
    ] {
        assert_eq!(prepared_with(code, message).await, Failure::Transient(message.to_owned()), "{code}");
    }
}

#[tokio::test]
async fn a_leader_that_was_frozen_begins_nothing() {
    let (sj, asked) = (waiting_sj(), Arc::default());
    let lease = watch::Sender::new(led_for(Duration::from_secs(10)));
    let executor = leading(cluster(&sj, &asked), lease.subscribe());
    let carry_out = async |task| {
        executor.execute(Action { sj: Key::new("lab", "one"), uid: "u".into(), task }).await.answer
    };
    carry_out(write(7, Phase::Starting, &sj)).await.unwrap();
    // Frozen until its time was over; nobody has told it so.
    lease.send_replace(led_for(Duration::ZERO));
    asked.lock().unwrap().clear();
    let create = || Task::CreateJob {
        attempt: 1,
        priority_class: 0,
        confinement: Box::default(),
        supervisor: None,
        by_use: None,
    };
    for task in [create(), write(8, Phase::Starting, &sj)] {
        let refused = carry_out(task).await.unwrap_err();
        assert!(matches!(&refused, Failure::Transient(message) if message.contains("Lease")), "{refused}");
    }
    assert!(!asked.lock().unwrap().iter().any(|request| !request.starts_with("GET ")), "{asked:?}");
    // The end of an attempt rests on the version alone.
    carry_out(write(8, Phase::Interrupted, &sj)).await.unwrap();
    lease.send_replace(led_for(Duration::from_secs(10)));
    carry_out(create()).await.unwrap();
    assert_eq!(asked.lock().unwrap().last().map(String::as_str), Some("POST jobs"));
}

#[tokio::test]
async fn a_status_is_written_only_over_the_version_that_was_judged() {
    let (sj, asked) = (waiting_sj(), Arc::default());
    let client = cluster(&sj, &asked);
    let executor = executor(client);
    let task = write(6, Phase::Waiting, &sj);
    let action = Action { sj: Key::new("lab", "one"), uid: "u".into(), task };
    assert_eq!(executor.execute(action).await.answer.unwrap_err(), Failure::Conflict);
    assert_eq!(*asked.lock().unwrap(), ["GET scavengerjobs/one"], "nothing is written");
}

/// A conflict is over with the version that caused it, and is not waited out like an API server that is away.
#[test]
fn a_conflict_and_an_object_that_is_gone_are_no_failures_that_pass() {
    let of = |code, reason| {
        errors::failure(kube::Error::Api(kube::core::Status::failure("no", reason).with_code(code).boxed()))
    };
    assert_eq!(of(404, "NotFound"), Failure::Gone);
    assert_eq!(of(409, "Conflict"), Failure::Conflict);
    assert_eq!(of(409, "AlreadyExists"), Failure::Transient("no".to_owned()));
    assert_eq!(of(500, "InternalError"), Failure::Transient("no".to_owned()));
}

/// What an attempt lost may be measured after the next one has ended, too.
#[tokio::test]
async fn the_log_has_one_line_for_each_attempt_that_a_status_ends() {
    let mut sj = waiting_sj();
    let entry = |number: u32| {
        json!({
            "number": number, "jobName": format!("one-{number}"), "generation": 1, "requests": { "cpu": "1" },
            "podCount": 1, "priorityClassName": "scavenger-1", "creationTime": "2026-01-01T00:00:00Z",
        })
    };
    sj.status = Some(serde_json::from_value(json!({ "attempts": [entry(1), entry(2)] })).unwrap());
    let demand = convert::sj(&sj).spec.expect("the spec should be valid").demand;
    for ended in [None, Some(1), Some(2), Some(3)] {
        let Task::WriteStatus(mut write) = write(7, Phase::Waiting, &sj) else { unreachable!() };
        write.ended =
            ended.map(|number| Attempt { number, ..Attempt::first(demand.clone(), Timestamp::UNIX_EPOCH) });
        let executor = executor(cluster(&sj, &Arc::default()));
        let log = record::tests::Log::default();
        let taken = log.take();
        let action = Action { sj: Key::new("lab", "one"), uid: "u".into(), task: Task::WriteStatus(write) };
        executor.execute(action).await.answer.unwrap();
        drop(taken);
        let lines = log.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let lines = lines.filter(|line| line["fields"]["message"] == "attempt ended");
        let attempts: Vec<u64> = lines.filter_map(|line| line["fields"]["attempt"].as_u64()).collect();
        assert_eq!(attempts, Vec::from_iter(ended.map(u64::from)), "{ended:?}");
    }
}

/// The watch may show the finalizer for a moment longer, so it may be taken off twice.
#[tokio::test]
async fn the_last_attempt_of_one_that_is_deleted_is_counted_once() {
    let (sj, asked) = (waiting_sj(), Arc::default());
    let executor = executor(cluster(&sj, &asked));
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut last = convert::sj(&sj);
    let demand = last.spec.as_ref().expect("the spec should be valid").demand.clone();
    last.status.attempt = Some(Box::new(Attempt {
        start_time: Some(at(0)),
        end_time: Some(at(100)),
        outcome: Some(scavenger_planner::values::Outcome::Completed),
        ..Attempt::first(demand, at(0))
    }));
    for _ in 0..2 {
        let task = Task::RemoveFinalizer { last: Some(Box::new(last.clone())) };
        let action = Action { sj: Key::new("lab", "one"), uid: "u".into(), task };
        let answer = executor.execute(action).await.answer.unwrap();
        assert!(matches!(answer, Answer::Released { pods_left: 0 }), "{answer:?}");
    }
    let text = executor.metrics.render().unwrap();
    let line = r#"scavenger_useful_work_total{resource="cpu"} 100.0"#;
    assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
}

/// An API server that takes events, each after a moment, and counts them.
fn event_server(taken: &Arc<Mutex<usize>>, moment: Duration) -> Client {
    let taken = Arc::clone(taken);
    let service = tower::service_fn(move |request: Request<Body>| {
        let taken = Arc::clone(&taken);
        async move {
            tokio::time::sleep(moment).await;
            *taken.lock().unwrap() += 1;
            let body = request.into_body().collect_bytes().await?;
            Ok::<_, kube::Error>(Response::new(Body::from(body.to_vec())))
        }
    });
    Client::new(service, "lab")
}

fn tell(executor: &Executor, events: usize) {
    for number in 0..events {
        let sj: ScavengerJob = serde_json::from_value(json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
            "metadata": { "name": format!("sj-{number}"), "namespace": "lab", "uid": format!("u{number}") },
            "spec": {
                "image": "counter", "interruptionAfter": "10m",
                "resources": { "requests": { "cpu": 1, "memory": "1Gi" } },
            },
        }))
        .unwrap();
        executor.events.tell(&sj, scavenger_planner::action::Event::Started, "attempt 1 is starting");
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_when_it_ends_are_published() {
    let taken = Arc::default();
    let executor = executor(event_server(&taken, Duration::from_millis(100)));
    executor.set_busy(true);
    tell(&executor, 40);
    executor.finish(Duration::from_secs(5)).await;
    assert_eq!(*taken.lock().unwrap(), 40);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_takes_no_events_holds_up_the_end_for_so_long_only() {
    let taken = Arc::default();
    let executor = executor(event_server(&taken, Duration::from_secs(60)));
    tell(&executor, 40);
    let began = tokio::time::Instant::now();
    executor.finish(Duration::from_secs(5)).await;
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(*taken.lock().unwrap(), 0);
}

/// An API server that takes a moment for each request, and notes how many it had and how many at a time.
fn slow_server(requests: &Arc<Mutex<Load>>) -> Client {
    let requests = Arc::clone(requests);
    let service = tower::service_fn(move |_: Request<Body>| {
        let requests = Arc::clone(&requests);
        async move {
            requests.lock().unwrap().begin();
            tokio::time::sleep(Duration::from_millis(100)).await;
            requests.lock().unwrap().now -= 1;
            let done = json!({ "apiVersion": "v1", "kind": "Status", "status": "Success" });
            Ok::<_, kube::Error>(Response::new(Body::from(done.to_string().into_bytes())))
        }
    });
    Client::new(service, "lab")
}

/// Requests that a server had.
#[derive(Debug, Default)]
struct Load {
    all: usize,
    now: usize,
    most: usize,
}

impl Load {
    fn begin(&mut self) {
        (self.all, self.now) = (self.all + 1, self.now + 1);
        self.most = self.most.max(self.now);
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_large_gang_eight_pods_are_taken_away_at_a_time() {
    let pods = || {
        (0..100).map(|number| (Key::new("lab", format!("gang-1-{number}")), Name::from(format!("u{number}"))))
    };
    for again in [false, true] {
        let requests: Arc<Mutex<Load>> = Arc::default();
        let executor = executor(slow_server(&requests));
        let answer = if again {
            let pods = pods().map(|(pod, uid)| (pod, uid, jiff::SignedDuration::from_secs(30))).collect();
            executor.delete_again(pods).await
        } else {
            executor.interrupt(pods().collect()).await
        };
        assert!(answer.is_ok(), "{answer:?}");
        let requests = requests.lock().unwrap();
        assert_eq!((requests.all, requests.most), (100, 8), "again: {again}");
    }
}
