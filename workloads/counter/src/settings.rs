//! What was typed ([`Arguments`]) and what it means ([`Settings`]).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use jiff::SignedDuration;

/// Count to N, write checkpoints, resume
///
/// Every duration has a unit: 100ms, 10s, 1m 30s.
///
/// Exit status: 0 the count is complete (or --on-sigterm save-exit-0), 1 the run failed (--fail-at, a peer
/// lost, --on-sigterm save-exit-1), 2 usage or environment, 3 another run holds the checkpoint, 143 stopped by SIGTERM
/// before the end.
#[derive(Debug, Parser)]
#[command(name = "scavenger-counter", version)]
pub(crate) struct Arguments {
    /// Count to N and stop
    #[arg(long, value_name = "N", env = "COUNTER_TO", help_heading = "Counting")]
    to: u64,

    /// Count on beyond N until this attempt, so that those before it can be interrupted however late somebody sees them
    #[arg(long, value_name = "NUMBER", default_value_t = 1, env = "COUNTER_NOT_BEFORE_ATTEMPT")]
    #[arg(help_heading = "Counting")]
    not_before_attempt: u64,

    /// Time that one step takes
    #[arg(long, value_name = "DURATION", default_value = "100ms", env = "COUNTER_EVERY", value_parser = duration)]
    #[arg(help_heading = "Counting")]
    every: Duration,

    /// Exit 1, without a checkpoint, once the count reaches K
    #[arg(long, value_name = "K", env = "COUNTER_FAIL_AT", help_heading = "Counting")]
    fail_at: Option<u64>,

    /// Keep the count in this file (absolute path; {index} becomes the pod's index)
    ///
    /// A new checkpoint is written beside it, synced to the disk and renamed over it, so that the file always
    /// holds a whole checkpoint. PATH.lock is locked while the program runs: a second run on the same
    /// checkpoint is refused with exit status 3.
    #[arg(long, value_name = "PATH", env = "COUNTER_CHECKPOINT", help_heading = "Checkpoint")]
    checkpoint: PathBuf,

    /// Write a checkpoint this often
    #[arg(long, value_name = "DURATION", default_value = "10s", env = "COUNTER_CHECKPOINT_INTERVAL")]
    #[arg(value_parser = duration, help_heading = "Checkpoint")]
    checkpoint_interval: Duration,

    /// Number of this run in the journal; by default one more than the checkpoint's
    #[arg(long, value_name = "NUMBER", env = "SCAVENGER_ATTEMPT", help_heading = "Checkpoint")]
    attempt: Option<u64>,

    /// Append what happens to this file (absolute path; {index} becomes the pod's index)
    ///
    /// One line per event: name, attempt, count, milliseconds since 1970. The names: start, step, checkpoint,
    /// done, sigterm, fail, overlap.
    #[arg(long, value_name = "PATH", env = "COUNTER_JOURNAL", help_heading = "Checkpoint")]
    journal: Option<PathBuf>,

    /// What to do on SIGTERM
    #[arg(long, value_name = "WHAT", default_value = "save", env = "COUNTER_ON_SIGTERM")]
    #[arg(help_heading = "Interruption")]
    on_sigterm: OnSigterm,

    #[command(flatten)]
    gang: GangArguments,
}

/// The flags of a counter that consists of several pods.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gang")]
struct GangArguments {
    /// Count together with the pods named by --peers, all in step
    ///
    /// The pod with index 0 leads: it alone reads and writes the checkpoint, and no pod begins a step before
    /// all have finished the one before. A pod that loses another one exits 1, as an MPI program does.
    #[arg(long, env = "COUNTER_GANG")]
    gang: bool,

    /// Host names of all pods, in the order of their indexes
    #[arg(long, value_name = "HOST,HOST...", env = "SCAVENGER_HOSTS", value_delimiter = ',')]
    peers: Vec<String>,

    /// Host name of a pod with {index} in place of its index; for gangs without --peers
    #[arg(long, value_name = "HOST", env = "SCAVENGER_HOST_TEMPLATE")]
    host_template: Option<String>,

    /// Number of pods; for gangs without --peers
    #[arg(long, value_name = "COUNT", env = "SCAVENGER_POD_COUNT")]
    pod_count: Option<usize>,

    /// Index of this pod
    #[arg(long, value_name = "INDEX", env = "JOB_COMPLETION_INDEX")]
    index: Option<usize>,

    /// TCP port on which the leader listens
    #[arg(long, value_name = "PORT", default_value_t = 7070, env = "COUNTER_PORT")]
    port: u16,

    /// Exit 1 if the other pods were not found within this time
    #[arg(long, value_name = "DURATION", default_value = "2m", env = "COUNTER_START_TIMEOUT")]
    #[arg(value_parser = duration)]
    start_timeout: Duration,

