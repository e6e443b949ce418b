//! Measured runs from Postgres. Read only: the submitter writes them.

use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::time::Duration;

use scavenger_schema::tuning::{DroppedRuns, Layout, Resources, SystemDescription};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::error::Fault;
use scavenger_tuner_model::hardware::UNKNOWN;
use scavenger_tuner_model::model::Observation;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{FromRow as _, PgPool};

use crate::http::Service;

/// Longest wait for a connection or an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Most runs of one owner on one class of hardware: nobody's runs can crowd out those of others.
const MOST_PER_OWNER: i64 = 200;
/// Most runs in all.
const MOST: i64 = 100_000;
/// What the database notifies on when runs were added (schema/migrations).
const CHANNEL: &str = "gromacs_observation";
/// Wait after a notification for further ones.
const BURST: Duration = Duration::from_millis(200);
/// Runs shorter than this say more about the start than about the speed.
pub(crate) const SHORTEST_SECONDS: f64 = 5.0;

/// Why the measured runs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The URL of the database is no such.
    #[error("--database-url is no Postgres URL")]
    Url(#[source] sqlx::Error),
    /// The database did not answer, or not what was expected.
    #[error("cannot read gromacs_observation")]
    Query(#[source] sqlx::Error),
    /// The database took too long.
    #[error("the database did not answer within {PATIENCE:?}")]
    Timeout,
}

/// Why a run is not learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Dropped {
    /// The start weighs too much.
    #[error("shorter than {SHORTEST_SECONDS} s")]
    Short,
    /// Nobody knows on which kind it ran.
    #[error("could have run on several kinds of nodes: it has no node labels")]
    SeveralKinds,
    /// There are too many.
    #[error(
        "older than the {MOST_PER_OWNER} newest of its owner on that hardware, or than the {MOST} newest of all"
    )]
    Older,
    /// The row is wrong.
    #[error("system, layout or resources cannot be read")]
    Unreadable,
    /// The layout is taken for one that mdrun refuses.
    #[error("the tuner takes its layout for one that mdrun refuses")]
    Refused,
}

/// What was read.
#[derive(Debug)]
pub struct Read {
    /// Runs to learn from.
    pub runs: Vec<Observation>,
    /// How many others there are, by reason.
    pub dropped: Vec<DroppedRuns>,
}

/// Where the runs are.
#[derive(Clone, Debug)]
pub struct Source {
    /// One connection listens, one asks.
    pool: PgPool,
}

/// What is compared to see whether anything is new: rows are only added.
type Newest = (i64, Option<i64>);

#[derive(sqlx::FromRow)]
struct Row {
    system: Value,
    layout: Value,
    node_labels: Value,
    cpu_millicores: i32,
    gpus: i32,
    gromacs_version: Option<String>,
    ns_per_day: f64,
    owner: String,
    peak_memory_bytes: Option<i64>,
    wall_seconds: f64,
}

