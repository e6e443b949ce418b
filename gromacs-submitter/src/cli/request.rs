//! `cancel` and `retry` ask the submitter for something; `hold`, `release` and `rm` do it at once.

use std::collections::{HashMap, HashSet};

use scavenger_schema::row::requests;
use scavenger_schema::simulation::State;
use serde_json::{Value, json};

use super::text::{json as print_json, number_of};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{Database, Selection, Since};
use crate::store::{RowFilter, Store, StoreError};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Cancel,
    /// With `all_failed` of those that failed.
    Retry {
        all_failed: bool,
    },
    Hold,
    Release,
    /// Of what ended before that time, if it is given.
    Remove {
        ended_before: Option<Since>,
    },
}

impl Request {
    fn rule(self) -> requests::Request {
        match self {
            Self::Cancel => requests::CANCEL,
            Self::Retry { .. } => requests::RETRY,
            Self::Hold => requests::HOLD,
            Self::Release => requests::RELEASE,
            Self::Remove { .. } => requests::REMOVE,
        }
    }

    /// What was done.
    fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancel requested",
            Self::Retry { .. } => "retry requested",
            Self::Hold => "held",
            Self::Release => "released",
            Self::Remove { .. } => "removed",
        }
    }
}

pub(super) async fn exec(
    database: &Database,
    selection: &Selection,
    request: Request,
) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let rule = request.rule();
    let mut filter = selected(selection);
    match request {
        Request::Retry { all_failed: true } => filter.states = vec![State::Failed],
        Request::Remove { ended_before: Some(time) } => {
            filter.ended_before = Some(time.from(store.now().await?));
        }
        _ => {}
    }
    let named = !selection.rows.is_empty();
    let found = store.select(&filter).await?;
    // A filter means those of its rows that can be asked; a row that is named must be one of these.
    let states: HashMap<i64, String> = found.iter().cloned().collect();
    let rows: Vec<i64> = if named {
        let mut rows = selection.rows.clone();
        rows.sort_unstable();
        rows.dedup();
        rows
    } else {
        found.iter().filter(|(_, state)| rule.is_possible(state)).map(|(row, _)| *row).collect()
    };
    let verb = rule.verb;
    anyhow::ensure!(
        named || selection.yes || selection.dry_run || rows.is_empty(),
        "this would {verb} {}; say --yes to do it, or --dry-run to see which",
        number_of(rows.len(), "row")
    );
    let possible: Vec<i64> = rows
        .iter()
        .copied()
        .filter(|row| states.get(row).is_some_and(|state| rule.is_possible(state)))
        .collect();
    let mut kept = HashMap::new();
    let done = match request {
        _ if selection.dry_run => possible,
        Request::Cancel => store.request_cancel(&possible).await?,
        Request::Retry { .. } => store.request_retry(&possible).await?,
        Request::Hold => store.set_held(&possible, true).await?,
        Request::Release => store.set_held(&possible, false).await?,
        Request::Remove { .. } => remove_each(&store, &possible, &mut kept).await?,
    };
    store.close().await;
    let done: HashSet<i64> = done.into_iter().collect();
    let mut outcome = Outcome::Done;
    let mut results: Vec<Value> = Vec::new();
    for row in &rows {
        let accepted = done.contains(row);
        let state = states.get(row).map(String::as_str);
        let refusal = (!accepted).then(|| kept.remove(row).unwrap_or_else(|| rule.refusal(state)));
        if refusal.is_some() {
            outcome = Outcome::Failed;
        }
        if selection.output.is_json() {
            results.push(json!({
                "id": row, "request": verb, "accepted": accepted, "dry_run": selection.dry_run, "state": state,
                "reason": refusal,
            }));
        } else if let Some(refusal) = refusal {
            print_error(&format!("row {row}: {refusal}"));
        } else if selection.dry_run {
            print_line(&format!("row {row}: would {verb} it, it is {}", state.unwrap_or_default()));
        } else {
            print_line(&format!("row {row}: {}", request.done()));
        }
    }
    if selection.output.is_json() {
        print_line(&print_json(&Value::Array(results)));
    } else if rows.is_empty() {
        print_line(&format!("no row to {verb}"));
    }
    Ok(outcome)
}

/// Removes rows, and says which stay since others wait for them: among thousands one of these must not keep the rest.
async fn remove_each(
    store: &Store,
    rows: &[i64],
    kept: &mut HashMap<i64, String>,
) -> Result<Vec<i64>, StoreError> {
    let mut removed = Vec::new();
    for row in rows {
        match store.remove(&[*row]).await {
            Ok(rows) => removed.extend(rows),
            Err(StoreError::BreakRule(why)) => {
                kept.insert(*row, why);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// What a selection means to the store.
pub(super) fn selected(selection: &Selection) -> RowFilter {
    RowFilter {
        rows: (!selection.rows.is_empty()).then(|| selection.rows.clone()),
        states: selection.state.clone(),
        owner: selection.owner.clone(),
        namespace: selection.namespace.clone(),
        project: selection.in_project.clone(),
        labels: selection.with_label.iter().cloned().collect(),
        ..RowFilter::default()
    }
}
