//! `show`: the story of one row.

use serde_json::Value;

use super::{Outcome, open, print_line};
use crate::config::{Database, OutputFormat, RowOptions};

pub(super) async fn exec(database: &Database, options: &RowOptions) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let story = store.show(options.row).await?;
    store.close().await;
    let Some(story) = story else {
        eprintln!("error: there is no row {}", options.row);
        return Ok(Outcome::Failed);
    };
    match options.output {
        OutputFormat::Json => print_line(&serde_json::to_string_pretty(&story)?),
        OutputFormat::Text => print_story(&story),
    }
    Ok(Outcome::Done)
}

fn print_story(story: &Value) {
    if let Some(row) = story["row"].as_object() {
        for (name, value) in row.iter().filter(|(_, value)| !value.is_null()) {
            print_line(&format!("{name:<22} {}", plain(value)));
        }
    }
    for (heading, list) in [("configurations", "ladder"), ("attempts", "attempts"), ("history", "events")] {
        print_line(&format!("\n{heading}"));
        for item in story[list].as_array().map(Vec::as_slice).unwrap_or_default() {
            print_line(&format!("  {}", line_of(list, item)));
        }
    }
}

fn line_of(list: &str, item: &Value) -> String {
    let text = |name: &str| plain(&item[name]);
    match list {
        "ladder" => format!(
            "{}.{}: {} cores, {} MiB, {}x{}, {} ns/day ({} to {}), {}",
            text("submission"),
            text("rung"),
            item["cpu_millicores"].as_f64().unwrap_or(0.0) / 1000.0,
            item["memory_bytes"].as_i64().unwrap_or(0) >> 20,
            plain(&item["layout"]["ntmpi"]),
            plain(&item["layout"]["ntomp"]),
            speed(&item["ns_per_day_p50"]),
            speed(&item["ns_per_day_p10"]),
            speed(&item["ns_per_day_p90"]),
            text("reason")
        ),
        "attempts" => format!(
            "{}.{}: configuration {}, {} to {}, steps {} to {}, {} ns/day, {} {}",
            text("submission"),
            text("attempt"),
            text("rung"),
            text("start_time"),
            text("end_time"),
            text("first_step"),
            text("last_step"),
            speed(&item["ns_per_day"]),
            text("outcome"),
            text("reason")
        ),
        _ => format!("{} {} {}", text("event_time"), text("state"), text("message")),
    }
}

fn speed(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |speed| format!("{speed:.1}"))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => {
            text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
        }
        other => other.to_string(),
    }
}
