//! Progress of followed rows, written beside their steps.

use jiff::Timestamp;

use super::{Store, StoreError, sql_time};

/// Seconds for which a follower is believed to follow without another sign of life.
const FOLLOW_LEASE_SECONDS: f64 = 60.0;

/// The newest progress of a running attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The row.
    pub row: i64,
    /// Its UUID; a row that has got its number since, when a backup was restored, is left alone.
    pub uuid: String,
    /// The submission and the attempt it belongs to; a row that has gone on since is left alone.
    pub submission: i32,
    /// The attempt.
    pub attempt: i32,
    /// Last step.
    pub step: Option<i64>,
    /// Speed.
    pub ns_per_day: Option<f64>,
    /// When it was seen.
    pub time: Option<Timestamp>,
}

impl Store {
    /// Writes the progress of many rows in one statement, and that this process follows them. For each row that it
    /// could look at it tells whether that is so: false if another submitter follows it, or if it does not run any
    /// more. Rows that somebody is just writing are left for the next time.
    pub async fn write_progress(&self, progress: &[Progress]) -> Result<Vec<(i64, bool)>, StoreError> {
        // Locked in the order of their numbers and never waited for: no deadlock with steps and wakes.
        Ok(sqlx::query_as(
            "with news as (
                select * from unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::double precision[],
                    $6::timestamptz[], $9::uuid[]) as n (id, submission, attempt, step, ns_per_day, progress_time, uuid)),
            locked as (
                select q.id,
                    q.state = 'running' and q.submission = n.submission and q.attempt = n.attempt
                        and (q.follower is null or q.follower = $7 or q.followed_until < now()) as ours
                from gromacs_to_tune q join news n on n.id = q.id and n.uuid = q.uuid order by q.id for update of q skip locked),
            written as (
                update gromacs_to_tune q set
                    step = coalesce(n.step, q.step), ns_per_day = coalesce(n.ns_per_day, q.ns_per_day),
                    progress_time = coalesce(n.progress_time, q.progress_time),
                    follower = $7, followed_until = now() + make_interval(secs => $8)
                from news n, locked l where n.id = q.id and l.id = q.id and l.ours)
            select id, ours from locked",
        )
        .bind(progress.iter().map(|one| one.row).collect::<Vec<_>>())
        .bind(progress.iter().map(|one| one.submission).collect::<Vec<_>>())
        .bind(progress.iter().map(|one| one.attempt).collect::<Vec<_>>())
        .bind(progress.iter().map(|one| one.step).collect::<Vec<_>>())
        .bind(progress.iter().map(|one| one.ns_per_day).collect::<Vec<_>>())
        .bind(progress.iter().map(|one| one.time.map(sql_time)).collect::<Vec<_>>())
        .bind(&self.holder)
        .bind(FOLLOW_LEASE_SECONDS)
        .bind(progress.iter().map(|one| one.uuid.as_str()).collect::<Vec<_>>())
        .fetch_all(&self.pool)
        .await?)
    }

    /// True if another submitter follows the row.
    pub async fn is_followed_elsewhere(&self, row: i64) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar(
            "select exists (select from gromacs_to_tune where id = $1 and follower <> $2 and followed_until > now())",
        )
        .bind(row)
        .bind(&self.holder)
        .fetch_one(&self.pool)
        .await?)
    }

    /// Lets others follow what this process follows.
    pub async fn follow_no_more(&self) -> Result<(), StoreError> {
        sqlx::query(
            "update gromacs_to_tune set follower = null, followed_until = null
            where state = 'running' and follower = $1",
        )
        .bind(&self.holder)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
