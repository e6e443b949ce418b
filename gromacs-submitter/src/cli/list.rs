//! `list`: the queue as a table.

use serde_json::Value;

use super::row::{QueueRow, table};
use super::text::{json, terminal_width};
use super::{Outcome, open_current, print_line, row_filter};
use crate::config::{Database, ListOptions};
use crate::store::RowFilter;

pub(super) async fn exec(database: &Database, options: &ListOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let rows = store.list(&RowFilter { limit: options.limit, ..row_filter(&options.filter) }).await?;
    store.close().await;
    if options.output.is_json() {
        print_line(&json(&Value::Array(rows)));
        return Ok(Outcome::Done);
    }
    for line in table(&QueueRow::read_all(&rows)?).render(terminal_width()) {
        print_line(&line);
    }
    Ok(Outcome::Done)
}
