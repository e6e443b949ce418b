//! All SQL of the submitter: claim, record, wake, and what the command line asks.

mod add;
mod error;
mod progress;
mod queue;
mod tenant;
mod write;

use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::simulation::{
    EVENT_CHANNEL, GromacsToTune, LadderRung, MIGRATIONS, NOTIFY_CHANNEL, RowStatus,
};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

pub use add::{AddMode, Added, NewRow};
pub use error::StoreError;
pub use progress::Progress;
pub use queue::{Ran, RowFilter};
pub use tenant::{Change, Removal, Tenant};

use crate::advance::{AttemptRecord, Observation};
use crate::probe::Inspection;

/// Every column of [`GromacsToTune`], and `wakes`.
macro_rules! columns {
    () => {
        "id, kind, owner, namespace, persistent_volume_claim, tpr_path, image, run_as_user, run_as_group, priority,
        max_cpu_millicores, max_memory_bytes, max_gpus, interruption_after_seconds, fallback_after_seconds,
        service_account, atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order,
        bonded_interactions, constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version,
        benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels,
        inspected is not null as is_inspected, cancel_requested, retry_requested,
        state, reason, submission, job_uid, rung, next_rung, laps, next_lap_time, no_room_since, no_room_seconds,
        attempt, attempts_recorded, first_step, step, ns_per_day, progress_time, interruptions, verifying,
        start_time, finish_time, next_attempt_time, failures, outgrown_memory_bytes, peak_memory_bytes,
        job_expiry_time, wakes"
    };
}
use columns;

/// Longest wait for a row that somebody else holds.
const LOCK_TIMEOUT: &str = "5s";

/// The database.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    holder: String,
    lease: Duration,
}

/// A row that this submitter holds the lease of.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Claim {
    /// The row as it was read last.
    #[sqlx(flatten)]
    pub row: GromacsToTune,
    /// Its count of wakes then: if it has risen since, the row is due again at once.
    pub wakes: i64,
}

/// Which rows to claim.
#[derive(Debug, Clone)]
pub struct ClaimOptions {
    /// At most this many.
    pub limit: usize,
    /// Rows that this submitter works on, or has dealt with.
    pub except: Vec<i64>,
    /// At most this many rows of an owner wait in the cluster.
    pub max_waiting: usize,
    /// Takes rows before their time too, unless they sit out a delay after a failure.
    pub early: bool,
}

/// What one step writes, in one transaction.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// What the inspection found.
    pub inspection: Option<Inspection>,
    /// The tuner's configurations.
    pub ladder: Option<Vec<LadderRung>>,
    /// Attempts.
    pub attempts: Vec<AttemptRecord>,
    /// Measured runs.
    pub observations: Vec<Observation>,
    /// Takes back the user's requests.
    pub clears_requests: bool,
    /// Gives the lease back.
    pub releases: bool,
}

impl Store {
    /// Opens connections as they are needed; none is made here. `holder` names this process in leases.
    ///
    /// # Errors
    /// [`StoreError::ReadUrl`] if `url` is no Postgres URL.
    pub fn new(
        url: &str,
        holder: String,
        lease: Duration,
        max_connections: u32,
        connect_timeout: Duration,
    ) -> Result<Self, StoreError> {
        // The URL holds a password: the parser's error repeats none of it.
        let options: PgConnectOptions = url.parse().map_err(|_| StoreError::ReadUrl)?;
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(connect_timeout)
            .connect_lazy_with(options.application_name("gromacs-submitter").options([
                // Compiling the claim takes 30 ms, running it 1 ms.
                ("jit", "off"),
                // People may leave a transaction open that holds one of their rows. Whoever waits for it has a
                // connection that the others need; the step is repeated.
                ("lock_timeout", LOCK_TIMEOUT),
            ]));
        Ok(Self { pool, holder, lease })
    }

    /// Applies the migrations that are missing; returns the version of the schema.
    ///
    /// # Errors
    /// If the database cannot be reached, or a migration that was applied has changed since.
    pub async fn migrate(&self) -> Result<i64, StoreError> {
        MIGRATIONS.run(&self.pool).await.map_err(StoreError::Migrate)?;
        Ok(newest_version())
    }

