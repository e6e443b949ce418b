//! The verbs, a file each. Exit codes: 0 done, 1 work failed, 2 usage or environment.

mod add;
mod asked;
mod edit;
mod extend;
mod fetch;
mod files;
mod list;
mod logs;
mod migrate;
mod reader;
mod report;
mod request;
mod row;
mod run;
mod show;
mod simulations;
mod tenant;
mod text;
mod watch;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use scavenger_program::exit::{self, Exit};
use scavenger_program::output;

use crate::config::{Cli, Command, Database, Filter};
use crate::store::{RowFilter, Store, StoreError};
use text::{print_error, print_line};

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
    if let Err(error) = cli.logging.start() {
        return exit::ended(Err(error));
    }
    // One provider of TLS for every client, before the first one is made.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let result = match cli.command {
        Command::Migrate(options) => migrate::exec(&cli.database, &options).await,
        Command::Run(options) => Box::pin(run::exec(&cli.database, options)).await,
        Command::Add(options) => Box::pin(add::exec(&cli.database, options)).await,
        Command::List(options) => list::exec(&cli.database, &options).await,
        Command::Show(options) => show::exec(&cli.database, &options).await,
        Command::Watch(options) => Box::pin(watch::exec(&cli.database, &options)).await,
        Command::Logs(options) => Box::pin(logs::exec(&cli.database, &options)).await,
        Command::Files(options) => Box::pin(files::exec(&cli.database, &options)).await,
        Command::Fetch(options) => Box::pin(fetch::exec(&cli.database, &options)).await,
        Command::Cancel(options) => request::cancel(&cli.database, &options.selection).await,
        Command::Retry(options) => request::retry(&cli.database, options).await,
        Command::Hold(options) => request::hold(&cli.database, &options.selection).await,
        Command::Release(options) => request::release(&cli.database, &options.selection).await,
        Command::Edit(options) => Box::pin(edit::exec(&cli.database, &options)).await,
        Command::Extend(options) => extend::exec(&cli.database, &options).await,
        Command::Rm(options) => request::remove(&cli.database, &options.selection).await,
        Command::Report(options) => report::exec(&cli.database, &options).await,
        Command::Tenant(options) => tenant::exec(&cli.database, options).await,
        Command::Completions(options) => {
            output::print(&options.script(Cli::command())).map(|()| Outcome::Done)
        }
    };
    let exit = match result {
        Ok(Outcome::Done) => Exit::Done,
        Ok(Outcome::Failed) => Exit::Failed,
        Err(error) => {
            print_error(&exit::message(&error));
            // A value that breaks a rule is the user's; a database that does not answer is the environment's.
            Exit::Unusable
        }
    };
    exit.into()
}

/// Address of the database.
fn url(database: &Database) -> anyhow::Result<&str> {
    let url = database.database_url.as_deref().filter(|url| !url.is_empty());
    let url = url.context(
        "no database is named; set DATABASE_URL (or --database-url) to postgres://USER:PASSWORD@HOST:5432/DATABASE",
    )?;
    // The client takes any scheme for its own.
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        Ok(url)
    } else {
        Err(StoreError::ReadUrl.into())
    }
}

/// A store for verbs that make a few requests.
fn open(database: &Database) -> anyhow::Result<Store> {
    open_for(database, 1)
}

/// The same with more connections.
fn open_for(database: &Database, connections: u32) -> anyhow::Result<Store> {
    let lease = std::time::Duration::from_secs(1);
    Ok(Store::new(url(database)?, "command line".to_owned(), lease, connections, database.connect_timeout)?)
}

/// The same, once its schema is known to be as new as this program: an error about a missing column helps nobody.
async fn open_current(database: &Database) -> anyhow::Result<Store> {
    let store = open(database)?;
    store.check_schema().await?;
    Ok(store)
}

/// What a user's filter means to the store.
fn row_filter(filter: &Filter) -> RowFilter {
    RowFilter {
        states: filter.state.clone(),
        owner: filter.owner.clone(),
        namespace: filter.namespace.clone(),
        project: filter.project.clone(),
        labels: filter.label.iter().cloned().collect(),
        late: filter.late,
        ..RowFilter::default()
    }
}
