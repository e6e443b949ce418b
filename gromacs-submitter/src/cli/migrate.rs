//! `migrate`: creates or updates the tables.

use serde_json::json;

use super::text::{json, number_of};
use super::{Outcome, open, print_line};
use crate::config::{Database, MigrateOptions};

pub(super) async fn exec(database: &Database, options: &MigrateOptions) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let missing = store.missing_migrations().await?;
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
