//! Ends of rows that are to be reported to a webhook: written with the end itself, removed when they are delivered.

use std::time::Duration;

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Postgres, Transaction};

use super::{Store, StoreError};

/// The end of a row, as it is reported.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct EndReport {
    /// Its number.
    pub id: i64,
    /// The row.
    pub row_id: i64,
    /// How often it was sent, this time included.
    pub tries: i32,
    /// What is sent.
    pub document: Json<Value>,
}

/// Adds what is to be reported of a row that has ended. Reasons and sums are those of the view that people read.
pub(super) async fn add(transaction: &mut Transaction<'_, Postgres>, row: i64) -> Result<(), StoreError> {
    sqlx::query(
        "insert into gromacs_end_report (row_id, document)
        select t.id, jsonb_build_object(
            'row', t.id, 'submission', t.submission, 'kind', t.kind, 'owner', t.owner, 'namespace', t.namespace,
            'project', t.project, 'labels', t.labels, 'tpr_path', t.tpr_path, 'state', t.state, 'reason', q.reason,
            'ns_done', case when coalesce(t.inspected ->> 'integrator', '') not in ('steep', 'cg', 'l-bfgs') then
                trim_scale(round((t.step - coalesce(t.init_step, 0))::numeric * t.dt_ps::numeric / 1000, 6)) end,
            'ns_per_day', t.ns_per_day, 'wall_seconds', q.wall_seconds, 'run_seconds', q.run_seconds,
            'interruptions', t.interruptions, 'lost_seconds', q.lost_seconds,
            'start_time', t.start_time, 'finish_time', t.finish_time)
        from gromacs_to_tune t join gromacs_queue q on q.id = t.id where t.id = $1",
    )
    .bind(row)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

impl Store {
    /// The same store, which keeps the end of each row that it records to be reported.
    #[must_use]
    pub fn that_reports_ends(self) -> Self {
        Self { reports_ends: true, ..self }
    }

    /// Takes reports that are due, oldest first. No other submitter takes them for the time `held`, and each counts as one
    /// try.
    pub async fn take_end_reports(&self, limit: i64, held: Duration) -> Result<Vec<EndReport>, StoreError> {
        Ok(sqlx::query_as(
            "with due as (
                select id from gromacs_end_report where next_try_time <= now()
                order by next_try_time, id limit $1 for update skip locked)
            update gromacs_end_report r set tries = r.tries + 1, next_try_time = now() + make_interval(secs => $2)
            from due where r.id = due.id returning r.id, r.row_id, r.tries, r.document",
        )
        .bind(limit)
        .bind(held.as_secs_f64())
        .fetch_all(&self.pool)
        .await?)
    }

    /// Sends a report again after `delay`.
    pub async fn delay_end_report(&self, id: i64, delay: Duration) -> Result<(), StoreError> {
        sqlx::query(
            "update gromacs_end_report set next_try_time = now() + make_interval(secs => $2) where id = $1",
        )
        .bind(id)
        .bind(delay.as_secs_f64())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Forgets a report: it is delivered, or given up.
    pub async fn remove_end_report(&self, id: i64) -> Result<(), StoreError> {
        sqlx::query("delete from gromacs_end_report where id = $1").bind(id).execute(&self.pool).await?;
        Ok(())
    }

    /// Forgets reports of ends before `age`; returns the rows.
    pub async fn remove_old_end_reports(&self, age: Duration) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(
            "delete from gromacs_end_report where creation_time < now() - make_interval(secs => $1) returning row_id",
        )
        .bind(age.as_secs_f64())
        .fetch_all(&self.pool)
        .await?)
    }

    /// How many ends are yet to be reported.
    pub async fn count_end_reports(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("select count(*) from gromacs_end_report").fetch_one(&self.pool).await?)
    }
}
