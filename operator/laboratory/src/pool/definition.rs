//! What the definition of a kind says about a field on its own: types, bounds, lengths, forms, and which fields there are. Its CEL
//! rules, which compare fields, are not read; those that matter to a pool are asked again when it becomes settings.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex_lite::Regex;
use serde_json::Value;

/// The first thing that the definition refuses of a value, with the field.
pub(super) fn refused(field: &str, value: &Value, schema: &JSONSchemaProps) -> Option<String> {
    if value.is_null() {
        // The API server takes null for a field that is not given.
        return None;
    }
    let wrong = |what: String| Some(format!("{field} {what}"));
    let is_either = schema.x_kubernetes_int_or_string == Some(true);
    if let Some(kind) = schema.type_.as_deref().filter(|kind| !is_either && !is_of(value, kind)) {
        return wrong(format!("is {value}, and must be of type {kind}"));
    }
    if let Some(allowed) = &schema.enum_
        && !allowed.iter().any(|one| one.0 == *value)
    {
        let allowed: Vec<String> = allowed.iter().map(|one| one.0.to_string()).collect();
        return wrong(format!("is {value}, and must be one of {}", allowed.join(", ")));
    }
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            let too_small = schema.minimum.filter(|least| number < *least);
            let too_large = schema.maximum.filter(|most| number > *most);
            too_small.and_then(|least| wrong(format!("is {number}, and must be at least {least}"))).or_else(
                || too_large.and_then(|most| wrong(format!("is {number}, and must be at most {most}"))),
            )
        }
        Value::String(text) => {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            let is_of_form = |pattern: &String| Regex::new(pattern).map_or(true, |form| form.is_match(text));
            if schema.max_length.is_some_and(|most| length > most) {
                return wrong(format!("is too long: it has {length} characters"));
            }
            match &schema.pattern {
                Some(pattern) if !is_of_form(pattern) => {
                    wrong(format!("is {text:?}, and must match {pattern}"))
                }
                _ => None,
            }
        }
        Value::Array(items) => of_array(field, items, schema),
        Value::Object(fields) => of_object(field, fields, schema),
        Value::Null | Value::Bool(_) => None,
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn of_array(field: &str, items: &[Value], schema: &JSONSchemaProps) -> Option<String> {
    let number = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(most) = schema.max_items.filter(|most| number > *most) {
        return Some(format!("{field} has {number} items, and may have {most}"));
    }
    let Some(JSONSchemaPropsOrArray::Schema(of_item)) = &schema.items else { return None };
    items.iter().enumerate().find_map(|(place, item)| refused(&format!("{field}[{place}]"), item, of_item))
}

fn of_object(
    field: &str,
    fields: &serde_json::Map<String, Value>,
    schema: &JSONSchemaProps,
) -> Option<String> {
    let below = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    let missing = schema.required.iter().flatten().find(|name| !fields.contains_key(*name));
    if let Some(name) = missing {
        return Some(format!("{} is missing", below(name)));
    }
    fields.iter().find_map(|(name, value)| {
        if let Some(known) = schema.properties.as_ref().and_then(|known| known.get(name)) {
            return refused(&below(name), value, known);
        }
        match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(of_value)) => refused(&below(name), value, of_value),
            Some(JSONSchemaPropsOrBool::Bool(true)) => None,
            // Metadata, about which the definition says nothing.
            _ if schema.properties.is_none() => None,
            _ => Some(format!("{} is unknown", below(name))),
        }
    })
}
