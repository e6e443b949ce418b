//! The kubelet of the tests' cluster, halted for a while: for everybody else its node is lost, and what runs there runs
//! on.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A halted kubelet; it goes on when this is dropped.
#[derive(Debug)]
pub struct Halted(Pid);

impl Halted {
    /// Halts the kubelet of the tests' cluster.
    ///
    /// # Errors
    /// If it is not found on this machine.
    pub fn now() -> Result<Self> {
        // Another cluster may be on this machine: a component is known by its program, which each cluster has in a folder of
        // its own, beside kubectl.
        let kubectl = std::env::var_os(crate::KUBECTL).context("the tests have no cluster of their own")?;
        let kubelet = Path::new(&kubectl).with_file_name("kubelet");
        for entry in std::fs::read_dir("/proc").context("cannot list the processes in /proc")?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
            if Path::new(OsStr::from_bytes(program)) == kubelet {
                let id = Pid::from_raw(id);
                kill(id, Signal::SIGSTOP).with_context(|| format!("cannot halt process {id}"))?;
                return Ok(Self(id));
            }
        }
        bail!("no process on this machine runs {}", kubelet.display())
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        // One that has ended is started anew by the cluster.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}
