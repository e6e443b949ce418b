//! Rows of kind calibration. The service writes nothing; these are inserted by the command line alone, as the role that
//! the URL names, and the submitter runs them like everybody's rows.

use std::collections::BTreeMap;

use scavenger_schema::rules;
use scavenger_schema::tuning::Benchmark;
use sqlx::PgConnection;
use sqlx::types::Json;

use crate::observations::{PATIENCE, Source};

/// SQLSTATE of what the connected role may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";
/// SQLSTATEs of a table and of a column that are not there.
const UNDEFINED: [&str; 2] = ["42P01", "42703"];

/// Where benchmarks run, and as what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Namespace.
    pub namespace: String,
    /// PersistentVolumeClaim on which the boxes of water are made.
    pub persistent_volume_claim: String,
    /// Image with GROMACS; the tenant's or the submitter's if none.
    pub image: Option<String>,
    /// User id; the tenant's or the table's if none.
    pub run_as_user: Option<i64>,
    /// Priority among the owner's rows.
    pub priority: i32,
    /// Labels that the node must have.
    pub node_labels: BTreeMap<String, String>,
}

/// Why the rows were not inserted.
#[derive(Debug, thiserror::Error)]
pub enum InsertError {
    /// A value broke a rule of the table.
    #[error("{0}")]
    BreakRule(String),
    /// The role may not insert rows.
    #[error(
        "{0}: the database role that you connect as may not add rows; connect as a member of gromacs_chemist"
    )]
    Forbid(String),
    /// The tables are older than this program.
    #[error("the database has no table for calibrations ({0}); run `gromacs-submitter migrate` first")]
    UseSchema(String),
    /// Anything else.
    #[error("the database failed")]
    Query(#[source] sqlx::Error),
    /// The database took too long.
    #[error("the database did not answer within {PATIENCE:?}")]
    Timeout,
}

impl InsertError {
    /// True if other values would be accepted.
    #[must_use]
    pub fn is_about_values(&self) -> bool {
        matches!(self, Self::BreakRule(_))
    }
}

impl From<sqlx::Error> for InsertError {
    fn from(error: sqlx::Error) -> Self {
        let Some(database) = error.as_database_error() else { return Self::Query(error) };
        let message = database.message();
        if let Some(sentence) = database.constraint().and_then(|rule| rules::broken(rule, message)) {
            return Self::BreakRule(sentence);
        }
        match database.code().as_deref() {
            Some(INSUFFICIENT_PRIVILEGE) => Self::Forbid(message.to_owned()),
            Some(code) if UNDEFINED.contains(&code) => Self::UseSchema(message.to_owned()),
            _ => Self::Query(error),
        }
    }
}

/// Inserts a row for each benchmark, all or none. `copies` is the place of a benchmark and how often it is run again: these
/// rows begin together when the others are completed. Returns the numbers of the first rows and of the copies. With
/// `dry_run` the database tries it and takes it back.
pub async fn insert(
    source: &Source,
    target: &Target,
    benchmarks: &[Benchmark],
    copies: Option<(usize, u32)>,
    dry_run: bool,
) -> Result<(Vec<i64>, Vec<i64>), InsertError> {
    let all = async {
        let mut transaction = source.pool().begin().await?;
        let mut rows = Vec::new();
        for benchmark in benchmarks {
            rows.push(insert_one(&mut transaction, target, benchmark, &[]).await?);
        }
        let mut beside = Vec::new();
        if let Some((benchmark, count)) =
            copies.and_then(|(place, count)| Some((benchmarks.get(place)?, count)))
        {
            for _ in 0..count {
                beside.push(insert_one(&mut transaction, target, benchmark, &rows).await?);
            }
        }
        if dry_run {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        Ok((rows, beside))
    };
    tokio::time::timeout(PATIENCE, all).await.map_err(|_| InsertError::Timeout)?
}

async fn insert_one(
    connection: &mut PgConnection,
    target: &Target,
    benchmark: &Benchmark,
    after: &[i64],
) -> sqlx::Result<i64> {
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    sqlx::query_scalar(
        "insert into gromacs_to_tune (kind, namespace, persistent_volume_claim, image, run_as_user, priority,
            nsteps, benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus,
            benchmark_node_labels, after)
        values ('calibration', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) returning id",
    )
    .bind(&target.namespace)
    .bind(&target.persistent_volume_claim)
    .bind(&target.image)
    .bind(target.run_as_user)
    .bind(target.priority)
    .bind(benchmark.system.nsteps)
    .bind(i32::try_from(benchmark.system.atoms).unwrap_or(i32::MAX))
    .bind(count(benchmark.layout.ntmpi))
    .bind(count(benchmark.layout.ntomp))
    .bind(count(benchmark.layout.npme))
    .bind(count(benchmark.layout.gpus))
    .bind(Json(&target.node_labels))
    .bind(after)
    .fetch_one(connection)
    .await
}
