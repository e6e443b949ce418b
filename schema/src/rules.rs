//! What the database's rules mean to a person. Whoever writes rows says it in these words.
//!
//! The names of the CHECK constraints are a contract (schema/migrations). A rule whose name ends in `_allowed` is told by
//! a trigger, which knows what would be right and says so itself.

/// What a person must change so that the CHECK constraint `name` holds; none if it is not one that people can break.
#[must_use]
pub fn sentence(name: &str) -> Option<&'static str> {
    if let Some(rule) = name.strip_prefix("gromacs_tenant_") {
        return of_tenant(rule);
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
        "multidir_valid" => {
            "multidir must be a list of 2 to 32 folders, such as {sim0,sim1,sim2,sim3}, or left out"
        }
        "checkpoint_path_valid" => {
            "checkpoint_path must be the path of a .cpt file relative to the root of the volume, at most 900 bytes, without '..', '//' and control characters, for example water/state.cpt"
        }
        "checkpoint_path_append" => {
            "a simulation that starts from a checkpoint writes new parts of its output; leave append out, or say false"
        }
        "mdrun_options_valid" => {
            "mdrun_options must be a list of at most 100 words, together at most 8192 bytes, such as {-dlb,yes}"
        }
        "grompp_options_valid" => {
            "grompp_options must be a list of at most 100 words, together at most 8192 bytes, such as {-f,md.mdp,-c,start.gro,-p,topol.top}"
        }
        "multidir_grompp_options" => {
            "a row of several simulations makes none of its files; leave grompp_options out, and run gmx grompp in each folder"
        }
        "node_labels_valid" => {
            "node_labels must be an object of at most 32 labels of a node, such as {\"kubernetes.io/arch\": \"amd64\"}"
        }
        "benchmark_nodes" => "a calibration names its nodes in benchmark_node_labels; leave node_labels out",
        "benchmark_grompp_options" => "a calibration makes its file itself; leave grompp_options out",
        "benchmark_mdrun_options" => "a calibration runs mdrun as it is; leave mdrun_options out",
        "image_valid" => "image must be a container image without blanks",
        "run_as_user_valid" => "run_as_user must be between 1 and 2147483647: nothing runs as root",
        "run_as_group_valid" => "run_as_group must be between 1 and 2147483647",
        "priority_valid" => "priority must be between -1000000 and 1000000",
        "max_cpu_millicores_valid" => {
            "max_cpu_millicores must be between 500 and 1024000 thousandths of a core"
        }
        "max_memory_bytes_valid" => "max_memory_bytes must be at least 16 MiB",
        "max_gpus_valid" => "max_gpus must be between 0 and 16",
        "min_efficiency_valid" => "min_efficiency must be between 0.01 and 1",
        "max_configurations_valid" => "max_configurations must be between 1 and 32",
        "gpu_price_valid" => "gpu_price must be between 0 and 1000000 cores",
        "memory_price_valid" => "memory_price must be between 0 and 1000000 cores",
        "ladder_of_calibration" => {
            "a calibration runs with one configuration; leave min_efficiency, max_configurations, gpu_price and memory_price out"
        }
        "min_cpu_millicores_valid" => {
            "min_cpu_millicores must be between 0 and 1024000 thousandths of a core, and at most max_cpu_millicores"
        }
        "min_ns_per_day_valid" => "min_ns_per_day must be between 0 and 1000000",
        "benchmark_minimum" => {
            "a calibration runs with one configuration; leave min_cpu_millicores and min_ns_per_day out"
        }
        "deadline_valid" => "deadline must be a time between the years 2000 and 9000",
        "benchmark_deadline" => "a calibration has no deadline; leave it out",
        "interruption_after_seconds_valid" => {
            "interruption_after_seconds must be between 1 second and 7 days"
        }
        "fallback_after_seconds_valid" => "fallback_after_seconds must be between 1 second and 1 year",
        "atoms_valid" => "atoms must be between 1 and 1000000000",
        "box_nm_valid" | "box_nm_dimensions" => "box_nm must be three positive lengths in nm",
        "nsteps_valid" => "nsteps must not be negative: a simulation without an end never completes",
        "extended_nsteps_valid" => "extended_nsteps must be between 1 and 1000000000000000",
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
        "project_valid" => "project must be 1 to 100 characters without control characters",
        "labels_valid" => {
            "labels must be an object of names and texts such as {\"T\": \"310\"}, at most 4096 bytes; a name has 1 to 63 characters, without '=' and ','"
        }
        "after_valid" => "after must be a list of at most 100 numbers of rows, such as {7, 8}",
        "kind_valid" => "kind must be simulation or calibration",
        "benchmark_of_simulation" => {
            "only a calibration has benchmark_ columns; leave them out, or set kind to calibration"
        }
        "benchmark_complete" => {
            "a calibration needs benchmark_atoms, benchmark_ranks, benchmark_threads and nsteps"
        }
        "benchmark_atoms_valid" => "benchmark_atoms must be between 5184 and 10000000",
        "benchmark_ranks_valid" => "benchmark_ranks must be between 1 and 1024",
        "benchmark_threads_valid" => {
            "benchmark_threads must be between 1 and 128, and benchmark_ranks times benchmark_threads at most 1024"
        }
        "benchmark_pme_ranks_valid" => "benchmark_pme_ranks must be between 0 and half of benchmark_ranks",
        "benchmark_gpus_valid" => "benchmark_gpus must be 0 or 1",
        "benchmark_steps_valid" => "nsteps of a calibration must be between 200 and 200000000",
        "benchmark_node_labels_valid" => {
            "benchmark_node_labels must be an object of at most 32 labels of a node, such as {\"kubernetes.io/arch\": \"amd64\"}"
        }
        "state_valid" => "state must be one of the states that the table's comment lists",
        "submission_valid" => "submission must be at least 1",
        _ => return None,
    })
}

/// The same for the admin's table.
fn of_tenant(rule: &str) -> Option<&'static str> {
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
        "min_cpu_millicores_valid" => {
            "min_cpu_millicores must be between 0 and 1024000 thousandths of a core"
        }
        "min_ns_per_day_valid" => "min_ns_per_day must be between 0 and 1000000",
        "interruption_after_seconds_valid" => {
            "min_interruption_after_seconds and max_interruption_after_seconds must be between 1 second and 7 days, the first at most the second"
        }
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
