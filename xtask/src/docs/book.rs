//! The book: the pages below docs/ as a site, with the files of the checkout that they link to.
//!
//! A page may link to what is not below docs/: an example, a manifest, a table of the tuner. In the checkout and on a
//! forge such a link works as it is. The site has none of these files, so it gets a copy of each, below [`SOURCES`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use scavenger_vocabulary::WaitingReason;

use super::{anchor, beside, files, is_elsewhere, list, with_targets};
use crate::{
    cache,
    shell::{self, ROOT},
};

/// Version of mdBook, which is built once and kept in the cache.
const MDBOOK: &str = "0.5.4";

/// The folder of the site that holds copies of files of the checkout.
const SOURCES: &str = "sources";

/// Builds the site into `target/book`.
pub(crate) fn book() -> Result<()> {
    let mdbook = cache::program("mdbook", MDBOOK, &["--no-default-features", "--features", "search"])?;
    let pages = Path::new(ROOT).join("target/book-pages");
    let site = Path::new(ROOT).join("target/book");
    let copied = stage(&pages)?;
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&pages).arg("--dest-dir").arg(&site);
    shell::run(build.env("RUST_LOG", "warn"))?;
    for path in &copied {
        copy(path, &site)?;
    }
    let heading = WaitingReason::NoCapacity.name();
    let id = format!("id=\"{}\"", anchor(heading));
    let page = read(&site.join("troubleshooting.html"))?;
    ensure!(page.contains(&id), "the book has no {id}, to which links and runbooks lead");
    dead_links(&site)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file, and the folders that it needs.
fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies a file, which need not be text.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    write(to, fs::read(from).with_context(|| format!("cannot read {}", from.display()))?)
}

/// Writes the pages as the site needs them, and returns what else of the checkout the site needs.
fn stage(pages: &Path) -> Result<BTreeSet<PathBuf>> {
    cache::remove(pages)?;
    let docs = Path::new(ROOT).join("docs");
    let mut copied = BTreeSet::new();
    for name in files(&docs)? {
        let (from, to) = (docs.join(&name), pages.join(&name));
        if name.extension().is_none_or(|extension| extension != "md") {
            copy_file(&from, &to)?;
            continue;
        }
        let page = Path::new("docs").join(&name);
        write(&to, with_targets(&read(&from)?, |target| leaving(&page, target, &mut copied)))?;
    }
    Ok(copied)
}

/// The target on the site of a link that leaves docs/; none if it does not.
fn leaving(page: &Path, target: &str, copied: &mut BTreeSet<PathBuf>) -> Option<String> {
    let (file, _) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() || is_elsewhere(target) {
        return None;
    }
    let path = beside(&page.to_string_lossy(), file).ok().filter(|path| !path.starts_with("docs"))?;
    let up = "../".repeat(page.components().count().saturating_sub(2));
    let link = format!("{up}{SOURCES}/{}", on_site(&path).display());
    copied.insert(path);
    Some(link)
}

/// What a copy is called: a folder is shown as a list, and a file as its text, which every browser shows.
fn on_site(path: &Path) -> PathBuf {
    if Path::new(ROOT).join(path).is_dir() {
        return path.join("index.html");
    }
    match path.extension() {
        // In the targets of links mdBook replaces `.md` wherever it stands.
        Some(extension) if extension == "md" => path.with_extension("txt"),
        _ => PathBuf::from(format!("{}.txt", path.display())),
    }
}

/// Copies a file, or a folder and what is in it.
fn copy(path: &Path, site: &Path) -> Result<()> {
    let from = Path::new(ROOT).join(path);
    let to = site.join(SOURCES).join(on_site(path));
    if !from.is_dir() {
        return copy_file(&from, &to);
    }
    let mut items = String::new();
    for name in list(&from)? {
        let inner = path.join(&name);
        copy(&inner, site)?;
        let link = on_site(&inner);
        let link = link.strip_prefix(path)?.display();
        items.push_str(&format!("<li><a href=\"{link}\">{}</a></li>\n", name.display()));
    }
    let title = path.display();
    let head =
        format!("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n");
    write(&to, format!("{head}<h1>{title}</h1>\n<ul>\n{items}</ul>\n</html>\n"))
}

/// Every link of the site leads to a file of the site.
fn dead_links(site: &Path) -> Result<()> {
    let mut dead = Vec::new();
    // The page of all pages, for printing, repeats the links of the others; that of errors has those of the site's root.
    let repeats = |page: &Path| page == Path::new("print.html") || page == Path::new("404.html");
    let pages = files(site)?
        .into_iter()
        .filter(|page| page.extension().is_some_and(|extension| extension == "html") && !repeats(page));
    for page in pages {
        for link in read(&site.join(&page))?.split("href=\"").skip(1) {
            let (target, _) = link.split_once('"').unwrap_or_default();
            let (file, _) = target.split_once('#').unwrap_or((target, ""));
            if file.is_empty() || file.contains(':') {
                continue;
            }
            let there = beside(&page.to_string_lossy(), file).is_ok_and(|path| site.join(path).is_file());
            if !there {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    ensure!(dead.is_empty(), "these links of the site lead nowhere:\n{}", dead.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_pages_lead_to_copies() {
        let mut copied = BTreeSet::new();
        let page = "see [a](../README.md), [`b`](../deploy/examples) and [c](pool.md#x) `[d](../e)`\n```\n[f](../g)\n```\n";
        let text = with_targets(page, |target| leaving(Path::new("docs/x.md"), target, &mut copied));
        assert_eq!(
            text,
            "see [a](sources/README.txt), [`b`](sources/deploy/examples/index.html) and [c](pool.md#x) `[d](../e)`\n\
             ```\n[f](../g)\n```\n"
        );
        assert_eq!(copied, BTreeSet::from(["README.md".into(), "deploy/examples".into()]));
        let inner = leaving(Path::new("docs/contributing/y.md"), "../../deny.toml", &mut copied);
        assert_eq!(inner.as_deref(), Some("../sources/deny.toml.txt"));
    }

    #[test]
    fn a_link_to_nothing_is_named() {
        let site = tempfile::tempdir().unwrap();
        fs::write(site.path().join("a.html"), "<a href=\"b.html#x\">b</a> <a href=\"c.html\">c</a>").unwrap();
        fs::write(site.path().join("b.html"), "<a href=\"#x\">x</a> <a href=\"https://d\">d</a>").unwrap();
        let error = dead_links(site.path()).unwrap_err().to_string();
        assert_eq!(error, "these links of the site lead nowhere:\na.html: c.html");
    }
}
