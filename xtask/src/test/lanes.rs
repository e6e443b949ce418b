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

/// Runs all tests on clusters that `prepare` makes; `take_away` lets the last one take the installation away. Parts that
/// `stamps` knows are left out.
pub(super) fn run(
    names: &[cluster::Name],
    prepare: &(impl Fn(&cluster::Name) -> Result<Cluster> + Sync),
    how: &How,
    take_away: bool,
    stamps: Option<&Stamps>,
) -> Result<()> {
    let targets = test_targets()?;
    let call = |name: &str, cluster: Option<&Cluster>, select: &[&str]| -> Result<Call> {
        // Always of the whole workspace: for one package its dependencies would have other features, and be compiled
        // again.
        let mut command = cargo_test(cluster, how, &["--workspace"])?;
        command.args(select).args(["--", "--show-output"]);
        Ok(Call { name: name.to_owned(), command, limit: how.depth.limit() })
    };
    let mut select = vec!["--lib", "--bins"];
    for (package, target) in &targets {
        if package != END_TO_END {
            if targets.contains(&(END_TO_END.to_owned(), target.clone())) {
                bail!(
                    "{package} and {END_TO_END} both have a file of tests called {target}, and `--test {target}` would \
                     run both at once; rename one"
                );
            }
            select.extend(["--test", target]);
        }
    }
    let programs = vec![call("without a cluster", None, &select)?, call("documentation", None, &["--doc"])?];
    let mut on_clusters: Vec<&String> = targets
        .iter()
        .filter(|(package, target)| package == END_TO_END && target != LAST)
        .map(|(_, target)| target)
        .collect();
    // Taken from the end.
    on_clusters.sort_by_key(|target| LONGEST.iter().rev().position(|longest| longest == target));
    let on_clusters = Mutex::new(on_clusters);

    let began = Instant::now();
    let (failed, took) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let run = |call: Result<Call>, name: &str| {
        if let Some(seconds) = stamps.and_then(|stamps| stamps.passed(name)) {
            eprintln!("test: {name}: left out, has passed at this commit ({seconds:.0} s)");
            return;
        }
        let stamp = |seconds| {
            took.lock().expect("no lane should have panicked").push((name.to_owned(), seconds));
            stamps.map_or(Ok(()), |stamps| stamps.stamp(name, seconds))
        };
        if let Err(error) = call.and_then(Call::run).and_then(stamp) {
            eprintln!("test: {name}: FAILED: {error:#}");
            failed.lock().expect("no lane should have panicked").push(name.to_owned());
        }
    };
    let run_shared = |cluster: &Cluster| {
        let next = || on_clusters.lock().expect("no lane should have panicked").pop();
        while let Some(target) = next() {
            run(call(target, Some(cluster), &["--test", target]), target);
        }
    };
    let run_last = |cluster: &Cluster| {
        let call = call(LAST, Some(cluster), &["--test", LAST]).map(|mut call| {
            call.command.env("SCAVENGER_E2E_LAST", "1");
            call
        });
        run(call, LAST);
    };
    let (run, run_shared, run_last, failed) = (&run, &run_shared, &run_last, &failed);
    let run_on = |number: usize| match prepare(&names[number]) {
        Ok(cluster) => {
            run_shared(&cluster);
            if number == 0 && take_away {
                run_last(&cluster);
            }
        }
        Err(error) => {
            let name = format!("cluster {}", names[number].as_str());
            eprintln!("test: {name}: FAILED: {error:#}");
            failed.lock().expect("no lane should have panicked").push(name);
        }
    };
    let run_on = &run_on;
    thread::scope(|scope| {
        // Most of what makes a cluster waits, too, so they come up side by side.
        let last = names.len() - 1;
        for number in 0..last {
            scope.spawn(move || run_on(number));
        }
        scope.spawn(move || {
            for call in programs {
                let name = call.name.clone();
                run(Ok(call), &name);
            }
            run_on(last);
        });
    });
    let mut took = took.lock().expect("no lane should have panicked");
    took.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    eprintln!("test: {}", summary(&took, began.elapsed().as_secs_f64()));
    let failed = failed.lock().expect("no lane should have panicked");
    if failed.is_empty() { Ok(()) } else { bail!("these tests failed: {}", failed.join(", ")) }
}

/// What the parts took, the longest first, beside the time on the clock.
fn summary(took: &[(String, f64)], clock: f64) -> String {
    let parts: f64 = took.iter().map(|(_, seconds)| seconds).sum();
    let longest: Vec<String> =
        took.iter().take(5).map(|(name, seconds)| format!("{name} {seconds:.0} s")).collect();
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
    #[test]
    fn the_longest_parts_are_named() {
        let took = [("together".to_owned(), 100.0), ("idle".to_owned(), 20.0)];
        let said = super::summary(&took, 90.0);
        assert_eq!(
            said,
            "2 parts passed in 1.5 min, one after the other 2.0 min; the longest: together 100 s, idle 20 s"
        );
    }
}
