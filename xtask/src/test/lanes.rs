//! All tests, side by side: most of the time those on a cluster wait for it, and those that need one to themselves must
//! not wait for the others.
//!
//! Each lane runs one program of tests after the other. The clusters, one a lane, are alike and share out what needs one.
//! The lane of the last cluster runs what needs no cluster first: that computes while the others wait, and once it is done
//! the machine can carry a further cluster.

use std::{
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Result, bail};

use super::{
    Depth, How,
    call::{Call, Failed},
    cargo_test, flaky,
    programs::{Program, Programs},
    stamps::Stamps,
};
use crate::{
    cluster::{self, Cluster},
    program, trace,
};

/// Modules of tests on a cluster that take the longest: they begin first, so that the clusters are done at about the same time. In the soak
/// `overlap` takes an hour.
const LONGEST: [&str; 10] = [
    "overlap",
    "together",
    "decides",
    "by_use",
    "nodes",
    "submitters",
    "preemption",
    "supervised",
    "faults",
    "kills",
];

/// The test that takes the installation away, which nothing but the end may follow.
pub(super) const LAST: &str = "uninstall";

/// What one process runs.
#[derive(Clone)]
struct Part {
    name: String,
    work: Work,
}

#[derive(Clone)]
enum Work {
    /// Making a cluster.
    Cluster,
    /// The examples in the documentation of the code.
    Documentation,
    /// The short form of `cargo xtask kernel`.
    Kernel,
    /// All tests of a program, or those that are named.
    Tests(Program, Vec<String>),
}

/// Why a part failed.
struct Failure {
    part: Part,
    why: String,
}

/// What has been run so far.
#[derive(Default)]
struct Report {
    /// Parts that passed, and the seconds they took.
    passed: Vec<(String, f64)>,
    failed: Vec<Failure>,
}

/// How all parts are run.
pub(super) struct Lanes<'a> {
    pub(super) how: &'a How,
    pub(super) programs: &'a Programs,
    /// Run tests that are ignored, too, because they are in `--all`.
    pub(super) all: bool,
    /// A part that failed beside the others is run once more, alone, and counts if it passes then.
    pub(super) retry: bool,
    /// Let the last test take the installation away.
    pub(super) take_away: bool,
    /// Parts that are known to have passed, and are left out.
    pub(super) stamps: Option<&'a Stamps>,
    /// So many of the parts that took longest are named at the end.
    pub(super) shown: usize,
}

impl Lanes<'_> {
    /// Runs all tests on clusters that `prepare` makes.
    ///
    /// # Errors
    /// If a part failed: which, and why.
    pub(super) fn run(
        &self,
        names: &[cluster::Name],
        prepare: &(impl Fn(&cluster::Name) -> Result<Cluster> + Sync),
    ) -> Result<()> {
        let Parts { without, on_clusters, last } = Parts::of(self.programs, self.all, self.how.depth)?;
        let began = Instant::now();
        let (report, on_clusters) = (&Mutex::new(Report::default()), &Mutex::new(on_clusters));
        let run_on = |name: &cluster::Name| {
            let (part, began) = (Part::of_cluster(name), Instant::now());
            let (cluster, result) = match prepare(name) {
                Ok(cluster) => (Some(cluster), Ok(began.elapsed().as_secs_f64())),
                Err(error) => (None, Err(error)),
            };
            report.lock().expect("no lane should have panicked").enter(part, result);
            let cluster = cluster?;
            let next = || on_clusters.lock().expect("no lane should have panicked").pop();
            while let Some(part) = next() {
                self.run_part(part, Some(&cluster), report);
            }
            Some(cluster)
        };
        let run_on = &run_on;
        let clusters: Vec<Option<Cluster>> = thread::scope(|scope| {
            // Most of what makes a cluster waits, too, so they come up side by side.
            let (first, later) = names.split_at(names.len().div_ceil(2));
            let mut lanes: Vec<_> =
                first.iter().map(|name| scope.spawn(move || vec![run_on(name)])).collect();
            lanes.push(scope.spawn(move || {
                for part in without {
                    self.run_part(part, None, report);
                }
                later.iter().map(run_on).collect()
            }));
            lanes.into_iter().flat_map(|lane| lane.join().expect("no lane should have panicked")).collect()
        });
        let first = clusters.first().and_then(Option::as_ref);
        let flaky = match first {
            Some(cluster) if self.retry => {
                let mut report = report.lock().expect("no lane should have panicked");
                report.once_more(|part| part.call(Some(cluster), self.how).and_then(Call::run))
            }
            _ => Vec::new(),
        };
        // Afterwards nothing is left there for tests.
        if let (Some(cluster), Some(last), true) = (first, last, self.take_away) {
            self.run_part(last, Some(cluster), report);
        }
        let mut report = report.lock().expect("no lane should have panicked");
        report.passed.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        eprintln!("test: {}", summary(&report.passed, began.elapsed().as_secs_f64(), self.shown));
        for Failure { part, why } in &flaky {
            eprintln!("test: {} FAILED beside the others and passed alone: {why}", part.name);
            flaky::remember(&part.name, why)?;
        }
        let failed = &report.failed;
        if failed.is_empty() { Ok(()) } else { bail!(failures(failed)) }
    }

    /// Runs a part, and enters what came of it.
    fn run_part(&self, part: Part, cluster: Option<&Cluster>, report: &Mutex<Report>) {
        if let Some(seconds) = self.stamps.and_then(|stamps| stamps.passed(&part.name)) {
            eprintln!("test: {}: left out, has passed at this commit ({seconds:.0} s)", part.name);
            return;
        }
        let stamp = |seconds| {
            self.stamps.map_or(Ok(()), |stamps| stamps.stamp(&part.name, seconds)).map(|()| seconds)
        };
        let result = part.call(cluster, self.how).and_then(Call::run).and_then(stamp);
        report.lock().expect("no lane should have panicked").enter(part, result);
    }
}

