//! The service through its router, without a socket.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use scavenger_schema::tuning::{ErrorCode, ErrorReply, HardwareReply, LadderReply, ModelReply, PredictReply};
use scavenger_tuner::http::{Service, router};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::ladder::fixtures::{node, request, water};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const BODY_LIMIT: usize = 64 * 1024;

fn service() -> Service {
    Service::new(Model::prior(), Duration::from_secs(5), BODY_LIMIT)
}

async fn send(service: &Service, request: Request<Body>) -> (StatusCode, String) {
    let response = router(service).oneshot(request).await.expect("the router should always answer");
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 24).await.expect("the body should be read");
    (status, String::from_utf8(body.to_vec()).expect("the body should be text"))
}

async fn post(path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .expect("the request should be right");
    send(&service(), request).await
}

async fn get(service: &Service, path: &str) -> (StatusCode, String) {
    send(service, Request::get(path).body(Body::empty()).expect("the request should be right")).await
}

fn good() -> Value {
    serde_json::to_value(request(water(10_000), vec![node(2000, 4)])).expect("the request should serialise")
}

async fn refused(body: String) -> (StatusCode, ErrorReply) {
    let (status, text) = post("/v1/ladder", body.clone()).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} for {body}")))
}

#[tokio::test]
async fn a_ladder_for_a_small_node() {
    let (status, text) = post("/v1/ladder", good().to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let reply: LadderReply = serde_json::from_str(&text).expect("the reply should have its type");
    let cpus: Vec<_> = reply.rungs.iter().map(|rung| rung.resources.cpu_millicores).collect();
    assert_eq!(cpus, [2000, 1000, 500]);
    let args = reply.rungs[1].layout.mdrun_args().join(" ");
    assert_eq!(args, "-ntmpi 1 -ntomp 1 -npme 0 -pin off -nb cpu");
}

#[tokio::test]
async fn the_least_that_must_be_said() {
    let least = json!({
        "system": {"atoms": 3000},
        "nodes": [{"allocatable": {"cpuMillicores": 2000, "memoryBytes": 4_294_967_296_u64}}],
    });
    let (status, text) = post("/v1/ladder", least.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
}

#[tokio::test]
async fn a_prediction_for_one_layout() {
    let mut body = good();
    let request = json!({
        "system": body["system"].take(),
        "layout": {"ntmpi": 1, "ntomp": 2},
        "node": body["nodes"][0].take(),
    });
    let (status, text) = post("/v1/predict", request.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let reply: PredictReply = serde_json::from_str(&text).expect("the reply should have its type");
    assert_eq!(reply.resources.cpu_millicores, 2000);
    assert!(reply.step.total_us > 0.0);
}

#[tokio::test]
async fn bad_input_names_its_field() {
    let cases = [
        ("/system/atoms", json!(0), "system.atoms"),
        ("/system/atoms", json!(-5), "system.atoms"),
        ("/system/atoms", json!(1e300), "system.atoms"),
        ("/system/atoms", json!("many"), "system.atoms"),
        ("/system/boxNm", json!([-1.0, 3.0, 3.0]), "system.boxNm[0]"),
        ("/system/boxNm", json!([1.0, 3.0]), "system.boxNm"),
        ("/system/dtPs", json!(null), "system.dtPs"),
        ("/system/pme", json!({"grid": [0, 4, 4]}), "system.pme.grid[0]"),
        ("/limits/maxGpus", json!(1_000_000), "limits.maxGpus"),
        ("/limits/maxRung", json!(1), "limits.maxRung"),
        ("/nodes", json!([]), "nodes"),
        ("/nodes/0/allocatable/gpus", json!(1_000_000), "nodes[0].allocatable.gpus"),
        (
            "/nodes/0/allocatable/cpuMillicores",
            json!(5_000_000_000_u64),
            "nodes[0].allocatable.cpuMillicores",
        ),
        ("/nodes/0/allocatable", json!({"memoryBytes": 1}), "nodes[0].allocatable.cpuMillicores"),
    ];
    for (pointer, value, field) in cases {
        let mut body = good();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
        let parent = body.pointer_mut(parent).expect("the parent should exist");
        match parent {
            Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
            other => other[key] = value,
        }
        let (status, reply) = refused(body.to_string()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{pointer}: {}", reply.error);
        assert_eq!(reply.field.as_deref(), Some(field), "{}", reply.error);
        assert_eq!(reply.code, ErrorCode::Invalid);
    }
}

#[tokio::test]
async fn numbers_beyond_all_bounds_are_refused_by_field() {
    let body = good().to_string().replace("\"dtPs\":0.002", "\"dtPs\":1e999");
    let (status, reply) = refused(body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(reply.field.as_deref(), Some("system.dtPs"), "{}", reply.error);
}

#[tokio::test]
async fn what_is_no_json_is_a_bad_request() {
    let deep = "[".repeat(10_000);
    for body in ["", "{", "NaN", "{} {}", "\u{0}", deep.as_str()] {
        let (status, reply) = refused(body.to_owned()).await;
        assert!(status.is_client_error(), "{body}");
        assert_eq!(reply.code, ErrorCode::Invalid, "{body}");
    }
    let (status, reply) = refused("[]".to_owned()).await;
    assert_eq!((status, reply.field.is_some()), (StatusCode::UNPROCESSABLE_ENTITY, true));
}

#[tokio::test]
async fn nothing_fits_is_told_from_a_wrong_request() {
    let mut body = good();
    body["limits"]["maxMemoryBytes"] = json!(2 << 20);
    let (status, reply) = refused(body.to_string()).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(reply.code, ErrorCode::NothingFits);
    assert_eq!(reply.field.as_deref(), Some("limits.maxMemoryBytes"));
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let (status, text) = post("/v1/ladder", " ".repeat(BODY_LIMIT + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{text}");
    serde_json::from_str::<ErrorReply>(&text).expect("the error should have its type");
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up() {
    let service = Service::new(Model::prior(), Duration::from_millis(50), BODY_LIMIT);
    let never = Body::from_stream(futures_never());
    let request = Request::post("/v1/ladder").body(never).expect("the request should be right");
    let (status, text) = send(&service, request).await;
    assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    let reply: ErrorReply = serde_json::from_str(&text).expect("the error should have its type");
    assert_eq!(reply.code, ErrorCode::Unavailable);
}

/// A stream of bytes that stays open and silent.
fn futures_never() -> impl futures::Stream<Item = Result<axum::body::Bytes, std::io::Error>> + Send + 'static
{
    futures::stream::pending()
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told() {
    let service = service();
    assert_eq!(get(&service, "/nowhere").await.0, StatusCode::NOT_FOUND);
    let (status, text) = get(&service, "/v1/ladder").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    serde_json::from_str::<ErrorReply>(&text).expect("the error should have its type");
}

#[tokio::test]
async fn the_tables_are_told() {
    let service = service();
    let (status, text) = get(&service, "/v1/hardware").await;
    assert_eq!(status, StatusCode::OK);
    let hardware: HardwareReply = serde_json::from_str(&text).expect("the reply should have its type");
    assert!(hardware.cpus.iter().any(|cpu| cpu.class == "zen2") && hardware.gpus.len() > 10);
    let (status, text) = get(&service, "/v1/model").await;
    assert_eq!(status, StatusCode::OK);
    let model: ModelReply = serde_json::from_str(&text).expect("the reply should have its type");
    assert_eq!((model.model_version.as_str(), model.runs), (service.model().version(), 0));
}

#[tokio::test]
async fn alive_and_ready_are_different_questions() {
    let service = service();
    assert_eq!(get(&service, "/readyz").await.0, StatusCode::OK);
    service.set_ready(false);
    assert_eq!(get(&service, "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&service, "/healthz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn requests_are_counted_by_path_and_status() {
    let service = service();
    let ladder = Request::post("/v1/ladder").body(Body::from(good().to_string())).expect("should be right");
    send(&service, ladder).await;
    get(&service, "/some/scan").await;
    let (status, text) = get(&service, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "scavenger_tuner_requests_total{path=\"/v1/ladder\",status=\"200\"} 1",
        "scavenger_tuner_requests_total{path=\"other\",status=\"404\"} 1",
        "scavenger_tuner_ladder_rungs_count 1",
        "scavenger_tuner_model_runs{version=",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}
