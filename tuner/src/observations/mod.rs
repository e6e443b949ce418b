//! Measured runs from Postgres. Read only: the submitter writes them.
//!
//! Whatever changes, all that count are read again: that is seconds for a million rows, and right in whatever order their
//! transactions end.

use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::time::Duration;

use scavenger_schema::tuning::{DroppedRuns, Layout, NodeShape, PredictRequest, Resources};
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
/// Most runs of one system on one class of hardware: its median is known then, and they crowd out no others.
const MOST_PER_SYSTEM: usize = 200;
/// Most runs in all.
const MOST: usize = 100_000;
/// Longest wait for the query that reads everything: a million rows are ranked in seconds.
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(60);
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
    #[error("--database-url is not a Postgres URL")]
    Url(#[source] sqlx::Error),
    /// The database did not answer, or not what was expected.
    #[error("cannot read gromacs_observation")]
    Query(#[source] sqlx::Error),
    /// The database took too long.
    #[error("the database did not answer within {0:?}")]
    Timeout(Duration),
}

/// Why a run is not learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Dropped {
    /// The start weighs too much.
    #[error("shorter than {SHORTEST_SECONDS} s")]
    Short,
    /// Nobody knows on which kind it ran.
    #[error("could have run on several kinds of nodes: its node is not known")]
    SeveralKinds,
    /// There are too many.
    #[error(
        "older than the {MOST_PER_SYSTEM} newest of its system on that hardware, or than the {MOST} newest of all"
    )]
    Older,
    /// The row is wrong.
    #[error("system, layout or resources cannot be read")]
    Unreadable,
    /// Fields of the system contradict each other.
    #[error("box and atoms of its system, or its pair list and cut-off, contradict each other")]
    Inconsistent,
    /// The layout is taken for one that mdrun refuses.
    #[error("the tuner takes its layout for one that mdrun refuses")]
    Refused,
    /// It is so fast or slow that it is no speed of its hardware.
    #[error("more than 50 times as fast or as slow as predicted")]
    Absurd,
}

impl Dropped {
    /// So many runs of it; none if there are none.
    fn counted(self, runs: u64) -> Option<DroppedRuns> {
        (runs > 0).then(|| DroppedRuns { kind: self.kind().to_owned(), reason: self.to_string(), runs })
    }

    /// One word, for the metric.
    fn kind(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::SeveralKinds => "several_kinds",
            Self::Older => "older",
            Self::Unreadable => "unreadable",
            Self::Inconsistent => "inconsistent",
            Self::Refused => "refused",
            Self::Absurd => "absurd",
        }
    }
}

/// Where the runs are.
#[derive(Clone, Debug)]
pub struct Source {
    /// One connection listens, one asks.
    pool: PgPool,
}

/// Number of the newest row, and how many there are.
type Seen = (i64, i64);

/// The runs that count, and how many others there are by reason.
#[derive(Clone, Debug)]
pub struct Runs {
    /// One of each system and class in turn, each one's newest last.
    pub usable: Vec<Observation>,
    /// Those that do not count.
    pub dropped: Vec<DroppedRuns>,
    seen: Seen,
}

#[derive(sqlx::FromRow)]
struct Row {
    system: Value,
    layout: Value,
    node_labels: Value,
    cpu_millicores: i32,
    gpus: i32,
    gromacs_version: Option<String>,
    gromacs_build: Option<Value>,
    ns_per_day: Option<f64>,
    peak_memory_bytes: Option<i64>,
    killed_for_memory: bool,
    node_cpu_millicores: Option<i32>,
    node_requested_millicores: Option<i32>,
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

    async fn seen(&self) -> Result<Seen, ReadError> {
        let query = sqlx::query_as("select coalesce(max(id), 0), count(*) from gromacs_observation");
        within(PATIENCE, query.fetch_one(&self.pool)).await
    }

    /// Reads everything. Of the runs of a system on a class of hardware the newest count, and of all the newest again, one of
    /// each system in turn.
    pub async fn read(&self) -> Result<Runs, ReadError> {
        let seen = self.seen().await?;
        let query = sqlx::query(
            // Ranked by narrow rows: to sort all columns of a million takes many times as long.
            "select system, layout, node_labels, cpu_millicores, gpus, gromacs_version, gromacs_build, ns_per_day,
                peak_memory_bytes, killed_for_memory, node_cpu_millicores, node_requested_millicores
            from gromacs_observation join (
                select id, row_number() over (partition by atoms, hardware_class order by id desc) as age
                from gromacs_observation
                where (wall_seconds >= $1 and (node_labels <> '{}' or hardware_class = $4) or ns_per_day is null)
                    and id <= $5
            ) as ranked using (id)
            where age <= $2 order by age, id desc limit $3",
        )
        .bind(SHORTEST_SECONDS)
        .bind(i64::try_from(MOST_PER_SYSTEM).unwrap_or(i64::MAX))
        .bind(i64::try_from(MOST).unwrap_or(i64::MAX))
        .bind(UNKNOWN)
        .bind(seen.0)
        // Row by row: 100,000 of them as JSON would take most of a gigabyte.
        .try_map(|row| Row::from_row(&row).map(observation))
        .fetch_all(&self.pool);
        let read = within(PATIENCE_FOR_ALL, query).await?;
        let mut dropped = self.left_out(seen.1, read.len()).await?;
        let mut usable = Vec::with_capacity(read.len());
        for run in read.into_iter().rev() {
            match run {
                Ok(run) => usable.push(run),
                Err(reason) => *dropped.entry(reason).or_default() += 1,
            }
        }
        let dropped = dropped.into_iter().filter_map(|(reason, runs)| reason.counted(runs)).collect();
        Ok(Runs { usable, dropped, seen })
    }

