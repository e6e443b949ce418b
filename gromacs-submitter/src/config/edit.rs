//! Options of the verbs that change what rows ask for.

use clap::{ArgGroup, Args};

use super::queue::Selection;
use super::row::{EditColumns, names_of_edit, unset};

/// Options of `edit`.
#[derive(Debug, Clone, Args)]
#[command(
    group = ArgGroup::new("which").args(["rows", "state", "owner", "namespace", "in_project", "with_label"]).multiple(true).required(true),
    group = ArgGroup::new("what").args(names_of_edit()).arg("unset").multiple(true).required(true)
)]
pub struct EditOptions {
    /// Which rows.
    #[command(flatten)]
    pub selection: Selection,
    /// What they ask for from now on.
    #[command(flatten)]
    pub row: EditColumns,
    /// Take back what was said of OPTION, such as min-efficiency; may be repeated
    ///
    /// The row then has what a row has that is added without it: the tenant's value, the pool's or the submitter's, or none.
    #[arg(long, value_name = "OPTION", value_delimiter = ',', value_parser = unset())]
    pub unset: Vec<&'static str>,
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
