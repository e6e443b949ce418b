//! Options of the verbs that change what rows ask for.

use std::time::Duration;

use clap::{ArgGroup, Args};

use super::duration;
use super::ladder::LadderFlags;
use super::queue::{Selection, deadline, label};
use crate::store::{Moment, Unset};

/// Options of `edit`.
#[derive(Debug, Clone, Args)]
#[command(
    group = ArgGroup::new("which").args(["rows", "state", "owner", "namespace", "in_project", "with_label"]).multiple(true).required(true),
    group = ArgGroup::new("what").args(["project", "label", "image", "append", "mdrun_options", "grompp", "node_label", "any_node", "after", "no_after", "deadline", "no_deadline", "priority", "max_cpu_millicores", "max_memory_bytes", "max_gpus", "min_cpu_millicores", "min_ns_per_day", "min_efficiency", "max_configurations", "gpu_price", "memory_price", "interruption_after", "fallback_after", "unset"]).multiple(true).required(true)
)]
pub struct EditOptions {
    /// Which rows.
    #[command(flatten)]
    pub selection: Selection,
    /// What they belong to from now on
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// Give them this label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Run in IMAGE; the file is read again with it
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Go on in the output files there are, or write new parts after each interruption
    #[arg(long, value_name = "BOOL")]
    pub append: Option<bool>,
    /// Give mdrun these further options, in one text, in the place of those before; none of them with an empty text
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub mdrun_options: Option<String>,
    /// Make the .tpr file by grompp with these options, in one text; with an empty text it is read as it is
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub grompp: Option<String>,
    /// Run only on nodes with this label; may be repeated, and replaces what was said before
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = label, help_heading = "Scheduling")]
    pub node_label: Vec<(String, String)>,
    /// Run on any node of the pool
    #[arg(long, conflicts_with = "node_label", help_heading = "Scheduling")]
    pub any_node: bool,
    /// Begin only after the row ROW is completed; may be repeated, and replaces what was said before
    #[arg(long, value_name = "ROW", value_delimiter = ',', help_heading = "Scheduling")]
    pub after: Vec<i64>,
    /// Wait for no other row
    #[arg(long, conflicts_with = "after", help_heading = "Scheduling")]
    pub no_after: bool,
    /// Try to complete them by TIME, such as 3d from now, 2026-11-28T08:00:00Z, or 2026-11-28 (UTC)
    #[arg(long, value_name = "TIME", value_parser = deadline, help_heading = "Scheduling")]
    pub deadline: Option<Moment>,
    /// Take their deadline away
    #[arg(long, conflicts_with = "deadline", help_heading = "Scheduling")]
    pub no_deadline: bool,
    /// Start before rows of yours of lower priority
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = "Scheduling")]
    pub priority: Option<i32>,
    /// Ask for at most this many thousandths of a core
    #[arg(long, value_name = "MILLICORES", help_heading = "Scheduling")]
    pub max_cpu_millicores: Option<i32>,
    /// Ask for at most this much memory
    #[arg(long, value_name = "BYTES", help_heading = "Scheduling")]
    pub max_memory_bytes: Option<i64>,
    /// Ask for at most this many GPUs
    #[arg(long, value_name = "COUNT", help_heading = "Scheduling")]
    pub max_gpus: Option<i32>,
    /// Wait rather than run with fewer than this many thousandths of a core, 0 for none
    #[arg(long, value_name = "MILLICORES", help_heading = "Scheduling")]
    pub min_cpu_millicores: Option<i32>,
    /// Wait rather than run with a configuration that is predicted to be slower than this, 0 for none
    #[arg(long, value_name = "NS_PER_DAY", help_heading = "Scheduling")]
    pub min_ns_per_day: Option<f64>,
    /// How their configurations are chosen.
    #[command(flatten)]
    pub ladder: LadderFlags,
    /// Write a checkpoint every TIME
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Scheduling")]
    pub interruption_after: Option<Duration>,
    /// Try the next smaller configuration after TIME without free capacity
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Scheduling")]
    pub fallback_after: Option<Duration>,
    /// Take back what was said of OPTION, such as min-efficiency; may be repeated
    ///
    /// The row then has what a row has that is added without it: the tenant's value, the pool's or the submitter's, or none.
    #[arg(long, value_name = "OPTION", value_delimiter = ',')]
    pub unset: Vec<Unset>,
}

/// Options of `extend`.
#[derive(Debug, Clone, Args)]
#[command(
    group = ArgGroup::new("which").args(["rows", "state", "owner", "namespace", "in_project", "with_label"]).multiple(true).required(true),
    group = ArgGroup::new("length").args(["ns", "until"]).required(true)
)]
pub struct ExtendOptions {
    /// Which rows.
    #[command(flatten)]
    pub selection: Selection,
    /// Compute NS more nanoseconds
    #[arg(long, value_name = "NS", value_parser = nanoseconds)]
    pub ns: Option<f64>,
    /// Compute NS nanoseconds in all
    ///
    /// Counted from the first step of the .tpr file.
    #[arg(long, value_name = "NS", value_parser = nanoseconds)]
    pub until: Option<f64>,
}

/// Reads a length of simulated time.
fn nanoseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ns) if ns.is_finite() && ns > 0.0 => Ok(ns),
        _ => Err("it must be a number of nanoseconds above 0, such as 100 or 0.5".to_owned()),
    }
}