    /// Exit 1 if a peer was silent for this long
    #[arg(long, value_name = "DURATION", default_value = "10s", env = "COUNTER_PEER_TIMEOUT")]
    #[arg(value_parser = duration)]
    peer_timeout: Duration,
}

/// What the program does when it is asked to stop before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnSigterm {
    /// Write a checkpoint, exit 143: nothing is lost, and nobody takes it for done
    Save,
    /// Write a checkpoint, exit 0: half-done work that Kubernetes takes for complete
    #[value(name = "save-exit-0")]
    SaveExit0,
    /// Write a checkpoint, exit 1, as gmx mdrun does
    #[value(name = "save-exit-1")]
    SaveExit1,
    /// Exit 143 at once: what was done since the last checkpoint is lost
    Die,
    /// Count on until SIGKILL
    Ignore,
}

impl OnSigterm {
    /// Whether a checkpoint is written first.
    pub(crate) fn saves(self) -> bool {
        matches!(self, Self::Save | Self::SaveExit0 | Self::SaveExit1)
    }

    /// The exit status that follows.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::SaveExit0 => 0,
            Self::SaveExit1 => 1,
            // 128 + 15, what a shell and the kubelet report for a program that SIGTERM killed.
            Self::Save | Self::Die | Self::Ignore => 143,
        }
    }
}

/// What the program was asked to do, checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The count at which the work is done.
    pub(crate) to: u64,
    /// The first attempt that may end.
    pub(crate) not_before_attempt: u64,
    /// How long a step takes.
    pub(crate) every: Duration,
    /// The count at which the program fails on its own.
    pub(crate) fail_at: Option<u64>,
    /// The checkpoint file.
    pub(crate) checkpoint: PathBuf,
    /// How often it is written.
    pub(crate) checkpoint_interval: Duration,
    /// The file to which events are appended.
    pub(crate) journal: Option<PathBuf>,
    /// Number of this run, if somebody counts them.
    pub(crate) attempt: Option<u64>,
    /// What SIGTERM means.
    pub(crate) on_sigterm: OnSigterm,
    /// The other pods, if there are any.
    pub(crate) gang: Option<Gang>,
}

/// This pod's place among its peers.
#[derive(Debug, Clone)]
pub(crate) struct Gang {
    /// Number of pods, this one included.
    pub(crate) size: usize,
    /// Index of this pod; 0 leads.
    pub(crate) index: usize,
    /// Host name of the leader.
    pub(crate) leader: String,
    /// Port of the leader.
    pub(crate) port: u16,
    /// How long to look for the others.
    pub(crate) start_timeout: Duration,
    /// How long a peer may be silent.
    pub(crate) peer_timeout: Duration,
}

/// Why the flags cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Error {
    #[error(
        "--{flag} must be an absolute path, got {path:?}: the directory a container starts in is the image's choice"
    )]
    RelativePath { flag: &'static str, path: PathBuf },
    #[error("--{flag} {path:?} names no file")]
    NoFileName { flag: &'static str, path: PathBuf },
    #[error("--{flag} must be longer than zero")]
    ZeroDuration { flag: &'static str },
    #[error(
        "--gang needs the host names of all pods: give --peers (SCAVENGER_HOSTS), or --host-template and --pod-count"
    )]
    NoPeers,
    #[error("--gang needs this pod's index: give --index or JOB_COMPLETION_INDEX")]
    NoIndex,
    #[error("--index {index} is not below the number of peers, {size}")]
    IndexOutOfRange { index: usize, size: usize },
    #[error("{{index}} in --{flag} needs this pod's index: give --index or JOB_COMPLETION_INDEX")]
    NoIndexForPath { flag: &'static str },
}

impl TryFrom<Arguments> for Settings {
    type Error = Error;

    fn try_from(raw: Arguments) -> Result<Self, Error> {
        let index = raw.gang.index;
        let gang = if raw.gang.gang { Some(Gang::try_from(raw.gang)?) } else { None };
        for (flag, duration) in [("every", raw.every), ("checkpoint-interval", raw.checkpoint_interval)] {
            if duration.is_zero() {
                return Err(Error::ZeroDuration { flag });
            }
        }
        Ok(Self {
            to: raw.to,
            not_before_attempt: raw.not_before_attempt,
            every: raw.every,
            fail_at: raw.fail_at,
            checkpoint: file("checkpoint", &raw.checkpoint, index)?,
            checkpoint_interval: raw.checkpoint_interval,
            journal: raw.journal.map(|path| file("journal", &path, index)).transpose()?,
            attempt: raw.attempt,
            on_sigterm: raw.on_sigterm,
            gang,
        })
    }
}

impl TryFrom<GangArguments> for Gang {
    type Error = Error;

    fn try_from(raw: GangArguments) -> Result<Self, Error> {
        let size = if raw.peers.is_empty() { raw.pod_count.ok_or(Error::NoPeers)? } else { raw.peers.len() };
        // The operator names all pods of small gangs only.
        let leader =
            raw.peers.into_iter().next().or(raw.host_template.map(|host| host.replace("{index}", "0")));
        let leader = leader.filter(|host| !host.is_empty()).ok_or(Error::NoPeers)?;
        let index = raw.index.ok_or(Error::NoIndex)?;
        if index >= size {
            return Err(Error::IndexOutOfRange { index, size });
        }
        Ok(Self {
            size,
            index,
            leader,
            port: raw.port,
            start_timeout: raw.start_timeout,
            peer_timeout: raw.peer_timeout,
        })
    }
}

/// An absolute path to a file, with the pod's index filled in.
fn file(flag: &'static str, path: &Path, index: Option<usize>) -> Result<PathBuf, Error> {
    let path = match path.to_str() {
        Some(text) if text.contains("{index}") => {
            let index = index.ok_or(Error::NoIndexForPath { flag })?;
            PathBuf::from(text.replace("{index}", &index.to_string()))
        }
        _ => path.to_owned(),
    };
    if path.is_relative() {
        return Err(Error::RelativePath { flag, path });
    }
    if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Error::NoFileName { flag, path });
    }
    Ok(path)
}

