//! What people ask about the queue, and ask it to do.

use std::collections::BTreeMap;

use jiff_sqlx::Timestamp;
use scavenger_schema::row::{self, statements};
use scavenger_schema::simulation::State;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::types::Json;

use super::{Claim, ClaimOptions, Store, StoreError, sql_time};

/// Which rows of the view `gromacs_queue`; an empty list or none is no condition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowFilter {
    /// Only these.
    pub rows: Option<Vec<i64>>,
    /// Only rows in one of these states.
    pub states: Vec<State>,
    /// Only this owner's.
    pub owner: Option<String>,
    /// Only of this namespace.
    pub namespace: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only with these labels.
    pub labels: BTreeMap<String, String>,
    /// These in any case.
    pub besides: Vec<i64>,
    /// Only those that have missed their deadline, or are expected to.
    pub late: bool,
    /// Only those that ended before that.
    pub ended_before: Option<jiff::Timestamp>,
    /// The newest so many.
    pub limit: Option<u32>,
}

impl RowFilter {
    fn states(&self) -> Vec<&'static str> {
        self.states.iter().map(|state| state.as_str()).collect()
    }

    fn labels(&self) -> Option<Json<&BTreeMap<String, String>>> {
        Some(Json(&self.labels)).filter(|labels| !labels.is_empty())
    }
}

/// One attempt that ran, with what it belongs to.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Ran {
    /// The row.
    pub row_id: i64,
    /// Its owner.
    pub owner: String,
    /// Namespace it ran in.
    pub namespace: String,
    /// The file.
    pub tpr_path: String,
    /// `simulation`, `calibration` or `command`.
    pub kind: String,
    /// Submission.
    pub submission: i32,
    /// Attempt.
    pub attempt: i32,
    /// CPU, millicores.
    pub cpu_millicores: Option<i32>,
    /// Memory, bytes.
    pub memory_bytes: Option<i64>,
    /// GPUs.
    pub gpus: Option<i32>,
    /// Ranks.
    pub ntmpi: Option<i32>,
    /// Threads of each.
    pub ntomp: Option<i32>,
    /// When its pod ran.
    pub start_time: Timestamp,
    /// When it ended; none while it runs.
    pub end_time: Option<Timestamp>,
    /// How.
    pub outcome: Option<String>,
    /// Why, one word.
    pub reason: Option<String>,
    /// Step at which it started.
    pub first_step: Option<i64>,
    /// Last step it is known to have computed.
    pub last_step: Option<i64>,
    /// Time step, ps.
    pub dt_ps: Option<f64>,
    /// CPU of its node for pods, millicores; none also of an attempt that taught the tuner nothing.
    pub node_cpu_millicores: Option<i32>,
    /// CPU that all pods on the node requested when it began to run, millicores.
    pub node_requested_millicores: Option<i32>,
    /// Measured speed; of one that runs, what the row estimates.
    pub ns_per_day: Option<f64>,
    /// Seconds that it ran after its last checkpoint, if they were measured.
    pub lost_seconds: Option<i64>,
}

/// A row that waits for others.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct WaitingRow {
    /// The row.
    pub id: i64,
    /// Its owner.
    pub owner: String,
    /// Namespace it runs in.
    pub namespace: String,
    /// The file.
    pub tpr_path: String,
    /// Which rows it waits for, and what to do if one of them has failed.
    pub reason: String,
}

/// What became of the rows of a project.
#[derive(Debug, Clone, PartialEq, serde::Serialize, sqlx::FromRow)]
pub struct ProjectSum {
    /// The project; none for rows without.
    pub project: Option<String>,
    /// Its rows.
    pub rows: i64,
    /// Those that are completed.
    pub completed: i64,
    /// Those that failed.
    pub failed: i64,
    /// Those that were cancelled.
    pub cancelled: i64,
    /// Those that run.
    pub running: i64,
    /// Those that wait, in the cluster or in line.
    pub waiting: i64,
    /// Seconds until the rest is done at the speed of what runs now; none if nothing runs, or if the size of some rows is
    /// not known and cannot be guessed from others.
    pub seconds_left: Option<f64>,
    /// Why rows failed, and how many for each reason, the most frequent first. Numbers are left out.
    #[sqlx(json)]
    pub failures: Vec<(String, i64)>,
}

/// Gives a statement with a filter its values.
macro_rules! bound {
    ($query:expr, $filter:expr) => {
        $query
            .bind(&$filter.rows)
            .bind($filter.states())
            .bind(&$filter.owner)
            .bind(&$filter.namespace)
            .bind(&$filter.project)
            .bind($filter.labels())
            .bind($filter.late)
            .bind($filter.ended_before.map(sql_time))
    };
}

impl Store {
    /// Rows of the view `gromacs_queue` in the order of their numbers, one JSON object each, with the seconds that are
    /// left by the database's clock. The rows are chosen by an index, and only for these the view is worked out.
    pub async fn list(&self, filter: &RowFilter) -> Result<Vec<Value>, StoreError> {
        let mut rows: Vec<Value> = bound!(sqlx::query_scalar(statements::LIST), filter)
            .bind(&filter.besides)
            .bind(filter.limit.map(i64::from))
            // Planned for these values each time: an index for a state is of no use to a plan for all states.
            .persistent(false)
            .fetch_all(&self.pool)
            .await?;
        rows.reverse();
        Ok(rows)
    }

