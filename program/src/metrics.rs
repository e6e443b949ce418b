//! What every program's `/metrics` has: its version, and the process by the names that every Prometheus client library
//! gives it.

use std::{fmt, fs, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, gauge::Gauge, info::Info},
    registry::{Registry, Unit},
};

/// Media type of what [`text`] writes.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Registers `build_info` with the version of a program.
pub fn register_build(registry: &mut Registry, version: &str) {
    let labels = vec![("version".to_owned(), version.to_owned())];
    registry.register("build", "Version of the program", Info::new(labels));
}

/// The metrics of a program and of its process, as OpenMetrics text.
///
/// # Errors
/// If a metric cannot be written as text.
pub fn text(registry: &Registry, process: &Process) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode_registry(&mut text, registry)?;
    process.encode(&mut text)?;
    encode_eof(&mut text)?;
    Ok(text)
}

/// How many of its ticks /proc counts in a second: part of the interface of Linux, whatever the kernel itself uses.
const TICKS: f64 = 100.0;

/// What /proc says of this process. Without /proc everything stays 0.
#[derive(Debug)]
pub struct Process {
    registry: Registry,
    cpu: Counter<f64, AtomicU64>,
    start: Gauge<f64, AtomicU64>,
    open_files: Gauge,
    most_files: Gauge,
    resident_memory: Gauge,
}

impl Default for Process {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("process");
        let (cpu, start) = (Counter::default(), Gauge::default());
        let (open_files, most_files, resident_memory) =
            (Gauge::default(), Gauge::default(), Gauge::default());
        let seconds = || Unit::Seconds;
        registry.register_with_unit("cpu", "Processor time of the process", seconds(), cpu.clone());
        registry.register_with_unit(
            "start_time",
            "When the process began, since 1970",
            seconds(),
            start.clone(),
        );
        registry.register("open_fds", "Open files and connections", open_files.clone());
        registry.register("max_fds", "The most files and connections that may be open", most_files.clone());
        registry.register_with_unit(
            "resident_memory",
            "Memory of the whole process",
            Unit::Bytes,
            resident_memory.clone(),
        );
        Self { registry, cpu, start, open_files, most_files, resident_memory }
    }
}

impl Process {
    /// Looks at the process and writes what it sees, without the end of the text.
    fn encode(&self, text: &mut String) -> fmt::Result {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        if let Some((cpu, began)) = times(&read("/proc/self/stat")) {
            // A counter only grows; its first look finds what was used before.
            self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
            self.start.set(boot(&read("/proc/stat")).unwrap_or(0.0) + began);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            self.open_files.set(i64::try_from(files.count()).unwrap_or(i64::MAX));
        }
        self.most_files.set(limit(&read("/proc/self/limits")).unwrap_or(0));
        self.resident_memory.set(resident_memory().now);
        encode_registry(text, &self.registry)
    }
}

/// Memory of this process in bytes; 0 without /proc.
#[derive(Debug, Clone, Copy)]
pub struct ResidentMemory {
    /// What it has.
    pub now: i64,
    /// The most that it had since it began.
    pub peak: i64,
}

/// Looks at the memory of this process.
#[must_use]
pub fn resident_memory() -> ResidentMemory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |field| kibibytes(&status, field).unwrap_or(0).saturating_mul(1024);
    ResidentMemory { now: bytes("VmRSS:"), peak: bytes("VmHWM:") }
}

/// An amount of memory in /proc/self/status.
fn kibibytes(status: &str, field: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Seconds of processor time, and seconds from the start of the machine to that of the process.
fn times(stat: &str) -> Option<(f64, f64)> {
    // The name before it may hold blanks and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |index: usize| fields.get(index)?.trim().parse::<f64>().ok();
    Some(((number(11)? + number(12)?) / TICKS, number(19)? / TICKS))
}

/// When the machine started, in seconds since 1970.
fn boot(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn limit(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read_from_proc() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 9 0 1200 1 1";
        assert_eq!(times(stat), Some((3.0, 12.0)));
        assert_eq!(boot("cpu 1\nbtime 1700000000\n"), Some(1.7e9));
        assert_eq!(
            limit("Max open files            1024                 4096                 files\n"),
            Some(1024)
        );
        assert_eq!(times(""), None);
        let mut registry = Registry::with_prefix("some_program");
        register_build(&mut registry, "1.2.3");
        let process = Process::default();
        let text = text(&registry, &process).unwrap();
        assert!(process.start.get() > 1.6e9, "{text}");
        assert!(process.open_files.get() > 0, "{text}");
        for name in [
            "process_cpu_seconds_total ",
            "process_start_time_seconds ",
            "process_open_fds ",
            "process_max_fds ",
            "process_resident_memory_bytes ",
            "some_program_build_info{version=\"1.2.3\"} 1",
        ] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in {text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
