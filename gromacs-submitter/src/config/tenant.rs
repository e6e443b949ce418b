//! Options of `tenant`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Output, duration};

/// Options of `tenant`.
#[derive(Debug, Clone, Args)]
pub struct TenantOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: TenantCommand,
}

/// What can be done with tenants.
#[derive(Debug, Clone, Subcommand)]
pub enum TenantCommand {
    /// Let a database role run simulations in a namespace
    ///
    /// A tenant that is there already is made as described: what is not given has no limit. The database role becomes
    /// a member of gromacs_chemist. In Kubernetes, `kubectl apply --server-side -k deploy/tenant --namespace
    /// NAMESPACE` lets the submitter work there. Defaults and limits hold for rows that are inserted from then on.
    Add(Box<AddTenantOptions>),
    /// List the tenants that the connected role may see
    List(ListTenantsOptions),
    /// Take a namespace away from a database role
    ///
    /// Its simulations must have ended. To let none begin meanwhile, `tenant add --max-rows-in-work 0` first.
    Remove(RemoveTenantOptions),
}

/// Options of `tenant add`.
#[derive(Debug, Clone, Args)]
pub struct AddTenantOptions {
    /// Database role that people log in with
    #[arg(value_name = "ROLE")]
    pub role: String,
    /// Namespace in which its simulations may run
    #[arg(value_name = "NAMESPACE")]
    pub namespace: String,
    /// Run its simulations as ServiceAccount NAME
    #[arg(long, value_name = "NAME", help_heading = "Defaults")]
    pub service_account: Option<String>,
    /// Run rows that name no image in IMAGE
    #[arg(long, value_name = "IMAGE", help_heading = "Defaults")]
    pub image: Option<String>,
    /// Run rows that say no minimum with at least this many thousandths of a core
    ///
    /// They wait rather than fall back to less. The minimum of a row is never above its own maximum. In a row, 0 is no
    /// minimum.
    #[arg(long, value_name = "MILLICORES", help_heading = "Defaults")]
    pub min_cpu_millicores: Option<i32>,
    /// Run rows that say no minimum with a predicted speed of at least NS ns per day
    #[arg(long, value_name = "NS", help_heading = "Defaults")]
    pub min_ns_per_day: Option<f64>,
    /// Let rows name images that match PATTERN; may be repeated
    ///
    /// An asterisk stands for any characters, so end the name of a registry with a slash: registry.example/lab/*.
    /// Without this any image.
    #[arg(long = "allow-image", value_name = "PATTERN", value_delimiter = ',', help_heading = "Limits")]
    pub image_patterns: Vec<String>,
    /// Run its rows as user UID and no other
    #[arg(long, value_name = "UID", help_heading = "Limits")]
    pub run_as_user: Option<i64>,
    /// Run its rows as group GID and no other
    #[arg(long, value_name = "GID", help_heading = "Limits")]
    pub run_as_group: Option<i64>,
    /// Let a row ask for at most this many thousandths of a core
    #[arg(long, value_name = "MILLICORES", help_heading = "Limits")]
    pub max_cpu_millicores: Option<i32>,
    /// Let a row ask for at most this many bytes of memory
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    pub max_memory_bytes: Option<i64>,
    /// Let a row ask for at most COUNT GPUs
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub max_gpus: Option<i32>,
    /// Let rows write a checkpoint every TIME at most often
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub min_interruption_after: Option<Duration>,
    /// Let rows write a checkpoint every TIME at least
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub max_interruption_after: Option<Duration>,
    /// Let at most COUNT of its rows be in work at the same time
    ///
    /// Those that are neither queued nor ended; with 0 none begins. Counts for rows that are there already, too.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub max_rows_in_work: Option<i32>,
    /// Try it, say what would change, and change nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `tenant list`.
#[derive(Debug, Clone, Args)]
pub struct ListTenantsOptions {
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `tenant remove`.
#[derive(Debug, Clone, Args)]
pub struct RemoveTenantOptions {
    /// Database role
    #[arg(value_name = "ROLE")]
    pub role: String,
    /// Namespace
    #[arg(value_name = "NAMESPACE")]
    pub namespace: String,
    /// Delete its rows, which all have ended, and their history
    ///
    /// What was measured stays for the tuner, and files on volumes stay.
    #[arg(long, help_heading = "Safety")]
    pub delete_rows: bool,
    /// Try it, say what would change, and change nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}
