//! Options of the verbs that people use: everything but `run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use scavenger_schema::simulation::State;

use super::row::AddColumns;
use super::sweep::Sweep;
use super::volume::Writing;
use super::written::{Since, label, since};
use crate::text::duration;

/// Form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table for a person.
    Table,
    /// JSON for a machine.
    Json,
}

/// How to print, the same for every verb.
#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// Print a table or JSON
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: OutputFormat,
}

impl Output {
    /// True if a machine reads it.
    #[must_use]
    pub fn is_json(self) -> bool {
        self.output == OutputFormat::Json
    }
}

/// Options of `migrate`.
#[derive(Debug, Clone, Args)]
pub struct MigrateOptions {
    /// Print which migrations would be applied, and apply none
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Wait up to TIME for a database that does not let this program in yet
    ///
    /// A new database server first starts, and then makes its roles. Without this the first error ends the program.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub wait: Option<Duration>,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `add`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("what").args(["tpr_path", "from", "tpr"]).multiple(true).required(true))]
pub struct AddOptions {
    /// Paths of .tpr files, relative to the root of the volume
    ///
    /// With --root a path may hold *, ? and [...], and ** for any folders in between: quote it, so that the shell
    /// leaves it alone.
    #[arg(value_name = "PATH", conflicts_with = "from")]
    pub tpr_path: Vec<String>,
    /// Run a command: the words behind `--` are no paths, but a program and its arguments
    ///
    /// They go into the container as they are: no shell reads them. The row needs --cores and --memory, and an image that has `sh`
    /// and `mkdir`. It starts over after an interruption, and is completed when the program ends with exit code 0.
    #[arg(long, requires = "tpr_path", conflicts_with_all = ["from", "root", "tpr", "multidir", "put"])]
    pub command: bool,
    /// Add the rows of the CSV file FILE, or of stdin if it is -
    ///
    /// The first line names columns of the table gromacs_to_tune, at least tpr_path or command; an empty cell is a value not
    /// given. Three lengths or numbers in one cell are divided by blanks. Other options fill what the file leaves out.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Expand paths in the folder DIR, where the volume is mounted here
    ///
    /// Each file must be there. What is stored is its path relative to DIR, since that is where the volume's root is;
    /// absolute paths inside DIR are good, too.
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub root: Option<PathBuf>,
    /// Inspect the .tpr file FILE here with gmx, instead of in the cluster
    ///
    /// FILE is a copy of the one file that PATH names; with --root it names the file itself. Needs gmx in the PATH.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub tpr: Option<PathBuf>,
    /// Compute several simulations side by side in one row: the file of PATH in each of these folders
    ///
    /// PATH names no file then, but what each folder holds: ensemble/topol.tpr with --multidir sim0 sim1 means
    /// ensemble/sim0/topol.tpr and ensemble/sim1/topol.tpr. 2 to 32 simulations with as many atoms and steps. They start
    /// and stop together, and the row is as far as the least advanced one. With --root each folder may be a pattern.
    #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with_all = ["from", "tpr"])]
    pub multidir: Vec<String>,
    /// Add a row for each value of NAME, which stands in PATH, labels and options as {NAME}; may be repeated
    ///
    /// lambda=0..19 are 20 values, i=0..100..5 every fifth, i=00..19 padded ones, and T=300,310 is a list. Several make a
    /// grid, with a row for each combination. {NAME} is replaced in every text, also in folders and lists of options.
    #[arg(long, value_name = "NAME=VALUES", conflicts_with_all = ["from", "tpr"])]
    pub sweep: Vec<Sweep>,
    /// Copy the files onto the volume first, as `put` does
    ///
    /// PATH names files in the folder of --root, which is the working directory unless it is given. What the row names beside,
    /// such as its checkpoint, is copied, too. Files that are on the volume with the same content are left alone.
    #[arg(long, conflicts_with_all = ["from", "tpr", "grompp"])]
    pub put: bool,
    /// Copy into FOLDER on the volume, which is made if it is missing [default: the root of the volume]
    #[arg(long, value_name = "FOLDER", requires = "put")]
    pub to: Option<String>,
    /// What they ask for.
    #[command(flatten)]
    pub row: AddColumns,
    /// Add the good rows even if others are refused
    #[arg(long, help_heading = "Safety")]
    pub keep_going: bool,
    /// Leave out files that have a row already, whatever became of it
    ///
    /// For a cron that adds whatever is in a folder: what was computed, failed or cancelled is not begun again.
    #[arg(long, help_heading = "Safety", conflicts_with = "allow_duplicate")]
    pub skip_existing: bool,
    /// Add files even if a row for them has not ended
    #[arg(long, help_heading = "Safety")]
    pub allow_duplicate: bool,
    /// Print what would be added or refused, and add nothing
    ///
    /// The database checks each row by its own rules, in a transaction that is taken back.
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
    /// How the volume is written.
    #[command(flatten)]
    pub writing: Writing,
}

/// Which rows to show.
#[derive(Debug, Clone, Default, Args)]
pub struct Filter {
    /// Only rows in STATE; may be repeated
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub state: Vec<State>,
    /// Only rows of the database role OWNER
    #[arg(long, value_name = "OWNER")]
    pub owner: Option<String>,
    /// Only rows that run in NAMESPACE
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Only rows of PROJECT
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// Only rows with this label; may be repeated, then all must be there
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Only rows that have missed their deadline, or are expected to
    #[arg(long)]
    pub late: bool,
}

impl Filter {
    /// True if it lets every row through.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { state, owner, namespace, project, label, late } = self;
        state.is_empty()
            && owner.is_none()
            && namespace.is_none()
            && project.is_none()
            && label.is_empty()
            && !late
    }
}

