//! Rows that people add: one statement for many, and what is wrong with each that is refused.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use jiff::Timestamp;
use scavenger_schema::simulation::{LadderSettings, System};
use sqlx::types::Json;
use sqlx::{Acquire as _, PgConnection, Postgres, QueryBuilder};

use super::{Store, StoreError, sql_time};

/// Rows in one statement: with all columns given, far below the 65,535 values that one may have.
const MOST_ROWS: usize = 1000;

/// What a user may say when a row is added; everything else has a default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewRow {
    /// Namespace it runs in.
    pub namespace: String,
    /// PersistentVolumeClaim with the file.
    pub persistent_volume_claim: String,
    /// The file.
    pub tpr_path: String,
    /// Folders of several simulations, each with such a file.
    pub multidir: Option<Vec<String>>,
    /// Container image.
    pub image: Option<String>,
    /// User id.
    pub run_as_user: Option<i64>,
    /// Group id.
    pub run_as_group: Option<i64>,
    /// Priority among the owner's rows.
    pub priority: Option<i32>,
    /// Most CPU, millicores.
    pub max_cpu_millicores: Option<i32>,
    /// Most memory, bytes.
    pub max_memory_bytes: Option<i64>,
    /// Most GPUs.
    pub max_gpus: Option<i32>,
    /// Least CPU, millicores.
    pub min_cpu_millicores: Option<i32>,
    /// Least predicted speed, ns per day.
    pub min_ns_per_day: Option<f64>,
    /// How its configurations are chosen.
    pub ladder_settings: LadderSettings,
    /// Seconds between checkpoints.
    pub interruption_after_seconds: Option<i32>,
    /// Seconds before it falls back.
    pub fallback_after_seconds: Option<i32>,
    /// False if each restart writes new output files.
    pub append: Option<bool>,
    /// The checkpoint that it starts from.
    pub checkpoint_path: Option<String>,
    /// Further options of mdrun.
    pub mdrun_options: Option<Vec<String>>,
    /// Options of grompp, which makes its file.
    pub grompp_options: Option<Vec<String>>,
    /// Labels that its node must have.
    pub node_labels: Option<Labels>,
    /// When it should be completed.
    pub deadline: Option<Moment>,
    /// What it belongs to.
    pub project: Option<String>,
    /// Names and values that filters look for.
    pub labels: Option<Labels>,
    /// True if it is not begun until it is released.
    pub held: Option<bool>,
    /// Rows that must be completed before it begins.
    pub after: Option<Vec<i64>>,
    /// The simulated system, as far as it is known.
    pub system: System,
}

/// A time that is given by itself, or by how far it is away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// That time.
    At(Timestamp),
    /// So many seconds from now, by the clock of the database.
    In(f64),
}

impl Moment {
    /// Adds it to a statement.
    pub(super) fn push(self, query: &mut QueryBuilder<Postgres>) {
        match self {
            Self::At(time) => {
                query.push_bind(sql_time(time));
            }
            Self::In(seconds) => {
                query.push("now() + make_interval(secs => ").push_bind(seconds).push(")");
            }
        }
    }
}

/// Labels of a row: names and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(pub BTreeMap<String, String>);

/// How to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddMode {
    /// Keeps the good rows although others are refused.
    pub keep_going: bool,
    /// Leaves out files that have a row, whatever became of it.
    pub skip_existing: bool,
    /// Adds files although a row for them has not ended.
    pub allow_duplicate: bool,
    /// Takes everything back at the end.
    pub dry_run: bool,
}

/// What became of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// It was added, as this number; if everything was taken back, it could have been.
    Row(i64),
    /// It was left out: that row has the file.
    Exists {
        /// Its number, unless it stands earlier in the same command.
        row: Option<i64>,
        /// Its state.
        state: String,
    },
    /// It was refused, with the sentence why.
    Refused(String),
}

