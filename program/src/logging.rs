//! Flags for logs, and where logs go.

use std::{
    io::{IsTerminal as _, stderr},
    marker::PhantomData,
};

use anyhow::Context as _;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::exit::Unusable;

/// A program, by what its flags for logs have of their own.
pub trait Program {
    /// Variable of `--log`.
    const LOG: &'static str;
    /// Variable of `--log-format`.
    const LOG_FORMAT: &'static str;
    /// What the help page says of `--log` in full.
    const LOG_HELP: &'static str;
}

/// Where and how much to log.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct Logging<P: Program> {
    /// Log what FILTER lets through
    #[arg(long, global = true, value_name = "FILTER", env = P::LOG, default_value = USUAL)]
    #[arg(long_help = P::LOG_HELP)]
    log: String,

    /// Write each event as text or as one line of JSON
    #[arg(long, global = true, value_name = "FORMAT", env = P::LOG_FORMAT, default_value = "text")]
    log_format: LogFormat,

    #[arg(skip)]
    program: PhantomData<P>,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For a person.
    Text,
    /// For a machine.
    Json,
}

impl<P: Program> Logging<P> {
    /// Logs to standard error from here on.
    ///
    /// # Errors
    /// [`Unusable`] if the filter is none.
    pub fn start(&self) -> anyhow::Result<()> {
        self.start_with(&self.log)
    }

    /// The same for a person, who waits for an answer: unless another filter is asked for, only what the crates `own` of the
    /// program say is logged. What a library remarks, such as a statement that took more than a second, helps nobody there.
    ///
    /// # Errors
    /// [`Unusable`] if the filter is none.
    pub fn start_for_a_person(&self, own: &[&str]) -> anyhow::Result<()> {
        self.start_with(&if self.log == USUAL { of_crates(own) } else { self.log.clone() })
    }

    fn start_with(&self, filter: &str) -> anyhow::Result<()> {
        let filter = EnvFilter::try_new(filter).with_context(|| {
            Unusable(format!(
                "--log {:?} is not a filter for logs; write for example info or info,kube=debug",
                self.log
            ))
        })?;
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
        // A second start in one process (tests) keeps the first set-up.
        let _ = match self.log_format {
            LogFormat::Text => builder.with_ansi(has_colours()).try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
        Ok(())
    }
}

/// What is logged unless something else is asked for.
const USUAL: &str = "info";

/// What is logged usually, of these crates alone.
fn of_crates(own: &[&str]) -> String {
    let directives = own.iter().map(|name| format!("{name}={USUAL}"));
    std::iter::once("off".to_owned()).chain(directives).collect::<Vec<_>>().join(",")
}

/// In a file, and in what `kubectl logs` prints, escape sequences are noise. <https://no-color.org>
fn has_colours() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::exit::Exit;

    #[derive(Debug, Clone)]
    struct SomeProgram;

    impl Program for SomeProgram {
        const LOG: &'static str = "SCAVENGER_SOME_LOG";
        const LOG_FORMAT: &'static str = "SCAVENGER_SOME_LOG_FORMAT";
        const LOG_HELP: &'static str = "Log what FILTER lets through\n\nMore of it.";
    }

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        logging: Logging<SomeProgram>,
    }

    #[test]
    fn a_filter_that_is_none_is_the_users() {
        let cli = Cli::parse_from(["some", "--log", "a=b=c", "--log-format", "json"]);
        assert_eq!(cli.logging.log_format, LogFormat::Json);
        let error = cli.logging.start().unwrap_err();
        assert_eq!(Exit::after(&error), Exit::Unusable);
        assert!(error.to_string().starts_with("--log \"a=b=c\" is not a filter"), "{error}");
    }

    #[test]
    fn a_person_reads_what_the_program_says() {
        assert_eq!(
            of_crates(&["some_program", "scavenger_program"]),
            "off,some_program=info,scavenger_program=info"
        );
        EnvFilter::try_new(of_crates(&["some_program"])).unwrap();
    }

    #[test]
    fn a_program_has_variables_and_help_of_its_own() {
        let mut command = <Cli as clap::CommandFactory>::command();
        let page = command.render_long_help().to_string();
        for text in
            ["[env: SCAVENGER_SOME_LOG=", "[env: SCAVENGER_SOME_LOG_FORMAT=", "More of it.", "Logging:"]
        {
            assert!(page.contains(text), "{text} is not in {page}");
        }
    }
}
