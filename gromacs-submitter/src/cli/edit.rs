//! `edit`: changes what rows ask for.

use std::time::Duration;

use scavenger_schema::simulation::State;
use serde_json::{Value, json};

use super::request::selected;
use super::text::{json as print_json, number_of};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{Database, EditOptions};
use crate::grompp_options;
use crate::mdrun_options::MdrunOptions;
use crate::store::{Edit, Labels};

pub(super) async fn exec(database: &Database, options: &EditOptions) -> anyhow::Result<Outcome> {
    let edit = edit(options)?;
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

fn edit(options: &EditOptions) -> anyhow::Result<Edit> {
    // Too long for the column is too long for its rule, which has the better sentence.
    let seconds = |time: Option<Duration>| time.map(|time| i32::try_from(time.as_secs()).unwrap_or(i32::MAX));
    let on_any_node = options.any_node.then(Labels::default);
    let node_labels =
        (!options.node_label.is_empty()).then(|| Labels(options.node_label.iter().cloned().collect()));
    Ok(Edit {
        mdrun_options: options.mdrun_options.as_deref().map(MdrunOptions::words).transpose()?,
        grompp_options: options.grompp.as_deref().map(grompp_options::words).transpose()?,
        node_labels: on_any_node.or(node_labels),
        project: options.project.clone(),
        labels: (!options.label.is_empty()).then(|| Labels(options.label.iter().cloned().collect())),
        image: options.image.clone(),
        append: options.append,
        after: if options.no_after {
            Some(Vec::new())
        } else {
            (!options.after.is_empty()).then(|| options.after.clone())
        },
        deadline: if options.no_deadline { Some(None) } else { options.deadline.map(Some) },
        priority: options.priority,
        max_cpu_millicores: options.max_cpu_millicores,
        max_memory_bytes: options.max_memory_bytes,
        max_gpus: options.max_gpus,
        min_cpu_millicores: options.min_cpu_millicores,
        min_ns_per_day: options.min_ns_per_day,
        ladder_settings: options.ladder.settings(),
        interruption_after_seconds: seconds(options.interruption_after),
        fallback_after_seconds: seconds(options.fallback_after),
        unset: options.unset.iter().copied().collect(),
    })
}

fn is_possible(edit: &Edit, state: &str) -> bool {
    edit.is_always_possible()
        || state.parse().is_ok_and(|state: State| state.is_final() || state == State::Queued)
}
