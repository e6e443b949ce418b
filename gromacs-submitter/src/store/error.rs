//! Errors of the database as sentences.

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL is none. It is not repeated: it may hold a password.
    #[error("DATABASE_URL is no Postgres URL; write postgres://USER:PASSWORD@HOST:5432/DATABASE")]
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
    /// Another process holds the row by now.
    #[error("row {0} is held by another submitter now")]
    LoseLease(i64),
    /// A value broke a rule of the table.
    #[error("{0}")]
    BreakRule(String),
    /// Migrating failed.
    #[error("migrating the database failed: {0}")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Anything else.
    #[error("the database failed: {0}")]
    Query(#[source] sqlx::Error),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let sentence =
            error.as_database_error().and_then(|error| error.constraint()).and_then(|constraint| {
                on_constraint(constraint).map(|text| format!("{text} (rule {constraint})"))
            });
        match sentence {
            Some(sentence) => Self::BreakRule(sentence),
            None => Self::Query(error),
        }
    }
}

/// What a person must change so that the rule holds.
fn on_constraint(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("gromacs_to_tune_")? {
        "namespace_valid" => {
            "namespace must be the name of a Kubernetes namespace: lower case letters, digits and '-', at most 63"
        }
        "persistent_volume_claim_valid" => {
            "persistent_volume_claim must be the name of a PersistentVolumeClaim: lower case letters, digits, '-' and '.'"
        }
        "tpr_path_valid" => {
            "tpr_path must be the path of a .tpr file relative to the root of the volume, at most 900 bytes, without '..', '//' and control characters, for example water/topol.tpr"
        }
        "image_valid" => "image must be a container image without blanks",
        "run_as_user_valid" => "run_as_user must be between 1 and 2147483647: nothing runs as root",
        "run_as_group_valid" => "run_as_group must be between 1 and 2147483647",
        "priority_valid" => "priority must be between -1000000 and 1000000",
        "max_cpu_millicores_valid" => {
            "max_cpu_millicores must be between 500 and 1024000 thousandths of a core"
        }
        "max_memory_bytes_valid" => "max_memory_bytes must be at least 16 MiB",
        "max_gpus_valid" => "max_gpus must be between 0 and 16",
        "interruption_after_seconds_valid" => {
            "interruption_after_seconds must be between 1 second and 7 days"
        }
        "fallback_after_seconds_valid" => "fallback_after_seconds must be between 1 second and 1 year",
        "atoms_valid" => "atoms must be between 1 and 1000000000",
        "box_nm_valid" => "box_nm must be three positive lengths in nm",
        "nsteps_valid" => "nsteps must not be negative: a simulation without an end never completes",
        "init_step_valid" => "init_step must not be negative",
        "dt_ps_valid" => "dt_ps must be above 0 and at most 1 ps",
        "cutoff_nm_valid" => "cutoff_nm must be above 0 and at most 5 nm",
        "rlist_nm_valid" => "rlist_nm must be above 0 and at most 10 nm",
        "nstlist_valid" => "nstlist must be between 1 and 1000",
        "pme_grid_valid" => "pme_grid must be three numbers between 4 and 4096",
        "pme_order_valid" => "pme_order must be between 3 and 12",
        "bonded_interactions_valid" => "bonded_interactions must not be negative",
        "constraints_valid" => "constraints must not be negative",
        "gromacs_version_valid" => "gromacs_version must be at most 100 characters",
        "state_valid" => "state must be one of the states that the table's comment lists",
        "submission_valid" => "submission must be at least 1",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_table_has_its_sentence() {
        let migration = include_str!("../../../schema/migrations/0001_queue.sql");
        let rules: Vec<&str> = migration
            .split("constraint ")
            .skip(1)
            .filter_map(|text| text.split_whitespace().next())
            .filter(|name| name.starts_with("gromacs_to_tune_"))
            .collect();
        assert!(rules.len() > 20, "{rules:?}");
        for rule in rules {
            assert!(on_constraint(rule).is_some(), "{rule} has no sentence");
        }
    }

    #[test]
    fn no_sentence_repeats_the_url() {
        assert!(!StoreError::ReadUrl.to_string().contains("secret"));
    }
}
