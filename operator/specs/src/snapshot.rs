//! What `scavenger-operator snapshot` writes: what the planner would see of a cluster at one time.
//!
//! One JSON object a line: first the [`Header`], then one observation each, in the order in which a starting operator would have
//! seen them. The operator writes and reads it, and the laboratory plays it.

use std::io::{self, BufRead, Write};

use jiff::Timestamp;
use scavenger_planner::values::Observation;
use scavenger_schema::scavenger_pool::NodeAgentsStatus;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// First line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// When it was taken.
    pub snapshot_time: Timestamp,
    /// Version of the operator that wrote it.
    pub operator_version: String,
    /// How many observations follow, so that a file that was cut short is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observations: Option<usize>,
    /// What the status of the pool says of the agents of nodes: they speak with the operator alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_agents: Option<NodeAgentsStatus>,
}

/// Why a file is no snapshot, or not a whole one.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// It has no line.
    #[error("is empty; `scavenger-operator snapshot` writes a snapshot")]
    Empty,
    /// A line could not be read.
    #[error("line {line} cannot be read: {source}")]
    Read {
        /// Its number, from 1 on.
        line: usize,
        /// Why.
        source: io::Error,
    },
    /// The first line is none of a snapshot.
    #[error("line 1 does not begin a snapshot, which `scavenger-operator snapshot` writes: {0}")]
    Header(serde_json::Error),
    /// Another line is no observation.
    #[error("line {line} is not an observation of scavenger-operator {expected}{written}: {source}")]
    Observation {
        /// Its number, from 1 on.
        line: usize,
        /// The version that reads.
        expected: &'static str,
        /// Which version wrote it, if that is another one.
        written: String,
        /// Why.
        source: serde_json::Error,
    },
    /// Lines are missing at its end.
    #[error("ends after {found} of {expected} observations: it was cut short; take the snapshot again")]
    Short {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
}

/// The version that this program reads without loss: all crates have the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Reads a snapshot.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that begins with its name.
pub fn read(file: impl BufRead) -> Result<(Header, Vec<Observation>), SnapshotError> {
    let mut lines = file.lines().zip(1..).map(|(read, line)| {
        read.map(|text| (line, text)).map_err(|source| SnapshotError::Read { line, source })
    });
    let (_, first) = lines.next().unwrap_or(Err(SnapshotError::Empty))?;
    let header: Header = serde_json::from_str(&first).map_err(SnapshotError::Header)?;
    let observation = |line, text: &str| {
        serde_json::from_str(text).map_err(|source| {
            let version = &header.operator_version;
            let written =
                if version == VERSION { String::new() } else { format!(", and {version} wrote it") };
            SnapshotError::Observation { line, expected: VERSION, written, source }
        })
    };
    let observations = lines
        .map(|read| read.and_then(|(line, text)| observation(line, &text)))
        .collect::<Result<Vec<Observation>, _>>()?;
    match header.observations {
        Some(expected) if observations.len() < expected => {
            Err(SnapshotError::Short { found: observations.len(), expected })
        }
        _ => Ok((header, observations)),
    }
}

/// Writes a snapshot. How many observations it has is said in its header, whatever that said before.
///
/// # Errors
/// If it cannot be written.
pub fn write(mut header: Header, observations: &[Observation], out: &mut impl Write) -> io::Result<()> {
    header.observations = Some(observations.len());
    serde_json::to_writer(&mut *out, &header)?;
    writeln!(out)?;
    for observation in observations {
        serde_json::to_writer(&mut *out, observation)?;
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            snapshot_time: Timestamp::UNIX_EPOCH,
            operator_version: VERSION.to_owned(),
            observations: None,
            node_agents: None,
        }
    }

    fn written(observations: &[Observation]) -> String {
        let mut out = Vec::new();
        write(header(), observations, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn complaint(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let observations = [Observation::PodsRelisted, Observation::VolumesKnown(true)];
        let (again, seen) = read(written(&observations).as_bytes()).unwrap();
        assert_eq!(again, Header { observations: Some(2), ..header() });
        assert_eq!(format!("{seen:?}"), format!("{observations:?}"));
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_its_line() {
        assert_eq!(complaint(""), "is empty; `scavenger-operator snapshot` writes a snapshot");
        assert!(complaint("apiVersion: v1\n").starts_with("line 1 does not begin a snapshot"));
        let whole = written(&[Observation::PodsRelisted]);
        let wrong = complaint(&format!("{whole}{{}}\n"));
        assert!(
            wrong.starts_with(&format!("line 3 is not an observation of scavenger-operator {VERSION}: ")),
            "{wrong}"
        );
        let other = complaint(&format!("{}{{}}\n", whole.replacen(VERSION, "7.8.9", 1)));
        assert!(other.contains(&format!("{VERSION}, and 7.8.9 wrote it: ")), "{other}");
    }

    #[test]
    fn one_that_was_cut_short_is_noticed_wherever_it_ends() {
        let whole = written(&[Observation::PodsRelisted, Observation::PodsRelisted]);
        let (first, _) = whole.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(
            complaint(&format!("{first}\n")),
            "ends after 1 of 2 observations: it was cut short; take the snapshot again"
        );
        assert!(complaint(&whole[..whole.len() - 3]).starts_with("line 3 is not an observation"));
        // Those of before did not say how many there are.
        let old = whole.replacen(",\"observations\":2", "", 1);
        assert_eq!(read(old.as_bytes()).unwrap().1.len(), 2);
    }
}
