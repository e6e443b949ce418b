//! What the database's rules mean to a person. Whoever writes rows says it in these words.
//!
//! The names of the CHECK constraints are a contract. `NAME_valid` is the rule of the column NAME, which the table of columns
//! describes ([`crate::row`]). A rule whose name ends in `_allowed` is told by a trigger, which knows what would be right and says
//! so itself.

use crate::row::{self, FIRST};

/// Said of an address of the database that is none; it is not repeated, because it may hold a password.
pub const NO_URL: &str =
    "DATABASE_URL is not a Postgres URL; write postgres://USER:PASSWORD@HOST:5432/DATABASE";

/// Said behind the database's own words where the role that is connected has no right to something.
pub const FORBIDDEN: &str = "the database role that you connect as may not do that; people add rows, read their own, and ask to cancel and to retry; tenants and tables belong to the admin, the role that owns the tables";

/// Said where row level security refuses a row.
pub const NOT_YOURS: &str = "namespace is not one of yours; ask the admin to add it to gromacs_tenant";

/// The policy that does so, as the database names it.
pub const POLICY_OF_NAMESPACES: &str = "policy \"gromacs_to_tune_namespace\"";

/// Said of a row whose file the row before it names, too.
pub const NAMED_TWICE: &str = "it is named twice; leave one out";

/// Said of a file that a row computes already, by number and state; what to do depends on who is asked.
const COMPUTED_ALREADY: &str = "row {row} computes this file already and is {state}";

/// Said if nobody says where the database is; the argument can say it, too.
#[must_use]
pub fn no_database(argument: &str) -> String {
    format!(
        "no database is named; set DATABASE_URL (or {argument}) to postgres://USER:PASSWORD@HOST:5432/DATABASE"
    )
}

/// Said of a file that the row of this number and state computes already.
#[must_use]
pub fn computed_already(row: i64, state: &str) -> String {
    COMPUTED_ALREADY.replace("{row}", &row.to_string()).replace("{state}", state)
}

