//! How much processor time the workload's threads had, and for how much they waited.
//!
//! The kernel counts both for each thread (Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`): a workload that
//! gets nothing beside busy pods waits, and one that has nothing to do does not.

use std::{collections::BTreeMap, fs, path::Path, process};

use scavenger_schema::supervision::CpuTime;

use crate::{state::milliseconds, table};

/// Nanoseconds of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    run: u64,
    wait: u64,
}

/// Adds up what threads are seen to have had. What a thread has between the last look and its end is lost.
#[derive(Debug, Default)]
pub struct Meter {
    /// Threads that were there at the last look, by id.
    threads: BTreeMap<i32, Counted>,
    run: u64,
    wait: u64,
}

impl Meter {
    /// Looks at all threads of the workload; none if there are none, or where the kernel does not count.
    pub fn look(&mut self) -> Option<CpuTime> {
        let supervisor = i32::try_from(process::id()).ok()?;
        self.add(threads(Path::new("/proc"), supervisor))
    }

    fn add(&mut self, threads: BTreeMap<i32, Counted>) -> Option<CpuTime> {
        if threads.values().all(|counted| *counted == Counted::default()) {
            return None;
        }
        for (id, counted) in &threads {
            // Less than before: another thread has got the id.
            let before = self
                .threads
                .get(id)
                .filter(|before| before.run <= counted.run && before.wait <= counted.wait);
            let before = before.copied().unwrap_or_default();
            self.run = self.run.saturating_add(counted.run - before.run);
            self.wait = self.wait.saturating_add(counted.wait - before.wait);
        }
        self.threads = threads;
        Some(CpuTime { run_seconds: seconds(self.run), wait_seconds: seconds(self.wait) })
    }
}

fn threads(proc: &Path, supervisor: i32) -> BTreeMap<i32, Counted> {
    let folders = table::ids_below(proc, supervisor);
    let tasks = folders.into_iter().map(|process| proc.join(process.pid.to_string()).join("task"));
    tasks
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .filter_map(|task| thread(&task.path()))
        .collect()
}

fn thread(folder: &Path) -> Option<(i32, Counted)> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    Some((id, counted(&fs::read_to_string(folder.join("schedstat")).ok()?)?))
}

/// Time on a processor, time in its queue, and how often it ran.
fn counted(text: &str) -> Option<Counted> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some(Counted { run: numbers.next()??, wait: numbers.next()?? })
}

#[expect(clippy::cast_precision_loss, reason = "a million years have 2^65 ns")]
fn seconds(nanoseconds: u64) -> f64 {
    milliseconds(nanoseconds as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<const N: usize>(threads: [(i32, u64, u64); N]) -> BTreeMap<i32, Counted> {
        threads.into_iter().map(|(id, run, wait)| (id, Counted { run, wait })).collect()
    }

    #[test]
    fn what_threads_had_adds_up_over_those_that_end() {
        let mut meter = Meter::default();
        let second = 1_000_000_000;
        let mut add = |threads| meter.add(threads).map(|cpu| (cpu.run_seconds, cpu.wait_seconds));
        assert_eq!(add(seen([])), None);
        assert_eq!(add(seen([(7, 0, 0)])), None, "a kernel that does not count");
        assert_eq!(add(seen([(7, second, 0), (8, second, 5 * second)])), Some((2.0, 5.0)));
        assert_eq!(add(seen([(8, 2 * second, 5 * second)])), Some((3.0, 5.0)), "7 has ended");
        assert_eq!(
            add(seen([(7, second, 0), (8, second / 2, 0)])),
            Some((4.5, 5.0)),
            "other threads have got both ids"
        );
    }

    #[test]
    fn a_line_has_three_numbers() {
        assert_eq!(counted("123 45 6\n"), Some(Counted { run: 123, wait: 45 }));
        for other in ["", "1", "a b c", "-1 2 3"] {
            assert_eq!(counted(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_child_that_computes_is_seen_to() {
        let mut child = process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut meter = Meter::default();
        let mut before = None;
        let grows = (0..1_000_000).any(|_| {
            let now = meter.look().map(|cpu| cpu.run_seconds);
            let grew = before.is_some_and(|before| now > Some(before));
            before = now.or(before);
            grew
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(grows);
    }
}
