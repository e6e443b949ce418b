//! schemathesis, which tries the tuner's OpenAPI document on the tuner: installed once, kept in the cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    cache::{self, Key},
    progress::Task,
    shell::ROOT,
};

/// Debian's, whatever else is called python3 on this machine: it is the one that python3-venv belongs to.
const PYTHON: &str = "/usr/bin/python3";
/// The versions with their hashes, relative to the checkout.
const REQUIREMENTS: &str = "tuner/tests/contract/requirements.txt";

/// The Python program that has schemathesis. Needs the Debian package python3-venv.
pub(crate) fn python() -> Result<PathBuf> {
    // What is installed for one version of Python is of no use to the next.
    let version = output(Command::new(PYTHON).arg("--version"))?;
    let key = Key::new(&version).with_path(Path::new(ROOT), REQUIREMENTS)?;
    let folder = cache::entry("schemathesis", &key, |folder| {
        let task = Task::start("installing schemathesis from PyPI");
        output(Command::new(PYTHON).args(["-m", "venv"]).arg(folder))?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes"])
            .args(["--only-binary", ":all:", "--requirement"])
            .arg(Path::new(ROOT).join(REQUIREMENTS));
        output(&mut pip).context(
            "schemathesis cannot be installed from PyPI, which needs the network; pip's own settings say where else to look",
        )?;
        task.done("installed schemathesis from PyPI");
        Ok(())
    })?;
    // Not the program `schemathesis`: it names the folder in which it was installed, and the cache has moved that.
    Ok(folder.join("bin/python"))
}

/// What a program prints; its last line of complaint is the error.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed: {}", complaint.trim().lines().last().unwrap_or("it says nothing"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