    /// Everything about a row: its line of the view, what was asked for, its attempts, configurations and history.
    pub async fn show(&self, row: i64) -> Result<Option<Value>, StoreError> {
        let found = sqlx::query(
            concat!("select jsonb_build_object(
                'row', ", scavenger_schema::queue_row!(), ",
                'simulation', (select jsonb_object_agg(key, value) from jsonb_each(to_jsonb(t)) where key = any ($2))
                    || jsonb_build_object(
                    'uuid', t.uuid, 'pinned_image', t.pinned_image, 'state_time', t.state_time, 'submission', t.submission,
                    'seconds_in_state', extract(epoch from now() - t.state_time)::bigint,
                    'rows_ahead', case when t.state = 'queued' then (
                        select count(*) from gromacs_to_tune a where a.state = 'queued' and not a.held
                            and not a.waits_for_rows and a.owner = t.owner
                            and (a.priority > t.priority or (a.priority = t.priority and a.id < t.id))) end),
                'ladder', (select coalesce(jsonb_agg(to_jsonb(l) order by l.submission, coalesce(l.place, l.configuration), l.configuration), '[]')
                    from gromacs_ladder l where l.row_id = q.id),
                'tuner_answers', (select coalesce(jsonb_agg(to_jsonb(w) order by w.submission), '[]')
                    from gromacs_tuner_answer w where w.row_id = q.id),
                'attempts', (select coalesce(jsonb_agg(to_jsonb(a) || jsonb_build_object('run_seconds',
                        case when a.start_time is not null then
                            greatest(0, extract(epoch from coalesce(a.end_time, now()) - a.start_time))::bigint end)
                        order by a.submission, a.attempt), '[]')
                    from gromacs_attempt a where a.row_id = q.id),
                'events', (select coalesce(jsonb_agg(to_jsonb(e) order by e.id), '[]')
                    from gromacs_event e where e.row_id = q.id)) as story
            from gromacs_queue q join gromacs_to_tune t on t.id = q.id where q.id = $1"),
        )
        .bind(row)
        .bind(row::all().map(|column| column.name).collect::<Vec<_>>())
        .fetch_optional(&self.pool)
        .await?;
        Ok(found.map(|row| row.try_get("story")).transpose()?)
    }

    /// The rows that `filter` selects, summed up by project.
    pub async fn projects(&self, filter: &RowFilter) -> Result<Vec<ProjectSum>, StoreError> {
        Ok(bound!(sqlx::query_as(statements::PROJECTS), filter)
            .persistent(false)
            .fetch_all(&self.pool)
            .await?)
    }

    /// Number and state of the rows that `filter` selects, and of those of its rows that exist.
    pub async fn select(&self, filter: &RowFilter) -> Result<Vec<(i64, String)>, StoreError> {
        Ok(bound!(sqlx::query_as(statements::SELECT), filter).persistent(false).fetch_all(&self.pool).await?)
    }

    /// Sets `cancel_requested` on those of `rows` that have not ended; returns these.
    pub async fn request_cancel(&self, rows: &[i64]) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(statements::CANCEL).bind(rows).fetch_all(&self.pool).await?)
    }

    /// Sets `retry_requested` on those of `rows` that failed or were cancelled; returns these.
    pub async fn request_retry(&self, rows: &[i64]) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(statements::RETRY).bind(rows).fetch_all(&self.pool).await?)
    }

    /// Every attempt of the rows of `filter` that ran at some time since `since`, in the order of its start.
    pub async fn ran(&self, filter: &RowFilter, since: jiff::Timestamp) -> Result<Vec<Ran>, StoreError> {
        Ok(bound!(sqlx::query_as(statements::RAN), filter)
            .bind(sql_time(since))
            .fetch_all(&self.pool)
            .await?)
    }

    /// The rows that [`Store::claim`] would take now to go on with, in the order of their numbers; the leases are taken
    /// back at once.
    pub async fn would_claim(&self, options: &ClaimOptions) -> Result<Vec<Claim>, StoreError> {
        let mut transaction = self.pool.begin().await?;
        let mut claims = self.claim_on(&mut *transaction, options).await?;
        transaction.rollback().await?;
        // Of what has ended without a request to go on, only its ScavengerJob is removed.
        claims.retain(|claim| !claim.row.status.state.is_final() || claim.row.retry_requested);
        claims.sort_by_key(|claim| claim.row.id);
        Ok(claims)
    }

    /// Queued rows that wait for other rows, and for which: the first so many.
    pub async fn waiting_for_rows(&self, limit: i64) -> Result<Vec<WaitingRow>, StoreError> {
        Ok(sqlx::query_as(
            "select q.id, q.owner, q.namespace, q.tpr_path, coalesce(gromacs_waits_for(q.id, q.after, q.after_any), '') as reason
            from gromacs_to_tune q where q.state = 'queued' and q.waits_for_rows order by q.id limit $1",
        )
        .bind(limit)
        .fetch_all(&self.pool)
        .await?)
    }

    /// How many rows that have not ended are expected to miss their deadlines, or have missed them.
    pub async fn count_late(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar(
            "select count(*) from gromacs_to_tune where deadline is not null
                and state not in ('completed', 'failed', 'cancelled')
                and (late_seconds is not null or deadline < now())",
        )
        .fetch_one(&self.pool)
        .await?)
    }

    /// The database's clock, which stamped all times.
    pub async fn now(&self) -> Result<jiff::Timestamp, StoreError> {
        let now: Timestamp = sqlx::query_scalar("select now()").fetch_one(&self.pool).await?;
        Ok(now.to_jiff())
    }
}