impl Store {
    /// Adds one row; returns its number.
    ///
    /// # Errors
    /// [`StoreError::BreakRule`] with a sentence for the value that is wrong, or the database's.
    pub async fn add(&self, new: &NewRow) -> Result<i64, StoreError> {
        let mut connection = self.pool.acquire().await?;
        let added = insert(&mut connection, std::slice::from_ref(new)).await?;
        added.first().copied().ok_or(StoreError::Query(sqlx::Error::RowNotFound))
    }

    /// Adds rows in one transaction, all or none unless `mode` says otherwise, and tells what became of each. True if
    /// they are there now.
    ///
    /// # Errors
    /// The database's. A row that is refused is no error of the whole.
    pub async fn add_all(&self, new: &[NewRow], mode: AddMode) -> Result<(Vec<Added>, bool), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let mut fates: Vec<Option<Added>> = vec![None; new.len()];
        if !mode.allow_duplicate {
            // One command of a role at a time, or two crons would both find that a file has no row yet. Others see
            // other rows, and hold nobody up.
            sqlx::query("select gromacs_lock_adding()").execute(&mut *transaction).await?;
            find_duplicates(&mut transaction, new, mode.skip_existing, &mut fates).await?;
        }
        let wanted: Vec<usize> = (0..new.len()).filter(|index| fates[*index].is_none()).collect();
        let rows: Vec<NewRow> = wanted.iter().map(|index| new[*index].clone()).collect();
        // A statement that is refused is divided until the rows that are to blame stand alone; left before right, so
        // that numbers follow the order of the files.
        let mut open: Vec<Range<usize>> = (0..rows.len())
            .step_by(MOST_ROWS)
            .map(|first| first..rows.len().min(first + MOST_ROWS))
            .rev()
            .collect();
        while let Some(range) = open.pop() {
            let mut savepoint = transaction.begin().await?;
            match insert(&mut savepoint, &rows[range.clone()]).await {
                Ok(numbers) => {
                    savepoint.commit().await?;
                    for (index, number) in range.zip(numbers) {
                        fates[wanted[index]] = Some(Added::Row(number));
                    }
                }
                Err(error) if is_about_a_row(&error) => {
                    savepoint.rollback().await?;
                    if range.len() == 1 {
                        fates[wanted[range.start]] =
                            Some(Added::Refused(StoreError::from(error).to_string()));
                    } else {
                        let middle = range.start + range.len() / 2;
                        open.push(middle..range.end);
                        open.push(range.start..middle);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let fates: Vec<Added> = fates
            .into_iter()
            .map(|fate| fate.unwrap_or_else(|| Added::Refused("the database gave it no number".to_owned())))
            .collect();
        let is_good = mode.keep_going || !fates.iter().any(|fate| matches!(fate, Added::Refused(_)));
        let commits = is_good && !mode.dry_run;
        if commits {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        Ok((fates, commits))
    }
}

/// True if another row could still be good: a value is wrong (classes 22 and 23), or a rule of ours refused it by name.
/// Everything else (no table, no right to insert at all, no connection) holds for all rows.
fn is_about_a_row(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| {
        let class = error.code().map(|code| code.chars().take(2).collect::<String>()).unwrap_or_default();
        ["22", "23"].contains(&class.as_str()) || error.constraint().is_some()
    })
}

async fn find_duplicates(
    connection: &mut PgConnection,
    new: &[NewRow],
    skip_existing: bool,
    fates: &mut [Option<Added>],
) -> Result<(), StoreError> {
    let column = |value: fn(&NewRow) -> &String| -> Vec<&str> {
        // No row can hold a NUL; the INSERT refuses it with the sentence that belongs to the column.
        new.iter()
            .map(|row| value(row).as_str())
            .map(|text| if text.contains('\0') { "" } else { text })
            .collect()
    };
    let found: Vec<(i64, i64, String)> = sqlx::query_as(
        "select distinct on (n.place) n.place, t.id, t.state
        from unnest($1::text[], $2::text[], $3::text[], $5::jsonb[])
            with ordinality as n(namespace, persistent_volume_claim, tpr_path, multidir, place)
        join gromacs_to_tune t on t.namespace = n.namespace
            and t.persistent_volume_claim = n.persistent_volume_claim and t.tpr_path = n.tpr_path
            and to_jsonb(t.multidir) = n.multidir
        where $4 or t.state not in ('completed', 'failed', 'cancelled')
        order by n.place, (t.state in ('completed', 'failed', 'cancelled')), t.id desc",
    )
    .bind(column(|row| &row.namespace))
    .bind(column(|row| &row.persistent_volume_claim))
    .bind(column(|row| &row.tpr_path))
    .bind(skip_existing)
    .bind(new.iter().map(folders).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let mut first: HashMap<_, usize> = HashMap::new();
    for (index, row) in new.iter().enumerate() {
        let key = (
            row.namespace.as_str(),
            row.persistent_volume_claim.as_str(),
            row.tpr_path.as_str(),
            row.multidir.as_deref().unwrap_or_default(),
        );
        if *first.entry(key).or_insert(index) != index {
            fates[index] = Some(if skip_existing {
                Added::Exists { row: None, state: "named twice".to_owned() }
            } else {
                Added::Refused(
                    "it is named twice; leave one out, or say --skip-existing or --allow-duplicate"
                        .to_owned(),
                )
            });
        }
    }
    for (place, id, state) in found {
        let Some(fate) = usize::try_from(place - 1).ok().and_then(|index| fates.get_mut(index)) else {
            continue;
        };
        *fate = Some(if skip_existing {
            Added::Exists { row: Some(id), state }
        } else {
            Added::Refused(format!(
                "row {id} computes this file already and is {state}; say --skip-existing to leave it out or \
                 --allow-duplicate to compute it twice"
            ))
        });
    }
    Ok(())
}

/// The folders of a row, as the query compares them; rows of one file in other folders are others.
fn folders(row: &NewRow) -> Json<Vec<String>> {
    let whole = |name: &String| if name.contains('\0') { String::new() } else { name.clone() };
    Json(row.multidir.iter().flatten().map(whole).collect())
}

/// A value of any of the columns.
enum Cell<'a> {
    Text(&'a str),
    Small(i32),
    Big(i64),
    Real(f64),
    Flag(bool),
    Reals(&'a [f64]),
    Smalls(&'a [i32]),
    Bigs(&'a [i64]),
    Words(&'a [String]),
    Names(&'a Labels),
    Time(Moment),
}

/// Every column that a user may give, with its value.
fn cells(row: &NewRow) -> [(&'static str, Option<Cell<'_>>); 46] {
    let (system, ladder) = (&row.system, &row.ladder_settings);
    [
        ("namespace", Some(Cell::Text(&row.namespace))),
        ("persistent_volume_claim", Some(Cell::Text(&row.persistent_volume_claim))),
        ("tpr_path", Some(Cell::Text(&row.tpr_path))),
        ("multidir", row.multidir.as_deref().map(Cell::Words)),
        ("image", row.image.as_deref().map(Cell::Text)),
        ("run_as_user", row.run_as_user.map(Cell::Big)),
        ("run_as_group", row.run_as_group.map(Cell::Big)),
        ("priority", row.priority.map(Cell::Small)),
        ("max_cpu_millicores", row.max_cpu_millicores.map(Cell::Small)),
        ("max_memory_bytes", row.max_memory_bytes.map(Cell::Big)),
        ("max_gpus", row.max_gpus.map(Cell::Small)),
        ("min_cpu_millicores", row.min_cpu_millicores.map(Cell::Small)),
        ("min_ns_per_day", row.min_ns_per_day.map(Cell::Real)),
        ("min_efficiency", ladder.min_efficiency.map(Cell::Real)),
        ("max_configurations", ladder.max_configurations.map(Cell::Small)),
        ("gpu_price", ladder.gpu_price.map(Cell::Real)),
        ("memory_price", ladder.memory_price.map(Cell::Real)),
        ("interruption_after_seconds", row.interruption_after_seconds.map(Cell::Small)),
        ("fallback_after_seconds", row.fallback_after_seconds.map(Cell::Small)),
        ("append", row.append.map(Cell::Flag)),
        ("checkpoint_path", row.checkpoint_path.as_deref().map(Cell::Text)),
        ("mdrun_options", row.mdrun_options.as_deref().map(Cell::Words)),
        ("grompp_options", row.grompp_options.as_deref().map(Cell::Words)),
        ("node_labels", row.node_labels.as_ref().map(Cell::Names)),
        ("deadline", row.deadline.map(Cell::Time)),
        ("project", row.project.as_deref().map(Cell::Text)),
        ("labels", row.labels.as_ref().map(Cell::Names)),
        ("held", row.held.map(Cell::Flag)),
        ("after", row.after.as_deref().map(Cell::Bigs)),
        ("atoms", system.atoms.map(Cell::Big)),
        ("box_nm", system.box_nm.as_deref().map(Cell::Reals)),
        ("nsteps", system.nsteps.map(Cell::Big)),
        ("init_step", system.init_step.map(Cell::Big)),
        ("dt_ps", system.dt_ps.map(Cell::Real)),
        ("cutoff_nm", system.cutoff_nm.map(Cell::Real)),
        ("rlist_nm", system.rlist_nm.map(Cell::Real)),
        ("nstlist", system.nstlist.map(Cell::Small)),
        ("pme_grid", system.pme_grid.as_deref().map(Cell::Smalls)),
        ("pme_order", system.pme_order.map(Cell::Small)),
        ("bonded_interactions", system.bonded_interactions.map(Cell::Big)),
        ("constraints", system.constraints.map(Cell::Big)),
        ("gpu_nonbonded", system.gpu_nonbonded.map(Cell::Flag)),
        ("gpu_pme", system.gpu_pme.map(Cell::Flag)),
        ("gpu_bonded", system.gpu_bonded.map(Cell::Flag)),
        ("gpu_update", system.gpu_update.map(Cell::Flag)),
        ("gromacs_version", system.gromacs_version.as_deref().map(Cell::Text)),
    ]
}

/// One statement; the numbers come in the order of the rows, in which VALUES are read. A column that no row gives is not
/// named, one that this row does not give is DEFAULT: the database decides, and needs to grant no more than is used.
async fn insert(connection: &mut PgConnection, rows: &[NewRow]) -> Result<Vec<i64>, sqlx::Error> {
    let table: Vec<_> = rows.iter().map(cells).collect();
    let Some(first) = table.first() else { return Ok(Vec::new()) };
    let used: Vec<usize> =
        (0..first.len()).filter(|column| table.iter().any(|cells| cells[*column].1.is_some())).collect();
    let mut query: QueryBuilder<Postgres> = QueryBuilder::new("insert into gromacs_to_tune (");
    for (place, column) in used.iter().enumerate() {
        query.push(if place == 0 { "" } else { ", " }).push(first[*column].0);
    }
    query.push(") values ");
    for (line, cells) in table.iter().enumerate() {
        query.push(if line == 0 { "(" } else { ", (" });
        for (place, column) in used.iter().enumerate() {
            query.push(if place == 0 { "" } else { ", " });
            match &cells[*column].1 {
                None => query.push("default"),
                Some(Cell::Text(value)) => query.push_bind(*value),
                Some(Cell::Small(value)) => query.push_bind(*value),
                Some(Cell::Big(value)) => query.push_bind(*value),
                Some(Cell::Real(value)) => query.push_bind(*value),
                Some(Cell::Flag(value)) => query.push_bind(*value),
                Some(Cell::Reals(value)) => query.push_bind(*value),
                Some(Cell::Smalls(value)) => query.push_bind(*value),
                Some(Cell::Bigs(value)) => query.push_bind(*value),
                Some(Cell::Words(value)) => query.push_bind(*value),
                Some(Cell::Names(value)) => query.push_bind(Json(&value.0)),
                Some(Cell::Time(value)) => {
                    value.push(&mut query);
                    &mut query
                }
            };
        }
        query.push(")");
    }
    query.push(" returning id");
    query.build_query_scalar().persistent(false).fetch_all(connection).await
}