/// Options of `list`.
#[derive(Debug, Clone, Args)]
pub struct ListOptions {
    /// Filter.
    #[command(flatten)]
    pub filter: Filter,
    /// Sum up each project instead of listing its rows
    #[arg(long, conflicts_with = "limit")]
    pub by_project: bool,
    /// Only the newest COUNT rows [default: 200]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `show`.
#[derive(Debug, Clone, Args)]
pub struct ShowOptions {
    /// Number of the row
    #[arg(value_name = "ROW")]
    pub row: i64,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchOptions {
    /// Numbers of the rows; all that have not ended without any
    #[arg(value_name = "ROW")]
    pub rows: Vec<i64>,
    /// Filter.
    #[command(flatten)]
    pub filter: Filter,
    /// End when every row that is shown has ended
    ///
    /// With 0 if all are completed, with 1 if one failed or was cancelled.
    #[arg(long)]
    pub until_finished: bool,
    /// Look again at least every TIME
    ///
    /// The database tells of changes of state at once; progress in between is seen this often.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub interval: Duration,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Which rows a verb is about that changes them.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Numbers of the rows
    #[arg(value_name = "ROW")]
    pub rows: Vec<i64>,
    /// All rows in STATE; may be repeated
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state, conflicts_with = "rows")]
    pub state: Vec<State>,
    /// All rows of the database role OWNER
    #[arg(long, value_name = "OWNER", conflicts_with = "rows")]
    pub owner: Option<String>,
    /// All rows that run in NAMESPACE
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "rows")]
    pub namespace: Option<String>,
    /// All rows of PROJECT
    #[arg(long = "in-project", value_name = "PROJECT", conflicts_with = "rows")]
    pub in_project: Option<String>,
    /// All rows with this label; may be repeated, then all must be there
    #[arg(long = "with-label", value_name = "NAME=VALUE", value_delimiter = ',', value_parser = label, conflicts_with = "rows")]
    pub with_label: Vec<(String, String)>,
    /// Do it for every row that the filters select
    ///
    /// Not needed for rows named by their numbers.
    #[arg(long, help_heading = "Safety")]
    pub yes: bool,
    /// Print which rows it would be done for, and do nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

/// Options of `retry`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").args(["rows", "state", "owner", "namespace", "in_project", "with_label", "all_failed"]).multiple(true).required(true))]
pub struct RetryOptions {
    /// Which rows.
    #[command(flatten)]
    pub selection: Selection,
    /// All failed rows, the same as --state failed
    #[arg(long, conflicts_with_all = ["rows", "state"])]
    pub all_failed: bool,
}

/// Options of `rm`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").args(["rows", "state", "owner", "namespace", "in_project", "with_label", "ended_before"]).multiple(true).required(true))]
pub struct RmOptions {
    /// Which rows.
    #[command(flatten)]
    pub selection: Selection,
    /// All rows that ended before TIME
    ///
    /// A stretch back from now, such as 26w or 365d, or a moment, such as 2026-11-21T08:00:00Z or 2026-11-21 (UTC).
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with = "rows")]
    pub ended_before: Option<Since>,
}

/// Options of `cancel`, `hold` and `release`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("which").args(["rows", "state", "owner", "namespace", "in_project", "with_label"]).multiple(true).required(true))]
pub struct RowsOptions {
    /// Which rows.
    #[command(flatten)]
    pub selection: Selection,
}

/// Options of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportOptions {
    /// Filter.
    #[command(flatten)]
    pub filter: Filter,
    /// Only what ran since TIME
    ///
    /// A stretch back from now, such as 12h, 7d or 4w, or a moment, such as 2026-11-21T08:00:00Z or 2026-11-21 (UTC).
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = since)]
    pub since: Since,
    /// Write a line per attempt into FILE, or to stdout if it is -
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw simulations, interruptions and ns/day over time into FILE, as SVG, for those who have no dashboard
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Format.
    #[command(flatten)]
    pub output: Output,
}

fn state(text: &str) -> Result<State, String> {
    text.parse().map_err(|_| {
        let states: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("the states are {}", states.join(", "))
    })
}
