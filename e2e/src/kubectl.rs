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

/// Applies a file of deploy/examples as it is.
///
/// # Errors
/// What kubectl complains about.
pub async fn apply_example(namespace: &str, file: &str) -> Result<String> {
    let path = checkout("deploy/examples").join(file);
    let path = path.to_str().context("the checkout's path is no text")?;
    kubectl(&["apply", "--namespace", namespace, "-f", path]).await
}

/// Runs a script of a document as its reader would: in the checkout, with kubectl in the path. It ends at the first
/// command that fails.
///
/// # Errors
/// What it complains about.
pub async fn script(text: &str) -> Result<String> {
    let kubeconfig = std::env::var_os(crate::KUBECONFIG).context("the tests have no cluster")?;
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) =
        std::env::var_os(crate::KUBECTL).as_deref().and_then(|path| Path::new(path).parent())
    {
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        path = std::env::join_paths(folders).context("kubectl's folder cannot be put into PATH")?;
    }
    let output = tokio::process::Command::new("sh")
        .args(["-e", "-u", "-c", text])
        .current_dir(checkout(""))
        .envs([("KUBECONFIG", kubeconfig), ("PATH", path)])
        .envs([("KUBERC", "off"), ("NO_PROXY", "*"), ("no_proxy", "*")])
        .kill_on_drop(true)
        .output()
        .await
        .context("sh does not run")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{}\nfailed: {}", text.trim(), complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
