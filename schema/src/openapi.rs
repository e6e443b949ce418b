//! The OpenAPI document of the tuner, made from the types of the messages.

use crate::tuning::{
    CALIBRATE_PATH, CalibrationReply, CalibrationRequest, ErrorReply, HARDWARE_PATH, HardwareReply,
    LADDER_PATH, LadderReply, LadderRequest, MODEL_PATH, ModelReply, PREDICT_PATH, PredictReply,
    PredictRequest,
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
            &mut generator, "ladder", "Recommend configurations, largest first") },
        PREDICT_PATH: { "post": ask::<PredictRequest, PredictReply>(
            &mut generator, "predict", "Predict the speed of one layout") },
        CALIBRATE_PATH: { "post": ask::<CalibrationRequest, CalibrationReply>(
            &mut generator, "calibrate", "Propose benchmarks for a kind of node") },
        HARDWARE_PATH: { "get": tell::<HardwareReply>(
            &mut generator, "hardware", "List the hardware classes") },
        MODEL_PATH: { "get": tell::<ModelReply>(&mut generator, "model", "Describe the model in use") },
        "/healthz": { "get": text("healthz", "Tell whether the process is alive", &["200"]) },
        "/readyz": { "get": text("readyz", "Tell whether requests are welcome", &["200", "503"]) },
        "/metrics": { "get": metrics() },
    });
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ScavengerJobs tuner",
            "description": "Predicts how fast GROMACS runs on which resources and recommends configurations.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": Value::Object(generator.take_definitions(true)) },
    });
    // Serialising plain JSON values cannot fail: all keys are strings.
    let mut text = format!("{document:#}");
    text.push('\n');
    text
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({ "application/json": { "schema": generator.subschema_for::<T>() } })
}

fn errors(generator: &mut SchemaGenerator, of: &[(&str, &str)]) -> Map<String, Value> {
    of.iter()
        .map(|(status, description)| {
            let reply = json!({ "description": description, "content": body::<ErrorReply>(generator) });
            ((*status).to_owned(), reply)
        })
        .collect()
}

fn ask<Q: JsonSchema, A: JsonSchema>(generator: &mut SchemaGenerator, id: &str, summary: &str) -> Value {
    let mut responses = errors(
        generator,
        &[
            ("400", "The body is no JSON."),
            ("408", "The request took too long; ask again."),
            ("413", "The body is too large."),
            ("422", "A field is wrong, or nothing fits; `code` tells which."),
        ],
    );
    let answer = json!({ "description": "The answer.", "content": body::<A>(generator) });
    responses.insert("200".to_owned(), answer);
    json!({
        "operationId": id,
        "summary": summary,
        "requestBody": { "required": true, "content": body::<Q>(generator) },
        "responses": responses,
    })
}

fn tell<A: JsonSchema>(generator: &mut SchemaGenerator, id: &str, summary: &str) -> Value {
    let answer = json!({ "description": "The answer.", "content": body::<A>(generator) });
    json!({ "operationId": id, "summary": summary, "responses": { "200": answer } })
}

fn text(id: &str, summary: &str, statuses: &[&str]) -> Value {
    let content = json!({ "text/plain": { "schema": { "type": "string" } } });
    let responses: Map<String, Value> = statuses
        .iter()
        .map(|status| ((*status).to_owned(), json!({ "description": "One line.", "content": content })))
        .collect();
    json!({ "operationId": id, "summary": summary, "responses": responses })
}

fn metrics() -> Value {
    let content = json!({ "application/openmetrics-text": { "schema": { "type": "string" } } });
    json!({
        "operationId": "metrics",
        "summary": "Show metrics",
        "responses": { "200": { "description": "OpenMetrics.", "content": content } },
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
