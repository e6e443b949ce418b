//! All SQL of the submitter: claim, record, wake, and what the command line asks. Which rows a claim takes is the rule of
//! the function `gromacs_claim` in `schema/migrations`, which says why it is one.

mod add;
mod answer;
mod card;
mod clock;
mod edit;
mod end_report;
mod error;
mod folder;
mod progress;
mod put;
mod queue;
mod seen;
mod statement;
mod tenant;
mod write;

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use scavenger_schema::bounds;
use scavenger_schema::row;
use scavenger_schema::simulation::{EVENT_CHANNEL, GromacsToTune, LadderRung, MIGRATIONS, NOTIFY_CHANNEL};
use scavenger_schema::tuning::{Layout, MeasuredRun, SystemDescription};
use scavenger_vocabulary::Reason;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, ConnectOptions as _, FromRow as _, PgExecutor, PgPool, Row as _};

pub use add::{AddMode, Added};
pub use answer::Answer;
pub(crate) use card::is_of_this_machine;
pub use card::{Server, TenantFiles};
pub use edit::{Extended, Length};
pub use end_report::EndReport;
pub use error::StoreError;
pub use folder::{AttemptLog, RowFolder};
pub use progress::Progress;
pub use put::{Destination, InUse};
pub use queue::{ProjectSum, Ran, RowFilter, WaitingRow};
pub use scavenger_schema::row::{Edit, Labels, Moment, NewRow};
pub use tenant::{Change, Removal};

pub use crate::tenant::Tenant;

use crate::advance::{AttemptRecord, Kill, Observation, Refusal, Refused};
use crate::probe::Inspection;
use clock::Clock;

/// Every column of [`GromacsToTune`], `wakes`, and the time. Those that people give follow from the table of columns.
static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    let given: Vec<&str> = row::all().map(|column| column.name).collect();
    format!(
        "id, uuid::text as uuid, owner, service_account, pinned_image, inspected, {}, state, reason, submission, job_uid,
        configuration, next_configuration, attempt, first_step, step, ns_per_day, progress_time, interruptions, start_time, finish_time,
        next_attempt_time, failures, peak_memory_bytes, job_expiry_time, inspect_again, submitter_state, blocked,
        late_seconds, wakes, clock_timestamp() as read_time",
        given.join(", ")
    )
});

/// Longest wait for a row that somebody else holds.
const LOCK_TIMEOUT: &str = "5s";

/// Newest runs of the queue among which those of other rows of a system are looked for.
const NEWEST_RUNS: i64 = 2000;

/// The database.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    holder: String,
    lease: Duration,
    clock: Clock,
    reports_ends: bool,
}

