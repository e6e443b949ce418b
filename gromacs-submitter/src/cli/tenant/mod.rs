//! `tenant`: the admin's verbs, which database role may run simulations in which namespace.

mod card;
mod handed;
mod limits;

use serde_json::{Value, json};

use super::text::{Table, json as print_json, json_line, number_of, terminal_width};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{
    AddTenantOptions, Database, ListTenantsOptions, RemoveTenantOptions, TenantCommand, TenantOptions,
};
use crate::store::{Change, Removal};
use limits::{plain, settings};

pub(super) async fn exec(database: &Database, options: TenantOptions) -> anyhow::Result<Outcome> {
    match options.command {
        TenantCommand::Add(options) => add(database, &options).await,
        TenantCommand::Card(options) => Box::pin(handed::exec(database, &options)).await,
        TenantCommand::List(options) => list(database, &options).await,
        TenantCommand::Remove(options) => remove(database, &options).await,
    }
}

async fn add(database: &Database, options: &AddTenantOptions) -> anyhow::Result<Outcome> {
    let tenant = &options.tenant;
    let store = open_current(database).await?;
    let change = store.add_tenant(tenant, options.dry_run).await?;
    store.close().await;
    if options.output.is_json() {
        let added = json!({ "tenant": tenant, "change": change, "dry_run": options.dry_run });
        print_line(&json_line(&added));
        return Ok(Outcome::Done);
    }
    let what = match (change, options.dry_run) {
        (Change::Unchanged, _) => "unchanged",
        (Change::Added, false) => "added",
        (Change::Added, true) => "would be added",
        (Change::Changed, false) => "changed",
        (Change::Changed, true) => "would be changed",
    };
    print_line(&format!("tenant {} in namespace {}: {what}", tenant.database_role, tenant.namespace));
    Ok(Outcome::Done)
}

async fn list(database: &Database, options: &ListTenantsOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let tenants = store.tenants().await?;
    store.close().await;
    if options.output.is_json() {
        print_line(&print_json(&Value::Array(tenants)));
        return Ok(Outcome::Done);
    }
    let mut table =
        Table::new(&["ROLE", "NAMESPACE", ">QUEUED", ">IN WORK", ">ENDED", "DEFAULTS AND LIMITS"]);
    for tenant in &tenants {
        let cell = |column: &str| plain(&tenant[column]);
        table.push(&[
            cell("database_role"),
            cell("namespace"),
            cell("queued"),
            cell("in_work"),
            cell("ended"),
            settings(tenant),
        ]);
    }
    table.render(terminal_width()).iter().for_each(|line| print_line(line));
    Ok(Outcome::Done)
}

async fn remove(database: &Database, options: &RemoveTenantOptions) -> anyhow::Result<Outcome> {
    let store = open_current(database).await?;
    let removal =
        store.remove_tenant(&options.role, &options.namespace, options.delete_rows, options.dry_run).await?;
    store.close().await;
    let who = format!("tenant {} in namespace {}", options.role, options.namespace);
    let (removed, rows) = match removal {
        Removal::InWork(rows) => {
            print_error(&format!(
                "{who} has {} not ended; cancel what is left, or wait (tenant add --max-rows-in-work 0 lets no more \
                 begin)",
                have(rows)
            ));
            return Ok(Outcome::Failed);
        }
        Removal::HasRows(rows) => {
            print_error(&format!("{who} has {} ended; --delete-rows deletes what it has, too", have(rows)));
            return Ok(Outcome::Failed);
        }
        Removal::Removed(rows) => (true, rows),
        Removal::Absent => (false, 0),
    };
    if options.output.is_json() {
        let done = json!({
            "database_role": options.role, "namespace": options.namespace, "removed": removed,
            "deleted_rows": rows, "dry_run": options.dry_run,
        });
        print_line(&json_line(&done));
        return Ok(Outcome::Done);
    }
    print_line(&match (removed, options.dry_run) {
        (false, _) => format!("{who}: there is none"),
        (true, false) => format!("{who}: removed, with {}", count(rows)),
        (true, true) => format!("{who}: would be removed, with {}", count(rows)),
    });
    Ok(Outcome::Done)
}

fn count(rows: i64) -> String {
    number_of(usize::try_from(rows).unwrap_or(0), "row")
}

/// `1 row that has`, `2 rows that have`.
fn have(rows: i64) -> String {
    format!("{} that {}", count(rows), if rows == 1 { "has" } else { "have" })
}
