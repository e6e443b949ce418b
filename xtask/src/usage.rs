//! Who uses the processors while a task runs: seconds of processor time by kind of process, as the kernel counts them.
//!
//! The kernel writes a record of each process that ends (`acct(2)`), with its time and the name of its last thread. What
//! a process really is stands in `/proc` while it lives, so both are read once a second. What lives too briefly to be
//! seen goes by the record's name.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::unistd::acct;

/// How often processes are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Ticks of the kernel's clock in a second, in `/proc` and in its records.
const TICKS: f64 = 100.0;

/// Counts until it is stopped.
pub(crate) struct Usage {
    stop: Sender<()>,
    thread: JoinHandle<Counted>,
    began: Instant,
    /// Seconds that all processors had been busy before.
    busy: f64,
}

/// Seconds by name of process.
#[derive(Debug, Default)]
struct Counted(BTreeMap<Name, f64>);

/// What a process is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    /// A program of tests: its file without the hash.
    Tests(String),
    /// Another program, by the first 15 bytes of its name.
    Program(String),
}

impl Usage {
    /// Begins to count.
    ///
    /// # Errors
    /// If the kernel keeps no records of processes, or another program reads them.
    pub(crate) fn start() -> Result<Self> {
        let file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        acct::enable(file.path()).context("the kernel writes no records of processes that end")?;
        let (stop, stopped) = mpsc::channel();
        let busy = busy()?;
        let thread = std::thread::spawn(move || {
            let mut watch = Watch { living: living(), ..Watch::default() };
            // Theirs is what they used before this began.
            watch.before = watch.living.keys().map(|pid| (*pid, used(*pid).unwrap_or_default())).collect();
            let mut records = File::open(file.path()).ok();
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                watch.look(records.as_mut());
            }
            watch.look(records.as_mut());
            let _ = acct::disable();
            watch.end()
        });
        Ok(Self { stop, thread, began: Instant::now(), busy })
    }

    /// Ends the count, and returns it as a table for people.
    pub(crate) fn stop(self) -> Result<String> {
        let Self { stop, thread, began, busy: before } = self;
        drop(stop);
        let counted = thread.join().expect("the thread that counts should not have panicked");
        Ok(counted.table(began.elapsed().as_secs_f64(), busy()? - before))
    }
}

/// What is known so far.
#[derive(Default)]
struct Watch {
    counted: Counted,
    living: HashMap<i32, Name>,
    /// What those that lived before had used by then.
    before: HashMap<i32, f64>,
}

impl Watch {
    /// Enters what has ended since the last look, then looks at what lives.
    fn look(&mut self, records: Option<&mut File>) {
        let mut ended = Vec::new();
        if let Some(records) = records {
            let _ = records.read_to_end(&mut ended);
        }
        // The kernel writes whole records only.
        for record in ended.chunks_exact(RECORD).map(Record::of) {
            let name = self.living.remove(&record.pid).unwrap_or_else(|| Name::Program(record.name.clone()));
            let before = self.before.remove(&record.pid).unwrap_or_default();
            self.counted.add(name, record.seconds - before);
        }
        self.living.extend(living());
    }

    /// Adds what still lives.
    fn end(mut self) -> Counted {
        for (pid, name) in self.living {
            if let Some(seconds) = used(pid) {
                self.counted.add(name, seconds - self.before.get(&pid).unwrap_or(&0.0));
            }
        }
        self.counted
    }
}

impl Counted {
    fn add(&mut self, name: Name, seconds: f64) {
        *self.0.entry(name).or_default() += seconds.max(0.0);
    }

    /// By kind, and below that the programs of tests that used most.
    fn table(&self, clock: f64, busy: f64) -> String {
        let mut kinds: BTreeMap<&str, (f64, BTreeMap<&str, f64>)> = BTreeMap::new();
        let mut tests = BTreeMap::new();
        for (name, seconds) in &self.0 {
            let (kind, program) = match name {
                Name::Tests(name) => {
                    *tests.entry(name.as_str()).or_default() += seconds;
                    ("test programs", "")
                }
                Name::Program(name) => (kind(name), name.as_str()),
            };
            let (sum, programs) = kinds.entry(kind).or_default();
            *sum += seconds;
            *programs.entry(program).or_default() += seconds;
        }
        let counted: f64 = self.0.values().sum();
        let mut text = format!(
            "processor time in {clock:.0} s on the clock: {busy:.0} s\n\n| processes | seconds | share | most |\n|---|--:|--:|---|\n"
        );
        for (kind, (sum, programs)) in longest(&kinds, |(sum, _)| *sum) {
            let most: Vec<String> = longest(programs, |seconds| *seconds)
                .into_iter()
                .filter(|(name, seconds)| !name.is_empty() && **seconds >= 1.0)
                .take(6)
                .map(|(name, seconds)| format!("{name} {seconds:.0}"))
                .collect();
            let _ =
                writeln!(text, "| {kind} | {sum:.0} | {:.0}% | {} |", 100.0 * sum / busy, most.join(", "));
        }
        let rest = busy - counted;
        let _ = writeln!(
            text,
            "| the kernel's own, and what lived for less than 10 ms | {rest:.0} | {:.0}% | |",
            100.0 * rest / busy
        );
        let tests: Vec<String> = longest(&tests, |seconds| *seconds)
            .into_iter()
            .take(12)
            .map(|(name, seconds)| format!("{name} {seconds:.0}"))
            .collect();
        let _ = writeln!(text, "\ntest programs, seconds: {}", tests.join(", "));
        text
    }
}

