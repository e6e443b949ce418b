//! kubectl as the README's readers use it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A file or folder of the checkout.
#[must_use]
pub fn checkout(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

/// Runs kubectl against the tests' cluster and returns what it prints.
///
/// # Errors
/// What it complains about.
pub async fn kubectl(arguments: &[&str]) -> Result<String> {
    let program = std::env::var_os(crate::KUBECTL).unwrap_or_else(|| "kubectl".into());
    let kubeconfig = std::env::var_os(crate::KUBECONFIG).context("the tests have no cluster")?;
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        // A user's own kubectl preferences and proxies must not change what happens.
        .env("KUBERC", "off")
        .env("NO_PROXY", "*")
        .env("no_proxy", "*")
        .kill_on_drop(true)
        .output()
        .await
        .context("kubectl does not run")?;
    if !output.status.success() {
        bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