    /// The migrations that are missing: version and name.
    ///
    /// # Errors
    /// The database's.
    pub async fn missing_migrations(&self) -> Result<Vec<(i64, String)>, StoreError> {
        let known: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
            .fetch_one(&self.pool)
            .await?;
        let applied: Vec<i64> = if known {
            sqlx::query_scalar("select version from _sqlx_migrations where success")
                .fetch_all(&self.pool)
                .await?
        } else {
            Vec::new()
        };
        let missing = MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version));
        Ok(missing.map(|migration| (migration.version, migration.description.to_string())).collect())
    }

    /// Checks that the schema is as new as this program.
    ///
    /// # Errors
    /// [`StoreError::UseSchema`] with what to do, or the database's error.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let known: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
            .fetch_one(&self.pool)
            .await?;
        let found: Option<i64> = if known {
            sqlx::query_scalar("select max(version) from _sqlx_migrations where success")
                .fetch_one(&self.pool)
                .await?
        } else {
            None
        };
        let needed = newest_version();
        match found {
            Some(found) if found >= needed => Ok(()),
            found => Err(StoreError::UseSchema { found: found.unwrap_or(0), needed }),
        }
    }

    /// Identity of the queue.
    ///
    /// # Errors
    /// The database's.
    pub async fn queue_id(&self) -> Result<String, StoreError> {
        Ok(sqlx::query_scalar("select queue_id from gromacs_queue_identity").fetch_one(&self.pool).await?)
    }

    /// Listens for inserted rows and requests.
    ///
    /// # Errors
    /// The database's.
    pub async fn listen(&self) -> Result<PgListener, StoreError> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(NOTIFY_CHANNEL).await?;
        Ok(listener)
    }

    /// Listens for that and for changes of state, for people who follow the queue.
    ///
    /// # Errors
    /// The database's.
    pub async fn listen_to_events(&self) -> Result<PgListener, StoreError> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen_all([NOTIFY_CHANNEL, EVENT_CHANNEL]).await?;
        Ok(listener)
    }

    /// Takes rows that are due and leases them to this process: those in work first, then the user's requests, then
    /// new ones, in turn from each owner, then those whose finished ScavengerJobs are to be removed.
    ///
    /// # Errors
    /// The database's.
    pub async fn claim(&self, options: &ClaimOptions) -> Result<Vec<Claim>, StoreError> {
        let mut except = options.except.clone();
        let mut claims: Vec<Claim> = Vec::new();
        for query in [CLAIM_ACTIVE, CLAIM_REQUESTED, CLAIM_QUEUED, CLAIM_EXPIRED] {
            let room = options.limit.saturating_sub(claims.len());
            if room == 0 {
                break;
            }
            let claim = sqlx::query_as(query)
                .bind(&self.holder)
                .bind(self.lease.as_secs_f64())
                .bind(&except)
                .bind(i64::try_from(room).unwrap_or(i64::MAX))
                .bind(options.early)
                .bind(i64::try_from(options.max_waiting).unwrap_or(i64::MAX));
            let found: Vec<Claim> = if query == CLAIM_QUEUED {
                let mut transaction = self.pool.begin().await?;
                // One at a time, so that two submitters do not both count the same room under max_waiting.
                sqlx::query("select pg_advisory_xact_lock(hashtext('gromacs_to_tune claim'))")
                    .execute(&mut *transaction)
                    .await?;
                let found = claim.fetch_all(&mut *transaction).await?;
                transaction.commit().await?;
                found
            } else {
                claim.fetch_all(&self.pool).await?
            };
            except.extend(found.iter().map(|claim| claim.row.id));
            claims.extend(found);
        }
        Ok(claims)
    }

    /// Seconds until a row in work, or one that waits for its submission before to be gone, is due; none if there is
    /// no such row.
    ///
    /// # Errors
    /// The database's.
    pub async fn next_due(&self) -> Result<Option<f64>, StoreError> {
        Ok(sqlx::query_scalar(
            "select extract(epoch from min(due) - now())::double precision from (
                select min(next_attempt_time) as due from gromacs_to_tune
                where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
                    and (lease_until is null or lease_until < now())
                union all
                select min(next_attempt_time) from gromacs_to_tune
                where state = 'queued' and submission > 1 and (lease_until is null or lease_until < now())) d",
        )
        .fetch_one(&self.pool)
        .await?)
    }

    /// Writes what a step decided, if this process still holds the row; returns the row as it is then.
    ///
    /// # Errors
    /// [`StoreError::LoseLease`] if another process holds it by now, or the database's.
    pub async fn record(
        &self,
        claim: &Claim,
        status: &RowStatus,
        changes: &Changes,
    ) -> Result<Claim, StoreError> {
        let mut transaction = self.pool.begin().await?;
        write::changes(&mut transaction, &claim.row, changes).await?;
        let written = write::status(&mut transaction, self, claim, status, changes).await?;
        transaction.commit().await?;
        Ok(written)
    }

    /// The configurations of a submission, largest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn ladder(&self, row: i64, submission: i32) -> Result<Vec<LadderRung>, StoreError> {
        Ok(sqlx::query_as(
            "select rung, cpu_millicores, memory_bytes, gpus, layout, ns_per_day_p10, ns_per_day_p50, ns_per_day_p90,
                hours_to_finish, efficiency, predicted_memory_bytes, hardware_class, fits_now, reason, model_version
            from gromacs_ladder where row_id = $1 and submission = $2 order by rung",
        )
        .bind(row)
        .bind(submission)
        .fetch_all(&self.pool)
        .await?)
    }

    /// Makes rows due at once because something happened to their ScavengerJobs.
    ///
    /// # Errors
    /// The database's.
    pub async fn wake(&self, rows: &[i64]) -> Result<(), StoreError> {
        sqlx::query(
            "update gromacs_to_tune set wakes = wakes + 1, next_attempt_time = least(next_attempt_time, now())
            where id = any($1) and state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted', 'queued')",
        )
        .bind(rows)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Gives back every lease of this process.
    ///
    /// # Errors
    /// The database's.
    pub async fn release_all(&self) -> Result<(), StoreError> {
        sqlx::query(
            "update gromacs_to_tune set lease_holder = null, lease_until = null where lease_holder = $1",
        )
        .bind(&self.holder)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Namespaces in which ScavengerJobs of this queue may exist.
    ///
    /// # Errors
    /// The database's.
    pub async fn namespaces(&self) -> Result<Vec<String>, StoreError> {
        Ok(sqlx::query_scalar(
            "select distinct namespace from gromacs_to_tune
            where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
                or (state = 'queued' and submission > 1)
            order by namespace",
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Number of rows by state.
    ///
    /// # Errors
    /// The database's.
    pub async fn count_by_state(&self) -> Result<Vec<(String, i64)>, StoreError> {
        Ok(sqlx::query_as("select state, count(*) from gromacs_to_tune group by state")
            .fetch_all(&self.pool)
            .await?)
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The connections, for tests.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }
}

fn newest_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The time as the database column wants it.
fn sql_time(time: Timestamp) -> jiff_sqlx::Timestamp {
    time.into()
}

// $1 holder, $2 seconds of the lease, $3 rows to leave out, $4 how many, $5 early, $6 max_waiting. A lease of this
// process on a row that it does not work on was left behind by a failed write, and is taken again.

const CLAIM_ACTIVE: &str = concat!(
    "with due as (
        select id from gromacs_to_tune
        where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
            and (next_attempt_time <= now() or ($5 and failures = 0))
            and (lease_until is null or lease_until < now() or lease_holder = $1)
            and id <> all($3) and $6 >= 0
        order by next_attempt_time limit $4 for update skip locked)
    update gromacs_to_tune set lease_holder = $1, lease_until = now() + make_interval(secs => $2)
    where id in (select id from due) returning ",
    columns!()
);

const CLAIM_REQUESTED: &str = concat!(
    "with retries as (
        select id from gromacs_to_tune
        where retry_requested and state in ('failed', 'cancelled') and ($5 or next_attempt_time <= now())
            and (lease_until is null or lease_until < now() or lease_holder = $1) and id <> all($3) and $6 >= 0
        limit $4 for update skip locked),
    cancels as (
        select id from gromacs_to_tune
        where cancel_requested and state = 'queued' and ($5 or next_attempt_time <= now())
            and (lease_until is null or lease_until < now() or lease_holder = $1) and id <> all($3)
        limit $4 for update skip locked),
    due as (select id from retries union all select id from cancels limit $4)
    update gromacs_to_tune set lease_holder = $1, lease_until = now() + make_interval(secs => $2)
    where id in (select id from due) returning ",
    columns!()
);

// Owners and their namespaces are found by skipping from one to the next in the index, so that neither a backlog of
// one nor its length costs the others anything. Who has least in the cluster comes first, then each owner's first rows
// in turn. Only what is taken is locked. What somebody else holds is skipped, so more are looked at than are taken:
// whoever holds more than these 8 holds up nobody else's.
const CLAIM_QUEUED: &str = concat!(
    "with recursive tenants as (
        (select owner, namespace from gromacs_to_tune where state = 'queued' order by owner, namespace limit 1)
        union all
        select n.owner, n.namespace from tenants t, lateral (
            select q.owner, q.namespace from gromacs_to_tune q
            where q.state = 'queued' and (q.owner, q.namespace) > (t.owner, t.namespace)
            order by q.owner, q.namespace limit 1) n),
    owners as materialized (
        select o.owner, (select count(*) from gromacs_to_tune w where w.owner = o.owner
            and (w.state in ('inspecting', 'tuning', 'submitted', 'interrupted')
                or (w.state = 'queued' and w.lease_until is not null))) as waiting
        from (select distinct owner from tenants) o),
    room as materialized (
        select t.owner, t.namespace, o.waiting, greatest(0, least($4 + 8, $6 - o.waiting, (
            select l.max_rows_in_work - (select count(*) from gromacs_to_tune w
                where w.owner = t.owner and w.namespace = t.namespace
                    and (w.state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
                        or (w.state = 'queued' and w.lease_until is not null)))
            from gromacs_tenant l where l.database_role = t.owner and l.namespace = t.namespace
                and l.max_rows_in_work is not null))) as free
        from tenants t join owners o using (owner)),
    heads as (
        select h.id, r.waiting, row_number() over (partition by r.owner order by h.priority desc, h.id) as turn
        from room r, lateral (
            select q.id, q.priority from gromacs_to_tune q
            where q.state = 'queued' and q.owner = r.owner and q.namespace = r.namespace
                and (q.next_attempt_time <= now() or ($5 and q.failures = 0))
                and (q.lease_until is null or q.lease_until < now() or q.lease_holder = $1)
                and q.id <> all($3)
            order by q.priority desc, q.id limit r.free) h),
    picked as (
        select l.id from (
            select h.id, h.waiting + h.turn as turn from heads h where h.waiting + h.turn <= $6
            order by turn, h.id) p,
        -- One row at a time by its key: the planner, which can not know how few these are, would read the whole table.
        lateral (
            select q.id from gromacs_to_tune q
            where q.id = p.id and q.state = 'queued'
                and (q.lease_until is null or q.lease_until < now() or q.lease_holder = $1)
            for update skip locked) l
        order by p.turn, p.id limit $4)
    update gromacs_to_tune set lease_holder = $1, lease_until = now() + make_interval(secs => $2)
    where id in (select id from picked) returning ",
    columns!()
);

const CLAIM_EXPIRED: &str = concat!(
    "with due as (
        select id from gromacs_to_tune
        where job_expiry_time <= now() and state in ('completed', 'failed', 'cancelled')
            and (($5 and failures = 0) or next_attempt_time <= now())
            and (lease_until is null or lease_until < now() or lease_holder = $1) and id <> all($3) and $6 >= 0
        order by job_expiry_time limit $4 for update skip locked)
    update gromacs_to_tune set lease_holder = $1, lease_until = now() + make_interval(secs => $2)
    where id in (select id from due) returning ",
    columns!()
);
