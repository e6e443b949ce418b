//! What a machine lacks is said in one sentence, before anything on it was changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A program that is being copied for one test must not be open in a process that another test forks: it could not be
/// run ("text file busy").
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A machine with nothing but the programs that a test puts there.
struct Machine {
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder should be made");
        // For a user who is not root.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
            .expect("should work in a folder of our own");
        fs::create_dir(folder.path().join("bin")).expect("should work in a folder of our own");
        // A copy: the build's folder need not be open to others.
        fs::copy(env!("CARGO_BIN_EXE_xtask"), folder.path().join("xtask"))
            .expect("should work in a folder of our own");
        Self { folder, _turn: turn }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("should work in a folder of our own");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .expect("should work in a folder of our own");
    }

    /// The program of that name as this machine really has it.
    fn real(&self, name: &str) {
        let path = std::env::var_os("PATH").expect("should be set");
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.exists());
        symlink(found.unwrap_or_else(|| panic!("{name} should be installed")), self.path("bin").join(name))
            .expect("should work in a folder of our own");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("xtask"));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .current_dir(self.folder.path());
        command
    }

    /// The one sentence with which it ends, having changed nothing.
    fn refusal(&self, command: &mut Command) -> String {
        let output = command.output().expect("should work in a folder of our own");
        let complaint = String::from_utf8(output.stderr).expect("should work in a folder of our own");
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        // Go itself keeps counters of its use.
        assert!(!self.path("home/.cache/scavengerjobs").exists(), "a cache was made");
        complaint
    }
}

/// Every task that needs a cluster looks at the machine first.
const TASKS: [&[&str]; 3] =
    [&["demo", "--name=preflight"], &["test", "--name=preflight"], &["cluster", "up", "--name=preflight"]];

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    assert!(root || std::env::var_os("CI").is_none(), "these tests need root, as the tasks themselves do");
    if !root {
        eprintln!("SKIPPED: needs root, without which no task gets so far");
    }
    root
}

#[test]
fn without_root() {
    for task in TASKS {
        let machine = Machine::new();
        let mut command = machine.command(task);
        if nix::unistd::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let said = machine.refusal(&mut command);
        assert!(said.contains("needs root") && said.contains("sudo"), "{said}");
    }
}

#[test]
fn without_go() {
    if !is_root() {
        return;
    }
    for task in TASKS {
        let machine = Machine::new();
        let said = machine.refusal(&mut machine.command(task));
        assert!(said.contains("the Go toolchain is missing: install Go"), "{said}");
    }
}

#[test]
fn with_a_go_that_is_too_old() {
    if !is_root() {
        return;
    }
    for task in TASKS {
        let machine = Machine::new();
        machine.script("go", "echo go1.19.8");
        let said = machine.refusal(&mut machine.command(task));
        assert!(said.contains("Go 1.19.8 is too old") && said.contains("or newer"), "{said}");
    }
}

#[test]
fn with_a_package_missing_that_shall_not_be_installed() {
    if !is_root() {
        return;
    }
    for task in TASKS {
        let machine = Machine::new();
        machine.real("go");
        machine.script("dpkg-query", "echo 'conntrack installed'");
        machine.script("apt-get", &format!("touch {}", machine.path("installed").display()));
        let said = machine.refusal(machine.command(task).arg("--no-install"));
        assert!(said.contains("apt-get install --no-install-recommends"), "{said}");
        assert!(said.contains(" runc ") && !said.contains("conntrack"), "{said}");
        assert!(!Path::new(&machine.path("installed")).exists(), "a package was installed");
    }
}
