//! The recorder as a whole, against an API server that lists, watches and measures.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::Value;

use super::*;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Answers with the nodes and pods of the tests above; the watch of pods says that pod a has ended, and falls silent. Refuses one
/// path, and answers what it knows nothing of with a status code.
fn client(refused: Option<&'static str>, otherwise: StatusCode) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let is_watch = query.contains("watch=true");
        let list = |items: Value| json!({ "metadata": { "resourceVersion": "5" }, "items": items });
        if refused == Some(path) {
            let answer = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no" });
            return Ok(answered(StatusCode::FORBIDDEN, &answer));
        }
        Ok::<_, kube::Error>(match path {
            "/api/v1/nodes" if is_watch => watched(None),
            "/api/v1/nodes" => answered(StatusCode::OK, &list(json!([versioned(&node("rack-1", "4"))]))),
            "/api/v1/pods" if is_watch => {
                let ended = versioned(&pod("a", Some("rack-1"), "Succeeded"));
                watched(Some(json!({ "type": "MODIFIED", "object": ended })))
            }
            "/api/v1/pods" => {
                let running = versioned(&pod("a", Some("rack-1"), "Running"));
                answered(StatusCode::OK, &list(json!([running])))
            }
            _ => {
                let answer = json!({ "kind": "Status", "status": "Failure", "code": otherwise.as_u16(), "reason": "", "message": "" });
                answered(otherwise, &answer)
            }
        })
    });
    Client::new(service, "lab")
}

fn versioned(object: &impl serde::Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap();
    object["metadata"]["resourceVersion"] = json!("6");
    object
}

fn answered(status: StatusCode, answer: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// One event at most, and then nothing, on a connection that stays open.
fn watched(event: Option<Value>) -> Answer {
    let line = event.map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{event}\n")))));
    let frames = stream::iter(line).chain(stream::pending());
    Response::new(StreamBody::new(frames).boxed_unsync())
}

fn settings(path: &std::path::Path) -> Settings {
    Settings {
        path: path.to_owned(),
        max_size: LIMIT,
        use_every: Duration::from_secs(300),
        node_labels: Vec::new(),
    }
}

/// What stands in the file of a recorder that is ended once it has seen the end of the pod.
async fn recorded_with(client: Client) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let has_ended = async {
        while !fs::read_to_string(file.path()).unwrap().contains(",ended,") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let recorded = record(&client, settings(file.path()), has_ended);
    let end = tokio::time::timeout(Duration::from_secs(60), recorded).await.expect("it should end");
    assert_eq!(end.unwrap(), End::Stopped);
    events(file.path())
}

#[tokio::test]
async fn a_recorder_lists_watches_and_ends_when_it_is_asked_to() {
    let seen = ["begin", "node n0 4000", "10 pod p1 250", "12 bound p1 n0", "15 started p1", "60 ended p1"];
    let recorded = recorded_with(client(None, StatusCode::NOT_FOUND)).await;
    assert_eq!(recorded, [&seen[..], &["mark"]].concat());
    let recorded = recorded_with(client(None, StatusCode::SERVICE_UNAVAILABLE)).await;
    assert_eq!(recorded, seen, "an API server that does not answer shows nothing");
}

#[tokio::test]
async fn a_right_that_is_missing_ends_it_with_what_to_do() {
    for (path, kind) in [("/api/v1/nodes", "nodes"), ("/api/v1/pods", "pods")] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let client = client(Some(path), StatusCode::NOT_FOUND);
        let recorded = record(&client, settings(file.path()), std::future::pending());
        let end = tokio::time::timeout(Duration::from_secs(60), recorded).await.expect("it should end");
        let error = end.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{kind} may not be listed and watched; deploy/record")),
            "{error}"
        );
    }
}
