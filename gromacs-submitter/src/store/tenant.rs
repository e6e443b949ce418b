//! Tenants: which database role may run simulations in which namespace. Only the admin may write them.

use serde::Serialize;
use sqlx::{Postgres, Transaction};

use super::{Store, StoreError};

/// A line of `gromacs_tenant`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, sqlx::FromRow)]
pub struct Tenant {
    /// Database role that people log in with.
    pub database_role: String,
    /// Namespace in which its rows may run.
    pub namespace: String,
    /// ServiceAccount of its simulations.
    pub service_account: Option<String>,
    /// Image of rows that name none.
    pub image: Option<String>,
    /// Images that rows may name; any if empty.
    pub image_patterns: Vec<String>,
    /// User id of its simulations.
    pub run_as_user: Option<i64>,
    /// Group id of its simulations.
    pub run_as_group: Option<i64>,
    /// Most CPU of a row, millicores.
    pub max_cpu_millicores: Option<i32>,
    /// Most memory of a row, bytes.
    pub max_memory_bytes: Option<i64>,
    /// Most GPUs of a row.
    pub max_gpus: Option<i32>,
    /// Least CPU of rows that say none, millicores.
    pub min_cpu_millicores: Option<i32>,
    /// Least predicted speed of rows that say none, ns per day.
    pub min_ns_per_day: Option<f64>,
    /// Least seconds between checkpoints.
    pub min_interruption_after_seconds: Option<i32>,
    /// Most seconds between checkpoints.
    pub max_interruption_after_seconds: Option<i32>,
    /// Most rows in work at the same time.
    pub max_rows_in_work: Option<i32>,
}

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
    ///
    /// # Errors
    /// The database's.
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
    let before: Option<Tenant> = sqlx::query_as(
        "select database_role, namespace, service_account, image, image_patterns, run_as_user, run_as_group,
            max_cpu_millicores, max_memory_bytes, max_gpus, min_cpu_millicores, min_ns_per_day,
            min_interruption_after_seconds, max_interruption_after_seconds, max_rows_in_work
        from gromacs_tenant where database_role = $1 and namespace = $2",
    )
    .bind(&tenant.database_role)
    .bind(&tenant.namespace)
    .fetch_optional(&mut **transaction)
    .await?;
    if before.as_ref() == Some(tenant) {
        return Ok(Change::Unchanged);
    }
    sqlx::query(
        "insert into gromacs_tenant (database_role, namespace, service_account, image, image_patterns, run_as_user,
            run_as_group, max_cpu_millicores, max_memory_bytes, max_gpus, min_interruption_after_seconds,
            max_interruption_after_seconds, max_rows_in_work, min_cpu_millicores, min_ns_per_day)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        on conflict (database_role, namespace) do update set
            service_account = excluded.service_account, image = excluded.image,
            image_patterns = excluded.image_patterns, run_as_user = excluded.run_as_user,
            run_as_group = excluded.run_as_group, max_cpu_millicores = excluded.max_cpu_millicores,
            max_memory_bytes = excluded.max_memory_bytes, max_gpus = excluded.max_gpus,
            min_interruption_after_seconds = excluded.min_interruption_after_seconds,
            max_interruption_after_seconds = excluded.max_interruption_after_seconds,
            max_rows_in_work = excluded.max_rows_in_work,
            min_cpu_millicores = excluded.min_cpu_millicores, min_ns_per_day = excluded.min_ns_per_day",
    )
    .bind(&tenant.database_role)
    .bind(&tenant.namespace)
    .bind(&tenant.service_account)
    .bind(&tenant.image)
    .bind(&tenant.image_patterns)
    .bind(tenant.run_as_user)
    .bind(tenant.run_as_group)
    .bind(tenant.max_cpu_millicores)
    .bind(tenant.max_memory_bytes)
    .bind(tenant.max_gpus)
    .bind(tenant.min_interruption_after_seconds)
    .bind(tenant.max_interruption_after_seconds)
    .bind(tenant.max_rows_in_work)
    .bind(tenant.min_cpu_millicores)
    .bind(tenant.min_ns_per_day)
    .execute(&mut **transaction)
    .await?;
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
