use std::{convert::Infallible, future::ready};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::observe::progress::Listen;

const PODS: &str = "/pods";
const VOLUMES: &str = "/persistentvolumes";
const CLASSES: &str = "/runtimeclasses";

/// How watches of one kind are answered.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// Nothing happens on them.
    Quiet,
    /// The request is refused with this code.
    Refused(u16),
    /// The request is accepted, and ends at once with an event of type ERROR that has this code.
    ErrorEvent(u16),
}

/// An empty cluster with a pool. Watches of one kind are answered as the sender says; they are cut whenever it says it
/// again. Lists of volumes and classes are answered in the same way, those of all others are complete.
fn cluster(kind: &'static str, answers: &watch::Sender<Answer>, health: &Health) -> Client {
    let answers = answers.subscribe();
    let service = tower::service_fn(move |request: Request<Body>| {
        ready(Ok::<_, Infallible>(answer(&request, kind, answers.clone())))
    });
    let service = tower::ServiceBuilder::new().layer(Listen(Arc::clone(&health.progress))).service(service);
    Client::new(service, "lab")
}

fn whole(code: u16, value: &Value) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::from(format!("{value}\n")).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn failure(code: u16) -> Value {
    let reason = if code == 403 { "Forbidden" } else { "InternalError" };
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": "pods is forbidden" })
}

fn answer(
    request: &Request<Body>,
    kind: &str,
    mut answers: watch::Receiver<Answer>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let is_of_kind = path.ends_with(kind);
    let now = *answers.borrow_and_update();
    if query.contains("watch=true") {
        match now {
            Answer::Refused(code) if is_of_kind => return whole(code, &failure(code)),
            Answer::ErrorEvent(code) if is_of_kind => {
                return whole(200, &json!({ "type": "ERROR", "object": failure(code) }));
            }
            _ => {}
        }
        let cut = async move {
            if !is_of_kind || answers.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let body = stream::once(cut).filter_map(|()| ready(None::<Result<Frame<Bytes>, Infallible>>));
        return Response::new(StreamBody::new(body).boxed_unsync());
    }
    let items = if path.ends_with("/scavengerpools") { vec![pool()] } else { vec![] };
    if let Answer::Refused(code) = now
        && is_of_kind
        && [VOLUMES, CLASSES].contains(&kind)
    {
        return whole(code, &failure(code));
    }
    match path {
        _ if path.ends_with("/scavengerpools/default") || path.ends_with("/status") => whole(200, &pool()),
        _ if path.contains("metrics.k8s.io") => whole(404, &failure(404)),
        _ => whole(200, &json!({ "metadata": { "resourceVersion": "7" }, "items": items })),
    }
}

fn pool() -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool",
        "metadata": { "name": "default", "uid": "p", "resourceVersion": "5" }, "spec": {},
    })
}

fn plans(metrics: &Metrics) -> u64 {
    let text = metrics.render().unwrap();
    let count = text.lines().find_map(|line| line.strip_prefix("scavenger_plan_duration_seconds_count "));
    count.unwrap().parse().unwrap()
}

/// Lets virtual time pass until this holds; fails if it never does.
async fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let begin = tokio::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// An operator that leads on such a cluster.
struct Lab {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    answers: watch::Sender<Answer>,
    running: tokio::task::JoinHandle<Result<(), ControllerError>>,
    _lease: watch::Sender<Leadership>,
}