impl Source {
    /// Reads from the database at `url`. Connects when first asked.
    pub fn new(url: &str) -> Result<Self, ReadError> {
        let options =
            PgConnectOptions::from_str(url).map_err(ReadError::Url)?.application_name("scavenger-tuner");
        let pool =
            PgPoolOptions::new().max_connections(2).acquire_timeout(PATIENCE).connect_lazy_with(options);
        Ok(Self { pool })
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    async fn newest(&self) -> Result<Newest, ReadError> {
        let query = sqlx::query_as("select count(*), max(id) from gromacs_observation").fetch_one(&self.pool);
        patiently(query).await
    }

    /// All runs that count; see [`Self::read`].
    pub async fn observations(&self) -> Result<Vec<Observation>, ReadError> {
        Ok(self.read().await?.runs)
    }

    /// All runs that count, and how many do not: round robin over owners, each owner's newest last.
    ///
    /// The order decides which runs are kept where there are too many: the last ones.
    pub async fn read(&self) -> Result<Read, ReadError> {
        let query = sqlx::query(
            "select system, layout, node_labels, cpu_millicores, gpus, gromacs_version, ns_per_day, owner,
                peak_memory_bytes, wall_seconds
            from (
                select *, row_number() over (partition by owner, hardware_class order by id desc) as age
                from gromacs_observation
                where wall_seconds >= $1 and (node_labels <> '{}' or hardware_class = $4)
            ) as ranked
            where age <= $2 order by age, id desc limit $3",
        )
        .bind(SHORTEST_SECONDS)
        .bind(MOST_PER_OWNER)
        .bind(MOST)
        .bind(UNKNOWN)
        // Row by row: 100,000 of them as JSON would take most of a gigabyte.
        .try_map(|row| Row::from_row(&row).map(observation))
        .fetch_all(&self.pool);
        // Where there are too many, the oldest are left out; those that are read go to the model oldest first.
        let rows: Vec<Result<Observation, Dropped>> = patiently(query).await?;
        let mut dropped = self.left_out(rows.len()).await?;
        let mut runs = Vec::with_capacity(rows.len());
        for row in rows.into_iter().rev() {
            match row {
                Ok(run) => runs.push(run),
                Err(reason) => *dropped.entry(reason).or_default() += 1,
            }
        }
        tracing::debug!(usable = runs.len(), ?dropped, "read measured runs");
        let dropped = dropped.into_iter().filter(|(_, runs)| *runs > 0);
        let dropped = dropped.map(|(reason, runs)| DroppedRuns { reason: reason.to_string(), runs });
        Ok(Read { runs, dropped: dropped.collect() })
    }

    /// Runs that the query does not return.
    async fn left_out(&self, read: usize) -> Result<BTreeMap<Dropped, u64>, ReadError> {
        let query = sqlx::query_as(
            "select count(*), count(*) filter (where wall_seconds < $1),
                count(*) filter (where wall_seconds >= $1 and node_labels = '{}' and hardware_class <> $2)
            from gromacs_observation",
        )
        .bind(SHORTEST_SECONDS)
        .bind(UNKNOWN)
        .fetch_one(&self.pool);
        let (all, short, without_labels): (i64, i64, i64) = patiently(query).await?;
        let count = |runs: i64| u64::try_from(runs).unwrap_or(0);
        let many = count(all).saturating_sub(read as u64 + count(short) + count(without_labels));
        Ok(BTreeMap::from([
            (Dropped::Short, count(short)),
            (Dropped::SeveralKinds, count(without_labels)),
            (Dropped::Older, many),
        ]))
    }
}

async fn patiently<T>(query: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, ReadError> {
    tokio::time::timeout(PATIENCE, query).await.map_err(|_| ReadError::Timeout)?.map_err(ReadError::Query)
}

/// Rows are imported by people too, so a bad one is skipped and counted, not fatal.
fn observation(row: Row) -> Result<Observation, Dropped> {
    let labels: BTreeMap<String, String> = parsed(row.node_labels)?;
    let system: SystemDescription = parsed(row.system)?;
    let layout: Layout = parsed(row.layout)?;
    let amount = |amount: i32| u32::try_from(amount).map_err(|_| Dropped::Unreadable);
    let resources =
        Resources { cpu_millicores: amount(row.cpu_millicores)?, memory_bytes: 0, gpus: amount(row.gpus)? };
    let version = row.gromacs_version.as_deref();
    let run = Observation::local(&system, version, &layout, &resources, &labels, row.ns_per_day, &row.owner)
        .map_err(|error| match error.fault {
            Fault::Value => Dropped::Unreadable,
            Fault::Combination => Dropped::Refused,
        })?
        .lasting(row.wall_seconds);
    Ok(match row.peak_memory_bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(bytes) => run.with_peak_memory(&layout, bytes),
        None => run,
    })
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, Dropped> {
    serde_json::from_value(value).map_err(|_| Dropped::Unreadable)
}

/// Keeps the service's model up to date with the runs: at once when the database says that there are new ones, and
/// `every` so often in case it cannot. The first look makes the service ready, whatever comes of it: without
/// measurements the model is worse, without a tuner nothing starts.
pub async fn follow(service: Service, source: Source, every: Duration) {
    let mut timer = tokio::time::interval(every);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut known: Newest = (0, None);
    let mut listener: Option<PgListener> = None;
    loop {
        let told = tokio::select! {
            _ = timer.tick() => false,
            heard = hear(&mut listener) => heard,
        };
        if told {
            // Runs end in bursts, and each look reads them all: one look per burst.
            tokio::time::sleep(BURST).await;
        }
        // Before looking, so that nothing falls between the look and the listening.
        if listener.is_none() {
            listener = listen(&source.pool).await;
        }
        match look(&source, known).await {
            Ok(None) => {}
            Ok(Some((newest, model, dropped))) => {
                service.set_dropped(dropped);
                let runs: u64 = model.classes().iter().map(|class| class.runs).sum();
                tracing::info!(runs, model = model.version(), "learned from measured runs");
                service.set_model(model);
                known = newest;
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%error, cause, "cannot learn; the model stays as it is");
            }
        }
        service.set_ready(true);
    }
}

/// A connection that hears of new runs; none if the database cannot be reached, the timer tries again.
async fn listen(pool: &PgPool) -> Option<PgListener> {
    let connect = async {
        let mut listener = PgListener::connect_with(pool).await?;
        // A lost connection is for `follow` to notice: what happened meanwhile must be looked for.
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    };
    patiently(connect).await.inspect_err(|error| tracing::debug!(%error, "cannot listen, polling")).ok()
}

/// Waits for the database to say that there are new runs. A lost connection counts as said: some may have been missed.
async fn hear(listener: &mut Option<PgListener>) -> bool {
    let Some(connection) = listener else { return std::future::pending().await };
    match connection.try_recv().await {
        Ok(Some(_)) => true,
        Ok(None) | Err(_) => {
            *listener = None;
            true
        }
    }
}

/// A new model, if there is anything new.
async fn look(
    source: &Source,
    known: Newest,
) -> Result<Option<(Newest, Model, Vec<DroppedRuns>)>, ReadError> {
    let newest = source.newest().await?;
    if newest == known {
        return Ok(None);
    }
    let Read { runs, dropped } = source.read().await?;
    // Off the threads that answer requests: with many runs this takes a while.
    let learned = tokio::task::spawn_blocking(move || Model::prior().learn(&runs)).await;
    // It fails only if it panics or the runtime stops; then the old model stays.
    Ok(learned.ok().map(|model| (newest, model, dropped)))
}
