//! Programs of this workspace, built for their images.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::catalogue::Program;
use crate::shell;

/// One line of cargo's JSON output, as far as we care.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

/// How programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Optimised: for users, the demo and measurements.
    Release,
    /// As `cargo test --workspace` builds them, so that the tests need no second build of every dependency.
    Dev,
}

/// Builds the programs, all in one run of cargo, and says where each is.
pub(super) fn build(programs: &[Program], profile: Profile) -> Result<HashMap<&'static str, PathBuf>> {
    if programs.is_empty() {
        return Ok(HashMap::new());
    }
    let mut command =
        shell::cargo(&["build", "--locked", "--bins", "--message-format=json-render-diagnostics"]);
    match profile {
        Profile::Release => {
            command.arg("--release");
            let packages: BTreeSet<_> = programs.iter().map(|program| program.package).collect();
            for package in packages {
                command.args(["--package", package]);
            }
        }
        // Naming packages would choose other features of the dependencies than the tests have.
        Profile::Dev => {
            command.arg("--workspace");
        }
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo build ended with {}; its own messages are above", output.status);
    }
    Ok(executables(&output.stdout, programs))
}

fn executables(stdout: &[u8], programs: &[Program]) -> HashMap<&'static str, PathBuf> {
    let messages = stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut found = HashMap::new();
    for message in messages {
        let Message { reason, executable: Some(path), target: Some(target) } = message else { continue };
        let program = programs.iter().find(|program| program.binary == target.name);
        if let ("compiler-artifact", Some(program)) = (reason.as_str(), program) {
            found.insert(program.binary, path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_program_is_what_cargo_says() {
        let program = Program { package: "scavenger-counter", binary: "scavenger-counter" };
        let stdout = br#"{"reason":"compiler-artifact","target":{"name":"nix"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"scavenger-counter"},"executable":"/target/release/scavenger-counter"}
{"reason":"build-finished","success":true}
"#;
        let found = executables(stdout, &[program]);
        assert_eq!(found["scavenger-counter"], PathBuf::from("/target/release/scavenger-counter"));
    }
}
