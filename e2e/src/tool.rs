//! `scavenger-operator` as an admin or a tenant runs it on a machine outside of the cluster, with a kubeconfig.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::{
    local::{Printed, program},
    users,
};

/// The kubeconfig of the tests' own admin, who impersonates a user if one is given.
///
/// # Errors
/// If the tests have no cluster.
pub fn kubeconfig(user: Option<&str>) -> Result<tempfile::NamedTempFile> {
    let mut config = users::kubeconfig()?;
    for auth in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        auth.impersonate = user.map(str::to_owned);
    }
    let file = tempfile::NamedTempFile::new()?;
    serde_json::to_writer(&file, &config)?;
    Ok(file)
}

/// Somebody with a kubeconfig.
pub struct Tool {
    kubeconfig: tempfile::NamedTempFile,
}

impl Tool {
    /// The admin of the cluster, or a user with the rights that the test gives it.
    ///
    /// # Errors
    /// If the tests have no cluster.
    pub fn of(user: Option<&str>) -> Result<Self> {
        Ok(Self { kubeconfig: kubeconfig(user)? })
    }

    /// Runs a verb to its end.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn run(&self, arguments: &[&str]) -> Result<Printed> {
        let output = Command::new(program("scavenger-operator")?)
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", self.kubeconfig.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .context("the operator's program does not start")?;
        Ok(output.into())
    }

    /// What a verb prints when all is well.
    ///
    /// # Errors
    /// What it complains about.
    pub async fn good(&self, arguments: &[&str]) -> Result<String> {
        let printed = self.run(arguments).await?;
        ensure!(printed.code == Some(0), "{arguments:?}: {printed:?}");
        Ok(printed.stdout)
    }

    /// Checks that a verb does not do it, and that its message contains every one of `words`.
    ///
    /// # Errors
    /// If it was done, or a word is missing.
    pub async fn refused(&self, arguments: &[&str], words: &[&str]) -> Result<()> {
        let printed = self.run(arguments).await?;
        ensure!(printed.code == Some(1), "{arguments:?}: {printed:?}");
        for word in words {
            ensure!(printed.stderr.contains(word), "{arguments:?}: {word:?} is not in: {printed:?}");
        }
        Ok(())
    }
}
