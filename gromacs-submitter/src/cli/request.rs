//! `cancel` and `retry`: ask the submitter for something.

use super::{Outcome, open, print_line};
use crate::config::{Database, RequestOptions};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Cancel,
    Retry,
}

pub(super) async fn exec(
    database: &Database,
    options: &RequestOptions,
    request: Request,
) -> anyhow::Result<Outcome> {
    let (verb, needs) = match request {
        Request::Cancel => ("cancel", "that has not ended"),
        Request::Retry => ("retry", "that failed or was cancelled"),
    };
    let store = open(database)?;
    let mut outcome = Outcome::Done;
    for row in &options.rows {
        if options.dry_run {
            print_line(&format!("would {verb} row {row}"));
            continue;
        }
        let accepted = match request {
            Request::Cancel => store.request_cancel(*row).await?,
            Request::Retry => store.request_retry(*row).await?,
        };
        if accepted {
            print_line(&format!("row {row}: {verb} requested"));
        } else {
            eprintln!("error: there is no row {row} {needs}");
            outcome = Outcome::Failed;
        }
    }
    store.close().await;
    Ok(outcome)
}