impl Report {
    /// Enters what came of a part.
    fn enter(&mut self, part: Part, result: Result<f64>) {
        match result {
            Ok(seconds) => self.passed.push((part.name, seconds)),
            Err(error) => {
                eprintln!("test: {}: FAILED: {error:#}", part.name);
                let tests = error.downcast_ref::<Failed>().map(|failed| failed.tests.clone());
                let part = part.narrowed(tests.unwrap_or_default());
                self.failed.push(Failure { why: format!("{error:#}"), part });
            }
        }
    }

    /// Runs what failed of the parts once more, one after the other; returns those that pass this time. What failed because
    /// other tests load the machine is no fault of the product, but has to be seen.
    fn once_more(&mut self, run: impl Fn(&Part) -> Result<f64>) -> Vec<Failure> {
        let (remaining, again): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.failed).into_iter().partition(|Failure { part, .. }| part.is_cluster());
        self.failed = remaining;
        let mut flaky = Vec::new();
        for failure in again {
            eprintln!("test: {}: once more, alone", failure.part.name);
            let result = run(&failure.part);
            if result.is_ok() {
                flaky.push(Failure { part: failure.part.clone(), why: failure.why });
            }
            self.enter(failure.part, result);
        }
        flaky
    }
}

impl Part {
    fn of_cluster(name: &cluster::Name) -> Self {
        Self { name: format!("cluster {}", name.as_str()), work: Work::Cluster }
    }

    fn is_cluster(&self) -> bool {
        matches!(self.work, Work::Cluster)
    }

    /// Only these of its tests; the whole part if there are none.
    fn narrowed(self, tests: Vec<String>) -> Self {
        match self.work {
            Work::Tests(program, _) if !tests.is_empty() => {
                Self { work: Work::Tests(program, tests), ..self }
            }
            work => Self { work, ..self },
        }
    }

    /// The process that runs it.
    fn call(&self, cluster: Option<&Cluster>, how: &How) -> Result<Call> {
        let mut command = match &self.work {
            Work::Cluster => bail!("{} is no program", self.name),
            Work::Documentation => cargo_test(&["--workspace", "--doc"]),
            Work::Kernel => {
                let mut command = Command::new(program::path()?);
                command.args(["kernel", "--short", "--no-install"]).stdin(Stdio::null());
                command
            }
            Work::Tests(program, tests) => {
                let mut command = program.command();
                if !tests.is_empty() {
                    command.args(["--include-ignored", "--exact"]).args(tests);
                }
                command.arg("--show-output");
                if let Some(folder) = how.trace.as_ref().filter(|_| program.name == trace::PROGRAM) {
                    trace::to(folder, &mut command);
                }
                command
            }
        };
        how.apply(&mut command, cluster)?;
        if self.name == LAST {
            command.env("SCAVENGER_E2E_LAST", "1");
        }
        Ok(Call { name: self.name.clone(), command, limit: how.depth.limit() })
    }
}

