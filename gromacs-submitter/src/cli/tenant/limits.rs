//! Defaults and limits of a tenant, as people read them.

use serde_json::Value;

/// Columns that hold a limit or a default, and how to say it: the words before the value, and those behind it, in which
/// `(s)` stays away behind one.
const SETTINGS: [(&str, &str, &str); 14] = [
    ("service_account", "service account", ""),
    ("image", "image", ""),
    ("image_patterns", "only images", ""),
    ("run_as_user", "user", ""),
    ("run_as_group", "group", ""),
    ("max_cpu_millicores", "at most", " millicore(s)"),
    ("max_memory_bytes", "at most", " byte(s) of memory"),
    ("max_gpus", "at most", " GPU(s)"),
    ("min_cpu_millicores", "at least", " millicore(s)"),
    ("min_ns_per_day", "at least", " ns/day"),
    ("min_interruption_after_seconds", "checkpoints every", " s at most often"),
    ("max_interruption_after_seconds", "checkpoints every", " s at least"),
    ("max_rows_in_work", "at most", " row(s) in work"),
    ("max_put_bytes", "at most", " byte(s) in one put"),
];

/// What differs from no limits.
pub(super) fn settings(tenant: &Value) -> String {
    let set: Vec<String> = SETTINGS
        .iter()
        .filter(|(column, _, _)| {
            let value = &tenant[*column];
            !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty())
        })
        .map(|(column, name, unit)| {
            let value = &tenant[*column];
            let plural = if value.as_f64() == Some(1.0) { "" } else { "s" };
            format!("{name} {}{}", plain(value), unit.replace("(s)", plural))
        })
        .collect();
    set.join("; ")
}

/// A value as it stands in a table.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_set_is_told() {
        let tenant = json!({
            "image": null, "image_patterns": ["registry.example/lab/*", "x"], "run_as_user": 2001, "max_gpus": 0,
        });
        assert_eq!(settings(&tenant), "only images registry.example/lab/* x; user 2001; at most 0 GPUs");
        assert_eq!(settings(&json!({ "image_patterns": [] })), "");
        let one = json!({ "max_gpus": 1, "min_ns_per_day": 1.5, "max_rows_in_work": 1 });
        assert_eq!(settings(&one), "at most 1 GPU; at least 1.5 ns/day; at most 1 row in work");
        assert_eq!(settings(&json!({ "max_rows_in_work": 2 })), "at most 2 rows in work");
    }
}