impl Lab {
    fn start(kind: &'static str, answer: Answer) -> Self {
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
        let answers = watch::Sender::new(answer);
        let client = cluster(kind, &answers, &health);
        let controller = Controller {
            client: client.clone(),
            once: client.clone(),
            watching: client,
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&health),
            concurrency: 4,
            reports: crate::reports::link().0,
            namespace: "scavenger-system".to_owned(),
            manifests: manifest::Settings::default(),
        };
        let lease = watch::Sender::new(Leadership::Leader {
            until: tokio::time::Instant::now() + Duration::from_secs(3600),
        });
        let running = tokio::spawn(controller.run(lease.subscribe(), std::future::pending()));
        Self { health, metrics, answers, running, _lease: lease }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stands_by_is_ready_and_asks_for_nothing() {
    let asked: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
    let (noted, answers) = (Arc::clone(&asked), watch::Sender::new(Answer::Quiet));
    let subscribed = answers.subscribe();
    let service = tower::service_fn(move |request: Request<Body>| {
        noted.lock().unwrap().push(request.uri().to_string());
        ready(Ok::<_, Infallible>(answer(&request, PODS, subscribed.clone())))
    });
    let client = Client::new(service, "lab");
    let controller = Controller {
        client: client.clone(),
        once: client.clone(),
        watching: client,
        metrics: Arc::clone(&metrics),
        health: Arc::clone(&health),
        concurrency: 4,
        reports: crate::reports::link().0,
        namespace: "scavenger-system".to_owned(),
        manifests: manifest::Settings::default(),
    };
    let lease = watch::Sender::new(Leadership::Unknown);
    let running = tokio::spawn(controller.run(lease.subscribe(), std::future::pending()));
    lease.send_replace(Leadership::Standby);
    within(Duration::from_secs(30), "ready", || health.is_ready()).await;
    pass(Duration::from_secs(600)).await;
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    assert!(health.is_ready() && plans(&metrics) == 0);

    // The same replica lists everything once it leads.
    let until = tokio::time::Instant::now() + Duration::from_secs(3600);
    lease.send_replace(Leadership::Leader { until });
    within(Duration::from_secs(30), "planning", || plans(&metrics) > 0).await;
    assert!(!asked.lock().unwrap().is_empty());
    assert!(running.now_or_never().is_none(), "the loop still runs");
}

#[tokio::test(start_paused = true)]
async fn volumes_and_runtime_classes_that_cannot_be_listed_keep_nobody_from_planning() {
    for kind in [VOLUMES, CLASSES] {
        plans_without(kind).await;
    }
}

async fn plans_without(kind: &'static str) {
    let lab = Lab::start(kind, Answer::Refused(403));
    pass(Duration::from_secs(20)).await;
    assert_eq!(plans(&lab.metrics), 0, "they may only be late");
    within(Duration::from_secs(60), "ready without them", || lab.health.is_ready()).await;
    within(Duration::from_secs(10), "planning", || plans(&lab.metrics) > 0).await;

    lab.answers.send_replace(Answer::Quiet);
    pass(Duration::from_secs(60)).await;
    assert!(lab.health.is_ready());

    // Known once, they may be listed again, or not at all.
    lab.answers.send_replace(Answer::Refused(403));
    let planned = plans(&lab.metrics);
    pass(Duration::from_secs(600)).await;
    assert!(lab.health.is_ready());
    assert!(plans(&lab.metrics) >= planned + 60, "{} after {planned}", plans(&lab.metrics));
    assert!(lab.running.now_or_never().is_none(), "the loop still runs");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_while_a_watch_only_fails() {
    for refusal in [Answer::Refused(403), Answer::Refused(500), Answer::ErrorEvent(500)] {
        let Lab { health, metrics, answers: pods, running, _lease } = Lab::start(PODS, Answer::Quiet);
        within(Duration::from_secs(30), "ready", || health.is_ready()).await;

        pods.send_replace(refusal);
        pass(Duration::from_secs(20)).await;
        assert!(health.is_ready(), "{refusal:?}: a short interruption holds nothing up");
        within(Duration::from_secs(30), "not ready", || !health.is_ready()).await;
        let planned = plans(&metrics);
        pass(Duration::from_secs(60)).await;
        assert_eq!(plans(&metrics), planned, "{refusal:?}");
        assert!(!health.is_ready(), "{refusal:?}");
        let (code, counted) = match refusal {
            Answer::Refused(code) | Answer::ErrorEvent(code) => (code, metrics.render().unwrap()),
            Answer::Quiet => unreachable!(),
        };
        let name = format!("scavenger_watch_errors_total{{kind=\"pods\",code=\"{code}\"}}");
        assert!(counted.contains(&name), "{name} not in {counted}");

        pods.send_replace(Answer::Quiet);
        // kube asks again after 30 s, and with its jitter after up to 60.
        within(Duration::from_secs(120), "ready again", || health.is_ready()).await;
        within(Duration::from_secs(10), "planning again", || plans(&metrics) > planned).await;
        assert!(running.now_or_never().is_none(), "{refusal:?}: the loop still runs");
    }
}