/// Everything there is to run.
struct Parts {
    /// Needs no cluster.
    without: Vec<Part>,
    /// Needs one; taken from the end.
    on_clusters: Vec<Part>,
    /// What takes the installation away.
    last: Option<Part>,
}

impl Parts {
    fn of(programs: &Programs, all: bool, depth: Depth) -> Result<Self> {
        let whole = |program: &Program| Part {
            name: program.name.clone(),
            work: Work::Tests(program.clone(), Vec::new()),
        };
        let mut without: Vec<Part> = programs.without.iter().map(whole).collect();
        without.push(Part { name: "documentation".to_owned(), work: Work::Documentation });
        if all && depth == Depth::Test {
            without.push(Part { name: "kernel with cgroup v2".to_owned(), work: Work::Kernel });
        }
        let modules = programs.on_a_cluster.modules(all)?;
        let mut on_clusters: Vec<Part> = modules
            .into_iter()
            .map(|(name, tests)| Part { name, work: Work::Tests(programs.on_a_cluster.clone(), tests) })
            .collect();
        let last = on_clusters.iter().position(|part| part.name == LAST);
        let last = last.map(|place| on_clusters.remove(place));
        on_clusters.sort_by_key(|part| LONGEST.iter().rev().position(|longest| *longest == part.name));
        Ok(Self { without, on_clusters, last })
    }
}

/// Which parts failed and, below that, why each of them did.
fn failures(failed: &[Failure]) -> String {
    let names: Vec<&str> = failed.iter().map(|failure| failure.part.name.as_str()).collect();
    let reasons = failed.iter().map(|Failure { part, why }| format!("\n{}: {why}", part.name));
    format!("these tests failed: {}{}", names.join(", "), reasons.collect::<String>())
}

/// What the parts took, the longest first, beside the time on the clock.
fn summary(took: &[(String, f64)], clock: f64, shown: usize) -> String {
    let parts: f64 = took.iter().map(|(_, seconds)| seconds).sum();
    let longest: Vec<String> =
        took.iter().take(shown).map(|(name, seconds)| format!("{name} {seconds:.0} s")).collect();
    format!(
        "{} parts passed in {:.1} min, one after the other {:.1} min; the longest: {}",
        took.len(),
        clock / 60.0,
        parts / 60.0,
        longest.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn part(name: &str) -> Part {
        Part { name: name.to_owned(), work: Work::Documentation }
    }

    #[test]
    fn the_longest_parts_are_named() {
        let took = [("together".to_owned(), 100.0), ("idle".to_owned(), 20.0)];
        let said = summary(&took, 90.0, 5);
        assert_eq!(
            said,
            "2 parts passed in 1.5 min, one after the other 2.0 min; the longest: together 100 s, idle 20 s"
        );
    }

    #[test]
    fn what_passes_alone_counts_and_is_still_named() {
        let mut report = Report::default();
        report.enter(part("one"), Ok(10.0));
        for name in ["two", "three"] {
            report.enter(part(name), Err(anyhow!("beside the others")));
        }
        let cluster = Part::of_cluster(&"four".parse().unwrap());
        report.enter(cluster, Err(anyhow!("no address is free")));
        let flaky = report.once_more(|part| match part.name.as_str() {
            "two" => Ok(20.0),
            "three" => Err(anyhow!("alone")),
            name => panic!("{name} has passed, or cannot be run"),
        });
        let reasons = |failures: &[Failure]| -> Vec<String> {
            failures.iter().map(|failure| format!("{}: {}", failure.part.name, failure.why)).collect()
        };
        assert_eq!(reasons(&flaky), ["two: beside the others"]);
        assert_eq!(reasons(&report.failed), ["cluster four: no address is free", "three: alone"]);
        assert_eq!(report.passed, [("one".to_owned(), 10.0), ("two".to_owned(), 20.0)]);
    }

    #[test]
    fn what_failed_is_named_first() {
        let failure = |name, why: &str| Failure { part: part(name), why: why.to_owned() };
        let said =
            failures(&[failure("nodes", "not done after 1800 s"), failure("kills", "cargo ended\n  one:")]);
        assert_eq!(
            said,
            "these tests failed: nodes, kills\nnodes: not done after 1800 s\nkills: cargo ended\n  one:"
        );
    }
}
