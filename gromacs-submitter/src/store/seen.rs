//! What submitters have seen and measured, for all of them.

use jiff::Timestamp;
use scavenger_schema::simulation::GromacsToTune;

use super::{Store, StoreError, sql_time};
use crate::advance::{Earlier, MOST_SHORT_ENDS};
use crate::faults::Failure;

impl Store {
    /// When a submitter first saw what the operator wrote of the pool at `update`, by the database's clock: now, if none has
    /// seen it yet.
    pub async fn pool_seen(&self, update: Timestamp) -> Result<Timestamp, StoreError> {
        let seen: Option<jiff_sqlx::Timestamp> = sqlx::query_scalar(
            "with news as (
                insert into gromacs_pool_seen as p (update_time) values ($1)
                on conflict (only_row) do update set update_time = excluded.update_time, seen_time = excluded.seen_time
                    where p.update_time <> excluded.update_time
                returning seen_time)
            select seen_time from news
            union all select seen_time from gromacs_pool_seen where update_time = $1 and not exists (select from news)",
        )
        .bind(sql_time(update))
        .fetch_optional(&self.pool)
        .await?;
        // None: another process has written the same in this moment.
        Ok(seen.map_or_else(|| self.clock(), |seen| seen.to_jiff()))
    }

    /// Seconds that a restart of the row costs, as its last attempts measured it, or else those of the owner's newest rows:
    /// the time that nine of ten restarts keep. None if nobody has measured any.
    pub async fn restart_seconds(&self, row: &GromacsToTune) -> Result<Option<i32>, StoreError> {
        Ok(sqlx::query_scalar(
            "select coalesce(
                (select percentile_disc(0.9) within group (order by a.restart_seconds) from (
                    select restart_seconds from gromacs_attempt
                    where row_id = $1 and restart_seconds is not null
                    order by submission desc, attempt desc limit 10) a),
                (select percentile_disc(0.9) within group (order by a.restart_seconds) from gromacs_attempt a
                where a.row_id = any(array(
                        select q.id from gromacs_to_tune q where q.owner = $2 and q.start_time is not null
                        order by q.id desc limit 30))
                    and a.restart_seconds is not null))",
        )
        .bind(row.id)
        .bind(&row.owner)
        .fetch_one(&self.pool)
        .await?)
    }

    /// How the newest submissions of a row before this one ended, the newest first: as many as matter. If mdrun ended an attempt
    /// itself, the end of its log was kept unless it was at the last step.
    pub async fn earlier(&self, row: i64, submission: i32) -> Result<Vec<Earlier>, StoreError> {
        Ok(sqlx::query_as(
            "select coalesce(
                    (array_agg(outcome = 'completed' and log_end is not null order by attempt desc))[1], false) as is_short,
                coalesce(sum(extract(epoch from end_time - start_time)), 0)::double precision as seconds
            from gromacs_attempt where row_id = $1 and submission < $2
            group by submission order by submission desc limit $3",
        )
        .bind(row)
        .bind(submission)
        .bind(MOST_SHORT_ENDS - 1)
        .fetch_all(&self.pool)
        .await?)
    }

    /// The newest attempts of a row that failed, the newest first: as many as its tries can be.
    pub async fn failures(&self, row: i64) -> Result<Vec<Failure>, StoreError> {
        Ok(sqlx::query_as(
            "select submission, node, node_labels, image, message, log_end,
                coalesce(last_step > coalesce(first_step, -1), false) as made_a_step
            from gromacs_attempt where row_id = $1 and outcome = 'failed'
            order by submission desc, attempt desc limit 40",
        )
        .bind(row)
        .fetch_all(&self.pool)
        .await?)
    }
}
