//! `extend`: lets completed rows go on for longer.

use scavenger_schema::simulation::State;
use serde_json::{Value, json};

use super::request::selected;
use super::text::{json as print_json, number_of, short};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{Database, ExtendOptions};
use crate::store::Length;

pub(super) async fn exec(database: &Database, options: &ExtendOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let selection = &options.selection;
    let named = !selection.rows.is_empty();
    // Rows that are named are all extended or none; of those that a filter selects, the completed ones.
    let rows: Vec<i64> = if named {
        selection.rows.clone()
    } else {
        let found = store.select(&selected(selection)).await?;
        let is_completed = |state: &str| state == State::Completed.as_str();
        found.iter().filter(|(_, state)| is_completed(state)).map(|(row, _)| *row).collect()
    };
    anyhow::ensure!(
        named || selection.yes || selection.dry_run || rows.is_empty(),
        "this would extend {}; say --yes to do it, or --dry-run to see which",
        number_of(rows.len(), "row")
    );
    let length = match (options.ns, options.until) {
        (Some(ns), _) => Length::More(ns),
        (None, until) => Length::Until(until.unwrap_or_default()),
    };
    let extended = store.extend(&rows, length, selection.dry_run).await?;
    store.close().await;
    let mut outcome = Outcome::Done;
    let mut results: Vec<Value> = Vec::new();
    for row in &rows {
        let found = extended.iter().find(|found| found.id == *row);
        if found.is_none() {
            outcome = Outcome::Failed;
        }
        if selection.output.is_json() {
            results.push(json!({
                "id": row, "extended": found.is_some(), "dry_run": selection.dry_run,
                "from_ns": found.map(|found| found.from_ns), "to_ns": found.map(|found| found.to_ns),
                "nsteps": found.map(|found| found.extended_nsteps),
            }));
            continue;
        }
        match found {
            None => print_error(&format!("row {row}: there is no such row")),
            Some(found) => {
                let verb = if selection.dry_run { "would go on" } else { "goes on" };
                let (from, to) = (short(found.from_ns), short(found.to_ns));
                print_line(&format!("row {row}: {verb} from {from} to {to} ns"));
            }
        }
    }
    if selection.output.is_json() {
        print_line(&print_json(&Value::Array(results)));
    } else if rows.is_empty() {
        print_line("no row to extend");
    }
    Ok(outcome)
}
