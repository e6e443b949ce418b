//! Runs kubectl against a cluster.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use super::Cluster;

impl Cluster {
    /// A kubectl command as the cluster's administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binary("kubectl"));
        command.env("KUBECONFIG", self.kubeconfig()).args(arguments).stdin(Stdio::null());
        // A user's own kubectl preferences and proxies must not change what happens.
        command.env("KUBERC", "off").env("NO_PROXY", "*").env("no_proxy", "*");
        command
    }

    /// What kubectl prints; its complaint is the error.
    pub(crate) fn kubectl_output(&self, arguments: &[&str]) -> Result<String> {
        finish(self.kubectl(arguments).output(), arguments)
    }

    /// Gives kubectl a document on its standard input.
    pub(crate) fn kubectl_with_input(&self, arguments: &[&str], document: &[u8]) -> Result<String> {
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

fn finish(output: std::io::Result<Output>, arguments: &[&str]) -> Result<String> {
    let output = output.context("cannot run kubectl")?;
    if !output.status.success() {
        bail!("kubectl {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
