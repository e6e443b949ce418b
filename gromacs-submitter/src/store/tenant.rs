//! Tenants: which database role may run simulations in which namespace. Only the admin may write them.

use serde::Serialize;
use serde_json::{Map, json};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use super::{Store, StoreError};
use crate::tenant::Tenant;

/// What became of a tenant that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// There was none.
    Added,
    /// There was one with other defaults or limits.
    Changed,
    /// There was this one.
    Unchanged,
}

/// What became of a tenant that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone, and so many ended rows with it.
    Removed(i64),
    /// There was none.
    Absent,
    /// Some of its rows have not ended.
    InWork(i64),
    /// All of its rows have ended, but nobody said that they may go.
    HasRows(i64),
}

impl Store {
    /// Makes a tenant as described, and its database role a member of `gromacs_chemist`. With `dry_run` everything is
    /// tried, and nothing stays.
    ///
    /// # Errors
    /// [`StoreError::BreakRule`] for a bad value, [`StoreError::FindRole`] if there is no such database role,
    /// [`StoreError::Forbid`] for anybody but the admin, or the database's.
    pub async fn add_tenant(&self, tenant: &Tenant, dry_run: bool) -> Result<Change, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let change = upsert(&mut transaction, tenant).await?;
        grant_chemist(&mut transaction, &tenant.database_role).await?;
        finish(transaction, dry_run).await?;
        Ok(change)
    }

    /// Removes a tenant, with its rows if all of them have ended and `delete_rows` says so. With `dry_run` everything is
    /// tried, and nothing stays.
    ///
    /// # Errors
    /// [`StoreError::Forbid`] for anybody but the admin, or the database's.
    pub async fn remove_tenant(
        &self,
        role: &str,
        namespace: &str,
        delete_rows: bool,
        dry_run: bool,
    ) -> Result<Removal, StoreError> {
        let mut transaction = self.pool.begin().await?;
        // The tenant is locked, so that no row comes between the count and the end.
        let found: Option<String> = sqlx::query_scalar(
            "select database_role from gromacs_tenant where database_role = $1 and namespace = $2 for update",
        )
        .bind(role)
        .bind(namespace)
        .fetch_optional(&mut *transaction)
        .await?;
        if found.is_none() {
            return Ok(Removal::Absent);
        }
        let (rows, in_work): (i64, i64) = sqlx::query_as(
            "select count(*), count(*) filter (where state not in ('completed', 'failed', 'cancelled'))
            from gromacs_to_tune where owner = $1 and namespace = $2",
        )
        .bind(role)
        .bind(namespace)
        .fetch_one(&mut *transaction)
        .await?;
        if in_work > 0 {
            return Ok(Removal::InWork(in_work));
        }
        if rows > 0 && !delete_rows {
            return Ok(Removal::HasRows(rows));
        }
        for statement in [
            "delete from gromacs_to_tune where owner = $1 and namespace = $2",
            "delete from gromacs_tenant where database_role = $1 and namespace = $2",
        ] {
            sqlx::query(statement).bind(role).bind(namespace).execute(&mut *transaction).await?;
        }
        finish(transaction, dry_run).await?;
        Ok(Removal::Removed(rows))
    }

    /// All tenants, one JSON object each, with the number of their rows by where they are.
    pub async fn tenants(&self) -> Result<Vec<serde_json::Value>, StoreError> {
        Ok(sqlx::query_scalar(
            "select to_jsonb(t) || jsonb_build_object('queued', r.queued, 'in_work', r.in_work, 'ended', r.ended)
            from gromacs_tenant t left join lateral (
                select count(*) filter (where q.state = 'queued') as queued,
                    count(*) filter (where q.state in ('completed', 'failed', 'cancelled')) as ended,
                    count(*) filter (where q.state in
                        ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')) as in_work
                from gromacs_to_tune q where q.owner = t.database_role and q.namespace = t.namespace) r on true
            order by t.database_role, t.namespace",
        )
        .fetch_all(&self.pool)
        .await?)
    }
}

async fn finish(transaction: Transaction<'_, Postgres>, dry_run: bool) -> Result<(), StoreError> {
    if dry_run {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(())
}

async fn upsert(transaction: &mut Transaction<'_, Postgres>, tenant: &Tenant) -> Result<Change, StoreError> {
    let before: Option<Tenant> =
        sqlx::query_as("select * from gromacs_tenant where database_role = $1 and namespace = $2")
            .bind(&tenant.database_role)
            .bind(&tenant.namespace)
            .fetch_optional(&mut **transaction)
            .await?;
    if before.as_ref() == Some(tenant) {
        return Ok(Change::Unchanged);
    }
    let described = json!(tenant);
    let names: Vec<&str> =
        described.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let columns = names.join(", ");
    let statement = format!(
        "insert into gromacs_tenant ({columns})
        select {columns} from jsonb_populate_record(null::gromacs_tenant, $1)
        on conflict (database_role, namespace) do update set ({columns}) = row(excluded.{})",
        names.join(", excluded.")
    );
    sqlx::query(AssertSqlSafe(statement)).bind(Json(&described)).execute(&mut **transaction).await?;
    Ok(if before.is_none() { Change::Added } else { Change::Changed })
}

/// Lets a role use the queue. A superuser may already.
async fn grant_chemist(transaction: &mut Transaction<'_, Postgres>, role: &str) -> Result<(), StoreError> {
    // Only the server itself quotes names for its statements.
    let found: Option<(bool, String)> = sqlx::query_as(
        "select pg_has_role(oid, 'gromacs_chemist', 'member'), format('grant gromacs_chemist to %I', rolname)
        from pg_roles where rolname = $1",
    )
    .bind(role)
    .fetch_optional(&mut **transaction)
    .await?;
    let Some((member, grant)) = found else { return Err(StoreError::FindRole(role.to_owned())) };
    if !member {
        sqlx::query(sqlx::AssertSqlSafe(grant)).execute(&mut **transaction).await?;
    }
    Ok(())
}
