//! Rows that people add: one statement for many, and what is wrong with each that is refused.

use std::collections::HashMap;
use std::ops::Range;

use scavenger_schema::row::{NewRow, statements};
use scavenger_schema::rules;
use sqlx::types::Json;
use sqlx::{Acquire as _, PgConnection, QueryBuilder};

use super::statement::{push_list, push_value};
use super::{Store, StoreError};

/// Rows in one statement: with all columns given, far below the 65,535 values that one may have.
const MOST_ROWS: usize = 1000;

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
            sqlx::query(statements::LOCK_ADDING).execute(&mut *transaction).await?;
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
    let found: Vec<(i64, i64, String)> = sqlx::query_as(statements::DUPLICATES)
        .bind(column(|row| &row.namespace))
        .bind(column(|row| &row.persistent_volume_claim))
        .bind(column(|row| &row.tpr_path))
        .bind(skip_existing)
        .bind(new.iter().map(folders).collect::<Vec<_>>())
        .fetch_all(connection)
        .await?;
    let mut first: HashMap<_, usize> = HashMap::new();
    // The same command may be wanted twice: it may read other files by then.
    for (index, row) in new.iter().enumerate().filter(|(_, row)| row.command.is_none()) {
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
                Added::Refused(format!("{}, or say --skip-existing or --allow-duplicate", rules::NAMED_TWICE))
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
                "{}; say --skip-existing to leave it out or --allow-duplicate to compute it twice",
                rules::computed_already(id, &state)
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

/// One statement; the numbers come in the order of the rows, in which VALUES are read. A column that no row gives is not
/// named, one that this row does not give is DEFAULT: the database decides, and needs to grant no more than is used.
async fn insert(connection: &mut PgConnection, rows: &[NewRow]) -> Result<Vec<i64>, sqlx::Error> {
    let table: Vec<Vec<_>> = rows.iter().map(|row| row.values().collect()).collect();
    let Some(first) = table.first() else { return Ok(Vec::new()) };
    let used: Vec<usize> =
        (0..first.len()).filter(|column| table.iter().any(|values| values[*column].1.is_some())).collect();
    let mut query = QueryBuilder::new("insert into gromacs_to_tune (");
    push_list(&mut query, &used, |query, column| {
        query.push(first[*column].0.name);
    });
    query.push(") values ");
    push_list(&mut query, &table, |query, values| {
        query.push("(");
        push_list(query, &used, |query, column| match &values[*column].1 {
            None => {
                query.push("default");
            }
            Some(value) => push_value(query, value.clone()),
        });
        query.push(")");
    });
    query.push(" returning id");
    query.build_query_scalar().persistent(false).fetch_all(connection).await
}