/// The messages that stand here, by the name under which another language knows them.
pub(crate) fn messages() -> [(&'static str, String); 7] {
    [
        ("NO_DATABASE", no_database("url")),
        ("NO_URL", NO_URL.to_owned()),
        ("FORBIDDEN", FORBIDDEN.to_owned()),
        ("NOT_YOURS", NOT_YOURS.to_owned()),
        ("POLICY_OF_NAMESPACES", POLICY_OF_NAMESPACES.to_owned()),
        ("NAMED_TWICE", NAMED_TWICE.to_owned()),
        ("COMPUTED_ALREADY", COMPUTED_ALREADY.to_owned()),
    ]
}

/// Every constraint of a row that people can break, and what they must change so that it holds.
pub(crate) fn of_rows() -> impl Iterator<Item = (String, String)> {
    let of_columns =
        row::all().filter(|column| column.check.is_some()).map(|it| format!("{}_valid", it.name));
    let others = RULES.iter().map(|rule| rule.name.to_owned());
    let names = of_columns.chain(others).chain(["namespace_tenant".to_owned()]);
    names
        .map(|name| format!("gromacs_to_tune_{name}"))
        .filter_map(|name| Some((name.clone(), sentence(&name)?)))
}

/// A rule about several columns, or about one that nobody gives.
pub(crate) struct Rule {
    /// The migration that adds it.
    pub since: i64,
    /// The name of its constraint, without that of the table.
    pub name: &'static str,
    /// The condition.
    pub condition: &'static str,
    /// What a person must change so that it holds.
    pub message: &'static str,
}

/// The rules of `gromacs_to_tune` that are not about one column that people give.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        since: FIRST,
        name: "checkpoint_path_append",
        condition: "checkpoint_path is null or append is not true",
        message: "a simulation that starts from a checkpoint writes new parts of its output; leave append out, or say false",
    },
    Rule {
        since: FIRST,
        name: "benchmark_minimum",
        condition: "kind <> 'calibration' or num_nonnulls(min_cpu_millicores, min_ns_per_day) = 0",
        message: "a calibration runs with one configuration; leave min_cpu_millicores and min_ns_per_day out",
    },
    Rule {
        since: FIRST,
        name: "benchmark_nodes",
        condition: "kind <> 'calibration' or node_labels = '{}'",
        message: "a calibration names its nodes in benchmark_node_labels; leave node_labels out",
    },
    Rule {
        since: FIRST,
        name: "benchmark_mdrun_options",
        condition: "kind <> 'calibration' or mdrun_options = '{}'",
        message: "a calibration runs mdrun as it is; leave mdrun_options out",
    },
    Rule {
        since: FIRST,
        name: "box_nm_dimensions",
        condition: "array_ndims(box_nm) = 1 and array_lower(box_nm, 1) = 1",
        message: "box_nm must be three positive lengths in nm",
    },
    Rule {
        since: FIRST,
        name: "pme_grid_dimensions",
        condition: "array_ndims(pme_grid) = 1 and array_lower(pme_grid, 1) = 1",
        message: "pme_grid must be three numbers between 4 and 4096",
    },
    Rule {
        since: FIRST,
        name: "state_valid",
        condition: "state in ('queued', 'inspecting', 'tuning', 'submitted', 'running', 'interrupted', 'completed', 'failed', 'cancelled')",
        message: "state must be one of the states that the table's comment lists",
    },
    Rule {
        since: FIRST,
        name: "submission_valid",
        condition: "submission >= 1",
        message: "submission must be at least 1",
    },
    Rule {
        since: FIRST,
        name: "benchmark_of_simulation",
        condition: "kind = 'calibration' or num_nonnulls(benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels) = 0",
        message: "only a calibration has benchmark_ columns; leave them out, or set kind to calibration",
    },
    Rule {
        since: FIRST,
        name: "benchmark_complete",
        condition: "kind <> 'calibration' or num_nulls(benchmark_atoms, benchmark_ranks, benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels, nsteps) = 0",
        message: "a calibration needs benchmark_atoms, benchmark_ranks, benchmark_threads and nsteps",
    },
    Rule {
        since: FIRST,
        name: "benchmark_steps_valid",
        condition: "kind <> 'calibration' or nsteps between 200 and 200000000",
        message: "nsteps of a calibration must be between 200 and 200000000",
    },
    Rule {
        since: FIRST,
        name: "benchmark_deadline",
        condition: "kind <> 'calibration' or deadline is null",
        message: "a calibration has no deadline; leave it out",
    },
    Rule {
        since: FIRST,
        name: "ladder_of_calibration",
        condition: "kind <> 'calibration' or num_nonnulls(min_efficiency, max_configurations, gpu_price, memory_price) = 0",
        message: "a calibration runs with one configuration; leave min_efficiency, max_configurations, gpu_price and memory_price out",
    },
    Rule {
        since: FIRST,
        name: "benchmark_grompp_options",
        condition: "kind <> 'calibration' or grompp_options = '{}'",
        message: "a calibration makes its file itself; leave grompp_options out",
    },
    Rule {
        since: FIRST,
        name: "multidir_grompp_options",
        condition: "multidir = '{}' or grompp_options = '{}'",
        message: "a row of several simulations makes none of its files; leave grompp_options out, and run gmx grompp in each folder",
    },
    Rule {
        since: 21,
        name: "command_kind",
        condition: "(kind = 'command') = (command is not null)",
        message: "a row is of kind command if it has a command when it is added, and only then; leave kind out, and add another row",
    },
    Rule {
        since: 21,
        name: "command_alone",
        condition: "kind = 'command' or num_nonnulls(folder, cpu_millicores, memory_bytes) = 0",
        message: "only a command has folder, cpu_millicores and memory_bytes; leave them out, or give command",
    },
    Rule {
        since: 21,
        name: "command_resources",
        condition: "kind <> 'command' or num_nulls(cpu_millicores, memory_bytes) = 0",
        message: "a command needs cpu_millicores and memory_bytes, which it asks for, such as 1000 and 1073741824",
    },
    Rule {
        since: 21,
        name: "command_image",
        condition: "kind <> 'command' or image is not null",
        message: "a command needs an image, and its tenant has none; give image",
    },
    Rule {
        since: 21,
        name: "command_extension",
        condition: "kind <> 'command' or extended_nsteps is null",
        message: "a command has no length and cannot be extended; add another row",
    },
    Rule {
        since: 21,
        name: "command_simulation",
        condition: "kind <> 'command' or (num_nonnulls(append, checkpoint_path, deadline, min_cpu_millicores, min_ns_per_day, fallback_after_seconds, min_efficiency, max_configurations, gpu_price, memory_price, atoms, box_nm, nsteps, init_step, dt_ps, cutoff_nm, rlist_nm, nstlist, pme_grid, pme_order, bonded_interactions, constraints, gpu_nonbonded, gpu_pme, gpu_bonded, gpu_update, gromacs_version) = 0 and multidir = '{}' and mdrun_options = '{}' and grompp_options = '{}')",
        message: "a command is no simulation and has one configuration; leave out multidir, append, checkpoint_path, mdrun_options, grompp_options, deadline, fallback_after_seconds, min_cpu_millicores, min_ns_per_day, what chooses configurations, and the columns about the system",
    },
    Rule {
        since: 23,
        name: "engine_of_simulation",
        condition: "engine = 'thread-mpi' or kind = 'simulation'",
        message: "only a simulation has an engine; leave it out",
    },
    Rule {
        since: 24,
        name: "mdp_options_grompp",
        condition: "mdp_options = '{}' or grompp_options <> '{}'",
        message: "mdp_options are settings for grompp, which makes the file of no other row; give grompp_options, too, or leave mdp_options out",
    },
];

