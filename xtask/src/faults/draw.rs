//! Which faults there are, and which of them are tried.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Arguments, PACKAGES, Part};
use crate::shell;

/// What `cargo mutants --list --json` says of a fault.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Fault {
    /// File, line, column, and what changes.
    pub(super) name: String,
    pub(super) package: String,
    pub(super) file: String,
    /// None in a constant.
    function: Option<Function>,
    span: Span,
    diff: String,
    /// Whether it is of one line, and in no function that only tests use.
    #[serde(skip)]
    may_be_drawn: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct Function {
    span: Span,
}

#[derive(Debug, Clone, Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

#[derive(Debug, Clone, Deserialize)]
struct Place {
    line: usize,
}

/// All faults that cargo-mutants can make in the product.
pub(super) fn list(cargo_mutants: &Path) -> Result<Vec<Fault>> {
    let mut list = Command::new(cargo_mutants);
    shell::as_by_hand(list.args(["mutants", "--list", "--json"]));
    for package in &PACKAGES {
        list.args(["--package", package.name]);
    }
    let output = list.output().context("cannot run cargo-mutants")?;
    if !output.status.success() {
        bail!("cargo-mutants lists no faults: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let mut faults: Vec<Fault> =
        serde_json::from_slice(&output.stdout).context("cannot read what cargo-mutants lists")?;
    let mut sources = BTreeMap::new();
    for file in faults.iter().map(|fault| &fault.file).collect::<BTreeSet<_>>() {
        let path = Path::new(shell::ROOT).join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        sources.insert(file.clone(), text);
    }
    for fault in &mut faults {
        let one_line = fault.span.start.line == fault.span.end.line;
        fault.may_be_drawn = one_line && !fault.is_of_tests(&sources[&fault.file]);
    }
    Ok(faults)
}

/// All faults that may be drawn, from each part in turn. A hash of seed and name decides, so that a change of the code
/// changes few of the first.
pub(super) fn in_order<'a>(faults: &'a [Fault], arguments: &Arguments) -> Vec<&'a Fault> {
    let parts: Vec<Part> = arguments.only.map_or_else(|| Part::value_variants().to_vec(), |only| vec![only]);
    let rank = |fault: &&Fault| Sha256::digest(format!("{} {}", arguments.seed, fault.name));
    let of_part = |part: &Part| {
        let is_of_part = |fault: &&Fault| fault.may_be_drawn && fault.part() == Some(*part);
        let mut of_part: Vec<&Fault> = faults.iter().filter(is_of_part).collect();
        of_part.sort_by_cached_key(rank);
        of_part.into_iter()
    };
    let mut of_parts: Vec<_> = parts.iter().map(of_part).collect();
    let longest = of_parts.iter().map(ExactSizeIterator::len).max().unwrap_or_default();
    let in_turn =
        (0..longest).flat_map(|_| of_parts.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>());
    in_turn.collect()
}

/// Takes the next fault of a part.
pub(super) fn next<'a>(faults: &mut Vec<&'a Fault>, part: Option<Part>) -> Option<&'a Fault> {
    let place = faults.iter().position(|fault| fault.part() == part)?;
    Some(faults.remove(place))
}

impl Fault {
    pub(super) fn part(&self) -> Option<Part> {
        Some(PACKAGES.iter().find(|package| package.name == self.package)?.part)
    }

    /// Whether only tests use the function: the crate makes it for them, so cargo-mutants cannot know.
    fn is_of_tests(&self, source: &str) -> bool {
        let Some(function) = &self.function else { return false };
        let lines = source.lines().skip(function.span.start.line - 1);
        let mut head = lines.take_while(|line| !line.contains("fn "));
        head.any(|line| line.contains("feature = \"fixtures\""))
    }

    /// The diff with the names of files that `git apply` wants.
    pub(super) fn for_git(&self) -> String {
        let hunks = self.diff.splitn(3, '\n').nth(2).unwrap_or_default();
        format!("--- a/{0}\n+++ b/{0}\n{hunks}", self.file)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::faults) fn fault(package: &str, name: &str) -> Fault {
        let place = || Place { line: 3 };
        Fault {
            name: name.to_owned(),
            package: package.to_owned(),
            file: "a.rs".to_owned(),
            function: Some(Function { span: Span { start: Place { line: 2 }, end: place() } }),
            span: Span { start: place(), end: place() },
            diff: "--- a.rs\n+++ replace < with >\n@@ -1 +1 @@\n-a < b\n+a > b\n".to_owned(),
            may_be_drawn: true,
        }
    }

    #[test]
    fn faults_are_drawn_from_each_part_in_turn_and_by_the_seed() {
        let faults = PACKAGES.iter().flat_map(|package| {
            (0..20).map(move |number| fault(package.name, &format!("{} {number}", package.name)))
        });
        let faults: Vec<Fault> = faults.collect();
        let order = |seed, only| in_order(&faults, &Arguments { seed, count: 6, only });
        let names = |faults: &[&Fault]| faults.iter().map(|fault| fault.name.clone()).collect::<Vec<_>>();
        let mut left = order(1, None);
        let parts = Part::value_variants().iter().cycle();
        assert!(left.iter().zip(parts).take(80).all(|(fault, part)| fault.part() == Some(*part)));
        assert_eq!(left.len(), 100);
        assert_eq!(names(&left), names(&order(1, None)));
        assert_ne!(names(&left), names(&order(2, None)));
        let tuner = order(1, Some(Part::Tuner));
        assert_eq!(tuner.len(), 40);
        assert!(tuner.iter().all(|fault| fault.part() == Some(Part::Tuner)));
        // In place of one that does not build.
        assert_eq!(next(&mut left, Some(Part::Tuner)).unwrap().name, tuner[0].name);
        assert_eq!(next(&mut left, Some(Part::Tuner)).unwrap().name, tuner[1].name);
        assert_eq!(left.len(), 98);
    }

    #[test]
    fn git_finds_the_file_of_a_fault() {
        let fault = fault("p", "a.rs:3:1: replace <impl A for B>::c -> Option<u8> with Some(1)");
        assert_eq!(fault.for_git(), "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-a < b\n+a > b\n");
    }

    #[test]
    fn what_only_tests_use_is_left_out() {
        let fault = fault("p", "a");
        assert!(!fault.is_of_tests("#[cfg(feature = \"fixtures\")]\nfn a() {\n    1\n}"));
        assert!(fault.is_of_tests("\n#[cfg(any(test, feature = \"fixtures\"))]\nfn a() { 1 }\n"));
    }
}
