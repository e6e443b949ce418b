//! Why mdrun ended before its first step, told by mdrun's own words.
//!
//! Only here stands which words mean what. They are GROMACS's own, of releases 2019 to 2026, and are kept exactly:
//! `tests` has them as `gmx mdrun` of 2022.5 printed them, and those of GPUs as its sources have them.

use scavenger_schema::tuning::{Device, Layout};

/// What an end before the first step asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFailure {
    /// This configuration cannot run the system; another one may.
    Layout(Fault),
    /// It is expected to go by without a person: start again later.
    Transient,
    /// The file system cannot lock the log, which only a run that appends to its output needs.
    NoLocks,
    /// A person must change something. The text says what, as far as it is known.
    Input(Option<&'static str>),
}

/// What of a configuration mdrun refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// So many domains do not fit into the box, nor do more.
    Domains,
    /// The system runs on one rank alone.
    Ranks,
    /// What it does on a GPU.
    Gpu,
    /// This division into ranks and threads, and no other.
    Division,
}

const MINIMISE: Option<&str> = Some(
    "the forces are too large at the start; minimise the energy, or equilibrate with a shorter time step, and add the \
     result",
);
const NEW_PARTS: Option<&str> = Some(
    "put the files back, or set append to false so that mdrun writes new parts (gromacs-submitter edit), and retry",
);

const OLDER_CHECKPOINT: Option<&str> = Some(
    "put it back, or move the checkpoints, logs and results of that simulation away to begin it again, and retry",
);

/// What starts mdrun has taken the checkpoint before by now, if GROMACS can read that one.
const DAMAGED_CHECKPOINT: Option<&str> = Some(
    "put a checkpoint there that it can read, or move the checkpoints, logs and results of that simulation away to begin it \
     again, and retry",
);

const UNREADABLE_CHECKPOINT: Option<&str> =
    Some("let the user of the row read and write it (chown, chmod), and retry");

const TABLE: Option<&str> =
    Some("name the table with -tableb in mdrun_options (gromacs-submitter edit), and retry");

/// What a system says of a file system whose server is away.
const AWAY: [&str; 3] = ["Stale file handle", "Stale NFS file handle", "Transport endpoint is not connected"];

/// The first line whose words occur decides: what is more special stands above what is more general.
const PATTERNS: &[(&str, StartFailure)] = &[
    // Most of these sentences end in "or maybe you are out of disk space?", which it is not. "Cannot read/write checkpoint" is
    // what mdrun says when it cannot write one, and there it is.
    ("Checkpoint file corrupted/truncated", StartFailure::Input(DAMAGED_CHECKPOINT)),
    ("The checkpoint file is empty/corrupted", StartFailure::Input(DAMAGED_CHECKPOINT)),
    ("The checkpoint file is corrupted or not a checkpoint file", StartFailure::Input(DAMAGED_CHECKPOINT)),
    ("incompatible checkpoint formats or corrupted checkpoint file", StartFailure::Input(DAMAGED_CHECKPOINT)),
    ("mismatch for state entry", StartFailure::Input(DAMAGED_CHECKPOINT)),
    // Ours: the scripts that start mdrun say so.
    ("but a checkpoint had reached step", StartFailure::Input(OLDER_CHECKPOINT)),
    ("There is no domain decomposition for", StartFailure::Layout(Fault::Domains)),
    ("is smaller than the cell size limit", StartFailure::Layout(Fault::Domains)),
    ("only supports a single rank", StartFailure::Layout(Fault::Ranks)),
    ("is not supported with domain decomposition", StartFailure::Layout(Fault::Ranks)),
    ("are not implemented with domain decomposition", StartFailure::Layout(Fault::Ranks)),
    ("With MPI parallelization distance-restraint", StartFailure::Layout(Fault::Ranks)),
    ("are not supported with MPI parallelization", StartFailure::Layout(Fault::Ranks)),
    ("contains a large prime factor", StartFailure::Layout(Fault::Division)),
    ("request a parallel simulation, but", StartFailure::Layout(Fault::Division)),
    ("OMP_NUM_THREADS", StartFailure::Layout(Fault::Division)),
    ("interactions on the GPU were required", StartFailure::Layout(Fault::Gpu)),
    ("interactions on the GPU were requested", StartFailure::Layout(Fault::Gpu)),
    ("interactions on a GPU because", StartFailure::Layout(Fault::Gpu)),
    ("Cannot compute PME interactions on a GPU", StartFailure::Layout(Fault::Gpu)),
    ("Cannot run PME on a GPU because", StartFailure::Layout(Fault::Gpu)),
    ("Cannot run coordinate update on a GPU because", StartFailure::Layout(Fault::Gpu)),
    ("Update task can not run on the GPU", StartFailure::Layout(Fault::Gpu)),
    ("Update task on the GPU was required", StartFailure::Layout(Fault::Gpu)),
    ("Multiple energy groups is not implemented for GPUs", StartFailure::Layout(Fault::Gpu)),
    ("CUDA error", StartFailure::Layout(Fault::Gpu)),
    ("CUDA driver version is insufficient", StartFailure::Layout(Fault::Gpu)),
    ("Already running simulation?", StartFailure::Transient),
    (AWAY[0], StartFailure::Transient),
    (AWAY[1], StartFailure::Transient),
    (AWAY[2], StartFailure::Transient),
    ("state.cpt: Permission denied", StartFailure::Input(UNREADABLE_CHECKPOINT)),
    ("state.cpt cannot be read", StartFailure::Transient),
    ("No space left", StartFailure::Transient),
    ("Disk quota exceeded", StartFailure::Transient),
    ("out of disk space", StartFailure::Transient),
    ("File locking is not supported on this system", StartFailure::NoLocks),
    // What the system says behind "Failed to lock: md.log." where fcntl() finds no locks, as on NFS without lockd.
    // Of the log alone: the system has the same words for whatever else it does not support.
    ("md.log. No locks available", StartFailure::NoLocks),
    ("md.log. Operation not supported", StartFailure::NoLocks),
    ("output files by the current program", StartFailure::Input(NEW_PARTS)),
    ("output files listed in the checkpoint file", StartFailure::Input(NEW_PARTS)),
    ("Cannot do appending because of this condition", StartFailure::Input(NEW_PARTS)),
    (
        "is only supported with thread-MPI",
        StartFailure::Input(Some(
            "the gmx of the image is built for library MPI; name an image with a thread-MPI build",
        )),
    ),
    ("via the gmx mdrun -tableb command-line option", StartFailure::Input(TABLE)),
    ("can not be settled", StartFailure::Input(MINIMISE)),
    ("LINCS warnings", StartFailure::Input(MINIMISE)),
    ("LINCS WARNING", StartFailure::Input(MINIMISE)),
    ("The total potential energy is", StartFailure::Input(MINIMISE)),
];

