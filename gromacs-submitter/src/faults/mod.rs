//! Whose fault it is that a row does not go on, by what GROMACS, an exit code, the kubelet or the API server says of it. The words
//! by which that is recognised stand in one table, `TABLE`.
//!
//! The words of GROMACS are of releases 2019 to 2026, and are kept exactly: `tests` has a fixture for each, as `gmx` of 2022.5
//! printed it, or as its sources have it where that needs other hardware.

pub(crate) mod configuration;
mod end;
mod remedy;
#[cfg(test)]
mod tests;

pub use configuration::{is_plainest, rules_out};
pub use end::Failure;
pub(crate) use end::{End, is_no_nodes_fault};
pub use remedy::remedy;

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Of the row: its file, its folder, its options or its image. A person must change something.
    Row,
    /// Of the configuration: another one may do.
    Configuration,
    /// Of the node: another one may do.
    Node,
    /// Of the registry, or of those who run the cluster: it may pass.
    Cluster,
    /// Nobody's: something is used up, held or away.
    Passing,
}

/// What of a configuration mdrun refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// So many domains do not fit into the box, nor do more.
    Domains,
    /// The system runs on one rank alone.
    Ranks,
    /// What it does on a GPU.
    Gpu,
    /// This division into ranks and threads, and no other.
    Division,
}

/// What it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// This configuration cannot run the system.
    Refuses(Part),
    /// The file system cannot lock the log, which only a run that appends to its output needs.
    NoLocks,
    /// Another process holds the lock of the log.
    Held,
    /// The server of the file system is away.
    Away,
    /// The volume is full.
    Full,
    /// A GPU, or what the node has to drive it.
    Gpu,
    /// The processor lacks an instruction of the image's GROMACS.
    Processor,
    /// A signal ended it, and nobody says why.
    Crash,
    /// A checkpoint that GROMACS cannot read.
    DamagedCheckpoint,
    /// An older checkpoint than there was.
    OlderCheckpoint,
    /// A checkpoint that the user of the row may not read.
    UnreadableCheckpoint,
    /// Output files that are not as mdrun left them.
    ChangedOutput,
    /// The image's GROMACS is older than the file.
    NewerFile,
    /// The image's GROMACS has no thread-MPI.
    NoThreadMpi,
    /// A file that GROMACS reads is not there.
    NoFile,
    /// The table of a bond that was not named.
    Table,
    /// The forces are too large.
    Unstable,
    /// A force is not finite.
    InfiniteForce,
    /// The registry is away, or throttles.
    Registry,
    /// The registry does not give the image; many do not say whether there is one.
    ImageNotGiven,
    /// The registry has no such image.
    NoImage,
    /// The submitter has no right to it.
    NoRight,
    /// A rule of the cluster does not allow it. Whether the row is at fault or the rule nobody knows; time tells.
    Denied,
    /// The rules of the ScavengerPool cannot be looked up, or are older than the pool.
    NoRules,
    /// A quota is used up, or the namespace is being terminated.
    Quota,
    /// GROMACS does not take what it was given, in words that nobody knows.
    Input,
    /// Nobody knows.
    Unknown,
}

impl Meaning {
    /// Whose fault it is. What nobody knows is taken for the node's, until another node shows that it is not.
    #[must_use]
    pub fn fault(self) -> Fault {
        match self {
            Self::Refuses(_) => Fault::Configuration,
            Self::NoLocks | Self::Held | Self::Away | Self::Full | Self::Quota => Fault::Passing,
            Self::Gpu | Self::Processor | Self::Crash | Self::Unknown => Fault::Node,
            Self::Registry
            | Self::ImageNotGiven
            | Self::NoImage
            | Self::NoRight
            | Self::Denied
            | Self::NoRules => Fault::Cluster,
            Self::DamagedCheckpoint
            | Self::OlderCheckpoint
            | Self::UnreadableCheckpoint
            | Self::ChangedOutput
            | Self::NewerFile
            | Self::NoThreadMpi
            | Self::NoFile
            | Self::Table
            | Self::Unstable
            | Self::InfiniteForce
            | Self::Input => Fault::Row,
        }
    }
}

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    /// GROMACS, or a script that starts it, in its message.
    Gromacs,
    /// The same, or the system, also in a line of its own.
    Line,
    /// The exit code.
    Exit,
    /// The kubelet of an image, quoting the registry or the network. In lower case.
    Kubelet,
    /// The API server of what it does not do.
    ApiServer,
}

