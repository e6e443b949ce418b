//! Schemas of values that both custom resources use, with the bounds that keep CEL rules affordable: the API server
//! estimates a rule's cost from the largest value the schema allows.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use scavenger_vocabulary::Reason;

use crate::{cel, form};

/// A Kubernetes quantity as it was written: `500m`, `2`, `1.5Gi`. A plain number is taken as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(with = "String")]
pub struct Quantity(pub String);

impl Quantity {
    /// In thousandths of its unit; for cpu: millicores.
    ///
    /// # Errors
    /// If it is no quantity, negative or too large.
    pub fn milli(&self) -> Result<i64, crate::quantity::QuantityError> {
        crate::quantity::parse_milli(&self.0)
    }

    /// In whole units; for memory: bytes.
    ///
    /// # Errors
    /// If it is no quantity, negative or too large.
    pub fn units(&self) -> Result<i64, crate::quantity::QuantityError> {
        crate::quantity::parse_units(&self.0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Integer(i64),
            Float(f64),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Integer(number) => number.to_string(),
            Written::Float(number) => number.to_string(),
        }))
    }
}

/// A Go duration such as `90s`, `10m` or `1h30m`.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 32, "x-kubernetes-validations": [cel::duration_rule()] })
}

pub(crate) fn optional_duration(generator: &mut SchemaGenerator) -> Schema {
    nullable(duration(generator))
}

pub(crate) fn absolute_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 2, "maxLength": 256, "pattern": "^/[^:]+$" })
}

/// Kubernetes itself refuses `..` in a subPath only when the pod is made.
pub(crate) fn optional_relative_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "minLength": 1, "maxLength": 256,
        "pattern": r"^([^/.]|\.[^/.]|\.\.[^/])[^/]*(/([^/.]|\.[^/.]|\.\.[^/])[^/]*)*$"
    })
}

/// A path in the container, or a glob of such paths, without `.` and `..` among its parts.
pub(crate) fn optional_watched_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "nullable": true, "minLength": 2, "maxLength": 512,
        "pattern": r"^(/([^/.\n]|\.[^/.\n]|\.\.[^/\n])[^/\n]*)+$"
    })
}

/// Labels or annotations of a pod.
pub(crate) fn pod_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 32, "additionalProperties": label_value(),
        "x-kubernetes-validations": cel::pod_label_rules()
    })
}

pub(crate) fn pod_annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 32, "additionalProperties": { "type": "string", "maxLength": 4096 },
        "x-kubernetes-validations": cel::pod_annotation_rules()
    })
}

pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 32, "additionalProperties": label_value(),
        "x-kubernetes-validations": [cel::keys(&form::KEY)]
    })
}

/// Labels of which there is at least one: nothing is meant by mistake.
pub(crate) fn some_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "minProperties": 1, "maxProperties": 8, "additionalProperties": label_value(),
        "x-kubernetes-validations": [cel::keys(&form::KEY)]
    })
}

fn label_value() -> Value {
    json!({ "type": "string", "maxLength": form::LABEL_VALUE.longest, "pattern": form::LABEL_VALUE.pattern })
}

pub(crate) fn thresholds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 16,
        "additionalProperties": { "type": "number", "minimum": 0.0, "maximum": 1.0 },
        "x-kubernetes-validations": [cel::keys(&form::KEY)]
    })
}

/// Hours and minutes.
pub(crate) fn time_of_day(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$" })
}

/// Reasons of interruptions that budgets can delay.
pub(crate) fn planned_reasons(_: &mut SchemaGenerator) -> Schema {
    let planned = Reason::ALL.into_iter().filter(Reason::is_planned);
    let names: Vec<String> = planned.map(|reason| reason.to_string()).collect();
    json_schema!({
        "type": "array", "maxItems": names.len(), "items": { "type": "string", "enum": names }
    })
}

/// A number, or a share in percent.
pub(crate) fn number_or_share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "minimum": 0, "maximum": 999_999, "maxLength": 6, "pattern": "^([0-9]{1,6}|([0-9]|[1-9][0-9]|100)%)$"
    })
}

/// A share of the whole, or null.
pub(crate) fn optional_share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "number", "minimum": 0.0, "maximum": 1.0, "nullable": true })
}

pub(crate) fn weights(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 16,
        "additionalProperties": { "type": "number", "minimum": 0.0, "maximum": 1000.0 },
        "x-kubernetes-validations": [cel::keys(&form::KEY)]
    })
}

/// Amounts that a container asks for.
pub(crate) fn requests(_: &mut SchemaGenerator) -> Schema {
    amounts(&form::RESOURCE)
}

/// Amounts of anything that can be counted.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    amounts(&form::KEY)
}

/// The number of names is what the rules about amounts can cost (`cel::amount`).
fn amounts(name: &form::Form) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 15, "additionalProperties": quantity(),
        "x-kubernetes-validations": [cel::keys(name)]
    })
}

/// Amounts in a status, which are written as a whole. Nodes may have as many resources as they like: no rule reads them.
pub(crate) fn atomic_resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": quantity(), "x-kubernetes-map-type": "atomic" })
}

fn quantity() -> Value {
    json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "maxLength": 32
    })
}

/// One amount in a status.
pub(crate) fn amount(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(quantity()).expect("an object should be a schema")
}

/// Conditions as every Kubernetes API has them: one of each type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array", "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]
    })
}

fn nullable(mut schema: Schema) -> Schema {
    schema.insert("nullable".to_owned(), true.into());
    schema
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::Value;

    use crate::{scavenger_job::ScavengerJob, scavenger_pool::ScavengerPool};

    /// Lists and maps below `schema` that are not written as a whole.
    fn granular(path: &str, schema: &Value, found: &mut Vec<String>) {
        let atomic = |key: &str| schema[key] == "atomic";
        match schema["type"].as_str() {
            Some("array") => {
                if !atomic("x-kubernetes-list-type") {
                    found.push(path.to_owned());
                    return;
                }
                granular(&format!("{path}[]"), &schema["items"], found);
            }
            Some("object") => {
                if !atomic("x-kubernetes-map-type") {
                    found.push(path.to_owned());
                }
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    granular(&format!("{path}.{name}"), property, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn a_status_is_written_as_a_whole() {
        for crd in [ScavengerJob::crd(), ScavengerPool::crd()] {
            let crd = serde_json::to_value(crd).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let mut found = Vec::new();
            granular("status", &schema["properties"]["status"], &mut found);
            // Conditions have one entry for each type, which only a list of type map ensures.
            assert_eq!(found, ["status.conditions"]);
        }
    }
}
