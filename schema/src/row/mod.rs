//! A row as people see it: its columns, and what they say of each.

mod column;
mod columns;
pub mod python;
pub mod requests;
pub mod sql;
pub mod statements;
mod value;

pub(crate) use column::FIRST;
pub use column::{Before, Check, Column, Flag, Update};
pub use columns::{COLUMNS, Edit, LadderSettings, NewRow, OF_SQL, System};
pub use value::{Cell, Kind, Labels, Moment, Value};

/// Every column that people may give or change.
pub fn all() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().chain(OF_SQL)
}

/// The column of this name that can be given otherwise than by SQL.
#[must_use]
pub fn column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// The columns that `edit` takes back, in the order of its options.
pub fn can_be_unset() -> impl Iterator<Item = &'static Column> {
    edited().into_iter().filter(|column| column.default.is_none())
}

/// The columns with an option of `add`, in its order.
#[must_use]
pub fn added() -> Vec<&'static Column> {
    let mut columns: Vec<_> = COLUMNS.iter().filter(|column| !column.flag.add.is_empty()).collect();
    columns.sort_by_key(|column| column.flag.add_place);
    columns
}

/// The columns with an option of `edit`, in its order.
#[must_use]
pub fn edited() -> Vec<&'static Column> {
    let mut columns: Vec<_> = COLUMNS.iter().filter(|column| !column.flag.edit.is_empty()).collect();
    columns.sort_by_key(|column| column.flag.edit_place);
    columns
}

impl Edit {
    /// True if it changes nothing but what is possible in every state: nothing is stopped for that.
    #[must_use]
    pub fn is_always_possible(&self) -> bool {
        let given = self.values().map(|(column, _)| column);
        given.chain(self.unset()).all(|column| column.update == Update::Always)
    }

    /// The name of an option that is both given and taken back; none if there is none.
    #[must_use]
    pub fn is_set_and_unset(&self) -> Option<&'static str> {
        let is_set = |column: &Column| self.values().any(|(given, _)| given.name == column.name);
        self.unset().find(|column| is_set(column)).map(|column| column.flag.long)
    }

    fn unset(&self) -> impl Iterator<Item = &'static Column> {
        self.unset.iter().filter_map(|name| column(name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A value of each kind.
    fn value(kind: Kind) -> Value {
        match kind {
            Kind::Text => Value::Text("a".to_owned()),
            Kind::Integer => Value::Integer(1),
            Kind::Bigint => Value::Bigint(2),
            Kind::Real => Value::Real(0.5),
            Kind::Boolean => Value::Boolean(true),
            Kind::Texts => Value::Texts(vec!["a".to_owned()]),
            Kind::Integers => Value::Integers(vec![1]),
            Kind::Bigints => Value::Bigints(vec![2]),
            Kind::Reals => Value::Reals(vec![0.5]),
            Kind::Labels => Value::Labels(Labels([("a".to_owned(), "b".to_owned())].into())),
            Kind::Time => Value::Time(Moment::In(1.0)),
        }
    }

    #[test]
    fn each_column_holds_what_it_is_given_and_changes_no_other() {
        for column in COLUMNS {
            let mut row = NewRow::default();
            row.set(column.name, value(column.kind));
            for (other, found) in row.values() {
                let expected = if other.name == column.name {
                    Some(value(column.kind))
                } else {
                    other.is_required.then(|| Value::Text(String::new()))
                };
                assert_eq!(found, expected, "{} of {}", other.name, column.name);
            }
        }
        for column in edited() {
            let mut edit = Edit::default();
            edit.set(column.name, value(column.kind));
            let found: Vec<_> = edit.values().map(|(column, value)| (column.name, value)).collect();
            assert_eq!(found, [(column.name, value(column.kind))]);
        }
    }

    #[test]
    fn a_column_is_described_once() {
        let names: Vec<&str> = all().map(|column| column.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        for column in all() {
            assert!(column.comment.ends_with('.'), "{} has no comment", column.name);
            for text in [column.condition(), column.message()].into_iter().flatten() {
                assert!(text.contains(column.name) || !text.contains(" must be "), "{}: {text}", column.name);
            }
        }
    }
}
