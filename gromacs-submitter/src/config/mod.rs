//! What can be set, on the command line or in the environment.

mod edit;
mod folder;
mod put;
mod queue;
mod row;
mod sweep;
mod tenant;
mod volume;
mod written;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use scavenger_program::completions;
use scavenger_program::logging::{Logging, Program};
use scavenger_schema::scavenger_job::ImagePullPolicy;

pub use edit::{EditOptions, ExtendOptions};
pub use folder::{AttemptNumber, FetchOptions, FilesOptions, LogsOptions, Word};
pub use put::PutOptions;
pub use queue::{
    AddOptions, Filter, ListOptions, MigrateOptions, Output, OutputFormat, ReportOptions, RetryOptions,
    RmOptions, RowsOptions, Selection, ShowOptions, WatchOptions,
};
pub use row::{AddColumns, EditColumns};
pub(crate) use row::{texts, words};
pub use sweep::{Combination, Sweep, texts_of};
pub use tenant::{
    AddTenantOptions, Address, CardOptions, ListTenantsOptions, RemoveTenantOptions, TenantCommand,
    TenantOptions,
};
pub use volume::{Kubernetes, Reading, Writing};
pub use written::Since;
pub(crate) use written::{deadline, label};

use crate::text::duration;
use crate::webhook::WebhookUrl;

/// Compute GROMACS simulations from a Postgres queue as ScavengerJobs
///
/// A row of the table gromacs_to_tune names a .tpr file on a PersistentVolumeClaim. The submitter reads the file,
/// asks the tuner for configurations, makes a ScavengerJob, follows it through interruptions to its end, and writes
/// down what came of it.
#[derive(Debug, Parser)]
#[command(name = "gromacs-submitter", version, propagate_version = true)]
pub struct Cli {
    /// Connection.
    #[command(flatten)]
    pub database: Database,
    /// How to log.
    #[command(flatten)]
    pub logging: Logging<Submitter>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create or update the tables
    ///
    /// Applies the migrations that the database does not have yet. Running it again does nothing.
    Migrate(MigrateOptions),
    /// Process the queue, continuously or once
    ///
    /// Claims rows, asks the tuner, creates ScavengerJobs and follows them. Several submitters can share one queue.
    Run(RunOptions),
    /// Add simulations to the queue
    ///
    /// Names .tpr files on a PersistentVolumeClaim, one, several, a pattern (--root) or a table (--from). Either all
    /// of them are added or none; --keep-going adds the good ones. A file that is in the queue already, and has not
    /// ended, is refused.
    Add(Box<AddOptions>),
    /// List the queue
    ///
    /// One line per simulation, as the view gromacs_queue has it. On a terminal lines are cut to its width.
    List(ListOptions),
    /// Tell the story of one simulation
    ///
    /// What it is, where it stands and why, its configurations, its attempts and its history.
    Show(ShowOptions),
    /// Follow simulations as they go
    ///
    /// A table that follows the queue, ended with q; elsewhere than on a terminal a line for each change. Without
    /// rows or filters it follows what has not ended.
    Watch(WatchOptions),
    /// Print what a simulation printed, for those who do not use kubectl
    ///
    /// That is the output of its newest attempt, as its pod has it. If the pods are gone, it is the end of md.log, which
    /// a small pod of your own reads from the volume. Your kubeconfig names the cluster.
    Logs(LogsOptions),
    /// List the files of a simulation, for those who cannot reach its volume by other means
    ///
    /// Those in the folder of the row on the volume. A small pod reads it, and is deleted afterwards. Your kubeconfig
    /// names the cluster.
    Files(FilesOptions),
    /// Copy files of simulations to this machine, for those who cannot reach the volume by other means
    ///
    /// They come from the folders of the rows on the volume. A small pod reads each volume, and is deleted afterwards. A
    /// file gets its name in DIR only when it is complete and its checksum is right. Your kubeconfig names the cluster.
    Fetch(FetchOptions),
    /// Copy files of this machine onto a volume, for those who cannot reach it by other means
    ///
    /// The mirror of fetch: whole folders, for which `add --put` adds rows in one go. A small pod writes the volume, and is deleted
    /// afterwards. A file gets its name on the volume only when it is complete and its checksum is right. Your kubeconfig names
    /// the cluster.
    Put(PutOptions),
    /// Stop simulations for good
    ///
    /// The submitter removes their ScavengerJobs; what was computed stays on the volume, and retry goes on from there.
    Cancel(RowsOptions),
    /// Resume failed or cancelled simulations
    ///
    /// They continue from their last checkpoint.
    Retry(RetryOptions),
    /// Begin none of these simulations until they are released
    ///
    /// Only simulations that are queued can be held: what has begun goes on. A held row keeps its number and its rank.
    Hold(RowsOptions),
    /// Let simulations begin that were held
    Release(RowsOptions),
    /// Change what simulations ask for, or what they belong to
    ///
    /// Project, labels and deadline can be changed at any time, everything else while a row is queued or has ended: cancel a row,
    /// change it, and retry it. The limits of the tenant hold as they do for add.
    Edit(Box<EditOptions>),
    /// Let completed simulations go on for longer
    ///
    /// They go on from their last checkpoint, in the same folder and the same output files. The .tpr file stays as it is:
    /// mdrun reads a copy with more steps, extended.tpr in the folder of the row.
    Extend(ExtendOptions),
    /// Remove simulations that have ended from the queue, with their history
    ///
    /// Their files stay on the volume, and what was measured stays for the tuner.
    Rm(RmOptions),
    /// Sum up what ran: a table, CSV, and a picture for those who have no dashboard
    ///
    /// Every attempt that ran in the time asked for, how it ended and how fast it was.
    Report(ReportOptions),
    /// Decide which database role may run simulations in which namespace
    ///
    /// For the admin: the role that owns the tables. docs/queue.md explains roles and tenants.
    Tenant(TenantOptions),
    /// Print the completions of a shell
    ///
    /// For bash, for example: `source <(gromacs-submitter completions bash)`.
    Completions(completions::Options),
}

