//! The service through its router, without a socket.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use scavenger_schema::tuning::{ErrorCode, ErrorReply, LadderReply, ModelReply, PredictReply};
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

fn posting(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.into())
        .expect("the request should be right")
}

async fn post(path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    send(&service(), posting(path, body)).await
}

async fn get(service: &Service, path: &str) -> (StatusCode, String) {
    send(service, Request::get(path).body(Body::empty()).expect("the request should be right")).await
}

fn good() -> Value {
    serde_json::to_value(request(water(10_000), vec![node(2000, 4)])).expect("the request should serialise")
}

async fn refused(body: impl Into<Vec<u8>>) -> (StatusCode, ErrorReply) {
    let (status, text) = post("/v1/ladder", body.into()).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[tokio::test]
async fn a_ladder_for_a_small_node() {
    let (status, text) = post("/v1/ladder", good().to_string()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let reply: LadderReply = serde_json::from_str(&text).expect("the reply should have its type");
    let cpus: Vec<_> = reply.rungs.iter().map(|rung| rung.resources.cpu_millicores).collect();
    assert_eq!(cpus, [2000, 1000, 500]);
    let args = reply.rungs[1].layout.mdrun_args(None).join(" ");
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
async fn numbers_beyond_all_bounds_are_refused_by_field() {
    let body = good().to_string().replace("\"dtPs\":0.002", "\"dtPs\":1e999");
    let (status, reply) = refused(body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(reply.field.as_deref(), Some("system.dtPs"), "{}", reply.error);
}

#[tokio::test]
async fn what_is_no_json_is_a_bad_request() {
    let deep = "[".repeat(10_000);
    let good = good().to_string();
    let cut = &good[..good.len() - 1];
    let twice = format!("{good} {good}");
    // What is wrong with the field is not said before the rest was seen to be JSON.
    let wrong_and_cut = cut.replace("\"atoms\":10000", "\"atoms\":-1");
    for body in ["", "{", "NaN", "\u{0}", &deep, cut, &twice, &wrong_and_cut, &good.replace("0.002", "NaN")] {
        let (status, reply) = refused(body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!((reply.code, reply.field), (ErrorCode::Invalid, None), "{body}");
    }
    let mut not_utf_8 = good.into_bytes();
    not_utf_8.insert(2, 0xff);
    assert_eq!(refused(not_utf_8).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn json_of_another_shape_names_where_it_is() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let good = good().to_string();
    let fields = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        good.replacen(from, to, 1)
    };
    let cases = [
        ("[]".to_owned(), "body"),
        (deep(10_000), "body"),
        // What serde would take for a struct: its fields in their order.
        (format!("[{},{{}},null,[]]", json!({"atoms": 3000})), "body"),
        (fields("\"limits\":{", &format!("\"limits\":{},\"x\":{{", deep(1))), "limits"),
        (fields("\"atoms\":10000", &format!("\"atoms\":{}", deep(5000))), "system.atoms"),
        (fields("\"atoms\":10000", "\"atoms\":10000,\"atoms\":10000"), "system.atoms"),
        (fields("\"nodes\":", "\"nodes\":[],\"nodes\":"), "nodes"),
        (fields("\"atoms\":10000", "\"boxNm\":[3,3,3,3],\"atoms\":10000"), "system.boxNm"),
        (
            fields("\"allocatable\"", "\"labels\":{\"a\":\"b\",\"a\":\"c\"},\"allocatable\""),
            "nodes[0].labels.a",
        ),
    ];
    for (body, field) in cases {
        let (status, reply) = refused(body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{}", reply.error);
        assert_eq!(
            (reply.code, reply.field.as_deref()),
            (ErrorCode::Invalid, Some(field)),
            "{}",
            reply.error
        );
    }
}

#[tokio::test]
async fn fields_that_contradict_one_another_are_told_from_wrong_ones() {
    for (pointer, value, field) in [
        ("/system/boxNm", json!([100_000.0, 100_000.0, 100_000.0]), "system.boxNm"),
        ("/system/rlistNm", json!(0.5), "system.rlistNm"),
    ] {
        let mut body = good();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
        body.pointer_mut(parent).expect("the parent should exist")[key] = value;
        let (status, reply) = refused(body.to_string()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{}", reply.error);
        assert_eq!(
            (reply.code, reply.field.as_deref()),
            (ErrorCode::Inconsistent, Some(field)),
            "{}",
            reply.error
        );
    }
    let refused_by_mdrun = json!({
        "system": {"atoms": 100_000},
        "layout": {"ntmpi": 14, "ntomp": 1},
        "node": {"allocatable": {"cpuMillicores": 16_000, "memoryBytes": 64_u64 << 30}},
    });
    let (status, text) = post("/v1/predict", refused_by_mdrun.to_string()).await;
    let reply: ErrorReply = serde_json::from_str(&text).expect("the error should have its type");
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!((reply.code, reply.field.as_deref()), (ErrorCode::Inconsistent, Some("layout")), "{text}");
}

#[tokio::test]
async fn what_is_not_said_to_be_json_is_not_read() {
    for (content_type, status) in [
        (None, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("application/x-www-form-urlencoded"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("text/json"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("application/jsonp"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some(""), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Some("Application/JSON; charset=utf-8"), StatusCode::OK),
    ] {
        let mut request = posting("/v1/ladder", good().to_string());
        request.headers_mut().remove(header::CONTENT_TYPE);
        if let Some(value) = content_type {
            request.headers_mut().insert(header::CONTENT_TYPE, value.parse().expect("it should be a value"));
        }
        let (got, text) = send(&service(), request).await;
        assert_eq!(got, status, "{content_type:?}: {text}");
        if got != StatusCode::OK {
            let reply: ErrorReply = serde_json::from_str(&text).expect("the error should have its type");
            assert_eq!(reply.code, ErrorCode::Invalid);
        }
    }
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
    let (status, text) = send(&service, posting("/v1/ladder", never)).await;
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
    for (method, path, allowed) in
        [("GET", "/v1/ladder", "POST"), ("POST", "/v1/model", "GET,HEAD"), ("TRACE", "/healthz", "GET,HEAD")]
    {
        let request = Request::builder().method(method).uri(path).body(Body::empty());
        let request = request.expect("the request should be right");
        let response = router(&service).oneshot(request).await.expect("the router should always answer");
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()[header::ALLOW], allowed);
        let body = to_bytes(response.into_body(), 1 << 16).await.expect("the body should be read");
        serde_json::from_slice::<ErrorReply>(&body).expect("the error should have its type");
    }
}

#[tokio::test]
async fn the_classes_are_told() {
    let service = service();
    let (status, text) = get(&service, "/v1/model").await;
    assert_eq!(status, StatusCode::OK);
    let model: ModelReply = serde_json::from_str(&text).expect("the reply should have its type");
    assert_eq!((model.model_version.as_str(), model.runs), (service.model().version(), 0));
    assert!(model.classes.iter().any(|class| class.class == "zen2") && model.classes.len() > 50);
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
    send(&service, posting("/v1/ladder", good().to_string())).await;
    get(&service, "/some/scan").await;
    let (status, text) = get(&service, "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    for line in [
        "scavenger_tuner_requests_total{path=\"/v1/ladder\",status=\"200\"} 1",
        "scavenger_tuner_requests_total{path=\"other\",status=\"404\"} 1",
        "scavenger_tuner_ladder_configurations_count 1",
        "scavenger_tuner_model_runs{version=",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}
