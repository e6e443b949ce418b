//! All tests, side by side: most of the time those on a cluster wait for it, and those that need one to themselves must
//! not wait for the others.
//!
//! Each lane runs one program of tests after the other. The clusters, one a lane, are alike and share out what needs one.
//! The lane of the last cluster runs what needs no cluster first: that computes while the others wait, and once it is done
//! the machine can carry a further cluster.

use std::{sync::Mutex, thread, time::Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{How, call::Call, cargo_test, stamps::Stamps};
use crate::{
    cluster::{self, Cluster},
    shell,
};

/// The package with the tests on the cluster.
const END_TO_END: &str = "scavenger-e2e";

/// Its tests that take the longest: they begin first, so that the clusters are done at about the same time. In the soak
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

/// Some of the tests: what one call of `cargo test` runs.
#[derive(Clone)]
struct Part {
    name: String,
    /// Arguments that select them.
    select: Vec<String>,
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
        let (without, on_clusters) = parts()?;
        let began = Instant::now();
        let (report, on_clusters) = (&Mutex::new(Report::default()), &Mutex::new(on_clusters));
        let run_on = |number: usize| {
            let (name, began) = (format!("cluster {}", names[number].as_str()), Instant::now());
            let (cluster, result) = match prepare(&names[number]) {
                Ok(cluster) => (Some(cluster), Ok(began.elapsed().as_secs_f64())),
                Err(error) => (None, Err(error)),
            };
            let part = Part { name, select: Vec::new() };
            report.lock().expect("no lane should have panicked").enter(part, result);
            let cluster = cluster?;
            let next = || on_clusters.lock().expect("no lane should have panicked").pop();
            while let Some(part) = next() {
                self.run_part(part, Some(&cluster), report);
            }
            if number == 0 && self.take_away {
                self.run_part(Part::of(LAST), Some(&cluster), report);
            }
            Some(cluster)
        };
        let run_on = &run_on;
        let clusters: Vec<Option<Cluster>> = thread::scope(|scope| {
            // Most of what makes a cluster waits, too, so they come up side by side.
            let last = names.len() - 1;
            let mut lanes: Vec<_> = (0..last).map(|number| scope.spawn(move || run_on(number))).collect();
            lanes.push(scope.spawn(move || {
                for part in without {
                    self.run_part(part, None, report);
                }
                run_on(last)
            }));
            lanes.into_iter().map(|lane| lane.join().expect("no lane should have panicked")).collect()
        });
        // On the first one nothing may be left of the installation.
        let flaky = match clusters.iter().skip(1).flatten().next() {
            Some(cluster) if self.retry => {
                let mut report = report.lock().expect("no lane should have panicked");
                report.once_more(|part| part.call(Some(cluster), self.how).and_then(Call::run))
            }
            _ => Vec::new(),
        };
        let mut report = report.lock().expect("no lane should have panicked");
        report.passed.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        eprintln!("test: {}", summary(&report.passed, began.elapsed().as_secs_f64(), self.shown));
        for Failure { part, why } in &flaky {
            eprintln!("test: {} FAILED beside the others and passed alone: {why}", part.name);
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
                self.failed.push(Failure { why: format!("{error:#}"), part });
            }
        }
    }

    /// Runs the parts that failed once more, one after the other; returns those that pass this time. What failed because
    /// other tests load the machine is no fault of the product, but has to be seen.
    fn once_more(&mut self, run: impl Fn(&Part) -> Result<f64>) -> Vec<Failure> {
        // What selects nothing is a cluster that did not start.
        let (again, remaining): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.failed).into_iter().partition(|failure| !failure.part.select.is_empty());
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
    /// The tests of one file.
    fn of(target: &str) -> Self {
        Self { name: target.to_owned(), select: vec!["--test".to_owned(), target.to_owned()] }
    }

    /// The call of `cargo test` that runs it.
    fn call(&self, cluster: Option<&Cluster>, how: &How) -> Result<Call> {
        // Always of the whole workspace: for one package its dependencies would have other features, and be compiled
        // again.
        let mut command = cargo_test(cluster, how, &["--workspace"])?;
        command.args(&self.select).args(["--", "--show-output"]);
        if self.name == LAST {
            command.env("SCAVENGER_E2E_LAST", "1");
        }
        Ok(Call { name: self.name.clone(), command, limit: how.depth.limit() })
    }
}

/// All parts but the last one: those that need no cluster, and those that do. The latter are taken from the end.
fn parts() -> Result<(Vec<Part>, Vec<Part>)> {
    let targets = test_targets()?;
    let mut select = vec!["--lib".to_owned(), "--bins".to_owned()];
    for (package, target) in &targets {
        if package != END_TO_END {
            if targets.contains(&(END_TO_END.to_owned(), target.clone())) {
                bail!(
                    "{package} and {END_TO_END} both have a file of tests called {target}, and `--test {target}` would \
                     run both at once; rename one"
                );
            }
            select.extend(["--test".to_owned(), target.clone()]);
        }
    }
    let without = vec![
        Part { name: "without a cluster".to_owned(), select },
        Part { name: "documentation".to_owned(), select: vec!["--doc".to_owned()] },
    ];
    let mut on_clusters: Vec<&String> = targets
        .iter()
        .filter(|(package, target)| package == END_TO_END && target != LAST)
        .map(|(_, target)| target)
        .collect();
    on_clusters.sort_by_key(|target| LONGEST.iter().rev().position(|longest| longest == target));
    Ok((without, on_clusters.into_iter().map(|target| Part::of(target)).collect()))
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

/// Package and name of each file of tests in the workspace.
fn test_targets() -> Result<Vec<(String, String)>> {
    let output = shell::cargo(&["metadata", "--no-deps", "--format-version", "1", "--locked"]).output();
    let output = output.context("cannot run `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cannot read `cargo metadata`")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut targets: Vec<(String, String)> = Vec::new();
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]) {
            if list(&target["kind"]).iter().any(|kind| kind == "test") {
                targets.push((text(&package["name"]), text(&target["name"])));
            }
        }
    }
    targets.sort();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

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
        report.enter(Part::of("one"), Ok(10.0));
        for name in ["two", "three"] {
            report.enter(Part::of(name), Err(anyhow!("beside the others")));
        }
        let cluster = Part { name: "cluster four".to_owned(), select: Vec::new() };
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
        let failure = |name, why: &str| Failure { part: Part::of(name), why: why.to_owned() };
        let said =
            failures(&[failure("nodes", "not done after 1800 s"), failure("kills", "cargo ended\n  one:")]);
        assert_eq!(
            said,
            "these tests failed: nodes, kills\nnodes: not done after 1800 s\nkills: cargo ended\n  one:"
        );
    }
}
