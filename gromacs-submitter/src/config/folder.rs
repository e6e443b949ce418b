//! Options of the verbs that show what simulations print and write: `logs`, `files` and `fetch`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use glob::Pattern;

use super::queue::{Filter, Output};
use super::volume::Reading;
use crate::text::duration;

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
#[command(group = ArgGroup::new("which").args(["words", "state", "owner", "namespace", "project", "label", "late"]).multiple(true).required(true))]
pub struct FetchOptions {
    /// Numbers of rows, and behind them files to copy, names or patterns; all files without any
    ///
    /// Words of digits at the beginning are rows: write a file with such a name as ./7. Filters such as --project choose
    /// rows instead of numbers. A pattern may hold *, ? and [...], and ** for any folders in between: quote it, so that
    /// the shell leaves it alone.
    #[arg(value_name = "ROW|PATTERN")]
    pub words: Vec<Word>,
    /// Filter.
    #[command(flatten)]
    pub filter: Filter,
    /// Copy into the folder DIR, which is made if it is missing
    ///
    /// The files of one row that is named go into DIR itself, those of several rows, or of rows that a filter chooses, into
    /// DIR/gromacs-ROW.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Give up copying from a volume after TIME
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = duration)]
    pub within: Duration,
    /// Replace files in DIR that differ from those on the volume
    ///
    /// Without this nothing of a row is copied if one of its files differs. Equal files are left alone.
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

/// A word behind `fetch`: the number of a row, or files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its number if it is of digits alone.
    number: Option<i64>,
    pattern: Pattern,
}

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number {
            Some(text.parse().map_err(|_| "no row has such a large number".to_owned())?)
        } else {
            None
        };
        // As files are named in the folder of a row.
        let pattern = Pattern::new(text.strip_prefix("./").unwrap_or(text))
            .map_err(|error| format!("{}; write for example '*.xtc'", error.msg))?;
        Ok(Self { number, pattern })
    }
}

impl FetchOptions {
    /// The numbers of rows at the beginning of the words, as they were written.
    #[must_use]
    pub fn rows(&self) -> Vec<i64> {
        self.words.iter().map_while(|word| word.number).collect()
    }

    /// The files behind them.
    #[must_use]
    pub fn patterns(&self) -> Vec<Pattern> {
        self.words.iter().skip_while(|word| word.number.is_some()).map(|word| word.pattern.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_beginning_are_rows_and_the_rest_are_files() {
        use clap::Parser as _;

        let read = |words: &[&str]| {
            let all = [&["gromacs-submitter", "fetch", "--to", "x"], words].concat();
            match crate::config::Cli::try_parse_from(all).map(|cli| cli.command) {
                Ok(crate::config::Command::Fetch(options)) => {
                    let files =
                        options.patterns().iter().map(|pattern| pattern.as_str().to_owned()).collect();
                    Ok((options.rows(), files))
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.to_string()),
            }
        };
        let is = |words: &[&str], rows: &[i64], files: &[&str]| {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            assert_eq!(read(words), Ok((rows.to_vec(), files)), "{words:?}");
        };
        is(&["7"], &[7], &[]);
        is(&["7", "8", "*.xtc", "9"], &[7, 8], &["*.xtc", "9"]);
        is(&["7", "./8"], &[7], &["8"]);
        is(&["--project", "water", "*.xtc"], &[], &["*.xtc"]);
        is(&["--label", "T=310"], &[], &[]);
        is(&["7a", "8"], &[], &["7a", "8"]);
        for (words, why) in [
            (&["99999999999999999999"][..], "no row has such a large number"),
            (&["7", "a["], "write for example '*.xtc'"),
            (&[], "required"),
        ] {
            assert!(read(words).is_err_and(|error| error.contains(why)), "{words:?}");
        }
    }

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
