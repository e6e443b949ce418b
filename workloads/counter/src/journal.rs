//! A file that is only ever appended to: the proof of what was computed when, and by which attempt.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// An attempt begins; the count is where it goes on from.
    Start,
    /// A step was computed.
    Step,
    /// A checkpoint is on the disk.
    Checkpoint,
    /// The end was reached.
    Done,
    /// SIGTERM was received.
    Sigterm,
    /// The attempt fails by itself.
    Fail,
    /// Another run holds the checkpoint: two attempts met.
    Overlap,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Step => "step",
            Self::Checkpoint => "checkpoint",
            Self::Done => "done",
            Self::Sigterm => "sigterm",
            Self::Fail => "fail",
            Self::Overlap => "overlap",
        })
    }
}

/// Why the journal cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot open the journal {path:?}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot append to the journal {path:?}")]
    Append { path: PathBuf, source: io::Error },
}

/// Where events go; nowhere, if no journal was asked for.
#[derive(Debug)]
pub(crate) struct Journal(Option<(PathBuf, File)>);

impl Journal {
    /// Opens the file and leaves what is in it.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Ok(Self(Some((path.to_owned(), file))))
    }

    /// Appends one line.
    pub(crate) fn write(&mut self, event: Event, attempt: u64, count: u64) -> Result<(), Error> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        // One write call per line: with O_APPEND, lines of two processes never mix, and a SIGKILL cannot
        // leave half of one.
        let line = format!("{event} {attempt} {count} {at}\n");
        file.write_all(line.as_bytes()).map_err(|source| Error::Append { path: path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_nothing_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        Journal::open(Some(&path)).unwrap().write(Event::Start, 1, 0).unwrap();
        Journal::open(Some(&path)).unwrap().write(Event::Start, 2, 60).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
        assert_eq!(lines, ["start 1 0", "start 2 60"]);
    }

    #[test]
    fn no_journal_is_no_error() {
        Journal::open(None).unwrap().write(Event::Done, 1, 300).unwrap();
    }
}