/// A row that this submitter holds the lease of.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Claim {
    /// The row as it was read last.
    #[sqlx(flatten)]
    pub row: GromacsToTune,
    /// Its count of wakes then: if it has risen since, the row is due again at once.
    pub wakes: i64,
    /// When it was read, by the database's clock.
    pub read_time: jiff_sqlx::Timestamp,
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
    /// Those that it proposes after an interruption: others of the submission stay for the attempts that ran with them.
    pub renewed: Option<Vec<LadderRung>>,
    /// What the tuner said of them as a whole.
    pub answer: Option<Answer>,
    /// Attempts.
    pub attempts: Vec<AttemptRecord>,
    /// What earlier attempts lost, in seconds.
    pub lost: Vec<(i32, i64)>,
    /// What the history says of a checkpoint that could not be read.
    pub went_back: Option<String>,
    /// Measured runs.
    pub observations: Vec<Observation>,
    /// The configuration that mdrun refused, and its words.
    pub refused: Option<Refused>,
    /// Sets `append` to false.
    pub stops_appending: bool,
    /// Forgets `pinned_image`.
    pub forgets_image: bool,
    /// Takes back the user's requests, and forgets what mdrun refused before.
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
        Ok(Self { pool, holder, lease, clock: Clock::default(), reports_ends: false })
    }

    /// Applies the migrations that are missing; returns the version of the schema. A database that a newer version has
    /// migrated is left as it is: programs of the version before work with it, so that one can go back.
    ///
    /// # Errors
    /// If the database cannot be reached, is of before the first release, or a migration that was applied has changed since.
    pub async fn migrate(&self) -> Result<i64, StoreError> {
        self.applied_migrations().await?;
        let mut migrations = Migrator::with_migrations(MIGRATIONS.iter().cloned().collect());
        // A statement that takes more than a second is logged as a whole, and a migration is a statement of 100 kB.
        let options = self.pool.connect_options().as_ref().clone().disable_statement_logging();
        let pool = self.pool.options().clone().max_connections(1).connect_lazy_with(options);
        migrations.set_ignore_missing(true).run(&pool).await.map_err(StoreError::Migrate)?;
        pool.close().await;
        Ok(self.applied_migrations().await?.into_iter().max().unwrap_or(0))
    }

    /// The migrations that are missing: version and name.
    ///
    /// # Errors
    /// The database's, or that it is of before the first release.
    pub async fn missing_migrations(&self) -> Result<Vec<(i64, String)>, StoreError> {
        let applied = self.applied_migrations().await?;
        let missing = MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version));
        Ok(missing.map(|migration| (migration.version, migration.description.to_string())).collect())
    }

    /// Checks that the schema is as new as this program.
    ///
    /// # Errors
    /// [`StoreError::UseSchema`] with what to do, or the database's error.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let found = self.applied_migrations().await?.into_iter().max().unwrap_or(0);
        let needed = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
        if found >= needed { Ok(()) } else { Err(StoreError::UseSchema { found, needed }) }
    }

    /// Versions of the migrations that were applied. Those before the first of this program were never released.
    async fn applied_migrations(&self) -> Result<Vec<i64>, StoreError> {
        let known: bool = sqlx::query_scalar("select to_regclass('_sqlx_migrations') is not null")
            .fetch_one(&self.pool)
            .await?;
        if !known {
            return Ok(Vec::new());
        }
        let applied: Vec<i64> = sqlx::query_scalar("select version from _sqlx_migrations where success")
            .fetch_all(&self.pool)
            .await?;
        let first = MIGRATIONS.iter().map(|migration| migration.version).min().unwrap_or(0);
        match applied.iter().max() {
            Some(newest) if applied.iter().any(|version| *version < first) => {
                Err(StoreError::ReadOlderSchema(*newest))
            }
            _ => Ok(applied),
        }
    }

    /// Identity of the queue.
    pub async fn queue_id(&self) -> Result<String, StoreError> {
        Ok(sqlx::query_scalar("select queue_id from gromacs_queue_identity").fetch_one(&self.pool).await?)
    }

    /// Listens for inserted rows and requests.
    pub async fn listen(&self) -> Result<PgListener, StoreError> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(NOTIFY_CHANNEL).await?;
        Ok(listener)
    }

    /// Listens for that and for changes of state, for people who follow the queue.
    pub async fn listen_to_events(&self) -> Result<PgListener, StoreError> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen_all([NOTIFY_CHANNEL, EVENT_CHANNEL]).await?;
        Ok(listener)
    }

    /// Takes rows that are due and leases them to this process: those in work first, then the user's requests, then
    /// new ones, in turn from each owner, then those whose finished ScavengerJobs are to be removed. One round trip and
    /// one transaction.
    pub async fn claim(&self, options: &ClaimOptions) -> Result<Vec<Claim>, StoreError> {
        self.claim_on(&self.pool, options).await
    }

    async fn claim_on(
        &self,
        executor: impl PgExecutor<'_>,
        options: &ClaimOptions,
    ) -> Result<Vec<Claim>, StoreError> {
        let claim = format!("select {} from gromacs_claim($1, $2, $3, $4, $5, $6)", *COLUMNS);
        let rows = sqlx::query(AssertSqlSafe(claim))
            .bind(&self.holder)
            .bind(self.lease.as_secs_f64())
            .bind(&options.except)
            .bind(i32::try_from(options.limit).unwrap_or(i32::MAX))
            .bind(options.early)
            .bind(i32::try_from(options.max_waiting).unwrap_or(i32::MAX))
            .fetch_all(executor)
            .await?;
        // A row that a newer submitter made may be of a kind that this one does not know: the others are worked on.
        let readable = |row: PgRow| match Claim::from_row(&row) {
            Ok(claim) => Some(claim),
            Err(error) => {
                let row = row.try_get::<i64, _>("id").unwrap_or_default();
                tracing::error!(row, %error, "a row cannot be read; is the database schema newer than this program?");
                None
            }
        };
        let claims: Vec<Claim> = rows.into_iter().filter_map(readable).collect();
        if let Some(claim) = claims.last() {
            self.clock.set(claim.read_time.to_jiff());
        }
        Ok(claims)
    }

    /// Seconds until a row in work, or one that waits for its submission before to be gone, is due; none if there is
    /// no such row. What was due before the last claim, which began so long ago, that claim could not take: a limit holds
    /// it back, or somebody has it locked, and no clock says until when.
    pub async fn next_due(&self, claimed: Duration) -> Result<Option<f64>, StoreError> {
        Ok(sqlx::query_scalar(
            "select extract(epoch from min(due) - now())::double precision from (
                select min(next_attempt_time) as due from gromacs_to_tune
                where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')
                    and next_attempt_time > now() - make_interval(secs => $1)
                    and (lease_until is null or lease_until < now())
                union all
                select min(next_attempt_time) from gromacs_to_tune
                where state = 'queued' and submission > 1 and not held and not waits_for_rows
                    and next_attempt_time > now() - make_interval(secs => $1)
                    and (lease_until is null or lease_until < now())) d",
        )
        .bind(claimed.as_secs_f64())
        .fetch_one(&self.pool)
        .await?)
    }

    /// The configurations of a submission, largest first; among them those that are replaced.
    pub async fn ladder(&self, row: i64, submission: i32) -> Result<Vec<LadderRung>, StoreError> {
        Ok(sqlx::query_as(
            "select configuration, cpu_millicores, memory_bytes, gpus, node_labels, layout, ns_per_day_p10, ns_per_day_p50, ns_per_day_p90,
                hours_to_finish, efficiency, predicted_memory_bytes, hardware_class, fits_now, reason, model_version,
                replaced
            from gromacs_ladder where row_id = $1 and submission = $2 order by coalesce(place, configuration), configuration",
        )
        .bind(row)
        .bind(submission)
        .fetch_all(&self.pool)
        .await?)
    }

    /// What mdrun refused of a row since somebody last asked for it.
    pub async fn refusals(&self, row: i64) -> Result<Vec<Refusal>, StoreError> {
        Ok(sqlx::query_as(
            "select l.layout, l.refused as words, (
                select a.node from gromacs_attempt a
                where a.row_id = l.row_id and a.submission = l.submission and a.configuration = l.configuration
                order by a.attempt desc limit 1) as node
            from gromacs_ladder l where l.row_id = $1 and l.refused is not null order by l.submission, l.configuration",
        )
        .bind(row)
        .fetch_all(&self.pool)
        .await?)
    }

    /// The configurations of a row with which mdrun was killed for using more than its memory.
    pub async fn kills(&self, row: i64) -> Result<Vec<Kill>, StoreError> {
        Ok(sqlx::query_as(
            "select l.layout, a.memory_bytes, l.predicted_memory_bytes
            from gromacs_attempt a
            join gromacs_ladder l on l.row_id = a.row_id and l.submission = a.submission and l.configuration = a.configuration
            where a.row_id = $1 and a.reason = $2 and a.memory_bytes is not null",
        )
        .bind(row)
        .bind(Reason::OOMKilled.name())
        .fetch_all(&self.pool)
        .await?)
    }

    /// What attempts of a row measured before a submission, newest first, and then what the newest runs of its owner's other
    /// rows of the same system did: as much as a request to the tuner holds. Of equal resources only those count that ran on
    /// the same class of hardware as the row's newest: of two layouts on two kinds of nodes nobody knows which is the better
    /// one.
    pub async fn measured_runs(
        &self,
        row: i64,
        system: &SystemDescription,
        submission: i32,
    ) -> Result<Vec<MeasuredRun>, StoreError> {
        let runs: Vec<(i32, Json<Layout>, f64)> = sqlx::query_as(
            "with own as (
                select l.cpu_millicores, l.gpus, l.layout, a.ns_per_day, a.hardware_class, true as is_own,
                    row_number() over (order by a.submission, a.attempt) as age
                from gromacs_attempt a
                join gromacs_ladder l on l.row_id = a.row_id and l.submission = a.submission and l.configuration = a.configuration
                where a.row_id = $1 and a.submission < $2
            ), newest as materialized (
                -- Not all of them: a question must not read the whole table.
                select * from gromacs_observation order by observation_time desc limit $5
            ), others as (
                select o.cpu_millicores, o.gpus, o.layout, o.ns_per_day, o.hardware_class, false as is_own,
                    row_number() over (order by o.observation_time) as age
                from newest o
                where o.row_id <> $1 and o.owner = (select owner from gromacs_to_tune where id = $1)
                    and o.system - 'nsteps' = $4 - 'nsteps'
            ), runs as (
                select cpu_millicores, layout, ns_per_day, is_own, age, hardware_class,
                    first_value(hardware_class) over (partition by cpu_millicores, gpus
                        order by is_own desc, age desc) as newest_class
                from (select * from own union all select * from others) as runs
                where ns_per_day > 0 and hardware_class is not null
            )
            select cpu_millicores, layout, ns_per_day from runs
            where hardware_class = newest_class
            order by is_own desc, age desc limit $3",
        )
        .bind(row)
        .bind(submission)
        .bind(i64::try_from(bounds::MEASURED_RUNS.max).unwrap_or(i64::MAX))
        .bind(Json(system))
        .bind(NEWEST_RUNS)
        .fetch_all(&self.pool)
        .await?;
        let measured = |(cpu, layout, ns_per_day): (i32, Json<Layout>, f64)| {
            let cpu_millicores = u32::try_from(cpu).ok()?;
            let run = MeasuredRun { cpu_millicores, layout: layout.0, ns_per_day };
            (bounds::MAX_CPU_MILLICORES.contain(&cpu_millicores) && bounds::NS_PER_DAY.contain(&ns_per_day))
                .then_some(run)
        };
        Ok(runs.into_iter().filter_map(measured).collect())
    }

    /// Makes rows due at once because something happened to their ScavengerJobs.
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

    /// Number of rows by state, from the lines that each change of a state leaves; sums these up.
    pub async fn count_by_state(&self) -> Result<Vec<(String, i64)>, StoreError> {
        // What another submitter sums up at the moment is left to it.
        sqlx::query(
            "with gone as (
                delete from gromacs_state_count where id in (
                    select id from gromacs_state_count order by id for update skip locked)
                returning state, rows)
            insert into gromacs_state_count (state, rows) select state, sum(rows) from gone group by state",
        )
        .execute(&self.pool)
        .await?;
        Ok(sqlx::query_as(
            "select state, sum(rows)::bigint from gromacs_state_count group by state having sum(rows) > 0",
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Says that this process works on the queue, and lets `max_waiting` rows of an owner wait in the cluster. What has
    /// not been heard of for a day is forgotten.
    pub async fn is_alive(&self, max_waiting: usize) -> Result<(), StoreError> {
        sqlx::query(
            "with forgotten as (
                delete from gromacs_submitter_seen where seen_time < now() - interval '1 day' and holder <> $1)
            insert into gromacs_submitter_seen (holder, max_waiting) values ($1, $2)
            on conflict (holder) do update set max_waiting = excluded.max_waiting, seen_time = now()",
        )
        .bind(&self.holder)
        .bind(i32::try_from(max_waiting).unwrap_or(i32::MAX))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Says that this process works no more.
    pub async fn is_gone(&self) -> Result<(), StoreError> {
        sqlx::query("delete from gromacs_submitter_seen where holder = $1")
            .bind(&self.holder)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The time by the database's clock, which all submitters and all claims go by, as of the last row that was read.
    #[must_use]
    pub fn clock(&self) -> Timestamp {
        self.clock.now()
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

/// The time as the database column wants it.
fn sql_time(time: Timestamp) -> jiff_sqlx::Timestamp {
    time.into()
}
