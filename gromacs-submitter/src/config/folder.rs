//! Options of the verbs that show what simulations print and write: `logs`, `files` and `fetch`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use glob::Pattern;

use super::queue::Output;
use crate::text::duration;

/// How the volume is read, the same for every verb that reads it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct Reading {
    /// Read the volume in IMAGE [default: the image of the row]
    ///
    /// Any image with sh, find, tar and the coreutils will do.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Wait up to TIME until the pod that reads the volume runs
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub wait: Duration,
    /// Which cluster.
    #[command(flatten)]
    pub kubernetes: Kubernetes,
}

/// Which cluster holds the pods, for the verbs that look at it with the rights of a user.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Kubernetes {
    /// Use the kubeconfig FILE [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use the context NAME of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Options of `logs`.
#[derive(Debug, Clone, Args)]
pub struct LogsOptions {
    /// Number of the row
    #[arg(value_name = "ROW")]
    pub row: i64,
    /// Go on until the attempt ends
    #[arg(long, conflicts_with = "mdrun")]
    pub follow: bool,
    /// Print what attempt N printed, instead of the newest
    ///
    /// N as `show` has it, such as 1.2 for attempt 2 of submission 1; 2 is attempt 2 of the newest submission.
    #[arg(long, value_name = "N", conflicts_with = "mdrun")]
    pub attempt: Option<AttemptNumber>,
    /// Print the end of md.log in the folder of the row, instead of what the pod printed
    #[arg(long)]
    pub mdrun: bool,
    /// Print the end of md.log of the simulation in FOLDER, of a row of several [default: the newest md.log of all]
    #[arg(long, value_name = "FOLDER", requires = "mdrun")]
    pub simulation: Option<String>,
    /// Print the last COUNT lines [default: all that the pod printed, 100 of md.log]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub lines: Option<u32>,
    /// How the volume is read.
    #[command(flatten)]
    pub reading: Reading,
}

/// Options of `files`.
#[derive(Debug, Clone, Args)]
pub struct FilesOptions {
    /// Number of the row
    #[arg(value_name = "ROW")]
    pub row: i64,
    /// Format.
    #[command(flatten)]
    pub output: Output,
    /// How the volume is read.
    #[command(flatten)]
    pub reading: Reading,
}

/// Options of `fetch`.
#[derive(Debug, Clone, Args)]
pub struct FetchOptions {
    /// Number of the row
    #[arg(value_name = "ROW")]
    pub row: i64,
    /// Files to copy, names or patterns; all without any
    ///
    /// A pattern may hold *, ? and [...], and ** for any folders in between: quote it, so that the shell leaves it
    /// alone.
    #[arg(value_name = "PATTERN", value_parser = pattern)]
    pub patterns: Vec<Pattern>,
    /// Copy into the folder DIR, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Give up copying after TIME
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = duration)]
    pub within: Duration,
    /// Replace files in DIR that differ from those on the volume
    ///
    /// Without this nothing is copied if one of them differs. Equal files are left alone.
    #[arg(long, help_heading = "Safety")]
    pub overwrite: bool,
    /// Print what would be copied, and copy nothing
    #[arg(long, help_heading = "Safety")]
    pub dry_run: bool,
    /// Format.
    #[command(flatten)]
    pub output: Output,
    /// How the volume is read.
    #[command(flatten)]
    pub reading: Reading,
}

/// An attempt of a row, of its newest submission if that is not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptNumber {
    /// Submission.
    pub submission: Option<i32>,
    /// Attempt.
    pub attempt: i32,
}

impl FromStr for AttemptNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|number: &i32| *number > 0);
        let parsed = match text.split_once('.') {
            Some((submission, attempt)) => number(submission).map(Some).zip(number(attempt)),
            None => number(text).map(|attempt| (None, attempt)),
        };
        let (submission, attempt) = parsed.ok_or("write an attempt as `show` does, such as 1.2, or 2")?;
        Ok(Self { submission, attempt })
    }
}

impl fmt::Display for AttemptNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.submission {
            Some(submission) => write!(formatter, "{submission}.{}", self.attempt),
            None => self.attempt.fmt(formatter),
        }
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|error| format!("{}; write for example '*.xtc'", error.msg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_written_as_show_has_them() {
        let read = |text: &str| text.parse().map(|number: AttemptNumber| (number.submission, number.attempt));
        assert_eq!(read("2"), Ok((None, 2)));
        assert_eq!(read("1.2"), Ok((Some(1), 2)));
        for bad in ["", "0", "-1", "1.", ".2", "1.2.3", "1.0", "newest"] {
            assert!(read(bad).is_err_and(|error| error.contains("such as 1.2")), "{bad}");
        }
    }
}
