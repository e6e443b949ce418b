//! The documentation against what it documents: reasons and alerts have their sections, links lead somewhere, the
//! README's manifest is the one that is tested, and the book builds.

mod book;
mod cluster_tests;
mod database;
mod fields;
mod python_row;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::Value;

use crate::shell::ROOT;

pub(crate) use book::book;
pub(crate) use database::files as of_database;
pub(crate) use fields::pages as field_pages;

const TROUBLESHOOTING: &str = "docs/troubleshooting.md";

/// The manifest that README shows, and that a test applies.
const FIRST: &str = "deploy/examples/first.yaml";

fn read(path: &str) -> Result<String> {
    fs::read_to_string(Path::new(ROOT).join(path)).with_context(|| format!("cannot read {path}"))
}

/// All checks that need nothing but the checkout.
pub(crate) fn check() -> Result<()> {
    let rules: Value = serde_saphyr::from_str(&read("deploy/monitoring/rules.yaml")?)
        .context("deploy/monitoring/rules.yaml is not YAML")?;
    let alerts = alerts(&rules)?;
    let reasons = WaitingReason::ALL.iter().map(|reason| reason.name().to_owned());
    let reasons = reasons.chain(Reason::ALL.iter().map(|reason| reason.name().to_owned()));
    sections(&read(TROUBLESHOOTING)?, &reasons.chain(alerts.keys().cloned()).collect())?;
    for (alert, runbook) in &alerts {
        let expected = format!("{TROUBLESHOOTING}#{}", anchor(alert));
        ensure!(
            *runbook == expected,
            "alert {alert}: its annotation runbook_url is {runbook:?}, not {expected:?}"
        );
    }
    first_manifest(&read("README.md")?, &read(FIRST)?)?;
    links()?;
    cluster_tests::check()?;
    summary(&read("docs/SUMMARY.md")?)
}

/// Names of the alerts, each with its runbook.
fn alerts(rules: &Value) -> Result<BTreeMap<String, String>> {
    let groups = rules["groups"].as_array().context("the alert rules have no groups")?;
    let rules = groups.iter().filter_map(|group| group["rules"].as_array()).flatten();
    let alerts: BTreeMap<String, String> = rules
        .filter_map(|rule| {
            let runbook = rule["annotations"]["runbook_url"].as_str().unwrap_or_default();
            Some((rule["alert"].as_str()?.to_owned(), runbook.to_owned()))
        })
        .collect();
    ensure!(!alerts.is_empty(), "the alert rules hold no alert");
    Ok(alerts)
}

/// Each name has a section of its own, and each section is about one of the names.
fn sections(page: &str, names: &BTreeSet<String>) -> Result<()> {
    let mut found = BTreeSet::new();
    for heading in page.lines().filter_map(|line| line.strip_prefix("### ")) {
        ensure!(found.insert(heading.to_owned()), "{TROUBLESHOOTING} has two sections {heading}");
    }
    let missing: Vec<_> = names.difference(&found).collect();
    ensure!(missing.is_empty(), "{TROUBLESHOOTING} has no section for {missing:?}");
    let unknown: Vec<_> = found.difference(names).collect();
    ensure!(
        unknown.is_empty(),
        "{TROUBLESHOOTING} has sections for what is no reason and no alert: {unknown:?}"
    );
    Ok(())
}

/// The first YAML of the README is the tested file.
fn first_manifest(readme: &str, tested: &str) -> Result<()> {
    let shown = readme.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```"));
    let (shown, _) = shown.context("README.md shows no manifest")?;
    let uncommented: String =
        tested.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    ensure!(shown == uncommented, "the manifest in README.md is not {FIRST}");
    Ok(())
}

/// The id that a heading gets: as mdBook and the forges make it.
fn anchor(heading: &str) -> String {
    let text: String = heading.chars().filter(|letter| !matches!(letter, '`' | '*' | '[' | ']')).collect();
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    };
    text.trim().chars().filter_map(kept).collect()
}

/// Targets of the links in a page.
fn targets(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    with_targets(page, |target| {
        found.push(target.trim().to_owned());
        None
    });
    found
}

/// True if a link leads to no file of the checkout.
fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The page with the targets of its links replaced for which there is another one; code stays as it is.
fn with_targets(page: &str, mut other: impl FnMut(&str) -> Option<String>) -> String {
    let mut inside = false;
    let mut text = String::new();
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        for (number, part) in line.split('`').enumerate() {
            if number > 0 {
                text.push('`');
            }
            if is_fence || inside || number % 2 == 1 {
                text.push_str(part);
                continue;
            }
            for (number, piece) in part.split("](").enumerate() {
                if number > 0 {
                    text.push_str("](");
                }
                match piece.split_once(')').filter(|_| number > 0) {
                    Some((target, rest)) => {
                        text.push_str(other(target).as_deref().unwrap_or(target));
                        text.push(')');
                        text.push_str(rest);
                    }
                    None => text.push_str(piece),
                }
            }
        }
        text.push('\n');
    }
    text
}

