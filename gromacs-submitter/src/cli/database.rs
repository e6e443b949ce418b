//! What most verbs begin and end with: a store, a filter, and how it went.

use anyhow::Context as _;

use scavenger_schema::rules;

use crate::config::{Database, Filter};
use crate::store::{RowFilter, Store, StoreError};

/// How a verb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// The work itself failed.
    Failed,
}

/// Address of the database.
pub(super) fn url(database: &Database) -> anyhow::Result<&str> {
    let url = database.database_url.as_deref().filter(|url| !url.is_empty());
    let url = url.with_context(|| rules::no_database("--database-url"))?;
    // The client takes any scheme for its own.
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        Ok(url)
    } else {
        Err(StoreError::ReadUrl.into())
    }
}

/// A store for verbs that make a few requests.
pub(super) fn open(database: &Database) -> anyhow::Result<Store> {
    open_for(database, 1)
}

/// The same with more connections.
pub(super) fn open_for(database: &Database, connections: u32) -> anyhow::Result<Store> {
    let lease = std::time::Duration::from_secs(1);
    Ok(Store::new(url(database)?, "command line".to_owned(), lease, connections, database.connect_timeout)?)
}

/// The same, once its schema is known to be as new as this program: an error about a missing column helps nobody.
pub(super) async fn open_current(database: &Database) -> anyhow::Result<Store> {
    let store = open(database)?;
    store.check_schema().await?;
    Ok(store)
}

/// What a user's filter means to the store.
pub(super) fn row_filter(filter: &Filter) -> RowFilter {
    RowFilter {
        states: filter.state.clone(),
        owner: filter.owner.clone(),
        namespace: filter.namespace.clone(),
        project: filter.project.clone(),
        labels: filter.label.iter().cloned().collect(),
        late: filter.late,
        ..RowFilter::default()
    }
}
