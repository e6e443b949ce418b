//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use nix::sys::signal::Signal;
use regex_lite::Regex;
use scavenger_reporting::{
    client::ReportTo,
    flags::{Program, Reports, duration},
};

use crate::{
    request::Request,
    signals::{Recipients, Rule},
};

/// Run a workload as process 1 of a container: bring signals to it, watch its checkpoints, report them
#[derive(Debug, clap::Parser)]
#[command(name = "scavenger-supervisor", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the program can do.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Start a command and stay beside it until it ends
    ///
    /// The exit code is the command's; 128 + n if signal n ended it, 127 if it was not found, 126 if it could not be run.
    Run(Box<Arguments>),
    /// Copy this program into a directory, for another container to run
    Copy {
        /// An existing directory; the copy is called scavenger-supervisor and can be read and run by everybody
        directory: PathBuf,
    },
}

/// For the flags that every program has which reports.
#[derive(Debug, Clone)]
pub struct Supervisor;

impl Program for Supervisor {
    const REPORT_URL: &'static str = "SCAVENGER_SUPERVISOR_REPORT_URL";
    const REPORT_TOKEN: &'static str = "SCAVENGER_SUPERVISOR_REPORT_TOKEN";
    const REPORT_CA: &'static str = "SCAVENGER_SUPERVISOR_REPORT_CA";
}

/// The arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Choose the processes that get a signal
    ///
    /// child: the command; if that is a shell, what the shell runs, unless the shell has a trap for the signal.
    /// leaves: every process without children. all: every process. A process that reads a sibling's output through a pipe
    /// is left out of the first two. SIGTERM is sent to each process once.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHICH",
        env = "SCAVENGER_SUPERVISOR_SIGNAL_TO",
        help_heading = "Signals"
    )]
    pub signal_to: Recipients,
    /// Signal only processes whose command line matches this regular expression
    ///
    /// It is looked for among all processes. If none matches, --signal-to holds as if it were `child`.
    #[arg(
        long,
        value_name = "REGEX",
        value_parser = Regex::new,
        env = "SCAVENGER_SUPERVISOR_SIGNAL_PROCESS",
        help_heading = "Signals"
    )]
    pub signal_process: Option<Regex>,
    /// Keep the workload's scheduling policy and out-of-memory score
    ///
    /// Without it the command starts with oom_score_adj 1000 and SCHED_BATCH, so that ordinary pods of the node come first.
    #[arg(long, env = "SCAVENGER_SUPERVISOR_KEEP_PRIORITY", help_heading = "Signals")]
    pub keep_priority: bool,
    /// Watch the checkpoint at this path; a glob matches several, of which the newest counts
    #[arg(long, value_name = "GLOB", env = "SCAVENGER_SUPERVISOR_CHECKPOINT", help_heading = "Checkpoints")]
    pub checkpoint: Option<String>,
    /// Read the progress from this file: a number between 0 and 1
    #[arg(long, value_name = "PATH", env = "SCAVENGER_SUPERVISOR_PROGRESS", help_heading = "Checkpoints")]
    pub progress: Option<PathBuf>,
    /// Look at the files this often, where the file system does not announce changes on its own
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration,
        default_value = "10s",
        env = "SCAVENGER_SUPERVISOR_LOOK_EVERY",
        help_heading = "Checkpoints"
    )]
    pub look_every: Duration,
    /// Ask the workload for a checkpoint with this signal when the operator wants one: HUP, USR1 or USR2
    #[arg(
        long,
        value_name = "SIGNAL",
        value_parser = request_signal,
        env = "SCAVENGER_SUPERVISOR_REQUEST_SIGNAL",
        help_heading = "Checkpoints"
    )]
    pub request_signal: Option<Signal>,
    /// Ask the workload for a checkpoint by running this command; give the flag once for each of its words
    ///
    /// It runs beside the workload, as the same user. It only asks: the checkpoint is seen at --checkpoint.
    #[arg(
        long,
        value_name = "WORD",
        allow_hyphen_values = true,
        conflicts_with = "request_signal",
        help_heading = "Checkpoints"
    )]
    pub request_command: Vec<OsString>,
    /// Where reports go.
    #[command(flatten)]
    pub reports: Reports<Supervisor>,
    /// Leave at least this time between two reports
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration,
        default_value = "1m",
        env = "SCAVENGER_SUPERVISOR_REPORT_EVERY",
        help_heading = "Reports"
    )]
    pub report_every: Duration,
    /// Write the report of the end into this file, if it exists and is empty
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/dev/termination-log",
        env = "SCAVENGER_SUPERVISOR_MESSAGE",
        help_heading = "Reports"
    )]
    pub message: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The arguments as the program uses them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which processes get signals.
    pub rule: Rule,
    /// The workload keeps its scheduling policy and its out-of-memory score.
    pub keep_priority: bool,
    /// The path or glob of checkpoints.
    pub checkpoint: Option<String>,
    /// The file with the progress.
    pub progress: Option<PathBuf>,
    /// The time between two slow looks at the files.
    pub look_every: Duration,
    /// How the workload is asked for a checkpoint.
    pub request: Option<Request>,
    /// Where reports go.
    pub report_to: Option<ReportTo>,
    /// The least time between two reports.
    pub report_every: Duration,
    /// The file of the termination message.
    pub message: PathBuf,
    /// The command.
    pub command: Vec<OsString>,
}

