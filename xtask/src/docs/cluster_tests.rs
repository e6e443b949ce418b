//! The page that says which test on a cluster belongs where, against the tests: each stands in the table of its tier, and the
//! tests that show the same rule without a cluster are there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::ROOT;

const PAGE: &str = "docs/contributing/cluster-tests.md";

/// Folder of the tests, and its part that only measures.
const FOLDER: &str = "e2e/tests";
const BENCH: &str = "bench";

/// Headings of the tables, and whether `cargo xtask test` leaves the tests of one out.
const TABLES: [(&str, bool); 2] =
    [("## In `cargo xtask test`", false), ("## In `cargo xtask test --all`", true)];

/// Checks the page.
pub(super) fn check() -> Result<()> {
    let page = super::read(PAGE)?;
    let mut tests = BTreeMap::new();
    collect(&Path::new(ROOT).join(FOLDER), "", &mut tests)?;
    ensure!(tests.len() > 100, "{FOLDER} has {} tests only", tests.len());
    compare(&page, &tests)?;
    page.split('`').filter(|code| code.contains(".rs::")).try_for_each(exists)
}

/// Each test, and whether it is ignored.
fn collect(folder: &Path, module: &str, tests: &mut BTreeMap<String, bool>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let inner = if name == "mod" { module.to_owned() } else { format!("{module}{name}::") };
        if !path.is_dir() {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            tests.extend(tests_of(&text).map(|(test, is_ignored)| (format!("{inner}{test}"), is_ignored)));
        } else if name != BENCH {
            collect(&path, &inner, tests)?;
        }
    }
    Ok(())
}

/// The functions behind `#[test]`.
fn tests_of(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.split("#[test]\n").skip(1).filter_map(|rest| {
        let (attributes, rest) = rest.split_once("fn ")?;
        Some((rest.split('(').next()?, attributes.contains("#[ignore")))
    })
}

/// Every test stands in the table of its tier, once, and no other does.
fn compare(page: &str, tests: &BTreeMap<String, bool>) -> Result<()> {
    let mut rows = BTreeSet::new();
    for (heading, is_ignored) in TABLES {
        let (_, table) = page.split_once(heading).with_context(|| format!("{PAGE} has no {heading:?}"))?;
        let table = table.split("\n## ").next().unwrap_or_default();
        for name in table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()) {
            match tests.get(name) {
                Some(ignored) if *ignored == is_ignored => {}
                Some(_) => bail!("{PAGE}: {name} stands in the other table than its attribute `ignore` says"),
                None => bail!("{PAGE}: there is no test {name}"),
            }
            ensure!(rows.insert(name.to_owned()), "{PAGE}: {name} stands there twice");
        }
    }
    let missing: Vec<_> = tests.keys().filter(|test| !rows.contains(*test)).collect();
    ensure!(missing.is_empty(), "{PAGE}: no row has {missing:?}");
    Ok(())
}

/// `FILE::FUNCTION` is there.
fn exists(code: &str) -> Result<()> {
    let (file, function) = code.split_once("::").context("it should contain this")?;
    let text = super::read(file).with_context(|| format!("{PAGE} names `{code}`"))?;
    ensure!(text.contains(&format!("fn {function}(")), "{PAGE}: {file} has no function {function}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[test]\nfn one() {}\n\n#[test]\n#[ignore = \"long\"]\nfn two() {}\n";

    #[test]
    fn each_test_stands_in_the_table_of_its_tier() {
        let tests: BTreeMap<String, bool> =
            tests_of(SOURCE).map(|(name, ignored)| (format!("nodes::{name}"), ignored)).collect();
        let page = |first: &str, second: &str| {
            format!("{}\n\n{first}\n\n{}\n\n{second}\n", TABLES[0].0, TABLES[1].0)
        };
        let (one, two) = ("| `nodes::one` | x |", "| `nodes::two` | x |");
        assert!(compare(&page(one, two), &tests).is_ok());
        for (first, second, why) in [
            (two, one, "the other table"),
            (one, "| `nodes::three` | x |", "there is no test nodes::three"),
            (one, "", "no row has [\"nodes::two\"]"),
            ("| `nodes::one` | x |\n| `nodes::one` | y |", two, "twice"),
        ] {
            let error = compare(&page(first, second), &tests).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
