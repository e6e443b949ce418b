//! The Python programs of the tests: schemathesis, which tries the tuner's OpenAPI document on the tuner, and what the Python
//! package is tried with. Installed once, kept in the cache.

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

/// A folder with Python and packages.
struct Environment {
    /// What it is for.
    name: &'static str,
    /// The versions with their hashes, relative to the checkout.
    requirements: &'static str,
}

const SCHEMATHESIS: Environment =
    Environment { name: "schemathesis", requirements: "tuner/tests/contract/requirements.txt" };

const PACKAGE: Environment = Environment { name: "python-package", requirements: "python/requirements.txt" };

/// The Python programs. Not those of the packages: they name the folder in which they were installed, and the cache has moved
/// that.
#[derive(Debug, Clone)]
pub(crate) struct Pythons {
    schemathesis: PathBuf,
    package: PathBuf,
}

impl Pythons {
    /// Lets tests find them.
    pub(crate) fn apply(&self, tests: &mut Command) {
        tests
            .env("SCAVENGER_SCHEMATHESIS_PYTHON", &self.schemathesis)
            .env("SCAVENGER_PACKAGE_PYTHON", &self.package);
    }
}

/// Installs what is missing. Needs the Debian package python3-venv.
pub(crate) fn pythons() -> Result<Pythons> {
    Ok(Pythons { schemathesis: SCHEMATHESIS.python()?, package: PACKAGE.python()? })
}

impl Environment {
    fn python(&self) -> Result<PathBuf> {
        let Self { name, requirements } = self;
        // What is installed for one version of Python is of no use to the next.
        let version = output(Command::new(PYTHON).arg("--version"))?;
        let key = Key::new(&version).with_path(Path::new(ROOT), requirements)?;
        let folder = cache::entry(name, &key, |folder| {
            let task = Task::start(format!("installing {requirements} from PyPI"));
            output(Command::new(PYTHON).args(["-m", "venv"]).arg(folder))?;
            let mut pip = Command::new(folder.join("bin/python"));
            pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--require-hashes"])
                .args(["--only-binary", ":all:", "--requirement"])
                .arg(Path::new(ROOT).join(requirements));
            output(&mut pip).with_context(|| {
                format!(
                    "{requirements} cannot be installed from PyPI, which needs the network; pip's own settings say where \
                     else to look"
                )
            })?;
            task.done(format!("installed {requirements} from PyPI"));
            Ok(())
        })?;
        Ok(folder.join("bin/python"))
    }
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
