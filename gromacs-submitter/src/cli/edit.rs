//! `edit`: changes what rows ask for.

use scavenger_schema::simulation::State;
use serde_json::{Value, json};

use super::request::selected;
use super::text::{json as print_json, number_of};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{Database, EditOptions};
use crate::store::Edit;

pub(super) async fn exec(database: &Database, options: &EditOptions) -> anyhow::Result<Outcome> {
    let edit = Edit { unset: options.unset.iter().copied().collect(), ..options.row.0.clone() };
    if let Some(both) = edit.is_set_and_unset() {
        anyhow::bail!("--{both} says a value, and --unset takes it back; leave one of them out");
    }
    let store = open_current(database).await?;
    let selection = &options.selection;
    let named = !selection.rows.is_empty();
    let found = store.select(&selected(selection)).await?;
    // Rows that are named are all changed or none; of those that a filter selects, those that can be.
    let rows: Vec<i64> = if named {
        selection.rows.clone()
    } else {
        found.iter().filter(|(_, state)| is_possible(&edit, state)).map(|(row, _)| *row).collect()
    };
    anyhow::ensure!(
        named || selection.yes || selection.dry_run || rows.is_empty(),
        "this would change {}; say --yes to do it, or --dry-run to see which",
        number_of(rows.len(), "row")
    );
    let changed = store.edit(&rows, &edit, selection.dry_run).await?;
    store.close().await;
    let mut outcome = Outcome::Done;
    let mut results: Vec<Value> = Vec::new();
    for row in &rows {
        let is_changed = changed.contains(row);
        if !is_changed {
            outcome = Outcome::Failed;
        }
        if selection.output.is_json() {
            results.push(json!({ "id": row, "changed": is_changed, "dry_run": selection.dry_run }));
        } else if !is_changed {
            print_error(&format!("row {row}: there is no such row"));
        } else if selection.dry_run {
            print_line(&format!("row {row}: would be changed"));
        } else {
            print_line(&format!("row {row}: changed"));
        }
    }
    if selection.output.is_json() {
        print_line(&print_json(&Value::Array(results)));
    } else if rows.is_empty() {
        print_line("no row to change");
    }
    Ok(outcome)
}

fn is_possible(edit: &Edit, state: &str) -> bool {
    edit.is_always_possible()
        || state.parse().is_ok_and(|state: State| state.is_final() || state == State::Queued)
}
