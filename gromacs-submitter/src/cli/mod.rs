//! The verbs, a file each. Exit codes: 0 done, 1 work failed, 2 usage or environment.

mod add;
mod list;
mod migrate;
mod request;
mod run;
mod show;
mod tenant;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

pub use tenant::{AddTenantOptions, ListTenantsOptions, RemoveTenantOptions, TenantCommand, TenantOptions};

use crate::config::{Cli, Command, Database, LogFormat, Logging};
use crate::store::{Store, StoreError};

/// How a verb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// The work itself failed.
    Failed,
}

/// Runs the verb that was asked for.
pub async fn main(cli: Cli) -> ExitCode {
    if let Err(error) = start_logging(&cli.logging) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    // One provider of TLS for every client, before the first one is made.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let result = match cli.command {
        Command::Migrate => migrate::exec(&cli.database).await,
        Command::Run(options) => Box::pin(run::exec(&cli.database, options)).await,
        Command::Add(options) => add::exec(&cli.database, options).await,
        Command::List(options) => list::exec(&cli.database, &options).await,
        Command::Show(options) => show::exec(&cli.database, &options).await,
        Command::Cancel(options) => request::exec(&cli.database, &options, request::Request::Cancel).await,
        Command::Retry(options) => request::exec(&cli.database, &options, request::Request::Retry).await,
        Command::Tenant(options) => tenant::exec(&cli.database, options).await,
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            // A value that breaks a rule is the user's; a database that does not answer is the environment's.
            ExitCode::from(2)
        }
    }
}

fn start_logging(logging: &Logging) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&logging.log)
        .map_err(|error| anyhow::anyhow!("--log {:?} is no filter: {error}", logging.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match logging.log_format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

/// A store for verbs that make a few requests.
fn open(database: &Database) -> Result<Store, StoreError> {
    let lease = std::time::Duration::from_secs(1);
    Store::new(&database.database_url, "command line".to_owned(), lease, 1, database.connect_timeout)
}

/// Prints a line; whoever closed stdout (`| head`) wants no more of it, and no panic either.
fn print_line(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}
