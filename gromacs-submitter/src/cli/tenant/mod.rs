//! `tenant`: the admin's verbs, which database role may run simulations in which namespace.

mod options;

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Outcome, open, print_line};
use crate::config::{Database, OutputFormat};
use crate::store::{Change, Removal, Tenant};

pub use options::{AddTenantOptions, ListTenantsOptions, RemoveTenantOptions, TenantCommand, TenantOptions};

pub(super) async fn exec(database: &Database, options: TenantOptions) -> anyhow::Result<Outcome> {
    match options.command {
        TenantCommand::Add(options) => add(database, &options).await,
        TenantCommand::List(options) => list(database, &options).await,
        TenantCommand::Remove(options) => remove(database, &options).await,
    }
}

async fn add(database: &Database, options: &AddTenantOptions) -> anyhow::Result<Outcome> {
    let tenant = described(options)?;
    let store = open(database)?;
    let change = store.add_tenant(&tenant, options.dry_run).await?;
    store.close().await;
    print_line(&match options.output {
        OutputFormat::Json => {
            json!({ "tenant": tenant, "change": change, "dry_run": options.dry_run }).to_string()
        }
        OutputFormat::Text => {
            let what = match (change, options.dry_run) {
                (Change::Unchanged, _) => "unchanged",
                (Change::Added, false) => "added",
                (Change::Added, true) => "would be added",
                (Change::Changed, false) => "changed",
                (Change::Changed, true) => "would be changed",
            };
            format!("tenant {} in namespace {}: {what}", tenant.database_role, tenant.namespace)
        }
    });
    Ok(Outcome::Done)
}

fn described(options: &AddTenantOptions) -> anyhow::Result<Tenant> {
    let seconds = |flag: &str, time: Option<Duration>| {
        time.map(|time| i32::try_from(time.as_secs()))
            .transpose()
            .with_context(|| format!("{flag} is longer than 7 days"))
    };
    Ok(Tenant {
        database_role: options.role.clone(),
        namespace: options.namespace.clone(),
        service_account: options.service_account.clone(),
        image: options.image.clone(),
        image_patterns: options.image_patterns.clone(),
        run_as_user: options.run_as_user,
        run_as_group: options.run_as_group,
        max_cpu_millicores: options.max_cpu_millicores,
        max_memory_bytes: options.max_memory_bytes,
        max_gpus: options.max_gpus,
        min_interruption_after_seconds: seconds("--min-interruption-after", options.min_interruption_after)?,
        max_interruption_after_seconds: seconds("--max-interruption-after", options.max_interruption_after)?,
        max_rows_in_work: options.max_rows_in_work,
    })
}

async fn list(database: &Database, options: &ListTenantsOptions) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let tenants = store.tenants().await?;
    store.close().await;
    match options.output {
        OutputFormat::Json => print_line(&serde_json::to_string_pretty(&tenants)?),
        OutputFormat::Text if tenants.is_empty() => {
            print_line("no tenants; add one: gromacs-submitter tenant add ROLE NAMESPACE");
        }
        OutputFormat::Text => tenants.iter().for_each(|tenant| print_line(&line(tenant))),
    }
    Ok(Outcome::Done)
}

/// Columns that hold a limit or a default, and how to say it.
const SETTINGS: [(&str, &str, &str); 11] = [
    ("service_account", "service account", ""),
    ("image", "image", ""),
    ("image_patterns", "only images", ""),
    ("run_as_user", "user", ""),
    ("run_as_group", "group", ""),
    ("max_cpu_millicores", "at most", " millicores"),
    ("max_memory_bytes", "at most", " bytes of memory"),
    ("max_gpus", "at most", " GPUs"),
    ("min_interruption_after_seconds", "checkpoints every", " s at most often"),
    ("max_interruption_after_seconds", "checkpoints every", " s at least"),
    ("max_rows_in_work", "at most", " rows in work"),
];

/// One tenant: who, where, its rows, and what differs from no limits.
fn line(tenant: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let mut line = format!(
        "{} in namespace {}: {} queued, {} in work, {} ended",
        text(&tenant["database_role"]),
        text(&tenant["namespace"]),
        tenant["queued"],
        tenant["in_work"],
        tenant["ended"]
    );
    for (column, name, unit) in SETTINGS {
        let value = &tenant[column];
        if !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty()) {
            line.push_str(&format!("; {name} {}{unit}", text(value)));
        }
    }
    line
}

async fn remove(database: &Database, options: &RemoveTenantOptions) -> anyhow::Result<Outcome> {
    let store = open(database)?;
    let removal =
        store.remove_tenant(&options.role, &options.namespace, options.delete_rows, options.dry_run).await?;
    store.close().await;
    let who = format!("tenant {} in namespace {}", options.role, options.namespace);
    let (removed, rows) = match removal {
        Removal::InWork(rows) => {
            eprintln!(
                "error: {who} has {rows} rows that have not ended; cancel them, or wait (tenant add \
                 --max-rows-in-work 0 lets no more begin)"
            );
            return Ok(Outcome::Failed);
        }
        Removal::HasRows(rows) => {
            eprintln!("error: {who} has {rows} rows that have ended; --delete-rows deletes them, too");
            return Ok(Outcome::Failed);
        }
        Removal::Removed(rows) => (true, rows),
        Removal::Absent => (false, 0),
    };
    print_line(&match options.output {
        OutputFormat::Json => json!({
            "database_role": options.role, "namespace": options.namespace, "removed": removed,
            "deleted_rows": rows, "dry_run": options.dry_run,
        })
        .to_string(),
        OutputFormat::Text => match (removed, options.dry_run) {
            (false, _) => format!("{who}: there is none"),
            (true, false) => format!("{who}: removed, with {rows} rows"),
            (true, true) => format!("{who}: would be removed, with {rows} rows"),
        },
    });
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_only_what_is_limited() {
        let tenant = json!({
            "database_role": "alice", "namespace": "chem", "queued": 3, "in_work": 2, "ended": 1, "image": null,
            "image_patterns": ["registry.example/lab/*"], "max_gpus": 0,
        });
        assert_eq!(
            line(&tenant),
            "alice in namespace chem: 3 queued, 2 in work, 1 ended; only images registry.example/lab/*; at most 0 GPUs"
        );
        let free = json!({
            "database_role": "bob", "namespace": "phys", "queued": 0, "in_work": 0, "ended": 0, "image_patterns": [],
        });
        assert_eq!(line(&free), "bob in namespace phys: 0 queued, 0 in work, 0 ended");
    }
}
