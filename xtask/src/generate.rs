//! `cargo xtask generate`: files that follow from the code.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::shell::ROOT;

/// Write the generated files, or check that they are current
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only check, and name the files that would change
    #[arg(long)]
    pub(crate) check: bool,
}

/// Every generated file with its content.
fn files() -> Result<Vec<(&'static str, String)>> {
    let crds =
        scavenger_schema::crds_yaml().context("the CustomResourceDefinitions cannot be written as YAML")?;
    let openapi = scavenger_schema::openapi::openapi();
    let model = scavenger_tuner_model::description::page();
    Ok(vec![
        ("schema/generated/crds.yaml", crds),
        ("schema/generated/tuner-openapi.json", openapi),
        ("docs/tuner-model.md", model),
    ])
}

/// Writes the files, or names those that are not current.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut stale = Vec::new();
    for (path, content) in files()? {
        let target = Path::new(ROOT).join(path);
        if fs::read_to_string(&target).ok().as_ref() == Some(&content) {
            continue;
        }
        if arguments.check {
            stale.push(path);
        } else {
            fs::write(&target, content).with_context(|| format!("cannot write {path}"))?;
            eprintln!("wrote {path}");
        }
    }
    if !stale.is_empty() {
        bail!("not current: {}; run `cargo xtask generate` and commit the result", stale.join(", "));
    }
    Ok(())
}
