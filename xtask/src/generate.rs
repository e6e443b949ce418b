//! `cargo xtask generate`: files that follow from the code.

use std::{collections::BTreeMap, fs, path::Path, process::Stdio};

use anyhow::{Context, Result, bail};

use crate::{
    chart, docs,
    shell::{self, ROOT},
};

/// Write the generated files, or check that they are current
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only check, and name the files that would change
    #[arg(long)]
    pub(crate) check: bool,
}

/// A generated file.
#[derive(Debug)]
pub(crate) struct File {
    /// Where it is, relative to the checkout.
    path: String,
    /// What is in it.
    pub(crate) content: String,
}

impl File {
    /// A file of this content.
    pub(crate) fn new(path: &str, content: String) -> Self {
        Self { path: path.to_owned(), content }
    }
}

/// The custom resource definitions, where the program that knows the types puts them.
const CRDS: &str = "schema/generated/crds.yaml";

/// Files that follow from those of the code, which are on the disk.
fn files(crds: &str) -> Result<Vec<File>> {
    let mut files = docs::field_pages(crds)?;
    files.push(File::new("deploy/chart/crds/crds.yaml", crds.to_owned()));
    files.push(chart::values_schema(crds)?);
    files.extend(docs::of_database()?);
    files.extend(chart::copies()?);
    Ok(files)
}

/// Files that follow from the code: path and content of each.
fn from_code() -> Result<BTreeMap<String, String>> {
    let mut command = shell::cargo(&["run", "--quiet", "--locked", "--bin", "scavenger-generator"]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("scavenger-generator ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("scavenger-generator printed no JSON object of files")
}

/// Writes the files, or names those that are not current.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut stale = Vec::new();
    let from_code = from_code()?;
    let crds =
        from_code.get(CRDS).with_context(|| format!("scavenger-generator did not print {CRDS}"))?.clone();
    // The page of the database is read from one that the migrations on the disk have made, and the chart is rendered with the
    // files that it contains: what they are made of comes first.
    let from_code = from_code.into_iter().map(|(path, content)| File { path, content });
    put(from_code.collect(), arguments.check, &mut stale)?;
    put(files(&crds)?, arguments.check, &mut stale)?;
    put(chart::generated()?, arguments.check, &mut stale)?;
    if !stale.is_empty() {
        bail!("not current: {}; run `cargo xtask generate` and commit the result", stale.join(", "));
    }
    Ok(())
}

/// Writes the files that are not current, or only adds their names to `stale`.
fn put(files: Vec<File>, only_check: bool, stale: &mut Vec<String>) -> Result<()> {
    for File { path, content } in files {
        let target = Path::new(ROOT).join(&path);
        if fs::read_to_string(&target).ok().as_ref() == Some(&content) {
            continue;
        }
        if only_check {
            stale.push(path);
            continue;
        }
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(&target, content).with_context(|| format!("cannot write {path}"))?;
        eprintln!("wrote {path}");
    }
    Ok(())
}