/// Words, and what it means if one of them is said.
struct Row {
    speaker: Speaker,
    /// What must be said, too.
    with: &'static str,
    words: &'static [&'static str],
    meaning: Meaning,
}

const fn row(speaker: Speaker, words: &'static [&'static str], meaning: Meaning) -> Row {
    Row { speaker, with: "", words, meaning }
}

/// The first row that matches decides: what is more special stands above what is more general.
static TABLE: &[Row] = &[
    // Most of these sentences end in "or maybe you are out of disk space?", which it is not. "Cannot read/write checkpoint" is
    // what mdrun says when it cannot write one, and there it is.
    row(
        Speaker::Gromacs,
        &[
            "Checkpoint file corrupted/truncated",
            "The checkpoint file is empty/corrupted",
            "The checkpoint file is corrupted or not a checkpoint file",
            "incompatible checkpoint formats or corrupted checkpoint file",
            "mismatch for state entry",
        ],
        Meaning::DamagedCheckpoint,
    ),
    // Ours: the scripts that start mdrun say so.
    row(Speaker::Gromacs, &["but a checkpoint had reached step"], Meaning::OlderCheckpoint),
    // A GPU that is there and does not work, or a node that cannot drive it. What the settings keep off a GPU says "GPU", too.
    row(
        Speaker::Line,
        &[
            "CUDA error",
            "CUDA driver version is insufficient",
            "cudaError",
            "HIP error",
            "hipError",
            "error code = HIP:",
            "Native API failed",
            "PI_ERROR_",
            "UR_RESULT_ERROR_",
            "OpenCL error",
            "CL_OUT_OF_RESOURCES",
            "CL_DEVICE_NOT_AVAILABLE",
            "no GPU is detected",
            "fallen off the bus",
            "uncorrectable ECC error",
            "Xid (",
        ],
        Meaning::Gpu,
    ),
    row(Speaker::Line, &["SIMD instructions newer than hardware", "Illegal instruction"], Meaning::Processor),
    Row { with: "instruction", ..row(Speaker::Gromacs, &["processor of this machine"], Meaning::Processor) },
    row(
        Speaker::Gromacs,
        &["There is no domain decomposition for", "is smaller than the cell size limit"],
        Meaning::Refuses(Part::Domains),
    ),
    row(
        Speaker::Gromacs,
        &[
            "only supports a single rank",
            "is not supported with domain decomposition",
            "are not implemented with domain decomposition",
            "With MPI parallelization distance-restraint",
            "are not supported with MPI parallelization",
        ],
        Meaning::Refuses(Part::Ranks),
    ),
    row(
        Speaker::Gromacs,
        &["contains a large prime factor", "request a parallel simulation, but", "OMP_NUM_THREADS"],
        Meaning::Refuses(Part::Division),
    ),
    row(
        Speaker::Gromacs,
        &[
            "interactions on the GPU were required",
            "interactions on the GPU were requested",
            "interactions on a GPU because",
            "Cannot compute PME interactions on a GPU",
            "Cannot run PME on a GPU because",
            "not be computed on a GPU",
            "Cannot compute bonded interactions on a GPU",
            "Cannot run coordinate update on a GPU because",
            "Update task can not run on the GPU",
            "Update task on the GPU was required",
            "Multiple energy groups is not implemented for GPUs",
        ],
        Meaning::Refuses(Part::Gpu),
    ),
    row(Speaker::Gromacs, &["Already running simulation?"], Meaning::Held),
    // What a system says of a file system whose server is away.
    row(
        Speaker::Line,
        &["Stale file handle", "Stale NFS file handle", "Transport endpoint is not connected"],
        Meaning::Away,
    ),
    row(Speaker::Gromacs, &["state.cpt: Permission denied"], Meaning::UnreadableCheckpoint),
    row(Speaker::Gromacs, &["state.cpt cannot be read"], Meaning::Away),
    row(Speaker::Line, &["No space left", "Disk quota exceeded", "out of disk space"], Meaning::Full),
    // What the system says behind "Failed to lock: md.log." where fcntl() finds no locks, as on NFS without lockd. Of the log
    // alone: the system has the same words for whatever else it does not support.
    row(
        Speaker::Gromacs,
        &[
            "File locking is not supported on this system",
            "md.log. No locks available",
            "md.log. Operation not supported",
        ],
        Meaning::NoLocks,
    ),
    row(
        Speaker::Gromacs,
        &[
            "output files by the current program",
            "output files listed in the checkpoint file",
            "Cannot do appending because of this condition",
        ],
        Meaning::ChangedOutput,
    ),
    // `reading tpx file (topol.tpr) version 143 with version 127 program`
    Row { with: "program", ..row(Speaker::Gromacs, &["reading tpx file"], Meaning::NewerFile) },
    row(Speaker::Gromacs, &["is only supported with thread-MPI"], Meaning::NoThreadMpi),
    row(Speaker::Gromacs, &["does not exist or is not accessible"], Meaning::NoFile),
    row(Speaker::Gromacs, &["via the gmx mdrun -tableb command-line option"], Meaning::Table),
    row(Speaker::Line, &["force on at least one atom is not"], Meaning::InfiniteForce),
    row(Speaker::Line, &["can not be settled", "LINCS WARNING"], Meaning::Unstable),
    row(Speaker::Gromacs, &["LINCS warnings", "The total potential energy is"], Meaning::Unstable),
    row(Speaker::Line, &["Segmentation fault", "Bus error"], Meaning::Crash),
    // 128 and the number of the signal: SIGILL; SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM.
    row(Speaker::Exit, &["132"], Meaning::Processor),
    row(Speaker::Exit, &["134", "135", "136", "137", "139", "143"], Meaning::Crash),
    // A registry in trouble may say both: that it is, and that it knows nobody.
    row(
        Speaker::Kubelet,
        &[
            "connection refused",
            "i/o timeout",
            "deadline exceeded",
            "no such host",
            "too many requests",
            "toomanyrequests",
            "503 service",
        ],
        Meaning::Registry,
    ),
    row(
        Speaker::Kubelet,
        &[
            "pull access denied",
            "401 unauthorized",
            "unauthorized: ",
            "authentication required",
            "403 forbidden",
        ],
        Meaning::ImageNotGiven,
    ),
    row(Speaker::Kubelet, &["manifest unknown", "name unknown", ": not found"], Meaning::NoImage),
    row(Speaker::ApiServer, &["exceeded quota", "because it is being terminated"], Meaning::Quota),
    // The policy that checks ScavengerJobs does not find the ScavengerPool that holds its limits, or knows it as it was before
    // its taints changed.
    row(
        Speaker::ApiServer,
        &["no params found", "failed to configure binding", "in toleratedTaints"],
        Meaning::NoRules,
    ),
    Row { with: " in the namespace ", ..row(Speaker::ApiServer, &[" cannot "], Meaning::NoRight) },
    row(Speaker::ApiServer, &[" denied the request", " is forbidden: "], Meaning::Denied),
];

