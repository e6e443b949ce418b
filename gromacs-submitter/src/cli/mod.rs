//! The verbs, a file each. Exit codes: 0 done, 1 work failed, 2 usage or environment.

mod add;
mod asked;
mod copied;
mod database;
mod edit;
mod extend;
mod fetch;
mod files;
mod list;
mod logs;
mod migrate;
mod pod;
mod put;
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

use clap::CommandFactory as _;
use scavenger_program::exit::{self, Exit};
use scavenger_program::output;

use crate::config::{Cli, Command};
pub use database::Outcome;
use database::{open, open_current, open_for, row_filter, url};
use request::Request;
use text::{print_error, print_line};

/// Whose log lines a person reads.
const OWN_CRATES: [&str; 3] = ["gromacs_submitter", "scavenger_program", "scavenger_schema"];

/// Runs the verb that was asked for.
pub async fn main(cli: Cli) -> ExitCode {
    let logging = match &cli.command {
        Command::Run(_) => cli.logging.start(),
        _ => cli.logging.start_for_a_person(&OWN_CRATES),
    };
    if let Err(error) = logging {
        return exit::ended(Err(error));
    }
    // One provider of TLS for every client, before the first one is made.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::debug!("a TLS provider is installed already");
    }
    let result = match cli.command {
        Command::Migrate(options) => migrate::exec(&cli.database, &options).await,
        Command::Run(options) => Box::pin(run::exec(&cli.database, options)).await,
        Command::Add(options) => Box::pin(add::exec(&cli.database, *options)).await,
        Command::List(options) => list::exec(&cli.database, &options).await,
        Command::Show(options) => show::exec(&cli.database, &options).await,
        Command::Watch(options) => Box::pin(watch::exec(&cli.database, &options)).await,
        Command::Logs(options) => Box::pin(logs::exec(&cli.database, &options)).await,
        Command::Files(options) => Box::pin(files::exec(&cli.database, &options)).await,
        Command::Fetch(options) => Box::pin(fetch::exec(&cli.database, &options)).await,
        Command::Put(options) => Box::pin(put::exec(&cli.database, &options)).await,
        Command::Cancel(options) => request::exec(&cli.database, &options.selection, Request::Cancel).await,
        Command::Retry(options) => {
            let request = Request::Retry { all_failed: options.all_failed };
            request::exec(&cli.database, &options.selection, request).await
        }
        Command::Hold(options) => request::exec(&cli.database, &options.selection, Request::Hold).await,
        Command::Release(options) => request::exec(&cli.database, &options.selection, Request::Release).await,
        Command::Edit(options) => Box::pin(edit::exec(&cli.database, &options)).await,
        Command::Extend(options) => extend::exec(&cli.database, &options).await,
        Command::Rm(options) => {
            let request = Request::Remove { ended_before: options.ended_before };
            request::exec(&cli.database, &options.selection, request).await
        }
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
