//! Values of columns in statements. Only what is given is named: the database needs to grant, and to check, no more than that.

use scavenger_schema::row::{Moment, Value};
use sqlx::types::Json;
use sqlx::{Postgres, QueryBuilder};

use super::sql_time;

/// Adds a value to a statement.
pub(super) fn push_value(query: &mut QueryBuilder<Postgres>, value: Value) {
    match value {
        Value::Null => query.push("null"),
        Value::Text(value) => query.push_bind(value),
        Value::Integer(value) => query.push_bind(value),
        Value::Bigint(value) => query.push_bind(value),
        Value::Real(value) => query.push_bind(value),
        Value::Boolean(value) => query.push_bind(value),
        Value::Texts(value) => query.push_bind(value),
        Value::Integers(value) => query.push_bind(value),
        Value::Bigints(value) => query.push_bind(value),
        Value::Reals(value) => query.push_bind(value),
        Value::Labels(value) => query.push_bind(Json(value.0)),
        Value::Time(Moment::At(time)) => query.push_bind(sql_time(time)),
        Value::Time(Moment::In(seconds)) => {
            query.push("now() + make_interval(secs => ").push_bind(seconds).push(")")
        }
    };
}

/// Adds items to a statement, with commas in between.
pub(super) fn push_list<T>(
    query: &mut QueryBuilder<Postgres>,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut QueryBuilder<Postgres>, T),
) {
    for (place, item) in items.into_iter().enumerate() {
        query.push(if place == 0 { "" } else { ", " });
        push(query, item);
    }
}
