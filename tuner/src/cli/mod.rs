//! A file per verb.

pub mod calibrate;
pub mod import;
pub mod openapi;
pub mod recommend;
pub mod serve;

use anyhow::Context as _;
use scavenger_program::exit::Exit;
use scavenger_program::output;
use scavenger_tuner_model::Model;
use serde::Serialize;

use crate::config::Output;
use crate::observations::Source;

/// Why a verb failed, and the exit code that says so.
#[derive(Debug)]
pub struct Failure {
    /// For the user.
    pub error: anyhow::Error,
    /// How the program ends because of it.
    pub exit: Exit,
}

impl Failure {
    /// The input was understood, but there is no answer.
    pub fn work(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), exit: Exit::Failed }
    }

    /// Something outside must be changed first.
    pub fn environment(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), exit: Exit::Unusable }
    }
}

/// Runs to its end what waits for the database.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .map_err(Failure::environment)?
        .block_on(future)
}

/// The database, if one was named.
fn source(url: Option<&str>) -> Result<Option<Source>, Failure> {
    url.map(Source::new).transpose().map_err(Failure::environment)
}

/// The model with what the runs in the database tell, if there is one.
async fn model(source: Option<&Source>) -> Result<Model, Failure> {
    let Some(source) = source else { return Ok(Model::prior()) };
    let runs = source.read().await.map_err(Failure::environment)?;
    Ok(Model::prior().learn(&runs.usable))
}

/// Writes data to standard output, the one place that does.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    output::print(text).map_err(Failure::environment)
}

/// Prints a reply as the user asked for it.
fn print_as<R: Serialize>(output: Output, reply: &R, table: impl Fn(&R) -> String) -> Result<(), Failure> {
    match output {
        Output::Table => print(&table(reply)),
        Output::Json => {
            let text = serde_json::to_string_pretty(reply).map_err(Failure::work)?;
            print(&format!("{text}\n"))
        }
    }
}

/// Writes a file that the user asked for.
fn write(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(Failure::environment)
}