/// The row that decides if a speaker says this; none if the table does not know it.
fn find(speakers: &[Speaker], said: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| {
        speakers.contains(&row.speaker)
            && said.contains(row.with)
            && row.words.iter().any(|words| said.contains(words))
    })
}

fn meaning(speakers: &[Speaker], said: &str) -> Meaning {
    find(speakers, said).map_or(Meaning::Unknown, |row| row.meaning)
}

/// What a message of GROMACS means, or a line that stands for one.
#[must_use]
pub fn of_gromacs(words: &str) -> Meaning {
    meaning(&[Speaker::Gromacs, Speaker::Line], words)
}

/// What it means that a process ended with this exit code.
#[must_use]
pub fn of_exit_code(code: i32) -> Meaning {
    meaning(&[Speaker::Exit], &code.to_string())
}

/// What the kubelet's message means of a container that was not created, as the operator quotes it.
#[must_use]
pub fn of_kubelet(message: &str) -> Meaning {
    meaning(&[Speaker::Kubelet], &message.to_ascii_lowercase())
}

/// What a refusal of the API server means.
#[must_use]
pub fn of_api_server(message: &str) -> Meaning {
    meaning(&[Speaker::ApiServer], message)
}

/// True if a line outside of a message says what went wrong.
#[must_use]
pub fn is_known_line(line: &str) -> bool {
    find(&[Speaker::Line], line).is_some()
}
