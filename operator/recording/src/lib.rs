//! A recording: what happened in a cluster, one line for each event. `scavenger-operator record` writes it, and
//! `scavenger-laboratory simulate --trace` plays it. docs/record.md describes the columns.
//!
//! An event log, and no table of pods: how long a pod runs is unknown when it arrives, and who records can be killed at any
//! time. So each line stands alone, none is ever changed, and all that a kill can leave behind is half a line at the end.
//!
//! Fields are separated by commas. None is quoted, since none can hold a comma: they are times, numbers, words, names that
//! the recorder made up, and labels, in which Kubernetes allows no comma.

mod line;

use std::{
    collections::BTreeMap,
    io::{self, BufRead},
};

use jiff::Timestamp;

/// The first line of every recording.
pub const HEADER: &str =
    "time,event,name,node,cpu_milli,memory_mib,gpus,max_pods,priority,class,state,labels\n";

/// The resource that is recorded as GPUs.
pub const GPU: &str = "nvidia.com/gpu";

/// An event, and when it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it was by the clock of the cluster, where the API says it; otherwise when the recorder saw it. Whole seconds
    /// are written.
    pub time: Timestamp,
    /// What it was.
    pub event: Event,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A recorder begins, or goes on after one that ended.
    Begin,
    /// The recorder was there until now.
    Mark,
    /// The file has reached its limit: nothing is recorded from here on.
    Full,
    /// A node is there, or is another than before.
    Node(Node),
    /// A node is gone.
    NodeGone {
        /// Its name.
        name: String,
    },
    /// A pod was created.
    Pod(Pod),
    /// A pod was bound to a node: it holds its capacity from now on.
    Bound {
        /// Its name.
        name: String,
        /// The name of the node.
        node: String,
    },
    /// The first container of a pod runs.
    Started {
        /// Its name.
        name: String,
    },
    /// A pod holds nothing any more: it has ended, or it is gone.
    Ended {
        /// Its name.
        name: String,
    },
    /// What a pod uses, as metrics.k8s.io measures it.
    Use {
        /// Its name.
        name: String,
        /// Thousandths of a core.
        cpu_milli: i64,
        /// MiB.
        memory_mib: i64,
    },
}

/// A node as it is from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The name that stands for its own.
    pub name: String,
    /// What it has for pods.
    pub cpu_milli: i64,
    /// See [`Self::cpu_milli`]: MiB.
    pub memory_mib: i64,
    /// See [`Self::cpu_milli`].
    pub gpus: i64,
    /// How many pods it takes.
    pub max_pods: i64,
    /// True if pods without any toleration can go there: it is ready, not cordoned, under no pressure, and has no taint
    /// that keeps them off.
    pub is_open: bool,
    /// Those of its labels that were asked for.
    pub labels: BTreeMap<String, String>,
}

/// A pod that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The name that stands for its own.
    pub name: String,
    /// What it requests: thousandths of a core.
    pub cpu_milli: i64,
    /// See [`Self::cpu_milli`]: MiB.
    pub memory_mib: i64,
    /// See [`Self::cpu_milli`].
    pub gpus: i64,
    /// `spec.priority`; 0 if it has none.
    pub priority: i32,
    /// What kind of pod it is.
    pub class: Class,
}

/// What kind of pod it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Any pod that is none of the others.
    Ordinary,
    /// It belongs to its node: it is of a DaemonSet, or of the kubelet's own.
    Daemon,
    /// It is part of a ScavengerJob.
    Scavenger,
}

/// True if a file that begins with this line is a recording.
#[must_use]
pub fn is_header(line: &str) -> bool {
    line == HEADER
}

/// How far a recording was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Bytes up to the end of the last whole line.
    pub bytes: u64,
    /// The number of the last line, if it is not whole.
    pub half: Option<u64>,
}

/// Reads a recording from its first line on, and hands over each event with the number of its line, from 2 on. A last line
/// that is not whole is left out. What `each` says is wrong with a line ends it.
///
/// # Errors
/// A message with the number of the line that cannot be used.
pub fn read(
    mut from: impl BufRead,
    mut each: impl FnMut(u64, Line) -> Result<(), String>,
) -> Result<Read, String> {
    let mut text = Vec::new();
    let mut read = Read::default();
    for number in 1.. {
        text.clear();
        let length = from.read_until(b'\n', &mut text);
        let length = length.map_err(|error: io::Error| format!("line {number} cannot be read: {error}"))?;
        if length == 0 {
            break;
        }
        if text.last() != Some(&b'\n') {
            read.half = Some(number);
            // Half a header is one that was being written.
            if number == 1 && !HEADER.as_bytes().starts_with(&text) {
                return Err(NO_RECORDING.to_owned());
            }
            break;
        }
        read.bytes += length as u64;
        let wrong = |what: &str| format!("line {number}: {what}");
        let line = std::str::from_utf8(&text).map_err(|_| wrong("it is no text"))?;
        match number {
            1 if is_header(line) => {}
            1 => return Err(NO_RECORDING.to_owned()),
            _ => {
                let parsed = Line::parse(line.trim_end_matches('\n')).map_err(|error| wrong(&error))?;
                each(number, parsed).map_err(|error| wrong(&error))?;
            }
        }
    }
    Ok(read)
}

/// Why a file is not gone on with.
const NO_RECORDING: &str =
    "line 1: it is not the header of a recording, which `scavenger-operator record` writes";

#[cfg(test)]
mod tests;
