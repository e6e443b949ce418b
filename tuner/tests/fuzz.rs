//! The contract, tried out: requests made from the OpenAPI document, right and wrong ones, through the router. Every
//! reply must be one that the document promises.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use proptest::prelude::*;
use scavenger_schema::tuning::{ErrorReply, LadderReply};
use scavenger_tuner::http::{Service, router};
use scavenger_tuner_model::Model;
use serde_json::{Map, Number, Value, json};
use tower::ServiceExt as _;

/// A number of choices, drawn before: the same choices make the same request.
struct Choices<'a> {
    left: &'a [u32],
}

impl Choices<'_> {
    /// Below `bound`; 0 when the choices are used up.
    fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first as usize % bound.max(1)
    }

    /// True one time in `times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }
}

/// Numbers at which programs fail.
fn number(choices: &mut Choices<'_>, integer: bool) -> Value {
    let integers = [
        0_i64,
        1,
        -1,
        2,
        3,
        7,
        4,
        100,
        500,
        1000,
        2000,
        4000,
        64_000,
        100_000,
        1 << 20,
        1 << 33,
        1 << 50,
        1 << 53,
        i64::MAX,
        i64::MIN,
    ];
    let floats = [1.0, 0.5, 0.002, 1e-9, -0.5, 3.0, 10.0, 1e6, 1e300, 5e-324, -0.0];
    if integer || choices.below(2) == 0 {
        return json!(integers[choices.below(integers.len())]);
    }
    Number::from_f64(floats[choices.below(floats.len())]).map_or(Value::Null, Value::Number)
}

fn wrong(choices: &mut Choices<'_>) -> Value {
    match choices.below(7) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!("\u{0}NaN"),
        4 => json!(true),
        5 => json!([[1]]),
        _ => number(choices, false),
    }
}

/// What somebody who knows the field would write: with made-up numbers only, hardly any request is right.
fn sensible(field: &str) -> Option<Value> {
    Some(match field {
        "atoms" => json!(30_000),
        "nsteps" => json!(50_000),
        "dtPs" => json!(0.002),
        "cutoffNm" | "core" | "gpu" => json!(1.0),
        "rlistNm" => json!(1.1),
        "boxNm" => json!([6.7, 6.7, 6.7]),
        "grid" => json!([56, 56, 56]),
        "order" => json!(4),
        "nstlist" => json!(20),
        "cpuMillicores" | "maxCpuMillicores" => json!(4000),
        "memoryBytes" | "maxMemoryBytes" => json!(8_589_934_592_u64),
        "gpus" | "maxGpus" | "npme" => json!(0),
        "count" | "ntmpi" | "maxBenchmarks" => json!(1),
        "ntomp" => json!(2),
        "maxConfigurations" => json!(6),
        "minEfficiency" => json!(0.7),
        "memoryGib" => json!(0.01),
        _ => return None,
    })
}

/// A value for a schema: mostly one that it allows.
fn value(document: &Value, schema: &Value, choices: &mut Choices<'_>, depth: usize) -> Value {
    if depth > 12 || choices.one_in(40) {
        return wrong(choices);
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).expect("references lead somewhere");
        return value(document, target, choices, depth + 1);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema[key].as_array() {
            return value(document, &options[choices.below(options.len())], choices, depth + 1);
        }
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    if let Some(options) = schema["enum"].as_array() {
        return options[choices.below(options.len())].clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[choices.below(kinds.len())].as_str(),
        other => other.as_str(),
    };
    match kind {
        Some("object") => object(document, schema, choices, depth),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(1) as usize;
            let length = if choices.one_in(10) { choices.below(5) } else { least };
            (0..length).map(|_| value(document, &schema["items"], choices, depth + 1)).collect()
        }
        Some("integer") => number(choices, true),
        Some("number") => number(choices, false),
        Some("boolean") => json!(choices.below(2) == 1),
        Some("string") => {
            let texts =
                ["true", "amd64", "NVIDIA-A100", "2024.4", "2022.5-Debian", "", "c6a.x", "\u{202e}ß", "-1"];
            json!(texts[choices.below(texts.len())])
        }
        _ => Value::Null,
    }
}