/// Parses a duration that names its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let hint = "expected a number with its unit, such as 100ms, 10s or 5m";
    let signed: SignedDuration = text.parse().map_err(|_| hint.to_owned())?;
    Duration::try_from(signed).map_err(|_| format!("must not be negative; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[&str]) -> Result<Settings, Error> {
        let always = ["scavenger-counter", "--to", "300"];
        Settings::try_from(Arguments::try_parse_from(always.iter().chain(flags)).unwrap())
    }

    #[test]
    fn defaults_are_those_of_a_good_workload() {
        let settings = settings(&["--checkpoint", "/data/count"]).unwrap();
        assert_eq!(settings.every, Duration::from_millis(100));
        assert_eq!(settings.checkpoint_interval, Duration::from_secs(10));
        assert!(settings.on_sigterm.saves());
        assert_eq!(settings.on_sigterm.exit_status(), 143);
        assert!(settings.gang.is_none());
    }

    #[test]
    fn a_relative_path_is_refused_by_name() {
        let error = settings(&["--checkpoint", "count"]).unwrap_err();
        assert_eq!(error, Error::RelativePath { flag: "checkpoint", path: "count".into() });
        let error = settings(&["--checkpoint", "/data/count", "--journal", "journal"]).unwrap_err();
        assert_eq!(error, Error::RelativePath { flag: "journal", path: "journal".into() });
    }

    #[test]
    fn a_directory_is_no_checkpoint() {
        for path in ["/", "/data/", "/data/.."] {
            let error = settings(&["--checkpoint", path]).unwrap_err();
            assert_eq!(error, Error::NoFileName { flag: "checkpoint", path: path.into() });
        }
    }

    #[test]
    fn the_index_is_filled_into_paths() {
        let flags = ["--checkpoint", "/data/count-{index}"];
        assert_eq!(settings(&flags).unwrap_err(), Error::NoIndexForPath { flag: "checkpoint" });
        let settings = settings(&[&flags[..], &["--index", "2"]].concat()).unwrap();
        assert_eq!(settings.checkpoint, Path::new("/data/count-2"));
    }

    #[test]
    fn a_gang_needs_peers_and_an_index_among_them() {
        let gang = |flags: &[&str]| settings(&[&["--checkpoint", "/data/count", "--gang"], flags].concat());
        assert_eq!(gang(&[]).unwrap_err(), Error::NoPeers);
        assert_eq!(gang(&["--peers", "a,b,c"]).unwrap_err(), Error::NoIndex);
        let error = gang(&["--peers", "a,b,c", "--index", "3"]).unwrap_err();
        assert_eq!(error, Error::IndexOutOfRange { index: 3, size: 3 });
        let found = gang(&["--peers", "a,b,c", "--index", "1"]).unwrap().gang.unwrap();
        assert_eq!((found.size, found.index, found.leader.as_str()), (3, 1, "a"));
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("100ms").unwrap(), Duration::from_millis(100));
        assert_eq!(duration("1m 30s").unwrap(), Duration::from_secs(90));
        assert!(duration("10").unwrap_err().contains("unit"));
        assert!(duration("-1s").unwrap_err().contains("negative"));
    }

    #[test]
    fn a_step_of_no_length_is_refused() {
        let error = settings(&["--checkpoint", "/data/count", "--every", "0s"]).unwrap_err();
        assert_eq!(error, Error::ZeroDuration { flag: "every" });
    }
}
