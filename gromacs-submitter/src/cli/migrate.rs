//! `migrate`: creates or updates the tables.

use super::{Outcome, open, print_line};
use crate::config::Database;

pub(super) async fn exec(database: &Database) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let version = store.migrate().await?;
    store.close().await;
    print_line(&format!("the schema has version {version}"));
    Ok(Outcome::Done)
}
