//! The OpenAPI document says what the service enforces: at each bound of each field of a request the value is accepted,
//! beyond it refused with the field's name; so are other types, missing fields and unknown ones.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use scavenger_schema::tuning::{ErrorCode, ErrorReply};
use scavenger_tuner::http::{Service, router};
use scavenger_tuner_model::Model;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

/// An operation with its example, which is changed in one place at a time.
struct Operation<'a> {
    document: &'a Value,
    router: Router,
    path: &'a str,
    example: &'a Value,
    tried: usize,
}

/// A step on the way to a value in a request.
#[derive(Clone)]
enum Step {
    Field(String),
    Element(usize),
}

fn field_name(place: &[Step]) -> String {
    let mut name = String::new();
    for step in place {
        match step {
            Step::Field(field) if name.is_empty() => name.push_str(field),
            Step::Field(field) => name.push_str(&format!(".{field}")),
            Step::Element(index) => name.push_str(&format!("[{index}]")),
        }
    }
    if name.is_empty() { "body".to_owned() } else { name }
}

/// The value at a place; objects on the way that the example does without are made.
fn at<'v>(body: &'v mut Value, place: &[Step]) -> &'v mut Value {
    place.iter().fold(body, |value, step| match step {
        Step::Field(field) => {
            if value.is_null() {
                *value = json!({});
            }
            value
                .as_object_mut()
                .expect("it should be an object")
                .entry(field.as_str())
                .or_insert(Value::Null)
        }
        Step::Element(index) => &mut value[*index],
    })
}

