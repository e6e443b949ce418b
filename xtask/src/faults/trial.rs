//! Tries faults: runs cargo-mutants, and reads what it found.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::stderr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{Package, draw::Fault};
use crate::{cache, contract::Pythons, docs, shell, test};

/// Folder of the copy of the checkout.
const COPY: &str = "checkout";

/// What became of a fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) end: End,
    pub(super) seconds: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// The first test that failed.
    Found(String),
    /// A test did not end.
    Timeout,
    Missed,
    DoesNotBuild,
}

/// By name of the fault.
pub(super) type Verdicts = BTreeMap<String, Verdict>;

impl Verdict {
    pub(super) fn is_missed(&self) -> bool {
        self.end == End::Missed
    }
}

/// How cargo-mutants is run.
pub(super) struct How<'a> {
    pub(super) cargo_mutants: PathBuf,
    /// What some of the tests run.
    pub(super) pythons: Pythons,
    pub(super) folder: PathBuf,
    /// All faults that it can make.
    pub(super) all: &'a [Fault],
}

/// Tests that a fault is tried on. The fastest come first, and what they find is not tried on the others.
#[derive(Debug, Clone, Copy)]
enum Tests {
    Library,
    /// In the package's folder `tests`.
    Programs,
    /// All of the packages that use it.
    OfUsers,
}

impl How<'_> {
    /// Tries faults of a package.
    pub(super) fn judge(&self, package: &Package, faults: &[&Fault], verdicts: &mut Verdicts) -> Result<()> {
        for tests in [Tests::Library, Tests::Programs, Tests::OfUsers] {
            let is_open = |fault: &&Fault| verdicts.get(&fault.name).is_none_or(Verdict::is_missed);
            let open: Vec<&Fault> = faults.iter().copied().filter(is_open).collect();
            if open.is_empty() || package.users.is_empty() && matches!(tests, Tests::OfUsers) {
                break;
            }
            self.try_on(package, tests, &open, verdicts)?;
        }
        Ok(())
    }

    fn try_on(
        &self,
        package: &Package,
        tests: Tests,
        faults: &[&Fault],
        verdicts: &mut Verdicts,
    ) -> Result<()> {
        let (kind, judge) = match tests {
            Tests::Library => ("library", "the tests in its library".to_owned()),
            Tests::Programs => ("programs", "its other tests".to_owned()),
            Tests::OfUsers => ("users", format!("the tests of {}", package.users.join(", "))),
        };
        eprintln!("faults: {} of {}, by {judge} ...", faults.len(), package.name);
        let folder = self.folder.join(format!("{}-{kind}", package.name));
        let mut command = Command::new(&self.cargo_mutants);
        shell::as_by_hand(&mut command);
        command.args([
            "mutants",
            "--in-place",
            "--caught",
            "--unviable",
            "--iterate",
            "--build-timeout=1800",
        ]);
        command.args(["--cargo-arg=--locked", "--package", package.name, "--output"]).arg(&folder);
        // Not the tests in the documentation: they are few, and each is compiled for itself.
        command.arg(match tests {
            Tests::Library => "--cargo-arg=--lib",
            Tests::Programs => "--cargo-arg=--test=*",
            Tests::OfUsers => "--cargo-arg=--tests",
        });
        if matches!(tests, Tests::OfUsers) {
            // A run without a fault would be of the package's own tests.
            command.args(["--baseline=skip", "--timeout=600"]);
            command.args(package.users.iter().flat_map(|user| ["--test-package", user]));
        } else {
            // Tests that fail without a fault would find every fault. Their time gives the limit, too.
            command.args(["--baseline=run", "--minimum-test-timeout=120"]);
        }
        self.leave_out_others(package, faults, &folder)?;
        for (name, _) in std::env::vars_os() {
            // Those of a cluster.
            if name.to_string_lossy().starts_with("SCAVENGER_E2E") {
                command.env_remove(&name);
            }
        }
        test::for_a_change(&mut command, &self.pythons);
        command
            .current_dir(self.folder.join(COPY))
            // What fails is the answer; the smallest case that fails is not asked for.
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("CARGO_TARGET_DIR", self.folder.join("build"))
            .stdout(stderr());
        let status = command.status().context("cannot run cargo-mutants")?;
        let results = folder.join("mutants.out");
        match status.code() {
            // All found, some missed, some did not end.
            Some(0 | 2 | 3) => {}
            Some(4) => {
                bail!("{judge} fail without a fault: see {}", results.join("log/baseline.log").display())
            }
            _ => bail!("cargo-mutants ended with {status}: see {}", results.display()),
        }
        let text =
            fs::read_to_string(results.join("outcomes.json")).context("cargo-mutants left no results")?;
        let log = |path: &str| fs::read_to_string(results.join(path)).unwrap_or_default();
        for (name, verdict) in read(&text, log)? {
            let before = verdicts.get(&name).map_or(0.0, |verdict| verdict.seconds);
            verdicts.insert(name, Verdict { seconds: verdict.seconds + before, ..verdict });
        }
        Ok(())
    }

    /// Copies the checkout, so that faults are seeded beside it. The copy stays at one path, or cargo would build all
    /// packages of the checkout again for each run of cargo-mutants.
    pub(super) fn copy(&self) -> Result<()> {
        let copy = self.folder.join(COPY);
        cache::remove(&copy)?;
        for file in docs::checkout()? {
            let to = copy.join(&file);
            let folder = to.parent().expect("a file should be in a folder");
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            fs::copy(Path::new(shell::ROOT).join(&file), &to)
                .with_context(|| format!("cannot copy {file}"))?;
        }
        Ok(())
    }

    /// Lets cargo-mutants believe that it has tried all other faults. Its filter by name lets every `delete field` through.
    fn leave_out_others(&self, package: &Package, faults: &[&Fault], folder: &Path) -> Result<()> {
        let drawn: BTreeSet<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
        let of_package = self.all.iter().filter(|fault| fault.package == package.name);
        let others = of_package.filter(|fault| !drawn.contains(fault.name.as_str()));
        let names: String = others.flat_map(|fault| [fault.name.as_str(), "\n"]).collect();
        cache::remove(folder)?;
        let results = folder.join("mutants.out");
        fs::create_dir_all(&results).with_context(|| format!("cannot create {}", results.display()))?;
        let tried = results.join("previously_caught.txt");
        fs::write(&tried, names).with_context(|| format!("cannot write {}", tried.display()))
    }
}

