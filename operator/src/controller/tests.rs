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

/// An empty cluster with a pool. Watches of pods are answered as the sender says; they are cut whenever it says it again.
fn cluster(pods: &watch::Sender<Answer>, health: &Health) -> Client {
    let pods = pods.subscribe();
    let service = tower::service_fn(move |request: Request<Body>| {
        ready(Ok::<_, Infallible>(answer(&request, pods.clone())))
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
    mut pods: watch::Receiver<Answer>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if query.contains("watch=true") {
        match *pods.borrow_and_update() {
            Answer::Refused(code) if path.ends_with("/pods") => return whole(code, &failure(code)),
            Answer::ErrorEvent(code) if path.ends_with("/pods") => {
                return whole(200, &json!({ "type": "ERROR", "object": failure(code) }));
            }
            _ => {}
        }
        let is_of_pods = path.ends_with("/pods");
        let cut = async move {
            if !is_of_pods || pods.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let body = stream::once(cut).filter_map(|()| ready(None::<Result<Frame<Bytes>, Infallible>>));
        return Response::new(StreamBody::new(body).boxed_unsync());
    }
    let items = if path.ends_with("/scavengerpools") { vec![pool()] } else { vec![] };
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

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_while_a_watch_only_fails() {
    for refusal in [Answer::Refused(403), Answer::Refused(500), Answer::ErrorEvent(500)] {
        let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::new()));
        let pods = watch::Sender::new(Answer::Quiet);
        let client = cluster(&pods, &health);
        let controller = Controller {
            client: client.clone(),
            once: client.clone(),
            watching: client,
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&health),
            concurrency: 4,
        };
        let lease = watch::Sender::new(Leadership::Leader {
            until: tokio::time::Instant::now() + Duration::from_secs(3600),
        });
        let running = tokio::spawn(controller.run(lease.subscribe(), std::future::pending()));
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
        within(Duration::from_secs(60), "ready again", || health.is_ready()).await;
        within(Duration::from_secs(10), "planning again", || plans(&metrics) > planned).await;
        assert!(running.now_or_never().is_none(), "{refusal:?}: the loop still runs");
    }
}
