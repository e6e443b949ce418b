//! `list`: the queue as a table.

use serde_json::Value;

use super::{Outcome, open, print_line};
use crate::config::{Database, ListOptions, OutputFormat};

/// Heading and column of the view.
const COLUMNS: [(&str, &str); 9] = [
    ("ROW", "id"),
    ("STATE", "state"),
    ("FILE", "tpr_path"),
    ("CONFIGURATION", "configuration"),
    ("%", "percent"),
    ("NS/DAY", "ns_per_day"),
    ("INTERRUPTIONS", "interruptions"),
    ("SECONDS", "wall_seconds"),
    ("REASON", "reason"),
];

pub(super) async fn exec(database: &Database, options: &ListOptions) -> anyhow::Result<Outcome> {
    for state in &options.state {
        state.parse::<scavenger_schema::simulation::State>().map_err(|_| {
            anyhow::anyhow!("--state {state:?} is no state; queued, inspecting, tuning, submitted, running, interrupted, completed, failed and cancelled are")
        })?;
    }
    let store = open(database)?;
    let rows = store.list(&options.state).await?;
    store.close().await;
    match options.output {
        OutputFormat::Json => print_line(&serde_json::to_string_pretty(&rows)?),
        OutputFormat::Text => table(&rows).iter().for_each(|line| print_line(line)),
    }
    Ok(Outcome::Done)
}

/// Columns as wide as their widest cell; the last one is as long as it is.
fn table(rows: &[Value]) -> Vec<String> {
    let mut cells = vec![COLUMNS.map(|(heading, _)| heading.to_owned()).to_vec()];
    cells.extend(rows.iter().map(|row| COLUMNS.map(|(_, column)| cell(&row[column])).to_vec()));
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|index| cells.iter().map(|line| line[index].chars().count()).max().unwrap_or(0))
        .collect();
    cells
        .iter()
        .map(|line| {
            let padded: Vec<String> =
                line.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
            padded.join("  ").trim_end().to_owned()
        })
        .collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => {
            text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
        }
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => format!("{value:.1}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_heading_and_lines_up() {
        let rows = [
            serde_json::json!({"id": 1, "state": "running", "tpr_path": "a.tpr", "ns_per_day": 12.345, "interruptions": 0}),
            serde_json::json!({"id": 22, "state": "queued", "tpr_path": "b/c.tpr", "interruptions": 1, "reason": "x\ny"}),
        ];
        let lines = table(&rows);
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("ROW  STATE    FILE"), "{}", lines[0]);
        assert!(lines[1].contains("12.3"), "{}", lines[1]);
        assert!(lines[2].ends_with("x y"), "{}", lines[2]);
        assert_eq!(lines[1].find("running"), lines[2].find("queued"));
    }
}