/// The verdicts in the results of cargo-mutants. `log` reads one of its files.
fn read(outcomes: &str, log: impl Fn(&str) -> String) -> Result<Vec<(String, Verdict)>> {
    let outcomes: serde_json::Value = serde_json::from_str(outcomes).context("cannot read the results")?;
    let mut verdicts = Vec::new();
    for outcome in outcomes["outcomes"].as_array().into_iter().flatten() {
        // The run without a fault has none.
        let Some(name) = outcome["scenario"]["Mutant"]["name"].as_str() else { continue };
        let end = match outcome["summary"].as_str() {
            Some("CaughtMutant") => {
                let log = log(outcome["log_path"].as_str().unwrap_or_default());
                let mut lines = log.lines();
                let failed = lines.find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
                End::Found(failed.unwrap_or("a program of tests").to_owned())
            }
            Some("MissedMutant") => End::Missed,
            Some("Timeout") => End::Timeout,
            Some("Unviable") => End::DoesNotBuild,
            other => bail!("cargo-mutants says {other:?} of {name}"),
        };
        let phases = outcome["phase_results"].as_array().into_iter().flatten();
        let seconds = phases.filter_map(|phase| phase["duration"].as_f64()).sum();
        verdicts.push((name.to_owned(), Verdict { end, seconds }));
    }
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{draw::tests::fault, table},
        *,
    };

    #[test]
    fn verdicts_are_read_and_shown() {
        let outcomes = r#"{"outcomes": [
            {"scenario": "Baseline", "summary": "Success", "phase_results": []},
            {"scenario": {"Mutant": {"name": "a || b"}}, "summary": "CaughtMutant", "log_path": "log/a.log",
             "phase_results": [{"duration": 1.5}, {"duration": 2.0}]},
            {"scenario": {"Mutant": {"name": "c"}}, "summary": "MissedMutant", "log_path": "log/c.log",
             "phase_results": [{"duration": 1.0}]}
        ]}"#;
        let log = |path: &str| {
            assert_eq!(path, "log/a.log");
            "test one ... ok\ntest two::three ... FAILED\ntest four ... FAILED\n".to_owned()
        };
        let verdicts = read(outcomes, log).unwrap();
        let (one, other) = (fault("p", "a || b"), fault("p", "c"));
        assert_eq!(
            table(&[&one, &other], &verdicts.into_iter().collect()),
            "| | fault | found by | seconds |\n|--:|---|---|--:|\n| 1 | a \\|\\| b | `two::three` | 4 |\n\
             | 2 | c | **missed** | 1 |"
        );
    }
}
