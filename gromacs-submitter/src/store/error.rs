//! Errors of the database as sentences.

use scavenger_schema::rules;

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL is none. It is not repeated: it may hold a password.
    #[error("{}", rules::NO_URL)]
    ReadUrl,
    /// The schema is older than the program.
    #[error(
        "the database has schema version {found}, this program needs {needed}; run `gromacs-submitter migrate` first"
    )]
    UseSchema {
        /// What is there.
        found: i64,
        /// What is needed.
        needed: i64,
    },
    /// The tables are of before the first release.
    #[error(
        "the database was made by an older gromacs-submitter (schema version {0}), whose tables are not migrated; \
         copy its rows into a CSV file with psql (docs/upgrade.md, \"A database of before\"), migrate an empty database, \
         and add them there with `gromacs-submitter add --from FILE`"
    )]
    ReadOlderSchema(i64),
    /// Another process holds the row by now.
    #[error("row {0} is held by another submitter now")]
    LoseLease(i64),
    /// A value broke a rule of the table.
    #[error("{0}")]
    BreakRule(String),
    /// The role that is connected has no right to it.
    #[error("{0}: {forbidden}", forbidden = rules::FORBIDDEN)]
    Forbid(String),
    /// A tenant needs a role to log in with.
    #[error("there is no database role {0:?}; create it first: create role \"{0}\" login password '...'")]
    FindRole(String),
    /// A value that came from outside, not from the row, does not fit into its column.
    #[error("the database cannot hold what was found: {0}")]
    HoldValue(String),
    /// Migrating failed.
    #[error("migrating the database failed: {0}")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Anything else.
    #[error("the database failed: {0}")]
    Query(#[source] sqlx::Error),
}

/// SQLSTATE of everything that the connected role may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// SQLSTATE classes of values that are wrong: data exception, integrity constraint violation.
const WRONG_VALUES: [&str; 2] = ["22", "23"];

impl StoreError {
    /// True if the same write will fail again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::BreakRule(_) | Self::HoldValue(_))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let Some(database) = error.as_database_error() else { return Self::Query(error) };
        let message = database.message();
        if let Some(sentence) = database.constraint().and_then(|rule| rules::broken(rule, message)) {
            return Self::BreakRule(sentence);
        }
        let code = database.code().unwrap_or_default();
        if WRONG_VALUES.iter().any(|class| code.starts_with(class)) {
            return Self::HoldValue(message.to_owned());
        }
        if code != INSUFFICIENT_PRIVILEGE {
            return Self::Query(error);
        }
        if message.contains(rules::POLICY_OF_NAMESPACES) {
            return Self::BreakRule(rules::NOT_YOURS.to_owned());
        }
        Self::Forbid(message.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sentence_repeats_the_url() {
        assert!(!StoreError::ReadUrl.to_string().contains("secret"));
    }
}
