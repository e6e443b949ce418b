//! `migrate`: creates or updates the tables.

use std::time::{Duration, Instant};

use serde_json::json;

use super::text::{json, number_of, print_error};
use super::{Outcome, open, print_line};
use crate::config::{Database, MigrateOptions};
use crate::store::{Store, StoreError};

/// Between two tries of a database that does not answer.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn exec(database: &Database, options: &MigrateOptions) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let missing = missing(&store, options.wait.unwrap_or_default()).await?;
    let version = if options.dry_run { None } else { Some(store.migrate().await?) };
    store.close().await;
    if options.output.is_json() {
        let migrations: Vec<_> =
            missing.iter().map(|(version, name)| json!({ "version": version, "name": name })).collect();
        print_line(&json(
            &json!({ "dry_run": options.dry_run, "schema_version": version, "migrations": migrations }),
        ));
        return Ok(Outcome::Done);
    }
    let verb = if options.dry_run { "would apply" } else { "applied" };
    for (version, name) in &missing {
        print_line(&format!("{verb} migration {version}: {name}"));
    }
    print_line(&match version {
        Some(version) => format!("the schema has version {version}"),
        None if missing.is_empty() => "the schema is current".to_owned(),
        None => format!("{} to apply", number_of(missing.len(), "migration")),
    });
    Ok(Outcome::Done)
}

/// The migrations that are missing, as soon as the database tells. Every error is waited out, even a refused password: the
/// roles of a new server are made after it has started.
async fn missing(store: &Store, wait: Duration) -> Result<Vec<(i64, String)>, StoreError> {
    let until = Instant::now() + wait;
    let mut said = None;
    loop {
        match store.missing_migrations().await {
            Err(error) if Instant::now() + PAUSE < until => {
                let problem = error.to_string();
                if said.as_ref() != Some(&problem) {
                    print_error(&format!("{problem}; trying again for up to {} s", wait.as_secs()));
                    said = Some(problem);
                }
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}
