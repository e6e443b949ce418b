//! Values of columns.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is a type of Postgres")]
pub enum Kind {
    Text,
    Integer,
    Bigint,
    Real,
    Boolean,
    Texts,
    Integers,
    Bigints,
    Reals,
    /// Names and texts.
    Labels,
    Time,
}

impl Kind {
    /// The type of the column.
    #[must_use]
    pub fn sql(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Bigint => "bigint",
            Self::Real => "double precision",
            Self::Boolean => "boolean",
            Self::Texts => "text[]",
            Self::Integers => "integer[]",
            Self::Bigints => "bigint[]",
            Self::Reals => "double precision[]",
            Self::Labels => "jsonb",
            Self::Time => "timestamptz",
        }
    }
}

/// A value of any of the columns.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each is a kind of column")]
pub enum Value {
    /// No value, which takes away one that is there.
    Null,
    Text(String),
    Integer(i32),
    Bigint(i64),
    Real(f64),
    Boolean(bool),
    Texts(Vec<String>),
    Integers(Vec<i32>),
    Bigints(Vec<i64>),
    Reals(Vec<f64>),
    Labels(Labels),
    Time(Moment),
}

/// Labels of a row: names and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(pub BTreeMap<String, String>);

/// A time, given as such or by how far away it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// That time.
    At(Timestamp),
    /// So many seconds from now, by the clock of the database.
    In(f64),
}

/// A type whose values a column can hold.
pub trait Cell: Sized {
    /// The kind of such a column.
    const KIND: Kind;

    /// As a value of any column.
    fn into_value(self) -> Value;

    /// Back from there; none if the value is of another kind.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! cells {
    ($($type:ty: $kind:ident;)*) => {
        $(impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            fn into_value(self) -> Value {
                Value::$kind(self)
            }

            fn from_value(value: Value) -> Option<Self> {
                if let Value::$kind(value) = value { Some(value) } else { None }
            }
        })*
    };
}

cells! {
    String: Text;
    i32: Integer;
    i64: Bigint;
    f64: Real;
    bool: Boolean;
    Vec<String>: Texts;
    Vec<i32>: Integers;
    Vec<i64>: Bigints;
    Vec<f64>: Reals;
    Labels: Labels;
    Moment: Time;
}

/// A value that can be taken away.
impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;

    fn into_value(self) -> Value {
        self.map_or(Value::Null, Cell::into_value)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
