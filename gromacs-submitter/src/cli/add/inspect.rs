//! Reads a .tpr file on this machine, with the script that reads it in the cluster.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use scavenger_schema::simulation::System;

use crate::probe::{INSPECT_SCRIPT, parse_inspection};

/// What `gmx dump` says about the file. It runs in a folder of its own, which takes the place of the working directory.
pub(super) fn inspect(file: &Path) -> anyhow::Result<System> {
    let shown = file.display();
    let file = file.canonicalize().with_context(|| format!("--tpr {shown} cannot be read"))?;
    ensure!(file.is_file(), "--tpr {shown} is not a file");
    let folder = tempfile::tempdir().context("no temporary folder could be made")?;
    let output = Command::new("sh")
        .args(["-c", INSPECT_SCRIPT, "inspect"])
        .arg(&file)
        .arg(folder.path())
        .env("TERMINATION_LOG", folder.path().join("answer"))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .context("sh could not be started")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "gmx could not read {shown}; is gmx in the PATH, and new enough for the file?\n{}",
        last_lines(&words)
    );
    let inspection = parse_inspection(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("{shown} cannot be computed"))?;
    // Which GROMACS computes, and what that can do on a GPU, is the image's to say; the one here only read the file.
    Ok(System {
        gromacs_version: None,
        gpu_nonbonded: None,
        gpu_bonded: None,
        gpu_pme: None,
        gpu_update: None,
        ..inspection.system
    })
}

/// The end of what GROMACS says is where it says why.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