fn object(document: &Value, schema: &Value, choices: &mut Choices<'_>, depth: usize) -> Value {
    let mut made = Map::new();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        let left_out =
            if required.contains(&name.as_str()) { choices.one_in(50) } else { choices.below(2) == 0 };
        if !left_out {
            let sensible = sensible(name).filter(|_| choices.below(8) > 0);
            let made_up = || value(document, of, choices, depth + 1);
            made.insert(name.clone(), sensible.unwrap_or_else(made_up));
        }
    }
    if schema["additionalProperties"].is_object() {
        let labels = ["kubernetes.io/arch", "nvidia.com/gpu.product", "node.kubernetes.io/instance-type"];
        let name = labels[choices.below(labels.len())];
        made.insert(name.to_owned(), value(document, &schema["additionalProperties"], choices, depth + 1));
    }
    if choices.one_in(60) {
        made.insert("surprise".to_owned(), json!(1));
    }
    Value::Object(made)
}

async fn send(service: &Service, path: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .expect("the request should be right");
    let response = router(service).oneshot(request).await.expect("the router should always answer");
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 24).await.expect("the body should be read");
    (status, body.to_vec())
}

fn check(document: &Value, path: &str, status: StatusCode, reply: &[u8], asked: &str) {
    let promised = &document["paths"][path]["post"]["responses"];
    assert!(
        promised[status.as_str()].is_object(),
        "{path} gave {status}, which is not promised, for {asked}"
    );
    if status.is_success() {
        let reply: Value = serde_json::from_slice(reply).expect("the reply should be JSON");
        if path == "/v1/ladder" {
            let reply: LadderReply = serde_json::from_value(reply).expect("the reply should have its type");
            for rung in reply.rungs {
                let speed = rung.ns_per_day;
                assert!(0.0 < speed.p10 && speed.p10 <= speed.p90 && speed.p90.is_finite(), "{asked}");
            }
        }
    } else {
        let error: ErrorReply = serde_json::from_slice(reply).expect("the error should have its type");
        assert_eq!(error.field.is_some(), status == StatusCode::UNPROCESSABLE_ENTITY, "{}", error.error);
    }
}

proptest! {

    #[test]
    fn every_reply_is_one_that_the_document_promises(
        drawn in prop::collection::vec(any::<u32>(), 0..200),
        cut in prop::option::weighted(0.1, 0_usize..2000),
    ) {
        let document: Value = serde_json::from_str(&scavenger_schema::openapi::openapi())
            .expect("the document should be JSON");
        let service = Service::new(Model::prior(), Duration::from_secs(60), 1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()
            .expect("the runtime should start");
        for (path, of) in document["paths"].as_object().expect("there are paths") {
            let schema = &of["post"]["requestBody"]["content"]["application/json"]["schema"];
            if !schema.is_object() {
                continue;
            }
            let asked = value(&document, schema, &mut Choices { left: &drawn }, 0).to_string();
            let mut body = asked.clone().into_bytes();
            if let Some(cut) = cut {
                body.truncate(cut);
            }
            let (status, reply) = runtime.block_on(send(&service, path, body));
            check(&document, path, status, &reply, &asked);
        }
    }

    #[test]
    fn no_bytes_make_it_fail(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let document: Value = serde_json::from_str(&scavenger_schema::openapi::openapi())
            .expect("the document should be JSON");
        let service = Service::new(Model::prior(), Duration::from_secs(60), 1 << 20);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()
            .expect("the runtime should start");
        let (status, reply) = runtime.block_on(send(&service, "/v1/ladder", body));
        check(&document, "/v1/ladder", status, &reply, "bytes");
    }
}

#[tokio::test]
async fn right_requests_are_among_those_that_are_made() {
    let document: Value =
        serde_json::from_str(&scavenger_schema::openapi::openapi()).expect("the document should be JSON");
    let service = Service::new(Model::prior(), Duration::from_secs(60), 1 << 20);
    for path in ["/v1/ladder", "/v1/predict", "/v1/calibrate"] {
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let mut state = 1_u32;
        let mut right = 0;
        for _ in 0..400 {
            let drawn: Vec<u32> = (0..300)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state >> 8
                })
                .collect();
            let asked = value(&document, schema, &mut Choices { left: &drawn }, 0).to_string();
            let (status, _) = send(&service, path, asked.into_bytes()).await;
            right += u32::from(status.is_success());
        }
        assert!(right > 5, "{path}: {right} of 400");
    }
}
