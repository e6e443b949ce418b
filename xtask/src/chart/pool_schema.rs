//! The pool's settings in values.schema.json, from the definition of ScavengerPool. So `helm lint` and `helm install` refuse a
//! setting that is misspelt, before the API server drops it.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{documents, folder};
use crate::generate::File;

/// Where values.schema.json refers to them.
pub(super) const REFERENCE: &str = "#/$defs/poolSpec";

/// How they begin there. They are its last definition, so all that follows is generated.
const BEGIN: &str = "    \"poolSpec\": ";

/// What a definition says of a value and JSON Schema says in the same words. Rules in CEL and defaults stay with the API
/// server, and descriptions with `kubectl explain`.
const SAME: [&str; 12] = [
    "enum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "required",
    "type",
];

/// values.schema.json with the settings of the pool as the definitions have them.
pub(crate) fn render(crds: &str) -> Result<File> {
    let path = folder().join("values.schema.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let content = splice(&text, &of_pool(crds)?)?;
    Ok(File::new("deploy/chart/values.schema.json", content))
}

fn splice(text: &str, spec: &Value) -> Result<String> {
    let (before, _) =
        text.split_once(BEGIN).context("values.schema.json has no definition poolSpec at its end")?;
    let spec = serde_json::to_string_pretty(spec).context("the schema cannot be written")?;
    Ok(format!("{before}{BEGIN}{}\n  }}\n}}\n", spec.replace('\n', "\n    ")))
}

fn of_pool(crds: &str) -> Result<Value> {
    let definitions = documents(crds)?;
    let pool = definitions.iter().find(|one| one["spec"]["names"]["kind"] == "ScavengerPool");
    let pool = pool.context("there is no definition of ScavengerPool")?;
    let spec = pool.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
    Ok(strict(spec.context("the definition of ScavengerPool has no spec")?))
}

/// The schema of a value in which no field has another name.
fn strict(schema: &Value) -> Value {
    let mut strict = Map::new();
    for key in SAME {
        if let Some(value) = schema.get(key) {
            strict.insert(key.to_owned(), value.clone());
        }
    }
    if schema["x-kubernetes-int-or-string"] == true {
        strict.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if schema["nullable"] == true {
        nullable(&mut strict);
    }
    if let Some(properties) = schema["properties"].as_object() {
        let properties: Map<String, Value> =
            properties.iter().map(|(name, part)| (name.clone(), self::strict(part))).collect();
        strict.insert("properties".to_owned(), properties.into());
        strict.insert("additionalProperties".to_owned(), json!(false));
    } else if schema["additionalProperties"].is_object() {
        strict.insert("additionalProperties".to_owned(), self::strict(&schema["additionalProperties"]));
    }
    if schema["items"].is_object() {
        strict.insert("items".to_owned(), self::strict(&schema["items"]));
    }
    strict.into()
}

/// Null is allowed, too.
fn nullable(schema: &mut Map<String, Value>) {
    if let Some(Value::String(kind)) = schema.get("type") {
        let kind = kind.clone();
        schema.insert("type".to_owned(), json!([kind, "null"]));
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut)
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_becomes_a_schema_that_knows_no_other_names() {
        let definition = json!({
            "type": "object",
            "description": "Settings.",
            "x-kubernetes-validations": [{ "rule": "true" }],
            "properties": {
                "mode": { "type": "string", "enum": ["On"], "nullable": true, "default": "On" },
                "amounts": { "type": "object", "additionalProperties": { "x-kubernetes-int-or-string": true } },
                "windows": { "type": "array", "maxItems": 2, "items": { "type": "object", "properties": {} } },
            },
        });
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "mode": { "type": ["string", "null"], "enum": ["On", null] },
                "amounts": { "type": "object", "additionalProperties": { "type": ["integer", "string"] } },
                "windows": {
                    "type": "array",
                    "maxItems": 2,
                    "items": { "type": "object", "properties": {}, "additionalProperties": false },
                },
            },
        });
        assert_eq!(strict(&definition), expected);
    }

    #[test]
    fn what_is_written_by_hand_stays() {
        let by_hand = "{\n  \"$defs\": {\n    \"poolSpec\": ";
        let spliced = splice(&format!("{by_hand}{{}}\n  }}\n}}\n"), &json!({ "type": "object" })).unwrap();
        assert_eq!(spliced, format!("{by_hand}{{\n      \"type\": \"object\"\n    }}\n  }}\n}}\n"));
        assert!(splice("{}", &json!({})).is_err());
    }
}