/// Files of the checkout: those that git knows, and new ones that it does not ignore.
pub(crate) fn checkout() -> Result<Vec<String>> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(list).current_dir(ROOT).output().context("cannot run git")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    let files = String::from_utf8_lossy(&output.stdout);
    // A file that was removed is still known until that is committed.
    Ok(files.lines().filter(|path| Path::new(ROOT).join(path).exists()).map(str::to_owned).collect())
}

/// Every relative link of every page leads to a file, and its anchor to a heading.
fn links() -> Result<()> {
    let mut dead = Vec::new();
    for page in checkout()?.iter().filter(|path| path.ends_with(".md")) {
        for target in targets(&read(page)?) {
            if is_elsewhere(&target) {
                continue;
            }
            if let Err(error) = resolve(page, &target) {
                dead.push(format!("{page}: {target}: {error:#}"));
            }
        }
    }
    ensure!(dead.is_empty(), "these links lead nowhere:\n{}", dead.join("\n"));
    Ok(())
}

/// Looks for what a link in a page points to.
fn resolve(page: &str, target: &str) -> Result<()> {
    let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { PathBuf::from(page) } else { beside(page, file)? };
    ensure!(Path::new(ROOT).join(&path).exists(), "there is no {}", path.display());
    if wanted.is_empty() || path.extension().is_none_or(|extension| extension != "md") {
        return Ok(());
    }
    let text = read(&path.to_string_lossy())?;
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#')));
    ensure!(headings.into_iter().any(|heading| heading == wanted), "{} has no such heading", path.display());
    Ok(())
}

/// A path relative to the folder of a page, without `..`.
fn beside(page: &str, file: &str) -> Result<PathBuf> {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => ensure!(path.pop(), "it leaves the checkout"),
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            _ => bail!("it is an absolute path"),
        }
    }
    Ok(path)
}

/// Names of the files and folders in a folder, in order.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<PathBuf> =
        entries.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Every file below a folder, as paths relative to it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in list(folder)? {
        let path = folder.join(&name);
        if path.is_dir() {
            found.extend(files(&path)?.into_iter().map(|file| name.join(file)));
        } else {
            found.push(name);
        }
    }
    Ok(found)
}

/// Every page below docs/ is in the table of contents of the book.
fn summary(summary: &str) -> Result<()> {
    let named: BTreeSet<String> = targets(summary).into_iter().collect();
    let pages = files(&Path::new(ROOT).join("docs"))?;
    let pages = pages.iter().map(|page| page.to_string_lossy()).filter(|page| page.ends_with(".md"));
    let missing: Vec<_> = pages.filter(|page| page != "SUMMARY.md" && !named.contains(&**page)).collect();
    ensure!(missing.is_empty(), "docs/SUMMARY.md does not name {missing:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_without_a_section_is_named() {
        let names = BTreeSet::from(["NoCapacity".to_owned(), "Paused".to_owned()]);
        assert!(sections("### NoCapacity\n\n### Paused\n", &names).is_ok());
        let error = |page: &str| sections(page, &names).unwrap_err().to_string();
        assert!(error("### NoCapacity\n").contains("[\"Paused\"]"));
        assert!(error("### NoCapacity\n### Paused\n### Other\n").contains("[\"Other\"]"));
        assert!(error("### NoCapacity\n### NoCapacity\n").contains("two sections NoCapacity"));
    }

    #[test]
    fn an_anchor_is_made_as_readers_make_it() {
        assert_eq!(anchor("NoCapacity"), "nocapacity");
        assert_eq!(anchor(" Other names of the system's users"), "other-names-of-the-systems-users");
        assert_eq!(anchor("`spec.limits`, and more"), "speclimits-and-more");
    }

    #[test]
    fn links_in_code_are_none() {
        let page = "a [b](c.md#d) `[x](y)`\n```sh\n[e](f)\n```\n[g](https://h)\n";
        assert_eq!(targets(page), ["c.md#d", "https://h"]);
        assert_eq!(beside("docs/a/b.md", "../../deploy/x.yaml").unwrap(), PathBuf::from("deploy/x.yaml"));
        assert!(beside("a.md", "../../x").is_err());
    }

    #[test]
    fn the_manifest_of_the_readme_is_the_file() {
        let readme = "# x\n```yaml\na: 1\n```\n";
        assert!(first_manifest(readme, "# about\na: 1\n").is_ok());
        assert!(first_manifest(readme, "a: 2\n").is_err());
        assert!(first_manifest("# x\n", "a: 1\n").is_err());
    }
}