impl Operation<'_> {
    async fn send(&mut self, body: String) -> (StatusCode, Vec<u8>) {
        self.tried += 1;
        let request = Request::post(self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .expect("the request should be right");
        let response = self.router.clone().oneshot(request).await.expect("the router should always answer");
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 24).await.expect("the body should be read");
        (status, body.to_vec())
    }

    fn with(&self, place: &[Step], value: Value) -> String {
        let mut body = self.example.clone();
        *at(&mut body, place) = value;
        body.to_string()
    }

    /// The value may not go together with others of the example, but by itself it is right.
    async fn accepts(&mut self, place: &[Step], value: Value) {
        let (status, reply) = self.send(self.with(place, value.clone())).await;
        if status != StatusCode::OK {
            let reply: ErrorReply = serde_json::from_slice(&reply).expect("the error should have its type");
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{}", reply.error);
            assert_ne!(reply.code, ErrorCode::Invalid, "{} {value}: {}", field_name(place), reply.error);
        }
    }

    async fn refuses(&mut self, place: &[Step], value: Value) {
        let asked = format!("{} = {value}", field_name(place));
        let body = self.with(place, value);
        self.refuses_body(body, &field_name(place), &asked).await;
    }

    async fn refuses_body(&mut self, body: String, field: &str, asked: &str) {
        let (status, reply) = self.send(body).await;
        let reply: ErrorReply =
            serde_json::from_slice(&reply).unwrap_or_else(|error| panic!("{asked} was accepted: {error}"));
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{asked}: {}", reply.error);
        assert_eq!(reply.code, ErrorCode::Invalid, "{asked}: {}", reply.error);
        assert_eq!(reply.field.as_deref(), Some(field), "{asked}: {}", reply.error);
    }

    /// Tries everything that the schema says of the value at `place`.
    async fn try_all(&mut self, place: Vec<Step>, schema: &Value) {
        let schema = self.resolve(schema);
        let is_word = |value: &Value| value.is_string() && !words(&schema).is_empty();
        for wrong in [json!(null), json!(true), json!("\u{0}"), json!([]), json!({}), json!(0.25)] {
            if !allows_type(&schema, &wrong) || is_word(&wrong) {
                self.refuses(&place, wrong).await;
            } else if wrong.is_null() || wrong.is_boolean() {
                self.accepts(&place, wrong).await;
            }
        }
        self.try_numbers(&place, &schema).await;
        self.try_strings(&place, &schema).await;
        if allows_type(&schema, &json!([])) {
            self.try_array(&place, &schema).await;
        }
        if allows_type(&schema, &json!({})) {
            self.try_object(&place, &schema).await;
        }
    }

    /// The schema behind references; of one that may be null, the other choice.
    fn resolve(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        while let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#'));
            schema = target.expect("references lead somewhere").clone();
        }
        let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array()).cloned().unwrap_or_default();
        if choices.is_empty() {
            return schema;
        }
        // Choices differ in type, or are words and numbers one by one.
        let choices: Vec<Value> = choices.iter().map(|choice| self.resolve(choice)).collect();
        let merged = choices.iter().filter_map(Value::as_object).flat_map(|choice| choice.clone());
        let mut merged: Map<String, Value> = merged.collect();
        let types: Vec<Value> = choices.iter().map(|choice| choice["type"].clone()).collect();
        let constants: Vec<Value> =
            choices.iter().filter_map(|choice| choice.get("const").cloned()).collect();
        merged.insert("type".to_owned(), Value::Array(types));
        merged.insert("enum".to_owned(), Value::Array(constants));
        Value::Object(merged)
    }

    async fn try_numbers(&mut self, place: &[Step], schema: &Value) {
        let step = &schema["multipleOf"];
        for (name, sign) in [("minimum", -1), ("maximum", 1)] {
            let bound = &schema[name];
            if bound.is_null() {
                assert!(!allows_type(schema, &json!(1)), "{} has no {name}", field_name(place));
                continue;
            }
            self.accepts(place, bound.clone()).await;
            if let Some(float) =
                bound.as_f64().filter(|float| float.fract() == 0.0 && *float < 2_f64.powi(63))
            {
                // An integer is one however it is written.
                self.accepts(place, json!(float)).await;
            }
            let beyond = match (bound.as_i64(), bound.as_f64()) {
                (Some(i64::MAX), _) => json!(i64::MAX.unsigned_abs() + 1),
                (Some(integer), _) => json!(integer + sign),
                (None, Some(float)) => json!(float + sign as f64 * (float.abs() * 1e-3).max(1e-9)),
                (None, None) => panic!("{bound} is no number"),
            };
            self.refuses(place, beyond).await;
            if let Some(step) = step.as_i64() {
                let bound = bound.as_i64().expect("multiples are of integers");
                self.accepts(place, json!(bound - sign * step)).await;
                self.refuses(place, json!(bound - sign * (step / 2))).await;
            }
        }
        for word in words(schema) {
            self.accepts(place, word.clone()).await;
            let name = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
            self.refuses(place, json!({ name: null })).await;
        }
    }

    async fn try_strings(&mut self, place: &[Step], schema: &Value) {
        if let Some(most) = schema["maxLength"].as_u64() {
            // Characters count, not bytes.
            self.accepts(place, json!("ß".repeat(most as usize))).await;
            self.refuses(place, json!("x".repeat(most as usize + 1))).await;
        }
    }

    async fn try_array(&mut self, place: &[Step], schema: &Value) {
        let one = at(&mut self.example.clone(), place)[0].clone();
        let repeated = |count: u64| Value::Array((0..count).map(|_| one.clone()).collect());
        let (least, most) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
        let (least, most) = least.zip(most).expect("every array of a request should have bounds");
        self.accepts(place, repeated(least)).await;
        self.accepts(place, repeated(most)).await;
        self.refuses(place, repeated(least - 1)).await;
        self.refuses(place, repeated(most + 1)).await;
        let place = [place, &[Step::Element(0)]].concat();
        Box::pin(self.try_all(place, &schema["items"])).await;
    }

    async fn try_object(&mut self, place: &[Step], schema: &Value) {
        let inside = |name: &str| [place, &[Step::Field(name.to_owned())]].concat();
        if schema["additionalProperties"] == json!(false) {
            self.refuses(&inside("surprise"), json!(1)).await;
        } else {
            Box::pin(self.try_all(inside("label"), &schema["additionalProperties"])).await;
            let lengths = &schema["propertyNames"];
            let name = |length: &Value, more: i64| {
                "x".repeat(
                    usize::try_from(length.as_i64().expect("it should be a number") + more)
                        .expect("should fit"),
                )
            };
            let (least, most) = (&lengths["minLength"], &lengths["maxLength"]);
            self.accepts(&inside(&name(most, 0)), json!("")).await;
            for wrong in [name(least, -1), name(most, 1)] {
                let body = self.with(&inside(&wrong), json!(""));
                self.refuses_body(body, &field_name(place), "a name of the wrong length").await;
            }
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            let mut body = self.example.clone();
            at(&mut body, place).as_object_mut().map(|object| object.remove(name));
            if required.contains(&json!(name)) {
                self.refuses_body(body.to_string(), &field_name(&inside(name)), "a missing field").await;
            }
            let object = at(&mut self.example.clone(), place).to_string();
            let value = at(&mut self.example.clone(), &inside(name)).to_string();
            if value != "null" {
                let twice = object.replacen('{', &format!("{{{}:{value},", json!(name)), 1);
                let body = self.with(place, json!("HERE")).replace("\"HERE\"", &twice);
                self.refuses_body(body, &field_name(&inside(name)), "a field that comes twice").await;
            }
            Box::pin(self.try_all(inside(name), of)).await;
        }
    }
}

/// The values that the schema lists one by one.
fn words(schema: &Value) -> &[Value] {
    schema["enum"].as_array().map_or(&[], Vec::as_slice)
}

/// True if the schema allows values of the type that `value` has.
fn allows_type(schema: &Value, value: &Value) -> bool {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is = |kind: &Value| kind == name || (name == "integer" && kind == "number");
    match &schema["type"] {
        Value::Array(kinds) => {
            kinds.iter().any(|kind| is(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is)))
        }
        kind => is(kind),
    }
}

#[tokio::test]
async fn every_field_is_checked_as_the_document_says() {
    let document: Value =
        serde_json::from_str(&scavenger_schema::openapi::openapi()).expect("the document should be JSON");
    let service = Service::new(Model::prior(), Duration::from_secs(60), 1 << 22);
    let mut tried = 0;
    for (path, of) in document["paths"].as_object().expect("there are paths") {
        let content = &of["post"]["requestBody"]["content"]["application/json"];
        if content.is_null() {
            continue;
        }
        let mut operation = Operation {
            document: &document,
            router: router(&service),
            path,
            example: &content["example"],
            tried: 0,
        };
        let (status, _) = operation.send(content["example"].to_string()).await;
        assert_eq!(status, StatusCode::OK, "the example for {path}");
        operation.try_all(Vec::new(), &content["schema"]).await;
        tried += operation.tried;
    }
    assert!(tried > 900, "only {tried} requests were made");
}
