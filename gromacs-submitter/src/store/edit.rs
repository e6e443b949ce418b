//! What people change of rows that are there already.

use scavenger_schema::row::{Edit, Value, statements};
use sqlx::QueryBuilder;

use super::statement::{push_list, push_value};
use super::{Store, StoreError};

/// How long a completed row shall become, in ns of simulated time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// So much longer than it is.
    More(f64),
    /// So long in all.
    Until(f64),
}

/// A row that is to go on.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Extended {
    /// The row.
    pub id: i64,
    /// Its length until now, ns.
    pub from_ns: f64,
    /// Its length from now on, ns.
    pub to_ns: f64,
    /// The same in steps.
    pub extended_nsteps: i64,
}

impl Store {
    /// Changes rows, all or none, and returns those that are there; with `dry_run` the change is taken back.
    ///
    /// # Errors
    /// [`StoreError::BreakRule`] with a sentence for the value or the row that cannot be changed, or the database's.
    pub async fn edit(&self, rows: &[i64], edit: &Edit, dry_run: bool) -> Result<Vec<i64>, StoreError> {
        if *edit == Edit::default() || rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = QueryBuilder::new("update gromacs_to_tune set ");
        let given = edit.values().map(|(column, value)| (column.name, value));
        let unset = edit.unset.iter().map(|column| (*column, Value::Null));
        push_list(&mut query, given.chain(unset), |query, (column, value)| {
            // Labels are added to those that are there.
            query.push(column).push(if column == "labels" { " = labels || " } else { " = " });
            push_value(query, value);
        });
        query.push(" where id = any(").push_bind(rows).push(") returning id");
        let mut transaction = self.pool.begin().await?;
        let changed = query.build_query_scalar().persistent(false).fetch_all(&mut *transaction).await?;
        if dry_run {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        Ok(changed)
    }

    /// Requests that completed rows go on for longer, all or none, and returns what becomes of those that are there; with
    /// `dry_run` the request is taken back.
    ///
    /// # Errors
    /// [`StoreError::BreakRule`] with a sentence for the row that cannot be extended, or the database's.
    pub async fn extend(
        &self,
        rows: &[i64],
        length: Length,
        dry_run: bool,
    ) -> Result<Vec<Extended>, StoreError> {
        let (ns, is_more) = match length {
            Length::More(ns) => (ns, true),
            Length::Until(ns) => (ns, false),
        };
        let mut transaction = self.pool.begin().await?;
        let mut extended: Vec<Extended> = sqlx::query_as(statements::EXTEND)
            .bind(rows)
            .bind(ns)
            .bind(is_more)
            .fetch_all(&mut *transaction)
            .await?;
        if dry_run {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        extended.sort_by_key(|row| row.id);
        Ok(extended)
    }

    /// Holds those of `rows` that are queued, or releases them; returns these.
    pub async fn set_held(&self, rows: &[i64], held: bool) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(statements::SET_HELD).bind(rows).bind(held).fetch_all(&self.pool).await?)
    }

    /// Deletes those of `rows` that have ended, with their history; returns these.
    pub async fn remove(&self, rows: &[i64]) -> Result<Vec<i64>, StoreError> {
        Ok(sqlx::query_scalar(statements::REMOVE).bind(rows).fetch_all(&self.pool).await?)
    }
}
