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
    /// The role that is connected has no right to it.
    #[error(
        "{0}: the database role that you connect as may not do that; people add rows, read their own, and ask to cancel and to retry; tenants and tables belong to the admin, the role that owns the tables"
    )]
    Forbid(String),
    /// A tenant needs a role to log in with.
    #[error("there is no database role {0:?}; create it first: create role \"{0}\" login password '...'")]
    FindRole(String),
    /// Migrating failed.
    #[error("migrating the database failed: {0}")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Anything else.
    #[error("the database failed: {0}")]
    Query(#[source] sqlx::Error),
}

/// SQLSTATE of everything that the connected role may not do.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let Some(database) = error.as_database_error() else { return Self::Query(error) };
        let message = database.message();
        if let Some(rule) = database.constraint() {
            if let Some(sentence) = on_constraint(rule) {
                return Self::BreakRule(format!("{sentence} (rule {rule})"));
            }
            if rule.starts_with("gromacs_") && rule.ends_with("_allowed") {
                // The triggers of the schema say what is wrong themselves: they know what would be right.
                return Self::BreakRule(format!("{message} (rule {rule})"));
            }
        }
        if database.code().as_deref() != Some(INSUFFICIENT_PRIVILEGE) {
            return Self::Query(error);
        }
        if message.contains("policy \"gromacs_to_tune_namespace\"") {
            return Self::BreakRule(
                "namespace is not one of yours; ask the admin to add it to gromacs_tenant".to_owned(),
            );
        }
        Self::Forbid(message.to_owned())
    }
}

/// What a person must change so that the rule holds.
fn on_constraint(name: &str) -> Option<&'static str> {
    if let Some(rule) = name.strip_prefix("gromacs_tenant_") {
        return on_constraint_of_tenant(rule);
    }
    Some(match name.strip_prefix("gromacs_to_tune_")? {
        "namespace_tenant" => {
            "owner and namespace of a row must be those of a tenant in gromacs_tenant, which stays as long as it has rows"
        }
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
        "box_nm_valid" | "box_nm_dimensions" => "box_nm must be three positive lengths in nm",
        "nsteps_valid" => "nsteps must not be negative: a simulation without an end never completes",
        "init_step_valid" => "init_step must not be negative",
        "dt_ps_valid" => "dt_ps must be above 0 and at most 1 ps",
        "cutoff_nm_valid" => "cutoff_nm must be above 0 and at most 5 nm",
        "rlist_nm_valid" => "rlist_nm must be above 0 and at most 10 nm",
        "nstlist_valid" => "nstlist must be between 1 and 1000",
        "pme_grid_valid" | "pme_grid_dimensions" => "pme_grid must be three numbers between 4 and 4096",
        "pme_order_valid" => "pme_order must be between 3 and 12",
        "bonded_interactions_valid" => "bonded_interactions must not be negative",
        "constraints_valid" => "constraints must not be negative",
        "gromacs_version_valid" => "gromacs_version must be at most 100 characters",
        "state_valid" => "state must be one of the states that the table's comment lists",
        "submission_valid" => "submission must be at least 1",
        _ => return None,
    })
}

/// The same for the admin's table.
fn on_constraint_of_tenant(rule: &str) -> Option<&'static str> {
    Some(match rule {
        "database_role_valid" => "database_role must be the name of a role, at most 63 bytes",
        "namespace_valid" => {
            "namespace must be the name of a Kubernetes namespace: lower case letters, digits and '-', at most 63"
        }
        "service_account_valid" => {
            "service_account must be the name of a ServiceAccount: lower case letters, digits, '-' and '.'"
        }
        "image_valid" => "image must be a container image without blanks",
        "image_patterns_valid" => "image_patterns must be a list of patterns, none of them empty",
        "run_as_user_valid" => "run_as_user must be between 1 and 2147483647: nothing runs as root",
        "run_as_group_valid" => "run_as_group must be between 1 and 2147483647",
        "max_cpu_millicores_valid" => {
            "max_cpu_millicores must be between 500 and 1024000 thousandths of a core"
        }
        "max_memory_bytes_valid" => "max_memory_bytes must be at least 16 MiB",
        "max_gpus_valid" => "max_gpus must be between 0 and 16",
        "interruption_after_seconds_valid" => {
            "min_interruption_after_seconds and max_interruption_after_seconds must be between 1 second and 7 days, the first at most the second"
        }
        "max_rows_in_work_valid" => "max_rows_in_work must be between 0 and 1000000",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_table_has_its_sentence() {
        let migrations: String =
            scavenger_schema::simulation::MIGRATIONS.iter().map(|migration| migration.sql.as_str()).collect();
        let rules: Vec<&str> = migrations
            .split("constraint ")
            .skip(1)
            .filter_map(|text| text.split_whitespace().next())
            .filter(|name| name.starts_with("gromacs_to_tune_") || name.starts_with("gromacs_tenant_"))
            .collect();
        assert!(rules.len() > 40, "{rules:?}");
        for rule in rules {
            assert!(on_constraint(rule).is_some(), "{rule} has no sentence");
        }
    }

    #[test]
    fn no_sentence_repeats_the_url() {
        assert!(!StoreError::ReadUrl.to_string().contains("secret"));
    }
}
