//! The programs of tests of the workspace, as cargo has built them, and the tests in the one that needs a cluster.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{compile, shell};

/// The program with the tests on a cluster.
const ON_A_CLUSTER: &str = "e2e";

/// Its module with measurements, which are no tests.
const BENCH: &str = "bench";

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    /// Package and target, for people.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Folder of its package, in which cargo runs it, too.
    pub(super) folder: PathBuf,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Programs {
    /// Those that need no cluster.
    pub(super) without: Vec<Program>,
    pub(super) on_a_cluster: Program,
}

impl Programs {
    /// Compiles what is not yet compiled.
    ///
    /// # Errors
    /// If something does not compile; cargo has said what.
    pub(super) fn build() -> Result<Self> {
        // All of the workspace: for one package its dependencies would have other features, and be compiled again.
        let arguments = ["test", "--locked", "--no-run", "--workspace"];
        let built = compile::run("compiling the tests", &mut shell::cargo(&arguments))?;
        let mut without: Vec<Program> = built.into_iter().filter_map(program).collect();
        without.sort();
        let is_on_a_cluster = |program: &Program| program.name.ends_with(&format!(" {ON_A_CLUSTER}"));
        let place = without.iter().position(is_on_a_cluster);
        let on_a_cluster = without.remove(place.context("cargo built no tests for a cluster")?);
        Ok(Self { without, on_a_cluster })
    }
}

/// What cargo has built, if it is a program of tests.
fn program(built: compile::Program) -> Option<Program> {
    if !built.profile.test {
        return None;
    }
    let folder = built.manifest_path.parent()?.to_owned();
    let package =
        folder.strip_prefix(Path::new(shell::ROOT).canonicalize().ok()?).ok()?.display().to_string();
    let is_test = built.target.kind.iter().any(|kind| kind == "test");
    let kind = if is_test { "" } else { " itself" };
    Some(Program { name: format!("{package}{kind} {}", built.target.name), path: built.executable, folder })
}

impl Program {
    /// A call of it.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null());
        command
    }

    /// The tests of each of its modules. Those that are ignored only if `all`; measurements never.
    ///
    /// # Errors
    /// If it cannot list them.
    pub(super) fn modules(&self, all: bool) -> Result<BTreeMap<String, Vec<String>>> {
        let mut modules = modules_of(&self.list(&[])?);
        if !all {
            let ignored = self.list(&["--ignored"])?;
            let ignored: Vec<&str> = tests(&ignored).collect();
            for tests in modules.values_mut() {
                tests.retain(|test| !ignored.contains(&test.as_str()));
            }
        }
        modules.retain(|module, tests| module != BENCH && !tests.is_empty());
        Ok(modules)
    }

    fn list(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command().args(["--list", "--format", "terse"]).args(arguments).output();
        let output = output.with_context(|| format!("cannot run {}", self.path.display()))?;
        if !output.status.success() {
            bail!("{} lists no tests: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn tests(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// Tests by the first part of their path.
fn modules_of(list: &str) -> BTreeMap<String, Vec<String>> {
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in tests(list) {
        let module = test.split("::").next().unwrap_or(test);
        modules.entry(module.to_owned()).or_default().push(test.to_owned());
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_read_from_what_cargo_says() {
        let root = Path::new(shell::ROOT).canonicalize().unwrap();
        let built = |kind: &str, test: bool| {
            program(compile::Program {
                executable: "/t/http-1".into(),
                manifest_path: root.join("operator/Cargo.toml"),
                target: compile::Target { name: "http".into(), kind: vec![kind.into()] },
                profile: compile::Profile { test },
            })
        };
        let found = built("test", true).unwrap();
        assert_eq!((found.name.as_str(), found.folder), ("operator http", root.join("operator")));
        assert_eq!(built("bin", true).unwrap().name, "operator itself http");
        assert_eq!(built("bin", false), None);
    }

    #[test]
    fn tests_are_gathered_by_module() {
        let list = "nodes::one: test\nkinds_of_nodes::two: test\nnodes::more::three: test\n";
        let modules = modules_of(list);
        assert_eq!(modules["nodes"], ["nodes::one", "nodes::more::three"]);
        assert_eq!(modules["kinds_of_nodes"], ["kinds_of_nodes::two"]);
    }
}
