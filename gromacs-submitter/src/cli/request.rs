//! `cancel` and `retry` ask the submitter for something; `hold`, `release` and `rm` do it at once.

use std::collections::{HashMap, HashSet};

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
    fn verb(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry { .. } => "retry",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Remove { .. } => "remove",
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

    /// True if a row in `state` can be asked for it.
    fn is_possible(self, state: &str) -> bool {
        match (self, state.parse::<State>()) {
            (Self::Cancel, Ok(state)) => !state.is_final(),
            (Self::Retry { .. }, Ok(state)) => matches!(state, State::Failed | State::Cancelled),
            (Self::Hold | Self::Release, Ok(state)) => state == State::Queued,
            (Self::Remove { .. }, Ok(state)) => state.is_final(),
            (_, Err(_)) => false,
        }
    }

    fn refusal(self, state: Option<&str>) -> String {
        match (self, state) {
            (_, None) => "there is no such row".to_owned(),
            (Self::Cancel, Some(state)) => format!("it is {state} already"),
            (Self::Retry { .. }, Some(state)) => {
                format!("it is {state}; only failed and cancelled rows can be tried again")
            }
            (Self::Hold | Self::Release, Some(state)) => {
                format!("it is {state}; only queued rows can be held and released")
            }
            (Self::Remove { .. }, Some(state)) => {
                format!(
                    "it is {state}; only completed, failed and cancelled rows can be removed: cancel it first"
                )
            }
        }
    }
}

pub(super) async fn exec(
    database: &Database,
    selection: &Selection,
    request: Request,
) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
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
        found.iter().filter(|(_, state)| request.is_possible(state)).map(|(row, _)| *row).collect()
    };
    let verb = request.verb();
    anyhow::ensure!(
        named || selection.yes || selection.dry_run || rows.is_empty(),
        "this would {verb} {}; say --yes to do it, or --dry-run to see which",
        number_of(rows.len(), "row")
    );
    let possible: Vec<i64> = rows
        .iter()
        .copied()
        .filter(|row| states.get(row).is_some_and(|state| request.is_possible(state)))
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
        let refusal = (!accepted).then(|| kept.remove(row).unwrap_or_else(|| request.refusal(state)));
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