/// Where the database is.
#[derive(Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct Database {
    /// Connect to the Postgres at URL
    ///
    /// postgres://USER:PASSWORD@HOST:5432/DATABASE. Better set in the environment than on the command line, where
    /// other users of the machine can read the password.
    #[arg(long, global = true, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Give up connecting after TIME
    #[arg(long, global = true, value_name = "TIME", env = "SCAVENGER_SUBMITTER_CONNECT_TIMEOUT", default_value = "10s", value_parser = duration)]
    pub connect_timeout: Duration,
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL holds a password.
        formatter
            .debug_struct("Database")
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

/// This program's flags for logs.
#[derive(Debug, Clone)]
pub struct Submitter;

impl Program for Submitter {
    const LOG: &'static str = "SCAVENGER_SUBMITTER_LOG";
    const LOG_FORMAT: &'static str = "SCAVENGER_SUBMITTER_LOG_FORMAT";
    const LOG_HELP: &'static str = "Log what FILTER lets through\n\nA level (error, warn, info, debug, trace) or \
        directives as of the tracing crate. Logs go to stderr.";
}

/// Options of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunOptions {
    /// Advance every row as far as possible without waiting, then exit
    ///
    /// For cron: exits with 0, or with 1 if a row failed or a step could not be done.
    #[arg(long)]
    pub once: bool,
    /// Ask the tuner at URL
    #[arg(
        long,
        value_name = "URL",
        env = "SCAVENGER_SUBMITTER_TUNER_URL",
        default_value = "http://tuner:8080",
        help_heading = "Connection"
    )]
    pub tuner_url: String,
    /// Report each row that ends to the webhook at URL
    ///
    /// A small JSON document is sent with POST when a row is completed, failed or cancelled. Its field `text` is a message
    /// for a chat such as Slack or Mattermost. Better set in the environment than on the command line, where other users of
    /// the machine can read the address. It is never logged.
    #[arg(
        long,
        value_name = "URL",
        env = "SCAVENGER_SUBMITTER_WEBHOOK_URL",
        hide_env_values = true,
        help_heading = "Connection"
    )]
    pub webhook_url: Option<WebhookUrl>,
    /// Serve /healthz, /readyz and /metrics on ADDRESS
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "SCAVENGER_SUBMITTER_LISTEN",
        default_value = "0.0.0.0:8080",
        help_heading = "Connection"
    )]
    pub listen: SocketAddr,
    /// Run configurations with GPUs with the RuntimeClass NAME [default: that of the cluster]
    #[arg(
        long,
        value_name = "NAME",
        env = "SCAVENGER_SUBMITTER_GPU_RUNTIME_CLASS",
        help_heading = "Scheduling"
    )]
    pub gpu_runtime_class: Option<String>,
    /// Run rows that name no image in IMAGE
    #[arg(
        long,
        value_name = "IMAGE",
        env = "SCAVENGER_SUBMITTER_GROMACS_IMAGE",
        help_heading = "Scheduling"
    )]
    pub gromacs_image: String,
    /// Pull images by POLICY
    #[arg(
        long,
        value_name = "POLICY",
        env = "SCAVENGER_SUBMITTER_IMAGE_PULL_POLICY",
        default_value = "if-not-present",
        help_heading = "Scheduling"
    )]
    pub image_pull_policy: PullPolicy,
    /// Try the next smaller configuration after TIME without free capacity
    ///
    /// Counted only while there is no free capacity, not while others are ahead in the queue; always longer than the
    /// pool's pendingTimeout. A row may say otherwise.
    #[arg(long, value_name = "TIME", env = "SCAVENGER_SUBMITTER_FALLBACK_AFTER", default_value = "10m", value_parser = duration, help_heading = "Scheduling")]
    pub fallback_after: Duration,
    /// Let at most COUNT simulations of one owner wait in the cluster
    #[arg(long, value_name = "COUNT", env = "SCAVENGER_SUBMITTER_MAX_WAITING", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Scheduling")]
    pub max_waiting: u16,
    /// Work on at most COUNT rows at the same time
    ///
    /// At least 2: new rows have their part of what is taken at once.
    #[arg(long, value_name = "COUNT", env = "SCAVENGER_SUBMITTER_CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=1000), help_heading = "Scheduling")]
    pub concurrency: u16,
    /// Write the progress of running simulations down every TIME
    #[arg(long, value_name = "TIME", env = "SCAVENGER_SUBMITTER_PROGRESS_INTERVAL", default_value = "5s", value_parser = duration, help_heading = "Scheduling")]
    pub progress_interval: Duration,
    /// Follow the logs of at most COUNT running simulations
    ///
    /// Each is a connection to the API server, which tells progress as it comes. The progress of what is beyond is
    /// read every --progress-interval.
    #[arg(
        long,
        value_name = "COUNT",
        env = "SCAVENGER_SUBMITTER_FOLLOW",
        default_value_t = 1000,
        help_heading = "Scheduling"
    )]
    pub follow: u16,
    /// Remove ScavengerJobs TIME after their end was recorded
    ///
    /// Until then the pods and their logs can be looked at.
    #[arg(long, value_name = "TIME", env = "SCAVENGER_SUBMITTER_KEEP_JOBS", default_value = "24h", value_parser = duration, help_heading = "Scheduling")]
    pub keep_jobs: Duration,
    /// Hold a row for TIME without a sign of life
    ///
    /// After that another submitter takes it over; longer than a request to Kubernetes or the tuner can take.
    #[arg(long, value_name = "TIME", env = "SCAVENGER_SUBMITTER_LEASE", default_value = "60s", value_parser = duration, help_heading = "Safety")]
    pub lease: Duration,
    /// Let rows in work come to a stop within TIME after SIGTERM
    #[arg(long, value_name = "TIME", env = "SCAVENGER_SUBMITTER_SHUTDOWN_GRACE", default_value = "20s", value_parser = duration, help_heading = "Safety")]
    pub shutdown_grace: Duration,
    /// Print which rows are due now, and work on none
    ///
    /// Needs the database only. What becomes of them depends on the cluster and the tuner at that moment.
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format of what --dry-run prints.
    #[command(flatten)]
    pub output: Output,
}

/// When the kubelet pulls an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl From<PullPolicy> for ImagePullPolicy {
    fn from(policy: PullPolicy) -> Self {
        match policy {
            PullPolicy::Always => Self::Always,
            PullPolicy::IfNotPresent => Self::IfNotPresent,
            PullPolicy::Never => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_password_is_never_shown() {
        let cli =
            Cli::parse_from(["gromacs-submitter", "--database-url", "postgres://u:secret@h/d", "migrate"]);
        assert!(!format!("{cli:?}").contains("secret"));
    }
}
