//! What a tenant has: its table, and the options that the admin gives. Each is described here once.

use clap::Args;
use serde::Serialize;

use crate::text::duration;

/// A line of `gromacs_tenant`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, sqlx::FromRow, Args)]
pub struct Tenant {
    /// Database role that people log in with
    #[arg(value_name = "ROLE")]
    pub database_role: String,
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
    #[arg(long, value_name = "NS", value_parser = number, help_heading = "Defaults")]
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
    #[arg(long = "min-interruption-after", value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    pub min_interruption_after_seconds: Option<i32>,
    /// Let rows write a checkpoint every TIME at least
    #[arg(long = "max-interruption-after", value_name = "TIME", value_parser = seconds, help_heading = "Limits")]
    pub max_interruption_after_seconds: Option<i32>,
    /// Let at most COUNT of its rows be in work at the same time
    ///
    /// Those that are neither queued nor ended; with 0 none begins. Counts for rows that are there already, too.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub max_rows_in_work: Option<i32>,
    /// Let `put` copy at most this many bytes onto a volume at a time
    ///
    /// The command keeps to it. What else can write to the volume does not: give the volume itself the size that it may have.
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    pub max_put_bytes: Option<i64>,
}

/// Too long for the column is too long for its rule, which has the better sentence.
fn seconds(text: &str) -> Result<i32, String> {
    duration(text).map(|time| i32::try_from(time.as_secs()).unwrap_or(i32::MAX))
}

/// JSON, in which a tenant is written, has no other numbers than these.
fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "must be a number".to_owned())
}