/// Entries by their size, the largest first.
fn longest<K, V>(entries: &BTreeMap<K, V>, size: impl Fn(&V) -> f64) -> Vec<(&K, &V)> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by(|(_, one), (_, other)| size(other).total_cmp(&size(one)));
    sorted
}

/// What kind of process has this name. Names end at 15 bytes.
fn kind(name: &str) -> &'static str {
    /// Beginnings of names.
    const KINDS: [(&str, &[&str]); 11] = [
        (
            "rustc",
            &["rustc", "rustdoc", "clippy-driver", "cargo", "build-script", "opt ", "lto ", "coordinator"],
        ),
        ("link", &["ld", "cc", "gcc", "collect2", "rust-lld", "musl-gcc", "x86_64-linux"]),
        ("API servers", &["kube-apiserver"]),
        ("etcd", &["etcd"]),
        ("kubelets", &["kubelet"]),
        ("containerd", &["containerd", "runc", "ctr", "pause", "exe"]),
        ("scheduler and controller manager", &["kube-scheduler", "kube-controller"]),
        ("operators", &["scavenger-opera"]),
        (
            "other programs of the project",
            &["gromacs-submitt", "scavenger-tuner", "scavenger-super", "scavenger-node-", "scavenger-count"],
        ),
        ("emulated machines", &["qemu-system"]),
        ("GROMACS and Postgres", &["gmx", "postgres", "psql", "pg_", "initdb"]),
    ];
    let is_of = |names: &&[&str]| names.iter().any(|beginning| name.starts_with(beginning));
    KINDS.iter().find(|(_, names)| is_of(names)).map_or("others", |(kind, _)| kind)
}

/// Processes that live now.
fn living() -> HashMap<i32, Name> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, name(pid)?))).collect()
}

fn folder(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// None of a process that has ended, or is one of the kernel's.
fn name(pid: i32) -> Option<Name> {
    let program = fs::read_link(folder(pid).join("exe")).ok()?;
    let file = program.file_name()?.to_str()?;
    Some(match (program.parent()?.ends_with("deps"), file.rsplit_once('-')) {
        (true, Some((name, _))) => Name::Tests(name.to_owned()),
        _ => Name::Program(fs::read_to_string(folder(pid).join("comm")).ok()?.trim_end().to_owned()),
    })
}

/// Seconds that a process has used, all its threads together.
fn used(pid: i32) -> Option<f64> {
    let stat = fs::read_to_string(folder(pid).join("stat")).ok()?;
    // The name, which ends with the last bracket, may hold spaces. proc(5) counts the fields from 1.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / TICKS)
}

/// Seconds that all processors have been busy since the machine started.
fn busy() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // User, nice, system; idle and waiting for a disk are left out; interrupts.
    Ok([0, 1, 2, 5, 6].iter().filter_map(|place| ticks.get(*place)).sum::<f64>() / TICKS)
}

/// Size of the kernel's `struct acct_v3`.
const RECORD: usize = 64;

/// The fields of it that are of interest.
#[derive(Debug, PartialEq)]
struct Record {
    pid: i32,
    seconds: f64,
    name: String,
}

impl Record {
    fn of(bytes: &[u8]) -> Self {
        let ticks = |at: usize| {
            let number = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
            // Three bits of exponent to base 8, thirteen of mantissa.
            f64::from(number & 0x1fff) * 8_f64.powi(i32::from(number >> 13))
        };
        let pid = bytes[16..20].try_into().expect("four bytes are four bytes");
        let name = bytes[48..].split(|byte| *byte == 0).next().unwrap_or_default();
        Self {
            pid: i32::from_ne_bytes(pid),
            seconds: (ticks(32) + ticks(34)) / TICKS,
            name: String::from_utf8_lossy(name).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_kernel_writes_it() {
        let mut bytes = [0; RECORD];
        bytes[16..20].copy_from_slice(&4711_i32.to_ne_bytes());
        bytes[32..34].copy_from_slice(&150_u16.to_ne_bytes());
        // 1000 times 8.
        bytes[34..36].copy_from_slice(&(0x2000_u16 | 1000).to_ne_bytes());
        bytes[48..53].copy_from_slice(b"rustc");
        assert_eq!(Record::of(&bytes), Record { pid: 4711, seconds: 81.5, name: "rustc".into() });
    }

    #[test]
    fn each_process_counts_once_and_by_its_kind() {
        let mut counted = Counted::default();
        for (name, seconds) in
            [("kube-apiserver", 30.0), ("kube-apiserver", 20.0), ("rustc", 10.0), ("sh", 1.0)]
        {
            counted.add(Name::Program(name.into()), seconds);
        }
        counted.add(Name::Tests("together".into()), 19.0);
        let table = counted.table(60.0, 100.0);
        let rows: Vec<&str> = table.lines().skip(4).take(5).collect();
        assert_eq!(
            rows,
            [
                "| API servers | 50 | 50% | kube-apiserver 50 |",
                "| test programs | 19 | 19% |  |",
                "| rustc | 10 | 10% | rustc 10 |",
                "| others | 1 | 1% | sh 1 |",
                "| the kernel's own, and what lived for less than 10 ms | 20 | 20% | |",
            ]
        );
        assert!(table.ends_with("test programs, seconds: together 19\n"), "{table}");
    }

    #[test]
    fn this_program_is_one_of_tests_and_has_used_time() {
        let own = std::process::id().try_into().unwrap();
        assert!(matches!(name(own), Some(Name::Tests(name)) if name == "xtask"));
        assert!(used(own).is_some());
        assert!(busy().unwrap() > 0.0);
    }
}