/// What mdrun's `words` ask for. Words that nobody knows are taken for the input's fault, once the plainest configuration has
/// met them, too: a person must read them.
#[must_use]
pub fn classify(words: &str) -> StartFailure {
    PATTERNS
        .iter()
        .find(|(pattern, _)| words.contains(pattern))
        .map_or(StartFailure::Input(None), |(_, failure)| *failure)
}

/// True if `words` say that a file system was away. That goes by whenever it comes; a volume that was filled by the run itself
/// does not.
#[must_use]
pub fn is_file_system_away(words: &str) -> bool {
    AWAY.iter().any(|away| words.contains(away))
}

/// True if mdrun, having refused `refused` in these `words`, will refuse `candidate` as well.
#[must_use]
pub fn rules_out(words: &str, refused: &Layout, candidate: &Layout) -> bool {
    let domains = |layout: &Layout| layout.ntmpi.saturating_sub(layout.npme);
    match classify(words) {
        StartFailure::Layout(Fault::Domains) => domains(candidate) >= domains(refused),
        StartFailure::Layout(Fault::Ranks) => candidate.ntmpi > 1,
        StartFailure::Layout(Fault::Gpu) => on_gpu(refused)
            .into_iter()
            .zip(on_gpu(candidate))
            .all(|(refused, candidate)| candidate || !refused),
        // Nobody knows what they are about.
        StartFailure::Input(None) => candidate == refused || !is_plainest(candidate),
        StartFailure::Layout(Fault::Division)
        | StartFailure::Transient
        | StartFailure::NoLocks
        | StartFailure::Input(Some(_)) => candidate == refused,
    }
}

/// True for one rank on the CPU: every input that GROMACS can run at all runs so.
#[must_use]
pub fn is_plainest(layout: &Layout) -> bool {
    layout.ntmpi == 1 && !on_gpu(layout).contains(&true)
}