impl Arguments {
    /// What the arguments mean.
    #[must_use]
    pub fn settings(self) -> Settings {
        let by_command = (!self.request_command.is_empty()).then_some(Request::Command(self.request_command));
        Settings {
            rule: Rule { recipients: self.signal_to, process: self.signal_process },
            keep_priority: self.keep_priority,
            checkpoint: self.checkpoint,
            progress: self.progress,
            look_every: self.look_every,
            request: self.request_signal.map(Request::Signal).or(by_command),
            report_to: self.reports.to(),
            report_every: self.report_every,
            message: self.message,
            command: self.command,
        }
    }
}

fn request_signal(text: &str) -> Result<Signal, String> {
    match text.strip_prefix("SIG").unwrap_or(text) {
        "HUP" => Ok(Signal::SIGHUP),
        "USR1" => Ok(Signal::SIGUSR1),
        "USR2" => Ok(Signal::SIGUSR2),
        _ => Err(format!("{text:?} cannot ask for a checkpoint; use HUP, USR1 or USR2")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use scavenger_reporting::flags::https;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bad_value_is_refused() {
        for bad in ["10", "s", "-1s", "0s", "1.5s", "18446744073709551615h", "9999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5400)));
        assert!(request_signal("KILL").is_err());
        assert_eq!(request_signal("SIGUSR2"), Ok(Signal::SIGUSR2));
        assert!(https("http://operator").is_err());
        let run = |flags: &[&str]| {
            let line = ["scavenger-supervisor", "run"].iter().chain(flags).chain(&["--", "true"]);
            Cli::try_parse_from(line).is_ok()
        };
        assert!(run(&[]));
        assert!(!run(&["--report-url", "https://operator"]));
        assert!(!run(&["--signal-process", "("]));
        assert!(!run(&["--request-signal", "USR1", "--request-command", "save"]));
    }

    #[test]
    fn each_word_of_a_request_is_taken_as_it_is() {
        let words = ["sh", "-c", "--", "", "touch \"$0\"", "--checkpoint"];
        let flags = words.map(|word| format!("--request-command={word}"));
        let line = ["scavenger-supervisor", "run"].map(str::to_owned).into_iter().chain(flags);
        let line = line.chain(["--", "true"].map(str::to_owned));
        let Verb::Run(arguments) = Cli::try_parse_from(line).unwrap().verb else { panic!("another verb") };
        assert_eq!(arguments.settings().request, Some(Request::Command(words.map(OsString::from).to_vec())));
    }
}
