//! A folder that stands for a volume, where the probes' scripts run as a pod runs them: by `sh`, with a `gmx` of the test's.

#![allow(clippy::expect_used, reason = "a failure must be loud")]
#![allow(dead_code, reason = "each file of tests uses its part")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// True if GROMACS is installed; otherwise a test of it is left out, but not where every test must run.
pub fn has_gromacs() -> bool {
    let found = Command::new("gmx").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: gmx is not in the PATH; `cargo xtask test` installs GROMACS");
        assert!(std::env::var_os("CI").is_none(), "gmx is not in the PATH");
    }
    found
}

/// UUID of the row whose folder it is.
pub const UUID: &str = "0a1b2c3d-0000-4000-8000-000000000007";

/// UUID of a row that has the same number.
pub const OTHER_UUID: &str = "0a1b2c3d-1111-4111-8111-111111111117";

/// The names and contents of the files in a folder.
pub fn contents(folder: &Path) -> BTreeMap<String, String> {
    let entries =
        std::fs::read_dir(folder).expect("should be a folder").map(|entry| entry.expect("should be read"));
    let files = entries.filter(|entry| entry.path().is_file());
    let pair = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).expect("should be text");
        (entry.file_name().to_string_lossy().into_owned(), text)
    };
    files.map(pair).collect()
}

/// Checks that a script leaves the folder of another row alone, and says what to do.
pub fn is_refused(output: &Output, folder: &Path) {
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "{} is in the way: another row has made it (its file .row has another UUID); move it away or remove it, and retry\n",
        folder.display()
    );
    assert_eq!((output.status.code(), said.as_ref()), (Some(9), expected.as_str()));
}

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// What a `gmx` of a test is told of `convert-tpr`: sets `nsteps` and `output`.
pub const READ_STEPS_AND_OUTPUT: &str = "while [ $# -gt 1 ]; do
                if [ \"$1\" = -nsteps ]; then nsteps=$2; fi
                if [ \"$1\" = -o ]; then output=$2; fi
                shift
            done";

/// A folder with a `gmx` in it; removed at the end.
pub struct Volume(pub PathBuf);

impl Volume {
    pub fn new(gmx: &str) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("submitter-probe-{}-{number}", std::process::id()));
        std::fs::create_dir_all(folder.join("bin")).expect("should make a folder");
        let program = folder.join("bin/gmx");
        std::fs::write(&program, format!("#!/bin/sh\n{gmx}\n")).expect("should write gmx");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
            .expect("should be executable");
        Self(folder)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, "x").expect("should write a file");
        path
    }

    pub fn run(&self, script: &str, arguments: &[&Path]) -> Output {
        self.run_by("sh", script, arguments)
    }

    /// Images have one shell or another as `sh`.
    pub fn run_by(&self, shell: &str, script: &str, arguments: &[&Path]) -> Output {
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        Command::new(shell)
            .args(["-c", script, "probe"])
            .args(arguments)
            .env("PATH", path)
            .env("TERMINATION_LOG", self.0.join("message"))
            .output()
            .expect("should run a shell")
    }

    pub fn message(&self) -> String {
        std::fs::read_to_string(self.0.join("message")).unwrap_or_default()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
