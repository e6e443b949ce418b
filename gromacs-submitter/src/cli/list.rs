//! `list`: the queue as a table, or its projects summed up.

use serde_json::Value;

use super::row::{QueueRow, table};
use super::text::{json, print_note, shown, stretch, terminal_width};
use super::{Outcome, open_current, print_line, row_filter};
use crate::config::{Database, ListOptions};
use crate::store::{ProjectSum, RowFilter};

/// The newest so many are listed unless somebody wants more: a queue may hold a million.
const USUAL_LIMIT: u32 = 200;

/// Reasons of failures that a line names.
const MOST_REASONS: usize = 3;

pub(super) async fn exec(database: &Database, options: &ListOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let filter = row_filter(&options.filter);
    if options.by_project {
        let sums = store.projects(&filter).await?;
        store.close().await;
        if options.output.is_json() {
            print_line(&json(&serde_json::to_value(&sums)?));
        } else {
            sums.iter().for_each(|sum| print_line(&line(sum)));
        }
        return Ok(Outcome::Done);
    }
    let limit = options.limit.unwrap_or(USUAL_LIMIT);
    let rows = store.list(&RowFilter { limit: Some(limit), ..filter }).await?;
    store.close().await;
    if options.limit.is_none() && rows.len() >= usize::try_from(limit)? {
        print_note(&format!("these are the newest {limit} rows; --limit lists more, and filters choose"));
    }
    if options.output.is_json() {
        print_line(&json(&Value::Array(rows)));
        return Ok(Outcome::Done);
    }
    for line in table(&QueueRow::read_all(&rows)?).render(terminal_width()) {
        print_line(&line);
    }
    Ok(Outcome::Done)
}

/// `water: 412 of 500 done, 3 failed (2x Too many LINCS warnings, 1x out of disk space), 5 run, 80 wait, the rest in 3 d`.
fn line(sum: &ProjectSum) -> String {
    let name = sum.project.as_deref().map_or_else(|| "(no project)".to_owned(), shown);
    let mut parts = vec![format!("{} of {} done", sum.completed, sum.rows)];
    if sum.failed > 0 {
        let mut reasons: Vec<String> = sum
            .failures
            .iter()
            .take(MOST_REASONS)
            .map(|(why, times)| format!("{times}x {}", shown(why.trim_start_matches("mdrun failed: "))))
            .collect();
        if sum.failures.len() > MOST_REASONS {
            reasons.push("and others".to_owned());
        }
        parts.push(format!("{} failed ({})", sum.failed, reasons.join(", ")));
    }
    for (count, what) in [(sum.cancelled, "cancelled"), (sum.running, "running"), (sum.waiting, "waiting")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if let Some(seconds) = sum.seconds_left {
        // A float that is too large becomes the largest integer.
        parts.push(format!("the rest in about {}", stretch(seconds.ceil() as i64)));
    }
    format!("{name}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_one_line() {
        let sum = ProjectSum {
            project: Some("water".to_owned()),
            rows: 500,
            completed: 412,
            failed: 3,
            cancelled: 0,
            running: 5,
            waiting: 80,
            seconds_left: Some(3.0 * 86400.0),
            failures: vec![
                ("mdrun failed: Too many LINCS warnings (N)".to_owned(), 2),
                ("no file".to_owned(), 1),
            ],
        };
        let days = stretch(3 * 86400);
        assert_eq!(
            line(&sum),
            format!(
                "water: 412 of 500 done, 3 failed (2x Too many LINCS warnings (N), 1x no file), 5 running, 80 waiting, \
                 the rest in about {days}"
            )
        );
        let none = ProjectSum { project: None, failed: 0, running: 0, waiting: 0, seconds_left: None, ..sum };
        assert_eq!(line(&none), "(no project): 412 of 500 done");
    }
}