/// What a person must change so that the CHECK constraint `name` holds; none if it is not one that people can break.
#[must_use]
pub fn sentence(name: &str) -> Option<String> {
    let rule_of_tenant = name.strip_prefix("gromacs_tenant_");
    let rule = rule_of_tenant.or_else(|| name.strip_prefix("gromacs_to_tune_"))?;
    let of_column = || row::all().find(|column| Some(column.name) == rule.strip_suffix("_valid"))?.message();
    let of_several = || RULES.iter().find(|known| known.name == rule).map(|known| known.message);
    let special = match rule {
        "namespace_tenant" => Some(
            "owner and namespace of a row must be those of a tenant in gromacs_tenant, which stays as long as it has rows",
        ),
        _ => rule_of_tenant.and_then(of_tenant).or_else(of_several),
    };
    special.map(ToOwned::to_owned).or_else(of_column)
}

/// The same for the admin's table, as far as its columns are others than those of a row.
fn of_tenant(rule: &str) -> Option<&'static str> {
    Some(match rule {
        "database_role_valid" => "database_role must be the name of a role, at most 63 bytes",
        "service_account_valid" => {
            "service_account must be the name of a ServiceAccount: lower case letters, digits, '-' and '.'"
        }
        "image_patterns_valid" => "image_patterns must be a list of patterns, none of them empty",
        "min_cpu_millicores_valid" => {
            "min_cpu_millicores must be between 0 and 1024000 thousandths of a core"
        }
        "interruption_after_seconds_valid" => {
            "min_interruption_after_seconds and max_interruption_after_seconds must be between 1 second and 7 days, the first at most the second"
        }
        "max_put_bytes_valid" => "max_put_bytes must be at least 1",
        "max_rows_in_work_valid" => "max_rows_in_work must be between 0 and 1000000",
        _ => return None,
    })
}

/// The sentence for a rule that the database says is broken, with the rule's name: `message` is the database's own. None
/// if the rule is none of the queue's.
#[must_use]
pub fn broken(rule: &str, message: &str) -> Option<String> {
    if let Some(sentence) = sentence(rule) {
        return Some(format!("{sentence} (rule {rule})"));
    }
    let told_by_trigger = rule.starts_with("gromacs_") && rule.ends_with("_allowed");
    told_by_trigger.then(|| format!("{message} (rule {rule})"))
}

#[cfg(all(test, feature = "sql"))]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_table_has_its_sentence() {
        let migrations: String =
            crate::simulation::MIGRATIONS.iter().map(|migration| migration.sql.as_str()).collect();
        let rules: Vec<&str> = migrations
            .split("constraint ")
            .skip(1)
            .filter_map(|text| text.split_whitespace().next())
            // One that is dropped, to be made again.
            .map(|name| name.trim_end_matches(','))
            .filter(|name| name.starts_with("gromacs_to_tune_") || name.starts_with("gromacs_tenant_"))
            .collect();
        assert!(rules.len() > 40, "{rules:?}");
        for rule in rules {
            assert!(sentence(rule).is_some(), "{rule} has no message");
        }
    }

    #[test]
    fn triggers_speak_for_themselves() {
        let rule = "gromacs_to_tune_namespace_allowed";
        let told = broken(rule, "namespace \"x\" is not one of yours");
        assert_eq!(
            told.as_deref(),
            Some("namespace \"x\" is not one of yours (rule gromacs_to_tune_namespace_allowed)")
        );
        assert_eq!(broken("pg_class_pkey", "x"), None);
        assert!(broken("gromacs_to_tune_kind_valid", "x").is_some_and(|told| !told.starts_with('x')));
    }
}
