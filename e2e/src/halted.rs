//! Processes of the tests' cluster, halted for a while: they neither do anything nor know of it afterwards.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A halted process; it goes on when this is dropped.
#[derive(Debug)]
pub struct Halted(Pid);

impl Halted {
    /// Halts the kubelet: for everybody else its node is lost, and what runs there runs on.
    ///
    /// # Errors
    /// If it is not found on this machine.
    pub fn kubelet() -> Result<Self> {
        // Another cluster may be on this machine: a component is known by its program, which each cluster has in a folder of
        // its own, beside kubectl.
        let kubectl = std::env::var_os(crate::KUBECTL).context("the tests have no cluster of their own")?;
        Self::program(&Path::new(&kubectl).with_file_name("kubelet"))
    }

    /// Halts the process that runs a program, as its command line names it.
    ///
    /// # Errors
    /// If it is not found on this machine.
    pub fn program(program: &Path) -> Result<Self> {
        Self::first(&format!("{}", program.display()), |process| runs(process, program))
    }

    /// Halts the operator in one of its pods.
    ///
    /// # Errors
    /// If it is not found on this machine.
    pub fn operator(pod: &str) -> Result<Self> {
        // Pods of other clusters on this machine have other names.
        let host = format!("HOSTNAME={pod}");
        Self::first(&format!("the operator of pod {pod}"), |process| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            Path::new(OsStr::from_bytes(&program(process))).ends_with("scavenger-operator")
                && environment.split(|byte| *byte == 0).any(|variable| variable == host.as_bytes())
        })
    }

    /// Halts the first process whose folder in /proc satisfies `is_it`.
    fn first(what: &str, is_it: impl Fn(&Path) -> bool) -> Result<Self> {
        let Some(id) = find(is_it)? else { bail!("no process on this machine runs {what}") };
        kill(id, Signal::SIGSTOP).with_context(|| format!("cannot halt process {id}"))?;
        Ok(Self(id))
    }

    /// Ends the process without a chance to end anything.
    ///
    /// # Errors
    /// If this program may not.
    pub fn kill(self) -> Result<()> {
        kill(self.0, Signal::SIGKILL).with_context(|| format!("cannot kill process {}", self.0))
    }
}

/// True if a process on this machine runs a program, as its command line names it.
///
/// # Errors
/// If processes cannot be listed.
pub fn is_running(program: &Path) -> Result<bool> {
    Ok(find(|process| runs(process, program))?.is_some())
}

/// The first process whose folder in /proc satisfies `is_it`.
fn find(is_it: impl Fn(&Path) -> bool) -> Result<Option<Pid>> {
    for entry in std::fs::read_dir("/proc").context("cannot list the processes in /proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if is_it(&entry.path()) {
            return Ok(Some(Pid::from_raw(id)));
        }
    }
    Ok(None)
}

fn runs(process: &Path, wanted: &Path) -> bool {
    Path::new(OsStr::from_bytes(&program(process))) == wanted
}

/// The program of a process, as its command line names it.
fn program(process: &Path) -> Vec<u8> {
    let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

impl Drop for Halted {
    fn drop(&mut self) {
        // One that has ended is started again by the cluster.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}
