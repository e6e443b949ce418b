//! Runs kubectl against a cluster: a development cluster, or any other.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use super::Cluster;

/// How a cluster is reached: all that a task needs to know of one that it does not run.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    /// True if the user's proxies must not be used.
    is_local: bool,
    /// Asked before each command; says why no further one may run.
    may_go_on: fn() -> Result<()>,
}

impl Access {
    /// A cluster anywhere, with a kubeconfig that names no other.
    pub(crate) fn new(kubectl: PathBuf, kubeconfig: PathBuf, may_go_on: fn() -> Result<()>) -> Self {
        Self { kubectl, kubeconfig, is_local: false, may_go_on }
    }

    /// The same without being asked whether it may go on, for what must be done at the end in any case.
    pub(crate) fn to_the_end(&self) -> Self {
        Self { may_go_on: || Ok(()), ..self.clone() }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Whether the next step may be taken.
    pub(crate) fn may_go_on(&self) -> Result<()> {
        (self.may_go_on)()
    }

    /// A kubectl command with the rights of the kubeconfig.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", &self.kubeconfig).args(arguments).stdin(Stdio::null());
        // A user's own preferences of kubectl must not change what happens.
        command.env("KUBERC", "off");
        if self.is_local {
            command.env("NO_PROXY", "*").env("no_proxy", "*");
        }
        command
    }

    /// What kubectl prints; its complaint is the error.
    pub(crate) fn kubectl_output(&self, arguments: &[&str]) -> Result<String> {
        self.may_go_on()?;
        finish(self.kubectl(arguments).output(), arguments)
    }

    /// Gives kubectl a document on its standard input.
    pub(crate) fn kubectl_with_input(&self, arguments: &[&str], document: &[u8]) -> Result<String> {
        self.may_go_on()?;
        let mut command = self.kubectl(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run kubectl")?;
        let mut input = child.stdin.take().expect("should be piped");
        // kubectl reads all of its input before it prints; if it ends early, its own message says why.
        let _ = input.write_all(document);
        drop(input);
        finish(child.wait_with_output(), arguments)
    }
}

impl Cluster {
    /// How the cluster is reached, as its administrator.
    pub(crate) fn access(&self) -> Access {
        Access {
            kubectl: self.binary("kubectl"),
            kubeconfig: self.kubeconfig(),
            is_local: true,
            may_go_on: || Ok(()),
        }
    }

    /// What kubectl prints; its complaint is the error.
    pub(crate) fn kubectl_output(&self, arguments: &[&str]) -> Result<String> {
        self.access().kubectl_output(arguments)
    }
}

fn finish(output: std::io::Result<Output>, arguments: &[&str]) -> Result<String> {
    let output = output.context("cannot run kubectl")?;
    if !output.status.success() {
        bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
