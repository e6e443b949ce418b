//! The process, by the names that every Prometheus client library gives it.

use std::{fmt, fs, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::text::encode_registry,
    metrics::{counter::Counter, gauge::Gauge},
    registry::{Registry, Unit},
};

/// How many of its ticks /proc counts in a second: part of the interface of Linux, whatever the kernel itself uses.
const TICKS: f64 = 100.0;

/// What /proc says of this process. Without /proc everything stays 0.
#[derive(Debug)]
pub(super) struct Process {
    registry: Registry,
    cpu: Counter<f64, AtomicU64>,
    start: Gauge<f64, AtomicU64>,
    open_files: Gauge,
    most_files: Gauge,
}

impl Default for Process {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("process");
        let (cpu, start) = (Counter::default(), Gauge::default());
        let (open_files, most_files) = (Gauge::default(), Gauge::default());
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
        Self { registry, cpu, start, open_files, most_files }
    }
}

impl Process {
    /// Looks at the process and writes what it sees, without the end of the text.
    pub(super) fn encode(&self, text: &mut String) -> fmt::Result {
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
        encode_registry(text, &self.registry)
    }
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
        let process = Process::default();
        let mut text = String::new();
        process.encode(&mut text).unwrap();
        assert!(process.start.get() > 1.6e9, "{text}");
        assert!(process.open_files.get() > 0, "{text}");
        for name in [
            "process_cpu_seconds_total ",
            "process_start_time_seconds ",
            "process_open_fds ",
            "process_max_fds ",
        ] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in {text}");
        }
    }
}