    /// Runs that the query does not return.
    async fn left_out(&self, all: i64, read: usize) -> Result<BTreeMap<Dropped, u64>, ReadError> {
        let query = sqlx::query_as(
            "select count(*) filter (where wall_seconds < $1),
                count(*) filter (where wall_seconds >= $1 and node_labels = '{}' and hardware_class is distinct from $2)
            from gromacs_observation where ns_per_day is not null",
        )
        .bind(SHORTEST_SECONDS)
        .bind(UNKNOWN)
        .fetch_one(&self.pool);
        let (short, without_labels): (i64, i64) = within(PATIENCE_FOR_ALL, query).await?;
        let count = |runs: i64| u64::try_from(runs).unwrap_or(0);
        let many = count(all).saturating_sub(read as u64 + count(short) + count(without_labels));
        Ok(BTreeMap::from([
            (Dropped::Short, count(short)),
            (Dropped::SeveralKinds, count(without_labels)),
            (Dropped::Older, many),
        ]))
    }
}

async fn within<T>(
    patience: Duration,
    query: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, ReadError> {
    tokio::time::timeout(patience, query)
        .await
        .map_err(|_| ReadError::Timeout(patience))?
        .map_err(ReadError::Query)
}

/// Rows are imported by people too, so a bad one is skipped and counted, not fatal.
fn observation(row: Row) -> Result<Observation, Dropped> {
    let amount = |amount: i32| u32::try_from(amount).map_err(|_| Dropped::Unreadable);
    let known = |amount: Option<i32>| amount.and_then(|amount| u32::try_from(amount).ok());
    let node = Resources {
        cpu_millicores: known(row.node_cpu_millicores).unwrap_or(0),
        memory_bytes: 0,
        gpus: amount(row.gpus)?,
    };
    let layout: Layout = parsed(row.layout)?;
    let run = PredictRequest {
        system: parsed(row.system)?,
        layout,
        node: NodeShape { count: 1, allocatable: node, largest_free: None, labels: parsed(row.node_labels)? },
        cpu_millicores: Some(amount(row.cpu_millicores)?),
        gromacs_version: row.gromacs_version,
        build: row.gromacs_build.map(parsed).transpose()?.unwrap_or_default(),
    };
    // One that was killed has no speed; memory does not depend on the hardware.
    let (requested, speed) = (known(row.node_requested_millicores), row.ns_per_day.unwrap_or_default());
    let run = Observation::new(&run, requested, speed).map_err(|error| match error.fault {
        Fault::Value => Dropped::Unreadable,
        Fault::Combination if error.is_refused_layout() => Dropped::Refused,
        Fault::Combination => Dropped::Inconsistent,
    })?;
    Ok(match row.peak_memory_bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(bytes) if row.killed_for_memory => run.killed_for_memory(&layout, bytes),
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
    let mut known: Option<Seen> = None;
    let mut listener: Option<PgListener> = None;
    loop {
        let told = tokio::select! {
            _ = timer.tick() => false,
            heard = hear(&mut listener) => heard,
        };
        if told {
            // Runs end in bursts, and each look makes a model: one look per burst.
            tokio::time::sleep(BURST).await;
        }
        // Before looking, so that nothing falls between the look and the listening.
        if listener.is_none() {
            listener = listen(&source.pool).await;
        }
        match look(&source, &mut known).await {
            Ok(None) => {}
            Ok(Some((model, dropped))) => {
                service.set_dropped(dropped);
                let runs = model.runs();
                tracing::info!(runs, model = model.version(), "learned from measured runs");
                service.set_model(model);
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
    within(PATIENCE, connect)
        .await
        .inspect_err(|error| tracing::debug!(%error, "cannot listen, polling"))
        .ok()
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
    known: &mut Option<Seen>,
) -> Result<Option<(Model, Vec<DroppedRuns>)>, ReadError> {
    let seen = source.seen().await?;
    // An empty table says nothing, unless there were rows before.
    if known.unwrap_or_default() == seen {
        *known = Some(seen);
        return Ok(None);
    }
    let Runs { usable: runs, mut dropped, seen } = source.read().await?;
    *known = Some(seen);
    tracing::debug!(usable = runs.len(), ?dropped, "read measured runs");
    // Off the threads that answer requests: with many runs this takes a while.
    let learned = tokio::task::spawn_blocking(move || Model::prior().learn(&runs)).await;
    // It fails only if it panics or the runtime stops; then the old model stays.
    Ok(learned.ok().map(|model| {
        dropped.extend(Dropped::Absurd.counted(model.absurd()));
        (model, dropped)
    }))
}
