//! What a row of several simulations says of them.

use serde_json::Value;

use super::row::QueueRow;
use super::text::speed;

/// `4 side by side in sim0, sim1, sim2, sim3; 31.2 ns/day together`; none for a row of one.
pub(super) fn together(row: &QueueRow, simulation: &Value) -> Option<String> {
    let folders: Vec<&str> = simulation["multidir"].as_array()?.iter().filter_map(Value::as_str).collect();
    if folders.is_empty() {
        return None;
    }
    let together =
        row.ns_per_day.map(|each| format!(", about {} ns/day together", speed(each * folders.len() as f64)));
    Some(format!(
        "{} side by side in the folders {}{}; the progress is that of the least advanced",
        folders.len(),
        folders.join(", "),
        together.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::row::tests::running;

    #[test]
    fn several_simulations_are_named_with_what_they_do_together() {
        let row = running(7);
        let simulation = json!({ "multidir": ["sim0", "sim1"] });
        let text = together(&row, &simulation).expect("should be several");
        assert!(
            text.starts_with("2 side by side in the folders sim0, sim1, about 24.7 ns/day together"),
            "{text}"
        );
        let waiting = QueueRow { ns_per_day: None, ..row };
        assert!(together(&waiting, &simulation).is_some_and(|text| !text.contains("ns/day")));
        assert_eq!(together(&waiting, &json!({ "multidir": [] })), None);
        assert_eq!(together(&waiting, &json!({})), None);
    }
}
