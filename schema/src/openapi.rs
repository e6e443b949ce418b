//! The OpenAPI document of the tuner, made from the types of the messages.

use crate::tuning::{
    CALIBRATE_PATH, CalibrationReply, CalibrationRequest, ErrorReply, LADDER_PATH, LadderReply,
    LadderRequest, MODEL_PATH, ModelReply, PREDICT_PATH, PredictReply, PredictRequest,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The document as JSON (OpenAPI 3.1), with a line break at its end.
#[must_use]
pub fn openapi() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let paths = json!({
        LADDER_PATH: { "post": ask::<LadderRequest, LadderReply>(
            &mut generator, "ladder", "Recommend configurations, largest first", json!({
                "system": system_example(),
                "gromacsVersion": "2024.4",
                "nodes": [node_example()],
                "explore": explore_example(),
            })) },
        PREDICT_PATH: { "post": ask::<PredictRequest, PredictReply>(
            &mut generator, "predict", "Predict the speed of one layout", json!({
                "system": system_example(),
                "layout": { "ntmpi": 1, "ntomp": 8 },
                "node": node_example(),
            })) },
        CALIBRATE_PATH: { "post": ask::<CalibrationRequest, CalibrationReply>(
            &mut generator, "calibrate", "Propose benchmarks for a kind of node", json!({
                "node": node_example(),
            })) },
        MODEL_PATH: { "get": tell::<ModelReply>(&mut generator, "model", "Describe the model in use") },
        "/healthz": { "get": text("healthz", "Tell whether the process is alive", TEXT, &["200"]) },
        "/readyz": { "get": text("readyz", "Tell whether requests are welcome", TEXT, &["200", "503"]) },
        "/metrics": { "get": text("metrics", "Show metrics", "application/openmetrics-text", &["200"]) },
    });
    let failures: Map<String, Value> =
        FAILURES.iter().map(|failure| (failure.name.to_owned(), failure.response(&mut generator))).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ScavengerJobs tuner",
            "description": "Predicts how fast GROMACS runs on which resources and recommends configurations. \
                A field that comes twice is refused.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": Value::Object(generator.take_definitions(true)), "responses": failures },
    });
    // Serialising plain JSON values cannot fail: all keys are strings.
    let mut text = format!("{document:#}");
    text.push('\n');
    text
}

/// A reply that is an error, the same at every path.
struct Failure {
    status: &'static str,
    name: &'static str,
    description: &'static str,
    /// True if only a request with a body can get it.
    with_body: bool,
}

const FAILURES: [Failure; 7] = [
    Failure { status: "400", name: "NoJson", description: "The body is not JSON.", with_body: true },
    Failure {
        status: "404",
        name: "NothingHere",
        description: "There is nothing at this path, which is not one of this document.",
        with_body: false,
    },
    Failure {
        status: "405",
        name: "OtherMethod",
        description: "This path has another method, which the header Allow names.",
        with_body: false,
    },
    Failure {
        status: "408",
        name: "TooSlow",
        description: "The request took too long; ask again.",
        with_body: false,
    },
    Failure { status: "413", name: "TooLarge", description: "The body is too large.", with_body: true },
    Failure {
        status: "415",
        name: "OtherContent",
        description: "The header Content-Type does not say application/json.",
        with_body: true,
    },
    Failure {
        status: "422",
        name: "Unusable",
        description: "A field is wrong, fields contradict one another, or nothing fits; `code` tells which.",
        with_body: true,
    },
];

impl Failure {
    fn response(&self, generator: &mut SchemaGenerator) -> Value {
        let mut response =
            json!({ "description": self.description, "content": body::<ErrorReply>(generator) });
        if self.status == "405" {
            response["headers"] = json!({ "Allow": { "required": true, "schema": { "type": "string" } } });
        }
        response
    }
}

/// The failures of an operation, by status.
fn failures(with_body: bool) -> Map<String, Value> {
    FAILURES
        .iter()
        .filter(|failure| with_body || !failure.with_body)
        .map(|failure| {
            let reference = json!({ "$ref": format!("#/components/responses/{}", failure.name) });
            (failure.status.to_owned(), reference)
        })
        .collect()
}

/// Media type of plain text.
const TEXT: &str = "text/plain";

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({ "application/json": { "schema": generator.subschema_for::<T>() } })
}

fn ask<Q: JsonSchema, A: JsonSchema>(
    generator: &mut SchemaGenerator,
    id: &str,
    summary: &str,
    example: Value,
) -> Value {
    let mut responses = failures(true);
    let answer = json!({ "description": "The answer.", "content": body::<A>(generator) });
    responses.insert("200".to_owned(), answer);
    let mut content = body::<Q>(generator);
    content["application/json"]["example"] = example;
    json!({
        "operationId": id,
        "summary": summary,
        "requestBody": { "required": true, "content": content },
        "responses": responses,
    })
}

fn tell<A: JsonSchema>(generator: &mut SchemaGenerator, id: &str, summary: &str) -> Value {
    let mut responses = failures(false);
    let answer = json!({ "description": "The answer.", "content": body::<A>(generator) });
    responses.insert("200".to_owned(), answer);
    json!({ "operationId": id, "summary": summary, "responses": responses })
}

fn text(id: &str, summary: &str, media_type: &str, statuses: &[&str]) -> Value {
    let content = json!({ media_type: { "schema": { "type": "string" } } });
    let mut responses = failures(false);
    for status in statuses {
        responses.insert((*status).to_owned(), json!({ "description": "Text.", "content": content }));
    }
    json!({ "operationId": id, "summary": summary, "responses": responses })
}

/// Water with a protein in it.
fn system_example() -> Value {
    json!({
        "atoms": 81_743,
        "boxNm": [9.4, 9.4, 9.4],
        "nsteps": 500_000,
        "dtPs": 0.002,
        "cutoffNm": 1.0,
        "rlistNm": 1.1,
        "nstlist": 20,
        "pme": { "grid": [80, 80, 80], "order": 4 },
    })
}

/// A restart after one attempt.
fn explore_example() -> Value {
    json!({
        "seed": 2,
        "measured": [
            { "cpuMillicores": 16_000, "layout": { "ntmpi": 16, "ntomp": 1 }, "nsPerDay": 29.4 },
        ],
    })
}

fn node_example() -> Value {
    json!({
        "count": 4,
        "allocatable": { "cpuMillicores": 16_000, "memoryBytes": 68_719_476_736_u64 },
        "largestFree": { "cpuMillicores": 6_000, "memoryBytes": 34_359_738_368_u64 },
        "labels": { "node.kubernetes.io/instance-type": "m6i.4xlarge" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document: Value = serde_json::from_str(&openapi()).expect("the document should be JSON");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("references should be local");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn requests_refuse_unknown_fields_and_say_which_are_needed() {
        let document: Value = serde_json::from_str(&openapi()).expect("the document should be JSON");
        let request = &document["components"]["schemas"]["LadderRequest"];
        assert_eq!(request["additionalProperties"], false);
        assert_eq!(request["required"], json!(["system", "nodes"]));
    }
}