fn on_gpu(layout: &Layout) -> [bool; 4] {
    [layout.nb, layout.pme, layout.bonded, layout.update].map(|device| device == Device::Gpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mdrun_log::error_message;

    /// Ends of the standard error of `gmx mdrun` 2022.5 (Debian), each provoked.
    const SEEN: &str = include_str!("../tests/fixtures/mdrun-refusals.txt");

    fn seen(name: &str) -> String {
        let behind = SEEN.split_once(&format!("=== {name}\n")).expect("should be in the file").1;
        let text = behind.split("=== ").next().unwrap_or_default();
        error_message(text).unwrap_or_else(|| panic!("{name} should hold a message"))
    }

    #[test]
    fn what_mdrun_was_seen_to_say_is_known() {
        for (name, expected) in [
            ("too many ranks", StartFailure::Layout(Fault::Domains)),
            ("a cell too small", StartFailure::Layout(Fault::Domains)),
            ("one rank alone", StartFailure::Layout(Fault::Ranks)),
            ("SHAKE", StartFailure::Layout(Fault::Ranks)),
            ("distance restraints", StartFailure::Layout(Fault::Ranks)),
            ("a large prime", StartFailure::Layout(Fault::Division)),
            ("one rank for PME", StartFailure::Layout(Fault::Division)),
            ("threads of the image", StartFailure::Layout(Fault::Division)),
            ("a build without GPUs", StartFailure::Layout(Fault::Gpu)),
            ("PME on a GPU", StartFailure::Layout(Fault::Gpu)),
            ("a lock that is held", StartFailure::Transient),
            ("a full volume", StartFailure::Transient),
            ("a damaged checkpoint", PATTERNS[0].1),
            ("output that is missing", StartFailure::Input(NEW_PARTS)),
            ("output that was changed", StartFailure::Input(NEW_PARTS)),
            ("a bond without its table", StartFailure::Input(TABLE)),
        ] {
            assert_eq!(classify(&seen(name)), expected, "{name}: {}", seen(name));
        }
    }

    /// Words of releases and hardware that are not here.
    #[test]
    fn what_the_sources_say_is_known() {
        for (words, expected) in [
            (
                "Nonbonded interactions on the GPU were required, but not supported for these simulation settings.",
                StartFailure::Layout(Fault::Gpu),
            ),
            (
                "Cannot run short-ranged nonbonded interactions on a GPU because no GPU is detected.",
                StartFailure::Layout(Fault::Gpu),
            ),
            ("Failed to lock: md.log. Stale file handle.", StartFailure::Transient),
            ("ls: cannot access '/data/x.tpr': Transport endpoint is not connected", StartFailure::Transient),
            (
                "File locking is not supported on this system. Use mdrun -noappend to restart.",
                StartFailure::NoLocks,
            ),
            ("Failed to lock: md.log. No locks available.", StartFailure::NoLocks),
            ("Failed to lock: md.log. Operation not supported.", StartFailure::NoLocks),
            ("cannot copy the checkpoint: Operation not supported", StartFailure::Input(None)),
            ("step 0: One or more water molecules can not be settled.", StartFailure::Input(MINIMISE)),
            ("some new words", StartFailure::Input(None)),
        ] {
            assert_eq!(classify(words), expected, "{words}");
        }
    }

    #[test]
    fn a_refusal_rules_out_what_would_meet_it_as_well() {
        let words = seen("too many ranks");
        let ranks = |ntmpi, npme| Layout { npme, ..Layout::cpu(ntmpi, 1) };
        assert!(rules_out(&words, &ranks(16, 4), &ranks(12, 0)), "12 domains each");
        assert!(rules_out(&words, &ranks(16, 4), &ranks(32, 0)));
        assert!(!rules_out(&words, &ranks(16, 4), &ranks(8, 0)));
        let alone = seen("one rank alone");
        assert!(
            rules_out(&alone, &ranks(8, 0), &ranks(2, 0)) && !rules_out(&alone, &ranks(8, 0), &ranks(1, 0))
        );
        let prime = seen("a large prime");
        assert!(rules_out(&prime, &ranks(14, 0), &ranks(14, 0)));
        assert!(!rules_out(&prime, &ranks(14, 0), &ranks(16, 0)));
        let gpu = Layout::water(1, 8, 1);
        let words = seen("a build without GPUs");
        assert!(rules_out(&words, &gpu, &Layout::water(1, 4, 1)));
        assert!(!rules_out(&words, &gpu, &Layout { pme: Device::Cpu, ..gpu }), "less of it is on the GPU");
        assert!(!rules_out(&words, &gpu, &Layout::cpu(1, 8)));
        let unknown = "some new words";
        assert!(
            rules_out(unknown, &gpu, &Layout::cpu(2, 4)) && !rules_out(unknown, &gpu, &Layout::cpu(1, 4))
        );
        assert!(rules_out(unknown, &Layout::cpu(1, 4), &Layout::cpu(1, 4)));
    }
}
